//! The fold: the change of each record. Deciding and recovering use the same code.

use crate::draft::Draft;
use crate::event::{Event, EventKind, Fault, TaskFamily};
use crate::execution::{Core, REDRIVE_TOKENS_MAX, Status};
use crate::id::{Attempt, EffectKey, Round, Seq, StrandId};
use crate::input::Certainty;
use crate::kept;
use crate::strand::{Clock, MapRunId, Run, Sent, Standing, Step, Strand};
use crate::turn::{Lateness, LedgerStatus, Note, Record, Resolved};
use perdura_asl::error::DATA_LIMIT_EXCEEDED;
use perdura_asl::json::Payload;
use perdura_asl::machine::{FlowIx, Kind, Machine};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Applies a record, in any state: records were decided on this execution.
pub(crate) fn apply(table: &mut Draft<'_>, record: &Record) {
    match record {
        Record::Event(event) => apply_event(table, event),
        Record::Note(note) => apply_note(table, note),
    }
}

fn apply_event(table: &mut Draft<'_>, event: &Event) {
    let core = table.core();
    assert_eq!(event.id, core.last.next(), "a History has no gaps");
    core.last = event.id;
    core.at = event.at;
    match &event.kind {
        EventKind::ExecutionStarted { .. } => return start(table, event),
        EventKind::ExecutionSucceeded { output } => {
            let output = Some(output.clone());
            end(table, event, Status::Succeeded).output = output;
            table.drop_strand(StrandId::TOP);
            return;
        }
        EventKind::ExecutionFailed(fault) => return end(table, event, Status::Failed).fault = fault.clone(),
        EventKind::ExecutionAborted(fault) => {
            return end(table, event, Status::Aborted).fault = fault.clone();
        }
        EventKind::ExecutionTimedOut(fault) => {
            return end(table, event, Status::TimedOut).fault = fault.clone();
        }
        EventKind::ExecutionRedriven { redrive_count, token } => {
            return redrive(table, event, *redrive_count, token.as_ref());
        }
        _ => {}
    }
    let id = event.strand;
    let Some(strand) = table.strand(id) else { return };
    if event.kind.leads_on() {
        strand.last = event.id;
    }
    let Some(step) = &mut strand.step else {
        if let EventKind::StateEntered { state, input, .. } = &event.kind {
            strand.step = Some(Step {
                state: *state,
                input: input.clone(),
                entered: event.id,
                entered_after: event.previous,
                entered_at: event.at,
                entered_steady: event.steady,
                runs: 0,
                retries: BTreeMap::new(),
                round: Round::FIRST,
                sent: None,
                aside: None,
                result: None,
                map_run: None,
                done: None,
                standing: Standing::Ready,
            });
            table.count_visit(id, *state);
            kept::take_up(table, id);
            table.core().ready.insert(id);
        }
        return;
    };
    match &event.kind {
        EventKind::StateExited { assigned, .. } => {
            kept::keep(table, id);
            kept::forget(table, id);
            let Some(strand) = table.strand(id) else { return };
            strand.step = None;
            if !assigned.is_empty() {
                Arc::make_mut(&mut strand.variables).extend(assigned.iter().cloned());
            }
            table.core().ready.remove(&id);
        }
        EventKind::TaskScheduled(scheduled) => {
            let clock = |seconds: u64| {
                let mut clock = Clock { seconds, until: None };
                if !matches!(scheduled.family, TaskFamily::Activity { .. }) {
                    clock.start(event.steady());
                }
                clock
            };
            step.standing = Standing::Calling {
                started: false,
                submitted: false,
                timeout: scheduled.timeout_seconds.map(clock),
                heartbeat: scheduled.heartbeat_seconds.map(clock),
            };
            step.round = scheduled.round;
            let aside = step.aside.take();
            let (before, aside) = match step.sent.take() {
                Some(sent) if sent.round == scheduled.round => (Some(sent), aside),
                other => (
                    aside.filter(|aside| aside.round == scheduled.round).map(|aside| *aside),
                    other.map(Box::new),
                ),
            };
            let contradicted = before.iter().chain(aside.as_deref()).any(|sent| sent.contradicted);
            step.aside = aside;
            let doubted = before.as_ref().filter(|sent| sent.is_in_doubt());
            step.sent = Some(Sent {
                round: scheduled.round,
                attempt: before.as_ref().map_or(Attempt::FIRST, |sent| sent.attempt.next()),
                at: doubted.map_or(event.at, |sent| sent.at),
                input: scheduled.input.clone(),
                lost: None,
                secret: scheduled.secret,
                credentials: scheduled.credentials.clone(),
                submitted: doubted.is_some_and(|sent| sent.submitted),
                failed: None,
                doubt: doubted.is_some(),
                said_done: doubted.is_some_and(|sent| sent.said_done),
                contradicted,
                again: false,
            });
            table.core().ready.remove(&id);
        }
        EventKind::TaskStarted { family, .. } => {
            if matches!(family, TaskFamily::Activity { .. }) {
                step.has_gone_out();
            }
            if let Standing::Calling { started, timeout, heartbeat, .. } = &mut step.standing {
                *started = true;
                for clock in [timeout, heartbeat].into_iter().flatten() {
                    clock.start(event.steady());
                }
            }
        }
        EventKind::TaskSubmitted { .. } => {
            step.has_gone_out();
            if let Standing::Calling { submitted, .. } = &mut step.standing {
                *submitted = true;
            }
        }
        EventKind::TaskFailed { certainty, .. } | EventKind::TaskSubmitFailed { certainty, .. } => {
            mark_failed(step, *certainty);
        }
        EventKind::TaskNotStarted { .. } => mark_failed(step, Certainty::NotSent),
        EventKind::TaskTimedOut { .. } => mark_failed(step, step.standing.unanswered()),
        // Answered: in any case nothing is left to wait for or to cancel.
        EventKind::TaskSucceeded { output, .. } => {
            step.standing = Standing::Ready;
            step.result = Some(output.clone());
        }
        EventKind::MapRunStarted { arn } => {
            let (arn, began_at) = (arn.clone(), event.at);
            step.map_run = Some(MapRunId { arn: arn.clone(), began_at });
            step.standing = Standing::MapRunning { arn, began_at, over: false, redriven_at: None };
            table.core().ready.remove(&id);
        }
        EventKind::MapRunRedriven { .. } => {
            if let Some(MapRunId { arn, began_at }) = step.map_run.clone() {
                let redriven_at = Some(event.at);
                step.standing = Standing::MapRunning { arn, began_at, over: false, redriven_at };
                table.core().ready.remove(&id);
            }
        }
        EventKind::MapRunSucceeded | EventKind::MapRunFailed(_) => {
            if let Standing::MapRunning { over, .. } = &mut step.standing {
                *over = true;
            }
        }
        _ => {}
    }
}

