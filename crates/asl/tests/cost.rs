//! What an evaluation has cost is counted in units, the same in every run.

use perdura_asl::intrinsic::Intrinsic;
use perdura_asl::json::Value;
use perdura_asl::jsonata::Expression;
use perdura_asl::machine::{Condition, Kind};
use perdura_asl::object;
use perdura_asl::path::Path;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::scope::{Dice, Scope, States, Variables};
use perdura_asl::source::Source;

/// What `evaluate` spends, which must be the same the second time.
fn cost(input: &Value, evaluate: impl Fn(&Scope<'_>)) -> u64 {
    let (variables, dice) = (Variables::default(), Dice::new(0, 1));
    let scope =
        Scope { input, context: input, variables: &variables, states: States::default(), dice: &dice };
    evaluate(&scope);
    let once = dice.spent();
    evaluate(&scope);
    assert_eq!(dice.spent(), 2 * once, "the same work costs the same, and the sum is kept");
    once
}

fn path(text: &str, input: &Value) -> u64 {
    let path = Path::parse(text).unwrap();
    cost(input, |scope| drop(path.select(scope)))
}

fn jsonata(text: &str) -> u64 {
    let expression = Expression::parse(text).unwrap();
    cost(&Value::Null, |scope| drop(expression.evaluate(scope)))
}

fn intrinsic(text: &str, input: &Value) -> u64 {
    let intrinsic = Intrinsic::parse(text).unwrap();
    cost(input, |scope| drop(intrinsic.evaluate(scope)))
}

/// Shows the rule of a Choice.
fn with_rule<R>(text: &str, look: impl FnOnce(&Condition) -> R) -> R {
    let text = format!(
        r#"{{"StartAt":"C","States":{{"C":{{"Type":"Choice","Choices":[{{{text},"Next":"E"}}]}},"E":{{"Type":"Succeed"}}}}}}"#
    );
    let machine = read(&Source::new("rule.json", text), &ReadOptions::default()).machine.unwrap();
    let (_, state) = machine.states().find(|(_, state)| &*state.name == "C").unwrap();
    let Kind::Choice(choice) = &state.kind else { panic!("C is a Choice") };
    look(&choice.rules[0].condition)
}

/// What the rule of a Choice spends.
fn rule(text: &str, input: &Value) -> u64 {
    with_rule(text, |rule| cost(input, |scope| drop(rule.holds(scope, ""))))
}

#[test]
fn jsonata_costs_what_it_evaluates_also_when_it_fails() {
    let small = jsonata("1 + 1");
    assert!((16..500).contains(&small), "{small}");
    let large = jsonata("$sum([1..1000].($ * 2))");
    assert!(large > 100 * small, "{large}");
    let failing = jsonata("($sum([1..1000].($ * 2)); $error('no'))");
    assert!(failing > 100 * small, "{failing}");
    assert!(jsonata("$match('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', /(a*)*b/)") > 200);
}

#[test]
fn paths_cost_what_they_look_at() {
    let items: Value = (0..1_000).collect();
    let input = object! {"items" => items, "text" => "x".repeat(1_000)};
    assert!(path("$.items", &input) < 100);
    assert!(path("$.items[?(@ > 5)]", &input) > 1_000);
    assert!(path("$.missing", &input) > 0);
    assert!(path("$$.text", &input) > 0);
}

#[test]
fn a_filter_costs_the_long_values_that_it_compares_with_every_item() {
    let items: Value = (0..100).collect();
    let input = |length: usize| {
        let (text, list): (_, Value) = ("a".repeat(32 * length), vec![Value::from("b"); length].into());
        object! {
            "items" => items.clone(), "long" => text.clone(), "same" => text,
            "list" => list.clone(), "lists" => vec![list],
        }
    };
    let (short, long) = (input(1), input(200));
    for filter in [
        "$.long =~ /.*b.c/",
        "$.long == $.same",
        "$.long < $.same",
        "$.long contains 'ab'",
        "$.long size 3",
        "$.long in $.lists[0]",
        "$.list == $.lists[0]",
        "$.list in $.lists",
        "$.lists contains $.list",
    ] {
        let every = format!("$.items[?({filter})]");
        assert!(path(&every, &long) > path(&every, &short) + 100 * 150, "{filter}");
    }
}

#[test]
fn intrinsics_cost_what_they_read() {
    let input = Value::from("x,".repeat(10_000));
    assert!(intrinsic("States.UUID()", &input) < 1_000);
    for call in ["States.StringSplit($, ',')", "States.Format('{}', $)", "States.JsonToString($)"] {
        assert!(intrinsic(call, &input) > 1_000, "{call}");
    }
    assert!(intrinsic("States.ArrayLength(States.Array($, $))", &input) < 200);
}

#[test]
fn rules_cost_the_texts_they_compare() {
    let input = object! {"text" => "x".repeat(100_000)};
    for text in
        [r#""Variable":"$.text","StringMatches":"*y*""#, r#""Variable":"$.text","StringEqualsPath":"$.text""#]
    {
        assert!(rule(text, &input) > 5_000, "{text}");
    }
}

#[test]
fn what_would_take_more_than_is_allowed_fails_and_says_why() {
    let items: Value = (0..1_000).collect();
    let input = object! {"items" => items, "text" => "x".repeat(100_000)};
    let variables = Variables::default();
    let told = |allowed: u64, evaluate: &dyn Fn(&Scope<'_>) -> Result<(), String>| {
        let dice = Dice::new(0, 1);
        dice.allow(allowed);
        let scope = Scope {
            input: &input,
            context: &input,
            variables: &variables,
            states: States::default(),
            dice: &dice,
        };
        let outcome = evaluate(&scope);
        assert!(dice.spent() <= allowed + 40_000, "{} of {allowed}", dice.spent());
        outcome.err().unwrap_or_default()
    };
    let cause = |failure: perdura_asl::scope::Failure| failure.cause;
    let all = |allowed: u64| {
        let path = Path::parse("$.items[?(@ > 2000)]").unwrap();
        let call = Intrinsic::parse("States.ArrayUnique($.items)").unwrap();
        let nested = Intrinsic::parse("States.ArrayLength($..items[?(@ > 2000)])").unwrap();
        let expression = Expression::parse("$sum([1..1000].($ * 2))").unwrap();
        let rule = |text: &str| {
            with_rule(text, |rule| told(allowed, &|scope| rule.holds(scope, "").map(drop).map_err(cause)))
        };
        [
            told(allowed, &|scope| path.look(scope).map(drop).map_err(cause)),
            told(allowed, &|scope| call.evaluate(scope).map(drop).map_err(cause)),
            told(allowed, &|scope| nested.evaluate(scope).map(drop).map_err(cause)),
            told(allowed, &|scope| expression.evaluate(scope).map(drop)),
            rule(r#""Variable":"$.text","StringMatches":"*y*""#),
        ]
    };
    assert_eq!(all(10_000_000), [const { String::new() }; 5]);
    for told in all(1_000) {
        assert!(told.contains("take more work together than one state may"), "{told}");
    }
}
