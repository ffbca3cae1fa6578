//! The fold: what each record changes. Deciding and recovering use the same lines.

use crate::draft::Draft;
use crate::event::{Event, EventKind, Fault, TaskFamily};
use crate::execution::{Core, REDRIVE_TOKENS_MAX, Status};
use crate::id::{Round, Seq, StrandId};
use crate::input::Certainty;
use crate::strand::{Clock, Run, Sent, Standing, Step, Strand};
use crate::turn::{Note, Record};
use perdura_asl::error::DATA_LIMIT_EXCEEDED;
use perdura_asl::json::Payload;
use perdura_asl::machine::{FlowIx, Kind, Machine};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whatever an execution is, a record of it applies: records were decided on it.
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
                result: None,
                standing: Standing::Ready,
            });
            table.count_visit(id, *state);
            table.core().ready.insert(id);
        }
        return;
    };
    match &event.kind {
        EventKind::StateExited { assigned, .. } => {
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
            let before = step.sent.take().filter(|sent| sent.round == scheduled.round);
            step.sent = Some(Sent {
                round: scheduled.round,
                at: before.map_or(event.at, |sent| sent.at),
                input: scheduled.input.clone(),
                secret: scheduled.secret,
                credentials: scheduled.credentials.clone(),
                failed: None,
            });
            table.core().ready.remove(&id);
        }
        EventKind::TaskStarted { .. } => {
            if let Standing::Calling { started, timeout, heartbeat, .. } = &mut step.standing {
                *started = true;
                for clock in [timeout, heartbeat].into_iter().flatten() {
                    clock.start(event.steady());
                }
            }
        }
        EventKind::TaskSubmitted { .. } => {
            if let Standing::Calling { submitted, .. } = &mut step.standing {
                *submitted = true;
            }
        }
        EventKind::TaskFailed { certainty, .. } | EventKind::TaskSubmitFailed { certainty, .. } => {
            mark_failed(step, *certainty);
        }
        EventKind::TaskNotStarted { .. } => mark_failed(step, Certainty::Refused),
        EventKind::TaskTimedOut { .. } => mark_failed(step, Certainty::Ambiguous),
        // Answered: whatever follows, there is nothing to wait for or to cancel.
        EventKind::TaskSucceeded { output, .. } => {
            step.standing = Standing::Ready;
            step.result = Some(output.clone());
        }
        EventKind::MapRunStarted { arn } => {
            let (arn, began_at) = (arn.clone(), event.at);
            step.standing = Standing::MapRunning { arn, began_at, over: false, redriven: false };
            table.core().ready.remove(&id);
        }
        EventKind::MapRunRedriven { .. } => {
            if let Standing::MapRunning { over, redriven, .. } = &mut step.standing {
                (*over, *redriven) = (false, true);
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

fn mark_failed(step: &mut Step, certainty: Certainty) {
    if let Some(sent) = &mut step.sent {
        sent.failed = Some(certainty);
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

/// How long the execution may take: what its machine says of itself, within what the limits allow.
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

/// Every unfinished strand goes on where it failed or was stopped. Retries count anew; a round whose
/// outcome is unknown stays, a refused one moves on.
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
        let Some(strand) = table.strand(id) else { continue };
        let goes_on = match &mut strand.step {
            None => true,
            Some(step) => {
                step.retries.clear();
                // A pause before a retry has moved the round on already.
                let refused =
                    |sent: &Sent| sent.round == step.round && sent.failed == Some(Certainty::Refused);
                if step.sent.as_ref().is_some_and(refused) {
                    step.round = step.round.next();
                }
                match &mut step.standing {
                    // What is joined was too large: all of it runs again.
                    Standing::Fanning(run) if too_large && run.live.is_empty() => {
                        step.standing = Standing::Ready;
                        table.drop_results(id);
                        true
                    }
                    Standing::Resting { retry: false, .. } | Standing::Fanning(_) => false,
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
            let open = matches!(step.standing, Standing::Calling { .. });
            step.standing = Standing::Held { fault: fault.clone(), open };
            table.core().ready.remove(strand);
        }
        Note::FanStarted { strand, total, at_once, items } => {
            let Some(owner) = table.strand(*strand) else { return };
            let Some(step) = &mut owner.step else { return };
            let (state, run) = (step.state, step.runs);
            step.runs += 1;
            step.standing = Standing::Fanning(Run {
                total: *total,
                at_once: *at_once,
                next: 0,
                done: 0,
                live: BTreeMap::new(),
                items: items.clone(),
            });
            // Each run of a Parallel or Map has keys of its own, so a run again counts like a visit.
            if run > 0 {
                table.count_visit(*strand, state);
            }
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
        Note::StrandsDropped { parent } => drop_children(table, *parent),
        Note::LateOutcome { strand, succeeded: true, .. } if table.core().status.is_ended() => {
            table.core().late.insert(*strand);
        }
        Note::Repeated { .. }
        | Note::Resolved { .. }
        | Note::Ledger { .. }
        | Note::LateOutcome { .. }
        | Note::Ignored { .. } => {}
    }
}

/// Drops all branches of a strand's Parallel or Map, and theirs. Depth is that of the definition.
fn drop_children(table: &mut Draft<'_>, parent: StrandId) {
    let Some(step) = table.strand(parent).and_then(|strand| strand.step.as_mut()) else { return };
    let Standing::Fanning(run) = &mut step.standing else { return };
    let children: Vec<StrandId> = std::mem::take(&mut run.live).into_values().collect();
    table.drop_results(parent);
    for child in children {
        drop_children(table, child);
        table.drop_strand(child);
        table.core().ready.remove(&child);
    }
}

impl EventKind {
    /// Whether the next event of the strand follows from this one. Where Step Functions does not chain, neither do we.
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
