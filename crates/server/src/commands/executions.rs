//! Executions: started, listed, shown, stopped, redriven.

use super::find::find;
use super::machines::deleting;
use crate::control::{Answer, Cursor, LeftTurn, Listed, Page, Shown, Standing, Starting, Taken};
use crate::data::Data;
use crate::fold::{Folded, begun, fold};
use crate::{Refusal, RefusalKind, names};
use perdura_engine::asl::json::Payload;
use perdura_engine::{Execution, ExecutionId, Fault, Input, Limits, Status};
use perdura_runtime::card::{Card, Unstartable, is_gone};
use perdura_runtime::{Start, Via, View};
use perdura_store::{Filter, Head, MachineId, RevisionId, Summary};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most rows of a page.
const PAGE_MAX: u32 = 1_000;
/// How many machines are named to a caller who named none of them.
const NAMED_MAX: u32 = 20;

/// An execution to start.
pub(super) struct Starts {
    pub(super) machine: String,
    pub(super) name: Option<String>,
    pub(super) input: Payload,
    pub(super) strict: bool,
}

pub(super) fn start<D: Data>(data: &mut D, starts: &Starts) -> Result<Answer, Refusal> {
    if let Some(name) = &starts.name {
        names::check("an execution", name)?;
    }
    let (revision, via, head) = startable(data, &starts.machine)?;
    let limits = if starts.strict { Limits::strict(head.kind) } else { Limits::GENEROUS };
    if starts.input.len() > limits.payload_bytes_max {
        let most = limits.payload_bytes_max;
        return Err(Refusal::invalid(format!("the input is too large: the most is {most} bytes")));
    }
    let started = data.start(Start {
        revision,
        name: starts.name.as_deref().map(Arc::from),
        shares_name: false,
        input: starts.input.clone(),
        limits,
        arns: data.arns().clone(),
        via,
    })?;
    if started.fresh {
        tracing::info!(execution = %started.execution, machine = %head.name, "started");
    }
    let now = data.read(|reader| reader.head(&head.name))?;
    if started.fresh && is_gone(now.as_ref(), &head) {
        // The machine was deleted before this execution was listed: it is stopped like the others.
        data.input(started.execution, Input::Stop { fault: Fault::default() })?;
        return Err(deleting(&head.name));
    }
    Ok(Answer::Started(Starting {
        execution: started.execution.to_string().into(),
        arn: started.arn,
        started_at: started.at,
        fresh: Some(started.fresh),
        performs: data.performs(),
    }))
}

/// The revision to start for a machine, a version or an alias, and how it was named.
fn startable<D: Data>(data: &mut D, which: &str) -> Result<(RevisionId, Via, Head), Refusal> {
    let plain = plain(which);
    let (name, qualifier) = match plain.split_once(':') {
        Some((name, qualifier)) => (name, Some(qualifier)),
        None => (plain, None),
    };
    let head = machine(data, name)?;
    let card = Card::read(&head).map_err(|error| {
        Refusal::new(RefusalKind::Broken, format!("the card of {name} cannot be read: {error}"))
    })?;
    let (revision, via) =
        card.start(head.revision, qualifier, data.moment().entropy).map_err(|why| match why {
            Unstartable::Deleting => deleting(name),
            Unstartable::NoSuchQualifier => Refusal::not_found(format!(
                "the machine {name} has no version or alias {:?}",
                qualifier.unwrap_or_default()
            )),
        })?;
    Ok((revision, via, head))
}

/// The name of a machine, which may be given as an ARN.
fn plain(name: &str) -> &str {
    name.rsplit_once(":stateMachine:").map_or(name, |(_, plain)| plain)
}

/// A machine by its name or ARN.
fn machine<D: Data>(data: &mut D, name: &str) -> Result<Head, Refusal> {
    let plain = plain(name);
    if let Some(head) = data.read(|reader| reader.head(plain))? {
        return Ok(head);
    }
    let known = data.read(|reader| reader.heads(None, NAMED_MAX))?;
    let known: Vec<&str> = known.iter().map(|head| &*head.name).collect();
    let remedy = match &known[..] {
        [] => "there are none yet; `perdura deploy FILE` keeps one".to_owned(),
        known => format!("there is {}; `perdura deploy FILE` keeps another", known.join(", ")),
    };
    Err(Refusal::not_found(format!("there is no machine {plain:?}")).but(remedy))
}

pub(super) fn list<D: Data>(
    data: &mut D,
    of: Option<&str>,
    status: Option<Status>,
    after: Option<Cursor>,
    most: u32,
) -> Result<Answer, Refusal> {
    let most = most.clamp(1, PAGE_MAX);
    let of = of.map(|name| machine(data, name)).transpose()?.map(|head| head.machine);
    let filter = Filter { machine: of, status, ..Filter::default() };
    let after = after.map(|place| (place.started_at, place.execution));
    let rows = data.list(&filter, after, most)?;
    let names = data.read(|reader| {
        let mut names: BTreeMap<MachineId, Arc<str>> = BTreeMap::new();
        for row in &rows {
            if !names.contains_key(&row.machine) {
                names.extend(reader.machine_name(row.machine)?.map(|name| (row.machine, name)));
            }
        }
        Ok(names)
    })?;
    let place = |last: &Summary| Cursor { started_at: last.started_at, execution: last.execution };
    let next = rows.last().filter(|_| rows.len() == most as usize).map(place);
    let items: Vec<Listed> = rows
        .into_iter()
        .map(|row| Listed {
            execution: row.execution.to_string().into(),
            name: row.name.unwrap_or_else(|| row.execution.to_string().into()),
            machine: names.get(&row.machine).cloned().unwrap_or_else(|| "?".into()),
            status: row.status,
            started_at: row.started_at,
            ended_at: row.ended_at,
            redrives: row.redrives,
        })
        .collect();
    Ok(Answer::Executions(Page { items, next }))
}

