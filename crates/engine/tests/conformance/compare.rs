//! Recorded answers have masked values; this says where ours differ from them.

use super::mask::{Masks, is_any_value};
use perdura_engine::asl::json::{Map, Value, parse};
use std::collections::BTreeMap;

/// Members that AWS added after some recordings, or that only its SDK makes.
const EXTRAS: [&str; 6] = [
    "RedriveCount",
    "billingDetails",
    "SdkHttpMetadata",
    "SdkResponseMetadata",
    "encryptionConfiguration",
    "ResponseMetadata",
];

/// Members that AWS added after some recordings, and that others have.
const LATER: [&str; 1] = ["redriveCount"];

/// Compares the recorded outcome: the last event, or a description.
pub(crate) fn outcome(expected: &Value, answer: &Value, masks: &mut Masks) -> Vec<String> {
    let Some(end) = expected.get("final") else {
        return difference(expected, answer, "outcome", true, masks).into_iter().collect();
    };
    let events = answer.get("events").and_then(Value::as_array).unwrap_or_default();
    let Some(last) = events.last() else { return vec!["outcome: no events".into()] };
    let mut found = Vec::new();
    for (name, expected) in end.as_object().into_iter().flat_map(Map::iter) {
        let actual = match &**name {
            "type" => last.get("type").cloned(),
            name => details(last).and_then(|details| details.get(name).cloned()),
        };
        let at = format!("outcome/{name}");
        found.extend(difference(expected, &actual.unwrap_or_default(), &at, true, masks));
    }
    found
}

/// Compares a whole answer: a history event by event, anything else member by member.
pub(crate) fn answer(expected: &Value, actual: &Value, concurrent: bool, masks: &mut Masks) -> Vec<String> {
    match (expected.get("events").and_then(Value::as_array), actual.get("events").and_then(Value::as_array)) {
        (Some(expected), Some(actual)) => history(expected, actual, concurrent, masks),
        _ => difference(expected, actual, "", false, masks).into_iter().collect(),
    }
}

/// Compares the outputs of many runs of one machine.
pub(crate) fn cases<'a>(cases: &[Value], answers: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let answers: Vec<&Value> = answers.filter(|answer| answer.get("events").is_some()).collect();
    if answers.len() != cases.len() {
        return vec![format!("{} runs, {} recorded", answers.len(), cases.len())];
    }
    let compared = cases.iter().zip(answers).map(|(case, answer)| {
        let last = answer
            .get("events")
            .and_then(Value::as_array)
            .and_then(<[Value]>::last)
            .cloned()
            .unwrap_or_default();
        let output = details(&last).and_then(|details| details.get("output")).cloned().unwrap_or_default();
        let wanted = case.get("output").cloned().unwrap_or_default();
        difference(&wanted, &output, &format!("{case}"), false, &mut Masks::default())
    });
    compared.flatten().collect()
}

/// Whether a message of ours is the recorded one.
#[allow(dead_code, reason = "cases through the wire need it, cases below the API do not")]
pub(crate) fn same_words(recorded: &str, ours: &str) -> bool {
    Masks::default().fit(recorded, ours)
}

/// Compares the words of a refusal.
#[allow(dead_code, reason = "cases below the API need it, cases through the wire do not")]
pub(crate) fn refusal(recorded: &Value, refusal: &str) -> Vec<String> {
    let words =
        recorded.get("exception_value").or_else(|| recorded.get("message")).cloned().unwrap_or_default();
    let words = words.as_str().unwrap_or_default().to_owned();
    if words.is_empty()
        || pattern(&words, &format!("*{refusal}*"))
        || Masks::default().fit(tail(&words), tail(refusal))
    {
        return Vec::new();
    }
    vec![format!("refused as: {refusal}\n     AWS says: {words}")]
}

fn tail(text: &str) -> &str {
    text.find("Invalid State Machine Definition").map_or(text, |at| &text[at..])
}

