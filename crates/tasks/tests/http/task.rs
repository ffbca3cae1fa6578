//! The HTTP Task from its arguments to its outcome.

use crate::stand_in::{Act, Seen, StandIn, nobody};
use http::HeaderName;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Attempt, Call, Certainty, EffectKey, ExecutionId, Outcome, StrandId};
use perdura_tasks::client::Client;
use perdura_tasks::connection::Connections;
use perdura_tasks::guard::Guard;
use perdura_tasks::http::{HttpCall, Verdict, invoke};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a task is called with, in tests.
pub(crate) struct Setting {
    pub(crate) client: Client,
    pub(crate) connections: Connections,
    pub(crate) strict: bool,
    pub(crate) header: HeaderName,
    pub(crate) statuses: BTreeMap<u16, Verdict>,
    pub(crate) timeout_seconds: Option<u64>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            client: Client::new(Guard::default()).expect("a client"),
            connections: Connections::default(),
            strict: false,
            header: HeaderName::from_static("idempotency-key"),
            statuses: BTreeMap::new(),
            timeout_seconds: None,
        }
    }
}

impl Setting {
    pub(crate) async fn invoke(&self, arguments: &str) -> Outcome {
        let call = Call {
            strand: StrandId(0),
            key: EffectKey::try_from(Arc::from("00000000-0000-4000-8000-000000000001:Charge#1:1"))
                .expect("a key"),
            attempt: Attempt::FIRST,
            resource: Resource::parse("arn:aws:states:::http:invoke").expect("a resource"),
            input: Payload::from_text(arguments).expect("JSON"),
            token: None,
            credentials: None,
            timeout_seconds: self.timeout_seconds,
            heartbeat_seconds: None,
            submitted: false,
        };
        let http_call = HttpCall {
            call: &call,
            execution: ExecutionId::from_random(0x0123_4567_89ab_cdef),
            strict: self.strict,
            region: "eu-west-1",
            header: &self.header,
            statuses: &self.statuses,
            onlooker: None,
        };
        invoke(&self.client, &self.connections, http_call).await
    }
}

pub(crate) fn failure(outcome: &Outcome) -> (&str, &str, Certainty) {
    let Outcome::Failed { fault, certainty } = outcome else { panic!("{outcome:?}") };
    (fault.error.as_deref().expect("an error"), fault.cause.as_deref().expect("a cause"), *certainty)
}

pub(crate) fn output(outcome: &Outcome) -> &str {
    let Outcome::Succeeded { output } = outcome else { panic!("{outcome:?}") };
    output.text()
}

fn wire() -> String {
    EffectKey::try_from(Arc::from("00000000-0000-4000-8000-000000000001:Charge#1:1"))
        .expect("a key")
        .wire()
        .to_string()
}

fn only(server: &StandIn) -> Seen {
    let seen = server.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen[0].clone()
}

#[tokio::test]
async fn a_request_carries_what_the_definition_says_and_the_key() {
    let server = StandIn::start(|_, _| {
        let headers = "Content-Type: application/json\r\nX-Two: a\r\nX-Two: b\r\nContent-Length: 8";
        Act::Send(format!("HTTP/1.1 201 Created\r\n{headers}\r\n\r\n{{\"id\":1}}"))
    })
    .await;
    let outcome = Setting::default()
        .invoke(&format!(
            r#"{{"ApiEndpoint": "{}", "Method": "POST", "Headers": {{"X-List": ["a", 2], "Content-Length": "999"}},
                "QueryParameters": {{"q": "a b&c", "n": [1, true]}}, "RequestBody": {{"amount": 10.50, "to": "ñ"}}}}"#,
            server.url("/v1/charges?v=2")
        ))
        .await;
    assert_eq!(
        output(&outcome),
        concat!(
            r#"{"Headers":{"content-type":["application/json"],"x-two":["a","b"],"content-length":["8"]},"#,
            r#""ResponseBody":{"id":1},"StatusCode":201,"StatusText":"Created"}"#
        )
    );
    let seen = only(&server);
    assert_eq!(seen.line(), "POST /v1/charges?v=2&q=a%20b%26c&n=1&n=true");
    assert_eq!(seen.body, r#"{"amount":10.50,"to":"ñ"}"#);
    assert_eq!(seen.header("x-list"), ["a", "2"]);
    assert_eq!(seen.header("content-length"), [seen.body.len().to_string()]);
    assert_eq!(seen.header("content-type"), ["application/json; charset=UTF-8"]);
    assert_eq!(seen.header("idempotency-key"), [wire()]);
    let span = &wire().replace('-', "")[..16];
    let trace = ExecutionId::from_random(0x0123_4567_89ab_cdef).uuid().simple().to_string();
    assert_eq!(seen.header("traceparent"), [format!("00-{trace}-{span}-01")]);
    assert!(seen.header("range").is_empty() && seen.header("user-agent")[0].starts_with("perdura/"));
}

