//! Small valid definitions over all kinds of states, in both languages.
//!
//! A machine is drawn as a tree of shapes and then written as a definition. Its first state sets `$items`, so
//! that every Map finds some; what else flows is whatever the answers bring, so that expressions also fail.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// States in a row, and how the last one ends.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    states: Vec<Shape>,
    ending: Ending,
}

#[derive(Clone, Debug)]
enum Ending {
    End,
    Succeed,
    Fail,
}

/// One state. Numbers choose among variations when the definition is written.
#[derive(Clone, Debug)]
struct Shape {
    jsonata: bool,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Pass(u8),
    Wait(u8),
    /// Leads to any state of its flow, or on.
    Choice(u8),
    Task {
        resource: u8,
        bounds: u8,
        after: After,
    },
    Parallel {
        branches: Vec<Flow>,
        after: After,
    },
    Map {
        flow: Box<Flow>,
        at_once: u8,
        selects: bool,
        after: After,
    },
    DistributedMap {
        after: After,
    },
}

/// Retry and Catch: which, and where the catcher leads.
#[derive(Clone, Debug)]
struct After {
    retry: u8,
    catch: u8,
    shape: u8,
}

/// Any machine.
pub(crate) fn machines() -> impl Strategy<Value = Flow> {
    flow(kind().boxed()).prop_recursive(3, 24, 4, |inner| flow(nesting(inner).boxed())).boxed()
}

fn flow(kind: BoxedStrategy<Kind>) -> BoxedStrategy<Flow> {
    let shape = (any::<bool>(), kind).prop_map(|(jsonata, kind)| Shape { jsonata, kind });
    let ending = prop_oneof![3 => Just(Ending::End), 1 => Just(Ending::Succeed), 1 => Just(Ending::Fail)];
    (prop::collection::vec(shape, 1..5), ending).prop_map(|(states, ending)| Flow { states, ending }).boxed()
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => any::<u8>().prop_map(Kind::Pass),
        1 => any::<u8>().prop_map(Kind::Wait),
        1 => any::<u8>().prop_map(Kind::Choice),
        5 => (any::<u8>(), any::<u8>(), after()).prop_map(|(resource, bounds, after)| Kind::Task {
            resource,
            bounds,
            after,
        }),
    ]
}

fn nesting(inner: impl Strategy<Value = Flow> + Clone + 'static) -> impl Strategy<Value = Kind> {
    let branches = prop::collection::vec(inner.clone(), 1..4);
    prop_oneof![
        2 => kind(),
        2 => (branches, after()).prop_map(|(branches, after)| Kind::Parallel { branches, after }),
        2 => (inner, any::<u8>(), any::<bool>(), after()).prop_map(|(flow, at_once, selects, after)| {
            Kind::Map { flow: Box::new(flow), at_once, selects, after }
        }),
        1 => after().prop_map(|after| Kind::DistributedMap { after }),
    ]
}

fn after() -> impl Strategy<Value = After> {
    (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(retry, catch, shape)| After { retry, catch, shape })
}

/// The definition of a machine.
pub(crate) fn definition(flow: &Flow, timeout: Option<u64>) -> String {
    let mut writer = Writer { count: 0 };
    let mut written = writer.flow(flow);
    let first = written["StartAt"].clone();
    written["States"]["Begin"] =
        json!({"Type": "Pass", "Assign": {"items": [1, {"x": 2}, "three"]}, "Next": first});
    written["StartAt"] = "Begin".into();
    if let Some(seconds) = timeout {
        written["TimeoutSeconds"] = seconds.into();
    }
    written.to_string()
}

struct Writer {
    count: usize,
}

