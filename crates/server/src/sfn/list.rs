//! Lists, page by page, and the list of executions.

use super::error::ApiError;
use super::locate::{MachineArn, parse, wrong_resource};
use super::requested::Requested;
use super::{Api, seconds};
use perdura_engine::asl::json::Value;
use perdura_engine::asl::machine::{FlowIx, Kind, Machine, MachineType};
use perdura_engine::asl::members;
use perdura_engine::{ExecutionId, Named, Status, Timestamp};
use perdura_runtime::read_definition;
use perdura_store::record::Begun;
use perdura_store::{Filter, Summary};
use std::fmt::Write;
use uuid::Uuid;

/// One page of a list.
pub(super) struct Pages<'a> {
    api: &'a Api,
    question: String,
    token: Option<String>,
    most: u32,
}

impl<'a> Pages<'a> {
    /// The question is everything in the request but the page's size and token.
    pub(super) fn of(api: &'a Api, request: Requested<'_>, action: &str) -> Self {
        let question = question(request, action);
        Self { api, question, token: request.text("nextToken").map(str::to_owned), most: request.page() }
    }

    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// The place after which this page begins. A token that cannot be read is refused: if the list began again,
    /// a client would read it for ever.
    pub(super) fn after<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ApiError> {
        let Some(token) = &self.token else { return Ok(None) };
        let place = self.api.0.tokens.open(&self.question, token, self.api.now())?;
        read(&place).map(Some).ok_or_else(ApiError::invalid_token)
    }

    /// The same for a list by name.
    pub(super) fn after_name(&self) -> Result<Option<String>, ApiError> {
        self.after(|place| Some(place.to_owned()))
    }

    /// Cuts the list to the page's size, and gives the place after which the next page begins.
    pub(super) fn cut<T>(&self, mut found: Vec<T>, place: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
        let is_more = found.len() > self.most as usize;
        found.truncate(self.most as usize);
        let next = found.last().filter(|_| is_more).map(place);
        (found, next)
    }

    /// The answer, with a token where there is more.
    pub(super) fn answer(&self, name: &'static str, shown: Vec<Value>, next: Option<String>) -> Value {
        let mut answer = perdura_engine::asl::json::Map::new();
        answer.insert(name, shown);
        if let Some(place) = next {
            answer.insert("nextToken", self.api.0.tokens.seal(&self.question, &place, self.api.now()));
        }
        answer.into()
    }
}

/// The question as text, independent of the order of members and of defaults that are spelled out.
fn question(request: Requested<'_>, action: &str) -> String {
    let is_default = |name: &str, value: &Value| match value {
        Value::Bool(given) => *given == (name == "includeExecutionData"),
        Value::Null => true,
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    };
    let asked = request
        .members()
        .iter()
        .filter(|(name, value)| !matches!(&***name, "nextToken" | "maxResults") && !is_default(name, value));
    let mut asked: Vec<_> = asked.collect();
    asked.sort_unstable_by_key(|(name, _)| *name);
    let mut question = action.to_owned();
    for (name, value) in asked {
        write!(question, "\n{name}={value}").expect("a text takes everything");
    }
    question
}

