//! What happens to a machine: answers right and wrong, in time and late, timers, stops, restarts and nonsense.

use crate::stage::{Policies, START, Stage, identity, machine};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{
    By, Certainty, Effect, EffectKey, Event, Fault, Input, Limits, MapRunOutcome, Moment, Note, Outcome,
    Policy, Resolution, Secret, StrandId, TaskToken, Timestamp, Uncertain, Wake,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// A call is answered: which, how, by its token or by its key.
    Answer { which: u8, how: u8, by_token: bool },
    /// Some worker takes a task.
    Started { which: u8 },
    /// Some worker is alive.
    Heartbeat { which: u8 },
    /// A Map Run ends.
    Child { which: u8, succeeded: bool },
    /// The timer comes: in time, early, or much later.
    Timer { when: u8 },
    /// Time passes, or goes back a little.
    Clock { ms: i16 },
    /// The wall clock is stepped.
    Step { ms: i16 },
    /// The process dies and comes back.
    Restart,
    /// One of the inputs that need nothing.
    Plain { which: u8 },
    /// A person says how a call went.
    Resolve { which: u8, how: u8, by_token: bool },
    /// Something for nobody.
    Garbage { strand: u8, which: u8 },
}

/// How the world treats an execution.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    moves: Vec<Move>,
    limits: Limits,
    timeout: Option<u64>,
    seed: u64,
}

/// Any fate.
pub(crate) fn fates() -> impl Strategy<Value = Fate> {
    let moves = prop_oneof![
        10 => (any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(which, how, by_token)| Move::Answer { which, how, by_token }),
        1 => any::<u8>().prop_map(|which| Move::Started { which }),
        1 => any::<u8>().prop_map(|which| Move::Heartbeat { which }),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(which, succeeded)| Move::Child { which, succeeded }),
        6 => any::<u8>().prop_map(|when| Move::Timer { when }),
        1 => any::<i16>().prop_map(|ms| Move::Clock { ms }),
        1 => any::<i16>().prop_map(|ms| Move::Step { ms }),
        2 => Just(Move::Restart),
        3 => any::<u8>().prop_map(|which| Move::Plain { which }),
        2 => (any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(which, how, by_token)| Move::Resolve { which, how, by_token }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(strand, which)| Move::Garbage { strand, which }),
    ];
    let kept = prop::option::weighted(0.4, 0_usize..100);
    let (events, bytes) =
        (prop::option::weighted(0.2, 5_u64..60), prop::option::weighted(0.2, 150_usize..600));
    let limits = (1_u32..30, events, bytes, kept).prop_map(
        |(turn_states_max, events_max, payload_bytes_max, kept)| Limits {
            turn_states_max,
            events_max,
            // A Map in a loop grows threefold each time around.
            payload_bytes_max: payload_bytes_max.unwrap_or(4_000),
            kept_bytes_max: kept.unwrap_or(Limits::GENEROUS.kept_bytes_max),
            ..Limits::GENEROUS
        },
    );
    let timeout = prop::option::weighted(0.1, 5_u64..60);
    (prop::collection::vec(moves, 0..40), limits, timeout, any::<u64>())
        .prop_map(|(moves, limits, timeout, seed)| Fate { moves, limits, timeout, seed })
}

impl Fate {
    /// One that was met before.
    pub(crate) fn met(moves: Vec<Move>, turn_states_max: u32, seed: u64) -> Self {
        let limits = Limits { turn_states_max, payload_bytes_max: 4_000, ..Limits::GENEROUS };
        Self { moves, limits, timeout: None, seed }
    }

    /// `TimeoutSeconds` of the machine.
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.timeout
    }

    /// Half of the runs are among those who repeat, some hold, some forget soon.
    fn policies(&self) -> Policies {
        let hold = Policy { uncertain: Uncertain::Hold, ..Policy::default() };
        let forgets = Policy { key_memory_ms: 8_000, ..Policy::default() };
        Policies(match self.seed % 6 {
            0 => vec![(String::new(), hold)],
            1 => vec![(String::new(), forgets)],
            2 => vec![
                (":activity:".into(), hold.clone()),
                (":function:".into(), hold),
                (":step:".into(), forgets),
            ],
            _ => Vec::new(),
        })
    }

    /// Plays it to the end, and tells which types of events there were. What must hold, the stage asserts.
    pub(crate) fn befall(&self, definition: &str) -> BTreeSet<String> {
        let machine = machine("random.json", definition, MachineType::Standard);
        let identity = identity(&machine, r#"{"n": 2, "x": {"x": 1}}"#, self.limits);
        let mut play = Play {
            stage: Stage::new(machine, identity).with_policies(self.policies()),
            now: START,
            stepped: 0,
            turns: self.seed,
            seen: BTreeSet::new(),
        };
        play.take(&Input::Start);
        for happens in &self.moves {
            play.happens(happens);
        }
        play.bring_to_an_end();
        play.stage.finish();
        play.stage.is_erased_without(&DATA);
        play.seen
    }
}

