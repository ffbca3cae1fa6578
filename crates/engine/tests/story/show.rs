//! What follows, as a story tells it: one line for each event, note and effect.

use super::arrives::step_of;
use crate::stage::{START, Taken};
use perdura_engine::asl::resource::{Resource, Target};
use perdura_engine::{
    Attempt, Call, Certainty, Effect, Event, EventKind, Fault, Iteration, Kept, Lateness, LedgerStatus,
    MapRunOrder, Note, Record, Scheduled, StrandId, TaskFamily, Timestamp, Wake,
};
use std::fmt::Write;

/// A Turn and its effects.
pub(crate) fn taken(taken: &Taken, now: Timestamp, abridge: usize) -> Vec<String> {
    let records = taken.turn.records.iter().map(|record| match record {
        Record::Event(event) => event_line(event, now),
        Record::Note(note) => format!("note {}", note_line(note)),
    });
    let mut lines: Vec<String> = records.collect();
    if lines.len() > abridge {
        let half = abridge / 2;
        let left_out = lines.len() - 2 * half;
        let tail = lines.split_off(lines.len() - half);
        lines.truncate(half);
        lines.push(format!("… {left_out} more"));
        lines.extend(tail);
    }
    lines.extend(taken.ignored.iter().map(|reason| format!("nothing: {reason}")));
    lines.extend(taken.effects.iter().map(|effect| format!("do {}", effect_line(effect))));
    lines
}

/// `+1.5s` since the start.
pub(crate) fn time(at: Timestamp) -> String {
    let seconds = (at.0 - START.0) as f64 / 1000.0;
    if seconds < 0.0 { format!("{seconds}s") } else { format!("+{seconds}s") }
}

/// `+1.5s`, `wall +3s`, or both.
fn wake(wake: Wake) -> String {
    let steady = wake.steady.map(time);
    let wall = wake.wall.map(|at| format!("wall {}", time(at)));
    steady.into_iter().chain(wall).collect::<Vec<_>>().join(", ")
}

fn on(strand: StrandId) -> String {
    if strand == StrandId::TOP { String::new() } else { format!(" @{}", strand.0) }
}

fn fault(fault: &Fault) -> String {
    let mut shown = String::new();
    match (&fault.error, &fault.cause) {
        (None, None) => {}
        (error, cause) => {
            write!(shown, " {}", error.as_deref().unwrap_or("-")).expect("a String takes all");
            if let Some(cause) = cause {
                write!(shown, " {cause:?}").expect("a String takes all");
            }
        }
    }
    shown
}

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Refused => "refused",
        Certainty::NotSent => "not sent",
        Certainty::Ambiguous => "ambiguous",
    }
}

fn event_line(event: &Event, now: Timestamp) -> String {
    let what = match &event.kind {
        EventKind::ExecutionStarted { input } => format!(" {input}"),
        EventKind::ExecutionSucceeded { output } => format!(" {output}"),
        EventKind::ExecutionFailed(why)
        | EventKind::ExecutionAborted(why)
        | EventKind::ExecutionTimedOut(why)
        | EventKind::MapRunFailed(why) => fault(why),
        EventKind::ExecutionRedriven { redrive_count, .. } => format!(" {redrive_count}"),
        EventKind::StateEntered { name, input, .. } => format!(" {name} {input}"),
        EventKind::StateExited { name, output, assigned, .. } => {
            let mut exited = format!(" {name} {output}");
            for (at, (name, value)) in assigned.iter().enumerate() {
                exited += if at == 0 { " and sets " } else { ", " };
                write!(exited, "{name} = {value}").expect("a String takes all");
            }
            exited
        }
        EventKind::StateAborted { .. }
        | EventKind::StateFailed { .. }
        | EventKind::StateSucceeded { .. }
        | EventKind::ParallelStateStarted
        | EventKind::MapRunSucceeded
        | EventKind::MapRunAborted => String::new(),
        EventKind::MapStateStarted { length } => format!(" of {length}"),
        EventKind::MapIterationStarted(iteration)
        | EventKind::MapIterationSucceeded(iteration)
        | EventKind::MapIterationFailed(iteration)
        | EventKind::MapIterationAborted(iteration) => {
            let Iteration { name, index } = iteration;
            format!(" {name}[{index}]")
        }
        EventKind::MapRunStarted { arn } => format!(" {}", short_arn(arn)),
        EventKind::MapRunRedriven { arn, redrive_count } => format!(" {} {redrive_count}", short_arn(arn)),
        EventKind::TaskScheduled(what) => scheduled(what),
        EventKind::TaskStarted { family, worker } => {
            let worker = worker.as_ref().map(|worker| format!(" by {worker}")).unwrap_or_default();
            format!(" {}{worker}", resource_of(family))
        }
        EventKind::TaskSubmitted { family, output } | EventKind::TaskSucceeded { family, output } => {
            format!(" {} {output}", resource_of(family))
        }
        EventKind::TaskFailed { family, fault: why, certainty: how }
        | EventKind::TaskSubmitFailed { family, fault: why, certainty: how } => {
            format!(" {}{} ({})", resource_of(family), fault(why), certainty(*how))
        }
        EventKind::TaskTimedOut { family, fault: why }
        | EventKind::TaskNotStarted { family, fault: why, scheduled: _ } => {
            format!(" {}{}", resource_of(family), fault(why))
        }
        EventKind::EvaluationFailed { state, location, fault: why } => {
            let location = location.as_ref().map(|field| format!(" at {field}")).unwrap_or_default();
            format!(" {state}{location}:{}", fault(why))
        }
    };
    let Event { id, previous, at, strand, .. } = event;
    let when = if *at == now { String::new() } else { format!(" at {}", time(*at)) };
    format!("{id}<-{previous}{} {}{what}{when}", on(*strand), event.type_name())
}

