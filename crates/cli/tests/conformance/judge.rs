//! Holds our answers against the recorded ones.
//!
//! Where boto3 itself refused (`ParamValidationError`), AWS was never asked. Our server was, with the raw request:
//! it has to refuse it too, with a `ValidationException` or a `SerializationException`. A member that is null is one
//! that is missing, and may be missed as such.

use super::client::{Answer, Refusal};
use super::compare;
use super::mask::Masks;
use super::recording::{Case, Recorded, Source, is_refusal, text};
use super::replay::Replay;
use perdura_engine::asl::json::{Map, Value};

/// What was found wrong with a case, for its outcome and for its whole answers.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) outcome: Vec<String>,
    pub(crate) history: Vec<String>,
}

impl Verdict {
    pub(crate) fn passed(&self) -> bool {
        self.outcome.is_empty() && self.history.is_empty()
    }

    fn both(&mut self, words: &str) {
        self.outcome.push(words.to_owned());
        self.history.push(words.to_owned());
    }
}

pub(crate) fn judge(case: &Case, replay: &Replay) -> Verdict {
    let mut verdict = Verdict::default();
    let mut masks = Masks::of(&case.value);
    let recorded = case.recorded();
    let claimed = |at: usize| recorded.iter().any(|one| one.source == Source::Call(at));
    let mut refusals =
        replay.answers.iter().enumerate().filter(|(at, answer)| answer.is_err() && !claimed(*at));
    for one in &recorded {
        let ours = match one.source {
            Source::Call(at) => replay.answers.get(at),
            Source::Refusal => refusals.next().map(|(_, answer)| answer),
            Source::LeftOut => replay.left_out.get(one.key),
            Source::Histories => {
                let cases = one.answer.as_array().unwrap_or_default();
                let found = compare::cases(cases, replay.answers.iter().flatten());
                verdict.outcome.extend(found.clone());
                verdict.history.extend(found);
                continue;
            }
            Source::List => {
                if !was_listed(one.answer, &replay.answers) {
                    verdict.both(&format!("{}: no list is {}", one.key, one.answer));
                }
                continue;
            }
        };
        match (ours, is_refusal(one.answer)) {
            (Some(Ok(_)) | None, true) => {
                verdict.both(&format!("{}: AWS refused this, we took it: {}", one.key, one.answer));
            }
            (Some(Err(refusal)), true) => refused(&mut verdict, one, refusal),
            (Some(Err(refusal)), false) => verdict.both(&format!("{}: refused: {refusal:?}", one.key)),
            (None, false) => verdict.both(&format!("{}: there is no call to compare with", one.key)),
            (Some(Ok(answer)), false) => {
                let named =
                    |found: Vec<String>| found.into_iter().map(|found| format!("{}: {found}", one.key));
                if let Some(outcome) = one.outcome {
                    verdict.outcome.extend(named(compare::outcome(outcome, answer, &mut masks.clone())));
                }
                let found = compare::answer(one.answer, answer, case.has_concurrency(), &mut masks);
                verdict.history.extend(named(found));
            }
        }
    }
    if recorded.is_empty() {
        verdict.both("nothing was compared");
    }
    verdict
}

/// Compares the code, which is the outcome, and the words.
fn refused(verdict: &mut Verdict, one: &Recorded, ours: &Refusal) {
    let (code, words) = match (one.answer.get("Error"), one.answer) {
        (Some(error), _) => (text(error, "Code"), text(error, "Message")),
        (None, Value::String(raised)) => split(raised),
        (None, raised) => split(text(raised, "exception_value")),
    };
    let Refusal { code: our_code, message, status } = ours;
    if code == "ParamValidationError" {
        let fits = ["ValidationException", "SerializationException", "MissingRequiredParameter"];
        if !fits.contains(&our_code.as_str()) || *status != 400 {
            verdict.both(&format!("{}: boto3 says {words}, ours {ours:?}", one.key));
        }
        return;
    }
    if our_code != code || *status != 400 {
        verdict.outcome.push(format!("{}: AWS says {code}: {words}, ours {ours:?}", one.key));
    }
    if our_code != code || !compare::same_words(words, message) {
        verdict.history.push(format!("{}: {code}: {words}\n     ours: {our_code}: {message}", one.key));
    }
}

/// Code and words, out of what boto3 makes of them.
fn split(raised: &str) -> (&str, &str) {
    let known = || {
        let (code, rest) = raised.strip_prefix("An error occurred (")?.split_once(") when calling the ")?;
        Some((code, rest.split_once(" operation: ")?.1))
    };
    known().unwrap_or(("ParamValidationError", raised))
}

fn was_listed(wanted: &Value, answers: &[Answer]) -> bool {
    let members = answers.iter().flatten().filter_map(Value::as_object).flat_map(Map::values);
    members
        .filter(|list| list.as_array().is_some())
        .any(|list| compare::answer(wanted, list, false, &mut Masks::default()).is_empty())
}
