use super::*;

fn event(attributes: &[(&str, &str)], json: &str) -> Event {
    let mut event = Event::new("order.placed", "/shop").expect("valid");
    for (name, value) in attributes {
        event.set(name, value).expect(name);
    }
    event.set_json(json);
    event
}

fn of(event: &Event) -> Identity {
    Identity::of(event, &Rule::default()).expect("something is left")
}

fn without(paths: &[&str]) -> Rule {
    Rule { without: Without::new(paths.iter().copied()).expect("valid"), ..Rule::default() }
}

const KEY: (&str, &str) = ("idempotencykey", "8e03978e-40d5-43e8-bc93-6894a57f9324");

#[test]
fn a_key_comes_before_an_id_and_an_id_before_the_fingerprint() {
    assert_eq!(of(&event(&[KEY, ("id", "1")], "1")).basis, Basis::Key);
    assert_eq!(of(&event(&[("id", "1")], "1")).basis, Basis::Id);
    let by_data = of(&event(&[], "1"));
    assert_eq!((by_data.basis, by_data.name), (Basis::Fingerprint, by_data.payload));
}

#[test]
fn the_same_name_with_another_payload_is_a_conflict() {
    let first = of(&event(&[("id", "1")], "{\"a\":1}"));
    for (other, comparison) in [
        (event(&[("id", "1"), ("time", "2026-11-19T21:30:00Z")], "{ \"a\" : 1.0 }"), Comparison::Duplicate),
        (event(&[("id", "1")], "{\"a\":2}"), Comparison::Conflict),
        (event(&[("id", "2")], "{\"a\":1}"), Comparison::Other),
        (event(&[KEY, ("id", "1")], "{\"a\":1}"), Comparison::Other),
        (event(&[], "{\"a\":1}"), Comparison::Other),
    ] {
        assert_eq!(of(&other).compare(&first), comparison, "{other:?}");
    }
}

#[test]
fn a_key_is_unique_whatever_the_source_and_an_id_within_it() {
    let mut elsewhere = event(&[("id", "1")], "1");
    elsewhere.set("source", "/other").expect("valid");
    assert_ne!(of(&event(&[("id", "1")], "1")).name, of(&elsewhere).name);
    elsewhere.set(KEY.0, &KEY.1.to_uppercase()).expect("valid");
    assert_eq!(of(&event(&[KEY], "1")).name, of(&elsewhere).name);
    let mixed = |key| of(&event(&[("idempotencykey", key)], "1")).name;
    assert_ne!(mixed("order-A"), mixed("order-a"));
}

#[test]
fn names_of_one_kind_are_never_those_of_another() {
    // A byte moved between source and id, and a key that is another message's id.
    let mut a = Event::new("t", "/ab").expect("valid");
    a.set("id", "c").expect("valid");
    let mut b = Event::new("t", "/a").expect("valid");
    b.set("id", "bc").expect("valid");
    let mut c = Event::new("t", "/a").expect("valid");
    c.set("idempotencykey", "bc").expect("valid");
    let names = [&a, &b, &c].map(|event| of(event).name);
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
}

#[test]
fn a_message_of_which_nothing_would_count_has_no_name_unless_it_has_an_id() {
    let rule = without(&["/sentAt"]);
    assert_eq!(Identity::of(&event(&[], "{\"sentAt\":1}"), &rule), Err(NothingLeft));
    assert!(Identity::of(&event(&[("id", "1")], "{\"sentAt\":1}"), &rule).is_ok());
    assert!(Identity::of(&event(&[], "{\"sentAt\":1,\"a\":1}"), &rule).is_ok());
    assert!(Identity::of(&event(&[], "{}"), &rule).is_ok());
}

#[test]
fn fields_that_are_left_out_make_no_conflict() {
    let rule = without(&["/**/sentAt"]);
    let of = |json| Identity::of(&event(&[("id", "1")], json), &rule).expect("an id");
    let first = of(r#"{"a":1,"x":{"sentAt":1}}"#);
    assert_eq!(of(r#"{"x":{"sentAt":2},"a":1}"#).compare(&first), Comparison::Duplicate);
    assert_eq!(of(r#"{"x":{"sentAt":2},"a":2}"#).compare(&first), Comparison::Conflict);
}

#[test]
fn data_beyond_the_bound_is_hashed_as_it_is() {
    let rule = Rule { canonical_bytes_max: 7, ..Rule::default() };
    let hash = |json| Identity::of(&event(&[], json), &rule).expect("something is left").name;
    assert_eq!(hash("{\"a\":1}"), of(&event(&[], "{\"a\":1}")).name);
    assert_ne!(hash("{\"a\":10}"), hash("{\"a\":1e1}"));
    assert_ne!(hash("{\"a\":10}"), of(&event(&[], "{\"a\":10}")).name);
}

#[test]
fn debug_does_not_show_a_hash() {
    assert_eq!(format!("{:?}", of(&event(&[], "1")).name), "Hash(..)");
    assert_eq!(of(&event(&[], "1")).name.to_string().len(), 64);
}
