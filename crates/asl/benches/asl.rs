//! What the language costs: reading definitions, and evaluating what they write.
//!
//! Each bench is a series over sizes, so that a step that is not linear shows as a rate that falls.
//! `cargo bench -p perdura-asl`; with `-- --test` each runs once.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use perdura_asl::json::{Payload, Value, parse};
use perdura_asl::jsonata::Expression;
use perdura_asl::machine::{Kind, Machine};
use perdura_asl::path::Path;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::scope::{Dice, Scope, States, Variables};
use perdura_asl::source::Source;
use std::fmt::Write;

fn main() {
    divan::main();
}

/// A definition of `count` states: a fifth each of Pass, Task, Choice, Wait and Task in JSONata.
fn definition(count: usize) -> String {
    let mut states = String::new();
    for at in 0..count {
        let next = if at + 1 == count { r#""End":true"#.into() } else { format!(r#""Next":"S{}""#, at + 1) };
        let state = match at % 5 {
            _ if at + 1 == count => format!(r#"{{"Type":"Pass",{next}}}"#),
            0 => format!(
                r#"{{"Type":"Pass","Parameters":{{"id.$":"$.order.id","at.$":"$$.State.EnteredTime","list":[1,2,3]}},"ResultPath":"$.shaped",{next}}}"#
            ),
            1 => format!(
                r#"{{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{{"FunctionName":"f","Payload.$":"$"}},"TimeoutSeconds":30,"Retry":[{{"ErrorEquals":["States.ALL"],"IntervalSeconds":1,"MaxAttempts":3}}],"Catch":[{{"ErrorEquals":["States.ALL"],"Next":"S{}"}}],{next}}}"#,
                count - 1
            ),
            2 => format!(
                r#"{{"Type":"Choice","Choices":[{{"Variable":"$.n","NumericGreaterThan":7,"Next":"S{0}"}},{{"And":[{{"Variable":"$.a","IsPresent":true}},{{"Variable":"$.a","StringEquals":"x"}}],"Next":"S{0}"}}],"Default":"S{0}"}}"#,
                at + 1
            ),
            3 => format!(r#"{{"Type":"Wait","SecondsPath":"$.seconds",{next}}}"#),
            _ => format!(
                r#"{{"Type":"Pass","QueryLanguage":"JSONata","Output":{{"sum":"{{% $sum($states.input.items.price) %}}"}},"Assign":{{"v{at}":"{{% $states.input.n + 1 %}}"}},{next}}}"#
            ),
        };
        write!(states, r#"{}"S{at}":{state}"#, if at == 0 { "" } else { "," }).expect("a String takes all");
    }
    format!(r#"{{"Comment":"bench","StartAt":"S0","States":{{{states}}}}}"#)
}

fn machine(name: &str, text: &str) -> Machine {
    let reading = read(&Source::new(name, text), &ReadOptions::default());
    reading.machine.unwrap_or_else(|| panic!("{:#?}", reading.diagnostics))
}

#[divan::bench(args = [50, 200, 1_000, 10_000])]
fn read_json_states(bencher: Bencher<'_, '_>, count: usize) {
    let text = definition(count);
    bencher.counter(ItemsCount::new(count)).bench(|| machine("bench.json", black_box(&text)));
}

#[divan::bench(args = [50, 200, 1_000, 10_000])]
fn read_yaml_states(bencher: Bencher<'_, '_>, count: usize) {
    let text = definition(count); // JSON is YAML too.
    bencher.counter(ItemsCount::new(count)).bench(|| machine("bench.yaml", black_box(&text)));
}

/// `{"orders": [{"id": …, "total": …, "open": …, "lines": […]}, …]}`
fn orders(count: usize) -> Value {
    let orders: Vec<Value> = (0..count)
        .map(|at| {
            let text = format!(
                r#"{{"id":"order-{at}","total":{},"open":{},"lines":[{{"sku":"a","n":1}},{{"sku":"b","n":{at}}}]}}"#,
                at % 100,
                at % 2 == 0
            );
            parse(&text).expect("an order is JSON")
        })
        .collect();
    perdura_asl::object! {"orders" => orders}
}

fn with_scope<R>(input: &Value, look: impl FnOnce(&Scope<'_>) -> R) -> R {
    let (context, dice) = (Value::empty_object(), Dice::new(0, 7));
    look(&Scope {
        input,
        context: &context,
        variables: &Variables::default(),
        states: States { input: Some(input), ..States::default() },
        dice: &dice,
    })
}

#[divan::bench(args = [10, 100, 1_000])]
fn path_filter_items(bencher: Bencher<'_, '_>, count: usize) {
    let path = Path::parse("$.orders[?(@.total > 50 && @.open == true)].id").expect("a path");
    let input = orders(count);
    with_scope(&input, |scope| {
        bencher.counter(ItemsCount::new(count)).bench_local(|| black_box(&path).select(scope));
    });
}

#[divan::bench(args = [10, 100, 1_000])]
fn path_definite_among_items(bencher: Bencher<'_, '_>, count: usize) {
    let path = Path::parse(&format!("$.orders[{}].lines[1].n", count - 1)).expect("a path");
    let input = orders(count);
    with_scope(&input, |scope| bencher.bench_local(|| black_box(&path).select(scope)));
}

#[divan::bench(args = [10, 100, 1_000])]
fn jsonata_filter_items(bencher: Bencher<'_, '_>, count: usize) {
    let expression =
        Expression::parse("$sum($states.input.orders[total > 50 and open].total)").expect("JSONata");
    let input = orders(count);
    with_scope(&input, |scope| {
        bencher.counter(ItemsCount::new(count)).bench_local(|| black_box(&expression).evaluate(scope));
    });
}

#[divan::bench(args = [10, 100, 1_000])]
fn jsonata_map_items(bencher: Bencher<'_, '_>, count: usize) {
    let text = "$map($states.input.orders, function($o) { {'id': $o.id, 'n': $count($o.lines)} })";
    let expression = Expression::parse(text).expect("JSONata");
    let input = orders(count);
    with_scope(&input, |scope| {
        bencher.counter(ItemsCount::new(count)).bench_local(|| black_box(&expression).evaluate(scope));
    });
}

/// The last rule holds; all others are tried in vain.
fn choice(rules: usize) -> Machine {
    let mut choices = String::new();
    for at in 0..rules {
        let comma = if at == 0 { "" } else { "," };
        write!(choices, r#"{comma}{{"Variable":"$.order.kind","StringEquals":"kind-{at}","Next":"End"}}"#)
            .expect("a String takes all");
    }
    let text = format!(
        r#"{{"StartAt":"Which","States":{{"Which":{{"Type":"Choice","Choices":[{choices}],"Default":"End"}},"End":{{"Type":"Succeed"}}}}}}"#
    );
    machine("choice.json", &text)
}

#[divan::bench(args = [1, 20, 200])]
fn choice_rules(bencher: Bencher<'_, '_>, rules: usize) {
    let machine = choice(rules);
    let (_, state) = machine.states().next().expect("a state");
    let Kind::Choice(choice) = &state.kind else { panic!("not a Choice") };
    let input = parse(&format!(r#"{{"order":{{"id":7,"kind":"kind-{}"}}}}"#, rules - 1)).expect("JSON");
    with_scope(&input, |scope| {
        bencher.counter(ItemsCount::new(rules)).bench_local(|| {
            let chosen =
                choice.rules.iter().position(|rule| rule.condition.holds(scope, "Choices") == Ok(true));
            assert_eq!(chosen, Some(rules - 1));
        });
    });
}

#[divan::bench(args = [10, 100, 1_000])]
fn json_parse_orders(bencher: Bencher<'_, '_>, count: usize) {
    let text = orders(count).to_string();
    bencher.counter(BytesCount::new(text.len())).bench(|| parse(black_box(&text)).expect("JSON"));
}

#[divan::bench(args = [10, 100, 1_000])]
fn json_print_orders(bencher: Bencher<'_, '_>, count: usize) {
    let value = orders(count);
    let bytes = value.to_string().len();
    bencher.counter(BytesCount::new(bytes)).bench(|| Payload::from(black_box(&value).clone()).len());
}
