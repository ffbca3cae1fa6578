//! Paths: steps, the filters and groups on them, order, and bindings of context and position.

use super::Process;
use crate::jsonata::ast::{Kind, NodeId, Stage};
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::number;
use crate::jsonata::syntax::RawId;

impl Process {
    pub(super) fn dot(&mut self, lhs: RawId, rhs: RawId, at: usize) -> Fallible<usize> {
        let left = self.node(lhs)?;
        let path = if self.steps(left).is_some() {
            left
        } else {
            let path = self.path(vec![left as NodeId], false, at);
            let slot = self.slot_of(left);
            self.seeking[path].extend(slot);
            path
        };
        let right = self.node(rhs)?;
        let added = if let Some(steps) = self.steps(right) {
            std::mem::take(steps)
        } else {
            self.move_filters(right);
            vec![right as NodeId]
        };
        let steps = self.steps(path).expect("just made or found to be a path");
        steps.extend(added);
        let steps = steps.clone();
        for step in &steps {
            let step = &mut self.nodes[*step as usize];
            let literal = match &step.kind {
                Kind::Number(number) => Some(number::display(*number)),
                Kind::Bool(truth) => Some(truth.to_string()),
                Kind::Null => Some("null".into()),
                Kind::String(text) => {
                    step.kind = Kind::Name(text.clone());
                    None
                }
                _ => None,
            };
            if literal.is_some() {
                return Err(Error::new("S0213").value(literal).at(step.at as usize));
            }
        }
        let keeps = steps.iter().any(|step| self.nodes[*step as usize].keep_array);
        if let Kind::Path { keep_singleton, .. } = &mut self.nodes[path].kind {
            *keep_singleton |= keeps;
        }
        for step in [steps.first(), steps.last()].into_iter().flatten() {
            let step = &mut self.nodes[*step as usize];
            step.cons_array |= matches!(step.kind, Kind::Array(_));
        }
        self.resolve(path, &steps)?;
        Ok(path)
    }

    pub(super) fn filter(&mut self, lhs: RawId, rhs: RawId, at: usize) -> Fallible<usize> {
        let node = self.node(lhs)?;
        let last = self.last_step(node);
        let step = last.unwrap_or(node);
        if self.nodes[step].group.is_some() {
            return Err(Error::new("S0209").at(at));
        }
        let filter = self.node(rhs)?;
        if !self.seeking[filter].is_empty() {
            for slot in self.seeking[filter].clone() {
                if self.slots[slot].level == 1 {
                    self.seek(step, slot)?;
                } else {
                    self.slots[slot].level -= 1;
                }
            }
            self.inherit(step, filter);
        }
        if last.is_some() {
            self.nodes[step].stages.push(Stage::Filter(filter as NodeId));
        } else {
            self.nodes[step].predicates.push(filter as NodeId);
        }
        Ok(node)
    }

    pub(super) fn group(&mut self, lhs: RawId, members: &[(RawId, RawId)], at: usize) -> Fallible<usize> {
        let node = self.node(lhs)?;
        if self.nodes[node].group.is_some() {
            return Err(Error::new("S0210").at(at));
        }
        let members = self.pairs(members)?;
        self.nodes[node].group =
            Some(members.into_iter().map(|(key, value)| (key as NodeId, value as NodeId)).collect());
        Ok(node)
    }

    pub(super) fn sort(&mut self, lhs: RawId, terms: &[(RawId, bool)], at: usize) -> Fallible<usize> {
        let mut node = self.node(lhs)?;
        if self.steps(node).is_none() {
            node = self.path(vec![node as NodeId], false, at);
        }
        let sort = self.push(Kind::Sort(Vec::new()), at);
        let mut sorted = Vec::new();
        for (term, descending) in terms {
            let term = self.node(*term)?;
            self.inherit(sort, term);
            sorted.push((term as NodeId, *descending));
        }
        self.nodes[sort].kind = Kind::Sort(sorted);
        let steps = self.steps(node).expect("just made or found to be a path");
        steps.push(sort as NodeId);
        let steps = steps.clone();
        self.resolve(node, &steps)?;
        Ok(node)
    }

    pub(super) fn focus(&mut self, lhs: RawId, rhs: RawId, at: usize, keep_array: bool) -> Fallible<usize> {
        let name = self.variable_name(rhs);
        let node = self.node(lhs)?;
        let step = self.last_step(node).unwrap_or(node);
        if !self.nodes[step].stages.is_empty() || !self.nodes[step].predicates.is_empty() {
            return Err(Error::new("S0215").at(at));
        }
        if matches!(self.nodes[step].kind, Kind::Sort(_)) {
            return Err(Error::new("S0216").at(at));
        }
        self.nodes[step].keep_array |= keep_array;
        self.nodes[step].focus = Some(name);
        self.nodes[step].tuple = true;
        Ok(node)
    }

    pub(super) fn index(&mut self, lhs: RawId, rhs: RawId, at: usize) -> Fallible<usize> {
        let name = self.variable_name(rhs);
        let mut node = self.node(lhs)?;
        let step = if let Some(step) = self.last_step(node) {
            step
        } else {
            self.move_filters(node);
            let step = node;
            node = self.path(vec![step as NodeId], false, at);
            step
        };
        if self.nodes[step].stages.is_empty() {
            self.nodes[step].index = Some(name);
        } else {
            self.nodes[step].stages.push(Stage::Index(name));
        }
        self.nodes[step].tuple = true;
        Ok(node)
    }
}
