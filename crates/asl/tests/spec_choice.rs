//! Every operator of a Choice, by table: `spec/choice/operators.json`.

use perdura_asl::json::{Map, Payload, Value, parse};
use perdura_asl::machine::{Kind, Machine};
use perdura_asl::object;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::scope::{Dice, Scope, States, Variables};
use perdura_asl::source::Source;
use std::collections::BTreeSet;

fn machine(rule: &Value) -> Machine {
    let mut choice = rule.as_object().cloned().expect("a rule is an object");
    choice.insert("Next", "Yes");
    let states = object! {
        "Ask" => object! {"Type" => "Choice", "Choices" => vec![Value::from(choice)], "Default" => "No"},
        "Yes" => object! {"Type" => "Succeed"},
        "No" => object! {"Type" => "Succeed"},
    };
    let definition = object! {"StartAt" => "Ask", "States" => states}.to_string();
    let source = Source::new("definition.json", definition.as_str());
    let reading = read(&source, &ReadOptions::default());
    reading.machine.unwrap_or_else(|| panic!("{definition}\n{:?}", reading.diagnostics))
}

#[test]
fn every_operator_holds_when_the_language_says_so() {
    let cases = parse(include_str!("spec/choice/operators.json")).expect("the table is JSON");
    let mut operators = BTreeSet::new();
    for case in cases.as_array().expect("the table is a list") {
        let rule = case.get("rule").expect("a case has a rule");
        operators.extend(rule.as_object().into_iter().flat_map(Map::keys).map(ToString::to_string));
        let input = Payload::from(case.get("input").cloned().unwrap_or_default());
        let machine = machine(rule);
        let (_, state) = machine.states().next().expect("the machine has states");
        let Kind::Choice(choice) = &state.kind else { panic!("the first state is the Choice") };
        let scope = Scope {
            input: input.value(),
            context: &Value::empty_object(),
            variables: &Variables::default(),
            states: States::default(),
            dice: &Dice::new(0, 0),
        };
        let actual = match choice.rules[0].condition.holds(&scope, "Choices[0]/Condition") {
            Ok(truth) => Value::Bool(truth),
            Err(failure) => failure.error.into(),
        };
        assert_eq!(Some(&actual), case.get("holds"), "{case}");
    }
    operators.remove("Variable");
    assert_eq!(operators.len(), 42, "39 comparisons and 3 boolean operators: {operators:?}");
}
