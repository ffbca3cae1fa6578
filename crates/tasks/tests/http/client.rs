//! What the client says of each way in which a call can go wrong.

use crate::stand_in::{Act, StandIn, nobody};
use bytes::Bytes;
use http::{HeaderMap, Method};
use perdura_engine::Certainty;
use perdura_tasks::client::{CallError, Client, Incoming, Outgoing};
use perdura_tasks::guard::Guard;
use std::time::Duration;
use tokio::net::TcpListener;
use url::Url;

const SHORT: Duration = Duration::from_millis(5_500);
const LONG: Duration = Duration::from_secs(30);

fn client() -> Client {
    Client::new(Guard::default()).expect("a client")
}

fn get(url: Url, timeout: Duration) -> Outgoing {
    Outgoing {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        timeout,
        answer_bytes_max: 1_000,
    }
}

async fn call(
    act: impl Fn() -> Act + Send + Sync + 'static,
    timeout: Duration,
) -> Result<Incoming, CallError> {
    let server = StandIn::start(move |_, _| act()).await;
    client().send(get(server.url("/"), timeout)).await
}

const HEAD: &str = "HTTP/1.1 200 OK\r\n";

#[tokio::test]
async fn an_answer_that_does_not_come_whole_leaves_doubt() {
    type Make = fn() -> Act;
    let table: [(&str, Make); 8] = [
        ("reset at once", || Act::Reset(String::new())),
        ("closed at once", || Act::Last(String::new())),
        ("half a head", || Act::Last(HEAD.into())),
        ("half a body", || Act::Last(format!("{HEAD}content-length: 100\r\n\r\nhalf"))),
        ("reset in the body", || Act::Reset(format!("{HEAD}content-length: 100\r\n\r\nhalf"))),
        ("a malformed header", || Act::Send(format!("{HEAD}no colon here\r\n\r\n"))),
        ("no HTTP at all", || Act::Send("220 mail.example.org ESMTP\r\n\r\n".into())),
        ("a head without end", || Act::Endless(HEAD.into(), format!("x-header: {}\r\n", "y".repeat(1_000)))),
    ];
    for (what, act) in table {
        let error = call(act, LONG).await.expect_err(what);
        assert!(matches!(error, CallError::Lost { .. }), "{what}: {error:?}");
        assert_eq!(error.certainty(), Certainty::Ambiguous, "{what}");
    }
}

