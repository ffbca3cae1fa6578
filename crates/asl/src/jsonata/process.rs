//! Turns the syntax tree into the evaluation tree.
//!
//! Chains of dots become paths, brackets become filters on steps, calls in last places become tail calls, and every `%`
//! is linked to its step.

mod ancestry;
mod paths;

use super::ast::{Ast, Kind, Lambda, Node, NodeId, Operator, Stage};
use super::error::{Error, Fallible};
use super::library::Builtin;
use super::plain::Plain;
use super::signature::Signature;
use super::syntax::{self, Raw, RawId, RawKind};
use super::token::Token;
use ancestry::{Slot, SlotId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads an expression.
pub(super) fn parse(text: &str) -> Fallible<Ast> {
    let (raw, root) = syntax::parse(text)?;
    let mut process =
        Process { raw, nodes: Vec::new(), seeking: Vec::new(), slots: Vec::new(), owners: BTreeMap::new() };
    let root = process.node(root)?;
    if matches!(process.nodes[root].kind, Kind::Parent(_)) || !process.seeking[root].is_empty() {
        return Err(Error::new("S0217").at(process.nodes[root].at as usize));
    }
    Ok(process.finish(root))
}

struct Process {
    raw: Vec<Raw>,
    nodes: Vec<Node>,
    /// For each node, the slots below it that have no step yet.
    seeking: Vec<Vec<SlotId>>,
    slots: Vec<Slot>,
    /// The steps of slots, with the label of each.
    owners: BTreeMap<usize, usize>,
}

impl Process {
    fn push(&mut self, kind: Kind, at: usize) -> usize {
        self.nodes.push(Node { kind, at: at as u32, ..Node::default() });
        self.seeking.push(Vec::new());
        self.nodes.len() - 1
    }

    fn node(&mut self, id: RawId) -> Fallible<usize> {
        let Raw { at, keep_array, .. } = self.raw[id];
        let kind = std::mem::replace(&mut self.raw[id].kind, RawKind::Wildcard);
        // Each kind has a function of its own, so that a level of nesting takes little of the stack.
        let node = match kind {
            RawKind::Token(token) => self.token(token, at, keep_array)?,
            RawKind::Wildcard => self.push(Kind::Wildcard, at),
            RawKind::Descendants => self.push(Kind::Descendants, at),
            RawKind::Parent => self.parent(at),
            RawKind::Binary(".", lhs, rhs) => self.dot(lhs, rhs, at)?,
            RawKind::Binary("[", lhs, rhs) => self.filter(lhs, rhs, at)?,
            RawKind::Binary(":=", lhs, rhs) => self.bind(lhs, rhs, at)?,
            RawKind::Binary("@", lhs, rhs) => self.focus(lhs, rhs, at, keep_array)?,
            RawKind::Binary("#", lhs, rhs) => self.index(lhs, rhs, at)?,
            RawKind::Binary("~>", lhs, rhs) => self.apply(lhs, rhs, at)?,
            RawKind::Binary(symbol, lhs, rhs) => self.binary(symbol, lhs, rhs, at)?,
            RawKind::Negate(inner) => self.negate(inner, at)?,
            RawKind::Array(items) => self.array(&items, at)?,
            RawKind::Block(items) => self.block(&items, at)?,
            RawKind::Object(members) => self.object(&members, at)?,
            RawKind::Group(lhs, members) => self.group(lhs, &members, at)?,
            RawKind::Sort(lhs, terms) => self.sort(lhs, &terms, at)?,
            RawKind::Call(procedure, arguments) => self.call(procedure, &arguments, at)?,
            RawKind::Lambda(parameters, signature, body) => self.lambda(parameters, signature, body, at)?,
            RawKind::Condition(condition, then, otherwise) => {
                self.condition(condition, then, otherwise, at)?
            }
            RawKind::Transform(pattern, update, delete) => self.transform(pattern, update, delete, at)?,
        };
        if keep_array {
            self.nodes[node].keep_array = true;
        }
        Ok(node)
    }

    fn bind(&mut self, lhs: RawId, rhs: RawId, at: usize) -> Fallible<usize> {
        let name = self.variable_name(lhs);
        let value = self.node(rhs)?;
        let bind = self.push(Kind::Bind { name, value: value as NodeId }, at);
        self.inherit(bind, value);
        Ok(bind)
    }

    fn apply(&mut self, lhs: RawId, rhs: RawId, at: usize) -> Fallible<usize> {
        let (lhs, rhs) = (self.node(lhs)?, self.node(rhs)?);
        let keep = self.nodes[lhs].keep_array || self.nodes[rhs].keep_array;
        let apply = self.push(Kind::Apply { lhs: lhs as NodeId, rhs: rhs as NodeId }, at);
        self.nodes[apply].keep_array = keep;
        Ok(apply)
    }

    fn binary(&mut self, symbol: &'static str, lhs: RawId, rhs: RawId, at: usize) -> Fallible<usize> {
        let (lhs, rhs) = (self.node(lhs)?, self.node(rhs)?);
        let Some(operator) = Operator::parse(symbol) else {
            return Err(Error::new("S0204").token(symbol).at(at));
        };
        let binary = self.push(Kind::Binary { operator, lhs: lhs as NodeId, rhs: rhs as NodeId }, at);
        self.inherit(binary, lhs);
        self.inherit(binary, rhs);
        Ok(binary)
    }

    fn negate(&mut self, inner: RawId, at: usize) -> Fallible<usize> {
        let inner = self.node(inner)?;
        if let Kind::Number(number) = &mut self.nodes[inner].kind {
            *number = -*number;
            return Ok(inner);
        }
        let negate = self.push(Kind::Negate(inner as NodeId), at);
        self.inherit(negate, inner);
        Ok(negate)
    }

    fn array(&mut self, items: &[RawId], at: usize) -> Fallible<usize> {
        let items = self.all(items)?;
        Ok(self.whole(Kind::Array, items, at))
    }

    fn block(&mut self, items: &[RawId], at: usize) -> Fallible<usize> {
        let items = self.all(items)?;
        let is_cons = items.iter().any(|item| {
            let first = match &self.nodes[*item].kind {
                Kind::Path { steps, .. } => self.nodes[steps[0] as usize].cons_array,
                _ => false,
            };
            first || self.nodes[*item].cons_array
        });
        let block = self.whole(Kind::Block, items, at);
        self.nodes[block].cons_array = is_cons;
        Ok(block)
    }

    fn object(&mut self, members: &[(RawId, RawId)], at: usize) -> Fallible<usize> {
        let members = self.pairs(members)?;
        let ids = members.iter().map(|(key, value)| (*key as NodeId, *value as NodeId)).collect();
        let object = self.push(Kind::Object(ids), at);
        for (key, value) in members {
            self.inherit(object, key);
            self.inherit(object, value);
        }
        Ok(object)
    }

    fn lambda(
        &mut self,
        parameters: Vec<Arc<str>>,
        signature: Option<Arc<Signature>>,
        body: RawId,
        at: usize,
    ) -> Fallible<usize> {
        let body = self.node(body)?;
        let body = self.tail(body) as NodeId;
        Ok(self.push(Kind::Lambda(Lambda { parameters: parameters.into(), signature, body }), at))
    }

    fn condition(
        &mut self,
        condition: RawId,
        then: RawId,
        otherwise: Option<RawId>,
        at: usize,
    ) -> Fallible<usize> {
        let condition = self.node(condition)?;
        let then = self.node(then)?;
        let otherwise = otherwise.map(|otherwise| self.node(otherwise)).transpose()?;
        let kind = Kind::Condition {
            condition: condition as NodeId,
            then: then as NodeId,
            otherwise: otherwise.map(|id| id as NodeId),
        };
        let node = self.push(kind, at);
        for part in [Some(condition), Some(then), otherwise].into_iter().flatten() {
            self.inherit(node, part);
        }
        Ok(node)
    }

    fn transform(
        &mut self,
        pattern: RawId,
        update: RawId,
        delete: Option<RawId>,
        at: usize,
    ) -> Fallible<usize> {
        let pattern = self.node(pattern)? as NodeId;
        let update = self.node(update)? as NodeId;
        let delete = delete.map(|delete| self.node(delete)).transpose()?.map(|id| id as NodeId);
        Ok(self.push(Kind::Transform { pattern, update, delete }, at))
    }

    fn all(&mut self, ids: &[RawId]) -> Fallible<Vec<usize>> {
        ids.iter().map(|id| self.node(*id)).collect()
    }

    fn pairs(&mut self, pairs: &[(RawId, RawId)]) -> Fallible<Vec<(usize, usize)>> {
        pairs.iter().map(|(key, value)| Ok((self.node(*key)?, self.node(*value)?))).collect()
    }

    /// A node of parts, with their open slots.
    fn whole(&mut self, kind: impl Fn(Vec<NodeId>) -> Kind, parts: Vec<usize>, at: usize) -> usize {
        let whole = self.push(kind(parts.iter().map(|part| *part as NodeId).collect()), at);
        for part in parts {
            self.inherit(whole, part);
        }
        whole
    }

    fn token(&mut self, token: Token, at: usize, keep_array: bool) -> Fallible<usize> {
        let kind = match token {
            Token::Name(name) => return Ok(self.name(name, at, keep_array)),
            Token::Operator(word @ ("and" | "or" | "in")) => {
                return Ok(self.name(word.into(), at, keep_array));
            }
            Token::Operator(symbol) => {
                return Err(Error::new("S0201").value(Token::Operator(symbol).json()).at(at));
            }
            Token::End => return Err(Error::new("S0207").at(at)),
            Token::Variable(name) if name.is_empty() => Kind::Context,
            Token::Variable(name) => {
                let builtin = Builtin::named(&name);
                Kind::Variable { name, builtin }
            }
            Token::String(text) => Kind::String(text),
            Token::Number(number) => Kind::Number(number),
            Token::Bool(truth) => Kind::Bool(truth),
            Token::Null => Kind::Null,
            Token::Regex(regex) => Kind::Regex(regex),
        };
        Ok(self.push(kind, at))
    }

    fn name(&mut self, name: Arc<str>, at: usize, keep_array: bool) -> usize {
        let step = self.push(Kind::Name(name), at);
        self.nodes[step].keep_array = keep_array;
        self.path(vec![step as NodeId], keep_array, at)
    }

    fn path(&mut self, steps: Vec<NodeId>, keep_singleton: bool, at: usize) -> usize {
        self.push(Kind::Path { steps, keep_singleton, plain: None }, at)
    }

    fn variable_name(&self, id: RawId) -> Arc<str> {
        match &self.raw[id].kind {
            RawKind::Token(Token::Variable(name)) => name.clone(),
            _ => "".into(),
        }
    }

    /// The steps of a node that is a path.
    fn steps(&mut self, node: usize) -> Option<&mut Vec<NodeId>> {
        match &mut self.nodes[node].kind {
            Kind::Path { steps, .. } => Some(steps),
            _ => None,
        }
    }

    fn last_step(&mut self, node: usize) -> Option<usize> {
        self.steps(node).and_then(|steps| steps.last().copied()).map(|step| step as usize)
    }

    /// Filters on what becomes a step of a path are its stages.
    fn move_filters(&mut self, step: usize) {
        let filters = std::mem::take(&mut self.nodes[step].predicates);
        self.nodes[step].stages.extend(filters.into_iter().map(Stage::Filter));
    }

    fn call(&mut self, procedure: RawId, arguments: &[Option<RawId>], at: usize) -> Fallible<usize> {
        let mut given = Vec::new();
        for argument in arguments {
            given.push(argument.map(|argument| self.node(argument)).transpose()?);
        }
        let procedure = self.node(procedure)? as NodeId;
        let is_partial = given.iter().any(Option::is_none);
        let ids = given.iter().map(|argument| argument.map(|id| id as NodeId));
        let kind = if is_partial {
            Kind::Partial { procedure, arguments: ids.collect() }
        } else {
            Kind::Call { procedure, arguments: ids.flatten().collect() }
        };
        let call = self.push(kind, at);
        for argument in given.into_iter().flatten() {
            self.inherit(call, argument);
        }
        Ok(call)
    }

    /// Turns the calls in the last places of a body into tail calls.
    fn tail(&mut self, body: usize) -> usize {
        match &self.nodes[body].kind {
            Kind::Call { procedure, arguments } if self.nodes[body].predicates.is_empty() => {
                let (procedure, arguments) = (*procedure, arguments.clone());
                let at = self.nodes[body].at as usize;
                self.push(Kind::TailCall { procedure, arguments }, at)
            }
            Kind::Condition { then, otherwise, .. } => {
                let (then, otherwise) = (*then as usize, otherwise.map(|id| id as usize));
                let last = self.tail(then) as NodeId;
                let other = otherwise.map(|id| self.tail(id) as NodeId);
                if let Kind::Condition { then, otherwise, .. } = &mut self.nodes[body].kind {
                    (*then, *otherwise) = (last, other);
                }
                body
            }
            Kind::Block(expressions) => {
                if let Some(last) = expressions.last().copied() {
                    let tail = self.tail(last as usize) as NodeId;
                    if let Kind::Block(expressions) = &mut self.nodes[body].kind {
                        expressions.pop();
                        expressions.push(tail);
                    }
                }
                body
            }
            _ => body,
        }
    }

    /// Sets the labels, and finds plain paths.
    fn finish(mut self, root: usize) -> Ast {
        // No variable can be called like that.
        let name = |label: usize| -> Arc<str> { format!("!{label}").into() };
        for node in 0..self.nodes.len() {
            if let Some(slot) = self.slot_of(node) {
                self.nodes[node].kind = Kind::Parent(name(self.slots[slot].label));
            }
        }
        for (owner, label) in &self.owners {
            self.nodes[*owner].ancestor = Some(name(*label));
        }
        let mut ast = Ast { nodes: self.nodes, root: root as NodeId };
        for id in 0..ast.nodes.len() {
            let found = Plain::of(&ast, id as NodeId);
            if let Kind::Path { plain, .. } = &mut ast.nodes[id].kind {
                *plain = found;
            }
        }
        ast
    }
}
