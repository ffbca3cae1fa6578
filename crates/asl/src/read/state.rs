//! One state: the fields that all kinds have, and the kinds with few more.

use super::Reader;
use super::at::At;
use super::fields::KINDS;
use super::paths::PathKind;
use super::template::{Sight, looks_evaluated};
use super::value::{Range, USE_JSONATA};
use crate::diagnostic::code;
use crate::json::Value;
use crate::machine::{Fail, Kind, Pass, QueryLanguage, Scalar, State, Transition, Wait};
use crate::node::{Member, Node, NodeKind, find};
use crate::timestamp;

/// The fields of the state that is being read.
#[derive(Clone, Copy)]
pub(super) struct Fields<'n, 'a> {
    pub(super) members: &'n [Member],
    pub(super) at: &'a At<'a>,
}

impl<'n> Fields<'n, '_> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Member> {
        find(self.members, name)
    }

    /// A field that only JSONPath states have. In others it was reported already.
    pub(super) fn get_in_jsonpath(&self, name: &str, language: QueryLanguage) -> Option<&'n Member> {
        self.get(name).filter(|_| language == QueryLanguage::JsonPath)
    }
}

impl<'n> Reader<'n> {
    /// Reads the current state of a machine in this language.
    pub(super) fn state(&mut self, machine_language: QueryLanguage) -> Option<State> {
        let outline = self.outline.state(self.state);
        let at = At::base(&outline.pointer, outline.name_span);
        self.lost[self.state.0 as usize] = true;
        self.variables.of_state.clear();
        let members = self.object(outline.node, &at)?;
        let fields = Fields { members, at: &at };
        self.language = self.state_language(&fields, machine_language);
        let kind = self.kind_name(&fields)?;
        self.lost[self.state.0 as usize] = false;
        self.check_state_fields(kind, members, &at, self.language);
        let comment =
            fields.get("Comment").and_then(|member| self.comment(&member.value, &at.member(member)));
        let input_path = self.selection(fields.get_in_jsonpath("InputPath", self.language), &at);
        let output_path = self.selection(fields.get_in_jsonpath("OutputPath", self.language), &at);
        let sight = match kind {
            "Task" | "Parallel" | "Map" => Sight::Result,
            _ => Sight::Input,
        };
        let assign = self.assign(fields.get("Assign"), &at, sight);
        let output = self.output(fields.get("Output"), &at, sight);
        let next = match kind {
            "Succeed" | "Fail" => {
                // A `Next` that is not allowed is reported once; its target still counts as reached.
                if let Some(member) = fields.get("Next") {
                    self.next(member, &at);
                }
                self.ends[self.state.0 as usize] = true;
                Some(Transition::End)
            }
            "Choice" => Some(Transition::End),
            _ => self.transition(&fields),
        };
        let kind = match kind {
            "Pass" => Some(self.pass(&fields)),
            "Wait" => self.wait(&fields).map(Kind::Wait),
            "Succeed" => Some(Kind::Succeed),
            "Fail" => Some(self.fail(&fields)),
            "Task" => self.task(&fields),
            "Choice" => self.choice(&fields),
            "Parallel" => self.parallel(&fields),
            _ => self.map(&fields),
        };
        Some(State {
            name: outline.name.clone(),
            pointer: outline.pointer.clone(),
            flow: outline.flow,
            comment,
            language: self.language,
            input_path,
            output_path,
            assign,
            output,
            variables: std::mem::take(&mut self.variables.of_state),
            next: next?,
            kind: kind?,
        })
    }

    fn state_language(&mut self, fields: &Fields<'n, '_>, machine_language: QueryLanguage) -> QueryLanguage {
        let Some(member) = fields.get("QueryLanguage") else { return machine_language };
        let language = self.query_language(member, fields.at);
        if machine_language == QueryLanguage::Jsonata && language == QueryLanguage::JsonPath {
            let message = "'QueryLanguage' can not be 'JSONPath' if set to 'JSONata' for whole state machine";
            self.findings
                .shape(fields.at, member.key_span, message)
                .hint("leave the machine JSONPath, and set JSONata on the states that use it");
        }
        language
    }

