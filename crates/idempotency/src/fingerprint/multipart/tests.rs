use super::*;
use proptest::prelude::*;

fn hash(boundary: &str, body: &str) -> Result<[u8; 32], ContentFault> {
    digest(&MediaType::parse(&format!("multipart/form-data; boundary={boundary}")), body.as_bytes())
}

/// A form of parts, each its headers and its content.
fn form(boundary: &str, parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (headers, content) in parts {
        body.extend(["--", boundary, "\r\n", headers, "\r\n\r\n", content, "\r\n"]);
    }
    format!("{body}--{boundary}--\r\n")
}

fn field(name: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{name}\"")
}

fn same(a: &str, b: &str) -> bool {
    hash("b", a).unwrap_or_else(|fault| panic!("{a}: {fault}"))
        == hash("b", b).unwrap_or_else(|fault| panic!("{b}: {fault}"))
}

fn why(body: &str) -> String {
    match hash("b", body) {
        Err(ContentFault::Malformed(why)) => why,
        other => panic!("{body} gave {other:?}"),
    }
}

#[test]
fn the_boundary_and_what_stands_around_the_parts_do_not_count() {
    let parts = [(&field("a")[..], "1"), (&field("b")[..], "2\r\n--\r\n--x\n")];
    let plain = form("b", &parts);
    let reference = hash("b", &plain).expect("a form");
    for boundary in ["WebKitFormBoundary7MA4YWxk", "a", "------", "\"a b:c=d?\"", "\"a,b\""] {
        let bare = boundary.trim_matches('"');
        assert_eq!(hash(boundary, &form(bare, &parts)), Ok(reference), "{boundary}");
    }
    assert!(same(&plain, &format!("preamble --b\nand more\r\n{plain}")));
    assert!(same(&plain, &format!("{plain}epilogue\r\n--b\r\n--b--")));
    assert!(same(&plain, plain.strip_suffix("\r\n").expect("ends so")));
    assert!(same(&plain, &plain.replace("--b\r\n", "--b \t\r\n")));
    assert!(same(&plain, &plain.replace("--b--\r\n", "--b-- \r\n")));
}

#[test]
fn spellings_of_one_part_are_one() {
    let plain = form(
        "b",
        &[(
            "Content-Disposition: form-data; name=\"a\"; filename=\"f.txt\"\r\nContent-Type: text/plain; charset=UTF-8",
            "1",
        )],
    );
    for headers in [
        "content-disposition:form-data;name=a;filename=f.txt\r\ncontent-type:Text/Plain;charset=\"utf-8\"",
        "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: Form-Data ; FileName=\"f.txt\" ; NAME=\"a\"",
        "X-Other: 1\r\nContent-Disposition: form-data; x=y; name=\"a\"; filename=\"f.txt\"\r\nContent-Type: text/plain; charset=utf-8",
    ] {
        assert!(same(&plain, &form("b", &[(headers, "1")])), "{headers}");
    }
}

#[test]
fn everything_that_a_part_says_counts() {
    let bodies = [
        form("b", &[]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"", "")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"", "1\r\n")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"", "\r\n\r\n1")]),
        form("b", &[("Content-Disposition: form-data; name=\"A\"", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"\"", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a1\"", "")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"; filename=\"\"", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"; filename=\"f\"", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"; filename*=\"f\"", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: f", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: f;charset=x", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: f", "1")]),
        form("b", &[("Content-Disposition: form-data; name=\"a\\\"; filename=\\\"f\"", "1")]),
        form("b", &[(&field("a"), "1"), (&field("c"), "2")]),
        form("b", &[(&field("c"), "2"), (&field("a"), "1")]),
        form("b", &[(&field("a"), "1"), (&field("a"), "1")]),
    ];
    for (at, a) in bodies.iter().enumerate() {
        for b in &bodies[at + 1..] {
            assert!(!same(a, b), "{a}\nand\n{b}");
        }
    }
}