/// `ListExecutions`: of a machine, a version, an alias or a Map Run; the newest first.
pub(super) async fn executions(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let pages = Pages::of(api, request, "ListExecutions");
    let mut filter = Filter { status: status(request), ..Filter::default() };
    filter.redriven = request.text("redriveFilter").map(|word| word == "REDRIVEN");
    let of = match (request.text("stateMachineArn"), request.text("mapRunArn")) {
        (Some(arn), None) => of_machine(api, arn, &mut filter).await?,
        (None, Some(arn)) => of_map_run(api, arn, &mut filter).await?,
        (None, None) => {
            return Err(ApiError::invalid("Either a stateMachineArn or a mapRunArn must be specified")
                .with("reason", "MISSING_REQUIRED_PARAMETER"));
        }
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("Only one of stateMachineArn and mapRunArn can be specified"));
        }
    };
    if filter.redriven.is_some() && filter.map_run.is_some() {
        return Err(ApiError::invalid("redriveFilter cannot be used with a mapRunArn"));
    }
    let after = if filter.map_run.is_none() {
        pages.after(read_place)?
    } else {
        filter.before_child = pages.after(|place| place.parse().ok())?;
        None
    };
    if request.text("statusFilter") == Some("PENDING_REDRIVE") {
        return Ok(pages.answer("executions", Vec::new(), None));
    }
    let found = api.door().list(&filter, after, pages.most() + 1).await?.rows;
    let (found, next) = pages.cut(found, |summary| match summary.child {
        Some(child) => child.to_string(),
        None => format!("{}:{}", summary.started_at.0, summary.execution),
    });
    let mut shown = Vec::with_capacity(found.len());
    for summary in found {
        let item_count = of.item_count(api, &summary).await?;
        shown.push(of.show(api, &summary, item_count));
    }
    Ok(pages.answer("executions", shown, next))
}

/// What the executions of a list have in common.
struct Of {
    machine: String,
    kind: MachineType,
    run: Option<Run>,
}

/// The Map Run whose children are listed.
struct Run {
    /// `MACHINE/LABEL`
    labelled: String,
    arn: String,
    /// Each child has several items.
    is_batched: bool,
}

impl Of {
    async fn item_count(&self, api: &Api, summary: &Summary) -> Result<Option<usize>, ApiError> {
        let Some(run) = &self.run else { return Ok(None) };
        if !run.is_batched {
            return Ok(Some(1));
        }
        let begun = api.begun(summary.execution).await?;
        let items = |begun: Begun| begun.identity.input.value().get("Items")?.as_array().map(<[Value]>::len);
        Ok(begun.and_then(items))
    }

    fn show(&self, api: &Api, summary: &Summary, item_count: Option<usize>) -> Value {
        let name = summary.name.as_deref().map_or_else(|| summary.execution.to_string(), str::to_owned);
        let arns = &api.0.arns;
        let machine = self.run.as_ref().map_or(&self.machine, |run| &run.labelled);
        let mut shown = members! {
            "executionArn" => arns.execution(machine, &name, self.kind, &summary.execution.to_string()),
            "stateMachineArn" => arns.machine(machine),
            "name" => name.as_str(),
            "status" => summary.status.name(),
            "startDate" => seconds(summary.started_at),
        };
        if let Some(ended_at) = summary.ended_at {
            shown.insert("stopDate", seconds(ended_at));
        }
        if let Some(run) = &self.run {
            shown.insert("mapRunArn", run.arn.as_str());
        }
        if let Some(count) = item_count {
            shown.insert("itemCount", count as u64);
        }
        if let Some(version) = summary.version {
            shown.insert("stateMachineVersionArn", arns.version(&self.machine, version));
        }
        if let Some(alias) = &summary.alias {
            shown.insert("stateMachineAliasArn", arns.alias(&self.machine, alias));
        }
        shown.insert("redriveCount", u64::from(summary.redrives));
        if let Some(redriven_at) = summary.redriven_at {
            shown.insert("redriveDate", seconds(redriven_at));
        }
        shown.into()
    }
}

async fn of_machine(api: &Api, arn: &str, filter: &mut Filter) -> Result<Of, ApiError> {
    let found = MachineArn::read(&api.0.arns, arn)?;
    let entry = api.machine(found.name()).await?.ok_or_else(|| ApiError::no_machine(arn))?;
    if entry.head.kind == MachineType::Express {
        return Err(ApiError::wrong_type());
    }
    match &found {
        MachineArn::Plain { .. } => {}
        MachineArn::Version { number, .. } => {
            entry.card.version(*number).ok_or_else(|| ApiError::no_machine(arn))?;
            filter.version = Some(*number);
        }
        MachineArn::Alias { alias, .. } => {
            entry.card.aliases.get(alias).ok_or_else(|| ApiError::no_resource(arn))?;
            filter.alias = Some(alias.as_str().into());
        }
        MachineArn::Labelled { .. } => return Err(labelled()),
    }
    filter.machine = Some(entry.head.machine);
    Ok(Of { machine: found.name().to_owned(), kind: entry.head.kind, run: None })
}

