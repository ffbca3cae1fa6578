use super::super::tree::{Twig, tree};
use super::*;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Machine;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{
    By, Certainty, Effect, Execution, ExecutionId, Identity, Input, Limits, Moment, Outcome, decide,
};

const START: Timestamp = Timestamp(1_767_268_800_000);

/// An execution whose progress is recorded, one input at a time.
struct Teller {
    execution: Execution,
    story: Story,
    now: Timestamp,
    told: Vec<String>,
    calls: Vec<By>,
}

impl Teller {
    fn of(definition: &str, input: &str) -> Self {
        let reading = read(&Source::new("test.json", definition), &ReadOptions::default());
        let machine = reading.machine.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
        let identity = Identity {
            id: ExecutionId::from_random(7),
            arn: "arn".into(),
            name: "n".into(),
            machine_arn: "arn".into(),
            machine_name: "m".into(),
            role_arn: "arn".into(),
            version_arn: None,
            alias_arn: None,
            trace_header: None,
            labels: perdura_engine::Labels::default(),
            root_key: None,
            kind: machine.machine_type,
            flow: Machine::TOP,
            input: Payload::from_text(input).unwrap(),
            limits: Limits::GENEROUS,
        };
        let execution = Execution::new(Arc::new(machine), identity);
        let mut teller = Self { execution, story: Story::default(), now: START, told: vec![], calls: vec![] };
        teller.input(&Input::Start);
        teller
    }

    fn input(&mut self, input: &Input) {
        let decision = decide(&self.execution, input, &Moment::at(self.now, 1));
        for told in self.story.take(ExecutionNo::TOP, &decision.turn, self.now) {
            self.told.push(format!("{} {}", told.whose, short(&told.what)));
        }
        for effect in self.execution.commit(decision) {
            match effect {
                Effect::CallTask(call) => self.calls.push(call.by()),
                Effect::Continue => self.input(&Input::Continue),
                _ => {}
            }
        }
    }

    /// Answers the oldest call.
    fn answer(&mut self, outcome: Outcome) {
        let by = self.calls.remove(0);
        self.input(&Input::TaskOutcome { by, outcome });
    }

    fn fail(&mut self, error: &str) {
        self.answer(Outcome::Failed { fault: Fault::new(error, "why"), certainty: Certainty::Ambiguous });
    }

    fn succeed(&mut self) {
        self.answer(Outcome::Succeeded { output: Payload::default() });
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.after_seconds(seconds);
        self.input(&Input::Timer);
    }

    fn picture(&self) -> Vec<String> {
        let line = |twig: Twig| format!("{}{} {}", "-".repeat(twig.depth), twig.name, twig.doing);
        tree(&self.story, self.now, 20).into_iter().map(line).map(|line| line.trim_end().to_owned()).collect()
    }
}

fn short(what: &What) -> String {
    let name = |fault: &Fault| fault.error.as_deref().unwrap_or("-").to_owned();
    match what {
        What::Entered => "entered".into(),
        What::Waits { until } => format!("waits till {}", (until.0 - START.0) / 1000),
        What::Retries { tries, fault, .. } => {
            format!("retries {tries} {}", fault.as_ref().map_or("-".into(), name))
        }
        What::Succeeded => "succeeded".into(),
        What::Caught(fault) => format!("caught {}", name(fault)),
        What::Failed(fault) => format!("failed {}", name(fault)),
        What::Counted { total, done, failed } => format!("{done}+{failed}/{total}"),
    }
}

const TASK: &str = r#""Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f""#;

#[test]
fn a_task_is_told_with_its_retries_and_who_caught_it() {
    let definition = format!(
        r#"{{"StartAt": "Pay", "States": {{
            "Pay": {{{TASK}, "Next": "Rest",
                "Retry": [{{"ErrorEquals": ["A"], "IntervalSeconds": 5, "MaxAttempts": 2}}],
                "Catch": [{{"ErrorEquals": ["States.ALL"], "Next": "Rest"}}]}},
            "Rest": {{"Type": "Wait", "Seconds": 90, "Next": "Done"}},
            "Done": {{"Type": "Succeed"}}}}}}"#
    );
    let mut teller = Teller::of(&definition, "{}");
    assert_eq!(teller.picture(), ["Pay calling"]);
    teller.fail("A");
    assert_eq!(teller.picture(), ["Pay retry 1 in 5 s: A"]);
    teller.pass(5);
    teller.now = teller.now.after_seconds(3);
    assert_eq!(teller.picture(), ["Pay calling, 3 s, retry 1"]);
    teller.fail("B");
    teller.now = teller.now.after_ms(500);
    assert_eq!(teller.picture(), ["Rest waits, 1 min 30 s left"]);
    teller.pass(90);
    assert_eq!(teller.picture(), [""; 0]);
    assert_eq!(
        teller.told,
        [
            "Pay entered",
            "Pay retries 1 A",
            "Pay caught B",
            "Rest entered",
            "Rest waits till 98",
            "Rest succeeded",
            "Done entered"
        ]
    );
}

