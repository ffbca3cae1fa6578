//! The targets of transitions, and reachability.
//!
//! AWS's rules, as measured: every target exists in the same flow; the machine itself has an end (its branches and
//! processors need none); and every state has a transition to it. Of states that only lead to each other, only the
//! first is reported: correcting it corrects the others.

use super::Reader;
use super::at::{At, quoted};
use super::findings::Stage;
use super::outline::FlowKind;
use super::template::is_expression;
use crate::diagnostic::{Diagnostic, code};
use crate::machine::{FlowIx, StateIx};
use crate::node::Node;
use std::collections::BTreeSet;

impl<'n> Reader<'n> {
    /// The state of this name in a flow.
    pub(super) fn target(&mut self, node: &'n Node, at: &At<'_>, flow: FlowIx) -> Option<StateIx> {
        let name = self.string(node, at)?;
        let outline = self.outline;
        let flow = outline.flow(flow);
        if let Some(target) = flow.states.get(&**name) {
            return Some(*target);
        }
        let hint = if !self.findings.wants_hints() {
            None
        } else if is_expression(name) {
            Some("this field takes a name, not an expression".to_owned())
        } else if outline.states.iter().take(1_000).any(|state| state.name == name) {
            Some("a state of this name stands in another flow; transitions stay in their own".to_owned())
        } else {
            self.guess(name, flow.states.keys().copied().take(1_000))
        };
        // AWS says 'Next' for every field.
        let message = format!("Missing 'Next' target: {}", quoted(name));
        let diagnostic =
            Diagnostic::error(code::MISSING_TRANSITION_TARGET, message).at(at.pointer(), node.span);
        self.findings.push(Stage::Targets, diagnostic).hint = hint;
        None
    }

    pub(super) fn check_graph(&mut self) {
        let mut by_flow: Vec<Vec<StateIx>> = vec![Vec::new(); self.outline.flows.len()];
        for (ix, state) in self.outline.states.iter().enumerate() {
            by_flow[state.flow.0 as usize].push(StateIx(ix as u32));
        }
        for (ix, states) in by_flow.iter().enumerate() {
            let flow = self.outline.flow(FlowIx(ix as u32));
            let has_start = flow.node.get("StartAt").and_then(Node::as_str).is_some();
            if !has_start || states.iter().any(|state| self.lost[state.0 as usize]) {
                continue;
            }
            let has_end = states.iter().any(|state| self.ends[state.0 as usize]);
            if flow.kind == FlowKind::Machine && !states.is_empty() && !has_end {
                let message = "Workflow has no terminal state";
                let mut diagnostic = Diagnostic::error(code::MISSING_END_STATE, message).at("", flow.span);
                diagnostic.hint("give a state `\"End\": true`, or lead to a Succeed or Fail state");
                self.findings.push(Stage::Ending, diagnostic);
            } else {
                self.check_reach(FlowIx(ix as u32), states);
            }
        }
    }

    fn check_reach(&mut self, flow: FlowIx, states: &[StateIx]) {
        let mut reached = vec![false; states.len()];
        // The states of a flow are in order, but those of inner flows are between them.
        let position =
            |state: StateIx| states.binary_search(&state).expect("transitions stay within their flow");
        let start = self.starts[flow.0 as usize];
        self.reach(start, &mut reached, &position);
        let mut led_to: BTreeSet<StateIx> = start.into_iter().collect();
        for state in states {
            led_to.extend(self.edges[state.0 as usize].iter().filter(|target| *target != state));
        }
        let heads = states.iter().filter(|state| !led_to.contains(state));
        let heads: Vec<StateIx> = heads.copied().filter(|state| !reached[position(*state)]).collect();
        for head in heads {
            self.unreachable(head);
            self.reach(Some(head), &mut reached, &position);
        }
        // If the start does not exist, it may have been meant to lead to a ring of states.
        if start.is_none() {
            return;
        }
        for state in states {
            if !reached[position(*state)] {
                self.unreachable(*state);
                self.reach(Some(*state), &mut reached, &position);
            }
        }
    }

    fn reach(&self, from: Option<StateIx>, reached: &mut [bool], position: &impl Fn(StateIx) -> usize) {
        let mut pending: Vec<StateIx> = from.into_iter().collect();
        while let Some(state) = pending.pop() {
            if !std::mem::replace(&mut reached[position(state)], true) {
                pending.extend(&self.edges[state.0 as usize]);
            }
        }
    }

    fn unreachable(&mut self, ix: StateIx) {
        let state = self.outline.state(ix);
        if self.outline.flow(state.flow).states.get(&**state.name) != Some(&ix) {
            // Nothing can lead to the second of two states with one name; that was reported already.
            return;
        }
        let message = format!("State \"{}\" is not reachable.", quoted(state.name));
        let mut diagnostic = Diagnostic::error(code::MISSING_TRANSITION_TARGET, message)
            .at(state.pointer.clone(), state.name_span);
        diagnostic.hint("no other state leads here; lead to it with `Next`, or remove it");
        self.findings.push(Stage::Reach, diagnostic);
    }
}