impl Writer {
    fn flow(&mut self, flow: &Flow) -> Value {
        let base = self.count;
        self.count += flow.states.len() + 1;
        let name = |at: usize| format!("S{}", base + at);
        let last = flow.states.len();
        let mut states = Map::new();
        for (at, shape) in flow.states.iter().enumerate() {
            let ends = at + 1 == last && matches!(flow.ending, Ending::End);
            // A Choice has to lead on, and a state that ends need not be caught.
            let onward = if ends { None } else { Some(name(at + 1)) };
            let back = |pick: u8| name(usize::from(pick) % last);
            states.insert(name(at), self.state(shape, &name(at), onward, &back));
        }
        match flow.ending {
            Ending::End => {}
            Ending::Succeed => drop(states.insert(name(last), json!({"Type": "Succeed"}))),
            Ending::Fail => {
                drop(states.insert(name(last), json!({"Type": "Fail", "Error": "E1", "Cause": "drawn"})));
            }
        }
        json!({"StartAt": name(0), "States": states})
    }

    fn state(
        &mut self,
        shape: &Shape,
        name: &str,
        onward: Option<String>,
        back: &dyn Fn(u8) -> String,
    ) -> Value {
        let jsonata = shape.jsonata;
        let mut state = match (&shape.kind, &onward) {
            (Kind::Pass(how), _) => pass(*how, jsonata, name),
            (Kind::Wait(how), _) => wait(*how, jsonata),
            (Kind::Choice(_), None) => json!({"Type": "Pass"}),
            (Kind::Choice(pick), Some(onward)) => {
                let rule = if jsonata {
                    json!({"Condition": "{% $states.input = 1 %}", "Next": back(*pick)})
                } else {
                    json!({"Variable": "$", "NumericEquals": 1, "Next": back(*pick)})
                };
                json!({"Type": "Choice", "Choices": [rule], "Default": onward})
            }
            (Kind::Task { resource, bounds, after }, _) => {
                let mut task = task(*resource, *bounds, jsonata);
                handle(&mut task, after, jsonata, back);
                task
            }
            (Kind::Parallel { branches, after }, _) => {
                let branches: Vec<Value> = branches.iter().map(|branch| self.flow(branch)).collect();
                let mut parallel = json!({"Type": "Parallel", "Branches": branches});
                handle(&mut parallel, after, jsonata, back);
                parallel
            }
            (Kind::Map { flow, at_once, selects, after }, _) => {
                let mut map = json!({"Type": "Map", "ItemProcessor": self.flow(flow)});
                map["MaxConcurrency"] = (at_once % 4).into();
                items(&mut map, jsonata);
                if *selects {
                    map["ItemSelector"] = selector(jsonata, after.shape);
                }
                handle(&mut map, after, jsonata, back);
                map
            }
            (Kind::DistributedMap { after }, _) => {
                let inner = format!("{name}Inner");
                let mut map = json!({"Type": "Map", "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                    "StartAt": inner.clone(),
                    "States": {inner: {"Type": "Pass", "End": true}},
                }});
                items(&mut map, jsonata);
                handle(&mut map, after, jsonata, back);
                map
            }
        };
        if jsonata {
            state["QueryLanguage"] = "JSONata".into();
        }
        match onward {
            _ if state["Type"] == "Choice" => {}
            Some(onward) => state["Next"] = onward.into(),
            None => state["End"] = true.into(),
        }
        state
    }
}

fn pass(how: u8, jsonata: bool, name: &str) -> Value {
    let variable = format!("v{name}");
    match (how % 5, jsonata) {
        (0, _) => json!({"Type": "Pass"}),
        (1, true) => json!({"Type": "Pass", "Output": {"was": "{% $states.input %}"}}),
        (1, false) => json!({"Type": "Pass", "Parameters": {"was.$": "$", "n": how}}),
        (2, true) => json!({"Type": "Pass", "Assign": {variable: "{% $states.input %}"}}),
        (2, false) => json!({"Type": "Pass", "Assign": {variable: {"x.$": "$"}}}),
        (3, true) => json!({"Type": "Pass", "Output": 1}),
        (3, false) => json!({"Type": "Pass", "Result": 1}),
        (_, true) => json!({"Type": "Pass", "Output": "{% $states.input.x %}"}),
        (_, false) => json!({"Type": "Pass", "InputPath": "$.x"}),
    }
}

