//! A `StartAt` with its `States`, and the other fields of the machine itself.

use super::Reader;
use super::at::At;
use super::fields;
use super::outline::FlowKind;
use super::value::Range;
use crate::machine::{Flow, FlowIx, QueryLanguage, State, StateIx};
use crate::node::{Member, NodeKind, find};

/// The fields that only the whole machine has.
pub(super) struct Top {
    pub(super) comment: Option<String>,
    pub(super) timeout_seconds: Option<u64>,
    pub(super) language: QueryLanguage,
}

impl<'n> Reader<'n> {
    pub(super) fn top(&mut self) -> Top {
        let flow = self.outline.flow(crate::machine::Machine::TOP);
        let at = At::base("", flow.span);
        let members = flow.node.as_object().unwrap_or_default();
        let mut top = Top { comment: None, timeout_seconds: None, language: QueryLanguage::JsonPath };
        for member in members {
            let place = at.member(member);
            match &*member.key {
                "Comment" => top.comment = self.comment(&member.value, &place),
                "Version" => {
                    self.one_of(&member.value, &place, &["1.0"]);
                }
                "TimeoutSeconds" => {
                    let range = Range::integer(0, Range::LONGEST);
                    top.timeout_seconds = self.count(&member.value, &place, range);
                }
                "QueryLanguage" => top.language = self.query_language(member, &at),
                _ => {}
            }
        }
        top
    }

    /// `QueryLanguage`. An invalid value is reported and counts as JSONata, as on AWS, even a near misspelling.
    pub(super) fn query_language(&mut self, member: &'n Member, at: &At<'_>) -> QueryLanguage {
        self.one_of(&member.value, &at.member(member), &["JSONPath", "JSONata"]);
        if member.value.as_str().is_some_and(|said| &**said == "JSONPath") {
            QueryLanguage::JsonPath
        } else {
            QueryLanguage::Jsonata
        }
    }

    pub(super) fn flows(&mut self) -> Vec<Option<Flow>> {
        (0..self.outline.flows.len()).map(|ix| self.flow(FlowIx(ix as u32))).collect()
    }

    fn flow(&mut self, ix: FlowIx) -> Option<Flow> {
        let outline = self.outline;
        let flow = outline.flow(ix);
        let at = At::base(&flow.pointer, flow.span);
        let members = self.object(flow.node, &at)?;
        let known = match flow.kind {
            FlowKind::Machine => fields::MACHINE,
            FlowKind::Branch => fields::BRANCH,
            FlowKind::Processor => fields::PROCESSOR,
        };
        self.check_fields(known, members, &at, self.language);
        self.require(&["States", "StartAt"], members, &at);
        if flow.kind != FlowKind::Machine
            && let Some(member) = find(members, "Comment")
        {
            self.comment(&member.value, &at.member(member));
        }
        if let Some(member) = find(members, "States") {
            let place = at.member(member);
            if self.object(&member.value, &place).is_some_and(<[Member]>::is_empty) {
                self.findings.shape(&place, member.value.span, "Value cannot be empty");
            }
        }
        let member = find(members, "StartAt")?;
        if flow.states.is_empty() {
            self.string(&member.value, &at.member(member));
            return None;
        }
        let start_at = self.target(&member.value, &at.member(member), ix)?;
        self.starts[ix.0 as usize] = Some(start_at);
        Some(Flow { start_at, parent: flow.parent })
    }

    pub(super) fn states(&mut self, language: QueryLanguage) -> Vec<Option<State>> {
        let count = self.outline.states.len();
        (0..count)
            .map(|ix| {
                self.state = StateIx(ix as u32);
                self.language = language;
                self.state(language)
            })
            .collect()
    }

    /// The target of `Next` or a similar field.
    pub(super) fn next(&mut self, member: &'n Member, at: &At<'_>) -> Option<StateIx> {
        let target = self.target(&member.value, &at.member(member), self.here());
        if target.is_none() {
            self.lost[self.state.0 as usize] |= !matches!(member.value.kind, NodeKind::String(_));
        }
        let target = target?;
        self.edges[self.state.0 as usize].push(target);
        Some(target)
    }
}
