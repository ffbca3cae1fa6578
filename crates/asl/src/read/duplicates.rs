//! Duplicate names in one object: most readers silently keep the last.

use super::at::{At, quoted};
use super::findings::Findings;
use crate::diagnostic::{Diagnostic, Severity, code};
use crate::node::{Member, Node, NodeKind};
use crate::source::Span;
use std::collections::BTreeMap;

/// Up to this many members a scan is faster than an index.
const SCANNED_MAX: usize = 12;

/// Warns of each second member of a name in a document that holds definitions, such as a template.
pub(super) fn warnings(root: &Node) -> Vec<Diagnostic> {
    let mut findings = Findings::new();
    let at = At::base("", Span::new(root.span.start, root.span.start + 1));
    walk(root, &at, Role::Other, &mut findings);
    let warning = |found| Diagnostic { severity: Severity::Warning, ..found };
    findings.finish().into_iter().map(warning).collect()
}

/// Reports each duplicate member in the whole tree. The outline reports duplicate states, because it also sees
/// duplicates between flows.
pub(super) fn check(root: &Node, findings: &mut Findings) {
    let at = At::base("", Span::new(root.span.start, root.span.start + 1));
    walk(root, &at, Role::Flow, findings);
}

/// The role of an object in the definition, as far as it is needed to find states.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Flow,
    States,
    State,
    Branches,
    Other,
}

impl Role {
    fn of_member(self, name: &str) -> Self {
        match (self, name) {
            (Self::Flow, "States") => Self::States,
            (Self::States, _) => Self::State,
            (Self::State, "Branches") => Self::Branches,
            (Self::State, "ItemProcessor" | "Iterator") => Self::Flow,
            _ => Self::Other,
        }
    }

    fn of_item(self) -> Self {
        if self == Self::Branches { Self::Flow } else { Self::Other }
    }
}

fn walk(node: &Node, at: &At<'_>, role: Role, findings: &mut Findings) {
    match &node.kind {
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::String(_) => {}
        NodeKind::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &at.item(index, item), role.of_item(), findings);
            }
        }
        NodeKind::Object(members) => {
            if role != Role::States {
                doubled(members, |first, second| {
                    let message = format!("Duplicate field '{}'", quoted(&second.key));
                    findings
                        .error(code::DUPLICATE_FIELD, at, second.key_span, message)
                        .related(first.key_span, "first written here");
                });
            }
            for member in members {
                walk(&member.value, &at.member(member), role.of_member(&member.key), findings);
            }
        }
    }
}

fn doubled<'n>(members: &'n [Member], mut found: impl FnMut(&'n Member, &'n Member)) {
    if members.len() <= SCANNED_MAX {
        for (at, member) in members.iter().enumerate() {
            if let Some(first) = members[..at].iter().find(|earlier| earlier.key == member.key) {
                found(first, member);
            }
        }
        return;
    }
    let mut seen: BTreeMap<&str, &Member> = BTreeMap::new();
    for member in members {
        match seen.get(&*member.key) {
            Some(first) => found(first, member),
            None => {
                seen.insert(&member.key, member);
            }
        }
    }
}
