//! A stored execution stays readable: one for each way in which a step can stand, pinned in a file.
//!
//! What `golden/executions.json` holds may be in somebody's database. A member may be added, with a default for
//! those who lack it; then a new execution is added here too, and the old ones stay as they are.
//! `UPDATE=1 cargo test -p perdura-engine --test snapshot` writes the file; a person reads the diff.

mod stage;

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{
    By, Certainty, Fault, Input, Limits, MapRunOutcome, Moment, Outcome, Policy, Standing, Status, Uncertain,
};
use serde_json::{Map, Value};
use stage::{Policies, START, Stage, identity, laws, machine};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Every way to stand; the compiler keeps the match complete, the test the list.
fn name(standing: &Standing) -> &'static str {
    match standing {
        Standing::Ready => "Ready",
        Standing::Calling { .. } => "Calling",
        Standing::Resting { .. } => "Resting",
        Standing::Held { .. } => "Held",
        Standing::Fanning(_) => "Fanning",
        Standing::MapRunning { .. } => "MapRunning",
    }
}

const STANDINGS: [&str; 6] = ["Ready", "Calling", "Resting", "Held", "Fanning", "MapRunning"];

#[test]
fn a_stored_execution_is_read_as_it_was() {
    let golden = read();
    let (mut wanted, mut wrong, mut seen) = (Map::new(), Vec::new(), BTreeSet::new());
    for (what, mut play) in plays() {
        let execution = play.stage.execution();
        seen.extend(
            execution.strands().filter_map(|(_, strand)| Some(name(&strand.step.as_ref()?.standing))),
        );
        let stored: Value = serde_json::from_str(&laws::stored(execution)).expect("an execution is JSON");
        match golden.get(what) {
            None => wrong.push(format!("{what} is not in the file")),
            Some(before) => {
                if *before != stored {
                    wrong.push(format!("{what} was stored as\n{before}\nand now as\n{stored}"));
                }
                let policies = Policies::default();
                let read = laws::restored(execution.machine().clone(), &before.to_string(), &policies);
                assert!(read == *execution, "{what} is read as it was");
            }
        }
        // One that was stored before failed keys were remembered is read, too.
        let mut older = stored.clone();
        older["core"].as_object_mut().expect("an object").remove("failed");
        laws::restored(execution.machine().clone(), &older.to_string(), &Policies::default());
        wanted.insert(what.into(), stored);
        // And it is as good as the one that was not stored.
        play.stage.restart(&Moment::at(START.after_seconds(65), 99));
        play.stage.finish();
    }
    assert_eq!(seen, BTreeSet::from(STANDINGS), "every way to stand is stored");
    if std::env::var_os("UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&wanted).expect("executions are JSON");
        return std::fs::write(path(), text + "\n").expect("the golden file can be written");
    }
    wrong.extend(
        golden.keys().filter(|what| !wanted.contains_key(*what)).map(|what| format!("{what} is gone")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/executions.json")
}

#[expect(clippy::disallowed_methods, reason = "the golden file is read in this test only")]
fn read() -> Map<String, Value> {
    let text = std::fs::read_to_string(path()).unwrap_or_else(|_| "{}".into());
    serde_json::from_str(&text).expect("the golden file is a JSON object")
}

/// An execution on its way.
struct Play {
    stage: Stage,
    turns: u128,
}

impl Play {
    fn new(definition: &str, limits: Limits, policies: Policies) -> Self {
        let machine = machine("golden.json", definition, MachineType::Standard);
        let identity = identity(&machine, r#"{"items": ["a", "b", "c"]}"#, limits);
        Self { stage: Stage::new(machine, identity).with_policies(policies), turns: 0 }
    }

    /// At so many seconds after the start by the steady clock; the wall clock is a minute ahead.
    fn then(mut self, seconds: u64, input: &Input) -> Self {
        self.turns += 1;
        let steady = START.after_seconds(seconds);
        let moment = Moment { now: steady.after_seconds(60), steady, entropy: self.turns };
        let taken = self.stage.take(input, &moment);
        let follows = !taken.turn.records.is_empty() || !taken.effects.is_empty();
        assert!(follows && taken.turn.ignored().is_none(), "something follows from {input:?}");
        self
    }

    /// The newest call is answered.
    fn answered(self, seconds: u64, outcome: Outcome) -> Self {
        let call = self.stage.calls().last().expect("there is a call");
        let by = call.by();
        self.then(seconds, &Input::TaskOutcome { by, outcome })
    }
}

fn payload(text: &str) -> Payload {
    Payload::from_text(text).expect("JSON")
}

fn failed(certainty: Certainty) -> Outcome {
    Outcome::Failed { fault: Fault::new("Bank.Busy", "try later"), certainty }
}

fn plays() -> Vec<(&'static str, Play)> {
    let plain = |definition: &str| Play::new(definition, Limits::GENEROUS, Policies::default());
    let hold = Policies(vec![("charge".into(), Policy { uncertain: Uncertain::Hold, ..Policy::default() })]);
    let cut = Limits { turn_states_max: 2, ..Limits::strict(MachineType::Standard) };
    vec![
        ("not begun", plain(CALLBACK)),
        ("cut, with variables", Play::new(PASSES, cut, Policies::default()).then(0, &Input::Start)),
        (
            "a callback that was handed over",
            plain(CALLBACK)
                .then(0, &Input::Start)
                .answered(1, Outcome::Submitted { output: payload(r#"{"MessageId": "7"}"#) }),
        ),
        (
            "a pause before a retry in the next round",
            plain(RETRIES).then(0, &Input::Start).answered(1, failed(Certainty::Refused)),
        ),
        ("a Wait until a time", plain(WAITS).then(0, &Input::Start)),
        (
            "held",
            Play::new(CHARGE, Limits::GENEROUS, hold.clone())
                .then(0, &Input::Start)
                .answered(1, failed(Certainty::Ambiguous)),
        ),
        (
            "held when redriven",
            Play::new(CHARGE, Limits::GENEROUS, hold)
                .then(0, &Input::Start)
                .then(1, &Input::Stop { fault: Fault::default() })
                .then(2, &Input::Redrive),
        ),
        ("a Map of which a part is done", gathered_in_part()),
        ("a redriven Map Run", redriven_map_run()),
        ("failed", plain(CHARGE).then(0, &Input::Start).answered(1, failed(Certainty::Ambiguous))),
    ]
}

fn gathered_in_part() -> Play {
    let play = Play::new(MAP, Limits::GENEROUS, Policies::default()).then(0, &Input::Start);
    let call = play.stage.calls().first().expect("there is a call").clone();
    let by = call.by();
    play.then(1, &Input::TaskOutcome { by, outcome: Outcome::Succeeded { output: payload("1") } })
}

fn redriven_map_run() -> Play {
    let play = Play::new(DISTRIBUTED, Limits::GENEROUS, Policies::default()).then(0, &Input::Start);
    let (strand, key) = play.stage.map_runs()[0].clone();
    let outcome = MapRunOutcome::Failed { fault: Fault::named("Bad") };
    let play = play.then(1, &Input::ChildOutcome { by: By::Key { strand, key, attempt: None }, outcome });
    assert_eq!(play.stage.execution().status(), Status::Failed);
    play.then(2, &Input::Redrive)
}

const PASSES: &str = r#"{"StartAt": "A", "TimeoutSeconds": 900, "States": {
    "A": {"Type": "Pass", "Assign": {"x": {"y": 1}}, "Next": "B"},
    "B": {"Type": "Pass", "End": true}}}"#;

const CALLBACK: &str = r#"{"StartAt": "Ask", "States": {"Ask": {"Type": "Task",
    "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
    "Parameters": {"QueueUrl": "q", "MessageBody.$": "$$.Task.Token"},
    "Credentials": {"RoleArn": "arn:aws:iam::123456789012:role/other"},
    "TimeoutSeconds": 60, "HeartbeatSeconds": 10, "End": true}}}"#;

const RETRIES: &str = r#"{"StartAt": "Charge", "States": {"Charge": {"Type": "Task",
    "Resource": "arn:aws:lambda:us-east-1:123456789012:function:charge",
    "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 30}], "End": true}}}"#;

const WAITS: &str = r#"{"StartAt": "Rest", "States": {"Rest": {"Type": "Wait",
    "Timestamp": "2026-02-01T00:00:00Z", "End": true}}}"#;

const CHARGE: &str = r#"{"StartAt": "Charge", "States": {"Charge": {"Type": "Task",
    "Resource": "arn:perdura:step:::charge", "TimeoutSeconds": 60, "End": true}}}"#;

const MAP: &str = r#"{"StartAt": "Each", "States": {"Each": {"Type": "Map", "ItemsPath": "$.items",
    "MaxConcurrency": 2, "ItemProcessor": {"StartAt": "Do", "States": {"Do": {"Type": "Task",
    "Resource": "arn:aws:states:us-east-1:123456789012:activity:do", "HeartbeatSeconds": 5, "End": true}}},
    "End": true}}}"#;

const DISTRIBUTED: &str = r#"{"StartAt": "Each", "States": {"Each": {"Type": "Map", "Label": "Each", "ItemsPath": "$.items",
    "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
    "StartAt": "Do", "States": {"Do": {"Type": "Pass", "End": true}}}, "End": true}}}"#;
