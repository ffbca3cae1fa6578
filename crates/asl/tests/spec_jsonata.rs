//! JSONata, as Step Functions runs it: the language by table, its bounds by name.

use perdura_asl::json::{self, Payload, Value};
use perdura_asl::jsonata::Expression;
use perdura_asl::scope::{Context, Dice, Scope, States, Variables};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an expression of these tests sees.
#[derive(Default)]
struct World {
    input: Option<Value>,
    result: Option<Value>,
    error_output: Option<Value>,
    variables: BTreeMap<Arc<str>, Payload>,
    entropy: u128,
}

impl World {
    fn with_input(text: &str) -> Self {
        Self { input: Some(json::parse(text).unwrap()), ..Self::default() }
    }

    fn run(&self, expression: &Expression) -> Result<Option<Value>, String> {
        let dice = Dice::new(1_700_000_000_000, self.entropy);
        expression.evaluate(&Scope {
            input: &Value::Null,
            context: &Moment,
            variables: &Variables { own: Some(&self.variables), outer: None },
            states: States {
                input: self.input.as_ref(),
                result: self.result.as_ref(),
                error_output: self.error_output.as_ref(),
            },
            dice: &dice,
        })
    }

    fn evaluate(&self, text: &str) -> Result<Option<Value>, String> {
        self.run(&Expression::parse(text).map_err(|error| error.message)?)
    }
}

/// A context object with a value that is not part of the whole.
struct Moment;

