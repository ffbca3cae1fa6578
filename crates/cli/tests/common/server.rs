//! A server on a free port, and the commands that reach it.

use super::{Ended, Scene};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(90);

/// A `perdura serve` in the folder of a test, on `data` there. It ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) ready: String,
    pub(crate) address: String,
}

impl Server {
    /// Starts it, and waits until it says that it is ready.
    pub(crate) fn start(scene: &Scene, more: &[&str]) -> Self {
        Self::start_by(scene, &[], more)
    }

    /// The same, by another program, which is given the command as its last arguments.
    pub(crate) fn start_by(scene: &Scene, by: &[&str], more: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--data", "data"];
        arguments.extend(more);
        if !more.contains(&"--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        if !more.contains(&"--grace") {
            arguments.extend(["--grace", "0s"]);
        }
        let mut command = match by {
            [] => scene.command(&arguments),
            [program, rest @ ..] => {
                let mut command = scene.command_of(program, rest);
                command.arg(env!("CARGO_BIN_EXE_perdura")).args(&arguments);
                command
            }
        };
        command.stderr(std::fs::File::create(scene.path("serve.log")).expect("a log can be written"));
        let mut child = command.spawn().expect("perdura runs");
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut ready).expect("stdout can be read");
        let log = || std::fs::read_to_string(scene.path("serve.log")).unwrap_or_default();
        assert!(ready.starts_with("perdura serves data on http"), "{ready}\n{}", log());
        let (_, address) = ready.split_once("://").expect("it says where");
        let address = address.split(": ").next().unwrap_or_default().to_owned();
        Self { child, ready, address }
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(mut self, signal: &str) -> Option<i32> {
        kill(self.child.id(), signal);
        self.child.wait().expect("it ends").code()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it can write.
    pub(crate) fn until_ready(&self) {
        let began = Instant::now();
        while !self.get("/readyz").starts_with("HTTP/1.1 200 ") {
            assert!(began.elapsed() < PATIENCE, "it never became ready: {}", self.get("/readyz"));
            std::thread::yield_now();
        }
    }

    /// What an action of the Step Functions API gives: head and body.
    pub(crate) fn call(&self, action: &str, body: &str) -> String {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: AWSStepFunctions.{action}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.write_all(head.as_bytes()).expect("a head can be sent");
        stream.write_all(body.as_bytes()).expect("a body can be sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer comes");
        answer
    }

    /// What a GET gives: head and body.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let host = &self.address;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request can be sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer comes");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that the test has started.
pub(crate) fn kill(id: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &id.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Files may be as large as the disk allows again.
pub(crate) fn lift_limit_of_files(id: u32) {
    limit_files_to(id, None);
}

/// Nothing can be written past so many bytes of a file, as on a disk that is full. The process has to ignore SIGXFSZ.
pub(crate) fn limit_files_to(id: u32, bytes: Option<u64>) {
    let pid = Pid::from_raw(id.cast_signed()).expect("a process has a number");
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(pid), Resource::Fsize, limit).expect("the limit of one's own process can be set");
}

/// Runs a program under a wall clock that follows the file `clock`; the steady clock is left alone.
pub(crate) fn stepped() -> String {
    let library = glob("/usr/lib", "faketime/libfaketime.so.1");
    format!(
        "export LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE=clock FAKETIME_NO_CACHE=1 \
         FAKETIME_DONT_FAKE_MONOTONIC=1; exec \"$0\" \"$@\""
    )
}

fn glob(folder: &str, end: &str) -> String {
    let entries = std::fs::read_dir(folder).expect("there are libraries");
    let found = entries.flatten().map(|entry| entry.path().join(end)).find(|path| path.exists());
    found.expect("faketime is needed here: scripts/test installs it").display().to_string()
}

impl Scene {
    /// A command on the test's data.
    pub(crate) fn on_data(&self, arguments: &[&str]) -> Ended {
        let mut all = arguments.to_vec();
        all.extend(["--data", "data"]);
        self.perdura(&all)
    }

    /// The same, which must succeed; what it prints, as JSON: line by line, or the items of the list that it is.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let mut all = arguments.to_vec();
        all.push("--json");
        let ended = self.on_data(&all);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        let mut lines: Vec<serde_json::Value> =
            ended.stdout.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
        match &mut lines[..] {
            [serde_json::Value::Array(list)] => std::mem::take(list),
            _ => lines,
        }
    }

    /// One line of it.
    #[track_caller]
    pub(crate) fn one(&self, arguments: &[&str]) -> serde_json::Value {
        let mut all = self.json(arguments);
        assert_eq!(all.len(), 1, "{arguments:?}: {all:?}");
        all.remove(0)
    }

    /// Asks until the answer is right.
    #[track_caller]
    pub(crate) fn until(
        &self,
        arguments: &[&str],
        is_right: impl Fn(&[serde_json::Value]) -> bool,
    ) -> Vec<serde_json::Value> {
        let began = Instant::now();
        loop {
            let answer = self.json(arguments);
            if is_right(&answer) {
                return answer;
            }
            assert!(began.elapsed() < PATIENCE, "{arguments:?} never came right: {answer:?}");
            std::thread::yield_now();
        }
    }

    /// Waits until an execution has this status.
    #[track_caller]
    pub(crate) fn until_status(&self, execution: &str, status: &str) -> serde_json::Value {
        self.until(&["show", execution], |shown| shown[0]["status"] == status).remove(0)
    }

    /// The lines of a file; none if it is not there.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A machine's ARN.
pub(crate) fn machine_arn(name: &str) -> String {
    format!("arn:aws:states:us-east-1:123456789012:stateMachine:{name}")
}

/// A request of the Step Functions API as it goes over the wire, with headers of one's own.
pub(crate) fn call(action: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let named = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let target = format!("AWSStepFunctions.{action}");
    let length = body.len().to_string();
    let usual = [
        ("Host", "localhost"),
        ("Connection", "close"),
        ("Content-Type", "application/x-amz-json-1.0"),
        ("X-Amz-Target", &*target),
        ("Content-Length", &*length),
    ];
    let usual = usual.iter().filter(|(name, _)| !named(name));
    let lines = headers.iter().chain(usual).map(|(name, value)| format!("{name}: {value}\r\n"));
    let head = format!("POST / HTTP/1.1\r\n{}\r\n", lines.collect::<String>());
    [head.as_bytes(), body].concat()
}

impl Server {
    /// A connection over which these bytes were sent. A server that has answered already may not read them all.
    pub(crate) fn sent(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let _ = stream.write_all(bytes);
        stream
    }

    /// What comes back for these bytes, head and body; nothing, where the server hangs up.
    pub(crate) fn told(&self, bytes: &[u8]) -> String {
        let mut answer = Vec::new();
        // What came before a reset counts.
        let _ = self.sent(bytes).read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Calls an action of the Step Functions API, which must succeed.
    #[track_caller]
    pub(crate) fn api(&self, action: &str, body: &serde_json::Value) -> serde_json::Value {
        let told = self.told(&call(action, &[], body.to_string().as_bytes()));
        let (head, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
        assert!(head.starts_with("HTTP/1.1 200 "), "{action}: {told}");
        serde_json::from_str(body).expect("an answer is JSON")
    }

    /// Makes a machine through the API; `kind` is STANDARD or EXPRESS.
    pub(crate) fn create(&self, name: &str, kind: &str, definition: &str) -> String {
        let role = "arn:aws:iam::123456789012:role/worker";
        let made = serde_json::json!({"name": name, "definition": definition, "type": kind, "roleArn": role});
        self.api("CreateStateMachine", &made);
        machine_arn(name)
    }

    /// A number of `/metrics`.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let metrics = self.get("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in {metrics}")).parse().expect("a number")
    }
}

/// Looks until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it never came about: {what}");
        std::thread::yield_now();
    }
}
