//! Recorded answers have masked values; this says where ours differ from them.

use perdura_engine::asl::json::{Map, Value, parse};
use std::collections::BTreeMap;

/// Words that stand for anything of their kind.
const MASKS: [&str; 24] = [
    "timestamp",
    "datetime",
    "date",
    "start-date",
    "stop-date",
    "snf_role_arn",
    "activity_arn",
    "sqs_queue_url",
    "lambda_function_name",
    "entered-time",
    "start-time",
    "state_machine_arn",
    "execution_arn",
    "string",
    "RandomNumberGenerated",
    "generated-uuid",
    "state_machine_alias_name",
    "sfn_role_arn",
    "map_run_arn",
    "activity_name",
    "bucket-name",
    "bucket_name",
    "file-key",
    "someNonexistentBucketName",
];

/// The same inside of longer texts.
const MASKS_INSIDE: [&str; 9] = [
    "111111111111",
    "\"date\"",
    "\"timestamp\"",
    "lambda_function_name",
    "state_machine_alias_name",
    "log_group_name",
    "ssm_nonexistent_arn",
    "sm_nonexistent_arn",
    "invalid_execution_arn",
];

/// Members that AWS added after some recordings, or that only its SDK makes.
const EXTRAS: [&str; 6] = [
    "RedriveCount",
    "billingDetails",
    "SdkHttpMetadata",
    "SdkResponseMetadata",
    "encryptionConfiguration",
    "ResponseMetadata",
];

/// Whether a word is a mask, of which there may be several: `activity_arn_0`, `snf_role_arn_t1`, `<date>`.
fn is_mask(word: &str) -> bool {
    let inside = word.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    if inside.is_some_and(|inside| !inside.contains(['<', '>'])) {
        return true;
    }
    let numbered = |(stem, number): (&str, &str)| {
        number.trim_start_matches('t').parse::<u32>().is_ok() && MASKS.contains(&stem)
    };
    MASKS.contains(&word) || word.rsplit_once('_').is_some_and(numbered)
}

/// Members that AWS added after some recordings, and that others have.
const LATER: [&str; 1] = ["redriveCount"];

/// Compares the recorded outcome: the last event, or a description.
pub(crate) fn outcome(expected: &Value, answer: &Value) -> Vec<String> {
    let Some(end) = expected.get("final") else {
        return difference(expected, answer, "outcome", true).into_iter().collect();
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
        found.extend(difference(expected, &actual.unwrap_or_default(), &at, true));
    }
    found
}

/// Compares a whole answer: a history event by event, anything else member by member.
pub(crate) fn answer(expected: &Value, actual: &Value, concurrent: bool) -> Vec<String> {
    match (expected.get("events").and_then(Value::as_array), actual.get("events").and_then(Value::as_array)) {
        (Some(expected), Some(actual)) => history(expected, actual, concurrent),
        _ => difference(expected, actual, "", false).into_iter().collect(),
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
        difference(&wanted, &output, &format!("{case}"), false)
    });
    compared.flatten().collect()
}

/// Whether a message of ours is the recorded one.
#[allow(dead_code, reason = "cases through the wire need it, cases below the API do not")]
pub(crate) fn same_words(recorded: &str, ours: &str) -> bool {
    matches_mask(recorded, ours)
}