/// The attempt failed. Its certainty does not replace the doubt of earlier attempts, unless the receiver has refused
/// the key, and so all attempts under it.
fn mark_failed(step: &mut Step, certainty: Certainty) {
    if certainty != Certainty::NotSent {
        step.has_gone_out();
    }
    let submitted = step.standing.is_submitted();
    if let Some(sent) = &mut step.sent {
        sent.submitted |= submitted;
        sent.failed = Some(certainty);
        // If one worker said that it was done, the refusal of another does not undo that.
        sent.doubt &= certainty != Certainty::Refused || sent.said_done;
    }
}

/// The step of a strand, if the key belongs to it, in any round.
fn step_under<'d>(table: &'d mut Draft<'_>, id: StrandId, key: &EffectKey) -> Option<&'d mut Step> {
    let state = table.peek(id)?.step.as_ref()?.state;
    let visit = table.visits(id, state);
    let (execution, machine) = (table.base.identity.id, table.base.machine.clone());
    let strand = table.strand(id)?;
    let is_its = strand.key(execution, &machine, visit).is_some_and(|taken| taken.step() == key.step());
    strand.step.as_mut().filter(|_| is_its)
}

/// A failed key is in doubt after all, and its step may be in a later round.
fn contradict(table: &mut Draft<'_>, id: StrandId, key: &EffectKey) {
    let has_ended = table.core().status.is_ended();
    let Some(step) = step_under(table, id, key) else { return kept::contradict(table, key) };
    let Some(sent) = &mut step.sent else { return };
    sent.contradict(step.aside.as_deref_mut(), key.round(), has_ended);
    // Nothing may go out under another key.
    step.round = sent.round;
}

/// A late success says that the step's current round was performed.
fn say_done(table: &mut Draft<'_>, id: StrandId, key: &EffectKey) {
    let sent = step_under(table, id, key).and_then(|step| step.sent.as_mut());
    if let Some(sent) = sent.filter(|sent| sent.round == key.round() && sent.is_in_doubt()) {
        (sent.doubt, sent.said_done) = (true, true);
    }
}

