//! Runs an expression.
//!
//! A tree walker that follows the reference step by step, because much of JSONata's behaviour with sequences is defined
//! only by the reference's code. It reads outside values from the [`Scope`], its limits are in the [`Meter`], and it
//! nests no deeper than Step Functions lets an expression nest.

mod apply;
mod construct;
mod operate;
mod path;
mod sort;
mod transform;

use super::ast::{Ast, Kind, Node, NodeId};
use super::error::{Error, Fallible};
use super::function::{Env, Frame, Function, FunctionKind};
use super::library::Builtin;
use super::meter::{self, Charge, Meter};
use super::value::{Flags, List, Object, Val, truth};
use crate::json::{Map, Value};
use crate::scope::Scope;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// How deep evaluation may nest: AWS takes `1+1+…` with 100 terms and refuses it with 101.
pub(super) const DEPTH_MAX: u32 = 100;

/// Members of arrays and objects are not counted with what is around them, up to this depth in all.
pub(super) const NESTING_MAX: u32 = 200;

/// The counted size of a function value, and of a scope that it holds.
const FUNCTION_BYTES: usize = 160;

/// The scopes that functions hold. They may form reference cycles, so they must be freed explicitly.
#[derive(Default)]
struct Captured {
    scopes: Vec<(Env, Charge)>,
    /// How many there may be before unused ones are dropped.
    sweep_at: usize,
}

