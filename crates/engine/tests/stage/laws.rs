//! What holds of every Turn. Each law says its name when it is broken.

use super::{Decide, Policies};
use perdura_engine::asl::machine::{Kind, Machine};
use perdura_engine::asl::resource::Pattern;
use perdura_engine::{
    Certainty, Decision, Effect, EffectKey, EventKind, Execution, Identity, Input, Kept, LedgerStatus,
    Moment, NotRedrivable, Note, Record, Resolved, Standing, Status, StrandId, Timestamp, Turn, Wake, decide,
    erase,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An execution as it is stored.
pub(crate) fn stored(execution: &Execution) -> String {
    let mut text = Vec::new();
    execution.serialize(&mut serde_json::Serializer::new(&mut text)).expect("an execution can be stored");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// An execution as it is read back.
pub(crate) fn restored(machine: Arc<Machine>, text: &str, policies: &Policies) -> Execution {
    Execution::deserialize(machine, &mut serde_json::Deserializer::from_str(text))
        .expect("what was stored can be read")
        .with_destinations(Arc::new(policies.clone()))
}

/// Deciding again, or after storing and reading back, gives the same to the byte.
pub(crate) fn decided_alike(
    decide: Decide,
    execution: &Execution,
    policies: &Policies,
    input: &Input,
    moment: &Moment,
    first: &Decision,
) {
    let again = decide(execution, input, moment);
    assert_eq!(shown(&again), shown(first), "the same input and moment give the same decision");
    let text = stored(execution);
    let restored = restored(execution.machine().clone(), &text, policies);
    assert_eq!(stored(&restored), text, "what is stored and read back is stored alike");
    let later = decide(&restored, input, moment);
    assert_eq!(shown(&later), shown(first), "a decision after storing and reading back is the same");
    let (mut one, mut other) = (execution.clone(), restored);
    one.commit(again);
    other.commit(later);
    assert_eq!(stored(&one), stored(&other), "so is the state after it");
    assert!(one == other, "and who is to be woken when");
    let input_text = serde_json::to_string(input).expect("an input can be stored");
    let input_again: Input = serde_json::from_str(&input_text).expect("a stored input can be read");
    assert_eq!(input_again, *input, "an input survives storing");
}

/// The bytes that are committed, and the effects.
fn shown(decision: &Decision) -> (String, String) {
    let turn = serde_json::to_string(&decision.turn).expect("a Turn can be stored");
    (turn, format!("{:?}", decision.effects))
}

/// Whoever commits a decision and whoever applies its Turn arrive at the same state.
pub(crate) fn commit_is_apply(before: &Execution, turn: &Turn, committed: &Execution) {
    let text = serde_json::to_string(turn).expect("a Turn can be stored");
    let read: Turn = serde_json::from_str(&text).expect("a stored Turn can be read");
    let mut applied = before.clone();
    applied.apply(&read);
    same_but_for_heartbeats(&applied, committed, "commit gives what apply gives");
}

/// Clocks of silence are not recorded, so they are left out of the comparison, as is the timer they ask for.
pub(crate) fn same_but_for_heartbeats(one: &Execution, other: &Execution, law: &str) {
    if !has_heartbeats(one) && !has_heartbeats(other) {
        assert_eq!(stored(one), stored(other), "{law}");
        assert!(one == other, "{law}: who is to be woken when");
        return;
    }
    let silenced = |execution: &Execution| {
        let mut store: Value = serde_json::from_str(&stored(execution)).expect("an execution is JSON");
        store["core"]["timer"] = Value::Null;
        for strand in store["strands"].as_object_mut().expect("strands are by number").values_mut() {
            if let Some(clock) = strand.pointer_mut("/step/standing/Calling/heartbeat/until") {
                *clock = clock.is_null().into();
            }
        }
        store
    };
    assert_eq!(silenced(one), silenced(other), "{law}");
}

/// An execution without its data, as it is stored: who it is, its Turns and its state.
pub(crate) fn erased(execution: &Execution, turns: &[Turn]) -> (Identity, Vec<Turn>, String) {
    let mut identity = execution.identity().clone();
    erase::identity(&mut identity);
    let mut turns = turns.to_vec();
    turns.iter_mut().for_each(erase::turn);
    let mut state = Vec::new();
    let text = stored(execution);
    let stored = &mut serde_json::Deserializer::from_str(&text);
    erase::state(stored, &mut serde_json::Serializer::new(&mut state)).expect("what was stored can be read");
    (identity, turns, String::from_utf8(state).expect("JSON is UTF-8"))
}

/// Erasing takes the data and nothing else: each event is in its place, and the fold comes to the same end.
pub(crate) fn an_erased_execution_reads_on(execution: &Execution, turns: &[Turn]) {
    let (identity, mut erased, state) = erased(execution, turns);
    let named = |turns: &[Turn]| -> Vec<_> {
        let events = turns.iter().flat_map(Turn::events);
        events.map(|event| (event.id, event.previous, event.at, event.type_name())).collect()
    };
    assert_eq!(named(&erased), named(turns), "an erased history has every event");
    let at = Timestamp(i64::MAX);
    erased.push(erase::mark(at));
    let machine = execution.machine().clone();
    let mut folded = Execution::new(machine.clone(), identity);
    for turn in &erased {
        folded.apply(turn);
    }
    let mut read = restored(machine, &state, &Policies::default());
    read.apply(&erase::mark(at));
    for again in [&folded, &read] {
        let told =
            |it: &Execution| (it.status(), it.last_event(), it.started_at(), it.ended_at(), it.redrives());
        assert_eq!(told(again), told(execution), "an erased execution stands as it stood");
        assert_eq!(again.erased_at(), Some(at), "and says that it was erased");
        let is_refused = again.redrivable() == Err(NotRedrivable::Erased);
        assert_eq!(is_refused, execution.is_ended(), "and is not redriven");
    }
}

/// Whoever takes an execution up learns all that is under way, however often it asks, and it moves nothing on.
pub(crate) fn a_resume_tells_all(
    before: &Execution,
    after: &Execution,
    moment: &Moment,
    turn: &Turn,
    effects: &[Effect],
) {
    if before.status() != Status::Running {
        let is_noted = matches!(turn.notes().next(), Some(Note::Ignored { .. }));
        assert_eq!(is_noted, !before.is_ended(), "nothing is to be taken up");
        assert!(effects.is_empty(), "what does not run has nothing under way: {effects:?}");
        return;
    }
    assert_eq!(turn.events().count(), 0, "what is taken up is no history");
    assert!(effects.contains(&Effect::SetTimer { wake: after.next_wake() }), "the timer is told again");
    let mut called = BTreeSet::new();
    let mut awaited = BTreeSet::new();
    let mut spread = BTreeSet::new();
    for effect in effects {
        match effect {
            Effect::CallTask(call) => assert!(called.insert(call.key.clone()), "{} twice", call.key),
            Effect::AwaitTask(call) => assert!(awaited.insert(call.key.clone()), "{} twice", call.key),
            Effect::StartMapRun(order) => assert!(spread.insert(order.key.clone()), "{} twice", order.key),
            Effect::SetTimer { .. } | Effect::Continue => {}
            Effect::CancelTask { .. } | Effect::StopMapRun { .. } | Effect::Publish { .. } => {
                panic!("nothing ends by being taken up: {effect:?}")
            }
        }
    }
    let noted: BTreeSet<EffectKey> = turn
        .notes()
        .filter_map(|note| match note {
            Note::Repeated { key, .. } => Some(key.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(noted, called, "every repeated call is noted");
    for (id, strand) in after.strands() {
        let Some(step) = &strand.step else { continue };
        let key = after.key(id).expect("a strand with a step has a key");
        match &step.standing {
            Standing::Calling { submitted, timeout, .. } => {
                let late = timeout.and_then(|clock| clock.until).is_some_and(|until| until <= moment.steady);
                let (is_called, is_awaited) = (called.contains(&key), awaited.contains(&key));
                let told = is_called || is_awaited || out_of_time(after, moment);
                let by_token = *submitted && !is_job(after, id);
                assert!(told || by_token || late || is_with_a_worker(after, id), "{key} is forgotten");
                assert!(!(is_called && (*submitted || late || is_awaited)), "{key} is made again");
                assert!(!is_awaited || after.is_attended(), "{key} is awaited, and nobody would be told to");
            }
            Standing::MapRunning { over: false, .. } => {
                assert!(spread.contains(&key) || out_of_time(after, moment), "{key} is forgotten");
            }
            Standing::Held { .. } => assert!(!called.contains(&key), "{key} is held and called"),
            Standing::Ready
            | Standing::Resting { .. }
            | Standing::Fanning(_)
            | Standing::MapRunning { over: true, .. } => {}
        }
    }
    let again = decide(after, &Input::Resume, moment);
    assert_eq!(format!("{:?}", again.effects), format!("{effects:?}"), "asking twice gives the same twice");
}

fn is_job(execution: &Execution, id: StrandId) -> bool {
    let Some(step) = execution.strand(id).and_then(|strand| strand.step.as_ref()) else { return false };
    let Kind::Task(task) = &execution.machine().state(step.state).kind else { return false };
    task.resource.pattern == Pattern::Sync
}

fn out_of_time(execution: &Execution, moment: &Moment) -> bool {
    let store: Value = serde_json::from_str(&stored(execution)).expect("an execution is JSON");
    store["core"]["timeout_at"].as_i64().is_some_and(|at| at <= moment.steady.0)
}

fn is_with_a_worker(execution: &Execution, id: StrandId) -> bool {
    let Some(step) = execution.strand(id).and_then(|strand| strand.step.as_ref()) else { return false };
    let Kind::Task(task) = &execution.machine().state(step.state).kind else { return false };
    task.resource.pattern == Pattern::Worker
        && matches!(step.standing, Standing::Calling { started: true, .. })
}

fn has_heartbeats(execution: &Execution) -> bool {
    execution.strands().filter_map(|(_, strand)| strand.step.as_ref()).any(|step| match &step.standing {
        Standing::Calling { heartbeat, .. } => heartbeat.is_some(),
        Standing::Ready
        | Standing::Resting { .. }
        | Standing::Held { .. }
        | Standing::Fanning(_)
        | Standing::MapRunning { .. } => false,
    })
}

/// Numbers without gaps, causes before effects, time that never goes back, and an end that is one.
pub(crate) fn history_is_in_order(
    before: &Execution,
    input: &Input,
    (now, steady): (Timestamp, Timestamp),
    turn: &Turn,
) {
    let mut last = before.last_event();
    let mut ended = before.is_ended();
    for event in turn.events() {
        assert_eq!(event.id, last.next(), "a History has no gaps");
        let name = event.type_name();
        assert!(TYPES.contains(&&*name), "{name} is no type of event that Step Functions knows");
        assert!(event.previous < event.id, "an event follows from an earlier one: {event:?}");
        assert_eq!(event.at, now, "an event has the time of its Turn, which never goes back: {event:?}");
        let told = Some(steady).filter(|steady| *steady != now);
        assert_eq!(event.steady, told, "and the steady time where it is another: {event:?}");
        let redriven = matches!(event.kind, EventKind::ExecutionRedriven { .. });
        assert_eq!(ended, redriven, "only a redrive goes on after the end: {event:?} after {input:?}");
        ended = matches!(
            event.kind,
            EventKind::ExecutionSucceeded { .. }
                | EventKind::ExecutionFailed(_)
                | EventKind::ExecutionAborted(_)
                | EventKind::ExecutionTimedOut(_)
        );
        last = event.id;
    }
}

/// What has ended touches the world no more, unless it is redriven.
pub(crate) fn the_end_is_quiet(before: &Execution, input: &Input, effects: &[Effect]) {
    let quiet = !before.is_ended()
        || matches!(input, Input::Redrive | Input::RedriveOnce { .. })
        || effects.is_empty();
    assert!(quiet, "what has ended touches the world no more: {effects:?} after {input:?}");
}

/// What is said to an execution that has ended is not recorded, unless it brings it back to life, or tells of something
/// that a person should know.
pub(crate) fn the_end_does_not_grow(before: &Execution, after: &Execution, turn: &Turn) {
    let tells = |record: &Record| match record {
        Record::Note(Note::LateOutcome { succeeded, .. }) => *succeeded,
        Record::Note(Note::Ledger { status, .. }) => *status == LedgerStatus::Uncertain,
        Record::Note(_) | Record::Event(_) => false,
    };
    let is_redriven = before.redrives() != after.redrives();
    let stays = !before.is_ended() || is_redriven || turn.records.iter().all(tells);
    assert!(stays, "what has ended grows by {turn:?}");
}

/// A Turn ends soon after its bound. What may come on top of it: who is woken by one timer, and what one
/// step starts at once.
pub(crate) fn turn_is_bounded(before: &Execution, turn: &Turn) {
    let entered = turn.events().filter(|event| matches!(event.kind, EventKind::StateEntered { .. })).count();
    let bound = before.identity().limits.turn_states_max as usize + before.strands().len() + 1;
    assert!(entered <= bound, "a Turn entered {entered} states, and may enter {bound}");
}

/// The keys that this Turn answered, by what is now known of them.
pub(crate) fn settled_by(
    turn: &Turn,
    under_way: &BTreeMap<EffectKey, StrandId>,
    which: impl Fn(LedgerStatus) -> bool,
) -> Vec<EffectKey> {
    let of_strand = |strand: StrandId| {
        under_way.iter().filter(move |(_, owner)| **owner == strand).map(|(key, _)| key.clone())
    };
    let mut settled = Vec::new();
    for record in &turn.records {
        match record {
            Record::Note(Note::Ledger { key, status, .. })
                if *status != LedgerStatus::Pending && which(*status) =>
            {
                settled.push(key.clone());
            }
            Record::Event(event)
                if matches!(event.kind, EventKind::MapRunSucceeded | EventKind::MapRunFailed(_))
                    && which(LedgerStatus::Completed) =>
            {
                settled.extend(of_strand(event.strand));
            }
            Record::Note(_) | Record::Event(_) => {}
        }
    }
    settled
}

/// Every call is settled, cancelled, or still waited for; and whoever waits has something under way.
pub(crate) fn all_calls_are_accounted_for(execution: &Execution, under_way: &BTreeMap<EffectKey, StrandId>) {
    let mut waited = BTreeSet::new();
    if execution.status() == Status::Running {
        for (id, strand) in execution.strands() {
            let Some(step) = &strand.step else { continue };
            match &step.standing {
                Standing::Calling { .. }
                | Standing::Held { .. }
                | Standing::MapRunning { over: false, .. } => {
                    waited.insert(execution.key(id).expect("a strand with a step has a key"));
                }
                Standing::Ready
                | Standing::Resting { .. }
                | Standing::Fanning(_)
                | Standing::MapRunning { over: true, .. } => {}
            }
        }
    }
    let under_way: BTreeSet<EffectKey> = under_way.keys().cloned().collect();
    assert_eq!(under_way, waited, "every call is settled, cancelled or still waited for (left: under way)");
}

/// Whoever keeps the Ledger learns from the Turn alone whose call a mark is about, and with what it ended.
pub(crate) fn ledger_marks_are_complete(turn: &Turn, said_done: &BTreeSet<EffectKey>) {
    for (at, record) in turn.records.iter().enumerate() {
        let Record::Note(Note::Ledger { strand, key, status }) = record else { continue };
        let before = at.checked_sub(1).and_then(|before| turn.records.get(before));
        let told = match (before, turn.records.get(at + 1)) {
            (_, Some(Record::Note(Note::Held { strand: held, key: other, .. }))) if held == strand => {
                assert_eq!(key, other, "a held step has the key of its mark");
                Some(LedgerStatus::Uncertain)
            }
            (_, Some(Record::Note(Note::Settled { strand: settled, kept }))) if settled == strand => {
                match kept {
                    Kept::Done(..) => Some(LedgerStatus::Completed),
                    Kept::Round(_) | Kept::Refused(_) => Some(LedgerStatus::Failed),
                    Kept::Again(_) | Kept::MapRun(..) | Kept::Beside(..) => None,
                }
            }
            (Some(Record::Event(event)), _) if event.strand == *strand => match &event.kind {
                EventKind::TaskSucceeded { .. } => Some(LedgerStatus::Completed),
                // Another one's refusal does not undo that somebody did it.
                EventKind::TaskFailed { certainty: Certainty::Refused, .. }
                | EventKind::TaskSubmitFailed { certainty: Certainty::Refused, .. }
                    if said_done.contains(key) && !is_resolved(turn, key) =>
                {
                    // A Parallel or Map that has been run again since may not know of it.
                    let in_fan = key.step().contains('[') && *status != LedgerStatus::Completed;
                    Some(if in_fan { *status } else { LedgerStatus::Uncertain })
                }
                EventKind::TaskFailed { certainty: Certainty::Refused, .. }
                | EventKind::TaskSubmitFailed { certainty: Certainty::Refused, .. } => {
                    Some(LedgerStatus::Failed)
                }
                // It did nothing itself; whether an earlier attempt did is not said beside it.
                EventKind::TaskFailed { certainty: Certainty::NotSent, .. }
                | EventKind::TaskSubmitFailed { certainty: Certainty::NotSent, .. }
                | EventKind::TaskNotStarted { .. } => {
                    Some(*status).filter(|status| *status != LedgerStatus::Completed)
                }
                // Done, but with too large a result.
                EventKind::TaskFailed { .. } if *status == LedgerStatus::Completed => Some(*status),
                EventKind::TaskFailed { .. }
                | EventKind::TaskSubmitFailed { .. }
                | EventKind::TaskTimedOut { .. } => Some(LedgerStatus::Uncertain),
                _ => None,
            },
            _ => None,
        };
        match told {
            Some(told) => assert_eq!(told, *status, "the mark of {key} is that of the record beside it"),
            None => assert_ne!(*status, LedgerStatus::Completed, "{key} is completed without a result"),
        }
    }
}

/// A person has decided that nothing was done under a key.
fn is_resolved(turn: &Turn, key: &EffectKey) -> bool {
    let is_it = |note: &Note| matches!(note, Note::Resolved { key: of, resolution: Resolved::Failed, .. } if of == key);
    turn.notes().any(is_it)
}

/// An execution that runs goes on by itself, or the runtime knows what it waits for.
pub(crate) fn nobody_waits_in_vain(execution: &Execution, timer: Wake, effects: &[Effect]) {
    let continues = effects.contains(&Effect::Continue);
    assert_eq!(timer, execution.next_wake(), "the timer that is set is the one that is wanted");
    if execution.status() != Status::Running {
        assert!(!continues, "what has ended does not continue");
        return;
    }
    for (id, strand) in execution.strands() {
        let moves = match strand.step.as_ref().map(|step| &step.standing) {
            None | Some(Standing::Ready) => continues,
            Some(Standing::Calling { .. } | Standing::Held { .. }) => true,
            Some(Standing::MapRunning { over, .. }) => !over,
            Some(Standing::Resting { wall, .. }) => (if *wall { timer.wall } else { timer.steady }).is_some(),
            Some(Standing::Fanning(run)) => !run.live.is_empty(),
        };
        assert!(moves, "strand {id:?} waits for nothing: {strand:?}");
    }
}

/// The 62 types of events.
#[rustfmt::skip]
pub(crate) const TYPES: &[&str] = &[
    "ActivityFailed", "ActivityScheduleFailed", "ActivityScheduled", "ActivityStarted", "ActivitySucceeded",
    "ActivityTimedOut", "ChoiceStateEntered", "ChoiceStateExited", "EvaluationFailed", "ExecutionAborted",
    "ExecutionFailed", "ExecutionRedriven", "ExecutionStarted", "ExecutionSucceeded", "ExecutionTimedOut",
    "FailStateEntered", "LambdaFunctionFailed", "LambdaFunctionScheduleFailed", "LambdaFunctionScheduled",
    "LambdaFunctionStartFailed", "LambdaFunctionStarted", "LambdaFunctionSucceeded", "LambdaFunctionTimedOut",
    "MapIterationAborted", "MapIterationFailed", "MapIterationStarted", "MapIterationSucceeded",
    "MapRunAborted", "MapRunFailed", "MapRunRedriven", "MapRunStarted", "MapRunSucceeded", "MapStateAborted",
    "MapStateEntered", "MapStateExited", "MapStateFailed", "MapStateStarted", "MapStateSucceeded",
    "ParallelStateAborted", "ParallelStateEntered", "ParallelStateExited", "ParallelStateFailed",
    "ParallelStateStarted", "ParallelStateSucceeded", "PassStateEntered", "PassStateExited",
    "SucceedStateEntered", "SucceedStateExited", "TaskFailed", "TaskScheduled", "TaskStartFailed",
    "TaskStarted", "TaskStateAborted", "TaskStateEntered", "TaskStateExited", "TaskSubmitFailed",
    "TaskSubmitted", "TaskSucceeded", "TaskTimedOut", "WaitStateAborted", "WaitStateEntered",
    "WaitStateExited",
];
