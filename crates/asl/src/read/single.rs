//! A machine around one state.

use crate::machine::QueryLanguage;
use crate::node::{Member, Node, NodeKind};
use crate::source::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The state under `name`, and a Succeed state under each name that it leads to, in a machine of this language.
pub(super) fn machine_around(state: Node, name: &str, language: QueryLanguage) -> Node {
    let span = Span::new(state.span.start, state.span.end.min(state.span.start + 1));
    let mut targets = BTreeSet::new();
    targets_of(&state, &mut targets);
    targets.remove(name);
    let node = |kind| Node { span, kind };
    let member = |key: Arc<str>, value| Member { key, key_span: span, value };
    let text = |text: &str| node(NodeKind::String(text.into()));
    let mut states = vec![Member { key: name.into(), key_span: span, value: state }];
    states.extend(targets.into_iter().map(|target| {
        let end = node(NodeKind::Object(vec![member("Type".into(), text("Succeed"))]));
        member(target, end)
    }));
    let mut machine =
        vec![member("StartAt".into(), text(name)), member("States".into(), node(NodeKind::Object(states)))];
    if language == QueryLanguage::Jsonata {
        machine.push(member("QueryLanguage".into(), text("JSONata")));
    }
    node(NodeKind::Object(machine))
}

/// The state of this name, wherever in the machine it stands.
pub(super) fn state_of<'n>(machine: &'n Node, name: &str) -> Option<&'n Node> {
    let mut flows = vec![machine];
    while let Some(flow) = flows.pop() {
        for member in flow.get("States").and_then(Node::as_object).unwrap_or_default() {
            if &*member.key == name {
                return Some(&member.value);
            }
            flows.extend(member.value.get("Branches").and_then(Node::as_array).unwrap_or_default());
            flows.extend(["ItemProcessor", "Iterator"].iter().filter_map(|field| member.value.get(field)));
        }
    }
    None
}

fn targets_of(state: &Node, targets: &mut BTreeSet<Arc<str>>) {
    for field in ["Next", "Default"] {
        targets.extend(state.get(field).and_then(Node::as_str).cloned());
    }
    for field in ["Choices", "Catch"] {
        for entry in state.get(field).and_then(Node::as_array).unwrap_or_default() {
            targets.extend(entry.get("Next").and_then(Node::as_str).cloned());
        }
    }
}
