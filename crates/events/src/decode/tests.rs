use super::*;

const LIMITS: Limits = Limits { bytes_max: 64 << 10, batch_max: 10 };

fn read(headers: &[(&str, &str)], body: &str) -> Result<Received, DecodeError> {
    decode(headers, body.as_bytes(), &LIMITS)
}

fn one(headers: &[(&str, &str)], body: &str) -> Event {
    match read(headers, body) {
        Ok(Received::One(event)) => event,
        other => panic!("{headers:?} {body}: {other:?}"),
    }
}

fn many(headers: &[(&str, &str)], body: &str) -> Vec<Result<Event, DecodeError>> {
    match read(headers, body) {
        Ok(Received::Batch(events)) => events,
        other => panic!("{headers:?} {body}: {other:?}"),
    }
}

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json; charset=utf-8")];
const STRUCTURED: &[(&str, &str)] = &[("content-type", "Application/CloudEvents+JSON; charset=UTF-8")];
const BATCH: &[(&str, &str)] = &[("content-type", "application/cloudevents-BATCH+json")];

#[test]
fn the_three_modes_and_plain_json_are_one_message() {
    let object = r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","subject":"Euro €","n":5,"yes":true,"unset":null,
        "datacontenttype":"application/json","data":{"a": 1.0, "b":[9007199254740993]}}"#;
    let structured = one(STRUCTURED, object);
    let binary = one(
        &[
            ("Ce-SpecVersion", "1.0"),
            ("CE-TYPE", "t"),
            ("ce-source", "/s"),
            ("ce-id", "1"),
            ("ce-subject", "Euro%20%E2%82%AC"),
            ("ce-n", "5"),
            ("ce-yes", "\"true\""),
            ("content-type", "application/json"),
            ("traceparent", "00-1-2-3"),
        ],
        "{\"a\": 1.0, \"b\":[9007199254740993]}\n",
    );
    assert_eq!(binary, structured);
    assert_eq!(
        many(BATCH, &format!(" [{object} , {object}] ")),
        [Ok(structured.clone()), Ok(structured.clone())]
    );
    assert_eq!(one(JSON, object), structured);
    assert_eq!(one(&[], &object.replace("\"specversion\":\"1.0\",", "")), structured);
    assert_eq!(many(JSON, &format!("[{object}]")), [Ok(structured.clone())]);
    assert_eq!(structured.data(), Some(&b"{\"a\": 1.0, \"b\":[9007199254740993]}"[..]));
    assert_eq!(structured.attribute("unset"), None);
}