#[test]
fn branches_are_told_with_their_place_and_shown_below_their_state() {
    let branch =
        |name: &str| format!(r#"{{"StartAt": "{name}", "States": {{"{name}": {{{TASK}, "End": true}}}}}}"#);
    let definition = format!(
        r#"{{"StartAt": "Both", "States": {{"Both": {{"Type": "Parallel", "End": true,
            "Retry": [{{"ErrorEquals": ["Bad"], "MaxAttempts": 1}}],
            "Branches": [{}, {}]}}}}}}"#,
        branch("Ship"),
        branch("Bill")
    );
    let mut teller = Teller::of(&definition, "{}");
    assert_eq!(teller.picture(), ["Both 0 of 2 done", "-[0] Ship calling", "-[1] Bill calling"]);
    teller.succeed();
    assert_eq!(teller.picture(), ["Both 1 of 2 done", "-[1] Bill calling"]);
    teller.fail("Bad");
    assert_eq!(teller.picture(), ["Both retry 1 in 1 s: Bad"]);
    teller.pass(1);
    teller.fail("Worse");
    assert_eq!(teller.picture(), [""; 0]);
    assert_eq!(
        teller.told,
        [
            "Both entered",
            "Ship[0] entered",
            "Bill[1] entered",
            "Ship[0] succeeded",
            "Bill[1] failed Bad",
            "Both retries 1 Bad",
            "Ship[0] entered",
            "Bill[1] entered",
            "Ship[0] failed Worse",
            "Both failed -",
        ]
    );
}

fn map(items: u32) -> Teller {
    let definition = format!(
        r#"{{"StartAt": "All", "States": {{"All": {{"Type": "Map", "MaxConcurrency": 8, "End": true,
            "ItemProcessor": {{"StartAt": "One", "States": {{"One": {{{TASK}, "End": true}}}}}}}}}}}}"#
    );
    let items: Vec<String> = (0..items).map(|item| item.to_string()).collect();
    Teller::of(&definition, &format!("[{}]", items.join(",")))
}

#[test]
fn a_map_of_many_items_is_counted_and_only_some_are_shown() {
    let mut teller = map(200);
    assert_eq!(
        teller.picture(),
        [
            "All 0 of 200 done",
            "-[0] One calling",
            "-[1] One calling",
            "-[2] One calling",
            "-[3] One calling",
            "-[4] One calling",
            "-… 3 more under way",
        ]
    );
    for _ in 0..200 {
        teller.succeed();
    }
    let counts = (1..=10).map(|tenth| format!("All {}+0/200", tenth * 20));
    let expected: Vec<String> =
        ["All entered".to_owned()].into_iter().chain(counts).chain(["All succeeded".to_owned()]).collect();
    assert_eq!(teller.told, expected);
}

#[test]
fn a_map_of_few_items_is_told_item_by_item() {
    let mut teller = map(2);
    teller.succeed();
    teller.fail("Bad");
    assert_eq!(
        teller.told,
        [
            "All entered",
            "One[0] entered",
            "One[1] entered",
            "One[0] succeeded",
            "One[1] failed Bad",
            "All failed -"
        ]
    );
}

#[test]
fn children_of_a_distributed_map_count_for_their_items() {
    let mut story = Story::default();
    let top = (ExecutionNo::TOP, StrandId::TOP);
    story
        .strands
        .insert(top, Strand { state: Some("Spread".into()), doing: Doing::Fanning, ..Strand::default() });
    let parent = story.strands.get_mut(&top).unwrap();
    parent.fan.total = 200;
    for child in 1..=3 {
        story.begin_child(ExecutionNo(child), top, child - 1, 50);
    }
    let event = |kind| Turn {
        records: vec![Record::Event(Event {
            id: perdura_engine::Seq(1),
            previous: perdura_engine::Seq(0),
            at: START,
            steady: None,
            strand: StrandId::TOP,
            kind,
        })],
    };
    let succeeded = event(EventKind::ExecutionSucceeded { output: Payload::default() });
    let failed = event(EventKind::ExecutionFailed(Fault::named("Bad")));
    assert_eq!(
        story
            .take(ExecutionNo(1), &succeeded, START)
            .iter()
            .map(|told| short(&told.what))
            .collect::<Vec<_>>(),
        ["50+0/200"]
    );
    story.take(ExecutionNo(2), &failed, START);
    story.drop_execution(ExecutionNo(3));
    let lines: Vec<String> = tree(&story, START, 10).iter().map(|twig| twig.doing.clone()).collect();
    assert_eq!(lines, ["50 of 200 done, 50 failed"]);
}

#[test]
fn the_picture_is_no_longer_than_the_screen() {
    let teller = map(50);
    assert_eq!(tree(&teller.story, START, 3).len(), 3);
    assert_eq!(tree(&teller.story, START, 3)[2].doing, "5 more under way");
    assert_eq!(tree(&teller.story, START, 0), []);
}
