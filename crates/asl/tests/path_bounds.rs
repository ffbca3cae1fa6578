//! No path and no call takes more than a bounded amount of time, memory or stack, whatever it is given.

use perdura_asl::intrinsic::{self, Intrinsic};
use perdura_asl::json::{Value, parse};
use perdura_asl::path::{self, Path, ReferencePath};
use perdura_asl::scope::{Dice, Scope, States, Variables};

fn select(text: &str, input: &Value) -> Option<Value> {
    Path::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).select_from(input)
}

fn evaluate(text: &str, input: &Value) -> Result<Value, String> {
    let (variables, dice) = (Variables::default(), Dice::new(0, 1));
    let scope =
        Scope { input, context: input, variables: &variables, states: States::default(), dice: &dice };
    Intrinsic::parse(text).unwrap().evaluate(&scope).map_err(|failure| failure.cause)
}

/// An array in an array and so on, and at the bottom a 1.
fn nested_arrays(depth: usize) -> Value {
    parse(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth))).unwrap()
}

/// An object in an object and so on, each the `a` of the other.
fn nested_objects(depth: usize) -> Value {
    parse(&format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))).unwrap()
}

#[test]
fn a_path_has_a_bounded_number_of_steps() {
    let path = |steps: usize| format!("${}", ".a".repeat(steps));
    assert!(Path::parse(&path(path::STEPS_MAX)).is_ok());
    let error = Path::parse(&path(path::STEPS_MAX + 1)).unwrap_err();
    assert_eq!((error.at, error.message.as_str()), (2001, "a path has at most 1000 steps"));
    assert!(Path::parse(&format!("${}", "[?(@.a)]".repeat(path::STEPS_MAX))).is_ok());
    assert!(ReferencePath::parse(&path(256)).is_ok());
    assert!(ReferencePath::parse(&path(257)).is_err());
}

#[test]
fn filters_nest_to_a_bounded_depth() {
    let parentheses = |depth: usize| format!("$[?({}@.a{})]", "(".repeat(depth), ")".repeat(depth));
    let denials = |depth: usize| format!("$[?({}@.a)]", "!".repeat(depth));
    let filters = |depth: usize| format!("${}.a{}", "[?(@".repeat(depth), ")]".repeat(depth));
    let lists = |depth: usize| format!("$[?(@.a == {}{})]", "[".repeat(depth), "]".repeat(depth));
    for nested in [parentheses, denials, filters, lists] {
        assert!(Path::parse(&nested(60)).is_ok(), "{}", nested(60));
        let error = Path::parse(&nested(100_000)).unwrap_err();
        assert!(error.message.contains("at most 64 deep"), "{error}");
    }
}

#[test]
fn steps_that_multiply_give_up() {
    let arrays = nested_arrays(200);
    assert!(select(&format!("${}", "[0,-1]".repeat(200)), &arrays).is_none());
    assert_eq!(select(&format!("${}", "[0,-1]".repeat(3)), &arrays).unwrap().as_array().unwrap().len(), 8);
    let objects = nested_objects(200);
    assert!(select(&format!("${}", "..a".repeat(8)), &objects).is_none());
    assert!(select(&format!("${}", "['a','a']".repeat(200)), &objects).is_none());
    let filters = format!("$..a[?({}@.a{})]", "@..a[?(".repeat(20), ")]".repeat(20));
    assert!(select(&filters, &objects).is_none());
}

#[test]
fn the_deepest_document_is_walked() {
    let (arrays, objects) = (nested_arrays(256), nested_objects(256));
    assert_eq!(select(&format!("${}", "[0]".repeat(256)), &arrays), Some(Value::from(1)));
    assert_eq!(select(&format!("${}", "[*]".repeat(256)), &arrays).unwrap().to_string(), "[1]");
    assert_eq!(select("$..*", &arrays).unwrap().as_array().unwrap().len(), 256);
    assert_eq!(select("$..a", &objects).unwrap().as_array().unwrap().len(), 256);
    assert_eq!(select("$..[?(@.a)]", &objects).unwrap().as_array().unwrap().len(), 256);
    assert_eq!(select("$..[?(@..a)]", &objects).unwrap().as_array().unwrap().len(), 256);
}

#[test]
fn filters_from_the_root_stay_within_the_stack() {
    let (objects, arrays) = (nested_objects(250), nested_arrays(250));
    let filters = format!("$..a[?({}@.a{})]", "$..a[?(".repeat(50), ")]".repeat(50));
    assert_eq!(select(&filters, &objects).unwrap().as_array().unwrap().len(), 249);
    let deep = format!("${}", "[*]".repeat(249));
    let filters = format!("{deep}[?({}@{})]", format!("{deep}[?(").repeat(3), ")]".repeat(3));
    assert!(select(&filters, &arrays).is_none());
}

#[test]
fn a_list_from_the_root_is_read_once() {
    let ids: Value = (0..20_000).collect();
    let texts: Value = (10_000..30_000).map(|id| Value::from(id.to_string())).collect();
    let input = perdura_asl::object! {"ids" => ids.clone(), "texts" => texts, "double" => 15_000};
    let found = select("$.ids[?(@ in $.texts)]", &input).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 10_000, "a number is in a list of texts that read so");
    let found = select("$.texts[?(@ nin $.ids)]", &input).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 10_000, "a text is in a list of numbers that are written so");
    assert_eq!(select("$.ids[?(@ == $.double)]", &input).unwrap().to_string(), "[15000]");
}