/// Every recorded event must have its counterpart, chained the same. Where branches run side by side the
/// order between them is free, and the recorder left out or masked some of their events.
fn history(expected: &[Value], actual: &[Value], concurrent: bool, masks: &mut Masks) -> Vec<String> {
    let masked = expected.iter().any(|event| event.get("id").is_some_and(|id| id.as_array().is_some()));
    if masked {
        return masked_history(expected, actual, masks);
    }
    if expected.len() > 1 && number(&expected[0], "id") > number(&expected[1], "id") {
        // Asked for from its end.
        let turned = |events: &[Value]| events.iter().rev().cloned().collect::<Vec<_>>();
        return history(&turned(expected), &turned(actual), concurrent, masks);
    }
    let mut used = vec![false; actual.len()];
    let mut counterpart: BTreeMap<i64, i64> = [(0, 0)].into();
    for (at, event) in expected.iter().enumerate() {
        let id = number(event, "id");
        let previous = counterpart.get(&number(event, "previousEventId")).copied();
        let is_chained = |candidate: &Value| {
            let follows = number(candidate, "previousEventId");
            // A join follows any of its branches, and AWS itself has changed which.
            Some(follows) == previous
                || is_join(event) && (1..number(candidate, "id")).contains(&follows) && previous.is_some()
        };
        let candidates = if concurrent { 0..actual.len() } else { at..(at + 1).min(actual.len()) };
        let mut open = candidates.filter(|index| !used[*index] && is_chained(&actual[*index]));
        let Some(found) = open.find(|index| take(event, &actual[*index], masks).is_none()) else {
            let ours = actual.get(at).cloned().unwrap_or_default();
            let difference = take(event, &ours, &mut masks.clone()).unwrap_or_default();
            let counts = format!("of {}, ours has {}", expected.len(), actual.len());
            return vec![format!("event {id} ({counts}): {event}\n    ours: {ours}\n    {difference}")];
        };
        used[found] = true;
        counterpart.insert(id, number(&actual[found], "id"));
    }
    if actual.len() == expected.len() {
        Vec::new()
    } else {
        vec![format!("{} events, ours has {}: {:?}", expected.len(), actual.len(), actual.last())]
    }
}

/// Whether an event is where branches or iterations come together.
fn is_join(event: &Value) -> bool {
    let joins = ["MapStateSucceeded", "MapStateExited", "ParallelStateSucceeded", "ParallelStateExited"];
    event.get("type").and_then(Value::as_str).is_some_and(|name| joins.contains(&name))
}

fn masked_history(expected: &[Value], actual: &[Value], masks: &mut Masks) -> Vec<String> {
    let mut used = vec![false; actual.len()];
    let numbered = |event: &&Value| event.get("id").is_some_and(|id| id.as_i64().is_some());
    for event in expected.iter().filter(numbered) {
        let found = actual.iter().position(|candidate| number(candidate, "id") == number(event, "id"));
        let Some(at) = found else { return vec![format!("no counterpart of {event}")] };
        if let Some(difference) = take(event, &actual[at], masks) {
            return vec![format!("event {}: {difference}", number(event, "id"))];
        }
        if !is_join(event) && number(event, "previousEventId") != number(&actual[at], "previousEventId") {
            return vec![format!("event {event} follows ours {:?}", actual[at])];
        }
        used[at] = true;
    }
    for event in expected.iter().filter(|event| !numbered(event)) {
        let found = (0..actual.len()).find(|at| !used[*at] && take(event, &actual[*at], masks).is_none());
        let Some(at) = found else { return vec![format!("no counterpart of {event}")] };
        used[at] = true;
    }
    let left = actual.iter().zip(&used).filter(|(_, used)| !**used).map(|(event, _)| event);
    left.filter(|event| {
        !event.get("type").and_then(Value::as_str).unwrap_or_default().starts_with("Parallel")
    })
    .map(|event| format!("one too many: {event}"))
    .collect()
}

