use super::*;
use crate::form::{Form, form, form_without};

fn without(paths: &[&str]) -> Without {
    Without::new(paths.iter().copied()).unwrap_or_else(|fault| panic!("{paths:?}: {fault}"))
}

#[track_caller]
fn check(paths: &[&str], text: &str, left: &str) {
    let left = Form { bytes: form(left.as_bytes()).expect(left), is_nothing_left: false };
    assert_eq!(form_without(text.as_bytes(), &without(paths)), Ok(left), "{paths:?} {text}");
}

#[test]
fn what_a_path_names_is_left_out_and_nothing_else() {
    let table: &[(&[&str], &str, &str)] = &[
        (&["/a"], r#"{"a":1,"b":2}"#, r#"{"b":2}"#),
        (&["/a"], r#"{"b":2,"a":{"x":[1,2]}}"#, r#"{"b":2}"#),
        (&["/a"], r#"{"b":{"a":1}}"#, r#"{"b":{"a":1}}"#),
        (&["/a"], r#"[{"a":1}]"#, r#"[{"a":1}]"#),
        (&["/a/b"], r#"{"a":{"b":1,"c":2},"b":3}"#, r#"{"a":{"c":2},"b":3}"#),
        (&["/a/*"], r#"{"a":{"b":1,"c":2},"b":3}"#, r#"{"a":{},"b":3}"#),
        (&["/*/at"], r#"{"a":{"at":1,"c":2},"at":3}"#, r#"{"a":{"c":2},"at":3}"#),
        (&["/lines/*/at"], r#"{"lines":[{"at":1,"c":2},{"c":3,"at":4}]}"#, r#"{"lines":[{"c":2},{"c":3}]}"#),
        (&["/lines/1"], r#"{"lines":[1,2,3]}"#, r#"{"lines":[1,3]}"#),
        (&["/lines/0"], r#"{"lines":[1,2,3]}"#, r#"{"lines":[2,3]}"#),
        (&["/lines/01"], r#"{"lines":[1,2,3]}"#, r#"{"lines":[1,2,3]}"#),
        (&["/1"], r#"{"1":2,"3":4}"#, r#"{"3":4}"#),
        (&["/**/at"], r#"{"at":1,"a":[{"at":2,"b":{"at":3,"c":4}}]}"#, r#"{"a":[{"b":{"c":4}}]}"#),
        (&["/a/**/at"], r#"{"at":1,"a":{"at":2,"b":{"at":3,"c":4}}}"#, r#"{"at":1,"a":{"b":{"c":4}}}"#),
        (&["/a/**"], r#"{"a":{"b":1},"c":2}"#, r#"{"c":2}"#),
        (&["/**/a/**/b"], r#"{"x":{"a":{"y":{"b":1,"c":2}}}}"#, r#"{"x":{"a":{"y":{"c":2}}}}"#),
        (&["/a", "/b"], r#"{"c":0,"b":1,"a":2}"#, r#"{"c":0}"#),
        (&["/a~1b", "/c~0d", "/e~2"], r#"{"a/b":1,"c~d":2,"e*":3,"f":4}"#, r#"{"f":4}"#),
        (&["/é"], r#"{"\u00e9":1,"e":2}"#, r#"{"e":2}"#),
        (&["/"], r#"{"":1,"e":2}"#, r#"{"e":2}"#),
        // Which of the two counts does not matter when neither does.
        (&["/a"], r#"{"a":1,"b":2,"a":3}"#, r#"{"b":2}"#),
        (&["/x"], "7", "7"),
        (&["/a/b"], r#"{"a":{"b":1},"c":[]}"#, r#"{"a":{},"c":[]}"#),
    ];
    for (paths, text, left) in table {
        check(paths, text, left);
    }
}

#[test]
fn members_that_stay_are_still_put_in_order_and_refused_twice() {
    check(&["/m"], r#"{"z":1,"m":2,"a":3}"#, r#"{"a":3,"z":1}"#);
    let fault = form_without(br#"{"b":1,"m":0,"b":2}"#, &without(&["/m"])).expect_err("a name twice");
    assert!(fault.to_string().contains("a name twice"), "{fault}");
}

#[test]
fn what_is_left_out_must_still_be_json() {
    for text in [r#"{"a":01}"#, r#"{"a":"\x"}"#, r#"{"a":[1,]}"#, r#"{"a":{"b":1,"b":2}}"#] {
        assert!(form_without(text.as_bytes(), &without(&["/a"])).is_err(), "{text}");
    }
}

#[test]
fn it_is_told_when_nothing_is_left() {
    for (paths, text, nothing) in [
        (&["/a"][..], r#"{"a":1}"#, true),
        (&["/a/b"], r#"{"a":{"b":1}}"#, true),
        (&["/a", "/b"], r#"{"a":1,"b":{"c":2}}"#, true),
        (&["/a"], r#"{"a":1,"b":[]}"#, false),
        (&["/a"], r#"{"b":null}"#, false),
        (&["/a"], "{}", false),
        (&["/*/a"], r#"[{"a":1},{"a":2}]"#, true),
    ] {
        let form = form_without(text.as_bytes(), &without(paths)).expect(text);
        assert_eq!(form.is_nothing_left, nothing, "{paths:?} {text}");
    }
}

#[test]
fn a_list_that_cannot_be_meant_is_refused_and_says_why() {
    let many: Vec<String> = (0..65).map(|at| format!("/{at}")).collect();
    let (long, deep) = (format!("/{}", "a".repeat(1024)), "/a".repeat(33));
    for (path, why) in [
        ("", "leaves out everything"),
        ("/*", "leaves out everything"),
        ("/**", "leaves out everything"),
        ("/**/*", "leaves out everything"),
        ("/*/**", "leaves out everything"),
        ("a", "does not begin with a `/`"),
        ("$.a", "does not begin with a `/`"),
        ("/a~", "a `~` without"),
        ("/a~3", "a `~` without"),
        ("/a*", "written `~2`"),
        (&long, "longer than 1024"),
        (&deep, "more than 32 levels"),
    ] {
        let said = Without::new([path]).expect_err(path).to_string();
        assert!(said.contains(why), "{path}: {said}");
    }
    let said = Without::new(many.iter().map(String::as_str)).expect_err("65").to_string();
    assert!(said.contains("65 fields"), "{said}");
}

#[test]
fn the_version_tells_lists_apart_and_nothing_else() {
    let version = |paths: &[&str]| without(paths).version("v1");
    assert_eq!(version(&[]), "v1");
    assert_eq!(version(&["/a", "/b"]), version(&["/b", "/a", "/b"]));
    assert_ne!(version(&["/a"]), version(&["/b"]));
    assert_ne!(version(&["/a", "/b"]), version(&["/a/b"]));
    assert!(version(&["/a"]).starts_with("v1;without="));
}
