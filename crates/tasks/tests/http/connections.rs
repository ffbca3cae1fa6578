//! Calls with credentials: what is sent, how tokens are renewed, and that no secret comes back.

use crate::stand_in::{Act, StandIn, nobody};
use crate::task::{Setting, failure, output};
use perdura_engine::{Certainty, Outcome};
use perdura_tasks::connection::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use url::Url;

const ARN: &str =
    "arn:aws:events:eu-west-1:123456789012:connection/Bank/81210c42-8af1-456b-9c4a-6ff02fc664ac";

fn with(connection: &str) -> Setting {
    let setting = Setting::default();
    let bound = connection.replacen('{', r#"{"hosts": ["127.0.0.1"], "#, 1);
    setting.connections.replace(vec![("Bank".into(), Connection::from_json(&bound).expect(&bound))]);
    setting
}

fn oauth(endpoint: &Url) -> String {
    format!(
        r#"{{"oauth": {{"endpoint": "{endpoint}", "client_id": "id", "client_secret": "marker-client"}}}}"#
    )
}

fn get(url: &Url) -> String {
    format!(
        r#"{{"ApiEndpoint": "{url}", "Method": "GET", "InvocationConfig": {{"ConnectionArn": "{ARN}"}}}}"#
    )
}

#[tokio::test]
async fn what_the_connection_holds_is_sent_and_wins() {
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let extra =
        r#""headers": {"X-Mode": "theirs"}, "query": {"mode": "their s"}, "body": {"Mode": "theirs"}"#;
    for (authorization, header, expected) in [
        (r#""basic": {"user": "anna", "password": "secret"}"#, "authorization", "Basic YW5uYTpzZWNyZXQ="),
        (r#""api_key": {"header": "X-Api-Key", "value": "secret"}"#, "x-api-key", "secret"),
    ] {
        let setting = with(&format!("{{{authorization}, {extra}}}"));
        let arguments = format!(
            r#"{{"ApiEndpoint": "{}", "Method": "POST", "Authentication": {{"ConnectionArn": "Bank"}},
                "Headers": {{"x-mode": "ours"}}, "QueryParameters": {{"mode": "ours", "n": 1}},
                "RequestBody": {{"Job": "a", "Mode": "ours"}}}}"#,
            server.url("/")
        );
        output(&setting.invoke(&arguments).await);
        let seen = server.seen().pop().expect("a request");
        assert_eq!(seen.header(header), [expected]);
        assert_eq!(seen.header("x-mode"), ["theirs"]);
        assert_eq!(seen.line(), "POST /?n=1&mode=their%20s");
        assert_eq!(seen.body, r#"{"Job":"a","Mode":"theirs"}"#);
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_merged_is_not_sent() {
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let setting = with(r#"{"api_key": {"header": "x", "value": "v"}, "body": {"mode": "m"}}"#);
    let arguments = get(&server.url("/")).replace("\"GET\"", r#""POST", "RequestBody": "text""#);
    let outcome = setting.invoke(&arguments).await;
    let (error, cause, certainty) = failure(&outcome);
    assert_eq!((error, certainty), ("States.Runtime", Certainty::NotSent), "{cause}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_connection_is_not_sent_to_another_host_than_its_own() {
    let tokens = StandIn::start(|_, _| Act::json("200 OK", r#"{"access_token": "t"}"#)).await;
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let setting = with(&oauth(&tokens.url("/token")));
    let mut elsewhere = server.url("/");
    elsewhere.set_host(Some("localhost")).expect("a host");
    let outcome = setting.invoke(&get(&elsewhere)).await;
    let (error, cause, certainty) = failure(&outcome);
    assert_eq!((error, certainty), ("Events.ConnectionResource.AccessDenied", Certainty::NotSent), "{cause}");
    assert!(cause.starts_with("connection `Bank` is not sent to localhost"), "{cause}");
    assert!(cause.contains("its hosts are 127.0.0.1; if it is meant, put it again"), "{cause}");
    assert_eq!((tokens.connections(), server.connections()), (0, 0), "nobody was asked for anything");
}

#[tokio::test]
async fn no_part_of_a_connection_comes_back() {
    const ECHO: &str = "marker-header marker+query%2F1 marker%20query%2F1 marker query/1 marker-body";
    let connection = r#"{"api_key": {"header": "x-key", "value": "whatever"}, "headers": {"x-a": "marker-header"},
        "query": {"q": "marker query/1"}, "body": {"b": "marker-body"}}"#;
    for act in [
        (|| Act::typed("200 OK", "text/plain", ECHO)) as fn() -> Act,
        || Act::json("200 OK", &format!("{{\"echo\": \"{ECHO}\"}}")),
        || Act::typed("400 No", "text/plain", ECHO),
        || Act::Send(format!("HTTP/1.1 200 OK\r\nx-echo: {ECHO}\r\ncontent-length: 0\r\n\r\n")),
    ] {
        let server = StandIn::start(move |_, _| act()).await;
        let outcome = with(connection).invoke(&get(&server.url("/"))).await;
        let said = format!("{outcome:?}");
        assert!(said.contains('…') && !said.contains("marker"), "{said}");
    }
}

#[tokio::test]
async fn a_connection_that_is_missing_is_named_with_the_remedy() {
    let outcome = Setting::default().invoke(&get(&"http://127.0.0.1/".parse().expect("a URL"))).await;
    let (error, cause, certainty) = failure(&outcome);
    assert_eq!((error, certainty), ("Events.ConnectionResource.ResourceNotFound", Certainty::NotSent));
    assert!(cause.contains("`Bank`") && cause.contains("perdura connection put Bank"), "{cause}");
}

#[tokio::test]
async fn many_callers_ask_for_one_token() {
    let tokens = StandIn::start(|number, _| {
        Act::json("200 OK", &format!(r#"{{"access_token": "token-{number}", "expires_in": 3600}}"#))
    })
    .await;
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let setting = with(&oauth(&tokens.url("/token")));
    let arguments = get(&server.url("/"));
    let calls = async {
        tokio::join!(setting.invoke(&arguments), setting.invoke(&arguments), setting.invoke(&arguments));
        setting.invoke(&arguments).await
    };
    output(&calls.await);
    assert_eq!(tokens.seen().len(), 1, "one asks, the others wait for the answer");
    assert_eq!(tokens.seen()[0].body, "grant_type=client_credentials");
    assert!(server.seen().iter().all(|seen| seen.header("authorization") == ["Bearer token-0"]));
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn many_callers_share_one_failure_and_the_next_asks_again() {
    let tokens = StandIn::start(|number, _| match number {
        0 => Act::json("500 Down", "{}"),
        _ => Act::json("200 OK", r#"{"access_token": "t"}"#),
    })
    .await;
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let setting = with(&oauth(&tokens.url("/token")));
    let arguments = get(&server.url("/"));
    let (one, two, three) =
        tokio::join!(setting.invoke(&arguments), setting.invoke(&arguments), setting.invoke(&arguments));
    for outcome in [&one, &two, &three] {
        assert_eq!(failure(outcome).0, "Events.ConnectionResource.InvalidConnectionState");
    }
    assert_eq!((tokens.seen().len(), server.connections()), (1, 0));
    output(&setting.invoke(&arguments).await);
    assert_eq!(tokens.seen().len(), 2);
}

#[tokio::test]
async fn a_token_that_lives_for_no_time_is_asked_for_each_time() {
    let tokens =
        StandIn::start(|_, _| Act::json("200 OK", r#"{"access_token": "t", "expires_in": 0}"#)).await;
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let setting = with(&oauth(&tokens.url("/token")));
    for _ in 0..3 {
        output(&setting.invoke(&get(&server.url("/"))).await);
    }
    assert_eq!(tokens.seen().len(), 3);
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_under_the_same_key() {
    let tokens =
        StandIn::start(|number, _| Act::json("200 OK", &format!(r#"{{"access_token": "token-{number}"}}"#)))
            .await;
    let good = Arc::new(AtomicUsize::new(1));
    let shared = good.clone();
    let server = StandIn::start(move |_, seen| {
        let expected = format!("Bearer token-{}", shared.load(Ordering::SeqCst));
        if seen.header("authorization") == [expected] {
            Act::json("200 OK", "{}")
        } else {
            Act::json("401 No", "{}")
        }
    })
    .await;
    let setting = with(&oauth(&tokens.url("/token")));
    output(&setting.invoke(&get(&server.url("/"))).await);
    let keys: Vec<_> = server.seen().iter().map(|seen| seen.header("idempotency-key").join(",")).collect();
    assert_eq!((keys.len(), tokens.seen().len()), (2, 2));
    assert_eq!(keys[0], keys[1]);

    good.store(99, Ordering::SeqCst);
    let outcome = setting.invoke(&get(&server.url("/"))).await;
    assert_eq!(failure(&outcome), ("States.Http.StatusCode.401", "{}", Certainty::Refused));
    assert_eq!((server.seen().len(), tokens.seen().len()), (4, 3), "one renewal, one more try, no third");
}

#[tokio::test]
async fn without_a_token_nobody_is_called() {
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let refuses = StandIn::start(|_, _| Act::json("401 No", r#"{"error": "invalid_client"}"#)).await;
    let nonsense = StandIn::start(|_, _| Act::json("200 OK", "[]")).await;
    let huge = StandIn::start(|_, _| Act::json("200 OK", &"x".repeat(100_000))).await;
    let stalls = StandIn::start(|_, _| Act::Stall(String::new())).await;
    let down: Url = format!("http://{}/", nobody().await).parse().expect("a URL");
    let table = [
        (
            refuses.url("/"),
            "Events.ConnectionResource.InvalidConnectionState",
            "answered 401 (invalid_client)",
        ),
        (
            nonsense.url("/"),
            "Events.ConnectionResource.InvalidConnectionState",
            "without a usable access_token",
        ),
        (huge.url("/"), "Events.ConnectionResource.InvalidConnectionState", "without a usable access_token"),
        (stalls.url("/"), "Events.ConnectionResource.AuthInProgress", "within the time of the call"),
        (down, "Events.ConnectionResource.InternalError", "does not answer"),
        (
            "http://169.254.169.254/".parse().expect("a URL"),
            "Events.ConnectionResource.InternalError",
            "link-local",
        ),
    ];
    for (endpoint, error, says) in table {
        let setting = Setting { timeout_seconds: Some(20), ..with(&oauth(&endpoint)) };
        let arguments = get(&server.url("/"));
        let invoking = setting.invoke(&arguments);
        let outcome =
            if endpoint == stalls.url("/") { stalls.outwaits(invoking).await } else { invoking.await };
        let (named, cause, certainty) = failure(&outcome);
        assert_eq!((named, certainty), (error, Certainty::NotSent), "{endpoint}: {cause}");
        assert!(cause.starts_with("connection `Bank` has no token: ") && cause.contains(says), "{cause}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn no_failure_tells_a_secret() {
    const ECHO: &str =
        "marker-password bWFya2VyOm1hcmtlci1wYXNzd29yZA== marker-value marker-token marker-client";
    type Make = fn() -> Act;
    let acts: [Make; 8] = [
        || Act::typed("200 OK", "text/plain", ECHO),
        || Act::json("200 OK", &format!("{{\"echo\": \"{ECHO}\"}}")),
        || Act::typed("500 Oops", "text/plain", ECHO),
        || Act::Send(format!("HTTP/1.1 200 OK\r\nx-echo: {ECHO}\r\ncontent-length: 0\r\n\r\n")),
        || Act::Send(format!("HTTP/1.1 302 Found\r\nlocation: /?{ECHO}\r\ncontent-length: 0\r\n\r\n")),
        || Act::Send(format!("HTTP/1.1 200 OK\r\n{ECHO}\r\n\r\n")),
        || Act::Last(format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{ECHO}")),
        || Act::Reset(ECHO.into()),
    ];
    let tokens = StandIn::start(|_, _| Act::json("200 OK", r#"{"access_token": "marker-token"}"#)).await;
    let connections = [
        r#"{"basic": {"user": "marker", "password": "marker-password"}}"#.to_owned(),
        r#"{"api_key": {"header": "x-key", "value": "marker-value"}}"#.to_owned(),
        oauth(&tokens.url("/")),
    ];
    for act in acts {
        let server = StandIn::start(move |_, _| act()).await;
        for (connection, secrets) in connections.iter().zip([
            &["marker-password", "bWFya2VyOm1hcmtlci1wYXNzd29yZA=="][..],
            &["marker-value"],
            &["marker-token", "marker-client"],
        ]) {
            let outcome = with(connection).invoke(&get(&server.url("/"))).await;
            let said = format!("{outcome:?}");
            assert!(secrets.iter().all(|secret| !said.contains(secret)), "{said}");
        }
    }
}

#[tokio::test]
async fn a_token_endpoint_that_repeats_its_request_tells_no_secret() {
    type Make = fn() -> Act;
    let acts: [Make; 5] = [
        || Act::json("400 Bad", r#"{"error": "marker-client", "error_description": "marker-client"}"#),
        || Act::typed("500 Oops", "text/plain", "marker-client"),
        || Act::json("200 OK", r#"{"token": "marker-client"}"#),
        || Act::Send("HTTP/1.1 200 OK\r\nmarker-client\r\n\r\n".into()),
        || Act::Reset("marker-client".into()),
    ];
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    for act in acts {
        let tokens = StandIn::start(move |_, _| act()).await;
        let outcome = with(&oauth(&tokens.url("/"))).invoke(&get(&server.url("/"))).await;
        assert!(matches!(outcome, Outcome::Failed { certainty: Certainty::NotSent, .. }), "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("marker-client"), "{outcome:?}");
    }
}
