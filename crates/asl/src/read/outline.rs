//! The first pass: which flows and states there are, and in which order.
//!
//! A transition may lead forward, so every state has its index before any is parsed. The outline follows the text, a
//! state before the states inside it, and checks only names.

use super::at::{At, quoted};
use super::findings::Findings;
use crate::diagnostic::code;
use crate::machine::{FlowIx, MachineType, StateIx};
use crate::node::{Member, Node, find};
use crate::source::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a state's name may be, in characters.
const NAME_MAX: usize = 80;

pub(super) struct Outline<'n> {
    pub(super) flows: Vec<FlowOutline<'n>>,
    pub(super) states: Vec<StateOutline<'n>>,
}

/// The container of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowKind {
    Machine,
    Branch,
    Processor,
}

pub(super) struct FlowOutline<'n> {
    pub(super) kind: FlowKind,
    pub(super) node: &'n Node,
    pub(super) pointer: String,
    pub(super) span: Span,
    pub(super) parent: Option<StateIx>,
    pub(super) states: BTreeMap<&'n str, StateIx>,
    /// The type of its executions: for a distributed Map, by its `ExecutionType`.
    pub(super) machine_type: MachineType,
    /// It runs in executions of its own, which see no variables from outside.
    pub(super) is_distributed: bool,
}

pub(super) struct StateOutline<'n> {
    pub(super) name: &'n Arc<str>,
    pub(super) name_span: Span,
    pub(super) node: &'n Node,
    pub(super) pointer: String,
    pub(super) flow: FlowIx,
    /// The flows it contains, with the field that holds each.
    pub(super) inner: Vec<(&'n str, FlowIx)>,
}

impl<'n> Outline<'n> {
    pub(super) fn of(root: &'n Node, machine_type: MachineType, findings: &mut Findings) -> Self {
        let mut walk = Walk {
            outline: Self { flows: Vec::new(), states: Vec::new() },
            names: BTreeMap::new(),
            findings,
        };
        walk.flow(FlowOutline {
            kind: FlowKind::Machine,
            node: root,
            pointer: String::new(),
            span: Span::new(root.span.start, root.span.end.min(root.span.start + 1)),
            parent: None,
            states: BTreeMap::new(),
            machine_type,
            is_distributed: false,
        });
        walk.outline
    }

    pub(super) fn state(&self, ix: StateIx) -> &StateOutline<'n> {
        &self.states[ix.0 as usize]
    }

    pub(super) fn flow(&self, ix: FlowIx) -> &FlowOutline<'n> {
        &self.flows[ix.0 as usize]
    }
}

struct Walk<'n, 'f> {
    outline: Outline<'n>,
    /// Where each name was first seen, in the whole machine.
    names: BTreeMap<&'n str, Span>,
    findings: &'f mut Findings,
}

impl<'n> Walk<'n, '_> {
    fn flow(&mut self, flow: FlowOutline<'n>) -> FlowIx {
        let ix = FlowIx(self.outline.flows.len() as u32);
        let (node, machine_type) = (flow.node, flow.machine_type);
        let pointer = format!("{}/States", flow.pointer);
        self.outline.flows.push(flow);
        for member in node.get("States").and_then(Node::as_object).unwrap_or_default() {
            self.state(member, &pointer, ix, machine_type);
        }
        ix
    }

    fn state(&mut self, member: &'n Member, states: &str, flow: FlowIx, machine_type: MachineType) {
        let ix = StateIx(self.outline.states.len() as u32);
        let pointer = format!("{states}/{}", quoted(&member.key));
        self.name(member, &pointer);
        self.outline.flows[flow.0 as usize].states.entry(&member.key).or_insert(ix);
        self.outline.states.push(StateOutline {
            name: &member.key,
            name_span: member.key_span,
            node: &member.value,
            pointer: pointer.clone(),
            flow,
            inner: Vec::new(),
        });
        let fields = member.value.as_object().unwrap_or_default();
        let kind = find(fields, "Type").and_then(|kind| kind.value.as_str()).map(|kind| &**kind);
        let mut inner = Vec::new();
        for field in fields {
            match (kind, &*field.key) {
                (Some("Parallel"), "Branches") => {
                    for (index, node) in field.value.as_array().unwrap_or_default().iter().enumerate() {
                        let branch = self.flow(FlowOutline {
                            kind: FlowKind::Branch,
                            node,
                            pointer: format!("{pointer}/Branches[{index}]"),
                            span: Span::new(node.span.start, node.span.end.min(node.span.start + 1)),
                            parent: Some(ix),
                            states: BTreeMap::new(),
                            machine_type,
                            is_distributed: false,
                        });
                        inner.push((&*field.key, branch));
                    }
                }
                (Some("Map"), name @ ("ItemProcessor" | "Iterator")) => {
                    let config = field.value.get("ProcessorConfig");
                    let setting = |name| config.and_then(|config| config.get(name)).and_then(Node::as_str);
                    let is_distributed = setting("Mode").is_some_and(|mode| &**mode == "DISTRIBUTED");
                    let is_express = setting("ExecutionType").is_some_and(|kind| &**kind == "EXPRESS");
                    let processor = self.flow(FlowOutline {
                        kind: FlowKind::Processor,
                        node: &field.value,
                        pointer: format!("{pointer}/{name}"),
                        span: field.key_span,
                        parent: Some(ix),
                        states: BTreeMap::new(),
                        machine_type: match (is_distributed, is_express) {
                            (false, _) => machine_type,
                            (true, true) => MachineType::Express,
                            (true, false) => MachineType::Standard,
                        },
                        is_distributed,
                    });
                    inner.push((&*field.key, processor));
                }
                _ => {}
            }
        }
        self.outline.states[ix.0 as usize].inner = inner;
    }

    fn name(&mut self, member: &'n Member, pointer: &str) {
        let (name, span) = (&*member.key, member.key_span);
        let at = At::base(pointer, span);
        if name.is_empty() {
            self.findings.error(code::INVALID_STATE_NAME, &at, span, "The state name is empty");
        } else if name.chars().nth(NAME_MAX).is_some() {
            let message = format!(
                "The state name '{}' exceeds the {NAME_MAX}-character limit allowed by the service",
                quoted(name)
            );
            self.findings.error(code::INVALID_STATE_NAME, &at, span, message);
        }
        if let Some(first) = self.names.get(name).copied() {
            let message = format!("Duplicate State name: {}", quoted(name));
            self.findings
                .error(code::DUPLICATE_STATE_NAME, &at, span, message)
                .related(first, "first used here")
                .hint("state names are unique in the whole machine, branches and processors included");
        } else {
            self.names.insert(name, span);
        }
    }
}