fn wait(how: u8, jsonata: bool) -> Value {
    match (how % 3, jsonata) {
        (0, _) => json!({"Type": "Wait", "Seconds": how % 7}),
        (1, true) => json!({"Type": "Wait", "Seconds": "{% $states.input.n %}"}),
        (1, false) => json!({"Type": "Wait", "SecondsPath": "$.n"}),
        _ => json!({"Type": "Wait", "Timestamp": "2026-01-01T00:00:07Z"}),
    }
}

fn task(resource: u8, bounds: u8, jsonata: bool) -> Value {
    let resource = match resource % 5 {
        0 => "arn:aws:lambda:us-east-1:123456789012:function:call",
        1 => "arn:aws:states:us-east-1:123456789012:activity:work",
        2 => "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        3 => "arn:aws:states:::states:startExecution.sync:2",
        _ => "arn:perdura:step:::call",
    };
    let mut task = json!({"Type": "Task", "Resource": resource});
    // Different at each attempt, so that a key with new bytes would be seen.
    if jsonata {
        task["Arguments"] = json!({"StateMachineArn": "child", "QueueUrl": "q", "MessageBody": {
            "once": "{% $uuid() %}", "tries": "{% $states.context.State.RetryCount %}",
        }});
    } else {
        task["Parameters"] = json!({"StateMachineArn": "child", "QueueUrl": "q", "MessageBody": {
            "once.$": "States.UUID()", "tries.$": "$$.State.RetryCount",
        }});
    }
    if bounds & 1 == 1 {
        task["TimeoutSeconds"] = (5 + bounds % 20).into();
    }
    if bounds & 2 == 2 {
        task["HeartbeatSeconds"] = (1 + bounds % 4).into();
    }
    task
}

fn items(map: &mut Value, jsonata: bool) {
    if jsonata {
        map["Items"] = "{% $items %}".into();
    } else {
        map["ItemsPath"] = "$items".into();
    }
}

fn selector(jsonata: bool, shape: u8) -> Value {
    match (jsonata, shape.is_multiple_of(4)) {
        (true, false) => json!({"item": "{% $states.context.Map.Item.Value %}"}),
        (true, true) => json!({"x": "{% $states.context.Map.Item.Value.x %}"}),
        (false, false) => json!({"item.$": "$$.Map.Item.Value"}),
        (false, true) => json!({"x.$": "$$.Map.Item.Value.x"}),
    }
}

/// Retry, Catch, and what becomes of the result.
fn handle(state: &mut Value, after: &After, jsonata: bool, back: &dyn Fn(u8) -> String) {
    let errors = [json!(["E1"]), json!(["States.Timeout"]), json!(["States.ALL"])];
    if after.retry & 3 != 0 {
        let mut retrier = json!({
            "ErrorEquals": errors[usize::from(after.retry) % 3],
            "IntervalSeconds": 1 + after.retry % 3,
            "MaxAttempts": after.retry % 4,
        });
        if after.retry & 16 != 0 {
            retrier["JitterStrategy"] = "FULL".into();
        }
        state["Retry"] = json!([retrier]);
    }
    if after.catch & 1 == 1 {
        let mut catcher = json!({
            "ErrorEquals": errors[usize::from(after.catch) % 3],
            "Next": back(after.catch / 4),
        });
        match (jsonata, after.catch & 2 == 2) {
            (true, true) => catcher["Output"] = "{% $states.errorOutput.Cause %}".into(),
            (false, true) => catcher["ResultPath"] = "$.problem".into(),
            (_, false) => {}
        }
        state["Catch"] = json!([catcher]);
    }
    match (after.shape % 5, jsonata) {
        (0, true) => state["Output"] = "{% $states.result %}".into(),
        (0, false) => state["ResultPath"] = "$.result".into(),
        (1, true) => state["Output"] = "{% $states.result.x %}".into(),
        (1, false) => state["ResultSelector"] = json!({"x.$": "$.x"}),
        (2, false) => state["ResultPath"] = Value::Null,
        (2..=4, true) | (3..=4, false) => {}
        (5.., _) => unreachable!("a remainder of 5"),
    }
}
