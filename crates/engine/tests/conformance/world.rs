//! A small world below the API: machines, executions, functions, activities, and a clock that jumps.

use perdura_engine::asl::diagnostic::Severity;
use perdura_engine::asl::json::{Map, Payload, Value, parse};
use perdura_engine::asl::machine::{Kind, Machine, MachineType};
use perdura_engine::asl::read::ReadOptions;
use perdura_engine::asl::resource::{Resource, Target};
use perdura_engine::asl::source::Source;
use perdura_engine::asl::{object, read};
use perdura_engine::nested::{self, Asked, Wait};
use perdura_engine::{
    Arns, By, Call, Certainty, Destinations, Effect, Event, Execution, ExecutionId, Fault, Identity, Input,
    Limits, MapRun, MapRunOutcome, Moment, Next, Outcome, Policy, Status, StrandId, TaskToken, Timestamp,
    Validating, decide, validate,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct World {
    arns: Arns,
    now: Timestamp,
    moments: u128,
    machines: BTreeMap<String, (Arc<Machine>, String)>,
    runs: Vec<Run>,
    starts: usize,
    functions: BTreeMap<String, String>,
    /// What will arrive: when, at which run, what.
    coming: Vec<(Timestamp, usize, Input)>,
    activities: BTreeMap<String, VecDeque<(TaskToken, Payload)>>,
    pollers: BTreeMap<String, VecDeque<(usize, By, String)>>,
    deleted: BTreeSet<String>,
    concurrent: bool,
}

/// What an execution can know of activities: those that were deleted before it began.
struct Deleted(BTreeSet<String>);

impl Destinations for Deleted {
    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }

    fn is_deleted(&self, activity: &str) -> bool {
        self.0.iter().any(|arn| arn.ends_with(&format!(":{activity}")))
    }
}

struct Run {
    execution: Execution,
    events: Vec<Event>,
    timer: Option<Timestamp>,
    map_runs: BTreeMap<StrandId, (MapRun, BTreeMap<u32, Payload>)>,
    /// Whom its end concerns.
    parent: Option<Waiting>,
}

enum Waiting {
    /// A `.sync` task.
    Task { run: usize, by: By, wait: Wait },
    /// A Map Run.
    MapRun { run: usize, strand: StrandId, index: u32 },
}

impl World {
    pub(crate) fn new(case: &Value) -> Self {
        let lambdas = case.get("lambdas").and_then(Value::as_array).unwrap_or_default();
        let functions = lambdas.iter().filter_map(|lambda| {
            let text = |name: &str| lambda.get(name).and_then(Value::as_str);
            // Some are only known by their file.
            let behaviour = text("behaviour").or_else(|| match text("file")?.rsplit('/').next()? {
                "id_function.py" => Some("identity"),
                "large_output_string.py" => Some("large-output"),
                _ => None,
            })?;
            Some((text("name")?.to_owned(), behaviour.to_owned()))
        });
        Self {
            arns: Arns { account: "000000000000".into(), ..Arns::default() },
            now: Timestamp(1_795_000_000_000),
            moments: 0,
            machines: BTreeMap::new(),
            runs: Vec::new(),
            starts: 0,
            functions: functions.collect(),
            coming: Vec::new(),
            activities: BTreeMap::new(),
            pollers: BTreeMap::new(),
            deleted: BTreeSet::new(),
            concurrent: false,
        }
    }

    /// Whether events of branches may come in another order than recorded.
    pub(crate) fn has_concurrency(&self) -> bool {
        self.concurrent
    }