/// The attempt may have been performed, and the next one may have the same key.
fn mark_doubted(table: &mut Draft<'_>, strand: StrandId) {
    let step = table.strand(strand).and_then(|strand| strand.step.as_mut());
    let Some(step) = step else { return };
    step.has_gone_out();
    if let Some(sent) = &mut step.sent {
        sent.doubt = true;
    }
}

fn start(table: &mut Draft<'_>, event: &Event) {
    let identity = table.base.identity.clone();
    let timeout = timeout_seconds(table);
    let core = table.core();
    core.status = Status::Running;
    core.started_at = event.at;
    core.timeout_at = timeout.map(|seconds| event.steady().after_seconds(seconds));
    core.next_strand = 1;
    core.ready.insert(StrandId::TOP);
    let top = new_strand(None, identity.flow, "".into(), identity.input.clone());
    table.put_strand(StrandId::TOP, top);
}

/// The time limit of the execution: its machine's own, within the limits.
fn timeout_seconds(table: &Draft<'_>) -> Option<u64> {
    let identity = &table.base.identity;
    let own = table.base.machine.timeout_seconds.filter(|_| identity.flow == Machine::TOP);
    [own, identity.limits.duration_seconds_max].into_iter().flatten().min()
}

fn end<'t>(table: &'t mut Draft<'_>, event: &Event, status: Status) -> &'t mut Core {
    let core = table.core();
    core.status = status;
    core.ended_at = Some(event.at);
    core.ready.clear();
    core
}

fn new_strand(parent: Option<(StrandId, u32)>, flow: FlowIx, place: Arc<str>, input: Payload) -> Strand {
    Strand { parent, flow, place, input, variables: Arc::default(), last: Seq(0), step: None }
}

/// Every unfinished strand continues where it failed or was stopped. Retries count anew; a round with an unknown
/// outcome stays, a refused one moves on.
fn redrive(table: &mut Draft<'_>, event: &Event, count: u32, token: Option<&Arc<str>>) {
    let timeout = timeout_seconds(table);
    let core = table.core();
    let too_large = core.fault.error.as_deref() == Some(DATA_LIMIT_EXCEEDED);
    core.status = Status::Running;
    core.late.clear();
    core.redrives = count;
    core.redriven_at = Some(event.at);
    if let Some(token) = token {
        let forgotten = (core.redrive_tokens.len() + 1).saturating_sub(REDRIVE_TOKENS_MAX);
        core.redrive_tokens.drain(..forgotten);
        core.redrive_tokens.push((token.clone(), event.at));
    }
    core.ended_at = None;
    core.fault = Fault::default();
    core.timeout_at = timeout.map(|seconds| event.steady().after_seconds(seconds));
    for id in table.strand_ids() {
        let is_waited_for = waits(table, id).is_some();
        let Some(strand) = table.strand(id) else { continue };
        let goes_on = match &mut strand.step {
            None => true,
            Some(step) => {
                step.retries.clear();
                let open = step.standing.unanswered();
                if let Some(sent) = &mut step.sent {
                    sent.failed.get_or_insert(open);
                    // A pause before a retry has moved the round on already.
                    if sent.round == step.round && sent.is_refused() {
                        step.round = step.round.next();
                    }
                }
                match &mut step.standing {
                    // The joined results were too large: all of them run again.
                    Standing::Fanning(run) if too_large && run.live.is_empty() => {
                        step.standing = Standing::Ready;
                        let state = step.state;
                        table.drop_results(id);
                        // Nothing in it failed, so this is another visit, with keys of its own.
                        table.count_visit(id, state);
                        kept::forget(table, id);
                        true
                    }
                    Standing::Resting { retry: false, .. } | Standing::Fanning(_) => false,
                    Standing::Held { .. } if is_waited_for => false,
                    // Its children were stopped; they run once the Map Run is redriven.
                    Standing::MapRunning { over, .. } => {
                        *over = true;
                        false
                    }
                    Standing::Ready
                    | Standing::Calling { .. }
                    | Standing::Resting { .. }
                    | Standing::Held { .. } => {
                        step.standing = Standing::Ready;
                        true
                    }
                }
            }
        };
        if goes_on {
            table.core().ready.insert(id);
        }
    }
}