fn scheduled(what: &Scheduled) -> String {
    let Scheduled { family, input, timeout_seconds, heartbeat_seconds, credentials, round, secret } = what;
    let mut line = format!(" {} {input}", resource_of(family));
    if let Some(seconds) = timeout_seconds {
        write!(line, " within {seconds}s").expect("a String takes all");
    }
    if let Some(seconds) = heartbeat_seconds {
        write!(line, " beating every {seconds}s").expect("a String takes all");
    }
    if let Some(credentials) = credentials {
        write!(line, " as {credentials}").expect("a String takes all");
    }
    if secret.is_some() {
        line += " with token";
    }
    write!(line, " round {}", round.0).expect("a String takes all");
    line
}

fn resource_of(family: &TaskFamily) -> String {
    match family {
        TaskFamily::Lambda { resource } | TaskFamily::Activity { resource } => short_arn(resource).into(),
        TaskFamily::Task { resource_type, resource } => format!("{resource_type}:{resource}"),
    }
}

fn short_arn(arn: &str) -> &str {
    arn.splitn(6, ':').last().unwrap_or(arn)
}

fn note_line(note: &Note) -> String {
    match note {
        Note::Resting { strand, until, retry, wall } => {
            let retry = retry.map(|retry| {
                format!(", then retrier {} tries again in round {}", retry.retrier, retry.round.0)
            });
            let clock = if *wall { "wall " } else { "" };
            format!("rests{} until {clock}{}{}", on(*strand), time(*until), retry.unwrap_or_default())
        }
        Note::Woken { strand } => format!("wakes{}", on(*strand)),
        Note::Repeated { strand, key } => format!("repeated{} {}", on(*strand), step_of(key)),
        Note::Held { strand, key, fault: why, .. } => {
            format!("held{} {}{}", on(*strand), step_of(key), fault(why))
        }
        Note::Resolved { strand, key, resolution, reason, .. } => {
            format!("resolved{} {} {resolution:?} because {reason}", on(*strand), step_of(key))
        }
        Note::FanStarted { strand, total, at_once, items } => {
            format!("fans out{} into {total}, {at_once} at once, over {items}", on(*strand))
        }
        Note::StrandStarted { strand, parent, index, after, input } => {
            let input = input.as_ref().map(|input| format!(" with {input}")).unwrap_or_default();
            format!("strand{} is {index} of @{}, after {after}{input}", on(*strand), parent.0)
        }
        Note::StrandEnded { strand, output } => format!("strand{} gives {output}", on(*strand)),
        Note::StrandFailed { strand, .. } => format!("strand{} failed", on(*strand)),
        Note::FanWaits { strand, fault } => {
            format!(
                "fan{} failed with {}, and waits for what is held",
                on(*strand),
                fault.error.as_deref().unwrap_or("-")
            )
        }
        Note::Settled { strand, kept } => {
            let kept = match kept {
                Kept::Round(round) => format!("round {}", round.0),
                Kept::Refused(sent) => format!("refused in round {}", sent.round.0),
                Kept::Again(sent) => {
                    format!("again after attempt {} of round {}", sent.attempt.0, sent.round.0)
                }
                Kept::MapRun(round, _) => format!("its Map Run of round {}", round.0),
                Kept::Beside(..) => {
                    unreachable!("what a person or a receiver has settled has no other round")
                }
                Kept::Done(sent, result) => format!("done in round {} with {result}", sent.round.0),
            };
            format!("settled{}: {kept}", on(*strand))
        }
        Note::StrandsDropped { parent } => format!("strands of @{} are gone", parent.0),
        Note::Ledger { strand: _, key, status } => format!("ledger {} {}", step_of(key), ledger(*status)),
        Note::LateOutcome { strand, key, succeeded, lateness } => {
            let key = key.as_ref().map_or("by token", step_of);
            let how = if *succeeded { "success" } else { "other answer" };
            let step = match lateness {
                Lateness::Unknown => "its step is gone",
                Lateness::Duplicate => "its step has an answer already",
                Lateness::GivenUp => "its step was given up",
            };
            format!("late {how}{} {key}: {step}", on(*strand))
        }
        Note::Ignored { reason } => format!("ignored: {reason}"),
        Note::Erased { at } => format!("erased at {at}"),
    }
}

