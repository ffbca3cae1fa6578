//! What is stored stays readable: one JSON for each variant of each stored enum, pinned in a file.
//!
//! A changed meaning gets a new variant, so a line of `golden/events.json` may be added but never edited.
//! `UPDATE=1 cargo test -p perdura-engine --test golden` writes the file; a person reads the diff.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::StateIx;
use perdura_engine::{
    Attempt, By, Certainty, EffectKey, Event, EventKind, ExecutionId, Fault, Identity, Input, Iteration,
    Kept, Labels, Lateness, LedgerStatus, MapRunOutcome, Note, Outcome, Record, Resolution, Resolved, Retry,
    Round, Scheduled, Secret, Seq, StateType, Status, StrandId, TaskFamily, TaskToken, Timestamp, Turn,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Debug;
use std::path::Path;

/// Names every variant twice: in a match that the compiler keeps complete, and in a list that the test does.
macro_rules! variants {
    ($($kind:ident { $($variant:ident),* $(,)? })*) => {$(
        impl Pinned for $kind {
            const ALL: &'static [&'static str] = &[$(stringify!($variant)),*];

            fn variant(&self) -> &'static str {
                match self {
                    $($kind::$variant { .. } => stringify!($variant),)*
                }
            }
        }
    )*};
}

trait Pinned: Serialize + DeserializeOwned + PartialEq + Debug {
    const ALL: &'static [&'static str];

    fn variant(&self) -> &'static str;
}

variants! {
    EventKind {
        ExecutionStarted, ExecutionSucceeded, ExecutionFailed, ExecutionAborted, ExecutionTimedOut,
        ExecutionRedriven, StateEntered, StateExited, StateAborted, StateFailed, StateSucceeded,
        ParallelStateStarted, MapStateStarted, MapIterationStarted, MapIterationSucceeded, MapIterationFailed,
        MapIterationAborted, MapRunStarted, MapRunSucceeded, MapRunFailed, MapRunAborted, MapRunRedriven,
        TaskScheduled, TaskStarted, TaskSubmitted, TaskSucceeded, TaskFailed, TaskSubmitFailed, TaskTimedOut,
        TaskNotStarted, EvaluationFailed,
    }
    Note {
        Resting, Woken, Repeated, Held, Resolved, FanStarted, StrandStarted, StrandEnded, StrandFailed, StrandsDropped, FanWaits, Settled, Ledger,
        LateOutcome, Ignored, Erased,
    }
    Record { Event, Note }
    Input {
        Start, Continue, TaskStarted, TaskOutcome, Heartbeat, ChildOutcome, Timer, Resume, Resolve, Stop, Redrive,
        RedriveOnce,
    }
    By { Key, Token }
    Outcome { Succeeded, Failed, NotStarted, Submitted, SubmitFailed }
    MapRunOutcome { Succeeded, Failed }
    TaskFamily { Lambda, Activity, Task }
    StateType { Pass, Task, Choice, Wait, Succeed, Fail, Parallel, Map }
    Certainty { Refused, NotSent, Ambiguous }
    LedgerStatus { Pending, Completed, Failed, Uncertain }
    Lateness { Unknown, Duplicate, GivenUp }
    Resolution { Completed, Failed, Again }
    Resolved { Completed, Failed, Again }
    Status { Created, Running, Succeeded, Failed, Aborted, TimedOut }
}

#[test]
fn the_json_of_what_is_stored_never_changes() {
    let mut golden = Golden::read();
    golden.pin("EventKind", event_kinds());
    golden.pin("Note", notes());
    golden.pin("Record", [Record::Event(event(event_kinds().remove(0))), Record::Note(notes().remove(1))]);
    golden.pin("Input", inputs());
    golden.pin("By", [by_key(), by_token()]);
    golden.pin("Outcome", outcomes());
    golden.pin(
        "MapRunOutcome",
        [MapRunOutcome::Succeeded { output: payload() }, MapRunOutcome::Failed { fault: fault() }],
    );
    golden.pin("TaskFamily", families());
    golden.pin("StateType", state_types());
    golden.pin("Certainty", [Certainty::Refused, Certainty::NotSent, Certainty::Ambiguous]);
    golden.pin("LedgerStatus", ledger_statuses());
    golden.pin("Status", statuses());
    golden.pin("Lateness", [Lateness::Unknown, Lateness::Duplicate, Lateness::GivenUp]);
    golden.pin(
        "Resolution",
        [
            Resolution::Completed { output: payload() },
            Resolution::Failed { fault: fault() },
            Resolution::Again,
        ],
    );
    golden.pin("Resolved", [Resolved::Completed, Resolved::Failed, Resolved::Again]);
    golden.finish();
}

