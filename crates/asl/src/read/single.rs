//! A machine around one state.

use crate::node::{Member, Node, NodeKind};
use crate::source::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The state under `name`, and a Succeed state under each name that it leads to.
pub(super) fn machine_around(state: Node, name: &str) -> Node {
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
    node(NodeKind::Object(vec![
        member("StartAt".into(), text(name)),
        member("States".into(), node(NodeKind::Object(states))),
    ]))
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
