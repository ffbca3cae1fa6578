//! Calling functions.

use super::{Evaluator, Fallible, name_of};
use crate::jsonata::ast::{Kind, Node, NodeId};
use crate::jsonata::error::Error;
use crate::jsonata::function::{Env, Frame, Function, FunctionKind};
use crate::jsonata::signature::Signature;
use crate::jsonata::value::{Val, truth};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

impl Evaluator<'_> {
    /// `$f(…)`; with `~>`, the value on its left is the first argument.
    pub(super) fn call(&self, node: &Node, input: &Val, env: &Env, first: Option<Val>) -> Fallible<Val> {
        let Kind::Call { procedure, arguments } = &node.kind else { return Ok(Val::Undefined) };
        let function = self.evaluate(*procedure, input, env)?;
        let name = name_of(self.ast.node(*procedure), self.ast);
        if function.is_undefined() && self.is_missing_dollar(*procedure, env)? {
            return Err(Error::new("T1005").or_token(name.as_ref()));
        }
        let mut values = Vec::with_capacity(arguments.len() + 1);
        values.extend(first);
        for argument in arguments {
            values.push(self.evaluate(*argument, input, env)?);
        }
        self.apply(&function, values, input, name.as_ref()).map_err(|error| error.or_token(name.as_ref()))
    }

    /// Whether a call names a function without its `$`.
    fn is_missing_dollar(&self, procedure: NodeId, env: &Env) -> Fallible<bool> {
        let Kind::Path { steps, .. } = &self.ast.node(procedure).kind else { return Ok(false) };
        let Kind::Name(name) = &self.ast.node(steps[0]).kind else { return Ok(false) };
        let builtin = crate::jsonata::library::Builtin::named(name);
        let meant = self.variable(name, builtin, env)?;
        Ok(meant.is_function() || truth(&meant, &self.meter)?)
    }

    /// `lhs ~> rhs`
    pub(super) fn apply_to(&self, lhs: NodeId, rhs: NodeId, input: &Val, env: &Env) -> Fallible<Val> {
        let left = self.evaluate(lhs, input, env)?;
        let node = self.ast.node(rhs);
        if let Kind::Call { .. } = &node.kind {
            return self.call(node, input, env, Some(left));
        }
        let Val::Function(function) = self.evaluate(rhs, input, env)? else {
            return Err(Error::new("T2006"));
        };
        match left {
            Val::Function(first) => {
                let depth = first.depth.max(function.depth) + 1;
                self.function(FunctionKind::Chain(first, function), depth)
            }
            value => self.apply(&Val::Function(function), vec![value], &Val::Null, None),
        }
    }

    /// Calls a function for the library, which gives it no context.
    pub(in crate::jsonata) fn invoke(&self, function: &Rc<Function>, arguments: Vec<Val>) -> Fallible<Val> {
        self.apply(&Val::Function(function.clone()), arguments, &Val::Null, None)
    }

    /// Calls a function, and then the calls that it returns in its place.
    fn apply(
        &self,
        function: &Val,
        arguments: Vec<Val>,
        context: &Val,
        name: Option<&Arc<str>>,
    ) -> Fallible<Val> {
        let mut result = self.apply_once(function, arguments, context, name)?;
        loop {
            let Val::Function(tail) = &result else { return Ok(result) };
            let FunctionKind::TailCall { node, input, env } = &tail.kind else { return Ok(result) };
            let Kind::TailCall { procedure, arguments } = &self.ast.node(*node).kind else {
                return Ok(Val::Undefined);
            };
            let next = self.evaluate(*procedure, input, env)?;
            let name = name_of(self.ast.node(*procedure), self.ast);
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                values.push(self.evaluate(*argument, input, env)?);
            }
            result = self.apply_once(&next, values, context, name.as_ref())?;
        }
    }

    fn apply_once(
        &self,
        function: &Val,
        arguments: Vec<Val>,
        context: &Val,
        name: Option<&Arc<str>>,
    ) -> Fallible<Val> {
        let Val::Function(function) = function else { return Err(Error::new("T1006")) };
        self.run_function(function, arguments, context).map_err(|error| error.or_token(name))
    }

    fn run_function(&self, function: &Rc<Function>, arguments: Vec<Val>, context: &Val) -> Fallible<Val> {
        match &function.kind {
            FunctionKind::Builtin(builtin) => {
                let arguments = builtin.signature().validate(arguments, context, &self.meter)?;
                self.library(*builtin, &arguments)
            }
            FunctionKind::Lambda { parameters, signature, body, input, env } => {
                let arguments = match signature {
                    Some(signature) => signature.validate(arguments, context, &self.meter)?,
                    None => arguments,
                };
                let mut given = arguments.into_iter();
                let bindings = parameters
                    .iter()
                    .map(|parameter| (parameter.clone(), given.next().unwrap_or(Val::Undefined)))
                    .collect();
                self.evaluate(*body, input, &Frame::inside(env, bindings)?)
            }
            FunctionKind::Partial { function, arguments: bound } => {
                let mut given = arguments.into_iter();
                let arguments = bound
                    .iter()
                    .map(|argument| argument.clone().or_else(|| given.next()).unwrap_or(Val::Undefined))
                    .collect();
                self.apply(&Val::Function(function.clone()), arguments, &Val::Null, None)
            }
            FunctionKind::Chain(first, second) => {
                let outside = self.enter()?;
                let value = self.invoke(first, arguments.into_iter().take(1).collect())?;
                self.depth.set(outside);
                self.invoke(second, vec![value])
            }
            FunctionKind::Transform { node, env } => {
                let arguments = transform_signature().validate(arguments, context, &self.meter)?;
                self.transform(*node, env, arguments.first().unwrap_or(&Val::Undefined))
            }
            FunctionKind::Regex(regex) => match arguments.first() {
                Some(Val::String(text)) => self.find_match(regex, text, 0, false),
                _ => Ok(Val::Undefined),
            },
            FunctionKind::Next { regex, text, from } => self.find_match(regex, text, *from, true),
            FunctionKind::TailCall { .. } => Ok(Val::Function(function.clone())),
        }
    }

    /// `$f(1, ?)`
    pub(super) fn partial(
        &self,
        procedure: NodeId,
        arguments: &[Option<NodeId>],
        input: &Val,
        env: &Env,
    ) -> Fallible<Val> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(argument.map(|argument| self.evaluate(argument, input, env)).transpose()?);
        }
        let function = self.evaluate(procedure, input, env)?;
        let Val::Function(function) = function else {
            let name = name_of(self.ast.node(procedure), self.ast);
            let is_name = function.is_undefined() && self.is_missing_dollar(procedure, env)?;
            let code = if is_name { "T1007" } else { "T1008" };
            return Err(Error::new(code).or_token(name.as_ref()));
        };
        if let FunctionKind::Lambda { parameters, body, input, env, .. } = &function.kind {
            let mut open = Vec::new();
            let mut bindings = Vec::new();
            let mut depth = input.depth();
            for (at, parameter) in parameters.iter().enumerate() {
                match values.get(at) {
                    Some(None) => open.push(parameter.clone()),
                    given => {
                        let value = given.cloned().flatten().unwrap_or(Val::Undefined);
                        depth = depth.max(value.depth());
                        bindings.push((parameter.clone(), value));
                    }
                }
            }
            let env = Frame::inside(env, bindings)?;
            self.capture(&env)?;
            let kind = FunctionKind::Lambda {
                parameters: open.into(),
                signature: None,
                body: *body,
                input: input.clone(),
                env,
            };
            return self.function(kind, depth + 1);
        }
        let depth = values.iter().flatten().map(Val::depth).max().unwrap_or(0).max(function.depth) + 1;
        self.function(FunctionKind::Partial { function, arguments: values }, depth)
    }
}

/// The signature of a transform.
fn transform_signature() -> &'static Signature {
    static SIGNATURE: LazyLock<Signature> =
        LazyLock::new(|| Signature::parse("<(oa):o>").expect("our own signature is well formed"));
    &SIGNATURE
}
