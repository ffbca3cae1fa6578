//! The allowed fields of each object.

use super::Reader;
use super::at::{At, quoted};
use super::guess;
use crate::machine::QueryLanguage;
use crate::node::{Member, find};

/// A field's name, and the one language that has it; `None`: both have.
pub(super) type Field = (&'static str, Option<QueryLanguage>);

const PATH: Option<QueryLanguage> = Some(QueryLanguage::JsonPath);
const ATA: Option<QueryLanguage> = Some(QueryLanguage::Jsonata);

/// The kinds of states, in AWS's order.
pub(super) const KINDS: [&str; 8] = ["Task", "Wait", "Pass", "Succeed", "Fail", "Choice", "Parallel", "Map"];

const COMMON: &[Field] = &[("Type", None), ("Comment", None), ("QueryLanguage", None)];

const PASS: &[Field] = &[
    ("InputPath", PATH),
    ("OutputPath", PATH),
    ("Result", PATH),
    ("ResultPath", PATH),
    ("Parameters", PATH),
    ("Output", ATA),
    ("Assign", None),
    ("Next", None),
    ("End", None),
];
const TASK: &[Field] = &[
    ("Resource", None),
    ("InputPath", PATH),
    ("OutputPath", PATH),
    ("ResultPath", PATH),
    ("Parameters", PATH),
    ("Arguments", ATA),
    ("Output", ATA),
    ("Assign", None),
    ("Credentials", None),
    ("ResultSelector", PATH),
    ("Retry", None),
    ("Catch", None),
    ("TimeoutSeconds", None),
    ("TimeoutSecondsPath", PATH),
    ("HeartbeatSeconds", None),
    ("HeartbeatSecondsPath", PATH),
    ("Next", None),
    ("End", None),
];
const WAIT: &[Field] = &[
    ("InputPath", PATH),
    ("OutputPath", PATH),
    ("Output", ATA),
    ("Assign", None),
    ("Seconds", None),
    ("SecondsPath", PATH),
    ("Timestamp", None),
    ("TimestampPath", PATH),
    ("Next", None),
    ("End", None),
];
const PARALLEL: &[Field] = &[
    ("Branches", None),
    ("InputPath", PATH),
    ("OutputPath", PATH),
    ("ResultPath", PATH),
    ("Parameters", PATH),
    ("Arguments", ATA),
    ("Output", ATA),
    ("Assign", None),
    ("ResultSelector", PATH),
    ("Retry", None),
    ("Catch", None),
    ("Next", None),
    ("End", None),
];
const MAP: &[Field] = &[
    ("ItemProcessor", None),
    ("Iterator", None),
    ("InputPath", PATH),
    ("OutputPath", PATH),
    ("ResultPath", PATH),
    ("Parameters", PATH),
    ("Output", ATA),
    ("Assign", None),
    ("ResultSelector", PATH),
    ("Retry", None),
    ("Catch", None),
    ("ItemsPath", PATH),
    ("Items", ATA),
    ("ItemSelector", None),
    ("ItemReader", None),
    ("ItemBatcher", None),
    ("ResultWriter", None),
    ("MaxConcurrency", None),
    ("MaxConcurrencyPath", PATH),
    ("ToleratedFailurePercentage", None),
    ("ToleratedFailurePercentagePath", PATH),
    ("ToleratedFailureCount", None),
    ("ToleratedFailureCountPath", PATH),
    ("Label", None),
    ("Next", None),
    ("End", None),
];
const CHOICE: &[Field] = &[
    ("Choices", None),
    ("Default", None),
    ("InputPath", PATH),
    ("OutputPath", PATH),
    ("Output", ATA),
    ("Assign", None),
];
const SUCCEED: &[Field] = &[("InputPath", PATH), ("OutputPath", PATH), ("Output", ATA)];
const FAIL: &[Field] = &[("Error", None), ("ErrorPath", PATH), ("Cause", None), ("CausePath", PATH)];

/// The fields of a kind of state, besides those that all have.
fn of_kind(kind: &str) -> Option<&'static [Field]> {
    Some(match kind {
        "Pass" => PASS,
        "Task" => TASK,
        "Wait" => WAIT,
        "Parallel" => PARALLEL,
        "Map" => MAP,
        "Choice" => CHOICE,
        "Succeed" => SUCCEED,
        "Fail" => FAIL,
        _ => return None,
    })
}