fn apply_note(table: &mut Draft<'_>, note: &Note) {
    match note {
        Note::Resting { strand, until, retry, wall } => {
            let Some(step) = table.strand(*strand).and_then(|strand| strand.step.as_mut()) else { return };
            if let Some(retry) = retry {
                *step.retries.entry(retry.retrier).or_default() += 1;
                step.round = retry.round;
            }
            step.standing = Standing::Resting { until: *until, retry: retry.is_some(), wall: *wall };
            table.core().ready.remove(strand);
        }
        Note::Woken { strand } => {
            let Some(step) = table.strand(*strand).and_then(|strand| strand.step.as_mut()) else { return };
            step.standing = Standing::Ready;
            table.core().ready.insert(*strand);
        }
        Note::Held { strand, fault, .. } => {
            let Some(step) = table.strand(*strand).and_then(|strand| strand.step.as_mut()) else { return };
            let is_open = |sent: &Sent| sent.failed.is_none();
            let open =
                matches!(step.standing, Standing::Calling { .. }) && step.sent.as_ref().is_some_and(is_open);
            step.standing = Standing::Held { fault: fault.clone(), open };
            table.core().ready.remove(strand);
        }
        Note::FanStarted { strand, total, at_once, items } => {
            let Some(owner) = table.strand(*strand) else { return };
            let Some(step) = &mut owner.step else { return };
            step.runs += 1;
            step.standing = Standing::Fanning(Run {
                total: *total,
                at_once: *at_once,
                next: 0,
                done: 0,
                live: BTreeMap::new(),
                items: items.clone(),
                failed: None,
            });
            table.core().ready.remove(strand);
        }
        Note::StrandStarted { strand, parent, index, after, input } => {
            let machine = table.base.machine.clone();
            let Some(owner) = table.strand(*parent) else { return };
            let Some(step) = &mut owner.step else { return };
            let Standing::Fanning(run) = &mut step.standing else { return };
            run.next = *index + 1;
            run.live.insert(*index, *strand);
            let flow = match &machine.state(step.state).kind {
                Kind::Parallel(parallel) => parallel.branches[*index as usize],
                Kind::Map(map) => map.processor,
                _ => return,
            };
            let input = input.clone().unwrap_or_else(|| run.items.clone());
            let (state, around) = (step.state, owner.place.clone());
            let place = match table.visits(*parent, state) {
                0 | 1 => format!("{around}[{index}]"),
                visit => format!("{around}[{visit}:{index}]"),
            };
            let mut child = new_strand(Some((*parent, *index)), flow, place.into(), input);
            child.last = *after;
            table.put_strand(*strand, child);
            let core = table.core();
            core.next_strand = core.next_strand.max(strand.0 + 1);
            core.ready.insert(*strand);
        }
        Note::StrandEnded { strand, output } => {
            kept::forget(table, *strand);
            let Some(child) = table.drop_strand(*strand) else { return };
            table.core().ready.remove(strand);
            let Some((parent, index)) = child.parent else { return };
            table.put_result(parent, index, output.clone());
            let Some(owner) = table.strand(parent) else { return };
            owner.last = child.last;
            if let Some(Step { standing: Standing::Fanning(run), .. }) = &mut owner.step {
                run.live.remove(&index);
                run.done += 1;
            }
        }
        Note::StrandFailed { strand, .. } => {
            let Some(child) = table.strand(*strand) else { return };
            let (last, parent) = (child.last, child.parent);
            if let Some(owner) = parent.and_then(|(parent, _)| table.strand(parent)) {
                owner.last = last;
            }
        }
        Note::FanWaits { strand, fault } => {
            keep_held(table, *strand);
            if let Some(run) = run_of(table, *strand) {
                run.failed = Some(fault.clone());
            }
        }
        Note::Settled { strand, kept } => {
            kept::put(table, *strand, kept.clone());
            settle(table, *strand);
        }
        Note::StrandsDropped { parent } => drop_children(table, *parent),
        Note::LateOutcome { strand, key, succeeded: true, lateness } => {
            if table.core().status.is_ended() {
                table.core().late.insert(*strand);
            }
            if let (Some(key), Lateness::GivenUp) = (key, lateness) {
                say_done(table, *strand, key);
            }
        }
        Note::Repeated { strand, .. } => mark_doubted(table, *strand),
        Note::Ledger { strand, key, status: LedgerStatus::Failed } => {
            let step = table.strand(*strand).and_then(|strand| strand.step.as_mut());
            let secret = step.and_then(|step| step.sent.as_mut()).and_then(|sent| {
                // Cancelled before it left, or before a worker took it.
                sent.failed.get_or_insert(Certainty::NotSent);
                sent.secret
            });
            table.core().mark(key, LedgerStatus::Failed, secret);
        }
        Note::Ledger { strand, key, status } => {
            if table.changes.core.failed.iter().any(|failed| failed.key == *key) {
                table.core().mark(key, *status, None);
                if *status == LedgerStatus::Uncertain {
                    contradict(table, *strand, key);
                }
            }
        }
        Note::Resolved { strand, resolution: Resolved::Failed, .. } => {
            let step = table.strand(*strand).and_then(|strand| strand.step.as_mut());
            if let Some(sent) = step.and_then(|step| step.sent.as_mut()) {
                sent.said_done = false;
            }
        }
        Note::Erased { at } => table.core().erased_at = Some(*at),
        Note::Resolved { .. } | Note::LateOutcome { .. } | Note::Ignored { .. } => {}
    }
}