/// One evaluation of one expression.
pub(super) struct Evaluator<'a> {
    pub(super) ast: &'a Ast,
    pub(super) scope: &'a Scope<'a>,
    pub(super) meter: Rc<Meter>,
    /// Levels since the last array or object with several members, and in all.
    depth: Cell<(u32, u32)>,
    captured: RefCell<Captured>,
    context: OnceCell<Value>,
    states: OnceCell<Value>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(ast: &'a Ast, scope: &'a Scope<'a>) -> Self {
        Self {
            ast,
            scope,
            meter: Meter::within(scope.dice.left()),
            depth: Cell::new((0, 0)),
            captured: RefCell::default(),
            context: OnceCell::new(),
            states: OnceCell::new(),
        }
    }

    /// Evaluates the whole expression with `input` as its context.
    pub(super) fn run(&self, input: &Val) -> Fallible<Val> {
        let env = Frame::outermost();
        if !input.is_undefined() {
            env.bind(&"$".into(), input.clone());
        }
        self.evaluate(self.ast.root, input, &env)
    }

    /// Evaluates one node: its kind, its filters, its group; then a sequence of one becomes its element.
    pub(super) fn evaluate(&self, id: NodeId, input: &Val, env: &Env) -> Fallible<Val> {
        self.meter.work(meter::NODE)?;
        let outside = self.enter()?;
        let node = self.ast.node(id);
        let mut result = self.kind(id, node, input, env)?;
        for filter in &node.predicates {
            result = self.filter(*filter, result, env)?;
        }
        if let Some(group) = &node.group
            && !matches!(node.kind, Kind::Path { .. })
        {
            result = self.group(group, &result, env)?;
        }
        self.depth.set(outside);
        Ok(unwrap(result, node.keep_array))
    }

    /// Enters one level deeper; returns the levels to restore.
    fn enter(&self) -> Fallible<(u32, u32)> {
        let (depth, nesting) = self.depth.get();
        if depth >= DEPTH_MAX || nesting >= NESTING_MAX {
            return Err(Error::stack());
        }
        self.depth.set((depth + 1, nesting + 1));
        Ok((depth, nesting))
    }

    /// Restarts the count of levels, as the reference does for the members of arrays and objects.
    fn apart(&self, members: usize) {
        if members > 1 {
            let (_, nesting) = self.depth.get();
            self.depth.set((0, nesting));
        }
    }

    fn kind(&self, id: NodeId, node: &Node, input: &Val, env: &Env) -> Fallible<Val> {
        match &node.kind {
            Kind::Null => Ok(Val::Null),
            Kind::Bool(truth) => Ok(Val::Bool(*truth)),
            Kind::Number(number) => Ok(Val::Number(*number)),
            Kind::String(text) => Ok(Val::text(text.clone())),
            Kind::Context => Ok(input.clone()),
            Kind::Variable { name, builtin } => self.variable(name, *builtin, env),
            Kind::Name(name) => self.member(input, name),
            Kind::Parent(label) => Ok(env.lookup(label).unwrap_or(Val::Undefined)),
            Kind::Wildcard => self.wildcard(input),
            Kind::Descendants => self.descendants(input),
            Kind::Path { .. } => self.path(node, input, env),
            Kind::Binary { operator, lhs, rhs } => self.binary(*operator, *lhs, *rhs, input, env),
            Kind::Negate(inner) => self.negate(*inner, input, env),
            Kind::Array(items) => self.array(node, items, input, env),
            Kind::Object(members) => self.group(members, input, env),
            Kind::Block(expressions) => self.block(expressions, input, env),
            Kind::Bind { name, value } => self.bind(name, *value, input, env),
            Kind::Condition { condition, then, otherwise } => {
                match self.branch(*condition, *then, *otherwise, input, env)? {
                    Some(branch) => self.evaluate(branch, input, env),
                    None => Ok(Val::Undefined),
                }
            }
            Kind::Call { .. } => self.call(node, input, env, None),
            Kind::Partial { procedure, arguments } => self.partial(*procedure, arguments, input, env),
            Kind::Apply { lhs, rhs } => self.apply_to(*lhs, *rhs, input, env),
            Kind::Regex(_) | Kind::Lambda(_) | Kind::TailCall { .. } | Kind::Transform { .. } => {
                self.define(id, node, input, env)
            }
            // A sort is a step of a path and is evaluated there.
            Kind::Sort(_) => Ok(Val::Undefined),
        }
    }

    fn bind(&self, name: &Arc<str>, value: NodeId, input: &Val, env: &Env) -> Fallible<Val> {
        let value = self.evaluate(value, input, env)?;
        env.bind(name, value.clone());
        Ok(value)
    }

    /// The branch that a condition chooses.
    fn branch(
        &self,
        condition: NodeId,
        then: NodeId,
        otherwise: Option<NodeId>,
        input: &Val,
        env: &Env,
    ) -> Fallible<Option<NodeId>> {
        let condition = self.evaluate(condition, input, env)?;
        Ok(if truth(&condition, &self.meter)? { Some(then) } else { otherwise })
    }

    /// A function defined in the expression.
    fn define(&self, id: NodeId, node: &Node, input: &Val, env: &Env) -> Fallible<Val> {
        match &node.kind {
            Kind::Regex(regex) => self.function(FunctionKind::Regex(regex.clone()), 1),
            Kind::Lambda(lambda) => {
                self.capture(env)?;
                let kind = FunctionKind::Lambda {
                    parameters: lambda.parameters.clone(),
                    signature: lambda.signature.clone(),
                    body: lambda.body,
                    input: input.clone(),
                    env: env.clone(),
                };
                self.function(kind, input.depth() + 1)
            }
            Kind::TailCall { .. } => {
                let kind = FunctionKind::TailCall { node: id, input: input.clone(), env: env.clone() };
                self.function(kind, input.depth() + 1)
            }
            _ => {
                self.capture(env)?;
                self.function(FunctionKind::Transform { node: id, env: env.clone() }, 1)
            }
        }
    }

    /// A function value, counted and limited in depth like any other value.
    pub(super) fn function(&self, kind: FunctionKind, depth: u16) -> Fallible<Val> {
        if depth > super::value::DEPTH_MAX {
            return Err(Error::stack());
        }
        let function = Function { kind, depth, _charge: self.meter.hold(FUNCTION_BYTES)? };
        Ok(Val::Function(Rc::new(function)))
    }

    /// Records that a function will hold this scope.
    fn capture(&self, env: &Env) -> Fallible<()> {
        if env.is_captured.replace(true) {
            return Ok(());
        }
        let charge = self.meter.hold(FUNCTION_BYTES + env.len() * 2 * meter::ELEMENT_BYTES)?;
        let mut captured = self.captured.borrow_mut();
        captured.scopes.push((env.clone(), charge));
        if captured.scopes.len() > captured.sweep_at {
            captured.scopes.retain(|(env, _)| Rc::strong_count(env) > 1);
            captured.sweep_at = 1024 + 2 * captured.scopes.len();
        }
        Ok(())
    }

    fn block(&self, expressions: &[NodeId], input: &Val, env: &Env) -> Fallible<Val> {
        let frame = Frame::inside(env, Vec::new())?;
        let mut result = Val::Undefined;
        for expression in expressions {
            result = self.evaluate(*expression, input, &frame)?;
        }
        Ok(result)
    }

    /// The value of a variable: bound in the expression, given by the workflow, or in the library.
    fn variable(&self, name: &str, builtin: Option<Builtin>, env: &Env) -> Fallible<Val> {
        if let Some(value) = env.lookup(name) {
            return Ok(value);
        }
        if let Some(value) = self.given(name) {
            return Ok(Val::from(value));
        }
        match builtin {
            Some(builtin) => self.function(FunctionKind::Builtin(builtin), 1),
            None => Ok(Val::Undefined),
        }
    }

    /// A variable of the workflow.
    fn given(&self, name: &str) -> Option<&Value> {
        if name == "states" {
            return Some(self.states.get_or_init(|| self.whole_states()));
        }
        self.scope.variables.get(name)
    }

    /// One member of `$states`, without building the others.
    pub(super) fn state(&self, member: &str) -> Option<&Value> {
        match member {
            "input" => self.scope.states.input,
            "result" => self.scope.states.result,
            "errorOutput" => self.scope.states.error_output,
            "context" => Some(self.context.get_or_init(|| self.scope.context.whole())),
            _ => None,
        }
    }

    fn whole_states(&self) -> Value {
        let mut states = Map::new();
        for member in ["input", "result", "errorOutput", "context"] {
            if let Some(value) = self.state(member) {
                states.insert(member, value.clone());
            }
        }
        states.into()
    }

    /// A member by name; of an array, those of its elements.
    pub(super) fn member(&self, input: &Val, name: &str) -> Fallible<Val> {
        match input {
            Val::Object(object) => Ok(object.get(name)),
            Val::Array(_) => {
                let mut found = List::new(&self.meter)?;
                self.members_of(input, name, &mut found)?;
                Ok(found.finish(Flags::SEQUENCE))
            }
            _ => Ok(Val::Undefined),
        }
    }

    fn members_of(&self, input: &Val, name: &str, found: &mut List) -> Fallible<()> {
        let Val::Array(array) = input else { return Ok(()) };
        self.meter.work(array.len() as u64)?;
        if let Some(items) = array.json() {
            for item in items.iter() {
                match item {
                    Value::Object(map) => {
                        if let Some(value) = map.get(name) {
                            found.append(value.into())?;
                        }
                    }
                    Value::Array(_) => self.members_of(&item.into(), name, found)?,
                    _ => {}
                }
            }
            return Ok(());
        }
        for item in array.iter() {
            match &item {
                Val::Object(object) => match object.get(name) {
                    Val::Undefined => {}
                    value => found.append(value)?,
                },
                Val::Array(_) => self.members_of(&item, name, found)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn wildcard(&self, input: &Val) -> Fallible<Val> {
        let mut results = List::new(&self.meter)?;
        let values: Vec<Val> = match input {
            Val::Object(object) => object.members().into_iter().map(|(_, value)| value).collect(),
            Val::Array(array) => array.iter().collect(),
            _ => Vec::new(),
        };
        // After appending an array, the reference no longer treats the result as a sequence.
        let is_plain = values.iter().any(|value| value.array().is_some());
        for value in &values {
            self.flatten(value, &mut results)?;
        }
        Ok(results.finish(if is_plain { Flags::PLAIN } else { Flags::SEQUENCE }))
    }

    fn flatten(&self, value: &Val, results: &mut List) -> Fallible<()> {
        match value {
            Val::Array(array) => {
                self.meter.work(1)?;
                array.iter().try_for_each(|item| self.flatten(&item, results))
            }
            single => results.push(single.clone()),
        }
    }

    fn descendants(&self, input: &Val) -> Fallible<Val> {
        if input.is_undefined() {
            return Ok(Val::Undefined);
        }
        let mut results = List::new(&self.meter)?;
        self.descend(input, &mut results)?;
        Ok(results.finish(Flags::SEQUENCE))
    }

    fn descend(&self, input: &Val, results: &mut List) -> Fallible<()> {
        match input {
            Val::Array(array) => {
                self.meter.work(1)?;
                array.iter().try_for_each(|item| self.descend(&item, results))
            }
            Val::Object(object) => {
                results.push(input.clone())?;
                object.members().iter().try_for_each(|(_, value)| self.descend(value, results))
            }
            single => results.push(single.clone()),
        }
    }

    /// A sequence of one.
    pub(super) fn sequence(&self, item: Val) -> Fallible<Val> {
        Ok(List::of(&self.meter, item)?.finish(Flags::SEQUENCE))
    }

    /// The members of a tuple as a scope.
    pub(super) fn tuple_scope(env: &Env, tuple: &Val) -> Fallible<Env> {
        match tuple {
            Val::Object(Object::Own(record)) => Frame::inside(env, record.entries().to_vec()),
            _ => Ok(env.clone()),
        }
    }

    /// The name that a tuple gives its value.
    pub(super) fn tuple_value(tuple: &Val) -> Val {
        match tuple {
            Val::Object(object) => object.get("@"),
            _ => Val::Undefined,
        }
    }
}

/// Functions and the scopes that hold them may form reference cycles, which would leak.
impl Drop for Evaluator<'_> {
    fn drop(&mut self) {
        for (env, _) in &self.captured.get_mut().scopes {
            env.clear();
        }
    }
}

/// A sequence of one becomes its element and an empty sequence undefined, unless it must stay an array.
fn unwrap(mut result: Val, keep_array: bool) -> Val {
    let Val::Array(array) = &mut result else { return result };
    if !array.is_sequence() || array.flags.has(Flags::TUPLES) {
        return result;
    }
    if keep_array {
        array.flags = array.flags.and(Flags::KEEP);
    }
    match array.len() {
        0 => Val::Undefined,
        1 if !array.flags.has(Flags::KEEP) => array.get(0),
        _ => result,
    }
}

/// The text of a name, for messages.
pub(super) fn name_of(node: &Node, ast: &Ast) -> Option<Arc<str>> {
    match &node.kind {
        Kind::Variable { name, .. } => Some(name.clone()),
        Kind::Path { steps, .. } => match &ast.node(steps[0]).kind {
            Kind::Name(name) | Kind::Variable { name, .. } => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}