struct Play {
    stage: Stage,
    /// By the steady clock.
    now: Timestamp,
    /// How far the wall clock is from it.
    stepped: i64,
    turns: u64,
    seen: BTreeSet<String>,
}

impl Play {
    fn take(&mut self, input: &Input) {
        self.turns = self.turns.wrapping_add(1);
        let moment = self.moment();
        let taken = self.stage.take(input, &moment);
        self.seen.extend(taken.turn.events().map(Event::type_name));
        self.seen.extend(taken.turn.notes().filter_map(name));
        // Most Turns that are cut go on before anything else happens; some do not.
        if taken.effects.contains(&Effect::Continue) && !self.turns.is_multiple_of(5) {
            self.turns = self.turns.wrapping_add(1);
            self.stage.take(&Input::Continue, &moment);
        }
    }

    fn moment(&self) -> Moment {
        let wall = self.now.after_ms(self.stepped);
        Moment { now: wall, steady: self.now, entropy: u128::from(self.turns) }
    }

    fn happens(&mut self, happens: &Move) {
        match happens {
            Move::Answer { which, how, by_token } => {
                let Some(by) = self.call(*which, *by_token) else { return };
                self.take(&Input::TaskOutcome { by, outcome: outcome(*how) });
            }
            Move::Started { which } => {
                let Some(by) = self.call(*which, true) else { return };
                self.take(&Input::TaskStarted { by, worker: Some("worker".into()) });
            }
            Move::Heartbeat { which } => {
                let Some(by) = self.call(*which, true) else { return };
                self.take(&Input::Heartbeat { by });
            }
            Move::Child { which, succeeded } => {
                let runs = self.stage.map_runs();
                if runs.is_empty() {
                    return;
                }
                let (strand, key) = runs[newest_first(*which, runs.len())].clone();
                let outcome = if *succeeded {
                    MapRunOutcome::Succeeded { output: payload("[1,2]") }
                } else {
                    MapRunOutcome::Failed { fault: Fault::named("E1") }
                };
                self.take(&Input::ChildOutcome { by: By::Key { strand, key, attempt: None }, outcome });
            }
            Move::Timer { when } => {
                if let Some(wake) = self.next_wake() {
                    self.now = match when % 8 {
                        0 => wake.after_ms(-1).max(self.now),
                        1 => wake.after_seconds(100),
                        _ => wake.max(self.now),
                    };
                }
                self.take(&Input::Timer);
            }
            Move::Clock { ms } => self.now = self.now.after_ms(i64::from(*ms)),
            Move::Step { ms } => self.stepped += i64::from(*ms),
            Move::Restart => {
                let moment = self.moment();
                let taken = self.stage.restart(&moment);
                self.seen.extend(taken.turn.notes().filter_map(name));
            }
            Move::Plain { which } => self.take(&match which % 8 {
                0 => Input::Stop { fault: Fault::new("Stopped", "by chance") },
                1..=3 => Input::Redrive,
                4 => Input::Start,
                5 => Input::Timer,
                6 => Input::Resume,
                _ => Input::Continue,
            }),
            Move::Resolve { which, how, by_token } => {
                let Some(by) = self.call(*which, *by_token) else { return };
                let resolution = match how % 3 {
                    0 => Resolution::Completed {
                        output: payload(ANSWERS[usize::from(how / 3) % ANSWERS.len()]),
                    },
                    1 => Resolution::Failed { fault: Fault::named("E1") },
                    _ => Resolution::Again,
                };
                self.take(&Input::Resolve { by, resolution, reason: "drawn".into() });
            }
            Move::Garbage { strand, which } => {
                let by = self.nobody(*strand, *which);
                self.take(&match which % 5 {
                    4 => Input::Resolve { by, resolution: Resolution::Again, reason: "drawn".into() },
                    0 => Input::TaskOutcome { by, outcome: outcome(*which) },
                    1 => Input::TaskStarted { by, worker: None },
                    2 => Input::Heartbeat { by },
                    _ => Input::ChildOutcome {
                        by,
                        outcome: MapRunOutcome::Succeeded { output: payload("null") },
                    },
                });
            }
        }
    }

    /// When the execution is to be woken, by the steady clock.
    fn next_wake(&self) -> Option<Timestamp> {
        let Wake { steady, wall } = self.stage.execution().next_wake();
        steady.into_iter().chain(wall.map(|at| at.after_ms(-self.stepped))).min()
    }