    fn kind_name(&mut self, fields: &Fields<'n, '_>) -> Option<&'static str> {
        if !self.require_one("Type", fields.members, fields.at) {
            return None;
        }
        let member = fields.get("Type")?;
        let place = fields.at.member(member);
        let text = self.string(&member.value, &place)?;
        let known = KINDS.into_iter().find(|kind| *kind == &**text);
        if known.is_none() {
            let message = format!("The field 'Type' should have one of these values: [{}]", KINDS.join(", "));
            let hint = self.guess(text, KINDS);
            self.findings.shape(&place, member.value.span, message).hint = hint;
        }
        known
    }

    /// `Next` or `End`.
    fn transition(&mut self, fields: &Fields<'n, '_>) -> Option<Transition> {
        let at = fields.at;
        let next = fields.get("Next");
        let is_end = match fields.get("End") {
            Some(member) => {
                let truth = self.boolean(&member.value, &at.member(member));
                self.lost[self.state.0 as usize] = truth.is_none();
                truth?
            }
            None => false,
        };
        match (next, is_end) {
            (Some(member), false) => self.next(member, at).map(Transition::Next),
            (None, true) => {
                self.ends[self.state.0 as usize] = true;
                Some(Transition::End)
            }
            (Some(member), true) => {
                self.at_most_one(&["Next", "End"], fields.members, at);
                self.ends[self.state.0 as usize] = true;
                self.next(member, at);
                None
            }
            (None, false) => {
                let message = "This object should have only one of the following fields: [Next, End]";
                self.findings.shape(at, at.span, message).hint(
                    "say where the state leads with `Next`, or that it is the last with `\"End\": true`",
                );
                self.lost[self.state.0 as usize] = true;
                None
            }
        }
    }

    /// `Output`, in JSONata only.
    pub(super) fn output(
        &mut self,
        member: Option<&'n Member>,
        at: &At<'_>,
        sight: Sight,
    ) -> Option<crate::machine::Template> {
        let member = member.filter(|_| self.language == QueryLanguage::Jsonata)?;
        Some(self.template(&member.value, &at.member(member), sight))
    }

    fn pass(&mut self, fields: &Fields<'n, '_>) -> Kind {
        let at = fields.at;
        let result = fields.get_in_jsonpath("Result", self.language).map(|member| {
            if holds_evaluated(&member.value) {
                let message = "Result is taken as it is, though it holds what looks like a path";
                self.findings
                    .warning(code::PASS_RESULT_IS_STATIC, &at.member(member), member.value.span, message)
                    .hint("use `Parameters` to evaluate paths");
            }
            self.warn_of_half_expressions(&member.value, &at.member(member));
            member.value.to_value()
        });
        let parameters = fields
            .get_in_jsonpath("Parameters", self.language)
            .and_then(|member| self.payload(&member.value, &at.member(member), Sight::Input));
        let result_path = self.placement(fields.get_in_jsonpath("ResultPath", self.language), at);
        Kind::Pass(Pass { result, parameters, result_path })
    }

    fn wait(&mut self, fields: &Fields<'n, '_>) -> Option<Wait> {
        let names: &[&str] = match self.language {
            QueryLanguage::JsonPath => &["SecondsPath", "Seconds", "TimestampPath", "Timestamp"],
            QueryLanguage::Jsonata => &["Seconds", "Timestamp"],
        };
        let member = self.exactly_one(names, fields.members, fields.at)?;
        let (node, place) = (&member.value, fields.at.member(member));
        if self.is_written_expression(node) {
            let scalar = self.written_expression(node, &place)?;
            return Some(if &*member.key == "Seconds" {
                Wait::Seconds(scalar)
            } else {
                Wait::Timestamp(scalar)
            });
        }
        match &*member.key {
            "Seconds" => {
                let range = Range::integer(0, Range::LONGEST);
                self.number_value(node, &place, range).map(|value| Wait::Seconds(Scalar::Literal(value)))
            }
            "Timestamp" => self.timestamp(node, &place).map(|value| Wait::Timestamp(Scalar::Literal(value))),
            "SecondsPath" => {
                self.path(node, &place, PathKind::Reference).map(|path| Wait::Seconds(Scalar::Path(path)))
            }
            _ => self.path(node, &place, PathKind::Reference).map(|path| Wait::Timestamp(Scalar::Path(path))),
        }
    }

    /// A timestamp that is written out.
    pub(super) fn timestamp(&mut self, node: &'n Node, at: &At<'_>) -> Option<Value> {
        let text = self.string(node, at)?;
        if timestamp::parse_ms(text).is_some() {
            return Some(node.to_value());
        }
        let hint = if text.starts_with("{%") {
            USE_JSONATA.to_owned()
        } else if looks_evaluated(text) {
            "to use a path, add `Path` to the field's name".to_owned()
        } else {
            "write it like 2030-01-31T12:00:00Z".to_owned()
        };
        self.findings.shape(at, node.span, "String does not match RFC3339 timestamp").hint(hint);
        None
    }

    fn fail(&mut self, fields: &Fields<'n, '_>) -> Kind {
        let error = self.fail_text(["Error", "ErrorPath"], fields);
        let cause = self.fail_text(["Cause", "CausePath"], fields);
        Kind::Fail(Fail { error, cause })
    }

    fn fail_text(&mut self, [name, path_name]: [&str; 2], fields: &Fields<'n, '_>) -> Option<Scalar> {
        let at = fields.at;
        if self.language == QueryLanguage::JsonPath {
            self.at_most_one(&[name, path_name], fields.members, at);
        }
        if let Some(member) = fields.get_in_jsonpath(path_name, self.language) {
            return self.path_or_intrinsic(&member.value, &at.member(member));
        }
        let member = fields.get(name)?;
        let (node, place) = (&member.value, at.member(member));
        if self.is_written_expression(node) {
            return self.written_expression(node, &place);
        }
        let text = self.string(node, &place)?;
        if self.language == QueryLanguage::JsonPath && looks_evaluated(text) {
            let message = format!("The value of '{name}' looks like a path, but it is taken as it is");
            let hint = format!("to evaluate it, name the field `{path_name}`");
            self.findings.warning(code::NO_PATH, &place, node.span, message).hint(hint);
        }
        self.warn_of_half_expression(node, &place);
        Some(Scalar::Literal(node.to_value()))
    }

    fn parallel(&mut self, fields: &Fields<'n, '_>) -> Option<Kind> {
        let at = fields.at;
        let has_branches = self.require(&["Branches"], fields.members, at);
        let arguments = self.arguments(fields);
        let after = self.after(fields);
        if !has_branches {
            return None;
        }
        let member = fields.get("Branches")?;
        self.filled_array(&member.value, &at.member(member))?;
        let branches = self.outline.state(self.state).inner.iter().map(|(_, flow)| *flow).collect();
        Some(Kind::Parallel(crate::machine::Parallel { branches, arguments, after: after? }))
    }

    /// `Parameters` or `Arguments`, whichever the language has.
    pub(super) fn arguments(&mut self, fields: &Fields<'n, '_>) -> Option<crate::machine::Template> {
        let name = match self.language {
            QueryLanguage::JsonPath => "Parameters",
            QueryLanguage::Jsonata => "Arguments",
        };
        let member = fields.get(name)?;
        self.payload(&member.value, &fields.at.member(member), Sight::Input)
    }
}

/// Whether a value contains something that was probably meant to be evaluated.
fn holds_evaluated(node: &Node) -> bool {
    match &node.kind {
        NodeKind::String(text) => looks_evaluated(text),
        NodeKind::Array(items) => items.iter().any(holds_evaluated),
        NodeKind::Object(members) => {
            members.iter().any(|member| member.key.ends_with(".$") || holds_evaluated(&member.value))
        }
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) => false,
    }
}