fn ledger(status: LedgerStatus) -> &'static str {
    match status {
        LedgerStatus::Pending => "pending",
        LedgerStatus::Completed => "completed",
        LedgerStatus::Failed => "failed",
        LedgerStatus::Uncertain => "uncertain",
    }
}

fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::CallTask(call) => call_line(call),
        Effect::AwaitTask(call) => format!("await{} {}", on(call.strand), step_of(&call.key)),
        Effect::CancelTask { strand, key, .. } => format!("cancel{} {}", on(*strand), step_of(key)),
        Effect::SetTimer { wake } if *wake == Wake::default() => "clear timer".into(),
        Effect::SetTimer { wake: when } => format!("set timer {}", wake(*when)),
        Effect::StartMapRun(order) => map_run_line(order),
        Effect::StopMapRun { strand, key } => format!("stop Map Run{} {}", on(*strand), step_of(key)),
        Effect::Continue => "continue".into(),
        Effect::Publish { status } => format!("publish {}", status.name()),
    }
}

fn call_line(call: &Call) -> String {
    let Call {
        strand,
        key,
        attempt,
        resource,
        input,
        token,
        credentials: _,
        timeout_seconds: _,
        heartbeat_seconds: _,
        submitted,
    } = call;
    let token = if token.is_some() { " with token" } else { "" };
    let attempt = if *attempt == Attempt::FIRST { String::new() } else { format!(" attempt {}", attempt.0) };
    let begun = if *submitted { " begun before" } else { "" };
    format!("call{} {}{attempt} {} {input}{token}{begun}", on(*strand), step_of(key), target(resource))
}

fn target(resource: &Resource) -> String {
    match &resource.target {
        Target::Function { name } => format!("function {name}"),
        Target::Activity { name } => format!("activity {name}"),
        Target::Service { service, action, .. } => format!("{service}:{action}"),
        Target::Step { name } => format!("step {name}"),
    }
}

fn map_run_line(order: &MapRunOrder) -> String {
    let mut line = format!("start Map Run{} {}", on(order.strand), step_of(&order.key));
    let mut tell = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            write!(line, "; {what} {value}").expect("a String takes all");
        }
    };
    tell("again", order.redriven_at.map(|_| String::new()));
    tell("type", Some(format!("{:?}", order.execution_type)));
    tell("input", Some(order.input.to_string()));
    tell("items", order.items.as_ref().map(ToString::to_string));
    tell(
        "reader",
        order.reader.as_ref().map(|reader| {
            let most = reader.max_items.map(|most| format!(" at most {most}")).unwrap_or_default();
            format!("{} {} {}{most}", target(&reader.resource), reader.arguments, reader.config)
        }),
    );
    tell(
        "batches",
        order.batcher.as_ref().map(|batcher| {
            let input = batcher.input.as_ref().map(|input| format!(" with {input}")).unwrap_or_default();
            format!("of {:?} items, {:?} bytes{input}", batcher.max_items, batcher.max_bytes)
        }),
    );
    tell(
        "writer",
        order.writer.as_ref().map(|writer| {
            let resource = writer.resource.as_ref().map(target).unwrap_or_default();
            format!("{resource} {} {}", writer.arguments, writer.config)
        }),
    );
    tell("at once", Some(order.max_concurrency.to_string()));
    tell("tolerates", order.tolerated_count.map(|count| count.to_string()));
    tell("tolerates %", order.tolerated_percentage.map(|share| share.to_string()));
    let variables: Vec<String> =
        order.variables.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    tell("variables", (!variables.is_empty()).then(|| variables.join(", ")));
    line
}
