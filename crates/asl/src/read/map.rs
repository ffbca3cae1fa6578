//! Map: the processor of each item, its mode, and the items.

use super::at::{At, quoted};
use super::fields;
use super::paths::PathKind;
use super::state::Fields;
use super::template::Sight;
use super::value::Range;
use super::{Reader, Unread};
use crate::diagnostic::code;
use crate::machine::{Items, Kind, MachineType, MapMode, MapState, QueryLanguage, Selection, Template};
use crate::node::{Member, NodeKind, find};
use std::sync::Arc;

pub(super) const COUNT: Range = Range::integer(0, i64::MAX);
const PERCENTAGE: Range = Range::number(0.0, 100.0);
/// How long a label may be, in characters.
const LABEL_MAX: usize = 40;
/// Numbers of a Map come from its input or from variables.
pub(super) const PATH: PathKind = PathKind::ReferenceInInput;

impl<'n> Reader<'n> {
    pub(super) fn map(&mut self, fields: &Fields<'n, '_>) -> Option<Kind> {
        let (at, members) = (fields.at, fields.members);
        let processor = self.exactly_one(&["ItemProcessor", "Iterator"], members, at);
        let mode = processor.and_then(|member| self.mode(member, fields));
        let items = self.items(fields);
        let selector = self.selector(fields);
        let reader = self.part(fields.get("ItemReader"), at, Self::item_reader);
        let batcher =
            self.part(fields.get("ItemBatcher"), at, |reader, members, at| Ok(reader.batcher(members, at)));
        let writer = self.part(fields.get("ResultWriter"), at, Self::writer);
        let max_concurrency = self.scalar(["MaxConcurrency", "MaxConcurrencyPath"], members, at, COUNT, PATH);
        let tolerated_count =
            self.scalar(["ToleratedFailureCount", "ToleratedFailureCountPath"], members, at, COUNT, PATH);
        let tolerated_percentage = self.scalar(
            ["ToleratedFailurePercentage", "ToleratedFailurePercentagePath"],
            members,
            at,
            PERCENTAGE,
            PATH,
        );
        let after = self.after(fields);
        let (mode, processor) = (mode?, processor?);
        if mode == MapMode::Inline {
            self.check_inline(fields);
        }
        let inner = &self.outline.state(self.state).inner;
        let processor = inner.iter().find(|(field, _)| *field == &*processor.key).map(|(_, flow)| *flow)?;
        Some(Kind::Map(Box::new(MapState {
            processor,
            mode,
            items,
            reader: reader.ok()?,
            selector,
            batcher: batcher.ok()?,
            writer: writer.ok()?,
            max_concurrency,
            tolerated_count,
            tolerated_percentage,
            after: after?,
        })))
    }

    /// A part that may be absent.
    fn part<T>(
        &mut self,
        member: Option<&'n Member>,
        at: &At<'_>,
        read: impl Fn(&mut Self, &'n [Member], &At<'_>) -> Result<T, Unread>,
    ) -> Result<Option<T>, Unread> {
        let Some(member) = member else { return Ok(None) };
        let place = at.member(member);
        let members = self.object(&member.value, &place).ok_or(Unread)?;
        read(self, members, &place).map(Some)
    }

    /// `ProcessorConfig`, and the `Label` beside the processor.
    fn mode(&mut self, processor: &'n Member, state: &Fields<'n, '_>) -> Option<MapMode> {
        let at = state.at.member(processor);
        let label = state.get("Label").map(|member| self.label(member, state.at));
        let Some(member) = processor.value.as_object().and_then(|members| find(members, "ProcessorConfig"))
        else {
            return Some(MapMode::Inline);
        };
        let place = at.member(member);
        let members = self.object(&member.value, &place)?;
        self.check_fields(fields::PROCESSOR_CONFIG, members, &place, self.language);
        let mode = match find(members, "Mode") {
            Some(member) => self.one_of(&member.value, &place.member(member), &["INLINE", "DISTRIBUTED"])?,
            None => "INLINE",
        };
        let execution_type = find(members, "ExecutionType");
        if mode == "INLINE" {
            if let Some(member) = execution_type {
                let hint = "`ExecutionType` belongs to `\"Mode\": \"DISTRIBUTED\"`".to_owned();
                self.unknown_field(member, &place, Some(hint));
            }
            return Some(MapMode::Inline);
        }
        let outer = self.outline.flow(self.here()).machine_type;
        if outer == MachineType::Express
            && let Some(member) = find(members, "Mode")
        {
            let message =
                "The field 'Mode' with value 'DISTRIBUTED' is not supported inside 'EXPRESS' state machines";
            self.findings.shape(&place.member(member), member.value.span, message);
        }
        if !self.require(&["ExecutionType"], members, &place) {
            return None;
        }
        let member = execution_type?;
        let execution_type =
            match self.one_of(&member.value, &place.member(member), &["STANDARD", "EXPRESS"])? {
                "EXPRESS" => MachineType::Express,
                _ => MachineType::Standard,
            };
        let label = match label {
            Some(label) => Some(label?),
            None => None,
        };
        Some(MapMode::Distributed { execution_type, label })
    }

