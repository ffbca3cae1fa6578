use super::*;

fn event() -> Event {
    Event::new("order.placed", "/shop").expect("valid")
}

#[test]
fn attributes_are_what_cloud_events_allows() {
    let long = "a".repeat(65);
    for (name, value, why) in [
        ("", "x", "letters a to z"),
        ("Id", "x", "letters a to z"),
        ("order-id", "x", "letters a to z"),
        ("ordér", "x", "letters a to z"),
        (&*long, "x", "longer than 64"),
        ("data", "x", "message's data"),
        ("specversion", "1.0", "version of CloudEvents"),
        ("type", "", "is empty"),
        ("source", "", "is empty"),
        ("id", "", "is empty"),
        ("subject", "", "is empty"),
        ("idempotencykey", "", "is empty"),
        ("subject", "a\u{7}", "control character"),
        ("subject", "a\u{85}", "control character"),
        ("subject", "a\u{fdd0}", "noncharacter"),
        ("subject", "a\u{1ffff}", "noncharacter"),
        ("time", "yesterday", "RFC 3339"),
        ("datacontenttype", "text/plän", "Content-Type"),
        ("datacontenttype", " text/plain", "white space"),
    ] {
        let error = event().set(name, value).expect_err(name).to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    let mut event = event();
    for (name, value) in [("id", "€ 😀\u{e000}"), ("comexample1", ""), ("time", "2026-11-19T21:30:00Z")] {
        event.set(name, value).expect(name);
        assert_eq!(event.attribute(name), Some(value));
    }
    event.set("type", "order.paid").expect("a type");
    assert_eq!((event.kind(), event.attribute("type")), ("order.paid", Some("order.paid")));
}

#[test]
fn attributes_are_bounded_in_number() {
    let mut event = event();
    for at in 0..ATTRIBUTES_MAX {
        event.set(&format!("a{at}"), "x").expect("within the bound");
    }
    assert_eq!(event.set("one", "x"), Err(AttributeError::TooMany));
    assert_eq!(event.set("a0", "y"), Ok(()));
}

#[test]
fn only_json_loses_white_space_and_no_bytes_are_no_data() {
    for (media, bytes, data) in [
        ("application/json", &b"\xef\xbb\xbf \n{} \r\n"[..], Some(&b"{}"[..])),
        ("application/vnd.x+json; charset=UTF-8", b" 1 ", Some(b"1")),
        ("application/json; charset=utf-16", b" 1 ", Some(b" 1 ")),
        ("text/plain", b" a ", Some(b" a ")),
        ("text/plain", b"", None),
        ("application/json", b" \n", None),
    ] {
        let mut event = event();
        event.set("datacontenttype", media).expect(media);
        event.set_data(Some(bytes.to_vec()));
        assert_eq!(event.data(), data, "{media}");
    }
}

#[test]
fn the_type_may_be_said_before_or_after_the_data() {
    let (mut before, mut after) = (event(), event());
    before.set("datacontenttype", "application/json").expect("a type");
    before.set_data(Some(b" 1 ".to_vec()));
    after.set_data(Some(b" 1 ".to_vec()));
    after.set("datacontenttype", "application/json").expect("a type");
    assert_eq!(before, after);
}
