//! Executions: started, listed, shown, stopped, redriven.

use super::find::find;
use super::machines::deleting;
use crate::control::{Answer, LeftTurn, Page, Shown, Standing, Starting, Taken};
use crate::data::Data;
use crate::fold::{Folded, begun, fold};
use crate::{Refusal, RefusalKind, names};
use perdura_engine::asl::json::Payload;
use perdura_engine::{Execution, ExecutionId, Fault, Input, Labels, Limits, Status};
use perdura_runtime::card::{Card, Unstartable, is_gone};
use perdura_runtime::{Start, Started, Via, View};
use perdura_store::audit::Subject;
use perdura_store::{Head, RevisionId};
use std::sync::Arc;

/// How many machines are named to a caller who named none of them.
const NAMED_MAX: u32 = 20;

/// An execution to start.
pub(crate) struct Starts {
    pub(crate) machine: String,
    pub(crate) name: Option<String>,
    pub(crate) input: Payload,
    pub(crate) strict: bool,
    pub(crate) labels: Labels,
    /// The client's own key for this request.
    pub(crate) key: Option<String>,
}

/// The start, and the machine as it was seen then.
pub(crate) fn prepare<D: Data>(data: &mut D, starts: &Starts) -> Result<(Start, Head), Refusal> {
    if let Some(name) = &starts.name {
        names::check("an execution", name)?;
    }
    let root_key = starts.key.as_deref().map(names::root_key).transpose()?;
    // Whoever asks over the socket or from here may not have checked them.
    let labels = labels(starts.labels.iter())?;
    let (revision, via, head) = startable(data, &starts.machine)?;
    let via = Via { labels, root_key, ..via };
    let limits = if starts.strict { Limits::strict(head.kind) } else { Limits::GENEROUS };
    if starts.input.len() > limits.payload_bytes_max {
        let most = limits.payload_bytes_max;
        return Err(Refusal::invalid(format!("the input is too large: the most is {most} bytes")));
    }
    let start = Start {
        revision,
        name: starts.name.as_deref().map(Arc::from),
        shares_name: false,
        input: starts.input.clone(),
        limits,
        arns: data.arns().clone(),
        via,
    };
    Ok((start, head))
}

/// Labels that an execution may have.
pub(crate) fn labels<K: AsRef<str>, V: AsRef<str>>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Result<Labels, Refusal> {
    let labels = Labels::new(pairs);
    labels
        .map_err(|error| Refusal::invalid(error.to_string()).but("put what is longer or more into the input"))
}

/// A machine as it stands.
pub(crate) fn head<D: Data>(data: &mut D, name: &str) -> Result<Option<Head>, Refusal> {
    Ok(data.read(|reader| reader.head(name))?)
}

/// The answer to a start. One that runs already under its name still runs: an ended one is refused.
pub(crate) fn starting(
    started: Started,
    (name, labels): (Option<Arc<str>>, Labels),
    head: &Head,
    performs: bool,
) -> Starting {
    let id: Arc<str> = started.execution.to_string().into();
    Starting {
        name: name.unwrap_or_else(|| id.clone()),
        execution: id,
        arn: started.arn,
        machine: head.name.clone(),
        status: Status::Running,
        started_at: started.at,
        labels,
        fresh: Some(started.fresh),
        performs,
    }
}

/// An execution as the answer to its start, if it was begun with this input.
pub(crate) fn begun_with<D: Data>(
    data: &mut D,
    id: ExecutionId,
    input: &Payload,
) -> Result<Option<Starting>, Refusal> {
    let performs = data.performs();
    let Answer::Execution(shown) = show(data, &id.to_string())? else {
        unreachable!("a question about an execution is answered with one")
    };
    let starting = |shown: Shown| Starting {
        execution: shown.execution,
        arn: shown.arn,
        name: shown.name,
        machine: shown.machine,
        // As the first answer has it.
        status: Status::Running,
        started_at: shown.started_at,
        labels: shown.labels,
        fresh: None,
        performs,
    };
    Ok((shown.input == *input).then(|| starting(*shown)))
}

pub(super) fn start<D: Data>(data: &mut D, starts: &Starts) -> Result<Answer, Refusal> {
    let (start, head) = prepare(data, starts)?;
    let said = (start.name.clone(), start.via.labels.clone());
    let started = data.start(start)?;
    if started.fresh {
        tracing::info!(execution = %started.execution, machine = %head.name, "started");
    }
    if started.fresh && is_gone(self::head(data, &head.name)?.as_ref(), &head) {
        // The machine was deleted before this execution was listed: it is stopped like the others.
        data.input(started.execution, Input::Stop { fault: Fault::default() })?;
        return Err(deleting(&head.name));
    }
    Ok(Answer::Started(starting(started, said, &head, data.performs())))
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

/// The machine that a start names, with a version or an alias or without.
pub(crate) fn machine_of_start(which: &str) -> &str {
    let plain = plain(which);
    plain.split_once(':').map_or(plain, |(name, _)| name)
}

/// The machine of an execution; `None`: there is no such execution.
pub(crate) fn machine_of<D: Data>(data: &mut D, id: ExecutionId) -> Result<Option<Arc<str>>, Refusal> {
    let begun = data.read(|reader| Ok(begun(reader, id)))??;
    Ok(begun.map(|begun| begun.identity.machine_name))
}

/// The name of a machine, which may be given as an ARN.
fn plain(name: &str) -> &str {
    name.rsplit_once(":stateMachine:").map_or(name, |(_, plain)| plain)
}

/// A machine by its name or ARN.
pub(super) fn machine<D: Data>(data: &mut D, name: &str) -> Result<Head, Refusal> {
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

pub(super) fn show<D: Data>(data: &mut D, which: &str) -> Result<Answer, Refusal> {
    let id = find(data, which)?;
    data.gives_out(Subject::execution(id))?;
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
        labels: identity.labels.clone(),
        root_key: identity.root_key.clone(),
        turns: Some(turns),
        events: Some(execution.last_event().0),
        input: identity.input.clone(),
        output: execution.output().cloned(),
        fault: execution.fault().clone(),
        standing: if execution.is_ended() { Vec::new() } else { standing(execution) },
        wakes_at: execution.next_wake().earliest(),
        parked: None,
        erased_at: execution.erased_at(),
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
    data.gives_out(Subject::execution(execution))?;
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
