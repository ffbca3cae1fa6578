//! The functions that recorded cases call, behind one port: `/BEHAVIOUR` answers as such a function would.

use perdura_engine::asl::json::Value;
use perdura_engine::asl::object;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Starts them. They end with the test's process.
pub(crate) fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection can be taken");
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A table for each function of the cases.
pub(crate) fn tables<'c>(cases: impl Iterator<Item = &'c Value>, address: &str) -> String {
    let mut functions = BTreeMap::new();
    for case in cases {
        for function in case.get("lambdas").and_then(Value::as_array).unwrap_or_default() {
            let text = |name: &str| function.get(name).and_then(Value::as_str).map(str::to_owned);
            let name = text("name").expect("a function has a name");
            let behaviour =
                text("behaviour").unwrap_or_else(|| of_file(&text("file").unwrap_or_default()).into());
            let known = functions.insert(name.clone(), behaviour.clone());
            assert!(known.is_none_or(|known| known == behaviour), "two functions {name}");
        }
    }
    let mut tables = String::new();
    for (name, behaviour) in functions {
        writeln!(tables, "[functions.{name}]\nurl = 'http://{address}/{behaviour}'").expect("a string grows");
    }
    tables
}

/// What a function does that is only known by its file.
fn of_file(file: &str) -> &'static str {
    match file.rsplit('/').next() {
        Some("id_function.py") => "identity",
        Some("large_output_string.py") => "large-output",
        _ => panic!("nobody knows what {file} does"),
    }
}

/// Every invocation has its own.
fn request_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("b5d8bd7e-0000-4000-8000-{:012x}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What a function gave: its result, or what it raised.
fn invoke(behaviour: &str, event: String) -> Result<String, String> {
    let raised = |kind: &str, message: &str, line: u32, source: &str| {
        let trace = format!("  File \"/var/task/handler.py\", line {line}, in handler\n    {source}\n");
        let error = object! {
            "errorMessage" => message,
            "errorType" => kind,
            "requestId" => request_id(),
            "stackTrace" => vec![trace],
        };
        Err(error.to_string())
    };
    match behaviour {
        "identity" => Ok(event),
        "raise-exception" => {
            let words = "Some exception was raised.";
            raised("Exception", words, 2, "raise Exception(\"Some exception was raised.\")")
        }
        "raise-custom-exception" => raised("CustomException", "", 9, "raise CustomException()"),
        "bytes-string" => Ok("\"HelloWorld!\"".into()),
        "large-output" => Ok(format!("\"{}\"", "a".repeat(257 * 1024))),
        other => panic!("no such behaviour: {other}"),
    }
}

fn serve(stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if !reader.read_line(&mut line).is_ok_and(|read| read > 0) {
            return;
        }
        let behaviour = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a head is whole");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().expect("a length is a number");
            }
        }
        let mut event = vec![0; length];
        reader.read_exact(&mut event).expect("a body is whole");
        if behaviour == "wait-60-seconds" {
            // Whoever calls it gives up before the minute is over, and hangs up.
            let gone = reader.read(&mut [0]);
            assert!(gone.is_err() || gone.is_ok_and(|read| read == 0), "nothing follows a request under way");
            return;
        }
        let (head, body) = match invoke(&behaviour, String::from_utf8(event).expect("JSON is text")) {
            Ok(result) => ("", result),
            Err(raised) => ("X-Amz-Function-Error: Unhandled\r\n", raised),
        };
        let answer = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
