//! Scripts: what is asked and what comes of it, as text.
//!
//! ```text
//! ## A promise: one case, on data of its own
//! with quota activities=1
//! CreateActivity {"name": "a"}
//! = {"activityArn": "@activity:a", "creationDate": "<now>"}
//! CreateActivity {"name": "b"}
//! ! ActivityLimitExceeded: The maximum number of activities is 1
//! ```
//!
//! | Line | Means |
//! |---|---|
//! | `with …` | how the server is set up; `with served` or `with alone`: the case is for that one only |
//! | `given m %pass EXPRESS publish` | a machine; the last two words may be absent |
//! | `run m n {…}` | an execution of it by this name, with this input or none |
//! | `ended m n FAILED` | waits until it has this status |
//! | `Name {…}` | an action of the API |
//! | `name {…}` | a request of the command line |
//! | `until name {…}` | the same, again and again until the next line holds |
//! | `leave deleting m` | the process ends while it deletes a machine, and another one has the data |
//! | `go on deleting` | a server goes on with that |
//! | `go served`, `go alone`, `go beside` | the process ends, and another one has the data |
//! | `= JSON`, `~ JSON` | the answer; it has at least these members |
//! | `! text` | the refusal: code and message, members in brackets, the remedy after an arrow |
//! | `served= …`, `alone! …` | the same, of that one alone |
//!
//! A line that begins with blanks goes on with the one before. An answer without a line of its own is no refusal. `@kind:`
//! stands for an ARN of ours, `%name` for a definition of `machines.json`, `<x*80>` for eighty of them. Documents, which
//! go as text, may be written as they are. `<word>` in what is expected takes what is there, and stands for it from then
//! on; `<*>` takes anything, `<now>` a time of the last minute, `<performs>` whether there is a server.

use crate::folder;
use crate::stage::{Mode, Stage, With, tokio};
use perdura_engine::asl::timestamp::parse_ms;
use perdura_server::Refusal;
use perdura_server::control::Request;
use perdura_server::sfn::ApiError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long is waited for what `until` says.
const DEADLINE: Duration = Duration::from_secs(20);
/// Members that are JSON in a text.
const DOCUMENTS: [&str; 8] =
    ["definition", "input", "output", "variables", "context", "result", "completed", "mapItemReaderData"];
/// The role of machines that are given.
const ROLE: &str = "arn:aws:iam::123456789012:role/given";
const KINDS: [&str; 5] = ["stateMachine", "execution", "express", "mapRun", "activity"];

/// Runs all cases of a file, and says of all that fail where they stand.
pub(crate) fn run(path: &Path, modes: &[Mode]) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let machines = fs::read_to_string(folder("machines.json")).expect("the machines are there");
    let machines: Value = serde_json::from_str(&machines).expect("the machines are JSON");
    let (tokio, cases) = (tokio(), cases(&text));
    assert!(!cases.is_empty(), "{} has no case", path.display());
    let mut failed = String::new();
    for case in &cases {
        for mode in case.modes.as_ref().map_or(modes, std::slice::from_ref) {
            let stage = Stage::new(&tokio, case.with.clone(), *mode);
            let mut playing = Playing { stage, machines: &machines, known: BTreeMap::new() };
            if let Err((line, why)) = playing.play(case) {
                let (path, title) = (path.display(), &case.title);
                writeln!(failed, "{path}:{line}: {title} ({mode:?})\n{why}\n").expect("a text takes all");
            }
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
}

struct Case {
    title: String,
    with: With,
    modes: Option<Mode>,
    steps: Vec<Step>,
}

struct Step {
    line: usize,
    kind: StepKind,
}

enum StepKind {
    Go(Mode),
    LeaveDeleting(String),
    GoOnDeleting,
    Ask { name: String, body: String, is_awaited: bool, expected: Vec<Expected> },
}

/// What is expected of an answer, by all or by one.
struct Expected {
    of: Option<Mode>,
    mark: char,
    text: String,
}

/// The lines of a script with their numbers; those that go on are joined.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let is_comment = line.starts_with("# ") || line == "#";
        if line.trim().is_empty() || is_comment {
            continue;
        }
        match lines.last_mut() {
            Some((_, before)) if line.starts_with(' ') => {
                before.push(' ');
                before.push_str(line.trim());
            }
            _ => lines.push((number + 1, line.trim_end().to_owned())),
        }
    }
    lines
}

fn mode(word: &str) -> Option<Mode> {
    match word {
        "served" => Some(Mode::Served),
        "alone" => Some(Mode::Alone),
        "beside" => Some(Mode::Beside),
        _ => None,
    }
}

