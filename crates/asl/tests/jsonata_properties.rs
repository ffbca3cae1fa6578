//! No text and no value makes an expression panic, overflow the stack or run on; and what it gives is
//! the same each time and can be read back.

use perdura_asl::json::{self, Value};
use perdura_asl::jsonata::Expression;
use perdura_asl::scope::{Dice, Scope, States, Variables};
use proptest::collection::vec;
use proptest::prelude::*;

fn run(expression: &Expression, input: &Value) -> Result<Option<Value>, String> {
    let dice = Dice::new(1_700_000_000_000, 7);
    expression.evaluate(&Scope {
        input,
        context: &Value::Null,
        variables: &Variables::default(),
        states: States { input: Some(input), result: Some(input), error_output: None },
        dice: &dice,
    })
}

/// Parses and evaluates, twice.
fn hold(text: &str, input: &Value) {
    let expression = match Expression::parse(text) {
        Ok(expression) => expression,
        Err(error) => return assert!(error.at <= text.len(), "{text}: {error:?}"),
    };
    let result = run(&expression, input);
    assert_eq!(result, run(&expression, input), "{text}");
    if let Ok(Some(value)) = result {
        assert_eq!(json::parse(&value.to_string()).as_ref(), Ok(&value), "{text}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c0-9 é😀.-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec(("[abc]", inner), 0..4).prop_map(|members| members.into_iter().collect::<json::Map>().into()),
        ]
    })
}

