//! What masked values of a recording stand for.
//!
//! A mask stands for something of its kind: where AWS had a UUID, a name is another answer. A mask with a number stands
//! for one thing, wherever it is in a case, and two of a family stand for two things. So a list is in the right
//! order, a revision is the one that the update answered with, and ids that AWS keeps apart are apart here.

use perdura_engine::asl::json::{Value, parse};
use std::collections::BTreeMap;

/// Words that stand for anything of their kind.
const WORDS: [&str; 24] = [
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
const INSIDE: [&str; 11] = [
    "111111111111",
    "\"date\"",
    "\"timestamp\"",
    "activity_arn",
    "lambda_function_name",
    "state_machine_alias_name",
    "state_machine_arn",
    "log_group_name",
    "ssm_nonexistent_arn",
    "sm_nonexistent_arn",
    "invalid_execution_arn",
];

/// What errors of SDK integrations end with.
const ATTEMPTS: &str = " (SDK Attempt Count: 1)";

/// What the masks of a case stood for so far.
#[derive(Clone, Default)]
pub(crate) struct Masks {
    /// The labels that Maps of the case have.
    labels: Vec<String>,
    bound: BTreeMap<String, String>,
}

impl Masks {
    pub(crate) fn of(case: &Value) -> Self {
        let mut labels = Vec::new();
        let calls = case.get("calls").and_then(Value::as_array).unwrap_or_default();
        for call in calls {
            let definition = call.get("params").and_then(|params| params.get("definition")?.as_str());
            if let Some(machine) = definition.and_then(|text| parse(text).ok()) {
                collect_labels(&machine, &mut labels);
            }
        }
        Self { labels, bound: BTreeMap::new() }
    }

    /// Whether a text of ours is the recorded one; what its masks stand for is known from then on.
    pub(crate) fn fit(&mut self, recorded: &str, ours: &str) -> bool {
        // AWS tells it since the end of 2025, and most recordings are older.
        let ours = if recorded.contains(ATTEMPTS) { ours } else { ours.trim_end_matches(ATTEMPTS) };
        if recorded == ours {
            return true;
        }
        let pieces = pieces(recorded);
        if pieces.iter().all(|piece| matches!(piece, Piece::Literal(_))) {
            return false;
        }
        match self.walk(&pieces, ours) {
            Some(bound) => {
                self.bound = bound;
                true
            }
            None => false,
        }
    }

    fn walk(&self, pieces: &[Piece<'_>], text: &str) -> Option<BTreeMap<String, String>> {
        let Some((first, rest)) = pieces.split_first() else {
            return text.is_empty().then(|| self.bound.clone());
        };
        let mask = match first {
            Piece::Literal(literal) => return self.walk(rest, text.strip_prefix(literal)?),
            Piece::Mask(mask) => *mask,
        };
        if let Some(known) = self.bound.get(mask) {
            return self.walk(rest, text.strip_prefix(known.as_str())?);
        }
        let ends: Vec<usize> = match rest.first() {
            None => vec![text.len()],
            Some(Piece::Literal(literal)) => text.match_indices(literal).map(|(at, _)| at).collect(),
            Some(Piece::Mask(_)) => text.char_indices().map(|(at, _)| at).collect(),
        };
        ends.into_iter().filter(|end| self.may_be(mask, &text[..*end])).find_map(|end| {
            let mut with = self.clone();
            if is_numbered(mask) {
                with.bound.insert(mask.to_owned(), text[..end].to_owned());
            }
            with.walk(rest, &text[end..])
        })
    }

    /// Whether a mask that stood for nothing so far can stand for this.
    fn may_be(&self, mask: &str, text: &str) -> bool {
        let mut others = self.bound.iter().filter(|(other, _)| family(other) == family(mask));
        let is_new = !is_numbered(mask) || others.all(|(_, known)| known != text);
        is_new && self.is_kind(mask, text)
    }

    fn is_kind(&self, mask: &str, text: &str) -> bool {
        let is_uuid = || uuid(text);
        match mask {
            "111111111111" => text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit()),
            "date" | "start-time" | "entered-time" => {
                text.contains(['-', ':']) || text.parse::<f64>().is_ok()
            }
            "request_id" | "request-id" => text.len() >= 8 && !text.contains(char::is_whitespace),
            _ if mask.starts_with("MapRunArnPart0") => {
                is_uuid() || self.labels.iter().any(|label| label == text)
            }
            _ if mask.starts_with("MapRunArnPart1") || family(mask) == "uuid" => is_uuid(),
            _ if mask.contains("ExecArn_Part2") => is_uuid(),
            _ if family(mask) == "m-d5-of-message-body" => text.len() == 32,
            _ if family(mask) == "execution-arn" => text.starts_with("arn:"),
            _ => !text.is_empty(),
        }
    }
}

fn collect_labels(machine: &Value, labels: &mut Vec<String>) {
    match machine {
        Value::Object(members) => {
            labels.extend(members.get("Label").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| collect_labels(member, labels));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_labels(item, labels)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a word is a mask as a whole, of which there may be several: `activity_arn_0`, `snf_role_arn_t1`.
pub(crate) fn is_word(word: &str) -> bool {
    let numbered = |(stem, number): (&str, &str)| {
        number.trim_start_matches('t').parse::<u32>().is_ok() && WORDS.contains(&stem)
    };
    WORDS.contains(&word) || word.rsplit_once('_').is_some_and(numbered)
}

/// Whether a mask may stand for a value that is no text: a time, a number, something that the recorder left out.
pub(crate) fn is_any_value(word: &str) -> bool {
    let inside = word.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    is_word(word)
        || inside.is_some_and(|mask| matches!(mask, "date" | "omitted" | "start-time" | "entered-time"))
}

/// Whether the same mask always stands for the same thing.
fn is_numbered(mask: &str) -> bool {
    mask.ends_with("idx") || mask.rsplit_once(':').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
}

/// Masks of which no two stand for the same thing.
fn family(mask: &str) -> &str {
    mask.split([':', '_']).next().unwrap_or(mask).trim_end_matches(|end: char| end.is_ascii_digit())
}

fn uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.into_iter().all(hex)
}

enum Piece<'t> {
    Literal(&'t str),
    Mask(&'t str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((at, end, mask)) = next_mask(rest) {
        if at > 0 {
            found.push(Piece::Literal(&rest[..at]));
        }
        found.push(Piece::Mask(mask));
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        found.push(Piece::Literal(rest));
    }
    found
}

/// The first mask of a text: where it begins and ends, and its name.
fn next_mask(text: &str) -> Option<(usize, usize, &str)> {
    let words = INSIDE.iter().filter_map(|word| text.find(word).map(|at| (at, at + word.len(), *word)));
    let open = text.match_indices('<').find_map(|(open, _)| {
        let close = closing(text, open)?;
        let name = &text[open + 1..close];
        let is_name = !name.is_empty() && !name.contains([' ', '{', '"']);
        is_name.then(|| (open, close + 1, name))
    });
    // Of two that begin at the same place the longer one is meant.
    words.chain(open).min_by_key(|(at, end, _)| (*at, usize::MAX - end))
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

#[test]
fn a_numbered_mask_stands_for_one_thing() {
    let arn = "arn:<partition>:states:<region>:111111111111:execution:<ArnPart_0idx>:<ExecArnPart_1idx>";
    let ours = |name: &str| format!("arn:aws:states:us-east-1:000000000000:execution:orders:{name}");
    let mut masks = Masks::default();
    assert!(masks.fit(arn, &ours("first")));
    assert!(masks.fit(arn, &ours("first")));
    assert!(!masks.fit(arn, &ours("second")), "it stood for another");
    assert!(!masks.fit("<ExecArnPart_2idx>", "first"), "two masks stand for two things");
    assert!(masks.fit("<ExecArnPart_2idx>", "second"));
}

#[test]
fn a_mask_stands_for_something_of_its_kind() {
    let (one, two) = ("b5d8bd7e-0000-4000-8000-000000000000", "b5d8bd7e-0000-4000-8000-000000000001");
    let run = |label: &str| format!("mapRun:m/{label}:{one}");
    let recorded = "mapRun:m/<MapRunArnPart0_0idx>:<MapRunArnPart1_0idx>";
    let labelled = Masks { labels: vec!["Orders".into()], ..Masks::default() };
    assert!(!Masks::default().fit(recorded, &run("MapState")), "a state's name is no UUID");
    assert!(Masks::default().fit(recorded, &run(two)));
    assert!(labelled.clone().fit(recorded, &run("Orders")), "the definition has that label");
    let sync = "express:m:<SyncExecArn_Part1_0idx>:<SyncExecArn_Part2_0idx>";
    assert!(!Masks::default().fit(sync, &format!("express:m:{one}:{one}")), "AWS keeps both apart");
    assert!(Masks::default().fit(sync, &format!("express:m:{one}:{two}")));
    assert!(!Masks::default().fit("<uuid:1>", "orders"));
}
