//! Static facts about an expression.

use super::ast::{Ast, Kind, Node, NodeId, Stage};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Facts for the validation of a definition.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Variables that the workflow must provide.
    pub(super) variables: BTreeSet<Arc<str>>,
    /// Members of `$states` that are named.
    pub(super) states: BTreeSet<Arc<str>>,
    /// AWS's messages, if it refuses the expression.
    pub(super) unsupported: Vec<String>,
}

impl Facts {
    pub(super) fn of(ast: &Ast) -> Self {
        let mut search =
            Search { ast, facts: Self::default(), scopes: vec![BTreeSet::new()], refused: BTreeSet::new() };
        search.visit(ast.root, true);
        search.facts
    }
}

struct Search<'a> {
    ast: &'a Ast,
    facts: Facts,
    /// The names bound around the current node.
    scopes: Vec<BTreeSet<Arc<str>>>,
    /// Top-level names that were refused already.
    refused: BTreeSet<String>,
}

impl Search<'_> {
    /// Visits a node; `is_top`: it is evaluated without a context.
    fn visit(&mut self, id: NodeId, is_top: bool) {
        let ast = self.ast;
        let node = ast.node(id);
        match &node.kind {
            Kind::Path { steps, .. } => self.path(node, steps, is_top),
            Kind::Binary { lhs, rhs, .. } | Kind::Apply { lhs, rhs } => {
                self.visit(*lhs, is_top);
                self.visit(*rhs, is_top);
            }
            Kind::Negate(inner) => self.visit(*inner, is_top),
            Kind::Array(items) => self.all(items, is_top),
            Kind::Object(members) => self.pairs(members, is_top),
            Kind::Block(expressions) => {
                let functions = expressions.iter().filter_map(|id| self.function(*id)).collect();
                self.scoped(functions, expressions, is_top);
            }
            Kind::Bind { name, value } => {
                if self.function(id).is_some() {
                    self.bind(name);
                }
                self.visit(*value, is_top);
                self.bind(name);
            }
            Kind::Condition { condition, then, otherwise } => {
                self.visit(*condition, is_top);
                self.visit(*then, is_top);
                self.all(otherwise.as_slice(), is_top);
            }
            Kind::Call { procedure, arguments } | Kind::TailCall { procedure, arguments } => {
                self.visit(*procedure, is_top);
                self.all(arguments, is_top);
            }
            Kind::Partial { procedure, arguments } => {
                self.visit(*procedure, is_top);
                arguments.iter().flatten().for_each(|argument| self.visit(*argument, is_top));
            }
            Kind::Lambda(lambda) => {
                self.scoped(lambda.parameters.iter().cloned().collect(), &[lambda.body], is_top);
            }
            Kind::Transform { pattern, update, delete } => {
                self.visit(*pattern, false);
                self.visit(*update, false);
                self.all(delete.as_slice(), false);
            }
            Kind::Sort(terms) => terms.iter().for_each(|(term, _)| self.visit(*term, false)),
            leaf => self.leaf(leaf, is_top),
        }
        self.all(&node.predicates, false);
        for stage in &node.stages {
            match stage {
                Stage::Filter(filter) => self.visit(*filter, false),
                Stage::Index(name) => self.bind(name),
            }
        }
        if let Some(group) = &node.group
            && !matches!(node.kind, Kind::Path { .. })
        {
            self.pairs(group, false);
        }
    }

    /// The name of a function that this binds. Its body runs when it is called, so it sees itself and names that are
    /// bound after it.
    fn function(&self, id: NodeId) -> Option<Arc<str>> {
        match &self.ast.node(id).kind {
            Kind::Bind { name, value } if matches!(self.ast.node(*value).kind, Kind::Lambda(_)) => {
                Some(name.clone())
            }
            _ => None,
        }
    }

    /// A node without parts.
    fn leaf(&mut self, kind: &Kind, is_top: bool) {
        let sentence = match kind {
            Kind::Name(name) if is_top => format!("Reference to '{name}' at the top level is not supported."),
            Kind::Context if is_top => "Reference to '$' at the top level is not supported.".to_owned(),
            Kind::Variable { name, .. } if &**name == "$" => "Reference to '$$' is not supported.".to_owned(),
            Kind::Variable { name, builtin } => return self.variable(name, builtin.is_some()),
            _ => return,
        };
        if self.refused.insert(sentence.clone()) {
            self.facts.unsupported.push(sentence);
        }
    }

    fn scoped(&mut self, names: BTreeSet<Arc<str>>, parts: &[NodeId], is_top: bool) {
        self.scopes.push(names);
        self.all(parts, is_top);
        self.scopes.pop();
    }

    fn all(&mut self, ids: &[NodeId], is_top: bool) {
        for id in ids {
            self.visit(*id, is_top);
        }
    }

    fn pairs(&mut self, pairs: &[(NodeId, NodeId)], is_top: bool) {
        for (key, value) in pairs {
            self.visit(*key, is_top);
            self.visit(*value, is_top);
        }
    }

    fn path(&mut self, node: &Node, steps: &[NodeId], is_top: bool) {
        self.scopes.push(BTreeSet::new());
        for (at, step) in steps.iter().enumerate() {
            // The filters of a step see what the step binds.
            let node = self.ast.node(*step);
            for name in [&node.focus, &node.index].into_iter().flatten() {
                self.bind(name);
            }
            self.visit(*step, is_top && at == 0);
        }
        if let Some(group) = &node.group {
            self.pairs(group, false);
        }
        self.scopes.pop();
        let [first, second, ..] = steps else { return };
        if let (Kind::Variable { name, .. }, Kind::Name(member)) =
            (&self.ast.node(*first).kind, &self.ast.node(*second).kind)
            && &**name == "states"
        {
            self.facts.states.insert(member.clone());
        }
    }

    fn bind(&mut self, name: &Arc<str>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone());
        }
    }

    fn variable(&mut self, name: &Arc<str>, is_builtin: bool) {
        if self.scopes.iter().any(|scope| scope.contains(name)) || &**name == "states" {
            return;
        }
        // `$eval` is JSONata's, although Step Functions does not have it: it is not a missing variable.
        if !is_builtin && &**name != "eval" {
            self.facts.variables.insert(name.clone());
        }
    }
}