/// The error for a labelled ARN where a plain one belongs.
pub(super) fn labelled() -> ApiError {
    ApiError::invalid("This operation does not support state machine ARNs with labels")
        .with("reason", "API_DOES_NOT_SUPPORT_LABELED_ARNS")
}

async fn of_map_run(api: &Api, arn: &str, filter: &mut Filter) -> Result<Of, ApiError> {
    let Named::MapRun { machine, label, id: run } = parse(arn)?.named else {
        return Err(wrong_resource(arn));
    };
    api.map_run(run, arn).await?;
    filter.map_run = Some(run);
    let first = api.read(move |reader| reader.children(run, 0, 1)).await?;
    let begun = match first.first() {
        Some(child) => api.begun(child.execution).await?,
        None => None,
    };
    let kind = begun.as_ref().map_or(MachineType::Standard, |begun| begun.identity.kind);
    let is_batched = match begun {
        Some(begun) => {
            let record = api.read(move |reader| reader.revision(begun.revision)).await?;
            let machine = record.as_ref().and_then(read_definition);
            machine.is_some_and(|machine| is_batched(&machine, begun.identity.flow))
        }
        None => false,
    };
    let run = Run { labelled: format!("{machine}/{label}"), arn: arn.to_owned(), is_batched };
    Ok(Of { machine: machine.to_owned(), kind, run: Some(run) })
}

/// Whether the Map whose processor is this flow gives each child a batch.
fn is_batched(machine: &Machine, flow: FlowIx) -> bool {
    machine.states().any(|(_, state)| match &state.kind {
        Kind::Map(map) => map.processor == flow && map.batcher.is_some(),
        _ => false,
    })
}

fn status(request: Requested<'_>) -> Option<Status> {
    match request.text("statusFilter")? {
        "RUNNING" => Some(Status::Running),
        "SUCCEEDED" => Some(Status::Succeeded),
        "FAILED" => Some(Status::Failed),
        "TIMED_OUT" => Some(Status::TimedOut),
        "ABORTED" => Some(Status::Aborted),
        _ => None,
    }
}

fn read_place(place: &str) -> Option<(Timestamp, ExecutionId)> {
    let (at, id) = place.split_once(':')?;
    Some((Timestamp(at.parse().ok()?), ExecutionId::from_uuid(Uuid::parse_str(id).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::parse;

    #[test]
    fn a_page_belongs_to_the_question_and_not_to_its_spelling() {
        let asked = |text: &str| {
            let request = parse(text).unwrap();
            question(Requested::new(&request).unwrap(), "GetExecutionHistory")
        };
        let first = asked(r#"{"executionArn": "a", "maxResults": 10}"#);
        for same in [
            r#"{"nextToken": "t", "executionArn": "a"}"#,
            r#"{"reverseOrder": false, "includeExecutionData": true, "executionArn": "a"}"#,
            r#"{"executionArn": "a", "reverseOrder": null}"#,
        ] {
            assert_eq!(asked(same), first, "{same}");
        }
        for other in [
            r#"{"executionArn": "b"}"#,
            r#"{"executionArn": "a", "reverseOrder": true}"#,
            r#"{"executionArn": "a", "includeExecutionData": false}"#,
        ] {
            assert_ne!(asked(other), first, "{other}");
        }
        let both = asked(r#"{"executionArn": "a", "reverseOrder": true}"#);
        assert_eq!(asked(r#"{"reverseOrder": true, "executionArn": "a"}"#), both);
    }
}
