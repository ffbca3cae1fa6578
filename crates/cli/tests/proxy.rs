//! `perdura proxy` before a receiver that knows no keys: the real binary, real connections, `kill -9`.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver};
use common::server::{kill, limit_files_to};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const OTHER_KEY: &str = "11e7978e-40d5-43dd-bc93-6894a57f9324";

struct Proxy {
    child: Child,
    address: String,
    admin: String,
}

impl Proxy {
    fn start(scene: &Scene, upstream: &str, more: &[&str]) -> Self {
        Self::start_by(scene, &[], upstream, more)
    }

    /// The same, by another program, which is given the command as its last arguments.
    fn start_by(scene: &Scene, by: &[&str], upstream: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["proxy", "--upstream", upstream, "--listen", "127.0.0.1:0"];
        arguments.extend(["--admin", "127.0.0.1:0", "--json", "--grace", "1s"]);
        arguments.extend(more);
        if !more.contains(&"--memory") {
            arguments.extend(["--data", "record"]);
        }
        if !more.contains(&"--caller") {
            arguments.extend(["--caller", "none"]);
        }
        let mut command = match by {
            [] => scene.command(&arguments),
            [program, rest @ ..] => {
                let mut command = scene.command_of(program, rest);
                command.arg(env!("CARGO_BIN_EXE_perdura")).args(&arguments);
                command
            }
        };
        command.stderr(std::fs::File::create(scene.path("proxy.log")).expect("a log can be written"));
        let mut child = command.spawn().expect("perdura runs");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("stdout can be read");
        let told: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("{line}{}", std::fs::read_to_string(scene.path("proxy.log")).unwrap_or_default())
        });
        let at = |name: &str| told[name].as_str().expect("an address")["http://".len()..].to_owned();
        Self { child, address: at("address"), admin: at("admin") }
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        kill(self.child.id(), signal);
        self.child.wait().expect("it ends").code()
    }

    fn send(&self, request: &str) -> String {
        exchange(&self.address, request)
    }

    fn pay(&self, key: &str, body: &str) -> String {
        self.send(&post("/payments", &[("Idempotency-Key", key)], body))
    }

    /// The connection, with the request on its way.
    fn begin(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the proxy listens");
        stream.write_all(request.as_bytes()).expect("it takes a request");
        stream
    }

    fn admin(&self, method: &str, path: &str) -> String {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        exchange(&self.admin, &head)
    }

    /// Waits until the numbers say this.
    #[track_caller]
    fn until_told(&self, line: &str) {
        let began = Instant::now();
        while !self.admin("GET", "/metrics").contains(line) {
            assert!(began.elapsed() < PATIENCE, "{line} was never told: {}", self.admin("GET", "/metrics"));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn exchange(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket has timeouts");
    stream.write_all(request.as_bytes()).expect("a request can be sent");
    answer(stream)
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A connection that is reset has said what it had to say.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let lines = headers.iter().map(|(name, value)| [name, ": ", value, "\r\n"].concat());
    let lines = lines.collect::<String>();
    format!(
        "POST {path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\nContent-Length: {}\r\n{lines}\r\n{body}",
        body.len()
    )
}

#[track_caller]
fn is(told: &str, status: u16, says: &str) {
    assert!(
        told.starts_with(&format!("HTTP/1.1 {status} ")) && told.contains(says),
        "{status} {says}: {told}"
    );
}

/// Each request is a deed, which the answer numbers.
fn counting() -> Receiver {
    Receiver::start(|number, _| Act::Answer(201, format!("{{\"deed\": {number}}}")))
}

#[test]
fn a_hundred_copies_at_once_are_one_deed() {
    let (scene, receiver) = (Scene::new("proxy-hundred"), counting());
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    let answers: Vec<String> = std::thread::scope(|scope| {
        let copies: Vec<_> = (0..100).map(|_| scope.spawn(|| proxy.pay(KEY, "{}"))).collect();
        copies.into_iter().map(|copy| copy.join().expect("it was answered")).collect()
    });
    for told in &answers {
        is(told, 201, "{\"deed\": 0}");
    }
    let replayed = answers.iter().filter(|told| told.contains("idempotency-replayed: true")).count();
    assert_eq!((receiver.seen().len(), replayed), (1, 99));
    is(&proxy.pay(KEY, "{\"other\": 1}"), 409, "CONFLICTING_IDEMPOTENT_REQUEST");
    is(&proxy.send(&post("/refunds", &[("Idempotency-Key", KEY)], "{}")), 409, "CONFLICTING");
    is(&proxy.send(&post("/payments", &[], "{}")), 400, "IDEMPOTENCY_KEY_REQUIRED");
    assert_eq!(receiver.seen().len(), 1);
    assert_eq!(receiver.seen()[0].key(), KEY, "the receiver is told the key");
}

#[test]
fn what_was_answered_is_answered_after_a_restart_and_after_a_kill() {
    let (scene, receiver) = (Scene::new("proxy-restart"), counting());
    for (signal, code) in [("-TERM", Some(0)), ("-KILL", None), ("-TERM", Some(0))] {
        let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
        is(&proxy.pay(KEY, "{}"), 201, "{\"deed\": 0}");
        assert_eq!(proxy.end(signal), code, "{signal}");
    }
    assert_eq!(receiver.seen().len(), 1);
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(scene.path(name)).expect(name).permissions().mode() & 0o777
    };
    let modes = ["record", "record/proxy.db", "record/proxy.secret"].map(mode);
    assert_eq!(modes, [0o700, 0o600, 0o600]);
}

/// The proxy is killed at each point of a request's life. The receiver acts when it has read the request.
#[test]
fn whatever_kills_the_proxy_nothing_is_done_twice() {
    // Before it is sent: the request has not arrived whole.
    let (scene, receiver) = (Scene::new("proxy-kill-before"), counting());
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    let whole = post("/payments", &[("Idempotency-Key", KEY)], "{}");
    let _client = proxy.begin(&whole[..whole.len() - 1]);
    proxy.end("-KILL");
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    is(&proxy.pay(KEY, "{}"), 201, "{\"deed\": 0}");

    // While the receiver acts: it never answers the first.
    let scene = Scene::new("proxy-kill-while");
    let silent =
        Receiver::start(|number, _| if number == 0 { Act::Hang } else { Act::Answer(201, "{}".into()) });
    let proxy = Proxy::start(&scene, &silent.url(""), &[]);
    let _client = proxy.begin(&whole);
    silent.until_seen(1);
    proxy.end("-KILL");
    let proxy = Proxy::start(&scene, &silent.url(""), &[]);
    for _ in 0..2 {
        is(&proxy.pay(KEY, "{}"), 409, "OUTCOME_UNKNOWN");
    }
    assert_eq!(silent.seen().len(), 1, "it is not sent again");
    // A person looked, and nothing was done.
    let listed = proxy.admin("GET", "/unknown");
    let operation = listed.split("\"operation\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let resolve = format!("/unknown/{}/not-applied", operation.expect("it is listed"));
    is(&proxy.admin("POST", &resolve), 204, "");
    is(&proxy.pay(KEY, "{}"), 201, "");
    assert_eq!(silent.seen().len(), 2);

    // After the receiver answered, before that is recorded: somebody else holds the file meanwhile.
    let scene = Scene::new("proxy-kill-unrecorded");
    let file = Arc::new(Mutex::new(None::<rusqlite::Connection>));
    let (held, path) = (file.clone(), scene.path("record/proxy.db"));
    let receiver = Receiver::start(move |_, _| {
        let connection = rusqlite::Connection::open(&path).expect("the record is there");
        connection.busy_timeout(PATIENCE).expect("it can wait");
        connection.execute_batch("BEGIN IMMEDIATE").expect("the file can be held");
        *held.lock().expect("nobody panicked") = Some(connection);
        Act::Answer(201, "{}".into())
    });
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    let _client = proxy.begin(&whole);
    proxy.until_told("perdura_idempotency_save_failures_total{route=\"POST *\"} 1");
    proxy.end("-KILL");
    drop(file.lock().expect("nobody panicked").take());
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    is(&proxy.pay(KEY, "{}"), 409, "OUTCOME_UNKNOWN");
    assert_eq!(receiver.seen().len(), 1, "it is not sent again");

    // After the answer was recorded, before anybody read it.
    let (scene, receiver) = (Scene::new("proxy-kill-after"), counting());
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    let _client = proxy.begin(&whole);
    proxy.until_told("perdura_idempotency_requests_total{route=\"POST *\",outcome=\"completed\"} 1");
    proxy.end("-KILL");
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    let told = proxy.pay(KEY, "{}");
    is(&told, 201, "{\"deed\": 0}");
    assert!(told.contains("idempotency-replayed: true"), "{told}");
    assert_eq!(receiver.seen().len(), 1);
}

#[test]
fn a_receiver_that_acts_and_dies_leaves_an_unknown_outcome() {
    let garbage = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = garbage.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in garbage.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/9.9 what\r\n\r\n");
        }
    });
    let dying = Receiver::start(|_, _| Act::Close);
    let silent = Receiver::start(|_, _| Act::Hang);
    for (name, url, status) in [
        ("dies", dying.url(""), 502),
        ("garbage", format!("http://{address}"), 502),
        ("silent", silent.url(""), 504),
    ] {
        let scene = Scene::new(&format!("proxy-unknown-{name}"));
        let proxy = Proxy::start(&scene, &url, &["--first-byte", "1s"]);
        is(&proxy.pay(KEY, "{}"), status, "OUTCOME_UNKNOWN");
        is(&proxy.pay(KEY, "{}"), 409, "OUTCOME_UNKNOWN");
    }
    assert_eq!((dying.seen().len(), silent.seen().len()), (1, 1));
}

