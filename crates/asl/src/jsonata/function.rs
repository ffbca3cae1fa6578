//! Functions as values, and the bindings they see.

use super::ast::NodeId;
use super::error::{Error, Fallible};
use super::library::Builtin;
use super::meter::Charge;
use super::regex::Regex;
use super::signature::Signature;
use super::value::{Str, Val};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A function value.
pub(super) struct Function {
    pub(super) kind: FunctionKind,
    /// The depth of the values that it holds, as with arrays and objects.
    pub(super) depth: u16,
    /// Its counted size while it lives.
    pub(super) _charge: Charge,
}

/// The kinds of functions.
pub(super) enum FunctionKind {
    /// One of the library.
    Builtin(Builtin),
    /// One that the expression defines, or the rest of it after some arguments are given.
    Lambda {
        parameters: Arc<[Arc<str>]>,
        signature: Option<Arc<Signature>>,
        body: NodeId,
        input: Val,
        env: Env,
    },
    /// A call in the last place of a function, for the caller of that function to make.
    TailCall { node: NodeId, input: Val, env: Env },
    /// Any other function with some arguments given.
    Partial { function: Rc<Function>, arguments: Vec<Option<Val>> },
    /// `$f ~> $g`
    Chain(Rc<Function>, Rc<Function>),
    /// `|pattern|update|`
    Transform { node: NodeId, env: Env },
    /// `/…/`
    Regex(Arc<Regex>),
    /// Finds the next match.
    Next { regex: Arc<Regex>, text: Str, from: usize },
}

impl Function {
    /// How many arguments it names; callers pass no more than that.
    pub(super) fn arity(&self) -> usize {
        match &self.kind {
            FunctionKind::Builtin(builtin) => builtin.arity(),
            FunctionKind::Lambda { parameters, .. } => parameters.len(),
            FunctionKind::Partial { arguments, .. } => {
                arguments.iter().filter(|argument| argument.is_none()).count()
            }
            FunctionKind::Chain(..) | FunctionKind::Transform { .. } => 1,
            FunctionKind::Regex(_) => 2,
            FunctionKind::Next { .. } | FunctionKind::TailCall { .. } => 0,
        }
    }
}

/// A scope that functions may hold on to.
pub(super) type Env = Rc<Frame>;

/// How many scopes may be nested: a name may have to be looked up in all of them.
const SCOPES_MAX: u16 = 256;

/// Up to this many names a scan is faster than an index.
const SCANNED_MAX: usize = 12;

/// The names that one block, call or tuple binds, and the scope around it.
pub(super) struct Frame {
    parent: Option<Env>,
    depth: u16,
    names: RefCell<Names>,
    /// Whether a function holds it: then it lives until the evaluation ends.
    pub(super) is_captured: Cell<bool>,
}

enum Names {
    Few(Vec<(Arc<str>, Val)>),
    Many(BTreeMap<Arc<str>, Val>),
}

impl Frame {
    /// The outermost scope.
    pub(super) fn outermost() -> Env {
        let names = RefCell::new(Names::Few(Vec::new()));
        Rc::new(Self { parent: None, depth: 0, names, is_captured: Cell::new(false) })
    }

    /// A scope inside another.
    pub(super) fn inside(parent: &Env, bindings: Vec<(Arc<str>, Val)>) -> Fallible<Env> {
        let depth = parent.depth + 1;
        if depth > SCOPES_MAX {
            return Err(Error::stack());
        }
        let names = RefCell::new(Names::Few(bindings));
        Ok(Rc::new(Self { parent: Some(parent.clone()), depth, names, is_captured: Cell::new(false) }))
    }

    pub(super) fn bind(&self, name: &Arc<str>, value: Val) {
        let mut names = self.names.borrow_mut();
        if let Names::Few(few) = &mut *names {
            if let Some((_, known)) = few.iter_mut().find(|(known, _)| known == name) {
                *known = value;
                return;
            }
            if few.len() < SCANNED_MAX {
                few.push((name.clone(), value));
                return;
            }
            *names = Names::Many(std::mem::take(few).into_iter().collect());
        }
        if let Names::Many(many) = &mut *names {
            many.insert(name.clone(), value);
        }
    }

    /// The value of a name here; `None` if it is not bound.
    pub(super) fn lookup(&self, name: &str) -> Option<Val> {
        let mut frame = self;
        loop {
            let found = match &*frame.names.borrow() {
                Names::Few(few) => {
                    few.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.clone())
                }
                Names::Many(many) => many.get(name).cloned(),
            };
            if found.is_some() {
                return found;
            }
            frame = frame.parent.as_deref()?;
        }
    }

    /// How many names it binds.
    pub(super) fn len(&self) -> usize {
        match &*self.names.borrow() {
            Names::Few(few) => few.len(),
            Names::Many(many) => many.len(),
        }
    }

    /// Forgets everything. Functions and the scopes they hold may form reference cycles.
    pub(super) fn clear(&self) {
        let names = self.names.replace(Names::Few(Vec::new()));
        drop(names);
    }
}
