//! An expression, ready to be evaluated.
//!
//! Nodes are in one arena and refer to each other by index. So a function value can hold its body, threads share the
//! whole, and dropping it needs no recursion however deep it is nested.

use super::library::Builtin;
use super::plain::Plain;
use super::regex::Regex;
use super::signature::Signature;
use std::sync::Arc;

/// Which node.
pub(super) type NodeId = u32;

/// All nodes of one expression.
#[derive(Debug, Default)]
pub(super) struct Ast {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
}

impl Ast {
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }
}

/// One node with the parts that any node can have.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// The byte at which it is written.
    pub(super) at: u32,
    /// `[]` follows: a sequence of one stays an array.
    pub(super) keep_array: bool,
    /// An array constructor that is a step of its own.
    pub(super) cons_array: bool,
    /// Evaluated as a stream of tuples.
    pub(super) tuple: bool,
    /// Filters on anything except a step of a path.
    pub(super) predicates: Vec<NodeId>,
    /// Filters and positions on a step of a path.
    pub(super) stages: Vec<Stage>,
    /// `{…}` after it.
    pub(super) group: Option<Vec<(NodeId, NodeId)>>,
    /// `@$name`
    pub(super) focus: Option<Arc<str>>,
    /// `#$name`
    pub(super) index: Option<Arc<str>>,
    /// The label under which its input is kept, for a later `%`.
    pub(super) ancestor: Option<Arc<str>>,
}

/// A filter or index after a step.
#[derive(Debug)]
pub(super) enum Stage {
    Filter(NodeId),
    Index(Arc<str>),
}

/// The kinds of nodes.
#[derive(Debug, Default)]
pub(super) enum Kind {
    #[default]
    Null,
    Bool(bool),
    Number(f64),
    String(Arc<str>),
    Regex(Arc<Regex>),
    Name(Arc<str>),
    /// `$`, the context.
    Context,
    Variable {
        name: Arc<str>,
        builtin: Option<Builtin>,
    },
    Wildcard,
    Descendants,
    /// `%`, by the label of the earlier step.
    Parent(Arc<str>),
    Path {
        steps: Vec<NodeId>,
        keep_singleton: bool,
        /// The part at its beginning that needs no evaluator.
        plain: Option<Plain>,
    },
    Binary {
        operator: Operator,
        lhs: NodeId,
        rhs: NodeId,
    },
    Negate(NodeId),
    Array(Vec<NodeId>),
    Object(Vec<(NodeId, NodeId)>),
    Block(Vec<NodeId>),
    Bind {
        name: Arc<str>,
        value: NodeId,
    },
    Condition {
        condition: NodeId,
        then: NodeId,
        otherwise: Option<NodeId>,
    },
    Call {
        procedure: NodeId,
        arguments: Vec<NodeId>,
    },
    /// A call with `?` for some arguments.
    Partial {
        procedure: NodeId,
        arguments: Vec<Option<NodeId>>,
    },
    Lambda(Lambda),
    /// A call in the last place of a function: returned to the caller of that function, so that it does not nest.
    TailCall {
        procedure: NodeId,
        arguments: Vec<NodeId>,
    },
    Apply {
        lhs: NodeId,
        rhs: NodeId,
    },
    Transform {
        pattern: NodeId,
        update: NodeId,
        delete: Option<NodeId>,
    },
    /// `^(…)`, a step of a path: terms, each with whether it descends.
    Sort(Vec<(NodeId, bool)>),
}

/// A function as it is written.
#[derive(Clone, Debug)]
pub(super) struct Lambda {
    pub(super) parameters: Arc<[Arc<str>]>,
    pub(super) signature: Option<Arc<Signature>>,
    pub(super) body: NodeId,
}

/// The binary operators that are left after paths, filters and bindings have become nodes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    In,
    Concat,
    Range,
}

impl Operator {
    pub(super) fn parse(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "%" => Self::Remainder,
            "=" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterEqual,
            "and" => Self::And,
            "or" => Self::Or,
            "in" => Self::In,
            "&" => Self::Concat,
            ".." => Self::Range,
            _ => return None,
        })
    }

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::And => "and",
            Self::Or => "or",
            Self::In => "in",
            Self::Concat => "&",
            Self::Range => "..",
        }
    }
}
