//! The adapter, with recorded answers.

use super::*;
use perdura_asl::json::{Payload, parse};
use perdura_asl::machine::MachineType;
use perdura_server::control::Shown;
use std::collections::VecDeque;

const ORDER: &str = "arn:aws:states:eu-west-1:111122223333:stateMachine:order";
const SHIP: &str = "arn:aws:states:eu-west-1:111122223333:stateMachine:ship";
const A1: &str = "arn:aws:states:eu-west-1:111122223333:execution:order:A-1";

/// The expected calls, in order, each with its answer: JSON, or a code that refuses it.
struct Script(VecDeque<(String, Result<Value, &'static str>)>);

impl Api for Script {
    fn call(&mut self, action: &str, body: Value) -> Result<Value> {
        let (expected, answer) =
            self.0.pop_front().unwrap_or_else(|| panic!("{action} {body} is one too many"));
        assert_eq!(format!("{action} {body}"), expected);
        answer.map_err(|code| fault::refusal(code, "").into())
    }

    fn unique(&mut self) -> Result<String> {
        Ok("unique".to_owned())
    }

    fn region(&self) -> &'static str {
        "eu-west-1"
    }
}

fn script(calls: &[(&str, &str, &'static str)]) -> Remote<Script> {
    let whole = |text: &str| text.replace("$ORDER", ORDER).replace("$SHIP", SHIP).replace("$A1", A1);
    let calls = calls.iter().map(|(action, body, answer)| {
        let answer = if answer.starts_with('{') { Ok(parse(&whole(answer)).unwrap()) } else { Err(*answer) };
        (format!("{action} {}", parse(&whole(body)).unwrap()), answer)
    });
    Remote::new(Script(calls.collect()))
}

/// Sends a request, and checks that every call was made.
#[track_caller]
fn ask(calls: &[(&str, &str, &'static str)], request: Request) -> Result<Answer, String> {
    let mut remote = script(calls);
    let answer = remote.ask(request).map_err(|error| format!("{error:#}"));
    assert!(remote.api.0.is_empty(), "not called: {:?}", remote.api.0);
    answer
}

const TWO_MACHINES: &str = r#"{"stateMachines": [
    {"stateMachineArn": "$ORDER", "name": "order", "type": "STANDARD"},
    {"stateMachineArn": "$SHIP", "name": "ship", "type": "STANDARD"},
    {"stateMachineArn": "arn:aws:states:eu-west-1:111122223333:stateMachine:fast", "name": "fast", "type": "EXPRESS"}]}"#;
const DESCRIBED: &str = r#"{"executionArn": "$A1", "stateMachineArn": "$ORDER", "name": "A-1", "status": "FAILED",
    "startDate": 1700000000.123, "stopDate": "2023-11-14T22:13:21.000Z", "input": "{\"a\":1}", "redriveCount": 2,
    "error": "E", "cause": "because"}"#;

#[test]
fn whose_the_arns_are_is_told_by_what_is_there() {
    let none = ("ListStateMachines", "{}", r#"{"stateMachines": []}"#);
    let activity = r#"{"activities": [{"activityArn": "arn:aws:states:eu-west-1:111122223333:activity:a", "name": "a"}]}"#;
    for (calls, account) in [
        (vec![("ListStateMachines", "{}", TWO_MACHINES)], "111122223333"),
        (vec![none, ("ListActivities", "{}", activity)], "111122223333"),
        (vec![none, ("ListActivities", "{}", r#"{"activities": []}"#)], "123456789012"),
    ] {
        let arns = script(&calls).arns().unwrap();
        assert_eq!((&*arns.account, &*arns.region), (account, "eu-west-1"));
    }
}

fn show(which: &str) -> Request {
    Request::Show { execution: which.into() }
}

fn shown(answer: Result<Answer, String>) -> Box<Shown> {
    match answer {
        Ok(Answer::Execution(shown)) => shown,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_execution_is_found_by_arn_machine_and_name() {
    let describe = ("DescribeExecution", r#"{"executionArn": "$A1"}"#, DESCRIBED);
    let list = ("ListStateMachines", "{}", TWO_MACHINES);
    let other = r#"{"executionArn": "arn:aws:states:eu-west-1:111122223333:execution:ship:A-1"}"#;
    let one = shown(ask(&[describe], show(A1)));
    assert_eq!((&*one.execution, &*one.arn, &*one.machine, &*one.name), (A1, A1, "order", "A-1"));
    assert_eq!((one.status, one.redrives, one.turns, one.events), (Status::Failed, 2, None, None));
    assert_eq!(one.started_at.to_string(), "2023-11-14T22:13:20.123Z");
    assert_eq!(one.ended_at.map(|at| at.to_string()).as_deref(), Some("2023-11-14T22:13:21.000Z"));
    assert_eq!((&*one.input.to_string(), one.fault.cause.as_deref()), (r#"{"a":1}"#, Some("because")));
    assert_eq!(shown(ask(&[list, describe], show("order/A-1"))), one);
    let alone = [list, describe, ("DescribeExecution", other, "ExecutionDoesNotExist"), describe];
    assert_eq!(shown(ask(&alone, show("A-1"))), one);
    let twice = [list, describe, ("DescribeExecution", other, DESCRIBED)];
    assert_eq!(ask(&twice, show("A-1")).unwrap_err(), "several executions are called \"A-1\"");
    let refused =
        ask(&[list, ("DescribeExecution", r#"{"executionArn": "$A1"}"#, "AccessDenied")], show("A-1"));
    assert_eq!(refused.unwrap_err(), "AccessDenied");
    assert_eq!(ask(&[list], show("nothing/A-1")).unwrap_err(), "there is no machine \"nothing\"");
}

#[test]
fn a_start_has_a_name_so_that_it_can_be_repeated() {
    let input = Payload::from_text("{\"a\": 1}").unwrap();
    let start = |machine: &str, name: Option<&str>| Request::Start {
        machine: machine.into(),
        name: name.map(str::to_owned),
        input: input.clone(),
        strict: false,
        labels: perdura_engine::Labels::default(),
        key: None,
    };
    let started = r#"{"executionArn": "$A1", "startDate": 1700000000}"#;
    let given = r#"{"stateMachineArn": "$ORDER", "name": "A-1", "input": "{\"a\": 1}"}"#;
    let drawn = given.replace("A-1", "unique");
    let answer = ask(&[("StartExecution", given, started)], start(ORDER, Some("A-1"))).unwrap();
    let Answer::Started(starting) = answer else { panic!("{answer:?}") };
    assert_eq!((&*starting.execution, starting.fresh, starting.performs), (A1, None, true));
    let calls = [("ListStateMachines", "{}", TWO_MACHINES), ("StartExecution", &*drawn, started)];
    ask(&calls, start("order", None)).unwrap();
    let taken = ask(&[("StartExecution", given, "ExecutionAlreadyExists")], start(ORDER, Some("A-1")));
    assert_eq!(taken.unwrap_err(), "ExecutionAlreadyExists");
}

fn listed(answer: Result<Answer, String>) -> Vec<String> {
    let Ok(Answer::Executions(page)) = answer else { panic!("{answer:?}") };
    assert_eq!(page.next, None);
    page.items.iter().map(|row| format!("{}/{} {}", row.machine, row.name, row.status.name())).collect()
}

fn rows(machine: &str, rows: &[(&str, u32)], next: Option<&str>) -> &'static str {
    let row = |(name, at): &(&str, u32)| {
        let arn = format!("arn:aws:states:eu-west-1:111122223333:execution:{machine}:{name}");
        format!(r#"{{"executionArn": "{arn}", "name": "{name}", "status": "RUNNING", "startDate": {at}}}"#)
    };
    let next = next.map(|token| format!(r#", "nextToken": "{token}""#)).unwrap_or_default();
    let rows = rows.iter().map(row).collect::<Vec<_>>().join(",");
    format!(r#"{{"executions": [{rows}]{next}}}"#).leak()
}

#[test]
fn executions_of_all_machines_are_one_list_and_pages_are_read_as_far_as_needed() {
    let list =
        |most| Request::List(ListQuestion { status: Some(Status::Running), most, ..ListQuestion::default() });
    let of = |arn: &str, most: u32, token: &str| {
        format!(r#"{{"stateMachineArn": "{arn}", "maxResults": {most}, "statusFilter": "RUNNING"{token}}}"#)
    };
    let (order, ship) = (of(ORDER, 4, ""), of(SHIP, 4, ""));
    let on = of(ORDER, 2, r#", "nextToken": "t""#);
    let calls = [
        ("ListStateMachines", "{}", TWO_MACHINES),
        ("ListExecutions", &*order, rows("order", &[("o3", 30), ("o2", 20)], Some("t"))),
        ("ListExecutions", &*ship, rows("ship", &[("s1", 10)], None)),
        ("ListExecutions", &*on, rows("order", &[("o1", 15), ("o0", 5)], None)),
    ];
    let expected = ["order/o3 RUNNING", "order/o2 RUNNING", "order/o1 RUNNING", "ship/s1 RUNNING"];
    assert_eq!(listed(ask(&calls, list(4))), expected);
    let (order, ship) = (of(ORDER, 1, ""), of(SHIP, 1, ""));
    let calls = [
        ("ListStateMachines", "{}", TWO_MACHINES),
        ("ListExecutions", &*order, rows("order", &[("o3", 30)], Some("t"))),
        ("ListExecutions", &*ship, rows("ship", &[("s1", 10)], Some("t"))),
    ];
    assert_eq!(listed(ask(&calls, list(1))), ["order/o3 RUNNING"]);
}

#[test]
fn a_history_is_read_on_by_token_and_later_from_its_end() {
    let events = |ids: &[u32], next: &str| -> &'static str {
        let events = ids
            .iter()
            .map(|id| format!(r#"{{"id": {id}, "type": "X", "timestamp": 1.5}}"#))
            .collect::<Vec<_>>();
        format!(r#"{{"events": [{}], "nextToken": {next}}}"#, events.join(",")).leak()
    };
    let first = r#"{"executionArn": "$A1", "maxResults": 1000}"#;
    let second = r#"{"executionArn": "$A1", "nextToken": "t", "maxResults": 1000}"#;
    let newest = r#"{"executionArn": "$A1", "maxResults": 100, "reverseOrder": true}"#;
    let older = r#"{"executionArn": "$A1", "nextToken": "r", "maxResults": 100, "reverseOrder": true}"#;
    let mut remote = script(&[
        ("GetExecutionHistory", first, events(&[1, 2], "\"t\"")),
        ("GetExecutionHistory", second, events(&[3], "null")),
        ("GetExecutionHistory", newest, events(&[3, 2, 1], "null")),
        ("GetExecutionHistory", newest, events(&[7, 6], "\"r\"")),
        ("GetExecutionHistory", older, events(&[5, 4, 3], "\"s\"")),
    ]);
    for (from, ids, next) in
        [(1, &[1, 2][..], Some(3)), (3, &[3], Some(4)), (4, &[], None), (4, &[4, 5, 6, 7], Some(8))]
    {
        let Ok(Answer::History(page)) = remote.ask(Request::History { execution: A1.into(), from }) else {
            panic!("from {from}")
        };
        let found: Vec<i64> =
            page.items.iter().filter_map(|event| event.value().get("id").and_then(Value::as_i64)).collect();
        assert_eq!((&found[..], page.next), (ids, next), "from {from}");
        let time = page.items.first().map(|event| event.value().get("timestamp").cloned());
        assert!(time.is_none_or(|time| time == Some("1970-01-01T00:00:01.500Z".into())), "from {from}");
    }
}

#[test]
fn what_has_ended_is_not_stopped_and_a_redrive_can_be_repeated() {
    let stop = || Request::Stop { execution: A1.into(), error: Some("E".into()), cause: None };
    let describe = r#"{"executionArn": "$A1"}"#;
    let ended = ask(&[("DescribeExecution", describe, DESCRIBED)], stop()).unwrap();
    let Answer::Taken(ended) = ended else { panic!("{ended:?}") };
    assert_eq!(ended.ignored.as_deref(), Some("it has ended already: FAILED"));
    let running = r#"{"executionArn": "$A1", "status": "RUNNING"}"#;
    let stops = r#"{"executionArn": "$A1", "error": "E"}"#;
    let calls = [("DescribeExecution", describe, running), ("StopExecution", stops, r#"{"stopDate": 1}"#)];
    let stopped = ask(&calls, stop()).unwrap();
    assert!(matches!(stopped, Answer::Taken(Taken { ignored: None, status: Status::Aborted, .. })));
    let redrives = r#"{"executionArn": "$A1", "clientToken": "unique"}"#;
    let redriven = ask(
        &[("RedriveExecution", redrives, r#"{"redriveDate": 1}"#)],
        Request::Redrive { execution: A1.into() },
    );
    assert!(matches!(redriven, Ok(Answer::Taken(Taken { status: Status::Running, .. }))), "{redriven:?}");
}

#[test]
fn a_machine_is_made_changed_or_left_as_it_is() {
    let deploy = |name: &str, definition: &str, role: Option<&str>| Request::Deploy {
        machine: name.into(),
        kind: MachineType::Standard,
        definition: definition.into(),
        role: role.map(str::to_owned),
    };
    let list = ("ListStateMachines", "{}", TWO_MACHINES);
    let describe = (
        "DescribeStateMachine",
        r#"{"stateMachineArn": "$ORDER"}"#,
        r#"{"stateMachineArn": "$ORDER",
        "definition": "old", "roleArn": "r", "type": "STANDARD", "creationDate": 1}"#,
    );
    let doubts = |definition: &str| {
        format!(r#"{{"definition": "{definition}", "type": "STANDARD", "severity": "WARNING"}}"#)
    };
    let (of_old, of_new) = (doubts("old"), doubts("new"));
    let doubted = r#"{"result": "OK", "diagnostics": [{"severity": "WARNING", "code": "C", "message": "m", "location": "/States/A"}]}"#;
    let same = [list, describe, ("ValidateStateMachineDefinition", &*of_old, doubted)];
    let Ok(Answer::Deployed(kept)) = ask(&same, deploy("order", "old", None)) else { panic!() };
    assert_eq!((&*kept.arn, kept.revision, kept.created_at.0), (ORDER, None, 1_000));
    assert_eq!(kept.warnings.map(|warnings| warnings[0].location.clone()).as_deref(), Some("/States/A"));
    let updates = r#"{"stateMachineArn": "$ORDER", "definition": "new"}"#;
    let changed = [
        list,
        describe,
        ("UpdateStateMachine", updates, r#"{"updateDate": 2}"#),
        ("ValidateStateMachineDefinition", &*of_new, "UnknownOperationException"),
    ];
    let Ok(Answer::Deployed(new)) = ask(&changed, deploy("order", "new", None)) else { panic!() };
    assert_eq!((new.created_at.0, new.warnings), (2_000, None));
    let creates = r#"{"name": "pay", "definition": "new", "roleArn": "arn:aws:iam::111122223333:role/perdura", "type": "STANDARD"}"#;
    let made = [
        list,
        list,
        ("CreateStateMachine", creates, r#"{"stateMachineArn": "arn:pay", "creationDate": 3}"#),
        ("ValidateStateMachineDefinition", &*of_new, r#"{"result": "OK", "diagnostics": []}"#),
    ];
    assert!(ask(&made, deploy("pay", "new", None)).is_ok());
    let named = creates.replace("arn:aws:iam::111122223333:role/perdura", "mine");
    let refused = [list, ("CreateStateMachine", &*named, "AccessDeniedException")];
    assert_eq!(ask(&refused, deploy("pay", "new", Some("mine"))).unwrap_err(), "AccessDeniedException");
    let express = Request::Deploy {
        machine: "order".into(),
        kind: MachineType::Express,
        definition: "new".into(),
        role: None,
    };
    let error = ask(&[list, describe], express).unwrap_err();
    assert_eq!(error, "there is a machine \"order\" already, of type STANDARD");
}