    /// A call that was made, mostly one of the last.
    fn call(&self, which: u8, by_token: bool) -> Option<By> {
        let calls = self.stage.calls();
        if calls.is_empty() {
            return None;
        }
        let call = &calls[newest_first(which, calls.len())];
        Some(match (by_token, call.token) {
            (true, Some(token)) => By::Token(token),
            _ => call.by(),
        })
    }

    /// A key or token that was never given out, or that belongs to another strand.
    fn nobody(&self, strand: u8, which: u8) -> By {
        let strand = StrandId(u32::from(strand % 8));
        match (which % 3, self.stage.calls().last()) {
            (0, Some(call)) => By::Key { strand, key: call.key.clone(), attempt: Some(call.attempt) },
            (1, _) => {
                let execution = self.stage.execution().identity().id;
                By::Token(TaskToken { execution, strand, secret: Secret(u128::from(which)) })
            }
            _ => By::Key { strand, key: key("nobody:S0#1:1"), attempt: None },
        }
    }

    /// Everything is answered well from here on. Only a loop may go on for ever.
    fn bring_to_an_end(&mut self) {
        for _ in 0..60 {
            let execution = self.stage.execution();
            if execution.is_ended() {
                return;
            }
            let waiting = execution.strands().find_map(|(id, strand)| {
                let step = strand.step.as_ref()?;
                let key = execution.key(id)?;
                match step.standing {
                    perdura_engine::Standing::Calling { .. } | perdura_engine::Standing::Held { .. } => {
                        Some((id, key, true))
                    }
                    perdura_engine::Standing::MapRunning { over: false, .. } => Some((id, key, false)),
                    _ => None,
                }
            });
            match (waiting, self.next_wake()) {
                (Some((strand, key, true)), _) => {
                    let outcome = Outcome::Succeeded { output: payload(r#"{"x":{"x":0},"n":0}"#) };
                    self.take(&Input::TaskOutcome { by: By::Key { strand, key, attempt: None }, outcome });
                }
                (Some((strand, key, false)), _) => {
                    let outcome = MapRunOutcome::Succeeded { output: payload("[]") };
                    self.take(&Input::ChildOutcome { by: By::Key { strand, key, attempt: None }, outcome });
                }
                (None, Some(wake)) => {
                    self.now = wake.max(self.now);
                    self.take(&Input::Timer);
                }
                (None, None) => self.take(&Input::Continue),
            }
        }
    }
}

/// The notes that the runs should come to.
fn name(note: &Note) -> Option<String> {
    match note {
        Note::Repeated { .. } => Some("Repeated".into()),
        Note::Held { .. } => Some("Held".into()),
        Note::Resolved { resolution, .. } => Some(format!("Resolved{resolution:?}")),
        Note::LateOutcome { lateness, .. } => Some(format!("Late{lateness:?}")),
        _ => None,
    }
}

fn newest_first(which: u8, of: usize) -> usize {
    let back = if which < 160 { 0 } else { usize::from(which) % of };
    of - 1 - back
}

fn outcome(how: u8) -> Outcome {
    let certainty = if how & 8 == 0 { Certainty::Refused } else { Certainty::Ambiguous };
    match how % 8 {
        0..=2 => Outcome::Succeeded { output: payload(ANSWERS[usize::from(how / 8) % ANSWERS.len()]) },
        3 => Outcome::Submitted { output: payload("\"job\"") },
        4 if how & 16 == 0 => Outcome::SubmitFailed { fault: Fault::named("E1"), certainty },
        4 => Outcome::NotStarted { fault: Fault::named("E1"), scheduled: how & 8 == 0 },
        5 => Outcome::Failed { fault: Fault::new("E2", "drawn"), certainty },
        6 => Outcome::Failed { fault: Fault::default(), certainty },
        _ => Outcome::Failed { fault: Fault::new("E1", "drawn"), certainty },
    }
}

/// Texts that stand in what executions are given, give and are told.
const DATA: [&str; 9] =
    ["\"n\"", "drawn", "by chance", "soon", "job", "0123456789", "\"E1\"", "\"E2\"", "\"Stopped\""];

const ANSWERS: [&str; 6] = [
    "1",
    "null",
    "[1, 2]",
    r#"{"x": {"x": 1}, "n": 3}"#,
    r#"{"n": "soon"}"#,
    r#""0123456789012345678901234567890""#,
];

fn payload(text: &str) -> Payload {
    Payload::from_text(text).expect("an answer is JSON")
}

fn key(text: &str) -> EffectKey {
    serde_json::from_value(text.into()).expect("a key is a text")
}
