//! The machines of the simulation: small ones, each for one way in which work could get lost or doubled.
//!
//! A machine is *steadfast* if its events and its output follow from its input alone, whatever crashes and however late
//! answers come. Its executions are compared with a run without faults.

use crate::dice::{Dice, hash};
use crate::plan::Trouble;
use std::fmt::Write as _;

/// A machine, and the inputs of its executions.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// As it is deployed.
    pub(crate) definition: String,
    /// Its events follow from its input alone.
    pub(crate) steadfast: bool,
    /// How often it is chosen.
    pub(crate) weight: u32,
    /// It exists for this trouble, and is only chosen with it.
    pub(crate) trouble: Option<Trouble>,
    /// Draws an input.
    pub(crate) input: fn(&mut Dice) -> String,
}

fn small(dice: &mut Dice) -> String {
    format!(r#"{{"n":{}}}"#, dice.below(1_000))
}

fn items(dice: &mut Dice) -> String {
    let items: Vec<String> = (0..=dice.below(7)).map(|n| format!(r#"{{"n":{n}}}"#)).collect();
    format!(r#"{{"n":0,"items":[{}]}}"#, items.join(","))
}

fn until(dice: &mut Dice) -> String {
    let at = crate::clock::Clock::unstepped(dice.between(0..=400_000));
    format!(r#"{{"n":1,"until":"{at}"}}"#)
}

fn rounds(dice: &mut Dice) -> String {
    format!(r#"{{"n":0,"end":{}}}"#, dice.between(5..=25))
}

fn many_rounds(dice: &mut Dice) -> String {
    format!(r#"{{"n":0,"end":{}}}"#, dice.between(200..=400))
}

fn bulky(dice: &mut Dice) -> String {
    let pad = noise(dice.bits(), 30_000);
    format!(r#"{{"n":0,"end":{},"pad":"{pad}"}}"#, dice.between(2..=7))
}

fn heaps(dice: &mut Dice) -> String {
    format!(r#"{{"n":0,"end":{}}}"#, dice.between(11..=13))
}

/// Text that does not compress well.
pub(crate) fn noise(seed: u64, bytes: usize) -> String {
    let mut dice = Dice::new(seed, "noise");
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        write!(text, "{:016x}", dice.bits()).expect("text can be written to");
    }
    text
}

fn task(step: &str, rest: &str) -> String {
    format!(r#"{{"Type":"Task","Resource":"arn:perdura:step:::{step}",{rest}}}"#)
}

fn machine(start: &str, states: &[(&str, String)]) -> String {
    let states: Vec<String> = states.iter().map(|(name, state)| format!(r#""{name}":{state}"#)).collect();
    format!(r#"{{"StartAt":"{start}","States":{{{}}}}}"#, states.join(","))
}

fn sequence() -> String {
    let mut states: Vec<(String, String)> =
        (0..9).map(|at| (format!("S{at}"), task("add", &format!(r#""Next":"S{}""#, at + 1)))).collect();
    states.push(("S9".into(), task("add", r#""End":true"#)));
    let states: Vec<(&str, String)> =
        states.iter().map(|(name, state)| (name.as_str(), state.clone())).collect();
    machine("S0", &states)
}

fn parallel() -> String {
    let branch = |first: &str, then: &str| {
        let next = format!(r#""Next":"{then}""#);
        machine(first, &[(first, task("add", &next)), (then, task("slow", r#""End":true"#))])
    };
    let waits = machine(
        "W",
        &[("W", r#"{"Type":"Wait","Seconds":2,"Next":"C"}"#.into()), ("C", task("add", r#""End":true"#))],
    );
    let fan = format!(
        r#"{{"Type":"Parallel","Branches":[{},{waits},{}],"ResultPath":"$.results","Next":"Last"}}"#,
        branch("A", "B"),
        branch("D", "E")
    );
    machine("Fan", &[("Fan", fan), ("Last", task("add", r#""End":true"#))])
}

fn map() -> String {
    let each =
        machine("Each", &[("Each", task("add", r#""Next":"Then""#)), ("Then", task("add", r#""End":true"#))]);
    let map = format!(
        r#"{{"Type":"Map","ItemsPath":"$.items","MaxConcurrency":2,"ItemProcessor":{each},"ResultPath":"$.results","Next":"Last"}}"#
    );
    machine("Map", &[("Map", map), ("Last", task("add", r#""End":true"#))])
}

/// A Distributed Map with these fields.
fn spread(fields: &str, child: &str) -> String {
    let processor =
        child.replacen('{', r#"{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"#, 1);
    let map = format!(
        r#"{{"Type":"Map",{fields}"ItemProcessor":{processor},"ResultPath":"$.results","Next":"Last"}}"#
    );
    machine("Map", &[("Map", map), ("Last", task("add", r#""End":true"#))])
}

/// Items from a reader: `$.n` of them, up to twenty.
const READER: &str = r#""ItemReader":{"Resource":"arn:aws:states:::s3:getObject","ReaderConfig":{"InputType":"JSON"},"Parameters":{"Bucket":"items","Key.$":"States.Format('{}',$.n)"}},"#;

fn nested() -> String {
    let leaf = machine(
        "Leaf",
        &[
            ("Leaf", task("add", r#""Next":"Rest""#)),
            ("Rest", r#"{"Type":"Wait","Seconds":1,"End":true}"#.into()),
        ],
    );
    let map = format!(r#"{{"Type":"Map","ItemsPath":"$.items","ItemProcessor":{leaf},"End":true}}"#);
    let branch = machine("Inner", &[("Inner", map)]);
    let other = machine("Other", &[("Other", task("slow", r#""End":true"#))]);
    machine(
        "Outer",
        &[("Outer", format!(r#"{{"Type":"Parallel","Branches":[{branch},{other}],"End":true}}"#))],
    )
}

/// Work, then a rest so long that the execution leaves memory, then work again.
fn resting(step: &str) -> String {
    let rest = r#"{"Type":"Wait","Seconds":2,"Next":"Work"}"#;
    let looped = counting(step).replace(r#""Next":"Work""#, r#""Next":"Rest""#);
    looped.replacen(r#""States":{"#, &format!(r#""States":{{"Rest":{rest},"#), 1)
}

fn counting(step: &str) -> String {
    machine(
        "Work",
        &[
            ("Work", task(step, r#""Next":"More""#)),
            (
                "More",
                r#"{"Type":"Choice","Choices":[{"Variable":"$.n","NumericLessThanPath":"$.end","Next":"Work"}],"Default":"Done"}"#.into(),
            ),
            ("Done", r#"{"Type":"Succeed"}"#.into()),
        ],
    )
}

const RETRY_ALL: &str =
    r#""Retry":[{"ErrorEquals":["States.ALL"],"IntervalSeconds":1,"MaxAttempts":6,"BackoffRate":1.5}]"#;

fn callback(rest: &str) -> String {
    let ask = format!(
        r#"{{"Type":"Task","Resource":"arn:aws:states:::sqs:sendMessage.waitForTaskToken","Parameters":{{"QueueUrl":"q","MessageBody":{{"n.$":"$.n","token.$":"$$.Task.Token"}}}},{rest}"Next":"Then"}}"#
    );
    machine("Ask", &[("Ask", ask), ("Then", task("add", r#""End":true"#))])
}

fn waits() -> String {
    machine(
        "First",
        &[
            ("First", r#"{"Type":"Wait","Seconds":3,"Next":"A"}"#.into()),
            ("A", task("add", r#""Next":"Second""#)),
            ("Second", r#"{"Type":"Wait","Seconds":95,"Next":"B"}"#.into()),
            ("B", task("add", r#""Next":"Third""#)),
            ("Third", r#"{"Type":"Wait","Seconds":1,"End":true}"#.into()),
        ],
    )
}

fn chance() -> String {
    machine(
        "Draw",
        &[
            ("Draw", r#"{"Type":"Pass","Parameters":{"n":1,"id.$":"States.UUID()"},"Next":"Use"}"#.into()),
            (
                "Use",
                task(
                    "shaky",
                    &format!(
                        r#""Parameters":{{"n":1,"id.$":"$.id","again.$":"States.UUID()","at.$":"$$.State.EnteredTime"}},{RETRY_ALL},"End":true"#
                    ),
                ),
            ),
        ],
    )
}

/// A task for a worker. Its timeouts begin once a worker has it, so only the queue can get it to one.
fn worked() -> String {
    let work = work(&format!(r#"{RETRY_ALL},"Next":"Then""#));
    machine("Work", &[("Work", work), ("Then", task("add", r#""End":true"#))])
}

fn work(rest: &str) -> String {
    format!(
        r#"{{"Type":"Task","Resource":"arn:aws:states:us-east-1:123456789012:activity:work","TimeoutSeconds":40,{rest}}}"#
    )
}

/// A task for a worker that is given up after a missed heartbeat, while the worker may still work.
fn beating() -> String {
    let work = format!(
        r#"{{"Type":"Task","Resource":"arn:aws:states:us-east-1:123456789012:activity:work","HeartbeatSeconds":10,"TimeoutSeconds":90,{RETRY_ALL},"Next":"Then"}}"#
    );
    machine("Beat", &[("Beat", work), ("Then", task("add", r#""End":true"#))])
}

/// It has more time than it needs, unless a clock is wrong.
fn patient() -> String {
    let states = machine(
        "Rest",
        &[
            ("Rest", r#"{"Type":"Wait","Seconds":240,"Next":"Slow"}"#.into()),
            ("Slow", task("sluggish", r#""TimeoutSeconds":900,"Next":"Again""#)),
            ("Again", r#"{"Type":"Wait","Seconds":45,"End":true}"#.into()),
        ],
    );
    states.replacen('{', r#"{"TimeoutSeconds":1800,"#, 1)
}

/// Branches, all of which run again when one of them fails.
fn fan(steps: &[&str]) -> String {
    let branch = |(step, at): (&&str, usize)| one(&format!("One{at}"), step);
    let branches: Vec<String> = steps.iter().zip(0..).map(branch).collect();
    fan_of(&branches)
}

fn fan_of(branches: &[String]) -> String {
    let fan = format!(
        r#"{{"Type":"Parallel","Branches":[{}],{RETRY_ALL},"ResultPath":"$.results","Next":"Last"}}"#,
        branches.join(",")
    );
    machine("Fan", &[("Fan", fan), ("Last", task("add", r#""End":true"#))])
}

/// A branch that is a Map or a Parallel of its own, and also runs again as a whole.
fn fan_in_fan() -> String {
    let each = machine("Each", &[("Each", task("mortal", r#""End":true"#))]);
    let map = format!(
        r#"{{"Type":"Map","ItemsPath":"$.items","ItemProcessor":{each},{RETRY_ALL},"ResultPath":"$.results","Next":"Own"}}"#
    );
    let inner = machine("Inner", &[("Inner", map), ("Own", task("wary", r#""End":true"#))]);
    let pair = [one("Left", "guarded"), one("Right", "picky")].join(",");
    let pair = format!(r#"{{"Type":"Parallel","Branches":[{pair}],"End":true}}"#);
    fan_of(&[inner, machine("Pair", &[("Pair", pair)]), one("One", "picky")])
}

/// Branches that wait for a worker, for a child, and for receivers that refuse.
fn fan_of_others() -> String {
    let worked = machine("Work", &[("Work", work(r#""End":true"#))]);
    let child = parent(".sync:2", "waits", r#""n.$":"$.Output.n""#, "");
    fan_of(&[worked, child, one("One", "picky"), one("Other", "picky")])
}

fn one(name: &str, step: &str) -> String {
    machine(name, &[(name, task(step, r#""End":true"#))])
}

/// Iterations, all of which run again when one of them fails.
fn each(step: &str) -> String {
    let one = machine("Each", &[("Each", task(step, r#""End":true"#))]);
    let map = format!(
        r#"{{"Type":"Map","ItemsPath":"$.items","ItemProcessor":{one},{RETRY_ALL},"ResultPath":"$.results","Next":"Last"}}"#
    );
    machine("Map", &[("Map", map), ("Last", task("add", r#""End":true"#))])
}

/// Starts another machine, under a name that follows from its own.
fn parent(pattern: &str, child: &str, result: &str, rest: &str) -> String {
    let call = format!(
        r#"{{"Type":"Task","Resource":"arn:aws:states:::states:startExecution{pattern}","Parameters":{{
            "StateMachineArn":"arn:aws:states:us-east-1:123456789012:stateMachine:{child}",
            "Name.$":"States.Format('of-{{}}',$$.Execution.Name)","Input":{{"n.$":"$.n"}}}},
            "ResultSelector":{{{result}}},{rest}"Next":"Then"}}"#
    );
    machine("Call", &[("Call", call), ("Then", task("add", r#""End":true"#))])
}

/// Starts another machine under a name that other executions use as well, and waits for the end of that execution.
fn sharer(rest: &str) -> String {
    let call = format!(
        r#"{{"Type":"Task","Resource":"arn:aws:states:::states:startExecution.sync:2","Parameters":{{
            "StateMachineArn":"arn:aws:states:us-east-1:123456789012:stateMachine:waits",
            "Name":"shared","Input":{{"n":1}}}},"ResultSelector":{{"n.$":"$.Output.n"}},{rest}"Next":"Then"}}"#
    );
    machine("Call", &[("Call", call), ("Then", task("add", r#""End":true"#))])
}

fn script(name: &'static str, definition: String, input: fn(&mut Dice) -> String) -> Script {
    Script { name, definition, steadfast: true, weight: 10, trouble: None, input }
}

fn restless(name: &'static str, definition: String, input: fn(&mut Dice) -> String) -> Script {
    Script { name, definition, steadfast: false, weight: 10, trouble: None, input }
}

/// A machine that exists for a trouble.
fn troubled(
    trouble: Trouble,
    name: &'static str,
    definition: String,
    input: fn(&mut Dice) -> String,
) -> Script {
    let weight = match trouble {
        Trouble::Dying | Trouble::Exits => 25,
        Trouble::Fans => 7,
        Trouble::Overlaps | Trouble::Spreads | Trouble::Sweeps | Trouble::Clocks | Trouble::Peers => 10,
    };
    Script { trouble: Some(trouble), weight, ..restless(name, definition, input) }
}

/// All scripts.
pub(crate) fn scripts() -> Vec<Script> {
    let caught = task(
        "fail",
        r#""Catch":[{"ErrorEquals":["Refused"],"ResultPath":"$.error","Next":"After"}],"Next":"After""#,
    );
    let until_then = r#"{"Type":"Wait","TimestampPath":"$.until","Next":"After"}"#;
    let after = || ("After", task("add", r#""End":true"#));
    let retried = |step: &str, rest: &str| {
        machine("Try", &[("Try", task(step, &format!(r#"{RETRY_ALL},{rest}"Next":"After""#))), after()])
    };
    let limited =
        r#"{"TimeoutSeconds":20,"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":1000,"End":true}}}"#;
    let two = machine(
        "Each",
        &[
            ("Each", task("add", r#""Next":"Rest""#)),
            ("Rest", r#"{"Type":"Wait","Seconds":2,"Next":"Then"}"#.into()),
            ("Then", task("add", r#""End":true"#)),
        ],
    );
    let each_one = |step: &str| one("Each", step);
    let at_most = r#""ItemsPath":"$.items","MaxConcurrency":3,"#;
    let read = format!(r#"{READER}"ItemBatcher":{{"MaxItemsPerBatch":3}},"MaxConcurrency":4,"#);
    let tolerant = r#""ItemsPath":"$.items","ToleratedFailureCount":2,"#;
    let again = format!(r#""ItemsPath":"$.items",{RETRY_ALL},"#);
    let batched = r#""ItemsPath":"$.items","ItemBatcher":{"MaxItemsPerBatch":2},"MaxConcurrency":2,"#;
    let long = machine(
        "Rest",
        &[
            ("Rest", r#"{"Type":"Wait","Seconds":1000,"Next":"Then"}"#.into()),
            ("Then", task("add", r#""End":true"#)),
        ],
    );
    vec![
        script("spread", spread(at_most, &two), items),
        script("read", spread(&read, &each_one("add")), small),
        restless("tolerant", spread(tolerant, &each_one("shaky")), items),
        script("parent", parent(".sync:2", "waits", r#""n.$":"$.Output.n""#, ""), small),
        script("launcher", parent("", "sequence", r#""n":1"#, ""), small),
        restless("manager", parent(".sync:2", "worked", r#""n.$":"$.Output.n""#, ""), small),
        restless(
            "impatient",
            parent(".sync", "shaky", r#""n":2"#, &format!(r#""TimeoutSeconds":9,{RETRY_ALL},"#)),
            small,
        ),
        Script { weight: 25, ..restless("worked", worked(), small) },
        script("sequence", sequence(), small),
        script("parallel", parallel(), small),
        script("map", map(), items),
        script("nested", nested(), items),
        script("flaky", retried("flaky", ""), small),
        script("caught", machine("Try", &[("Try", caught), after()]), small),
        script("waits", waits(), small),
        Script {
            weight: 15,
            ..script("until", machine("Until", &[("Until", until_then.into()), after()]), until)
        },
        script("callback", callback(""), small),
        script("loop", counting("add"), rounds),
        script("slow", machine("Slow", &[("Slow", task("sluggish", r#""Next":"After""#)), after()]), small),
        script("limited", limited.into(), small),
        Script { weight: 4, ..script("bulky", resting("grow"), bulky) },
        Script { weight: 1, ..script("long", counting("add"), many_rounds) },
        // Only if the plan asks for it: each Turn is more than a megabyte.
        Script { weight: 0, ..script("heap", counting("heap"), heaps) },
        restless("shaky", retried("shaky", ""), small),
        restless("hasty", retried("shaky", r#""TimeoutSeconds":5,"#), small),
        restless(
            "silent",
            callback(&format!(r#""HeartbeatSeconds":10,"TimeoutSeconds":120,{RETRY_ALL},"#)),
            small,
        ),
        restless("careful", machine("Pay", &[("Pay", task("careful", r#""Next":"After""#)), after()]), small),
        restless("chance", chance(), small),
        restless("failing", machine("Try", &[("Try", task("fail", r#""Next":"After""#)), after()]), small),
        troubled(Trouble::Dying, "dying", retried("mortal", ""), small),
        troubled(Trouble::Dying, "wary", retried("wary", ""), small),
        troubled(Trouble::Exits, "command", retried("command", ""), small),
        troubled(Trouble::Exits, "guarded", retried("guarded", ""), small),
        troubled(Trouble::Overlaps, "beating", beating(), small),
        troubled(Trouble::Fans, "fan", fan(&["mortal", "picky", "slow"]), small),
        troubled(Trouble::Fans, "wary-fan", fan(&["wary", "picky", "wary"]), small),
        troubled(Trouble::Fans, "each", each("mortal"), items),
        troubled(Trouble::Fans, "command-fan", fan(&["command", "guarded", "picky"]), small),
        troubled(Trouble::Fans, "fan-in-fan", fan_in_fan(), items),
        troubled(Trouble::Fans, "fan-of-others", fan_of_others(), small),
        troubled(Trouble::Spreads, "spread-each", spread(&again, &each_one("mortal")), items),
        troubled(Trouble::Spreads, "spread-wary", spread(batched, &each_one("wary")), items),
        troubled(Trouble::Spreads, "spread-rests", spread(at_most, &long), items),
        troubled(Trouble::Clocks, "patient", patient(), small),
        troubled(Trouble::Peers, "sharer", sharer(""), small),
        troubled(Trouble::Peers, "hasty-sharer", sharer(r#""TimeoutSeconds":9,"#), small),
    ]
}

/// The result of a step for an input: a pure function of the two.
pub(crate) fn result_of(step: &str, input: &serde_json::Value) -> serde_json::Value {
    let n = input.get("n").and_then(serde_json::Value::as_i64).unwrap_or(0);
    let mut result = match input {
        serde_json::Value::Object(members) => members.clone(),
        _ => serde_json::Map::new(),
    };
    result.remove("results");
    result.insert("n".into(), (n + 1).into());
    let bytes = match step {
        "grow" => 30_000,
        "heap" => 200_000,
        _ => 0,
    };
    if bytes > 0 {
        result.insert("pad".into(), noise(hash(step.as_bytes()) ^ n.unsigned_abs(), bytes).into());
    }
    result.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::read::{ReadOptions, read};
    use perdura_engine::asl::source::Source;

    #[test]
    fn every_machine_that_is_run_is_valid() {
        for script in scripts() {
            let reading = read(&Source::new(script.name, &*script.definition), &ReadOptions::default());
            assert!(reading.machine.is_some(), "{}: {:?}", script.name, reading.diagnostics);
        }
    }
}