pub(super) const MACHINE: &[Field] = &[
    ("States", None),
    ("StartAt", None),
    ("Comment", None),
    ("QueryLanguage", None),
    ("TimeoutSeconds", None),
    ("Version", None),
];
pub(super) const BRANCH: &[Field] = &[("States", None), ("StartAt", None), ("Comment", None)];
pub(super) const PROCESSOR: &[Field] =
    &[("States", None), ("StartAt", None), ("Comment", None), ("ProcessorConfig", None)];
pub(super) const PROCESSOR_CONFIG: &[Field] = &[("Mode", None), ("ExecutionType", None)];
pub(super) const RETRIER: &[Field] = &[
    ("ErrorEquals", None),
    ("IntervalSeconds", None),
    ("MaxAttempts", None),
    ("BackoffRate", None),
    ("MaxDelaySeconds", None),
    ("JitterStrategy", None),
    ("Comment", None),
];
pub(super) const CATCHER: &[Field] = &[
    ("ErrorEquals", None),
    ("Next", None),
    ("ResultPath", PATH),
    ("Output", ATA),
    ("Assign", None),
    ("Comment", None),
];
pub(super) const ITEM_READER: &[Field] =
    &[("Resource", None), ("Parameters", PATH), ("Arguments", ATA), ("ReaderConfig", None)];
pub(super) const READER_CONFIG: &[Field] = &[
    ("InputType", None),
    ("Transformation", None),
    ("ManifestType", None),
    ("CSVDelimiter", None),
    ("CSVHeaderLocation", None),
    ("CSVHeaders", None),
    ("MaxItems", None),
    ("MaxItemsPath", PATH),
    ("ItemsPointer", None),
];
pub(super) const ITEM_BATCHER: &[Field] = &[
    ("MaxItemsPerBatch", None),
    ("MaxItemsPerBatchPath", PATH),
    ("MaxInputBytesPerBatch", None),
    ("MaxInputBytesPerBatchPath", PATH),
    ("BatchInput", None),
];
pub(super) const RESULT_WRITER: &[Field] =
    &[("Resource", None), ("Parameters", PATH), ("Arguments", ATA), ("WriterConfig", None)];
pub(super) const WRITER_CONFIG: &[Field] = &[("OutputType", None), ("Transformation", None)];

/// How a language is written.
pub(super) fn language_name(language: QueryLanguage) -> &'static str {
    match language {
        QueryLanguage::JsonPath => "JSONPath",
        QueryLanguage::Jsonata => "JSONata",
    }
}

impl<'n> Reader<'n> {
    /// Reports fields of a state that are not allowed.
    pub(super) fn check_state_fields(
        &mut self,
        kind: &str,
        members: &'n [Member],
        at: &At<'_>,
        language: QueryLanguage,
    ) {
        let own = of_kind(kind).unwrap_or_default();
        for member in members {
            let name = &*member.key;
            if let Some((_, only)) = COMMON.iter().chain(own).find(|field| field.0 == name) {
                self.check_language(member, at, *only, language);
                continue;
            }
            let has_it =
                |kind: &str| of_kind(kind).is_some_and(|own| own.iter().any(|field| field.0 == name));
            let homes: Vec<&str> = KINDS.into_iter().filter(|kind| has_it(kind)).collect();
            let hint = if homes.is_empty() {
                self.guess(name, COMMON.iter().chain(own).map(|field| field.0))
            } else {
                Some(format!("`{name}` belongs to {} states", listed(&homes)))
            };
            self.unknown_field(member, at, hint);
        }
    }

    /// Reports fields of another object that are not allowed.
    pub(super) fn check_fields(
        &mut self,
        known: &[Field],
        members: &'n [Member],
        at: &At<'_>,
        language: QueryLanguage,
    ) {
        for member in members {
            if let Some((_, only)) = known.iter().find(|field| field.0 == &*member.key) {
                self.check_language(member, at, *only, language);
                continue;
            }
            let hint = self.guess(&member.key, known.iter().map(|field| field.0));
            self.unknown_field(member, at, hint);
        }
    }