#[test]
fn a_receiver_that_honours_keys_is_asked_again_under_the_same_one() {
    let receiver =
        Receiver::start(|number, _| if number == 0 { Act::Close } else { Act::Answer(201, "{}".into()) });
    let scene = Scene::new("proxy-retry");
    let proxy = Proxy::start(&scene, &receiver.url(""), &["--uncertain", "retry"]);
    is(&proxy.pay(KEY, "{}"), 502, "\"next\":\"same_key\"");
    is(&proxy.pay(KEY, "{}"), 201, "");
    let keys: Vec<String> = receiver.seen().iter().map(|seen| seen.key().to_owned()).collect();
    assert_eq!(keys, [KEY, KEY]);
}

#[test]
fn a_connection_that_was_never_made_leaves_the_key_unused() {
    // An address of its own, so that nobody else is given its port meanwhile.
    let free = TcpListener::bind("127.0.0.2:0").expect("a port is free");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let scene = Scene::new("proxy-refused");
    let proxy = Proxy::start(&scene, &format!("http://{address}"), &[]);
    let refused = proxy.pay(KEY, "{}");
    is(&refused, 503, "UPSTREAM_NOT_REACHED");
    assert!(refused.contains("\"next\":\"same_key\"") && refused.contains("retry-after: 1"), "{refused}");
    let listener = TcpListener::bind(address).expect("the port is still free");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the proxy calls");
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
    });
    is(&proxy.pay(KEY, "{}"), 201, "ok");
}