fn expectation(line: &str) -> Option<Expected> {
    let (first, text) = line.split_once(' ')?;
    let mark = first.chars().last().filter(|mark| "=~!".contains(*mark))?;
    let of = &first[..first.len() - 1];
    let known = if of.is_empty() { None } else { Some(mode(of)?) };
    Some(Expected { of: known, mark, text: text.to_owned() })
}

/// Takes a script apart.
fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (line, text) in lines(text) {
        if let Some(title) = text.strip_prefix("## ") {
            let (title, with) = (title.to_owned(), With::default());
            cases.push(Case { title, with, modes: None, steps: Vec::new() });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("line {line} is in no case"));
        if let Some(word) = text.strip_prefix("with ") {
            match mode(word) {
                Some(mode) => case.modes = Some(mode),
                None => case.with.and(word),
            }
        } else if let Some(machine) = text.strip_prefix("leave deleting ") {
            case.steps.push(Step { line, kind: StepKind::LeaveDeleting(machine.to_owned()) });
        } else if text == "go on deleting" {
            case.steps.push(Step { line, kind: StepKind::GoOnDeleting });
        } else if let Some(word) = text.strip_prefix("go ") {
            let mode = mode(word).unwrap_or_else(|| panic!("line {line}: {word} is nobody"));
            case.steps.push(Step { line, kind: StepKind::Go(mode) });
        } else if let Some(expected) = expectation(&text) {
            match case.steps.last_mut().map(|step| &mut step.kind) {
                Some(StepKind::Ask { expected: all, .. }) => all.push(expected),
                Some(StepKind::Go(_) | StepKind::LeaveDeleting(_) | StepKind::GoOnDeleting) | None => {
                    panic!("line {line} expects something of nothing")
                }
            }
        } else {
            let (is_awaited, asked) = match text.strip_prefix("until ") {
                Some(asked) => (true, asked),
                None => (false, &*text),
            };
            let (name, body) = asked.split_once(' ').unwrap_or((asked, ""));
            let (mut expected, is_end) = (Vec::new(), name == "ended");
            if is_end {
                let status = body.split(' ').nth(2).expect("ended MACHINE NAME STATUS");
                let text = json!({"execution": {"status": status}}).to_string();
                expected.push(Expected { of: None, mark: '~', text });
            }
            let (name, body) = (name.to_owned(), body.to_owned());
            let kind = StepKind::Ask { name, body, is_awaited: is_awaited || is_end, expected };
            case.steps.push(Step { line, kind });
        }
    }
    cases
}

/// A case under way.
struct Playing<'a> {
    stage: Stage,
    machines: &'a Value,
    /// What was taken from answers, by the word that stands for it.
    known: BTreeMap<String, Value>,
}