#[test]
fn labels_and_the_root_key_stand_in_an_identity_only_where_they_are() {
    let before = r#"{"id":"01234567-89ab-4def-8123-456789abcdef","arn":"a","name":"n","machine_arn":"m","machine_name":"m","role_arn":"r","kind":"STANDARD","flow":0,"input":"{}","limits":{"payload_bytes_max":1,"variables_bytes_max":1,"events_max":null,"duration_seconds_max":null,"turn_states_max":1,"turn_bytes_max":1}}"#;
    let mut identity: Identity = serde_json::from_str(before).expect("an identity of an earlier version");
    assert_eq!((identity.labels.is_empty(), &identity.root_key), (true, &None));
    assert_eq!(serde_json::to_string(&identity).expect("it can be written"), before);
    identity.labels = Labels::new([("tenant", "x"), ("order", "A-1")]).expect("they are short");
    identity.root_key = Some("key".into());
    let after = serde_json::to_string(&identity).expect("it can be written");
    assert!(after.contains(r#","labels":{"order":"A-1","tenant":"x"},"root_key":"key","kind""#), "{after}");
    assert_eq!(serde_json::from_str::<Identity>(&after).expect("it can be read"), identity);
}

#[test]
fn what_is_absent_is_not_stored_and_reads_as_absent() {
    let bare = [
        r#"{"TaskStarted":{"family":{"Lambda":{"resource":"arn"}}}}"#,
        r#"{"StateExited":{"state_type":"Pass","name":"A","output":"{}"}}"#,
        r#"{"ExecutionFailed":{}}"#,
        r#"{"ExecutionRedriven":{"redrive_count":1}}"#,
        r#"{"ExecutionRedriven":{"redrive_count":1,"token":"t"}}"#,
        r#"{"TaskScheduled":{"family":{"Lambda":{"resource":"arn"}},"input":"1","round":1}}"#,
    ];
    for text in bare {
        let kind: EventKind = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&kind).expect(text), text);
    }
    for text in [
        r#"{"id":7,"previous":6,"at":9,"strand":3,"kind":"MapRunSucceeded"}"#,
        r#"{"id":7,"previous":6,"at":9,"steady":5,"strand":3,"kind":"MapRunSucceeded"}"#,
    ] {
        let event: Event = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&event).expect(text), text);
    }
    for text in [
        r#"{"Resting":{"strand":3,"until":9,"retry":null}}"#,
        r#"{"Resting":{"strand":3,"until":9,"retry":null,"wall":true}}"#,
        r#"{"Ledger":{"key":"e:A#1:1","status":"Failed"}}"#,
        r#"{"Ledger":{"strand":3,"key":"e:A#1:1","status":"Failed"}}"#,
        r#"{"LateOutcome":{"strand":3,"key":null,"succeeded":true}}"#,
        r#"{"LateOutcome":{"strand":3,"key":null,"succeeded":true,"lateness":"GivenUp"}}"#,
    ] {
        let note: Note = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&note).expect(text), text);
    }
    let turn: Turn =
        serde_json::from_str(r#"{"records":[{"Note":{"Woken":{"strand":4}}}]}"#).expect("a Turn");
    assert_eq!(turn.records, [Record::Note(Note::Woken { strand: StrandId(4) })]);
}

#[test]
fn a_payload_is_stored_as_its_text_to_the_byte() {
    let text = r#"{"a": 1.0, "b":[ 9007199254740993 ]}"#;
    let kind = EventKind::ExecutionStarted { input: Payload::from_text(text).expect("JSON") };
    let stored = serde_json::to_string(&kind).expect("an event can be stored");
    let read: EventKind = serde_json::from_str(&stored).expect("a stored event can be read");
    let EventKind::ExecutionStarted { input } = read else { panic!("another event: {read:?}") };
    assert_eq!(&**input.text(), text);
}

/// The file, what it should be, and what is wrong with it.
struct Golden {
    read: Map<String, Value>,
    wanted: Map<String, Value>,
    wrong: Vec<String>,
}