#[test]
fn callers_are_told_apart_by_a_header() {
    let (scene, receiver) = (Scene::new("proxy-callers"), counting());
    let proxy = Proxy::start(&scene, &receiver.url(""), &["--caller", "authorization"]);
    let as_caller = |token: &str| {
        proxy.send(&post("/payments", &[("Idempotency-Key", KEY), ("Authorization", token)], "{}"))
    };
    is(&as_caller("Bearer a"), 201, "{\"deed\": 0}");
    is(&as_caller("Bearer b"), 201, "{\"deed\": 1}");
    is(&as_caller("Bearer a"), 201, "{\"deed\": 0}");
    is(&proxy.pay(KEY, "{}"), 401, "IDEMPOTENCY_SCOPE_MISSING");
    assert_eq!(receiver.seen().len(), 2);
}

#[test]
fn what_is_not_under_the_rule_passes_and_connections_keep_their_headers() {
    let receiver =
        Receiver::start(|_, _| Act::Whole(200, "Connection: x-hop\r\nX-Hop: 1\r\n".into(), "fine".into()));
    let scene = Scene::new("proxy-passes");
    let routes = ["--route", "POST /search/*=exempt", "--route", "POST /hooks=optional"];
    let proxy = Proxy::start(&scene, &receiver.url("/base"), &routes);
    let get = "GET http://evil.example/items?x=%20y HTTP/1.1\r\nHost: evil.example\r\nConnection: close, x-secret\r\n\
               X-Secret: 1\r\nX-Forwarded-For: 10.0.0.1\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\n";
    let told = proxy.send(get);
    is(&told, 200, "fine");
    assert!(!told.contains("x-hop") && told.contains("via: 1.1 perdura"), "{told}");
    let seen = receiver.seen().remove(0);
    assert_eq!(seen.line, "GET /base/items?x=%20y HTTP/1.1");
    assert_eq!((seen.header("x-secret"), seen.header("te"), seen.header("upgrade")), ("", "", ""));
    assert_eq!(seen.header("x-forwarded-for"), "127.0.0.1");
    assert_eq!(seen.header("host"), receiver.address.to_string());
    is(&proxy.send(&post("/search/all", &[], "q")), 200, "fine");
    is(&proxy.send(&post("/hooks", &[], "q")), 200, "fine");
    is(&proxy.send(&post("/search/../payments", &[], "q")), 400, "IDEMPOTENCY_KEY_REQUIRED");
    is(&proxy.send(&post("/search/%2e%2e/payments", &[], "q")), 400, "IDEMPOTENCY_KEY_REQUIRED");
    assert_eq!(receiver.seen().len(), 3);
    is(&proxy.send("TRACE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 405, "");
}

#[test]
fn lengths_that_contradict_one_another_reach_nobody_as_two_requests() {
    let (scene, receiver) = (Scene::new("proxy-lengths"), counting());
    let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
    let hidden = "0\r\n\r\nPOST /hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    for lengths in [
        "Content-Length: 4\r\nContent-Length: 60\r\n".to_owned(),
        "Content-Length: 4, 60\r\n".to_owned(),
        "Content-Length: +4\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", hidden.len()),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", hidden.len()),
    ] {
        let head = format!("POST /payments HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {KEY}\r\n{lengths}\r\n");
        let told = proxy.send(&(head + hidden));
        assert!(told.matches("HTTP/1.1 ").count() <= 1, "{lengths}: {told}");
    }
    assert!(receiver.seen().iter().all(|seen| seen.line.contains("/payments")), "{:?}", receiver.seen());
    assert!(receiver.seen().len() <= 1, "one key is one deed");
}