#[test]
fn calls_nest_and_take_arguments_to_a_bound() {
    let nested = |depth: usize| format!("{}{}", "States.Array(".repeat(depth), ")".repeat(depth));
    assert!(Intrinsic::parse(&nested(intrinsic::NESTING_MAX)).is_ok());
    assert!(Intrinsic::parse(&nested(100_000)).unwrap_err().message.contains("at most 10 deep"));
    let many = |count: usize| format!("States.Array({})", vec!["$"; count].join(","));
    assert!(Intrinsic::parse(&many(intrinsic::ARGUMENTS_MAX)).is_ok());
    assert!(Intrinsic::parse(&many(intrinsic::ARGUMENTS_MAX + 1)).is_err());
}

#[test]
fn texts_that_multiply_fail() {
    let input = Value::from("x".repeat(100_000));
    let many = format!("States.Array({})", vec!["$"; 1_000].join(","));
    for (call, function) in [
        (format!("States.JsonToString({many})"), "JsonToString"),
        (format!("States.Hash({many}, 'MD5')"), "Hash"),
        (format!("States.ArrayUnique({many})"), "ArrayUnique"),
        (format!("States.ArrayContains({many}, $)"), "ArrayContains"),
        (format!("States.Format('{{}}', {many})"), "Format"),
    ] {
        let cause = evaluate(&call, &input).unwrap_err();
        assert!(cause.ends_with(&format!("Invalid arguments in States.{function}")), "{function}");
    }
    assert_eq!(evaluate(&format!("States.ArrayLength({many})"), &input), Ok(Value::from(1_000)));
}

#[test]
fn ten_thousand_characters_are_encoded_and_hashed_and_no_more() {
    for (text, fits) in [("é".repeat(10_000), true), ("é".repeat(10_001), false), ("😀".repeat(5_001), false)]
    {
        let input = Value::from(text);
        for call in ["States.Base64Encode($)", "States.Base64Decode($)", "States.Hash($, 'SHA-256')"] {
            assert_eq!(evaluate(call, &input).is_ok(), fits, "{call}");
        }
    }
}

#[test]
fn a_range_has_a_thousand_elements_and_no_more() {
    let length =
        |last: i32| evaluate(&format!("States.ArrayLength(States.ArrayRange(1, {last}, 1))"), &Value::Null);
    assert_eq!(length(1_000), Ok(Value::from(1_000)));
    assert!(length(1_001).is_err());
}

#[test]
fn putting_copies_only_what_lies_on_the_way() {
    let input = parse(r#"{"big": [1, 2, 3], "a": {"b": 1}}"#).unwrap();
    let after = ReferencePath::parse("$.a.b").unwrap().put(input.clone(), Value::from(2)).unwrap();
    let big = |value: &Value| value.get("big").unwrap().as_array().unwrap().as_ptr();
    assert_eq!(big(&input), big(&after), "what is not on the way is shared");
    assert_eq!(input.to_string(), r#"{"big":[1,2,3],"a":{"b":1}}"#, "what was there before is not touched");
}

#[test]
fn an_index_outside_of_its_array_is_null_in_a_template() {
    let input = parse(r#"{"a": [1], "o": {}}"#).unwrap();
    let (variables, dice) = (Variables::default(), Dice::new(0, 1));
    let scope = Scope {
        input: &input,
        context: &input,
        variables: &variables,
        states: States::default(),
        dice: &dice,
    };
    let in_template = |text: &str| Path::parse(text).unwrap().look_in_template(&scope).unwrap();
    assert_eq!(in_template("$.a[1]"), Some(Value::Null));
    assert_eq!(in_template("$.a[0]"), Some(Value::from(1)));
    for text in ["$.a[1].x", "$.o[0]", "$.x[0]", "$.o.x"] {
        assert_eq!(in_template(text), None, "{text}");
    }
}

#[test]
fn the_paths_of_a_call_are_those_of_its_inner_calls_too() {
    let call =
        Intrinsic::parse("States.Format($.t, States.Array($a, 'x', States.Array($$.b)), $.c[0])").unwrap();
    let paths: Vec<_> = call.paths().map(Path::text).collect();
    assert_eq!(paths, ["$.t", "$a", "$$.b", "$.c[0]"]);
}

#[test]
fn without_a_seed_the_dice_decide() {
    let draw = |entropy: u128| {
        let (variables, dice, input) = (Variables::default(), Dice::new(0, entropy), Value::Null);
        let scope = Scope {
            input: &input,
            context: &input,
            variables: &variables,
            states: States::default(),
            dice: &dice,
        };
        let call =
            Intrinsic::parse("States.Array(States.MathRandom(0, 1000000), States.UUID(), States.UUID())");
        call.unwrap().evaluate(&scope).unwrap()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let drawn = draw(1);
    let drawn = drawn.as_array().unwrap();
    assert_ne!(drawn[1], drawn[2]);
    assert_eq!(drawn[1].as_str().unwrap().len(), 36);
}