impl Context for Moment {
    fn whole(&self) -> Value {
        json::parse(r#"{"Execution":{"Id":"e-1","Input":{"a":[1,2]}},"Task":{"Token":"t"}}"#).unwrap()
    }

    fn hidden(&self, names: &[&str]) -> Option<Value> {
        (names == ["Task", "IdempotencyKey"]).then(|| "k-1".into())
    }
}

/// Text of the result: what most tests compare.
fn shown(text: &str) -> String {
    match World::default().evaluate(text) {
        Ok(Some(value)) => value.to_string(),
        Ok(None) => "undefined".into(),
        Err(error) => error,
    }
}

const TIMEOUT: &str = "Expression evaluation timeout: Check for infinite loop";
const MEMORY: &str = "Expression evaluation memory limit exceeded: Check for excessive memory usage";
const STACK: &str = "Stack overflow error: Check for non-terminating recursive function. Consider rewriting as tail-recursive";

fn check(table: &str) {
    let table = json::parse(table).unwrap();
    let world = World { input: table.get("input").cloned(), ..World::default() };
    let cases = table.get("cases").and_then(Value::as_array).unwrap();
    assert!(cases.len() > 10, "a table that was not read proves nothing");
    for case in cases {
        let text = case.get("expr").and_then(Value::as_str).unwrap();
        let result = world.evaluate(text);
        let expected = match (case.get("gives"), case.get("error")) {
            (Some(value), None) => Ok(Some(value.clone())),
            (None, Some(error)) => Err(error.as_str().unwrap().to_owned()),
            (None, None) => Ok(None),
            (Some(_), Some(_)) => panic!("{text}: a case has one outcome"),
        };
        assert_eq!(result, expected, "{text}");
    }
}

macro_rules! tables {
    ($($name:ident: $file:literal),* $(,)?) => {$(
        #[test]
        fn $name() {
            check(include_str!(concat!("spec/jsonata/", $file, ".json")));
        }
    )*};
}

tables! {
    paths_map_filter_and_flatten: "paths",
    operators_compute_compare_and_combine: "operators",
    strings_are_counted_in_characters: "strings",
    numbers_stay_what_they_are: "numbers",
    arrays_are_built_sorted_and_folded: "arrays",
    objects_are_grouped_merged_and_transformed: "objects",
    functions_close_over_recurse_and_compose: "functions",
    errors_speak_as_the_reference_does: "errors",
    dates_are_written_and_read_by_picture: "dates",
    sorting_is_stable_and_grouping_collects: "sorting",
    regular_expressions_match_as_in_javascript: "regex",
    step_functions_adds_six_and_writes_numbers_its_way: "states",
}

#[test]
fn expressions_travel_between_threads() {
    fn is_shareable<T: Send + Sync + Clone + std::fmt::Debug>() {}
    is_shareable::<Expression>();
    let expression = Expression::parse("  $a.b \n").unwrap();
    assert_eq!(expression.text(), "$a.b");
    assert_eq!(format!("{expression:?}"), "Expression(\"$a.b\")");
}

#[test]
fn states_has_the_members_of_its_place_and_no_others() {
    let mut world = World::with_input(r#"{"a":1}"#);
    assert_eq!(world.evaluate("$keys($states)"), Ok(Some(vec!["input", "context"].into())));
    assert_eq!(world.evaluate("$states.result"), Ok(None));
    world.result = Some(Value::from(5));
    world.error_output = Some("oops".into());
    assert_eq!(world.evaluate("$states.result + 1"), Ok(Some(Value::from(6))));
    assert_eq!(world.evaluate("$states.errorOutput"), Ok(Some("oops".into())));
    assert_eq!(world.evaluate("$states.input.a"), Ok(Some(Value::from(1))));
    assert_eq!(
        world.evaluate("$keys($states)"),
        Ok(Some(vec!["input", "result", "errorOutput", "context"].into()))
    );
}

#[test]
fn the_context_hides_the_key_but_gives_it_to_whoever_asks() {
    let world = World::default();
    assert_eq!(world.evaluate("$states.context.Execution.Id"), Ok(Some("e-1".into())));
    assert_eq!(world.evaluate("$states.context.Task.IdempotencyKey"), Ok(Some("k-1".into())));
    assert_eq!(world.evaluate("'x:' & $states.context.Task.IdempotencyKey"), Ok(Some("x:k-1".into())));
    assert_eq!(world.evaluate("$keys($states.context.Task)"), Ok(Some("Token".into())));
    assert_eq!(world.evaluate("$states.context.Execution.Input.a[1]"), Ok(Some(Value::from(2))));
    assert_eq!(world.evaluate("$states.context.Nothing"), Ok(None));
}

#[test]
fn variables_come_from_the_workflow_and_may_shadow_the_library() {
    let mut world = World::default();
    world.variables.insert("order".into(), json::parse(r#"{"lines":[{"q":2},{"q":3}]}"#).unwrap().into());
    world.variables.insert("count".into(), Value::from(9).into());
    assert_eq!(world.evaluate("$sum($order.lines.q)"), Ok(Some(Value::from(5))));
    assert_eq!(world.evaluate("$order.lines[1].q"), Ok(Some(Value::from(3))));
    assert_eq!(world.evaluate("$count + 1"), Ok(Some(Value::from(10))));
    assert_eq!(world.evaluate("($order := 1; $order)"), Ok(Some(Value::from(1))));
    assert_eq!(world.evaluate("$other"), Ok(None));
}

#[test]
fn what_passes_through_is_shared_not_copied() {
    let world = World::with_input(r#"{"rows":[{"a":[1,2,3]}]}"#);
    for text in ["$states.input.rows", "($x := $states.input; $x.rows)", "$states.input.rows[0].a"] {
        let value = world.evaluate(text).unwrap().unwrap();
        let (Value::Array(items), Some(input)) = (&value, &world.input) else { panic!("{text}") };
        let rows = input.get("rows").unwrap();
        let known = [rows, rows.as_array().unwrap()[0].get("a").unwrap()];
        let is_shared = |known: &&Value| matches!(known, Value::Array(other) if Arc::ptr_eq(items, other));
        assert!(known.iter().any(is_shared), "{text}");
    }
}

#[test]
fn time_and_chance_repeat_with_the_dice() {
    let text = "[$now(), $millis(), $uuid(), $random(), $shuffle([1..20]), $toMillis('12', '[H01]')]";
    let draw = |entropy| World { entropy, ..World::default() }.evaluate(text);
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    assert_eq!(shown("$now() = $now()"), "true");
}

#[test]
fn what_aws_refuses_to_parse_is_refused_in_its_words() {
    for (text, message) in [
        ("", "Unexpected end of expression"),
        ("1 +", "Unexpected end of expression"),
        ("$x :=", "Unexpected end of expression"),
        ("'open", "String literal must be terminated by a matching quote"),
        ("a[1,2)", "Expected \"]\", got \",\""),
        ("(1; 2", "Expected \")\" before end of expression"),
        ("{\"a\":}", "The symbol \"}\" cannot be used as a unary operator"),
        ("phone %.other", "The symbol \".\" cannot be used as a unary operator"),
        ("1 2", "Syntax error: 2"),
        ("a ! b", "Unknown operator: \"!\""),
        ("$match('a', /abc", "No terminating / in regular expression"),
        ("$match('a', //)", "Empty regular expressions are not allowed"),
        ("'\\q'", "Unsupported escape sequence: \\\"q\""),
        ("'\\u12'", "The escape sequence \\u must be followed by 4 hex digits"),
        ("1e999", "Number out of range: \"1e999\""),
        ("`open", "Quoted property name must be terminated with a backquote (`)"),
        ("/* open", "Comment has no closing tag"),
        ("1 := 2", "The left side of := must be a variable name (start with $)"),
        ("function(x){1}", "Parameter 1 of function definition must be a variable name (start with $)"),
        ("a{b:1}{c:2}", "Each step can only have one grouping expression"),
        ("a.1", "The literal value 1 cannot be used as a step within a path expression"),
        ("%", "The object representing the 'parent' cannot be derived from this expression"),
        ("a@b", "The right side of \"@\" must be a variable name (start with $)"),
        ("function($x)<n<s>>{1}", "Type parameters can only be applied to functions and arrays"),
        ("/(/", "No terminating / in regular expression"),
        ("/a{2,1}/", "Invalid regular expression: /a{2,1}/: numbers out of order in {} quantifier"),
    ] {
        assert_eq!(Expression::parse(text).unwrap_err().message, message, "{text}");
    }
}

#[test]
fn operators_of_later_versions_are_refused_with_a_hint() {
    for (text, operator) in [("$a ?? 1", "??"), ("$a ?: 1", "?:"), ("$a.b ?? $c ?? 2", "??")] {
        let message = Expression::parse(text).unwrap_err().message;
        assert!(message.contains("cannot be used as a unary operator"), "{message}");
        assert!(message.ends_with(&format!("has no {operator} operator")), "{message}");
    }
}

#[test]
fn what_reads_a_context_at_the_top_level_is_told_as_aws_tells_it() {
    let refused = |text: &str| Expression::parse(text).unwrap().unsupported().to_vec();
    let at_top = |name: &str| format!("Reference to '{name}' at the top level is not supported.");
    for text in [
        "isbn",
        "isbn[0].part",
        "-isbn",
        "isbn ? 1 : 2",
        "$x ? isbn : 2",
        "isbn & 'x'",
        "$sum(isbn)",
        "isbn(1)",
        "isbn ~> $string()",
        "[1..isbn]",
        "(isbn)",
        "(isbn).other",
        "[isbn, 1]",
        "{isbn: 1}",
        "($x := isbn; $x)",
        "$map($x, function($y){ isbn })",
        "$count(isbn[inner])",
        "isbn.**.deeper",
        "$x(isbn, ?)",
        "isbn = isbn",
    ] {
        assert_eq!(refused(text), [at_top("isbn")], "{text}");
    }
    for text in ["$", "$.isbn", "$[0]", "$string($)", "$map($x, function($y){ $ })"] {
        assert_eq!(refused(text), [at_top("$")], "{text}");
    }
    for text in [
        "$states.input.isbn",
        "$x[isbn > 3]",
        "$x^(isbn)",
        "$x{'k': isbn}",
        "$x.(isbn)",
        "$isbn",
        "$x ~> |isbn|{'b': c}|",
        "**.isbn",
        "{'k': 1}.isbn",
        "$x[$ > 1]",
        "function($y){ $y.isbn }",
        "'isbn'",
        "$now()",
        "$x.{'a': isbn}",
        "$x@$v.isbn",
        "$x.isbn.%",
    ] {
        assert!(refused(text).is_empty(), "{text}");
    }
    assert_eq!(refused("$$"), ["Reference to '$$' is not supported."]);
    assert_eq!(refused("$x[$$.a = 1]"), ["Reference to '$$' is not supported."]);
    assert_eq!(refused("[b, a, b]"), [at_top("b"), at_top("a")]);
}

#[test]
fn an_expression_says_what_it_takes_from_the_workflow() {
    let takes = |text: &str| -> Vec<String> {
        let expression = Expression::parse(text).unwrap();
        expression.variables().iter().map(ToString::to_string).collect()
    };
    assert_eq!(takes("$a + $b.c[$d = 1]"), ["a", "b", "d"]);
    assert_eq!(takes("$sum($a)"), ["a"]);
    assert_eq!(takes("($x := $y; $x + $z)"), ["y", "z"]);
    assert_eq!(takes("($x := $x; $x)"), ["x"]);
    assert_eq!(takes("(($x := 1); $x)"), ["x"]);
    assert_eq!(takes("function($p){ $p + $q }"), ["q"]);
    assert_eq!(takes("$o.lines@$l#$i[$l.q > $least].{'i': $i, 'o': $out}"), ["least", "o", "out"]);
    assert_eq!(takes("$o{k: $v}"), ["o", "v"]);
    assert_eq!(takes("$states.input ~> |a|{'b': $c}, $d|"), ["c", "d"]);
    assert_eq!(takes("$f(?, 1)"), ["f"]);
    assert!(takes("$states.result.a").is_empty());
}

#[test]
fn an_expression_says_which_states_it_reads() {
    let expression =
        Expression::parse("$states.result.a & [1].($states.`errorOutput`) & $eval('1')").unwrap();
    assert!(expression.reads_states("result") && expression.reads_states("errorOutput"));
    assert!(!expression.reads_states("input"));
    let expression = Expression::parse("$states.input.result & ($eval := 1; $eval)").unwrap();
    assert!(!expression.reads_states("result"));
}

#[test]
fn failures_are_told_in_the_sentences_of_aws() {
    let expression = Expression::parse("$eval('1')").unwrap();
    let error = World::default().run(&expression).unwrap_err();
    assert_eq!(
        expression.threw("Output/r", &error),
        "The JSONata expression '$eval('1')' specified for the field 'Output/r' threw an error during evaluation. T1006: Attempted to invoke a non-function"
    );
    assert_eq!(
        expression.threw("Seconds", TIMEOUT),
        format!(
            "The JSONata expression '$eval('1')' specified for the field 'Seconds' threw an error during evaluation: {TIMEOUT}"
        )
    );
    assert_eq!(
        expression.returned_nothing("Output"),
        "The JSONata expression '$eval('1')' specified for the field 'Output' returned nothing (undefined)."
    );
}

#[test]
fn depth_ends_where_it_ends_on_aws() {
    let terms = |count: usize| vec!["1"; count].join("+");
    let nested = |open: &str, close: &str, count: usize| open.repeat(count) + "1" + &close.repeat(count);
    let recursion = |n: u32| format!("($f := function($x){{ $x <= 0 ? 0 : 1 + $f($x-1) }}; $f({n}))");
    assert_eq!(shown(&terms(100)), "100");
    assert_eq!(shown(&terms(101)), STACK);
    assert_eq!(shown(&nested("(", ")", 99)), "1");
    assert_eq!(shown(&nested("(", ")", 100)), STACK);
    assert_eq!(shown(&nested("[", "]", 99)), "[".repeat(99) + "1" + &"]".repeat(99));
    assert_eq!(shown(&nested("[", "]", 100)), STACK);
    assert_eq!(shown(&("1".to_owned() + &"~>$string".repeat(99))), "\"1\"");
    assert_eq!(shown(&("1".to_owned() + &"~>$string".repeat(100))), STACK);
    assert_eq!(shown(&recursion(31)), "31");
    assert_eq!(shown(&recursion(32)), STACK);
    assert_eq!(shown("($f := function($n){ $f($n+1) + 1 }; $f(0))"), STACK);
}

#[test]
fn memory_ends_where_it_ends_on_aws() {
    let doubled = |n: u32| {
        format!("($f := function($s, $n){{ $n = 0 ? $s : $f($s & $s, $n - 1) }}; $length($f('x', {n})))")
    };
    assert_eq!(shown("[1..873782] ~> $count()"), "873782");
    assert_eq!(shown("[1..873783] ~> $count()"), MEMORY);
    assert_eq!(shown("$sum([1..900000])"), MEMORY);
    assert_eq!(shown(&doubled(22)), "4194304");
    assert_eq!(shown(&doubled(23)), MEMORY);
    assert_eq!(shown("$sum($map([1..200000], function($v){$v * 2}))"), "40000200000");
}

#[test]
fn nothing_grows_without_end() {
    for text in [
        "[1..10000000]",
        "$pad('x', 1000000000)",
        "$pad('x', -1e300, 'ab')",
        "$formatInteger(1e15, 'I')",
        "$fromMillis(0, '[Y,*-999999999]')",
        "$fromMillis(0, '[H1,999999999]')",
        "$range(1, 1e300, 1)",
        "$reduce([1..64], function($a, $x){ $a & $a }, 'x')",
        "$reduce([1..64], function($a, $x){ $append($a, $a) }, [1])",
        "($f := function($a, $n){ $n = 0 ? $a : $f({'l': $a, 'r': $a}, $n - 1) }; $f(1, 60))",
        "($f := function($n, $g){ $f($n + 1, function(){ $g }) }; $f(0, 1))",
        "$map([1..800000], function($x){ $string($x) & $pad('', 40, 'x') })",
        "[1..800000].(function(){ 1 })",
        "$zip([1..400000], [1..400000])",
    ] {
        assert_eq!(shown(text), MEMORY, "{text}");
    }
    assert!(shown("[1..100000000]").starts_with("D2014: "));
}

#[test]
fn nothing_runs_without_end() {
    for text in [
        "($f := function($n){ $f($n + 1) }; $f(0))",
        "(function($f){ $f($f) })(function($f){ $f($f) })",
        "$match($pad('', 5000, 'a'), /(a+)+$b/)",
        "($f := function($a, $n){ $n = 0 ? $a : $f({'l': $a, 'r': $a}, $n - 1) }; $f(1, 60) = $f(1, 60))",
        "($f := function($a, $n){ $n = 0 ? $a : $f({'l': $a, 'r': $a}, $n - 1) }; $string($f(1, 60)))",
        "$map([1..10000], function($x){ $count($sort([1..10000])) })",
    ] {
        assert_eq!(shown(text), TIMEOUT, "{text}");
    }
}

#[test]
fn what_would_exhaust_the_stack_is_an_error() {
    for text in [
        "$formatInteger(100/0, 'w')",
        "$formatInteger(1/0, 'I')",
        "$formatInteger(1/0, 'a')",
        "($f := function($a, $n){ $n = 0 ? $a : $f([[$a]], $n - 1) }; $f([], 100000))",
        "($f := function($a, $n){ $n = 0 ? $a : $f({'a': $a}, $n - 1) }; $f(1, 100000))",
        "($f := function($g, $n){ $n = 0 ? $g : $f($g ~> $string, $n - 1) }; $f($string, 100000))",
        "($f := function($g, $n){ $n = 0 ? $g : $f($g(?), $n - 1) }; $f(function($x){ $x }, 100000))",
        "($f := function($g, $n){ $n = 0 ? $g : $f($substring(?, $g), $n - 1) }; $f(0, 100000))",
        "($f := function($g, $n){ $n = 0 ? $g : $f([$g].(function(){ 1 }), $n - 1) }; $f(function(){ 1 }, 100000))",
        "($v := 0; $map([1..2000], function($i){{'i': $i}}) ~> |$|{'p': [$v, $v := $][0]}|)",
    ] {
        assert_eq!(shown(text), STACK, "{text}");
    }
    let deep = |open: &str, close: &str| shown(&(open.repeat(100_000) + "1" + &close.repeat(100_000)));
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{'a':", "}"), ("-", ""), ("$sum(", ")"), ("a[", "]"), ("1+", "")]
    {
        assert!(deep(open, close).starts_with("The expression nests more than"), "{open}");
    }
    assert!(deep("/(", ")/").contains("nest too deep"));
}

#[test]
fn a_result_that_json_could_not_read_back_is_an_error() {
    let nested =
        |n: u32| format!("($f := function($a, $n){{ $n = 0 ? $a : $f({{'a': $a}}, $n - 1) }}; $f(1, {n}))");
    let world = World {
        input: Some(json::parse(&("[".repeat(200) + &"]".repeat(200))).unwrap()),
        ..World::default()
    };
    let result = World::default().evaluate(&nested(250)).unwrap().unwrap();
    assert!(json::parse(&result.to_string()).is_ok());
    let both = nested(100).replace("$f(1,", "$f($states.input,");
    assert_eq!(world.evaluate(&both), Err("The result nests more than 256 levels deep".into()));
}

#[test]
fn pictures_that_are_none_are_errors_not_panics() {
    for picture in [
        "[", "[]", "[Y", "[Y,]", "[Y,-]", "[Y,*-*]", "[é]", "[Yé]", "[M,é]", "[Zé]", "]]", "[[", "[Y,2-1]",
        "[Z99999]",
    ] {
        let text = format!(
            "[$fromMillis(1e12, '{picture}'), $toMillis('2020', '{picture}'), $fromMillis(1e300, '{picture}')]"
        );
        let _ = shown(&text);
    }
    for picture in ["", "#", "0;", ";0", ".", "e", "0e", "é0é", "0.0.0", "%", "0;0;0"] {
        let _ = shown(&format!(
            "$formatNumber(-1.5, '{picture}') & $formatInteger(7, '{picture}') & $parseInteger('7', '{picture}')"
        ));
    }
    assert_eq!(shown("$formatNumber(0, '0.0e0')"), "\"0.0e0\"");
}