#[test]
fn bodies_are_bounded_under_the_rule_and_pass_in_pieces_outside_of_it() {
    let longest = Arc::new(AtomicUsize::new(0));
    let told = longest.clone();
    let receiver = Receiver::start(move |_, seen| {
        told.fetch_max(seen.body.len(), Ordering::Relaxed);
        Act::Answer(200, "x".repeat(3 << 20))
    });
    let scene = Scene::new("proxy-bodies");
    let options = ["--route", "POST /upload=exempt", "--body-max", "64KiB"];
    let proxy = Proxy::start(&scene, &receiver.url(""), &options);
    let large = "y".repeat(5 << 20);
    let passed = proxy.send(&post("/upload", &[], &large));
    assert!(passed.len() > 3 << 20, "all of the answer came");
    assert_eq!(longest.load(Ordering::Relaxed), large.len());
    is(&proxy.pay(KEY, &"z".repeat((64 << 10) + 1)), 413, "CONTENT_TOO_LARGE");
    let first = proxy.pay(OTHER_KEY, "{}");
    assert!(first.len() > 3 << 20, "an answer that is too large to keep is given once");
    is(&proxy.pay(OTHER_KEY, "{}"), 409, "RESULT_NOT_RETAINED");
}

#[test]
fn a_websocket_passes_and_nothing_else_becomes_a_tunnel() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
            seen.lock().expect("nobody panicked").push(head.to_ascii_lowercase());
            let _ = reader.get_mut().write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Accept: yes\r\n\r\n",
            );
            let mut echoed = [0; 5];
            let _ = reader.read_exact(&mut echoed);
            let _ = reader.get_mut().write_all(&echoed);
        }
    });
    let scene = Scene::new("proxy-websocket");
    let proxy = Proxy::start(&scene, &format!("http://{address}"), &["--memory"]);
    let ask = |upgrade: &str| {
        format!(
            "GET /live HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {upgrade}\r\n\
             Sec-WebSocket-Key: k\r\n\r\n"
        )
    };
    let mut client = proxy.begin(&(ask("websocket") + "hello"));
    let mut told = Vec::new();
    while !told.ends_with(b"hello") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("it is echoed");
        told.push(byte[0]);
    }
    is(&String::from_utf8_lossy(&told), 101, "sec-websocket-accept: yes");
    is(
        &proxy.send(&ask("h2c").replace("keep-alive, Upgrade", "Upgrade, close")),
        502,
        "UPSTREAM_DID_NOT_ANSWER",
    );
    assert!(!heads.lock().expect("nobody panicked")[1].contains("h2c"));
}