/// Drops all branches of a strand's Parallel or Map, and theirs. Depth is that of the definition.
fn drop_children(table: &mut Draft<'_>, parent: StrandId) {
    let Some(run) = run_of(table, parent) else { return };
    let children: Vec<StrandId> = std::mem::take(&mut run.live).into_values().collect();
    table.drop_results(parent);
    for child in children {
        drop_children(table, child);
        drop_strand(table, child);
    }
}

impl EventKind {
    /// Whether the strand's next event follows from this one. Where Step Functions does not link events, neither do we.
    fn leads_on(&self) -> bool {
        !matches!(
            self,
            Self::StateSucceeded { .. }
                | Self::StateAborted { .. }
                | Self::MapIterationFailed(_)
                | Self::MapIterationAborted(_)
                | Self::MapRunSucceeded
        )
    }
}

/// The running Parallel or Map of a strand.
fn run_of<'t>(table: &'t mut Draft<'_>, strand: StrandId) -> Option<&'t mut Run> {
    match &mut table.strand(strand)?.step.as_mut()?.standing {
        Standing::Fanning(run) => Some(run),
        _ => None,
    }
}

/// Removes a strand, and keeps the data that another run needs.
fn drop_strand(table: &mut Draft<'_>, strand: StrandId) {
    kept::keep(table, strand);
    kept::forget(table, strand);
    table.drop_strand(strand);
    table.core().ready.remove(&strand);
}

/// Removes the branches of a strand's Parallel or Map, and theirs, except held ones and those around them.
fn keep_held(table: &mut Draft<'_>, parent: StrandId) {
    let Some(run) = run_of(table, parent) else { return };
    let children: Vec<(u32, StrandId)> = run.live.iter().map(|(index, child)| (*index, *child)).collect();
    for (index, child) in children {
        keep_held(table, child);
        let step = table.peek(child).and_then(|child| child.step.as_ref());
        let stays = step.is_some_and(|step| match &step.standing {
            Standing::Fanning(run) => !run.live.is_empty(),
            _ => step.is_held(),
        });
        if !stays {
            if let Some(run) = run_of(table, parent) {
                run.live.remove(&index);
            }
            table.drop_results(child);
            drop_strand(table, child);
        }
    }
}

/// A held strand goes no further, and neither do the strands around it that had only this one left, up to the waiting
/// Parallel or Map.
fn settle(table: &mut Draft<'_>, strand: StrandId) {
    let Some((parent, index)) = table.peek(strand).and_then(|strand| strand.parent) else { return };
    kept::forget(table, strand);
    table.drop_strand(strand);
    table.core().ready.remove(&strand);
    let Some(run) = run_of(table, parent) else { return };
    run.live.remove(&index);
    let is_waited_for = |table: &Draft<'_>, id| waits(table, id).is_some_and(|waiting| waiting != id);
    if run_of(table, parent).is_some_and(|run| run.live.is_empty()) && is_waited_for(table, parent) {
        table.drop_results(parent);
        settle(table, parent);
    }
}

/// The outermost Parallel or Map around a strand, or its own, that waits for held calls in it.
pub(crate) fn waits(table: &Draft<'_>, strand: StrandId) -> Option<StrandId> {
    let mut found = None;
    let mut next = Some(strand);
    while let Some(id) = next {
        let strand = table.peek(id)?;
        let standing = strand.step.as_ref().map(|step| &step.standing);
        if matches!(standing, Some(Standing::Fanning(run)) if run.failed.is_some()) {
            found = Some(id);
        }
        next = strand.parent.map(|(parent, _)| parent);
    }
    found
}