/// Compares the words of a refusal.
#[allow(dead_code, reason = "cases below the API need it, cases through the wire do not")]
pub(crate) fn refusal(recorded: &Value, refusal: &str) -> Vec<String> {
    let words =
        recorded.get("exception_value").or_else(|| recorded.get("message")).cloned().unwrap_or_default();
    let words = words.as_str().unwrap_or_default().to_owned();
    if words.is_empty()
        || pattern(&words, &format!("*{refusal}*"))
        || matches_mask(tail(&words), tail(refusal))
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
fn history(expected: &[Value], actual: &[Value], concurrent: bool) -> Vec<String> {
    let masked = expected.iter().any(|event| event.get("id").is_some_and(|id| id.as_array().is_some()));
    if masked {
        return masked_history(expected, actual);
    }
    if expected.len() > 1 && number(&expected[0], "id") > number(&expected[1], "id") {
        // Asked for from its end.
        let turned = |events: &[Value]| events.iter().rev().cloned().collect::<Vec<_>>();
        return history(&turned(expected), &turned(actual), concurrent);
    }
    let mut used = vec![false; actual.len()];
    let mut counterpart: BTreeMap<i64, i64> = [(0, 0)].into();
    for (at, event) in expected.iter().enumerate() {
        let id = number(event, "id");
        let previous = counterpart.get(&number(event, "previousEventId")).copied();
        let fits = |candidate: &Value| {
            same_event(event, candidate).is_none() && Some(number(candidate, "previousEventId")) == previous
        };
        let found = if concurrent {
            (0..actual.len()).find(|index| !used[*index] && fits(&actual[*index]))
        } else {
            actual.get(at).filter(|candidate| fits(candidate)).map(|_| at)
        };
        let Some(found) = found else {
            let ours = actual.get(at).cloned().unwrap_or_default();
            let difference = same_event(event, &ours).unwrap_or_default();
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

fn masked_history(expected: &[Value], actual: &[Value]) -> Vec<String> {
    let mut used = vec![false; actual.len()];
    let numbered = |event: &&Value| event.get("id").is_some_and(|id| id.as_i64().is_some());
    for event in expected.iter().filter(numbered) {
        let found = actual.iter().position(|candidate| number(candidate, "id") == number(event, "id"));
        let Some(at) = found else { return vec![format!("no counterpart of {event}")] };
        if let Some(difference) = same_event(event, &actual[at]) {
            return vec![format!("event {}: {difference}", number(event, "id"))];
        }
        if number(event, "previousEventId") != number(&actual[at], "previousEventId") {
            return vec![format!("event {event} follows ours {:?}", actual[at])];
        }
        used[at] = true;
    }
    for event in expected.iter().filter(|event| !numbered(event)) {
        let found = (0..actual.len()).find(|at| !used[*at] && same_event(event, &actual[*at]).is_none());
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

fn number(event: &Value, name: &str) -> i64 {
    event.get(name).and_then(Value::as_i64).unwrap_or(-1)
}

fn details(event: &Value) -> Option<&Value> {
    event.as_object()?.iter().find(|(name, _)| name.ends_with("EventDetails")).map(|(_, details)| details)
}

/// Type and details; ids and times apart.
fn same_event(expected: &Value, actual: &Value) -> Option<String> {
    if expected.get("type") != actual.get("type") {
        return Some(format!("type {:?}, ours {:?}", expected.get("type"), actual.get("type")));
    }
    let name = |event: &Value| {
        event.as_object().and_then(|event| event.keys().find(|name| name.ends_with("Details")).cloned())
    };
    if name(expected) != name(actual) {
        return Some(format!("details {:?}, ours {:?}", name(expected), name(actual)));
    }
    difference(details(expected)?, details(actual)?, "", false)
}

/// The first place where two values differ. `partial`: only what is recorded counts.
fn difference(expected: &Value, actual: &Value, at: &str, partial: bool) -> Option<String> {
    let differs = || Some(format!("{at}: expected {expected}, ours {actual}"));
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted.iter().filter(|(name, _)| !EXTRAS.contains(&&***name)) {
                let Some(found) = found.get(name) else {
                    return Some(format!("{at}/{name}: missing, expected {wanted}"));
                };
                if let Some(difference) = difference(wanted, found, &format!("{at}/{name}"), partial) {
                    return Some(difference);
                }
            }
            let may_be_extra = |name: &str| EXTRAS.contains(&name) || LATER.contains(&name);
            let extra = found.keys().find(|name| !wanted.contains_key(name) && !may_be_extra(name));
            extra.filter(|_| !partial).map(|name| format!("{at}/{name}: not expected: {actual}"))
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found.iter()).enumerate().find_map(|(index, (wanted, found))| {
                difference(wanted, found, &format!("{at}/{index}"), partial)
            })
        }
        (Value::String(wanted), _) if is_mask(wanted) => None,
        (Value::String(wanted), Value::String(found)) => {
            if matches_mask(wanted, found) {
                return None;
            }
            // JSON texts are the same whatever their spaces and the order of their keys.
            match (parse(wanted), parse(found)) {
                (_, Ok(Value::String(found))) if found == *wanted => None,
                (Ok(wanted), Ok(found)) if wanted.as_str().is_none() || found.as_str().is_none() => {
                    if wanted.as_str().is_some_and(is_mask) {
                        return None;
                    }
                    difference(&wanted, &found, at, partial)
                }
                _ => differs(),
            }
        }
        // Shown parsed in the recording.
        (_, Value::String(found)) => match parse(found) {
            Ok(found) if found.as_str().is_none() => difference(expected, &found, at, partial),
            _ => differs(),
        },
        (Value::Number(wanted), Value::Number(found)) if wanted.compare(found).is_eq() => None,
        _ if expected == actual => None,
        _ => differs(),
    }
}

/// `<…>` and AWS's masked account stand for anything; so do masks in quotes.
fn matches_mask(wanted: &str, found: &str) -> bool {
    if wanted == found {
        return true;
    }
    let mut glob = String::new();
    let mut rest = wanted;
    while let Some(open) = rest.find('<') {
        let Some(close) = closing(rest, open) else { break };
        glob.push_str(&rest[..open]);
        glob.push('*');
        rest = &rest[close + 1..];
    }
    glob.push_str(rest);
    for mask in MASKS_INSIDE {
        glob = glob.replace(mask, "*");
    }
    pattern(found, &glob)
}

/// Where the mask that begins here ends. Some hold another: `<<task_token>:1>`.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
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