    pub(super) fn unknown_field(&mut self, member: &Member, at: &At<'_>, hint: Option<String>) {
        let message = format!("Field '{}' is not supported", quoted(&member.key));
        self.findings.shape(at, member.key_span, message).hint = hint;
    }

    pub(super) fn guess<'k>(&self, name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<String> {
        if self.findings.wants_hints() { guess::hint(name, known) } else { None }
    }

    /// A field of the other language.
    pub(super) fn check_language(
        &mut self,
        member: &Member,
        at: &At<'_>,
        only: Option<QueryLanguage>,
        language: QueryLanguage,
    ) {
        let Some(only) = only.filter(|only| *only != language) else { return };
        let (here, there) = (language_name(language), language_name(only));
        let message = format!(
            "The QueryLanguage is set to '{here}', but field '{}' is only supported for the '{there}' QueryLanguage",
            member.key
        );
        let hint = match (language, &*member.key) {
            (QueryLanguage::Jsonata, "Parameters" | "InputPath") => "in JSONata, use `Arguments`".to_owned(),
            (QueryLanguage::Jsonata, "Result" | "ResultPath" | "ResultSelector" | "OutputPath") => {
                "in JSONata, use `Output` and `Assign`".to_owned()
            }
            (QueryLanguage::Jsonata, "ItemsPath") => "in JSONata, use `Items`".to_owned(),
            (QueryLanguage::Jsonata, name) => match name.strip_suffix("Path") {
                Some(plain) => format!("in JSONata, `{plain}` itself takes an expression"),
                None => format!("`{name}` belongs to JSONPath states"),
            },
            (QueryLanguage::JsonPath, "Arguments") => "in JSONPath, use `Parameters`".to_owned(),
            (QueryLanguage::JsonPath, "Items") => "in JSONPath, use `ItemsPath`".to_owned(),
            (QueryLanguage::JsonPath, "Output") => {
                "in JSONPath, use `ResultSelector`, `ResultPath` and `OutputPath`; \
                 or set `\"QueryLanguage\": \"JSONata\"`"
                    .to_owned()
            }
            (QueryLanguage::JsonPath, _) => "set `\"QueryLanguage\": \"JSONata\"` to use it".to_owned(),
        };
        self.findings.shape(at, member.key_span, message).hint(hint);
    }

    /// Reports missing fields, all in one diagnostic.
    pub(super) fn require(&mut self, names: &[&str], members: &[Member], at: &At<'_>) -> bool {
        let missing: Vec<&str> = names.iter().copied().filter(|name| find(members, name).is_none()).collect();
        if !missing.is_empty() {
            let message = format!("These fields are required: [{}]", missing.join(", "));
            self.findings.shape(at, at.span, message);
        }
        missing.is_empty()
    }

    /// Reports a missing field, in AWS's words for a choice of forms.
    pub(super) fn require_one(&mut self, name: &str, members: &[Member], at: &At<'_>) -> bool {
        let there = find(members, name).is_some();
        if !there {
            self.findings.shape(at, at.span, format!("The field '{name}' is required"));
        }
        there
    }

    /// Reports if there is more than one of these. Returns those that exist.
    pub(super) fn at_most_one(
        &mut self,
        names: &[&str],
        members: &'n [Member],
        at: &At<'_>,
    ) -> Vec<&'n Member> {
        let found: Vec<&Member> = names.iter().filter_map(|name| find(members, name)).collect();
        if let [first, second, ..] = found.as_slice() {
            let message = format!("There should only be one of the following fields: [{}]", names.join(", "));
            self.findings
                .shape(at, second.key_span, message)
                .related(first.key_span, format!("`{}` is here", first.key));
        }
        found
    }

    /// Reports unless there is exactly one of these.
    pub(super) fn exactly_one(
        &mut self,
        names: &[&str],
        members: &'n [Member],
        at: &At<'_>,
    ) -> Option<&'n Member> {
        let found = self.at_most_one(names, members, at);
        if found.is_empty() {
            let message =
                format!("This object should have only one of the following fields: [{}]", names.join(", "));
            self.findings.shape(at, at.span, message);
        }
        found.first().copied()
    }
}

/// `A, B and C`
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