#[test]
fn an_http_task_that_is_retried_acts_once_at_a_receiver_that_dies() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proxy.md");
    let docs = std::fs::read_to_string(docs).expect("the docs are there");
    let machine =
        docs.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    for (through_proxy, deeds) in [(true, 1), (false, 4)] {
        let receiver = Receiver::start(|_, _| Act::Close);
        let scene = Scene::new(&format!("proxy-task-{through_proxy}"));
        let proxy = Proxy::start(&scene, &receiver.url(""), &[]);
        let at = if through_proxy { proxy.address.clone() } else { receiver.address.to_string() };
        let scene = scene.file("pay.asl.json", &machine.replace("127.0.0.1:8090", &at));
        let ran = scene.perdura(&["run", "pay.asl.json", "--skip-time"]);
        assert_eq!((ran.code, receiver.seen().len()), (Some(1), deeds), "{ran:?}");
        assert_eq!(ran.stderr.contains("OUTCOME_UNKNOWN"), through_proxy, "{ran:?}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_remedy() {
    let scene = Scene::new("proxy-wrong");
    let start = |listen: &str, more: &[&str]| {
        let start = ["proxy", "--upstream", "http://127.0.0.1:1", "--listen", listen];
        scene.perdura(&[&start, more].concat())
    };
    start("0.0.0.0:0", &[]).fails(2, &["can be reached from other machines", "--allow-remote"]);
    start("127.0.0.1:0", &["--route", "GET /x=required"]).fails(2, &["only reads"]);
    start("127.0.0.1:0", &["--keep-header", "set-cookie"]).fails(2, &["set-cookie", "never given again"]);
    start("127.0.0.1:0", &["--body-max", "much"]).fails(2, &["64KiB"]);
}

/// A program may take `post` for POST, go by one of two hosts, or know callers by a line that the proxy does not look at.
#[test]
fn what_a_program_could_read_otherwise_than_the_proxy_is_refused() {
    let scene = Scene::new("proxy-otherwise");
    let receiver = Receiver::start(|_, _| Act::Answer(201, "{}".to_owned()));
    let proxy = Proxy::start(&scene, &receiver.url(""), &["--caller", "authorization", "--keep-host"]);
    let sent = |method: &str, hosts: &[&str], more: &str| {
        let hosts: String = hosts.iter().flat_map(|host| ["Host: ", host, "\r\n"]).collect();
        let head =
            format!("{method} /payments HTTP/1.1\r\n{hosts}Connection: close\r\nContent-Length: 0\r\n");
        proxy.send(&format!("{head}Idempotency-Key: {KEY}\r\n{more}\r\n"))
    };
    let mine = "Authorization: Bearer a\r\n";
    for (method, hosts, more, status, reason) in [
        ("post", &["shop"][..], mine, 405, "METHOD_NOT_PASSED_ON"),
        ("PoST", &["shop"], mine, 405, "METHOD_NOT_PASSED_ON"),
        ("trace", &["shop"], mine, 405, "METHOD_NOT_PASSED_ON"),
        ("POST", &["shop", "evil"], mine, 400, "HOST_MALFORMED"),
        ("POST", &["a b@c/../"], mine, 400, "HOST_MALFORMED"),
        ("POST", &["user@shop"], mine, 400, "HOST_MALFORMED"),
        ("POST", &[], mine, 400, "HOST_MALFORMED"),
        ("POST", &["shop"], "", 401, ""),
        ("POST", &["shop"], "Authorization:\r\n", 401, ""),
        ("POST", &["shop"], "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", 401, ""),
    ] {
        let told = sent(method, hosts, more);
        let is_told = told.starts_with(&format!("HTTP/1.1 {status} ")) && told.contains(reason);
        assert!(is_told, "{method} {hosts:?} {more}: {told}");
    }
    assert_eq!(receiver.seen().len(), 0, "nothing was passed on");
    assert!(sent("POST", &["shop:81"], mine).starts_with("HTTP/1.1 201 "));
}

#[test]
fn a_proxy_that_cannot_write_is_not_ready_until_it_can() {
    let scene = Scene::new("proxy-full");
    let receiver = Receiver::start(|_, _| Act::Answer(201, "{}".to_owned()));
    let deaf = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];
    let proxy = Proxy::start_by(&scene, &deaf, &receiver.url(""), &[]);
    let ready = || proxy.admin("GET", "/readyz");
    assert!(ready().starts_with("HTTP/1.1 200 "), "{}", ready());
    limit_files_to(proxy.child.id(), Some(0));
    let told = proxy.pay(KEY, "{}");
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    assert!(ready().starts_with("HTTP/1.1 503 "), "{}", ready());
    assert_eq!(receiver.seen().len(), 0, "nothing was passed on");
    limit_files_to(proxy.child.id(), None);
    assert!(ready().starts_with("HTTP/1.1 200 "), "{}", ready());
    assert!(proxy.pay(KEY, "{}").starts_with("HTTP/1.1 201 "));
}