    /// One API call, as far as a case below the API needs it.
    pub(crate) fn call(&mut self, call: &Value) -> Result<Option<Value>, String> {
        let params = call.get("params").cloned().unwrap_or_default();
        let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match call.get("op").and_then(Value::as_str).unwrap_or_default() {
            "CreateStateMachine" => {
                let express = text("type") == "EXPRESS";
                let machine_type = if express { MachineType::Express } else { MachineType::Standard };
                let machine = self.read(&text("definition"), machine_type)?;
                self.machines.insert(self.arns.machine(&text("name")), (machine, text("name")));
                Ok(None)
            }
            "DeleteActivity" => {
                self.deleted.insert(text("activityArn"));
                Ok(None)
            }
            "ValidateStateMachineDefinition" => {
                let definition = text("definition");
                let options = ReadOptions { machine_type: MachineType::Standard, strict: true };
                let validating = Validating { options, severity: Severity::Warning, max_results: 0 };
                let found = validate(&definition, validating, |_| Vec::new());
                Ok(Some(found.to_api()))
            }
            "StartExecution" => {
                self.starts += 1;
                let name =
                    if text("name").is_empty() { format!("exec-{}", self.starts) } else { text("name") };
                let input = if text("input").is_empty() { "{}".to_owned() } else { text("input") };
                self.start(&text("stateMachineArn"), &name, &input, None)?;
                self.until_quiet(self.now);
                Ok(None)
            }
            "StartSyncExecution" => {
                self.starts += 1;
                let name =
                    if text("name").is_empty() { format!("exec-{}", self.starts) } else { text("name") };
                let input = if text("input").is_empty() { "{}".to_owned() } else { text("input") };
                let run = self.start(&text("stateMachineArn"), &name, &input, None)?;
                self.until_quiet(self.now.after_seconds(86_400));
                Ok(Some(self.describe(run, true)))
            }
            "DescribeExecution" => {
                self.until_quiet(self.now.after_seconds(86_400));
                Ok(self.find(&text("executionArn")).map(|run| self.describe(run, false)))
            }
            "GetExecutionHistory" => {
                self.until_quiet(self.now.after_seconds(86_400));
                let Some(run) = self.find(&text("executionArn")) else { return Ok(None) };
                let run = &self.runs[run];
                let events: Value =
                    run.events.iter().map(|event| event.to_api(run.execution.identity())).collect();
                Ok(Some(object! {"events" => events}))
            }
            _ => Ok(None),
        }
    }