impl Playing<'_> {
    fn play(&mut self, case: &Case) -> Result<(), (usize, String)> {
        for Step { line, kind } in &case.steps {
            match kind {
                StepKind::Go(mode) => self.stage.go(*mode),
                StepKind::LeaveDeleting(machine) => self.stage.leave_deleting(machine),
                StepKind::GoOnDeleting => self.stage.go_on_deleting(),
                StepKind::Ask { name, body, is_awaited, expected } => {
                    let deadline = Instant::now() + if *is_awaited { DEADLINE } else { Duration::ZERO };
                    loop {
                        match self.ask(name, body, expected) {
                            Ok(()) => break,
                            Err(why) if Instant::now() >= deadline => return Err((*line, why)),
                            Err(_) => std::thread::yield_now(),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks once, and compares.
    fn ask(&mut self, name: &str, body: &str, expected: &[Expected]) -> Result<(), String> {
        let body = self.expand(body);
        let (name, body) = self.in_full(name, body);
        let told = if name.starts_with(char::is_uppercase) {
            let body = match serde_json::from_str(&body) {
                Ok(json) => self.with_documents(json).to_string(),
                Err(_) => body,
            };
            self.stage.ask(&name, &body).map_err(|error| refused(&error))
        } else {
            self.command(&name, &body)
        };
        let mode = self.stage.mode();
        let mut expected =
            expected.iter().filter(|expected| expected.of.is_none_or(|of| of == mode)).peekable();
        if let (None, Err(refusal)) = (expected.peek(), &told) {
            return Err(format!("it is refused: {refusal}"));
        }
        for Expected { mark, text, .. } in expected {
            let text = self.expand(text);
            let shown = || match &told {
                Ok(answer) => format!("the answer is\n  {answer}"),
                Err(refusal) => format!("it is refused:\n! {refusal}"),
            };
            let fits = match (mark, &told) {
                ('!', Err(refusal)) => self.fits_text(&text, refusal),
                ('=' | '~', Ok(answer)) => {
                    let wanted: Value =
                        serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))?;
                    self.fits(&wanted, answer, *mark == '=').map_err(|why| format!("{why}; {}", shown()))?;
                    true
                }
                (_, _) => false,
            };
            if !fits {
                return Err(shown());
            }
        }
        Ok(())
    }

    /// What a short line stands for.
    fn in_full(&self, name: &str, body: String) -> (String, String) {
        let is_served = self.stage.mode() == Mode::Served;
        let mut words = body.splitn(3, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (action, request) = match name {
            "given" => {
                let (machine, definition, rest) = (next(), next(), next());
                let kind = if rest.contains("EXPRESS") { "EXPRESS" } else { "STANDARD" };
                if is_served {
                    let request = json!({
                        "name": machine, "definition": definition, "roleArn": ROLE, "type": kind,
                        "publish": rest.contains("publish"),
                    });
                    ("CreateStateMachine", request)
                } else {
                    ("deploy", json!({"machine": machine, "kind": kind, "definition": definition}))
                }
            }
            "run" => {
                let (machine, name, input) = (next(), next(), next());
                let input = if input.is_empty() { "{}" } else { input };
                if is_served {
                    let machine = self.expand(&format!("@stateMachine:{machine}"));
                    ("StartExecution", json!({"stateMachineArn": machine, "name": name, "input": input}))
                } else {
                    ("start", json!({"machine": machine, "name": name, "input": input, "strict": false}))
                }
            }
            "ended" => ("show", json!({"execution": format!("{}/{}", next(), next())})),
            name => return (name.to_owned(), body),
        };
        (action.to_owned(), request.to_string())
    }

    fn command(&mut self, name: &str, body: &str) -> Result<Value, String> {
        let request = if body.is_empty() {
            json!(name)
        } else {
            let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {body}"));
            json!({ name: self.with_documents(body) })
        };
        let request: Request = serde_json::from_value(request.clone())
            .unwrap_or_else(|error| panic!("{request} is no request: {error}"));
        let told = self.stage.command(request);
        told.map(|answer| serde_json::to_value(answer).expect("answers are JSON"))
            .map_err(|refusal| refused_with(&refusal))
    }

    /// Puts in what words and signs stand for.
    fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for kind in KINDS {
            text =
                text.replace(&format!("@{kind}:"), &format!("arn:aws:states:us-east-1:123456789012:{kind}:"));
        }
        for (word, value) in &self.known {
            match value {
                Value::String(value) => text = text.replace(&format!("<{word}>"), value),
                value => text = text.replace(&format!("\"<{word}>\""), &value.to_string()),
            }
        }
        while let Some((before, what, many, after)) = repeated(&text) {
            text = format!("{before}{}{after}", what.repeat(many));
        }
        text
    }

    /// Documents as texts, and definitions by name.
    fn with_documents(&self, json: Value) -> Value {
        match json {
            Value::Object(members) => {
                let member = |(name, value): (String, Value)| {
                    let value = match value {
                        Value::String(text) if text.starts_with('%') => {
                            let machine = self.machines.get(&text[1..]);
                            machine
                                .unwrap_or_else(|| panic!("there is no definition {text}"))
                                .to_string()
                                .into()
                        }
                        value @ (Value::Object(_) | Value::Array(_)) if DOCUMENTS.contains(&&*name) => {
                            value.to_string().into()
                        }
                        value => self.with_documents(value),
                    };
                    (name, value)
                };
                Value::Object(members.into_iter().map(member).collect())
            }
            Value::Array(items) => items.into_iter().map(|item| self.with_documents(item)).collect(),
            other => other,
        }
    }

    /// Whether an answer is as expected; `exactly`: it has no other members.
    fn fits(&mut self, wanted: &Value, found: &Value, exactly: bool) -> Result<(), String> {
        match (wanted, found) {
            (Value::Object(wanted), Value::Object(found)) => {
                for (name, value) in wanted {
                    let inner = found.get(name).ok_or_else(|| format!("{name} is missing"))?;
                    self.fits(value, inner, exactly).map_err(|why| format!("{name}: {why}"))?;
                }
                match found.keys().find(|name| exactly && !wanted.contains_key(*name)) {
                    Some(name) => Err(format!("{name} is not expected")),
                    None => Ok(()),
                }
            }
            (Value::Array(wanted), Value::Array(found)) => {
                if wanted.len() != found.len() {
                    return Err(format!("there are {}, and not {}", found.len(), wanted.len()));
                }
                let mut pairs = wanted.iter().zip(found).enumerate();
                pairs.try_for_each(|(at, (wanted, found))| {
                    self.fits(wanted, found, exactly).map_err(|why| format!("{at}: {why}"))
                })
            }
            // A document.
            (Value::Object(_) | Value::Array(_), Value::String(text)) => {
                let found = serde_json::from_str(text).map_err(|_| format!("{text} is no document"))?;
                self.fits(wanted, &found, exactly)
            }
            (Value::String(wanted), found) => {
                if self.fits_word(wanted, found) {
                    Ok(())
                } else {
                    Err(format!("{found} is not {wanted}"))
                }
            }
            // An instant, as the two doors write it.
            (Value::Number(seconds), Value::String(written))
                if milliseconds(seconds) == parse_ms(written) =>
            {
                Ok(())
            }
            (Value::Number(wanted), Value::Number(found)) if wanted.as_f64() == found.as_f64() => Ok(()),
            (wanted, found) if wanted == found => Ok(()),
            (wanted, found) => Err(format!("{found} is not {wanted}")),
        }
    }

    fn fits_word(&mut self, wanted: &str, found: &Value) -> bool {
        if let Some(name) = wanted.strip_prefix('%') {
            let text = self.machines.get(name).map(Value::to_string);
            return text.as_deref() == found.as_str();
        }
        match (wanted, found) {
            ("<*>", _) => true,
            ("<performs>", found) => *found == Value::Bool(self.stage.mode() == Mode::Served),
            ("<now>", Value::Number(seconds)) => seconds.as_f64().is_some_and(is_now),
            ("<now>", Value::String(instant)) => instant.ends_with('Z') && instant.contains('T'),
            (wanted, Value::String(found)) => self.fits_text(wanted, found),
            (wanted, found) => match word(wanted) {
                Some(("", name, "")) => {
                    self.known.insert(name.to_owned(), found.clone());
                    true
                }
                Some(_) | None => false,
            },
        }
    }

    /// Whether a text is as expected, where a word takes what is there.
    fn fits_text(&mut self, wanted: &str, found: &str) -> bool {
        let Some((before, name, after)) = word(wanted) else { return wanted == found };
        let Some(rest) = found.strip_prefix(before) else { return false };
        let next = word(after).map_or(after, |(until, _, _)| until);
        let length = if after == next { rest.strip_suffix(after).map(str::len) } else { rest.find(next) };
        let Some(length) = length else { return false };
        if name != "*" {
            self.known.insert(name.to_owned(), rest[..length].into());
        }
        let after = self.expand(after);
        self.fits_text(&after, &rest[length..])
    }
}

/// What stands before a word in brackets, the word, and what stands after it.
fn word(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('<')?;
    let (name, after) = rest.split_once('>')?;
    let is_word = name == "*" || !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric());
    is_word.then_some((before, name, after))
}

/// The first `<x*80>` of a text.
fn repeated(text: &str) -> Option<(&str, &str, usize, &str)> {
    text.match_indices('<').find_map(|(at, _)| {
        let (inside, after) = text[at + 1..].split_once('>')?;
        let (what, many) = inside.split_once('*')?;
        Some((&text[..at], what, many.parse().ok()?, after))
    })
}

fn milliseconds(seconds: &serde_json::Number) -> Option<i64> {
    seconds.as_f64().map(|seconds| (seconds * 1_000.0).round() as i64)
}

fn is_now(seconds: f64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs_f64();
    (now - 60.0..now + 60.0).contains(&seconds)
}

/// `Code: message [member=value]`
fn refused(error: &ApiError) -> String {
    let members = error.members.iter().map(|(name, value)| format!(" [{name}={value}]"));
    format!("{error}{}", members.collect::<String>())
}

/// `kind: what -> remedy`
fn refused_with(refusal: &Refusal) -> String {
    let kind = serde_json::to_value(refusal.kind).expect("it is a word");
    let remedy = refusal.remedy.as_deref().map(|remedy| format!(" -> {remedy}")).unwrap_or_default();
    let told = format!("{}: {}{remedy}", kind.as_str().unwrap_or_default(), refusal.what);
    told.replace('\n', "\\n")
}
