//! The part of a path that needs no evaluator.
//!
//! Most expressions of a workflow are paths such as `$states.input.order.items[0].id`, or begin with one. As long as
//! each step leads from one object to one member, it is a lookup in the given value: nothing is built, and every digit
//! of every number stays. At an array, JSONata maps over its elements; there the walk stops and the evaluator
//! continues.

use super::ast::{Ast, Kind, Node, NodeId, Stage};
use crate::json::Value;
use std::sync::Arc;

/// The plain steps at the beginning of a path.
#[derive(Debug)]
pub(super) struct Plain {
    /// The variable it begins with.
    pub(super) root: Arc<str>,
    /// Indices right after the variable.
    pub(super) indices: Vec<f64>,
    /// The steps that follow.
    pub(super) steps: Vec<Step>,
}

/// A name, and the indices after it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: Arc<str>,
    pub(super) indices: Vec<f64>,
}

/// The result of a walk.
pub(super) struct Walked<'v> {
    /// How many steps were taken.
    pub(super) steps: usize,
    /// Its value; `None` is undefined, whatever follows.
    pub(super) value: Option<&'v Value>,
}

impl Plain {
    /// The plain beginning of a node that is a path, if it has one.
    pub(super) fn of(ast: &Ast, id: NodeId) -> Option<Self> {
        let Kind::Path { steps, .. } = &ast.node(id).kind else { return None };
        let (first, rest) = steps.split_first()?;
        let first = ast.node(*first);
        let Kind::Variable { name, .. } = &first.kind else { return None };
        if !is_bare(first) || !first.stages.is_empty() {
            return None;
        }
        let indices = first.predicates.iter().map(|filter| number(ast, *filter)).collect::<Option<_>>()?;
        let mut plain = Self { root: name.clone(), indices, steps: Vec::new() };
        for step in rest {
            match Step::of(ast, ast.node(*step)) {
                Some(step) => plain.steps.push(step),
                None => break,
            }
        }
        if plain.steps.is_empty() { None } else { Some(plain) }
    }

    /// Whether there is nothing but names from `step` on.
    pub(super) fn names(&self, step: usize) -> Option<Vec<&str>> {
        let steps = self.steps.get(step..)?;
        steps
            .iter()
            .all(|step| step.indices.is_empty())
            .then(|| steps.iter().map(|step| &*step.name).collect())
    }

    /// Takes the steps from `from` on.
    pub(super) fn walk<'v>(&self, value: Option<&'v Value>, from: usize) -> Walked<'v> {
        let mut value = value;
        for (at, step) in self.steps.iter().enumerate().skip(from) {
            value = match value {
                Some(Value::Object(map)) => {
                    map.get(&step.name).and_then(|value| select(value, &step.indices))
                }
                Some(Value::Array(_)) => return Walked { steps: at, value },
                _ => None,
            };
            if value.is_none() {
                break;
            }
        }
        Walked { steps: self.steps.len(), value }
    }
}

impl Step {
    fn of(ast: &Ast, node: &Node) -> Option<Self> {
        let Kind::Name(name) = &node.kind else { return None };
        if !is_bare(node) || !node.predicates.is_empty() {
            return None;
        }
        let index = |stage: &Stage| match stage {
            Stage::Filter(filter) => number(ast, *filter),
            Stage::Index(_) => None,
        };
        let indices = node.stages.iter().map(index).collect::<Option<_>>()?;
        Some(Self { name: name.clone(), indices })
    }
}

fn is_bare(node: &Node) -> bool {
    !node.keep_array
        && !node.cons_array
        && !node.tuple
        && node.group.is_none()
        && node.focus.is_none()
        && node.index.is_none()
        && node.ancestor.is_none()
}

/// A filter that is a number and nothing else.
fn number(ast: &Ast, id: NodeId) -> Option<f64> {
    let node = ast.node(id);
    match node.kind {
        Kind::Number(number) if node.predicates.is_empty() && node.group.is_none() => Some(number),
        _ => None,
    }
}

/// The position of an index in an array of this length, counted from the end when negative.
pub(super) fn place(index: f64, length: usize) -> Option<usize> {
    let index = index.floor();
    let index = if index < 0.0 { length as f64 + index } else { index };
    (index >= 0.0 && index < length as f64).then_some(index as usize)
}

/// Applies indices; any other value counts as an array of one.
pub(super) fn select<'v>(value: &'v Value, indices: &[f64]) -> Option<&'v Value> {
    let mut value = value;
    for index in indices {
        value = match value {
            Value::Array(items) => &items[place(*index, items.len())?],
            single => place(*index, 1).map(|_| single)?,
        };
    }
    Some(value)
}