    fn label(&mut self, member: &'n Member, at: &At<'_>) -> Option<Arc<str>> {
        let (node, place) = (&member.value, at.member(member));
        let label = self.string(node, &place)?;
        let is_forbidden =
            |c: char| c.is_whitespace() || c.is_control() || "?*<>{}[]\"#%\\^|~`$&,;:/".contains(c);
        let message = if label.is_empty() {
            "The label is empty".to_owned()
        } else if label.chars().nth(LABEL_MAX).is_some() {
            format!(
                "The label '{}' exceeds the {LABEL_MAX}-character limit allowed by the service",
                quoted(label)
            )
        } else if let Some(forbidden) = label.chars().find(|c| is_forbidden(*c)) {
            format!("The label '{label}' contains {forbidden:?}, which a label may not contain")
        } else if let Some(first) = self.labels.get(&**label).copied() {
            let message = format!("Duplicate Label name: {label}");
            self.findings
                .error(code::DUPLICATE_LABEL_NAME, &place, node.span, message)
                .related(first, "first used here");
            return None;
        } else {
            self.labels.insert(label, node.span);
            return Some(label.clone());
        };
        self.findings.error(code::INVALID_LABEL_NAME, &place, node.span, message);
        None
    }

    /// Reports fields that only child executions have.
    fn check_inline(&mut self, state: &Fields<'n, '_>) {
        for name in ["ItemReader", "ItemBatcher", "ResultWriter"] {
            if let Some(member) = state.get(name) {
                let hint = format!("`{name}` needs `\"ProcessorConfig\": {{\"Mode\": \"DISTRIBUTED\", …}}`");
                self.unknown_field(member, state.at, Some(hint));
            }
        }
    }

    fn items(&mut self, state: &Fields<'n, '_>) -> Items {
        match self.language {
            QueryLanguage::JsonPath => {
                let Some(member) = state.get("ItemsPath") else { return Items::Path(Selection::Whole) };
                if member.value.as_str().is_some_and(|text| &**text == "$") {
                    return Items::Path(Selection::Whole);
                }
                let path = self.path(&member.value, &state.at.member(member), PathKind::Reference);
                Items::Path(path.map_or(Selection::Whole, Selection::Path))
            }
            QueryLanguage::Jsonata => {
                let Some(member) = state.get("Items") else { return Items::Path(Selection::Whole) };
                let (node, place) = (&member.value, state.at.member(member));
                let is_fit = match &node.kind {
                    NodeKind::Array(_) | NodeKind::Object(_) => true,
                    NodeKind::String(text) => text.starts_with("{%"),
                    NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) => false,
                };
                if !is_fit {
                    self.wrong_type(node, &place, "[ARRAY]");
                }
                Items::Template(self.template(node, &place, Sight::Input))
            }
        }
    }

    fn selector(&mut self, state: &Fields<'n, '_>) -> Option<Template> {
        let names: &[&str] = match self.language {
            QueryLanguage::JsonPath => &["ItemSelector", "Parameters"],
            QueryLanguage::Jsonata => &["ItemSelector"],
        };
        let found = self.at_most_one(names, state.members, state.at);
        let member = found.first()?;
        self.payload(&member.value, &state.at.member(member), Sight::Input)
    }
}