/// Why an event of ours is not the recorded one. If it is, its masks are known from then on.
fn take(expected: &Value, actual: &Value, masks: &mut Masks) -> Option<String> {
    let mut tried = masks.clone();
    let found = same_event(expected, actual, &mut tried);
    if found.is_none() {
        *masks = tried;
    }
    found
}

fn number(event: &Value, name: &str) -> i64 {
    event.get(name).and_then(Value::as_i64).unwrap_or(-1)
}

fn details(event: &Value) -> Option<&Value> {
    event.as_object()?.iter().find(|(name, _)| name.ends_with("EventDetails")).map(|(_, details)| details)
}

/// Type and details; ids and times apart.
fn same_event(expected: &Value, actual: &Value, masks: &mut Masks) -> Option<String> {
    if expected.get("type") != actual.get("type") {
        return Some(format!("type {:?}, ours {:?}", expected.get("type"), actual.get("type")));
    }
    let name = |event: &Value| {
        event.as_object().and_then(|event| event.keys().find(|name| name.ends_with("Details")).cloned())
    };
    if name(expected) != name(actual) {
        return Some(format!("details {:?}, ours {:?}", name(expected), name(actual)));
    }
    difference(details(expected)?, details(actual)?, "", false, masks)
}

/// The first place where two values differ. `partial`: only what is recorded counts.
fn difference(
    expected: &Value,
    actual: &Value,
    at: &str,
    partial: bool,
    masks: &mut Masks,
) -> Option<String> {
    let differs = || Some(format!("{at}: expected {expected}, ours {actual}"));
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted.iter().filter(|(name, _)| !EXTRAS.contains(&&***name)) {
                let Some(found) = found.get(name) else {
                    return Some(format!("{at}/{name}: missing, expected {wanted}"));
                };
                let here = format!("{at}/{name}");
                if let Some(difference) = difference(wanted, found, &here, partial, masks) {
                    return Some(difference);
                }
            }
            let may_be_extra = |name: &str| EXTRAS.contains(&name) || LATER.contains(&name);
            let extra = found.keys().find(|name| !wanted.contains_key(name) && !may_be_extra(name));
            extra.filter(|_| !partial).map(|name| format!("{at}/{name}: not expected: {actual}"))
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found.iter()).enumerate().find_map(|(index, (wanted, found))| {
                difference(wanted, found, &format!("{at}/{index}"), partial, masks)
            })
        }
        (Value::String(wanted), _) if is_any_value(wanted) => None,
        (Value::String(wanted), Value::String(found)) => {
            if masks.fit(wanted, found) {
                return None;
            }
            // JSON texts are the same whatever their spaces and the order of their keys.
            match (parse(wanted), parse(found)) {
                (_, Ok(Value::String(found))) if found == *wanted || masks.fit(wanted, &found) => None,
                (Ok(wanted), Ok(found)) if wanted.as_str().is_none() || found.as_str().is_none() => {
                    difference(&wanted, &found, at, partial, masks)
                }
                _ => differs(),
            }
        }
        // Shown parsed in the recording. Below the members that are JSON texts in the API, a number is no text.
        (_, Value::String(found)) if is_json_text(at) || is_nested(expected) => match parse(found) {
            Ok(found) if found.as_str().is_none() => difference(expected, &found, at, partial, masks),
            _ => differs(),
        },
        (Value::Number(wanted), Value::Number(found)) if wanted.compare(found).is_eq() => None,
        _ if expected == actual => None,
        _ => differs(),
    }
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

/// Whether what stands here is a JSON text in the API.
fn is_json_text(at: &str) -> bool {
    let texts = ["output", "input", "parameters", "result"];
    let parts: Vec<&str> = at.split('/').collect();
    matches!(parts.as_slice(), ["" | "outcome", name] if texts.contains(name))
        || matches!(parts.as_slice(), ["", "assignedVariables" | "inspectionData", _])
        || !at.starts_with(['/', 'o'])
}

fn pattern(text: &str, glob: &str) -> bool {
    let pieces: Vec<&str> = glob.split('*').collect();
    let [first, middle @ .., last] = pieces.as_slice() else { return text == glob };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}
