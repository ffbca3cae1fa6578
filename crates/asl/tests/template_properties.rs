//! Payload templates: whatever is written, reading and evaluating it ends in an answer.

use perdura_asl::json::{Map, Value, parse};
use perdura_asl::machine::{Kind, Machine};
use perdura_asl::object;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::scope::{Dice, Scope, States, Variables};
use perdura_asl::source::Source;
use proptest::prelude::*;

/// Texts that mean something in a template, and some that do not.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "$", "$.a", "$.a.b[0]", "$..a", "$.a[?(@.b > 1)]", "$.a[-1:]", "$$", "$$.State.Name", "$missing.x", "$.",
            "States.Format('{} {}', $.a, 1)", "States.Array($.a, States.UUID())", "States.ArrayRange(1, 9, 2)",
            "States.JsonMerge($.a, $, false)", "States.StringToJson($.a)", "States.Nothing()", "States.Format(",
            "{% $states.input.a %}", "{% $sum($states.input.a.b) %}", "{% [1..$states.input.n] %}", "{% $ %}", "{% ( %}",
            "{%", "plain",
        ]).prop_map(str::to_owned),
        1 => ".{0,24}",
    ]
}

/// JSON with such texts, and with names that ask for evaluation.
fn templates() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        texts().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c]{1,2}(\\.\\$)?", inner), 0..4)
                .prop_map(|members| members.into_iter().collect::<Map>().into()),
        ]
    })
}

fn machine(field: &str, template: &Value, language: &str) -> Option<Machine> {
    let mut state = Map::new();
    state.insert("Type", "Pass");
    state.insert("QueryLanguage", language);
    state.insert(field, template.clone());
    state.insert("End", true);
    let definition = object! {"StartAt" => "A", "States" => [("A", state)].into_iter().collect::<Map>()};
    read(&Source::new("definition.json", definition.to_string().as_str()), &ReadOptions::default()).machine
}

/// What the template gives; a refusal or a failure is an answer, too.
fn evaluate(machine: &Machine, input: &Value, entropy: u128) -> Option<Value> {
    let (_, state) = machine.states().next()?;
    let Kind::Pass(pass) = &state.kind else { return None };
    let scope = Scope {
        input,
        context: &object! {"State" => object! {"Name" => "A"}},
        variables: &Variables::default(),
        states: States { input: Some(input), ..States::default() },
        dice: &Dice::new(0, entropy),
    };
    pass.parameters.as_ref().or(state.output.as_ref())?.evaluate(&scope, "Output").ok()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_template_is_refused_or_gives_the_same_whenever_it_is_evaluated(
        template in templates(),
        is_jsonata in any::<bool>(),
        input in prop::sample::select(vec![
            r#"{"a":{"b":[1,2]},"n":3}"#, r#"{"a":"{\"x\":1}","n":-1}"#, "[]", "null", r#"{"a":[{"b":2},{"b":0}],"n":1e300}"#,
        ]),
    ) {
        let (field, language) = if is_jsonata { ("Output", "JSONata") } else { ("Parameters", "JSONPath") };
        let input = parse(input).expect("JSON");
        if let Some(machine) = machine(field, &template, language) {
            let first = evaluate(&machine, &input, 7);
            prop_assert_eq!(&first, &evaluate(&machine, &input, 7));
            if let Some(value) = first {
                prop_assert_eq!(parse(&value.to_string()).ok(), Some(value));
            }
        }
    }
}