    fn read(&mut self, definition: &str, machine_type: MachineType) -> Result<Arc<Machine>, String> {
        let source = Source::new("definition", definition);
        let reading = read::read(&source, &read::ReadOptions { machine_type, strict: true });
        let machine = reading.machine.ok_or_else(|| {
            let words: Vec<String> = reading
                .diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.is_error())
                .map(perdura_engine::asl::diagnostic::Diagnostic::aws_message)
                .collect();
            format!("Invalid State Machine Definition: '{}'", words.join(", "))
        })?;
        self.concurrent |= machine.states().any(|(_, state)| match &state.kind {
            Kind::Parallel(_) => true,
            Kind::Map(map) => map.max_concurrency.is_none(),
            _ => false,
        });
        Ok(Arc::new(machine))
    }

    fn find(&self, arn: &str) -> Option<usize> {
        self.runs.iter().position(|run| *run.execution.identity().arn == *arn)
    }

    fn start(
        &mut self,
        machine: &str,
        name: &str,
        input: &str,
        parent: Option<Waiting>,
    ) -> Result<usize, String> {
        let (machine, machine_name) = self
            .machines
            .get(machine)
            .cloned()
            .ok_or_else(|| format!("State Machine Does Not Exist: '{machine}'"))?;
        let kind = machine.machine_type;
        let identity = Identity {
            id: ExecutionId::from_random(self.runs.len() as u128 + 1),
            arn: self.arns.execution(&machine_name, name, kind, &request_id()).into(),
            name: name.into(),
            machine_arn: self.arns.machine(&machine_name).into(),
            machine_name: machine_name.as_str().into(),
            role_arn: "arn:aws:iam::000000000000:role/role".into(),
            version_arn: None,
            alias_arn: None,
            trace_header: None,
            labels: perdura_engine::Labels::default(),
            root_key: None,
            kind,
            flow: Machine::TOP,
            input: Payload::from_text(input).map_err(|error| error.to_string())?,
            limits: Limits::strict(kind),
        };
        Ok(self.add(Execution::new(machine, identity), parent))
    }

    fn add(&mut self, execution: Execution, parent: Option<Waiting>) -> usize {
        let run = self.runs.len();
        let execution = execution.with_destinations(Arc::new(Deleted(self.deleted.clone())));
        self.runs.push(Run { execution, events: Vec::new(), timer: None, map_runs: BTreeMap::new(), parent });
        self.coming.push((self.now, run, Input::Start));
        run
    }

    fn moment(&mut self) -> Moment {
        self.moments += 1;
        Moment::at(self.now, self.moments)
    }

    /// One Turn, and what follows from it at once.
    fn arrive(&mut self, run: usize, input: &Input) {
        let moment = self.moment();
        let here = &mut self.runs[run];
        let decision = decide(&here.execution, input, &moment);
        // What is rebuilt from the record is what was decided.
        let mut rebuilt = here.execution.clone();
        rebuilt.apply(&decision.turn);
        here.events.extend(decision.turn.events().cloned());
        let effects = here.execution.commit(decision);
        // Clocks of silence are not durable, so a heartbeat is not in the record.
        if !matches!(input, Input::Heartbeat { .. }) {
            assert!(rebuilt == here.execution, "the fold of a Turn differs from its decision on {input:?}");
        }
        for effect in effects {
            match effect {
                Effect::CallTask(call) => self.perform(run, call),
                Effect::SetTimer { wake } => self.runs[run].timer = wake.earliest(),
                Effect::Continue => self.coming.push((self.now, run, Input::Continue)),
                Effect::StartMapRun(order) => self.start_map_run(run, *order),
                Effect::Publish { status } if status != Status::Running => self.ended(run),
                Effect::AwaitTask(_)
                | Effect::CancelTask { .. }
                | Effect::StopMapRun { .. }
                | Effect::Publish { .. } => {}
            }
        }
    }

    /// Lets things happen, and time pass, until nothing more comes before `until`.
    fn until_quiet(&mut self, until: Timestamp) {
        loop {
            let coming = self
                .coming
                .iter()
                .enumerate()
                .min_by_key(|(_, (at, _, _))| *at)
                .map(|(index, (at, ..))| (*at, index));
            let timers =
                self.runs.iter().enumerate().filter_map(|(run, here)| Some((here.timer?, run))).min();
            let next = match (coming, timers) {
                (Some((at, _)), Some((timer, _))) => at.min(timer),
                (Some((at, _)), None) => at,
                (None, Some((timer, _))) => timer,
                (None, None) => return,
            };
            if next > until {
                return;
            }
            self.now = self.now.max(next);
            match coming {
                Some((at, index)) if at == next => {
                    let (_, run, input) = self.coming.remove(index);
                    self.arrive(run, &input);
                }
                _ => {
                    let (_, run) = timers.expect("one of the two was next");
                    self.runs[run].timer = None;
                    self.arrive(run, &Input::Timer);
                }
            }
        }
    }

    fn later(&mut self, seconds: u64, run: usize, by: By, outcome: Outcome) {
        self.coming.push((self.now.after_seconds(seconds), run, Input::TaskOutcome { by, outcome }));
    }

    fn perform(&mut self, run: usize, call: Call) {
        let by = call.by();
        let input = call.input.value().clone();
        match &call.resource.target {
            Target::Function { name } => {
                let outcome = self.invoke(name, &call.resource.arn, &input);
                self.answer_function(run, by, name, outcome);
            }
            Target::Service { service, action, .. }
                if &**service == "lambda" && action.starts_with("invoke") =>
            {
                let function =
                    input.get("FunctionName").and_then(Value::as_str).unwrap_or_default().to_owned();
                let name =
                    function.rsplit(':').find(|part| *part != "$LATEST").unwrap_or_default().to_owned();
                let arn = format!("arn:aws:lambda:us-east-1:000000000000:function:{name}");
                // As `perdura-tasks` has it: JSON in a string is what the function receives.
                let payload = match input.get("Payload") {
                    None | Some(Value::Null) => Value::empty_object(),
                    Some(Value::String(text)) => parse(text).unwrap_or_else(|_| text.clone().into()),
                    Some(payload) => payload.clone(),
                };
                let outcome = self.invoke(&name, &arn, &payload).map(|payload| {
                    object! {"ExecutedVersion" => "$LATEST", "Payload" => payload, "StatusCode" => 200}
                });
                self.answer_function(run, by, &name, outcome);
            }
            Target::Activity { .. } => {
                let token = call.token.expect("an activity has a token");
                self.activities
                    .entry(call.resource.arn.to_string())
                    .or_default()
                    .push_back((token, call.input));
                self.hand_out(&call.resource.arn);
            }
            Target::Service { service, action, .. } => {
                self.serve(run, by, (&format!("{service}:{action}"), Wait::of(&call.resource)), &input);
            }
            Target::Step { .. } => {}
        }
    }

    fn answer_function(&mut self, run: usize, by: By, name: &str, outcome: Result<Value, Fault>) {
        let slow = self.functions.get(name).is_some_and(|behaviour| behaviour == "wait-60-seconds");
        let outcome = match outcome {
            Ok(output) => Outcome::Succeeded { output: output.into() },
            Err(fault) => Outcome::Failed { fault, certainty: Certainty::Refused },
        };
        self.later(if slow { 60 } else { 0 }, run, by, outcome);
    }

    fn invoke(&self, name: &str, arn: &str, event: &Value) -> Result<Value, Fault> {
        let raised = |kind: &str, message: &str, line: u32, source: &str| {
            let cause = object! {
                "errorMessage" => message,
                "errorType" => kind,
                "requestId" => request_id(),
                "stackTrace" => vec![format!("  File \"/var/task/handler.py\", line {line}, in handler\n    {source}\n")],
            };
            Err(Fault::new(kind, cause.to_string()))
        };
        match self.functions.get(name).map(String::as_str) {
            Some("identity" | "wait-60-seconds") => Ok(event.clone()),
            Some("raise-exception") => raised(
                "Exception",
                "Some exception was raised.",
                2,
                "raise Exception(\"Some exception was raised.\")",
            ),
            Some("raise-custom-exception") => raised("CustomException", "", 9, "raise CustomException()"),
            Some("bytes-string") => Ok("HelloWorld!".into()),
            Some("large-output") => Ok("a".repeat(257 * 1024).into()),
            Some(other) => panic!("no such behaviour: {other}"),
            None => Err(Fault::new(
                "Lambda.ResourceNotFoundException",
                format!(
                    "Function not found: {arn}:$LATEST (Service: AWSLambda; Status Code: 404; Error Code: \
                     ResourceNotFoundException; Request ID: {}; Proxy: null)",
                    request_id()
                ),
            )),
        }
    }

    /// The Step Functions service as a task sees it.
    fn serve(&mut self, run: usize, by: By, (action, wait): (&str, Option<Wait>), input: &Value) {
        let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let token = || TaskToken::parse(&text("TaskToken")).expect("a token of ours");
        let done = |output: Value| Outcome::Succeeded { output: output.into() };
        match action {
            "aws-sdk:sfn:getActivityTask" => {
                self.pollers.entry(text("ActivityArn")).or_default().push_back((run, by, text("WorkerName")));
                self.hand_out(&text("ActivityArn"));
            }
            "aws-sdk:sfn:sendTaskHeartbeat" => {
                let token = token();
                self.coming.push((self.now, self.owner(token), Input::Heartbeat { by: By::Token(token) }));
                self.later(0, run, by, done(Value::empty_object()));
            }
            "aws-sdk:sfn:sendTaskSuccess" => {
                let token = token();
                let output = parse(&text("Output")).expect("JSON").into();
                self.later(0, self.owner(token), By::Token(token), Outcome::Succeeded { output });
                self.later(0, run, by, done(Value::empty_object()));
            }
            "aws-sdk:sfn:startExecution"
            | "states:startExecution"
            | "states:startExecution.sync"
            | "states:startExecution.sync:2" => {
                // Through the SDK it is a request like any other.
                let wait = wait.unwrap_or(Wait::Begin);
                let asked = Asked::read(input, self.runs[run].execution.identity());
                let outcome = asked.and_then(|asked| {
                    let name = asked.name.as_deref().unwrap_or("child");
                    let parent = wait.is_for_the_end().then(|| Waiting::Task { run, by: by.clone(), wait });
                    let started = self.start(&asked.machine_arn, name, asked.input.text(), parent);
                    let started = started.map_err(|_| asked.no_such_machine())?;
                    Ok(wait.begun(&self.runs[started].execution.identity().arn, self.now))
                });
                self.later(0, run, by, outcome.unwrap_or_else(nested::refused));
            }
            other => panic!("no such service: {other}"),
        }
    }

    /// Brings the workers that poll an activity together with its tasks.
    fn hand_out(&mut self, activity: &str) {
        while let (Some(tasks), Some(pollers)) =
            (self.activities.get_mut(activity), self.pollers.get_mut(activity))
        {
            if tasks.is_empty() || pollers.is_empty() {
                return;
            }
            let (token, input) = tasks.pop_front().expect("there is a task");
            let (run, by, worker) = pollers.pop_front().expect("there is a poller");
            let started = Input::TaskStarted { by: By::Token(token), worker: Some(worker.into()) };
            self.coming.push((self.now, self.owner(token), started));
            let output = object! {"TaskToken" => token.to_string(), "Input" => input.text().clone()};
            self.later(0, run, by, Outcome::Succeeded { output: output.into() });
        }
    }

    fn owner(&self, token: TaskToken) -> usize {
        let owner = self.runs.iter().position(|run| run.execution.identity().id == token.execution);
        owner.expect("the token's execution is here")
    }

    fn start_map_run(&mut self, run: usize, order: perdura_engine::MapRunOrder) {
        let machine = self.runs[run].execution.machine().clone();
        let strand = order.strand;
        let map_run = MapRun::new(machine, order, Limits::GENEROUS.payload_bytes_max);
        self.runs[run].map_runs.insert(strand, (map_run, BTreeMap::new()));
        self.drive_map_run(run, strand);
    }

    fn drive_map_run(&mut self, run: usize, strand: StrandId) {
        let over = loop {
            let Some((map_run, _)) = self.runs[run].map_runs.get_mut(&strand) else { return };
            let child = match map_run.advance() {
                Next::Start(child) => child,
                Next::Looking => continue,
                Next::NotNow => return,
                Next::Over(over) => break over,
            };
            let (map_run, _) = &self.runs[run].map_runs[&strand];
            let parent = self.runs[run].execution.identity();
            let identity = Identity {
                id: child.id,
                arn: format!("{}/child:{}", parent.arn, child.index).into(),
                name: format!("child-{}", child.index).into(),
                flow: map_run.order().flow,
                kind: map_run.order().execution_type,
                input: child.input,
                ..parent.clone()
            };
            let execution = Execution::new(map_run.machine().clone(), identity);
            self.add(execution, Some(Waiting::MapRun { run, strand, index: child.index }));
        };
        let (map_run, results) = self.runs[run].map_runs.remove(&strand).expect("it was just looked at");
        let results: Vec<Payload> = results.into_values().collect();
        let outcome = match over {
            Ok(()) => MapRunOutcome::Succeeded { output: map_run.order().gathered(&results) },
            Err(fault) => MapRunOutcome::Failed { fault },
        };
        let by = By::Key { strand, key: map_run.order().key.clone(), attempt: None };
        self.coming.push((self.now, run, Input::ChildOutcome { by, outcome }));
    }

    fn ended(&mut self, run: usize) {
        let parent = self.runs[run].parent.take();
        let here = &self.runs[run].execution;
        let ending = match here.output() {
            Some(output) => Ok(output.clone()),
            None => Err(here.fault().clone()),
        };
        match parent {
            Some(Waiting::Task { run: parent, by, wait }) => {
                let outcome = wait.ended(here);
                self.later(0, parent, by, outcome);
            }
            Some(Waiting::MapRun { run: parent, strand, index }) => {
                let status = here.status();
                if let Some((map_run, results)) = self.runs[parent].map_runs.get_mut(&strand) {
                    map_run.child_ended(index, status);
                    results.insert(index, ending.unwrap_or_else(|fault| fault.to_value().into()));
                }
                self.drive_map_run(parent, strand);
            }
            None => {}
        }
    }

    fn describe(&self, run: usize, sync: bool) -> Value {
        let here = &self.runs[run].execution;
        let identity = here.identity();
        let mut answer = Map::new();
        answer.insert("executionArn", identity.arn.clone());
        answer.insert("stateMachineArn", identity.machine_arn.clone());
        answer.insert("name", identity.name.clone());
        answer.insert("status", here.status().name());
        answer.insert("startDate", here.started_at().to_string());
        answer.insert("stopDate", here.ended_at().unwrap_or_default().to_string());
        answer.insert("input", identity.input.text().clone());
        answer.insert("inputDetails", object! {"included" => true});
        if let Some(output) = here.output() {
            answer.insert("output", output.text().clone());
        }
        if here.output().is_some() || sync {
            answer.insert("outputDetails", object! {"included" => true});
        }
        let Fault { error, cause } = here.fault();
        for (name, text) in [("error", error), ("cause", cause)] {
            if let Some(text) = text {
                answer.insert(name, text.clone());
            }
        }
        if !sync {
            answer.insert("redriveCount", here.redrives());
            let redrivable = here.is_ended() && here.status() != Status::Succeeded;
            answer.insert("redriveStatus", if redrivable { "REDRIVABLE" } else { "NOT_REDRIVABLE" });
        }
        answer.into()
    }
}

/// Every invocation has its own.
fn request_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("b5d8bd7e-0000-4000-8000-{:012x}", COUNT.fetch_add(1, Ordering::Relaxed))
}