#[tokio::test]
async fn a_header_that_the_definition_writes_wins() {
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let setting = Setting { header: HeaderName::from_static("x-request-id"), ..Setting::default() };
    for (headers, key, trace) in [
        (r#"{"X-Request-Id": "mine", "Traceparent": "theirs"}"#, "mine".to_owned(), Some("theirs")),
        (r#"{"Idempotency-Key": "other"}"#, wire(), None),
    ] {
        let url = server.url("/");
        let arguments = format!(r#"{{"ApiEndpoint": "{url}", "Method": "GET", "Headers": {headers}}}"#);
        output(&setting.invoke(&arguments).await);
        let seen = server.seen().pop().expect("a request");
        assert_eq!(seen.header("x-request-id"), [key]);
        assert!(trace.is_none_or(|trace| seen.header("traceparent") == [trace]), "{seen:?}");
    }
}

#[tokio::test]
async fn each_way_to_fail_has_its_name_and_its_certainty() {
    use Certainty::{Ambiguous, Refused};
    type Make = fn() -> Act;
    let table: [(&str, Make, &str, Certainty); 15] = [
        ("400", || Act::json("400 Bad Request", "\"no\""), "States.Http.StatusCode.400", Refused),
        ("404", || Act::typed("404 Not Found", "image/png", "x"), "States.Http.StatusCode.404", Refused),
        ("409", || Act::json("409 Conflict", "{}"), "States.Http.StatusCode.409", Ambiguous),
        ("422", || Act::json("422 Unprocessable", "{}"), "States.Http.StatusCode.422", Ambiguous),
        ("429", || Act::json("429 Slow Down", "{}"), "States.Http.StatusCode.429", Ambiguous),
        ("503", || Act::json("503 Busy", "{}"), "States.Http.StatusCode.503", Ambiguous),
        (
            "302",
            || Act::Send("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".into()),
            "States.Http.StatusCode.302",
            Ambiguous,
        ),
        ("image", || Act::typed("200 OK", "image/png", "x"), "States.Runtime", Ambiguous),
        ("bytes", || Act::typed("200 OK", "application/octet-stream", "x"), "States.Runtime", Ambiguous),
        ("reset", || Act::Reset(String::new()), "States.Http.Socket", Ambiguous),
        (
            "half",
            || Act::Last("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".into()),
            "States.Http.Socket",
            Ambiguous,
        ),
        (
            "malformed",
            || Act::Send("HTTP/1.1 200 OK\r\nno colon\r\n\r\n".into()),
            "States.Http.Socket",
            Ambiguous,
        ),
        (
            "huge",
            || Act::Stall("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".into()),
            "States.DataLimitExceeded",
            Ambiguous,
        ),
        ("stall", || Act::Stall(String::new()), "States.Timeout", Ambiguous),
        (
            "never ends",
            || Act::Stall("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n".into()),
            "States.Timeout",
            Ambiguous,
        ),
    ];
    for (what, act, error, certainty) in table {
        let server = StandIn::start(move |_, _| act()).await;
        let setting = Setting { timeout_seconds: Some(60), ..Setting::default() };
        let arguments = format!(r#"{{"ApiEndpoint": "{}", "Method": "GET"}}"#, server.url("/"));
        let invoking = setting.invoke(&arguments);
        let outcome =
            if error == "States.Timeout" { server.outwaits(invoking).await } else { invoking.await };
        let (named, cause, certain) = failure(&outcome);
        assert_eq!((named, certain), (error, certainty), "{what}: {cause}");
        assert_eq!(
            server.seen().len(),
            1,
            "{what}: a redirect is not followed, a failure is not repeated here"
        );
    }
}

#[tokio::test]
async fn the_limit_of_all_http_tasks_is_no_timeout_of_the_task() {
    let server = StandIn::start(|_, _| Act::Stall(String::new())).await;
    let arguments = format!(r#"{{"ApiEndpoint": "{}", "Method": "GET"}}"#, server.url("/"));
    let outcome = server.outwaits(Setting::default().invoke(&arguments)).await;
    let expected = ("States.Http.Socket", "no answer from 127.0.0.1 within 3600 s", Certainty::Ambiguous);
    assert_eq!(failure(&outcome), expected);
}

#[tokio::test]
async fn who_cannot_be_reached_was_not_called() {
    let long = "a".repeat(64);
    let table = [
        (format!("http://{}/", nobody().await), "States.Http.Socket", "no connection to 127.0.0.1"),
        (format!("http://{long}.test/"), "States.Http.Socket", "no connection to aaaa"),
        ("http://169.254.169.254/latest".into(), "States.Permissions", "it is a link-local address"),
        ("http://2852039166/latest".into(), "States.Permissions", "it is a link-local address"),
    ];
    for (url, error, says) in table {
        let outcome =
            Setting::default().invoke(&format!(r#"{{"ApiEndpoint": "{url}", "Method": "GET"}}"#)).await;
        let (named, cause, certainty) = failure(&outcome);
        assert_eq!((named, certainty), (error, Certainty::NotSent), "{url}");
        assert!(cause.contains(says), "{cause}");
    }
}

#[tokio::test]
async fn a_destination_may_say_what_a_status_means() {
    let table = [
        (409, Verdict::Done, None),
        (409, Verdict::Refused, Some(Certainty::Refused)),
        (404, Verdict::Ambiguous, Some(Certainty::Ambiguous)),
        (202, Verdict::Refused, Some(Certainty::Refused)),
    ];
    for (status, verdict, expected) in table {
        let server = StandIn::start(move |_, _| Act::json(&format!("{status} Word"), "{\"was\":1}")).await;
        let setting = Setting { statuses: [(status, verdict)].into(), ..Setting::default() };
        let outcome =
            setting.invoke(&format!(r#"{{"ApiEndpoint": "{}", "Method": "GET"}}"#, server.url("/"))).await;
        match expected {
            None => assert!(
                output(&outcome).contains(r#""ResponseBody":{"was":1},"StatusCode":409"#),
                "{outcome:?}"
            ),
            Some(certainty) => {
                let error = format!("States.Http.StatusCode.{status}");
                assert_eq!(failure(&outcome), (error.as_str(), "{\"was\":1}", certainty));
            }
        }
    }
}

#[tokio::test]
async fn strictly_it_is_as_on_aws() {
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let setting = Setting { strict: true, ..Setting::default() };
    for (url, says) in [
        (server.url("/").to_string(), "`ApiEndpoint` must begin with https://"),
        ("https://127.0.0.1/".into(), "`InvocationConfig` with a `ConnectionArn` is missing"),
    ] {
        let outcome = setting.invoke(&format!(r#"{{"ApiEndpoint": "{url}", "Method": "GET"}}"#)).await;
        let (error, cause, certainty) = failure(&outcome);
        assert_eq!((error, certainty), ("States.Runtime", Certainty::NotSent), "{cause}");
        assert!(cause.contains(says), "{cause}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let server =
        StandIn::start(|_, _| Act::Send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".into())).await;
    let arguments = format!(r#"{{"ApiEndpoint": "{}", "Method": "HEAD"}}"#, server.url("/"));
    let outcome = Setting::default().invoke(&arguments).await;
    assert!(
        output(&outcome).contains(r#""ResponseBody":"","StatusCode":200,"StatusText":"OK""#),
        "{outcome:?}"
    );
}
