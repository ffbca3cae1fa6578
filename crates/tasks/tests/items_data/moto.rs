//! A stand-in for S3: moto's server, on a free port of this machine, for as long as a test holds it.

use http::Method;
use http::header::{AUTHORIZATION, HeaderMap};
use perdura_sigv4::Secret;
use perdura_tasks::client::{Client, Incoming, Outgoing};
use perdura_tasks::guard::Guard;
use perdura_tasks::items::ItemSettings;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) struct Moto {
    server: Child,
    pub(crate) url: String,
    client: Client,
}

impl Moto {
    /// Starts it; after so many requests it asks for credentials, which nobody here has.
    pub(crate) fn start(open_requests: Option<u32>) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/moto_server");
        assert!(program.exists(), "moto's server is not installed: run ./scripts/test, which installs it");
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(count) = open_requests {
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", count.to_string());
        }
        let mut server = command.spawn().expect("moto starts");
        let mut lines = BufReader::new(server.stderr.take().expect("a pipe")).lines();
        let url = lines
            .by_ref()
            .map(|line| line.expect("text"))
            .find_map(|line| line.split_once("Running on ").map(|(_, url)| url.trim().to_owned()))
            .expect("moto says where it listens");
        // It logs every request, and would wait for somebody to read them.
        std::thread::spawn(move || lines.for_each(drop));
        Self { server, url, client: Client::new(Guard::default()).expect("a client") }
    }

    pub(crate) fn settings(&self) -> ItemSettings {
        let settings =
            ItemSettings { endpoint: Some(self.url.clone()), allow_http: true, ..ItemSettings::default() };
        settings.or_credentials(Some("AKIDEXAMPLE".into()), Some(Secret::new("hidden-secret")), None)
    }

    /// Puts an object, or makes a bucket; gives the headers of the answer.
    pub(crate) async fn put(&self, path: &str, body: impl Into<Vec<u8>>) -> HeaderMap {
        self.send(Method::PUT, path, body.into()).await.headers
    }

    pub(crate) async fn get(&self, path: &str) -> Vec<u8> {
        self.send(Method::GET, path, Vec::new()).await.body.to_vec()
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Incoming {
        let outgoing = Outgoing {
            method,
            url: format!("{}/{path}", self.url).parse().expect("an address"),
            headers: owner(),
            body: body.into(),
            timeout: Duration::from_mins(1),
            answer_bytes_max: 100_000_000,
        };
        let answer = self.client.send(outgoing).await.expect("an answer");
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.status);
        answer
    }
}

/// Names the owner of all objects. Moto wants a name, and does not look at the signature.
fn owner() -> HeaderMap {
    let scope = "AKIDEXAMPLE/20260101/us-east-1/s3/aws4_request";
    let text = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
    [(AUTHORIZATION, text.parse().expect("a header"))].into_iter().collect()
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.server.kill().expect("moto can be stopped");
        self.server.wait().expect("moto stops");
    }
}
