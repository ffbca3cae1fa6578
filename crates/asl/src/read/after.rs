//! The handling of results and errors: `ResultSelector`, `ResultPath`, `Retry`, `Catch`.

use super::Reader;
use super::at::{At, quoted};
use super::fields;
use super::guess;
use super::state::Fields;
use super::template::Sight;
use super::value::Range;
use crate::diagnostic::code;
use crate::json::Number;
use crate::machine::{After, Catcher, QueryLanguage, Retrier};
use crate::node::{Member, Node, find};
use std::sync::Arc;

/// The longest pause between attempts, in seconds: a leap year.
const LONGEST_DELAY: i64 = 31_622_400;

/// The names that the States Language itself gives to errors.
const ERROR_NAMES: [&str; 16] = [
    "States.ALL",
    "States.HeartbeatTimeout",
    "States.Timeout",
    "States.TaskFailed",
    "States.Permissions",
    "States.ResultPathMatchFailure",
    "States.ParameterPathFailure",
    "States.QueryEvaluationError",
    "States.BranchFailed",
    "States.NoChoiceMatched",
    "States.IntrinsicFailure",
    "States.ExceedToleratedFailureThreshold",
    "States.ItemReaderFailed",
    "States.ResultWriterFailed",
    "States.DataLimitExceeded",
    "States.Runtime",
];

impl<'n> Reader<'n> {
    pub(super) fn after(&mut self, fields: &Fields<'n, '_>) -> Option<After> {
        let at = fields.at;
        let result_selector = fields
            .get_in_jsonpath("ResultSelector", self.language)
            .and_then(|member| self.payload(&member.value, &at.member(member), Sight::Input));
        let result_path = self.placement(fields.get_in_jsonpath("ResultPath", self.language), at);
        let retry = self.entries(fields.get("Retry"), at, Self::retrier);
        let catch = self.entries(fields.get("Catch"), at, Self::catcher);
        Some(After { result_selector, result_path, retry: retry?, catch: catch? })
    }

    /// Each entry of `Retry` or `Catch`; `None` if one of them could not be read.
    fn entries<T>(
        &mut self,
        member: Option<&'n Member>,
        at: &At<'_>,
        read: impl Fn(&mut Self, &'n [Member], &At<'_>, bool) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Some(member) = member else { return Some(Vec::new()) };
        let place = at.member(member);
        let items = self.array(&member.value, &place)?;
        let entries: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let place = place.item(index, item);
                let members = self.object(item, &place)?;
                read(self, members, &place, index + 1 == items.len())
            })
            .collect();
        entries.into_iter().collect()
    }

    fn retrier(&mut self, members: &'n [Member], at: &At<'_>, is_last: bool) -> Option<Retrier> {
        self.check_fields(fields::RETRIER, members, at, self.language);
        let has_errors = self.require(&["ErrorEquals"], members, at);
        let errors = self.errors(find(members, "ErrorEquals"), at, is_last);
        let mut retrier = Retrier {
            errors: Vec::new(),
            interval_seconds: 1,
            max_attempts: 3,
            backoff_rate: 2.0,
            max_delay_seconds: None,
            full_jitter: false,
        };
        for member in members {
            let (node, place) = (&member.value, at.member(member));
            match &*member.key {
                "IntervalSeconds" => {
                    let range = Range::integer(0, Range::LONGEST);
                    retrier.interval_seconds = self.count(node, &place, range).unwrap_or_default();
                }
                "MaxAttempts" => {
                    let range = Range::integer(0, Range::LONGEST);
                    retrier.max_attempts = self.count(node, &place, range).unwrap_or_default();
                }
                "MaxDelaySeconds" => {
                    retrier.max_delay_seconds = self.count(node, &place, Range::integer(1, LONGEST_DELAY));
                }
                "BackoffRate" => {
                    let rate = self.number(node, &place, Range::number(1.0, f64::MAX));
                    retrier.backoff_rate = rate.map_or(2.0, Number::as_f64);
                }
                "JitterStrategy" => {
                    retrier.full_jitter = self.one_of(node, &place, &["NONE", "FULL"]) == Some("FULL");
                }
                "Comment" => {
                    self.comment(node, &place);
                }
                _ => {}
            }
        }
        if has_errors { Some(Retrier { errors: errors?, ..retrier }) } else { None }
    }

    fn catcher(&mut self, members: &'n [Member], at: &At<'_>, is_last: bool) -> Option<Catcher> {
        self.check_fields(fields::CATCHER, members, at, self.language);
        self.require(&["ErrorEquals", "Next"], members, at);
        let errors = self.errors(find(members, "ErrorEquals"), at, is_last);
        if let Some(member) = find(members, "Comment") {
            self.comment(&member.value, &at.member(member));
        }
        let next = find(members, "Next").and_then(|member| self.next(member, at));
        let result_path = find(members, "ResultPath").filter(|_| self.language == QueryLanguage::JsonPath);
        let result_path = self.placement(result_path, at);
        let output = self.output(find(members, "Output"), at, Sight::Error);
        let assign = self.assign(find(members, "Assign"), at, Sight::Error);
        Some(Catcher { errors: errors?, next: next?, result_path, output, assign })
    }

    fn errors(&mut self, member: Option<&'n Member>, at: &At<'_>, is_last: bool) -> Option<Vec<Arc<str>>> {
        let member = member?;
        let place = at.member(member);
        let items = self.filled_array(&member.value, &place)?;
        let names: Vec<Option<Arc<str>>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let place = place.item(index, item);
                let name = self.string(item, &place)?;
                self.check_error_name(item, name, &place);
                Some(name.clone())
            })
            .collect();
        let names: Vec<Arc<str>> = names.into_iter().collect::<Option<_>>()?;
        let all = names.iter().position(|name| &**name == "States.ALL");
        if let Some(all) = all.filter(|_| names.len() > 1 || !is_last) {
            let message = "States.ALL must appear alone and at end of list";
            self.findings.shape(&place, items[all].span, message);
        }
        Some(names)
    }

    fn check_error_name(&mut self, node: &Node, name: &str, at: &At<'_>) {
        if name == "States.Runtime" {
            let message = "States.Runtime is never retried and never caught";
            self.findings.warning(code::UNMATCHABLE_ERROR_NAME, at, node.span, message);
        } else if name.starts_with("States.")
            && !name.starts_with("States.Http.")
            && !ERROR_NAMES.contains(&name)
        {
            let message = format!("No error is called '{}'", quoted(name));
            let known = ERROR_NAMES.into_iter().filter_map(|known| known.strip_prefix("States."));
            let hint = match guess::nearest(&name["States.".len()..], known) {
                Some(nearest) => format!("did you mean `States.{nearest}`?"),
                None => "names that begin with `States.` belong to the States Language".to_owned(),
            };
            self.findings.warning(code::UNMATCHABLE_ERROR_NAME, at, node.span, message).hint(hint);
        }
    }
}