#[tokio::test]
async fn time_that_runs_out_after_sending_leaves_doubt() {
    type Make = fn() -> Act;
    let table: [(&str, Make); 4] = [
        ("no answer", || Act::Stall(String::new())),
        ("half a head", || Act::Stall("HTTP/1.1 200".into())),
        ("half a body", || Act::Stall(format!("{HEAD}content-length: 100\r\n\r\nhalf"))),
        ("chunks that do not end", || {
            Act::Stall(format!("{HEAD}transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"))
        }),
    ];
    for (what, act) in table {
        let server = StandIn::start(move |_, _| act()).await;
        let error = server.outwaits(client().send(get(server.url("/"), SHORT))).await.expect_err(what);
        assert!(matches!(error, CallError::TimedOut { sent: true, .. }), "{what}: {error:?}");
        assert_eq!(error.certainty(), Certainty::Ambiguous, "{what}");
        assert!(error.to_string().contains("no answer from 127.0.0.1 within 5500 ms"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_bound_and_no_further() {
    let server = StandIn::start(|_, _| {
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(4_096));
        Act::Endless(format!("{HEAD}transfer-encoding: chunked\r\n\r\n"), chunk)
    })
    .await;
    let error = client().send(get(server.url("/"), LONG)).await.expect_err("endless");
    assert!(matches!(error, CallError::TooLarge { bytes_max: 1_000 }), "{error:?}");
    assert_eq!(error.certainty(), Certainty::Ambiguous);
    server.closed().await;
    assert!(server.sent_bytes() < 16 * 1024 * 1024, "only what the sockets hold: {}", server.sent_bytes());

    let announced = || Act::Stall(format!("{HEAD}content-length: 1001\r\n\r\n"));
    let error = call(announced, LONG).await.expect_err("announced");
    assert!(
        matches!(error, CallError::TooLarge { .. }),
        "what announces too much is not waited for: {error:?}"
    );
    let fits = call(|| Act::json("200 OK", &"x".repeat(1_000)), LONG).await.expect("it fits");
    assert_eq!(fits.body.len(), 1_000);
}

#[tokio::test]
async fn what_was_never_connected_was_never_called() {
    let unknown: Url = format!("http://{}.test/", "a".repeat(64)).parse().expect("a URL"); // no name can be so long
    let refused: Url = format!("http://{}/", nobody().await).parse().expect("a URL");
    for url in [unknown, refused] {
        let error = client().send(get(url.clone(), LONG)).await.expect_err(url.as_str());
        assert!(matches!(error, CallError::NotConnected { .. }), "{url}: {error:?}");
        assert_eq!(error.certainty(), Certainty::NotSent, "{url}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_was_no_call() {
    let server = StandIn::start(|_, _| Act::Stall(String::new())).await;
    let mut url = server.url("/");
    url.set_scheme("https").expect("a scheme");
    let sending = async |timeout| client().send(get(url.clone(), timeout)).await.expect_err("no handshake");
    let error = server.outwaits_connecting(sending(SHORT)).await;
    assert!(matches!(error, CallError::TimedOut { sent: false, .. }), "{error:?}");
    assert_eq!(error.certainty(), Certainty::NotSent);
    let error = server.outwaits_connecting(sending(LONG)).await;
    assert!(matches!(error, CallError::NotConnected { .. }), "{error:?}");
    assert!(error.to_string().contains("within 10 s"), "a handshake has its own bound: {error}");

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    url.set_port(Some(listener.local_addr().expect("bound").port())).expect("a port");
    let closes = tokio::spawn(async move { drop(listener.accept().await) });
    let error = client().send(get(url, LONG)).await.expect_err("closed in the handshake");
    assert!(matches!(error, CallError::NotConnected { .. }), "{error:?}");
    closes.await.expect("it closed");
}

#[tokio::test]
async fn a_metadata_service_is_not_called_however_it_is_written() {
    for host in [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "100.100.100.200",
        "0.0.0.0",
    ] {
        for scheme in ["http", "https"] {
            let url: Url = format!("{scheme}://{host}/latest/meta-data/").parse().expect(host);
            let error = client().send(get(url, LONG)).await.expect_err(host);
            assert!(matches!(error, CallError::Forbidden { .. }), "{host}: {error:?}");
            assert_eq!(error.certainty(), Certainty::NotSent, "{host}");
            assert!(error.to_string().contains("`allow` under [http] in perdura.toml"), "{error}");
        }
    }
}

#[tokio::test]
async fn connections_are_kept_and_one_that_was_closed_meanwhile_costs_nothing() {
    let server = StandIn::start(|number, _| match number {
        1 => Act::Last(format!("{HEAD}content-length: 2\r\n\r\nok")),
        _ => Act::json("200 OK", "{}"),
    })
    .await;
    let client = client();
    client.send(get(server.url("/0"), LONG)).await.expect("first");
    client.send(get(server.url("/1"), LONG)).await.expect("second");
    assert_eq!(server.connections(), 1);
    server.closed().await;
    for _ in 0..300 {
        tokio::task::yield_now().await; // the runtime looks at its sockets at least every 61 tasks
    }
    client.send(get(server.url("/2"), LONG)).await.expect("third, on a fresh connection");
    assert_eq!((server.connections(), server.seen().len()), (2, 3), "each request arrived once");
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_not_taken_for_the_next_one() {
    let server = StandIn::start(|number, _| match number {
        0 => Act::Stall("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nla".into()),
        _ => Act::json("200 OK", "\"new\""),
    })
    .await;
    let client = client();
    let late = server.outwaits(client.send(get(server.url("/late"), SHORT))).await.expect_err("late");
    assert!(matches!(late, CallError::TimedOut { sent: true, .. }), "{late:?}");
    let next = client.send(get(server.url("/next"), LONG)).await.expect("next");
    assert_eq!(&next.body[..], b"\"new\"");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_body_without_bytes_is_announced_where_one_is_expected() {
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::GET, Method::HEAD, Method::DELETE] {
        let outgoing = Outgoing { method, ..get(server.url("/"), LONG) };
        client().send(outgoing).await.expect("an answer");
    }
    let lengths: Vec<String> =
        server.seen().iter().map(|seen| seen.header("content-length").concat()).collect();
    assert_eq!(lengths, ["0", "0", "0", "", "", ""]);
}

#[tokio::test]
async fn a_password_in_a_url_is_not_sent() {
    let server = StandIn::start(|_, _| Act::json("200 OK", "{}")).await;
    let mut url = server.url("/");
    url.set_password(Some("marker")).expect("a password");
    let error = client().send(get(url, LONG)).await.expect_err("refused");
    assert!(matches!(error, CallError::NotConnected { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("marker"));
    assert_eq!(server.connections(), 0);
}
