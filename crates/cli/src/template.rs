//! CloudFormation templates, as CDK and people write them: the state machines and activities in them.
//!
//! perdura creates none of the other resources. But definitions refer to them, so each reference becomes what it would
//! be if the resource were in our account and region: the ARN of a function, the URL of a queue. A value that cannot be
//! known, such as the output of another stack or a parameter without default, is an error with its place and how to
//! give the value.

mod condition;
mod machine;
mod resolve;
mod resource;
#[cfg(test)]
mod tests;

pub(crate) use machine::Found;

use crate::document;
use crate::run::input::machine_name;
use anyhow::{Result, anyhow};
use perdura_asl::diagnostic::Diagnostic;
use perdura_asl::json::Value;
use perdura_asl::node::Node;
use perdura_asl::read::{BYTES_MAX, doubled_members};
use perdura_asl::source::Source;
use perdura_engine::Arns;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The environment of a template.
#[derive(Debug)]
pub(crate) struct Given {
    /// The name of the file.
    pub(crate) file: String,
    /// The account and region of its resources.
    pub(crate) arns: Arns,
    /// The stack's name.
    pub(crate) stack: String,
    /// Values from the command line: parameters, and others that cannot be known.
    pub(crate) values: BTreeMap<String, String>,
}

impl Given {
    /// For a template of this file, which names its stack. Account, region and partition may be given as their pseudo
    /// parameters.
    pub(crate) fn new(mut arns: Arns, file: &Path, values: BTreeMap<String, String>) -> Self {
        for (name, part) in [
            ("AWS::AccountId", &mut arns.account),
            ("AWS::Region", &mut arns.region),
            ("AWS::Partition", &mut arns.partition),
        ] {
            if let Some(given) = values.get(name) {
                part.clone_from(given);
            }
        }
        let name = machine_name(file);
        let stack = name.strip_suffix(".template").unwrap_or(&name).to_owned();
        Self { file: file.display().to_string(), arns, stack, values }
    }
}

/// An error in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The place: `Resources/Orders/Properties/RoleArn`.
    pub(crate) path: String,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Problem {
    fn new(path: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), what: what.into(), remedy: remedy.into() }
    }

    /// The error for a value that only the user knows.
    fn unknown(path: &str, what: impl Into<String>, name: &str) -> Self {
        Self::new(path, what, format!("give its value with --parameter '{name}=VALUE'"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}; {}", self.path, self.what, self.remedy)
    }
}

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) value: Value,
    /// Duplicate members: the last counts.
    pub(crate) doubled: Vec<Diagnostic>,
}

/// The template in a text; `None`: it is something else, such as a definition.
pub(crate) fn parse(source: &Source) -> Result<Option<Template>> {
    // Every resource has a type with this prefix, and hardly any definition contains it.
    if !source.text.contains("AWS::") {
        return Ok(None);
    }
    let node = Node::parse_tagged(source, member).map_err(|found| document::refusal(source, &found))?;
    let is_template = node.get("Resources").is_some_and(|resources| resources.as_object().is_some());
    let template = || Template { value: node.to_value(), doubled: doubled_members(&node) };
    Ok((is_template && node.get("StartAt").is_none()).then(template))
}

/// The functions with a short form in YAML, including unsupported ones, which get an error message.
const SHORT: &[&str] = &[
    "And",
    "Base64",
    "Cidr",
    "Equals",
    "FindInMap",
    "GetAZs",
    "GetAtt",
    "If",
    "ImportValue",
    "Join",
    "Length",
    "Not",
    "Or",
    "Select",
    "Split",
    "Sub",
    "ToJsonString",
    "Transform",
];

/// The long form of a tag: `!Sub` is `Fn::Sub`.
fn member(tag: &str) -> Option<String> {
    match tag {
        "Ref" | "Condition" => Some(tag.to_owned()),
        _ => SHORT.contains(&tag).then(|| format!("Fn::{tag}")),
    }
}

/// The contents of a template; all mistakes are one error. Definition files are looked up beside it.
pub(crate) fn read(template: &Template, given: &Given, file: &Path) -> Result<Found> {
    let folder = file.parent().unwrap_or(Path::new(""));
    // Whatever is wrong with a file, the template cannot be used without it, and the problem names it.
    let beside = |name: &str| {
        let read = document::read_text(&folder.join(name), BYTES_MAX).ok()?;
        Some(read.text.to_string())
    };
    Found::read(&template.value, given, &beside).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
        anyhow!("{} cannot be used:{}", given.file, lines.concat())
    })
}
