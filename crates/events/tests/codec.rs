//! What is written is read again as the same message, in each mode, and whatever is sent is answered.

use perdura_events::{Event, Identity, Limits, Received, Rule, batch, binary, decode, structured};
use proptest::prelude::*;
use proptest::sample::select;

const LIMITS: Limits = Limits { bytes_max: 1 << 20, batch_max: 100 };

/// Text as attributes have it.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{1,12}",
        "[a-zé€😀\u{e000}\"%\\\\ ]{1,8}",
        any::<String>().prop_map(|text| {
            let is_allowed = |c: &char| {
                !c.is_control() && (*c as u32) & 0xFFFE != 0xFFFE && !('\u{fdd0}'..='\u{fdef}').contains(c)
            };
            text.chars().filter(is_allowed).chain(['x']).collect()
        }),
    ]
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(vec![
            "null",
            "true",
            "0",
            "-1.50",
            "9007199254740993",
            "1e400",
            "\"\\ud800\"",
            "\"\\u00e9\"",
            "{}",
            "[]"
        ])
        .prop_map(String::from),
        any::<String>().prop_map(|text| serde_json::Value::String(text).to_string()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| format!("[{}]", values.join(" ,"))),
            // A name twice, sometimes.
            prop::collection::vec(("[abc]", inner), 0..4).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(name, value)| format!("\"{name}\" :{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// A type and bytes of it, or none.
fn data() -> impl Strategy<Value = (Option<&'static str>, Vec<u8>)> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        (select(vec!["application/json", "application/vnd.order+json; charset=utf-8", "text/json"]), json())
            .prop_map(|(media, text)| (Some(media), text.into_bytes())),
        (select(vec!["application/json", "application/json; charset=utf-16"]), bytes())
            .prop_map(|(media, bytes)| (Some(media), bytes)),
        (select(vec!["text/plain", "application/xml", "text/plain; charset=latin1", "image/png"]), bytes())
            .prop_map(|(media, bytes)| (Some(media), bytes)),
        (select(vec!["text/plain; charset=UTF-8", "application/atom+xml"]), any::<String>())
            .prop_map(|(media, text)| (Some(media), text.into_bytes())),
        bytes().prop_map(|bytes| (None, bytes)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let attributes = prop::collection::btree_map(
        prop_oneof![
            select(vec!["subject", "dataschema", "idempotencykey", "traceparent", "partitionkey"])
                .prop_map(String::from),
            "x[a-z0-9]{0,19}",
        ],
        value(),
        0..5,
    );
    let time = prop::option::of(select(vec!["2018-04-05T17:31:00Z", "2026-11-19T22:30:00.123456789+01:00"]));
    (value(), value(), value(), attributes, time, data()).prop_map(
        |(kind, source, id, attributes, time, (media, bytes))| {
            let mut event = Event::new(&kind, &source).expect("valid");
            event.set("id", &id).expect("valid");
            for (name, value) in attributes {
                event.set(&name, &value).expect("valid");
            }
            for (name, value) in [("time", time), ("datacontenttype", media)] {
                if let Some(value) = value {
                    event.set(name, value).expect("valid");
                }
            }
            event.set_data(Some(bytes));
            event
        },
    )
}

fn one(received: Received) -> Event {
    match received {
        Received::One(event) => event,
        Received::Batch(_) => panic!("one message was sent"),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(event in event(), other in event()) {
        let (binary, structured) = (binary(&event).expect("an id"), structured(&event).expect("an id"));
        prop_assert_eq!(&one(decode(&binary.headers, &binary.body, &LIMITS).expect("binary")), &event);
        let read = one(decode(&structured.headers, &structured.body, &LIMITS).expect("structured"));
        prop_assert_eq!(&read, &event);
        let both = batch([&event, &other]).expect("ids");
        let Received::Batch(read) = decode(&both.headers, &both.body, &LIMITS).expect("a batch") else {
            return Err(TestCaseError::fail("a batch was sent"));
        };
        prop_assert_eq!(read, vec![Ok(event), Ok(other)]);
        prop_assert!(binary.headers.iter().all(|(_, value)| value.bytes().all(|byte| (b' '..=b'~').contains(&byte))));
        // Others read it too.
        if !structured.body.windows(2).any(|two| two == b"\\u") && !structured.body.windows(5).any(|text| text == b"1e400") {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&structured.body).is_ok());
        }
    }

    #[test]
    fn the_mode_and_what_belongs_to_a_delivery_do_not_count(event in event(), at in 0..3_usize) {
        let rule = Rule::default();
        let identity = Identity::of(&event, &rule).expect("an id");
        let sent = [binary(&event), structured(&event), batch([&event])][at].clone().expect("an id");
        let mut headers = sent.headers;
        headers.push(("traceparent".to_owned(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()));
        headers.push(("webhook-id".to_owned(), "1".to_owned()));
        let mut read = match decode(&headers, &sent.body, &LIMITS).expect("sent") {
            Received::One(event) => event,
            Received::Batch(mut events) => events.remove(0).expect("sent"),
        };
        read.set("time", "2026-11-19T22:00:00Z").expect("valid");
        read.set("traceparent", "00-1-2-03").expect("valid");
        prop_assert_eq!(Identity::of(&read, &rule).expect("an id"), identity);
    }

    #[test]
    fn whatever_is_sent_is_answered_within_the_bound(
        headers in prop::collection::vec((
            select(vec!["content-type", "ce-id", "ce-type", "ce-source", "ce-specversion", "ce-x", "CE-Time", "ce-", "ce-data"]),
            prop_oneof![
                select(vec!["1.0", "application/json", "application/cloudevents+json", "application/cloudevents-batch+json",
                    "text/plain", "\"", "%41", "%", "", "2018-04-05T17:31:00Z"]).prop_map(|text| text.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..12),
            ],
        ), 0..8),
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            prop::collection::vec(select(vec![
                "{", "}", "[", "]", ",", ":", "\"specversion\"", "\"1.0\"", "\"type\"", "\"source\"", "\"id\"", "\"data\"",
                "\"data_base64\"", "\"aGk=\"", "\"detail-type\"", "\"Entries\"", "\"Detail\"", "\"{}\"", "null", "1", "\"\\ud800\"",
            ]), 0..30).prop_map(|pieces| pieces.concat().into_bytes()),
        ],
        bytes_max in 0..200_usize,
        batch_max in 0..4_usize,
    ) {
        match decode(&headers, &body, &Limits { bytes_max, batch_max }) {
            Ok(Received::One(event)) => {
                prop_assert!(body.len() <= bytes_max);
                let _ = Identity::of(&event, &Rule::default());
            }
            Ok(Received::Batch(events)) => prop_assert!(body.len() <= bytes_max && events.len() <= batch_max),
            Err(error) => prop_assert!(error.to_string().len() < 400, "{}", error),
        }
    }

    #[test]
    fn a_message_with_anything_changed_is_read_or_refused(
        event in event(),
        at in any::<prop::sample::Index>(),
        removed in 0..3_usize,
        put in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let mut sent = structured(&event).expect("an id");
        let start = at.index(sent.body.len());
        let end = sent.body.len().min(start + removed);
        sent.body.splice(start..end, put);
        if let Ok(Received::One(read)) = decode(&sent.headers, &sent.body, &LIMITS) {
            // What is read can be written, and is the same then.
            let again = structured(&read).expect("it has an id");
            prop_assert_eq!(one(decode(&again.headers, &again.body, &LIMITS).expect("written")), read);
        }
    }
}

#[test]
fn what_has_no_cloud_event_form_is_refused() {
    let mut event = Event::new("t", "/s").expect("valid");
    assert!(binary(&event).expect_err("no id").to_string().contains("has an id"));
    assert!(structured(&event).is_err() && batch([&event]).is_err());
    event.set("id", "1").expect("valid");
    event.set("datacontenttype", "Application/CloudEvents+json").expect("valid");
    assert!(binary(&event).expect_err("nested").to_string().contains("itself a CloudEvent"));
    assert!(structured(&event).is_ok());
}

#[test]
fn data_is_written_so_that_it_can_be_read_where_possible() {
    let body = |media: &str, data: &[u8]| {
        let mut event = Event::new("t", "/s").expect("valid");
        event.set("id", "1").expect("valid");
        event.set("datacontenttype", media).expect("valid");
        event.set_data(Some(data.to_vec()));
        String::from_utf8(structured(&event).expect("an id").body).expect("JSON is UTF-8")
    };
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    for (media, data, member) in [
        ("application/json", &br#"{"a": 1.0}"#[..], r#","data":{"a": 1.0}}"#),
        ("text/plain", "é\n".as_bytes(), ",\"data\":\"é\\u000a\"}"),
        ("application/xml", b"<a/>", r#","data":"<a/>"}"#),
        ("image/png", b"abc", r#","data_base64":"YWJj"}"#),
        ("text/plain; charset=latin1", b"abc", r#","data_base64":"YWJj"}"#),
        ("text/plain", b"\xff", r#","data_base64":"/w=="}"#),
        ("application/json", b"{", r#","data_base64":"ew=="}"#),
        ("application/json", deep.as_bytes(), r#"XV1dXV0="}"#),
    ] {
        let body = body(media, data);
        assert!(body.ends_with(member), "{media}: {body}");
    }
}