#[test]
fn a_form_that_two_parsers_could_read_in_two_ways_is_malformed() {
    let good = form("b", &[(&field("a"), "1")]);
    let with = |headers: &str| form("b", &[(headers, "1")]);
    let table = [
        ("empty", String::new(), "first boundary"),
        ("no boundary", "hello".into(), "first boundary"),
        ("LF only", good.replace("\r\n", "\n"), "CR LF"),
        ("LF only, with a preamble", format!("x\n{}", good.replace("\r\n", "\n")), "first boundary"),
        ("LF after the headers", good.replace("\r\n\r\n", "\n\n"), "no empty line"),
        ("LF after a boundary", good.replacen("--b\r\n", "--b\n", 1), "CR LF"),
        ("no end", good.replace("--b--\r\n", ""), "last boundary"),
        ("an end that is cut by one byte", good.replace("--b--\r\n", "--b-"), "line of a boundary"),
        ("an end that is cut by two bytes", good.replace("--b--\r\n", "--b"), "line of a boundary"),
        ("an end that is a beginning", good.replace("--b--\r\n", "--b\r\n"), "last boundary"),
        ("an end with more", good.replace("--b--\r\n", "--b--x\r\n"), "line of a boundary"),
        ("a boundary that goes on", form("b", &[(&field("a"), "1\r\n--bc\r\n1")]), "line of a boundary"),
        ("only an end that is cut", "--b".into(), "line of a boundary"),
        ("no headers", "--b\r\n\r\n1\r\n--b--".into(), "no empty line"),
        ("no empty line", format!("--b\r\n{}\r\n--b--", field("a")), "no empty line"),
        (
            "an empty line that belongs to the boundary",
            format!("--b\r\n{}\r\n\r\n--b--", field("a")),
            "no empty line",
        ),
        ("no disposition", with("Content-Type: text/plain"), "no Content-Disposition"),
        ("no name", with("Content-Disposition: form-data"), "no name"),
        ("a file without a name", with("Content-Disposition: form-data; filename=f"), "no name"),
        ("another disposition", with("Content-Disposition: attachment; name=a"), "not form-data"),
        ("two dispositions", with(&format!("{0}\r\n{0}", field("a"))), "header twice"),
        (
            "two types",
            with(&format!("{}\r\nContent-Type: a/b\r\ncontent-type: c/d", field("a"))),
            "header twice",
        ),
        ("two names", with("Content-Disposition: form-data; name=a; name=b"), "parameter twice"),
        (
            "two file names",
            with("Content-Disposition: form-data; name=a; filename=b; filename=c"),
            "parameter twice",
        ),
        ("a folded header", with("Content-Disposition: form-data;\r\n name=a"), "no colon"),
        ("a folded header with a colon", with(&format!("{}\r\n x: y", field("a"))), "no valid name"),
        ("a bare line feed", with(&format!("{}\nX: y", field("a"))), "control character"),
        ("a bare carriage return", with(&format!("{}\rX: y", field("a"))), "control character"),
        ("a quote that does not end", with("Content-Disposition: form-data; name=\"a"), "cannot be read"),
        ("a quote that is escaped", with("Content-Disposition: form-data; name=\"a\\\""), "cannot be read"),
        ("something after a quote", with("Content-Disposition: form-data; name=\"a\"b"), "cannot be read"),
        ("a quote in a token", with("Content-Disposition: form-data; name=a\"b\""), "cannot be read"),
        ("no value", with("Content-Disposition: form-data; name="), "cannot be read"),
        ("nothing after a semicolon", with("Content-Disposition: form-data; name=a;"), "cannot be read"),
    ];
    for (what, body, expected) in table {
        let said = why(&body);
        assert!(said.contains(expected), "{what}: {said}");
    }
}

#[test]
fn a_boundary_in_the_content_is_content_unless_a_line_begins_with_it() {
    let within = form("b", &[(&field("a"), "x--b\r\n-b\n--b--\r\r--b")]);
    assert!(!same(&within, &form("b", &[(&field("a"), "x")])));
    let inner = form("inner", &[(&field("c"), "1")]);
    let nested =
        form("b", &[(&format!("{}\r\nContent-Type: multipart/mixed; boundary=inner", field("a")), &inner)]);
    assert!(hash("b", &nested).is_ok());
}

#[test]
fn a_boundary_has_one_to_seventy_characters_of_its_set() {
    let good =
        |boundary: &str| hash(&format!("\"{boundary}\""), &form(boundary, &[(&field("a"), "1")])).is_ok();
    assert!(good(&"x".repeat(70)) && good("a b"));
    for bad in ["", "a ", "a\u{e9}", "a*b", &"x".repeat(71)] {
        assert!(!good(bad), "{bad}");
    }
    assert!(digest(&MediaType::parse("multipart/form-data"), b"--\r\n").is_err());
}

proptest! {
    #[test]
    fn forms_are_equal_exactly_when_their_parts_are(
        a in prop::collection::vec(("[ab]{1,2}", prop::option::of("[ab]{0,2}"), "[ab\r\n-]{0,6}"), 0..4),
        b in prop::collection::vec(("[ab]{1,2}", prop::option::of("[ab]{0,2}"), "[ab\r\n-]{0,6}"), 0..4),
    ) {
        let write = |boundary: &str, parts: &[(String, Option<String>, String)]| {
            let parts: Vec<(String, &str)> = parts
                .iter()
                .map(|(name, file, content)| {
                    let file = file.as_ref().map_or(String::new(), |file| format!("; filename=\"{file}\""));
                    (format!("{}{file}", field(name)), &content[..])
                })
                .collect();
            let parts: Vec<(&str, &str)> = parts.iter().map(|(headers, content)| (&headers[..], *content)).collect();
            hash(boundary, &form(boundary, &parts))
        };
        prop_assert_eq!(write("first-attempt", &a).expect("a form"), write("second", &a).expect("a form"));
        prop_assert_eq!(write("first-attempt", &a) == write("second", &b), a == b);
    }

    #[test]
    fn whatever_is_sent_is_a_form_or_malformed(text in "(--b|\r\n|--|Content-Disposition: form-data|; name=|\"|a|:| |\n){0,30}") {
        match hash("b", &text) {
            Ok(_) | Err(ContentFault::Malformed(_)) => {}
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}