#[test]
fn data_is_read_by_its_type() {
    let event = |members: &str| {
        let object = format!(r#"{{"specversion":"1.0","type":"t","source":"/s","id":"1"{members}}}"#);
        one(STRUCTURED, &object)
    };
    for (members, media, data) in [
        ("", None, None),
        (r#","data":null"#, Some("application/json"), Some("null")),
        (r#","data":"I'm just a string""#, Some("application/json"), Some("\"I'm just a string\"")),
        (r#","data": [1 , 2] "#, Some("application/json"), Some("[1 , 2]")),
        (r#","datacontenttype":"model/json","data":{}"#, Some("model/json"), Some("{}")),
        (
            r#","datacontenttype":"application/xml","data":"<much wow=\"xml\"/>""#,
            Some("application/xml"),
            Some("<much wow=\"xml\"/>"),
        ),
        (
            r#","datacontenttype":"text/plain; charset=us-ascii","data":"a""#,
            Some("text/plain; charset=us-ascii"),
            Some("a"),
        ),
        (r#","data_base64":"aGk=""#, None, Some("hi")),
        (r#","data_base64":"aGk""#, None, Some("hi")),
        (r#","data_base64":null"#, None, None),
        (
            r#","datacontenttype":"application/json","data_base64":"IHt9""#,
            Some("application/json"),
            Some("{}"),
        ),
        // Half a surrogate pair has no UTF-8, but as a part of JSON it stays text.
        (r#","data":"\ud800""#, Some("application/json"), Some(r#""\ud800""#)),
    ] {
        let event = event(members);
        assert_eq!(event.attribute("datacontenttype"), media, "{members}");
        assert_eq!(event.data(), data.map(str::as_bytes), "{members}");
    }
}

#[test]
fn what_event_bridge_delivers_is_read() {
    let event = one(
        JSON,
        r#"{"version":"0","id":"7bf73129-1428-4cd3-a780-95db273d1602","detail-type":"Order Placed","source":"shop",
            "account":"123456789012","time":"2026-11-19T21:30:00Z","region":"eu-central-1",
            "resources":["arn:aws:s3:::a\"b","arn:é"],"detail":{"total": 1.0},"replay-name":"again"}"#,
    );
    assert_eq!((event.kind(), event.source()), ("Order Placed", "shop"));
    let attributes: Vec<_> = event.attributes().collect();
    assert_eq!(
        attributes,
        [
            ("account", "123456789012"),
            ("datacontenttype", "application/json"),
            ("id", "7bf73129-1428-4cd3-a780-95db273d1602"),
            ("region", "eu-central-1"),
            ("resources", r#"["arn:aws:s3:::a\"b","arn:é"]"#),
            ("time", "2026-11-19T21:30:00Z"),
        ]
    );
    assert_eq!(event.data(), Some(&br#"{"total": 1.0}"#[..]));
}

#[test]
fn entries_of_put_events_are_read_each_by_itself() {
    let entry = r#"{"Source":"shop","DetailType":"Order Placed","Detail":"{\"total\": 1.0}","EventBusName":"b",
        "Time":1795123800,"Resources":[],"TraceHeader":"x"}"#;
    let events = many(JSON, &format!(r#"{{"Entries":[{entry},{{"Source":"shop","DetailType":"x"}}]}}"#));
    let Ok(first) = &events[0] else { panic!("{events:?}") };
    assert_eq!((first.kind(), first.source(), first.id()), ("Order Placed", "shop", None));
    assert_eq!(first.attribute("time"), Some("2026-11-19T21:30:00Z"));
    assert_eq!(first.data(), Some(&br#"{"total": 1.0}"#[..]));
    assert!(matches!(&events[1], Err(DecodeError::Malformed(what)) if what.contains("`Detail` is missing")));
    assert_eq!(one(JSON, entry), *first);
    assert_eq!(one(&[("content-type", "application/x-amz-json+json")], entry), *first);
}

#[test]
fn a_mistake_is_told_so_that_it_can_be_corrected() {
    use DecodeError::{Format, Malformed, TooMany};
    let binary = |extra: &[(&'static str, &'static str)]| {
        let base = [("ce-specversion", "1.0"), ("ce-type", "t"), ("ce-source", "/s"), ("ce-id", "1")];
        let kept = base.into_iter().filter(|(name, _)| !extra.iter().any(|(other, _)| other == name));
        kept.chain(extra.iter().copied().filter(|(_, value)| *value != "-")).collect::<Vec<_>>()
    };
    let text = |headers: Vec<(&str, &str)>, body: &str| match read(&headers, body) {
        Err(Malformed(what)) => what,
        Err(Format(what)) => format!("format: {what}"),
        Err(TooMany { .. }) => "too many".to_owned(),
        other => panic!("{headers:?} {body}: {other:?}"),
    };
    for (headers, body, why) in [
        (binary(&[("ce-datacontenttype", "text/plain")]), "", "Content-Type says it"),
        (binary(&[("ce-specversion", "0.3")]), "", "not 1.0"),
        (binary(&[("ce-specversion", "-")]), "", "ce-specversion is missing"),
        (binary(&[("ce-type", "-")]), "", "ce-type is missing"),
        (binary(&[("ce-source", "-")]), "", "ce-source is missing"),
        (binary(&[("ce-id", "-")]), "", "ce-id is missing"),
        (binary(&[("ce-id", "%C0%A0")]), "", "ce-id is not UTF-8"),
        (binary(&[("ce-id", "\"\"")]), "", "`id` is empty"),
        (binary(&[("ce-x", "1"), ("CE-X", "1")]), "", "two headers ce-x"),
        (binary(&[("ce-my-name", "1")]), "", "cannot be the name"),
        (binary(&[("ce-data", "1")]), "", "cannot be the name"),
        (binary(&[("ce-time", "now")]), "", "RFC 3339"),
        (binary(&[("content-type", "a"), ("Content-Type", "b")]), "", "two Content-Type"),
        (STRUCTURED.to_vec(), "", "byte 0"),
        (STRUCTURED.to_vec(), "[]", "is a JSON object"),
        (STRUCTURED.to_vec(), "{} {}", "after the value"),
        (STRUCTURED.to_vec(), r#"{"type":"t","source":"/s","id":"1"}"#, "`specversion` is missing"),
        (STRUCTURED.to_vec(), r#"{"specversion":"1.0","type":"t","source":"/s"}"#, "`id` is missing"),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":null}"#,
            "`id` is missing",
        ),
        (STRUCTURED.to_vec(), r#"{"specversion":"0.3","type":"t","source":"/s","id":"1"}"#, "not \"1.0\""),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","id":"2"}"#,
            "has twice",
        ),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","a":1.5}"#,
            "`a` is neither",
        ),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","a":{}}"#,
            "`a` is neither",
        ),
        (STRUCTURED.to_vec(), r#"{"specversion":"1.0","type":"t","source":"/s","id":"\ud800"}"#, "surrogate"),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","data":1,"data_base64":"aA"}"#,
            "both",
        ),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","data_base64":"a*"}"#,
            "not Base64",
        ),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","data_base64":7}"#,
            "not a string",
        ),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","datacontenttype":"text/plain","data":7}"#,
            "`data` is not a string",
        ),
        (
            STRUCTURED.to_vec(),
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","datacontenttype":"text/plain; charset=latin1","data":"a"}"#,
            "data_base64",
        ),
        (vec![("content-type", "application/cloudevents+avro")], "", "format: of the formats"),
        (vec![("content-type", "application/cloudevents")], "{}", "format: of the formats"),
        (vec![("content-type", "application/cloudevents-batch+xml")], "", "format: of the formats"),
        (
            vec![("content-type", "application/cloudevents+json; charset=utf-16")],
            "{}",
            "format: JSON is read in UTF-8",
        ),
        (vec![("content-type", "text/html")], "<p>", "format: there are no `ce-` headers"),
        (BATCH.to_vec(), "{}", "a batch is a JSON list"),
        (BATCH.to_vec(), "[1,]", "no value"),
        (BATCH.to_vec(), "[1,2,3,4,5,6,7,8,9,10,11]", "too many"),
        (JSON.to_vec(), "7", "is a JSON object"),
        (JSON.to_vec(), r#"{"order":7}"#, "this is no message"),
        (JSON.to_vec(), r#"{"type":"t"}"#, "`source` is missing"),
        (JSON.to_vec(), r#"{"type":"t","source":"s","orderId":"7"}"#, "`orderId` cannot be the name"),
        (JSON.to_vec(), r#"{"detail-type":"t","source":"s","detail":[]}"#, "`detail` is not a JSON object"),
        (JSON.to_vec(), r#"{"detail-type":"t","source":"s","resources":[1]}"#, "`resources` is not a string"),
        (
            JSON.to_vec(),
            r#"{"DetailType":"t","Source":"s","Detail":"{"}"#,
            "`Detail` is not a JSON object: at byte 1",
        ),
        (JSON.to_vec(), r#"{"DetailType":"t","Source":"s","Detail":{}}"#, "`Detail` is not a string"),
        (JSON.to_vec(), r#"{"DetailType":"t","Source":"s","Detail":"{}","Time":1e9}"#, "seconds since 1970"),
    ] {
        let said = text(headers.clone(), body);
        assert!(said.contains(why), "{headers:?} {body}: {said}");
    }
}

#[test]
fn no_value_is_quoted_in_an_error() {
    for body in [
        r#"{"specversion":"4111","type":"t","source":"/s","id":"1"}"#,
        r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","time":"4111"}"#,
        r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","data_base64":"4111*"}"#,
        r#"{"specversion":"1.0","type":"t","source":"/s","id":"1","data":4111x}"#,
    ] {
        let said = read(STRUCTURED, body).expect_err(body).to_string();
        assert!(!said.contains("4111"), "{said}");
    }
}

#[test]
fn a_wrong_message_does_not_hurt_its_neighbours_in_a_batch() {
    let good = r#"{"specversion":"1.0","type":"t","source":"/s","id":"1"}"#;
    let events = many(BATCH, &format!(r#"[{good},{{"type":"t"}},7,{good}]"#));
    assert_eq!(events.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false, true]);
    assert_eq!(many(BATCH, "[]"), []);
}

#[test]
fn sixty_four_kilobytes_are_taken_and_no_byte_more_than_allowed() {
    let headers = [("ce-specversion", "1.0"), ("ce-type", "t"), ("ce-source", "/s"), ("ce-id", "1")];
    let taken: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    let body = "x".repeat(LIMITS.bytes_max - taken);
    assert!(read(&headers, &body).is_ok());
    assert_eq!(
        read(&headers, &format!("{body}x")),
        Err(DecodeError::TooLarge { bytes: (64 << 10) + 1, bytes_max: 64 << 10 })
    );
    let text = "x".repeat(63 << 10);
    let object = format!(r#"{{"specversion":"1.0","type":"t","source":"/s","id":"1","data":"{text}"}}"#);
    assert!(read(STRUCTURED, &object).is_ok());
}
