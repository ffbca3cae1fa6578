//! A client of AWS JSON 1.0 in a page: one connection, kept open, one request at a time.
//!
//! The SDKs check what they send and hide what they get; this one sends what it is told and shows what came.

use perdura_engine::asl::json::{Value, parse};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than any answer may take: a poll for an activity's task lasts a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// Without access keys a server takes any signature.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/states/aws4_request, \
    SignedHeaders=host, Signature=0000000000000000000000000000000000000000000000000000000000000000";

/// What a server said no with.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// The exception's name, without a namespace.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) status: u16,
}

pub(crate) type Answer = Result<Value, Refusal>;

pub(crate) struct Client {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), connection: None }
    }

    /// One action of Step Functions.
    pub(crate) fn call(&mut self, action: &str, params: &Value) -> Answer {
        let head = [
            ("X-Amz-Target", format!("AWSStepFunctions.{action}")),
            ("Content-Type", "application/x-amz-json-1.0".to_owned()),
            ("Authorization", SIGNATURE.to_owned()),
        ];
        let (status, body) = self.send("POST", "/", &head, params.to_string().as_bytes());
        let text = String::from_utf8_lossy(&body);
        let answer = match parse(&text) {
            Ok(answer) if status == 200 => return Ok(answer),
            Ok(answer) => answer,
            Err(_) => return Err(Refusal { code: "no JSON".into(), message: text.into_owned(), status }),
        };
        let member = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
        let code = member("__type").rsplit('#').next().unwrap_or_default();
        let message = if member("message").is_empty() { member("Message") } else { member("message") };
        Err(Refusal { code: code.to_owned(), message: message.to_owned(), status })
    }

    /// Any request: the status and the body of its answer.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        head: &[(&str, String)],
        body: &[u8],
    ) -> (u16, Vec<u8>) {
        let head: Vec<String> = head.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{}Content-Length: {}\r\n\r\n",
            self.address,
            head.concat(),
            body.len()
        );
        let connection = self.connection.get_or_insert_with(|| {
            let stream = TcpStream::connect(&self.address).expect("the server listens");
            stream.set_nodelay(true).expect("a socket has options");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
            BufReader::new(stream)
        });
        let sent = [request.as_bytes(), body].concat();
        connection.get_mut().write_all(&sent).expect("the server reads");
        let (status, body, keep) = read_answer(connection);
        if !keep {
            self.connection = None;
        }
        (status, body)
    }
}

/// Status, body, and whether the connection stays open.
fn read_answer(connection: &mut BufReader<TcpStream>) -> (u16, Vec<u8>, bool) {
    let mut line = String::new();
    connection.read_line(&mut line).expect("an answer comes");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status: {line:?}"));
    let (mut length, mut keep) = (0, true);
    loop {
        line.clear();
        connection.read_line(&mut line).expect("the answer goes on");
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().expect("a length is a number"),
            "connection" => keep = !value.trim().eq_ignore_ascii_case("close"),
            "transfer-encoding" => panic!("answers have a length here: {value}"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).expect("the answer is whole");
    (status, body, keep)
}