impl Golden {
    fn path() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/events.json")
    }

    #[expect(clippy::disallowed_methods, reason = "the golden file is read in this test only")]
    fn read() -> Self {
        let text = std::fs::read_to_string(Self::path()).unwrap_or_else(|_| "{}".into());
        let read = serde_json::from_str(&text).expect("the golden file is a JSON object");
        Self { read, wanted: Map::new(), wrong: Vec::new() }
    }

    fn pin<P: Pinned>(&mut self, name: &str, samples: impl IntoIterator<Item = P>) {
        let mut wanted = Map::new();
        for sample in samples {
            let json = serde_json::to_value(&sample).expect("what is stored can be");
            let known = wanted.insert(sample.variant().into(), json.clone());
            assert_eq!(known, None, "{name}::{} has two samples", sample.variant());
            match self.read.get(name).and_then(|kind| kind.get(sample.variant())) {
                Some(golden) => {
                    if *golden != json {
                        self.wrong.push(format!(
                            "{name}::{} was stored as {golden}, now as {json}",
                            sample.variant()
                        ));
                    }
                    match serde_json::from_value::<P>(golden.clone()) {
                        Ok(read) if read == sample => {}
                        Ok(read) => self.wrong.push(format!("{golden} is read as {read:?}, not {sample:?}")),
                        Err(error) => self.wrong.push(format!("{golden} cannot be read: {error}")),
                    }
                }
                None => self.wrong.push(format!("{name}::{} is not in the file: {json}", sample.variant())),
            }
        }
        for variant in P::ALL {
            assert!(wanted.contains_key(*variant), "{name}::{variant} has no sample in this test");
        }
        for gone in self.read.get(name).and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if !wanted.contains_key(gone) {
                self.wrong.push(format!("{name}::{gone} was stored once and is gone"));
            }
        }
        self.wanted.insert(name.into(), wanted.into());
    }

    fn finish(self) {
        if std::env::var_os("UPDATE").is_some() {
            let text = serde_json::to_string_pretty(&self.wanted).expect("samples are JSON");
            std::fs::write(Self::path(), text + "\n").expect("the golden file can be written");
            return;
        }
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

fn payload() -> Payload {
    Payload::from_text(r#"{"a": [1, 2.50]}"#).expect("JSON")
}

fn fault() -> Fault {
    Fault::new("Card.Declined", "no money")
}

fn key() -> EffectKey {
    serde_json::from_value("00000000-0000-4000-8000-000000000001:Charge[2:3]#4:5".into()).expect("a key")
}

fn by_key() -> By {
    By::Key { strand: StrandId(3), key: key(), attempt: Some(Attempt(2)) }
}

fn by_token() -> By {
    let execution = ExecutionId::from_random(1);
    By::Token(TaskToken { execution, strand: StrandId(3), secret: Secret(255) })
}

fn event(kind: EventKind) -> Event {
    Event {
        id: Seq(7),
        previous: Seq(6),
        at: Timestamp(1_767_225_600_000),
        steady: None,
        strand: StrandId(3),
        kind,
    }
}

fn families() -> [TaskFamily; 3] {
    [
        TaskFamily::Lambda { resource: "arn:aws:lambda:us-east-1:123456789012:function:charge".into() },
        TaskFamily::Activity { resource: "arn:aws:states:us-east-1:123456789012:activity:charge".into() },
        TaskFamily::Task { resource_type: "lambda".into(), resource: "invoke".into() },
    ]
}

fn state_types() -> [StateType; 8] {
    [
        StateType::Pass,
        StateType::Task,
        StateType::Choice,
        StateType::Wait,
        StateType::Succeed,
        StateType::Fail,
        StateType::Parallel,
        StateType::Map,
    ]
}

fn ledger_statuses() -> [LedgerStatus; 4] {
    [LedgerStatus::Pending, LedgerStatus::Completed, LedgerStatus::Failed, LedgerStatus::Uncertain]
}

fn statuses() -> [Status; 6] {
    [Status::Created, Status::Running, Status::Succeeded, Status::Failed, Status::Aborted, Status::TimedOut]
}

fn outcomes() -> [Outcome; 5] {
    [
        Outcome::Succeeded { output: payload() },
        Outcome::Failed { fault: fault(), certainty: Certainty::Refused },
        Outcome::NotStarted { fault: fault(), scheduled: false },
        Outcome::Submitted { output: payload() },
        Outcome::SubmitFailed { fault: Fault::named("Busy"), certainty: Certainty::Ambiguous },
    ]
}

fn inputs() -> [Input; 12] {
    let [succeeded, ..] = outcomes();
    [
        Input::Start,
        Input::Continue,
        Input::TaskStarted { by: by_token(), worker: Some("worker-1".into()) },
        Input::TaskOutcome { by: by_key(), outcome: succeeded },
        Input::Heartbeat { by: by_token() },
        Input::ChildOutcome { by: by_key(), outcome: MapRunOutcome::Succeeded { output: payload() } },
        Input::Timer,
        Input::Resume,
        Input::Resolve {
            by: by_key(),
            resolution: Resolution::Again,
            reason: "the bank has no trace of it".into(),
        },
        Input::Stop { fault: fault() },
        Input::Redrive,
        Input::RedriveOnce { token: "t-1".into() },
    ]
}

fn notes() -> Vec<Note> {
    let strand = StrandId(3);
    vec![
        Note::Resting {
            strand,
            until: Timestamp(1_767_225_605_000),
            retry: Some(Retry { retrier: 1, round: Round(2) }),
            wall: false,
        },
        Note::Woken { strand },
        Note::Repeated { strand, key: key() },
        Note::Held { strand, key: key(), fault: fault(), at: Some(Timestamp(1_767_225_605_000)) },
        Note::Resolved {
            strand,
            key: key(),
            resolution: Resolved::Completed,
            reason: "seen on the statement".into(),
            at: Some(Timestamp(1_767_225_605_000)),
        },
        Note::FanStarted { strand, total: 9, at_once: 2, items: payload() },
        Note::StrandStarted {
            strand,
            parent: StrandId::TOP,
            index: 8,
            after: Seq(6),
            input: Some(payload()),
        },
        Note::StrandEnded { strand, output: payload() },
        Note::StrandFailed { strand, fault: fault() },
        Note::StrandsDropped { parent: strand },
        Note::FanWaits { strand, fault: fault() },
        Note::Settled { strand, kept: Kept::Round(Round(2)) },
        Note::Ledger { strand: StrandId::TOP, key: key(), status: LedgerStatus::Uncertain },
        Note::LateOutcome { strand, key: Some(key()), succeeded: true, lateness: Lateness::Unknown },
        Note::Ignored { reason: "the execution has ended".into() },
        Note::Erased { at: Timestamp(1_767_225_605_000) },
    ]
}

fn event_kinds() -> Vec<EventKind> {
    let [lambda, activity, task] = families();
    let iteration = Iteration { name: "Each".into(), index: 3 };
    let arn = "arn:aws:states:us-east-1:123456789012:mapRun:story/Each:1";
    vec![
        EventKind::ExecutionStarted { input: payload() },
        EventKind::ExecutionSucceeded { output: payload() },
        EventKind::ExecutionFailed(fault()),
        EventKind::ExecutionAborted(Fault::default()),
        EventKind::ExecutionTimedOut(Fault::named("States.Timeout")),
        EventKind::ExecutionRedriven { redrive_count: 1, token: None },
        EventKind::StateEntered {
            state: StateIx(5),
            state_type: StateType::Task,
            name: "Charge".into(),
            input: payload(),
        },
        EventKind::StateExited {
            state_type: StateType::Task,
            name: "Charge".into(),
            output: payload(),
            assigned: vec![("x".into(), payload())],
        },
        EventKind::StateAborted { state_type: StateType::Wait },
        EventKind::StateFailed { state_type: StateType::Map },
        EventKind::StateSucceeded { state_type: StateType::Parallel },
        EventKind::ParallelStateStarted,
        EventKind::MapStateStarted { length: 9 },
        EventKind::MapIterationStarted(iteration.clone()),
        EventKind::MapIterationSucceeded(iteration.clone()),
        EventKind::MapIterationFailed(iteration.clone()),
        EventKind::MapIterationAborted(iteration),
        EventKind::MapRunStarted { arn: arn.into() },
        EventKind::MapRunSucceeded,
        EventKind::MapRunFailed(fault()),
        EventKind::MapRunAborted,
        EventKind::MapRunRedriven { arn: arn.into(), redrive_count: 2 },
        EventKind::TaskScheduled(Box::new(Scheduled {
            family: task.clone(),
            input: payload(),
            timeout_seconds: Some(60),
            heartbeat_seconds: Some(10),
            credentials: Some(payload()),
            round: Round(2),
            secret: Some(Secret(255)),
        })),
        EventKind::TaskStarted { family: activity.clone(), worker: Some("worker-1".into()) },
        EventKind::TaskSubmitted { family: task.clone(), output: payload() },
        EventKind::TaskSucceeded { family: lambda.clone(), output: payload() },
        EventKind::TaskFailed { family: lambda.clone(), fault: fault(), certainty: Certainty::Refused },
        EventKind::TaskSubmitFailed { family: task, fault: fault(), certainty: Certainty::Ambiguous },
        EventKind::TaskTimedOut { family: activity, fault: Fault::named("States.Timeout") },
        EventKind::TaskNotStarted { family: lambda, scheduled: true, fault: fault() },
        EventKind::EvaluationFailed {
            state: "Charge".into(),
            location: Some("Output/total".into()),
            fault: fault(),
        },
    ]
}