/// Pieces of the language in any order: mostly nonsense, now and then not.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            ".",
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
            ",",
            "@",
            "#",
            ";",
            ":",
            "?",
            "+",
            "-",
            "*",
            "/",
            "%",
            "|",
            "=",
            "<",
            ">",
            "^",
            "**",
            "..",
            ":=",
            "!=",
            "<=",
            ">=",
            "~>",
            "and",
            "or",
            "in",
            "&",
            "!",
            "~",
            "$",
            "$$",
            "$x",
            "$states.input",
            "a",
            "b",
            "'s'",
            "\"",
            "`q`",
            "1",
            "2.5",
            "1e9",
            "true",
            "null",
            "function($x)",
            "λ",
            "<n:n>",
            "/a/",
            "/(a|b)*/i",
            "/*",
            "*/",
            "\\",
            " ",
            "\n",
            "é",
            "😀",
            "$sum(",
            "$map(",
            "$sort(",
            "$string(",
            "$replace(",
            "$match(",
            "$fromMillis(",
            "$toMillis(",
            "[1..",
            "$formatNumber(",
            "$formatInteger(",
            "$range(",
            "$parse(",
            "$pad(",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,3}",
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Well-formed expressions over `a`, `b`, `c` of the input.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "$states.input",
        "$states.input.a",
        "$states.input.b.c",
        "$states.input.a[0]",
        "$states.input.*",
        "$states.input.**",
        "$x",
        "$",
        "a",
        "c",
        "1",
        "-2.5",
        "0",
        "1e300",
        "'text'",
        "''",
        "'12'",
        "true",
        "null",
        "[]",
        "{}",
        "[1..5]",
        "[3,1,2]",
        "/[a-b]+/",
        "$uuid()",
        "$now()",
        "$missing",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 3, |inner| {
        let function = prop::sample::select(vec![
            "sum",
            "count",
            "max",
            "average",
            "string",
            "length",
            "trim",
            "uppercase",
            "number",
            "abs",
            "round",
            "boolean",
            "not",
            "keys",
            "spread",
            "merge",
            "reverse",
            "distinct",
            "sort",
            "type",
            "exists",
            "shuffle",
            "base64encode",
            "base64decode",
            "encodeUrl",
            "decodeUrl",
            "parse",
            "fromMillis",
            "toMillis",
            "sqrt",
            "floor",
            "zip",
            "clone",
            "error",
        ]);
        let binary = prop::sample::select(vec![
            "append",
            "lookup",
            "substring",
            "pad",
            "split",
            "join",
            "contains",
            "match",
            "formatNumber",
            "formatBase",
            "formatInteger",
            "parseInteger",
            "power",
            "partition",
            "hash",
            "zip",
            "toMillis",
            "fromMillis",
            "substringBefore",
            "single",
            "assert",
        ]);
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "&", "=", "!=", "<", "<=", ">", ">=", "and", "or", "in", "~>",
        ]);
        let step = prop::sample::select(vec![
            ".a",
            ".b[]",
            ".*",
            "[0]",
            "[-1]",
            "^($)",
            "^(>a)",
            ".%",
            "#$i",
            "@$x",
            "{a: b}",
            ".{'k': a}",
            ".[b, c]",
            "[$ > 1]",
            "[a = 1]",
            ".(a; b)",
            ".$string()",
            "{'k': $}",
            "[[0..2]]",
        ]);
        let higher = prop::sample::select(vec!["map", "filter", "sort", "reduce", "each", "sift", "single"]);
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (function, inner.clone()).prop_map(|(name, x)| format!("${name}({x})")),
            (binary, pair.clone()).prop_map(|(name, (x, y))| format!("${name}({x}, {y})")),
            (operator, pair.clone()).prop_map(|(sign, (x, y))| format!("({x} {sign} {y})")),
            (inner.clone(), vec(step, 1..3)).prop_map(|(x, steps)| format!("({x}){}", steps.concat())),
            (higher, pair.clone())
                .prop_map(|(name, (x, y))| format!("${name}({x}, function($x, $y){{ {y} }})")),
            pair.clone().prop_map(|(x, y)| format!("($x := {x}; {y})")),
            pair.clone().prop_map(|(x, y)| format!("[{x}, {y}]")),
            pair.clone().prop_map(|(x, y)| format!("{{'a': {x}, 'b': {y}}}")),
            pair.clone().prop_map(|(x, y)| format!("($f := function($x){{ {y} }}; $f({x}))")),
            pair.clone().prop_map(|(x, y)| format!(
                "($f := function($x, $n){{ $n = 0 ? {y} : $f($x, $n - 1) }}; $f({x}, 5))"
            )),
            pair.clone().prop_map(|(x, y)| format!("({x} ~> |**|{{'n': {y}}}, 'a'|)")),
            (inner.clone(), pair).prop_map(|(x, (y, z))| format!("({x} ? {y} : {z})")),
            (inner.clone(), inner).prop_map(|(x, y)| format!("$replace({x}, /./, {y})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_an_expression_or_an_error(text in any::<String>(), input in value()) {
        hold(&text, &input);
    }

    #[test]
    fn any_pieces_are_an_expression_or_an_error(text in soup(), input in value()) {
        hold(&text, &input);
    }

    #[test]
    fn any_expression_on_any_value_ends(text in expression(), input in value()) {
        hold(&text, &input);
    }

    #[test]
    fn any_pattern_on_any_text_ends(pattern in "[ab(){}|*+?.^$\\\\\\[\\]d0-3,<=!:-]{1,16}", text in "[ab01 ]{0,40}") {
        hold(&format!("$match('{text}', /{pattern}/)"), &Value::Null);
    }

    #[test]
    fn any_picture_is_one_or_an_error(picture in "[YMDdFWHhPmsfZzCE0-9#,;.eIiwWAaNno%*\\[\\]-]{0,14}", number in any::<f64>()) {
        hold(&format!("$fromMillis({number}, '{picture}')"), &Value::Null);
        hold(&format!("$toMillis('2020-01-02 MMXX twelve', '{picture}')"), &Value::Null);
        hold(&format!("$formatNumber({number}, '{picture}')"), &Value::Null);
        hold(&format!("$formatInteger({number}, '{picture}')"), &Value::Null);
        hold(&format!("$parseInteger('12th', '{picture}')"), &Value::Null);
    }

    #[test]
    fn a_plain_path_gives_what_the_evaluator_gives(names in vec("[abc]", 1..4), index in -3_i32..3, input in value()) {
        let path = format!("$states.input.{}", names.join("."));
        for (plain, evaluated) in [
            (path.clone(), path.replacen("$states.input", "($states.input)", 1)),
            (format!("{path}[{index}]"), format!("({path})[{index}]").replacen("$states.input", "($states.input)", 1)),
        ] {
            // Brackets after a mapped path apply to each part or to the whole; they agree where nothing is mapped.
            let mapped = names.len() > 1 || plain.ends_with(']');
            let has_array = input.to_string().contains('[');
            if mapped && has_array && plain.ends_with(']') {
                continue;
            }
            let plain_result = run(&Expression::parse(&plain).unwrap(), &input);
            let evaluated_result = run(&Expression::parse(&evaluated).unwrap(), &input);
            prop_assert_eq!(plain_result, evaluated_result, "{}", plain);
        }
    }
}