pub(super) fn show<D: Data>(data: &mut D, which: &str) -> Result<Answer, Refusal> {
    let id = find(data, which)?;
    if let Some(view) = data.view(id) {
        let View { execution, turns, live, parked, .. } = *view;
        let mut shown = shown(&execution, turns);
        shown.parked = parked;
        for standing in &mut shown.standing {
            standing.live = live.iter().any(|key| standing.key.as_deref() == Some(key.readable()));
        }
        return Ok(Answer::Execution(Box::new(shown)));
    }
    let folded = data.read(|reader| Ok(fold(reader, id)))??;
    let Folded { execution, turns } = folded.ok_or_else(|| no_such(id))?;
    Ok(Answer::Execution(Box::new(shown(&execution, turns))))
}

pub(super) fn no_such(id: ExecutionId) -> Refusal {
    Refusal::not_found(format!("there is no execution {id}")).but("`perdura ps` lists them")
}

fn shown(execution: &Execution, turns: u64) -> Shown {
    let identity = execution.identity();
    Shown {
        execution: identity.id.to_string().into(),
        arn: identity.arn.clone(),
        name: identity.name.clone(),
        machine: identity.machine_name.clone(),
        status: execution.status(),
        started_at: execution.started_at(),
        ended_at: execution.ended_at(),
        redrives: execution.redrives(),
        turns: Some(turns),
        events: Some(execution.last_event().0),
        input: identity.input.clone(),
        output: execution.output().cloned(),
        fault: execution.fault().clone(),
        standing: if execution.is_ended() { Vec::new() } else { standing(execution) },
        wakes_at: execution.next_wake().earliest(),
        parked: None,
    }
}

/// Where each strand with a step stands.
fn standing(execution: &Execution) -> Vec<Standing> {
    use perdura_engine::Standing as Engine;
    let strands = execution.strands().filter_map(|(id, strand)| {
        let step = strand.step.as_ref()?;
        let (doing, until, has_key) = match &step.standing {
            Engine::Ready => ("ready", None, false),
            Engine::Calling { timeout, .. } => ("calling", timeout.and_then(|clock| clock.until), true),
            Engine::Resting { until, retry: true, .. } => ("retrying", Some(*until), true),
            Engine::Resting { until, retry: false, .. } => ("waiting", Some(*until), false),
            Engine::Held { .. } => ("held", None, true),
            Engine::Fanning(_) | Engine::MapRunning { .. } => ("running", None, false),
        };
        let key = execution.key(id).filter(|_| has_key).map(|key| key.readable().to_owned());
        Some(Standing {
            state: format!("{}{}", execution.machine().state(step.state).name, strand.place),
            doing: doing.into(),
            since: step.entered_at,
            until,
            key,
            live: false,
            retries: step.retry_count(),
        })
    });
    strands.collect()
}

pub(super) fn stop<D: Data>(
    data: &mut D,
    which: &str,
    error: Option<String>,
    cause: Option<String>,
) -> Result<Answer, Refusal> {
    let fault = Fault { error: error.map(Into::into), cause: cause.map(Into::into) };
    give(data, which, Input::Stop { fault }, "stopped")
}

pub(super) fn redrive<D: Data>(data: &mut D, which: &str) -> Result<Answer, Refusal> {
    let id = find(data, which)?;
    let begun = data.read(|reader| Ok(begun(reader, id)))??;
    if begun.is_some_and(|begun| begun.identity.is_child_of_map_run()) {
        return Err(Refusal::conflict(format!("{id} is a child of a Map Run, and is redriven with it"))
            .but("redrive the execution that the Map Run belongs to"));
    }
    give(data, which, Input::Redrive, "redriven")
}

fn give<D: Data>(data: &mut D, which: &str, input: Input, done: &str) -> Result<Answer, Refusal> {
    let execution = find(data, which)?;
    let taken = data.input(execution, input)?;
    match &taken.ignored {
        None => tracing::info!(%execution, "{done}"),
        Some(reason) => tracing::info!(%execution, %reason, "not {done}"),
    }
    let performs = data.performs();
    let execution = execution.to_string().into();
    Ok(Answer::Taken(Taken { execution, ignored: taken.ignored, status: taken.status, performs }))
}

/// The most bytes of a page of a damaged execution.
const LEFT_BYTES: usize = 1 << 20;

pub(super) fn left<D: Data>(data: &mut D, which: &str, from: u64) -> Result<Answer, Refusal> {
    let execution = find(data, which)?;
    let left = data.read(|reader| reader.left(execution))?;
    if left.status.is_none() && left.turns.is_empty() {
        return Err(no_such(execution));
    }
    let (mut items, mut bytes, mut next) = (Vec::new(), 0, None);
    for turn in left.turns.into_iter().filter(|turn| turn.number >= from) {
        if bytes > LEFT_BYTES {
            next = Some(turn.number);
            break;
        }
        bytes += turn.body.len();
        items.push(LeftTurn { turn: turn.number, body: String::from_utf8_lossy(&turn.body).into_owned() });
    }
    Ok(Answer::Left(Page { items, next }))
}

pub(super) fn give_up<D: Data>(data: &mut D, which: &str) -> Result<Answer, Refusal> {
    let execution = find(data, which)?;
    if data.give_up(execution)? {
        return Ok(Answer::Done);
    }
    Err(Refusal::conflict(format!("{execution} can be read, and is not given up"))
        .but("`perdura stop` ends it"))
}
