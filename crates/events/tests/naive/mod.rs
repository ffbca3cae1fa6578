//! Patterns as one would write them down without a thought for their cost: each field of each pattern is looked for in
//! the whole message, and all choices of elements are tried.

use serde_json::Value;
use std::net::IpAddr;

/// A value that holds no others: where it is, and in which elements of lists.
struct Leaf<'a> {
    path: Vec<String>,
    value: &'a Value,
    elements: Vec<(Vec<String>, usize)>,
}

/// Fields with their tests, of which all must match.
type Fields<'a> = Vec<(Vec<String>, &'a Vec<Value>)>;

pub(crate) fn matches(pattern: &Value, message: &Value) -> bool {
    let mut leaves = Vec::new();
    gather(message, &mut Vec::new(), &mut Vec::new(), &mut leaves);
    alternatives(pattern, &[]).iter().any(|fields| choose(fields, &leaves, &mut Vec::new()))
}

fn gather<'a>(
    value: &'a Value,
    path: &mut Vec<String>,
    elements: &mut Vec<(Vec<String>, usize)>,
    leaves: &mut Vec<Leaf<'a>>,
) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                path.push(name.clone());
                gather(value, path, elements, leaves);
                path.pop();
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                let holds = value.is_object() || value.is_array();
                if holds {
                    elements.push((path.clone(), at));
                }
                gather(value, path, elements, leaves);
                if holds {
                    elements.pop();
                }
            }
        }
        leaf => leaves.push(Leaf { path: path.clone(), value: leaf, elements: elements.clone() }),
    }
}

fn alternatives<'a>(pattern: &'a Value, path: &[String]) -> Vec<Fields<'a>> {
    let mut all: Vec<Fields<'a>> = vec![Vec::new()];
    for (name, value) in pattern.as_object().expect("a pattern is an object") {
        let these = if name == "$or" {
            value.as_array().expect("a list").iter().flat_map(|element| alternatives(element, path)).collect()
        } else {
            let name = match name.as_str() {
                "detail-type" if path.is_empty() => "type",
                "detail" if path.is_empty() => "data",
                other => other,
            };
            let path = [path, &[name.to_owned()]].concat();
            match value {
                Value::Array(tests) => vec![vec![(path, tests)]],
                inner => alternatives(inner, &path),
            }
        };
        let with = |before: &Fields<'a>| {
            these.iter().map(|these| [&before[..], &these[..]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

fn choose(fields: &[(Vec<String>, &Vec<Value>)], leaves: &[Leaf<'_>], chosen: &mut Vec<usize>) -> bool {
    let Some(((path, tests), rest)) = fields.split_first() else { return true };
    let is_absent = !leaves.iter().any(|leaf| leaf.path == *path);
    if is_absent && tests.iter().any(|test| test["exists"] == false) {
        return choose(rest, leaves, chosen);
    }
    leaves.iter().enumerate().any(|(at, leaf)| {
        if leaf.path != *path
            || !tests.iter().any(|test| holds(test, leaf.value))
            || !chosen.iter().all(|other| go_together(leaf, &leaves[*other]))
        {
            return false;
        }
        chosen.push(at);
        let all = choose(rest, leaves, chosen);
        chosen.pop();
        all
    })
}

fn go_together(a: &Leaf<'_>, b: &Leaf<'_>) -> bool {
    for (a, b) in a.elements.iter().zip(&b.elements) {
        if a.0 != b.0 {
            return true;
        }
        if a.1 != b.1 {
            return false;
        }
    }
    true
}

fn holds(test: &Value, value: &Value) -> bool {
    let Some(operator) = test.as_object() else { return same(test, value) };
    let (name, argument) = operator.iter().next().expect("one member");
    match name.as_str() {
        "exists" => argument == true,
        "anything-but" => match argument {
            Value::Object(inner) => {
                let (name, argument) = inner.iter().next().expect("one member");
                !listed(argument).iter().any(|argument| holds_text(name, argument, value))
            }
            other => !listed(other).iter().any(|listed| same(listed, value)),
        },
        "numeric" => value.as_f64().is_some_and(|value| {
            argument.as_array().expect("a list").chunks(2).all(|pair| {
                let bound = pair[1].as_f64().expect("a number");
                match pair[0].as_str().expect("an operator") {
                    "=" => value == bound,
                    "<" => value < bound,
                    "<=" => value <= bound,
                    ">" => value > bound,
                    _ => value >= bound,
                }
            })
        }),
        _ => holds_text(name, argument, value),
    }
}

fn listed(argument: &Value) -> Vec<Value> {
    argument.as_array().cloned().unwrap_or_else(|| vec![argument.clone()])
}

fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn holds_text(name: &str, argument: &Value, value: &Value) -> bool {
    let Some(text) = value.as_str() else { return false };
    if let Some(inner) = argument.get("equals-ignore-case") {
        let (text, inner) = (text.to_lowercase(), inner.as_str().expect("a string").to_lowercase());
        return if name == "prefix" { text.starts_with(&inner) } else { text.ends_with(&inner) };
    }
    let argument = argument.as_str().expect("a string");
    match name {
        "exact" => text == argument,
        "prefix" => text.starts_with(argument),
        "suffix" => text.ends_with(argument),
        "equals-ignore-case" => text.to_lowercase() == argument.to_lowercase(),
        "wildcard" => glob(&argument.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>()),
        "cidr" => in_network(argument, text),
        other => panic!("no operator {other}"),
    }
}

fn glob(wildcard: &[char], text: &[char]) -> bool {
    match (wildcard, text) {
        ([], text) => text.is_empty(),
        (['*', rest @ ..], text) => (0..=text.len()).any(|at| glob(rest, &text[at..])),
        (['\\', escaped, rest @ ..], [first, text @ ..]) => escaped == first && glob(rest, text),
        ([wanted, rest @ ..], [first, text @ ..]) => wanted == first && glob(rest, text),
        (_, []) => false,
    }
}

fn in_network(network: &str, text: &str) -> bool {
    let (address, length) = network.split_once('/').expect("a network");
    let (Ok(network), Ok(address)) = (address.parse::<IpAddr>(), text.parse::<IpAddr>()) else {
        return false;
    };
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().map(|byte| format!("{byte:08b}")).concat(),
        IpAddr::V6(address) => address.octets().map(|byte| format!("{byte:08b}")).concat(),
    };
    let length: usize = length.parse().expect("a length");
    network.is_ipv4() == address.is_ipv4() && bits(network)[..length] == bits(address)[..length]
}
