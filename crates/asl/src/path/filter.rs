//! The contents of `[?(…)]`.

use super::step::Step;
use crate::json::Value;
use regex::Regex;

/// A condition on one value, `@`.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    /// `a && b`
    All(Vec<Filter>),
    /// `a || b`
    Any(Vec<Filter>),
    /// `!(a)`, `!@.b`
    Not(Box<Filter>),
    /// `@.a`: something is there, be it `null`.
    Exists(Query),
    /// `a == b`
    Compare { left: Operand, operator: Operator, right: Operand },
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// `'text'`, `1`, `true`, `null`, `['a', 'b']`
    Literal(Value),
    /// `/pattern/i`
    Pattern(Regex),
    /// `@.a`, `$.b`
    Query(Query),
}

/// A path inside of a filter.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// `$`, not `@`.
    pub(super) from_root: bool,
    pub(super) steps: Vec<Step>,
    pub(super) definite: bool,
}

/// The operators of comparisons; the words are Jayway's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operator {
    /// `==`: numbers and texts may be equal, `1 == '1'`.
    Equal,
    /// `===`: only values of one type are equal.
    Same,
    /// `!=`
    NotEqual,
    /// `!==`
    NotSame,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `=~`: the whole text matches.
    Matches,
    /// The operators that search the list on the right.
    Of(Membership),
    /// `all`: the left list has all values of the right one.
    All,
    /// `size`
    Size,
    /// `empty`
    Empty,
    /// `contains`
    Contains,
}

/// The relation of a value, or of each value of a list, to a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Membership {
    /// `in`
    In,
    /// `nin`
    NotIn,
    /// `subsetof`
    Subset,
    /// `anyof`
    Any,
    /// `noneof`
    NoneOf,
}

impl Operator {
    /// Operators written with signs, longer ones first.
    pub(super) const SIGNS: [(&str, Self); 9] = [
        ("===", Self::Same),
        ("!==", Self::NotSame),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::LessOrEqual),
        (">=", Self::GreaterOrEqual),
        ("=~", Self::Matches),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    /// Operators written as words.
    pub(super) const WORDS: [(&str, Self); 9] = [
        ("in", Self::Of(Membership::In)),
        ("nin", Self::Of(Membership::NotIn)),
        ("subsetof", Self::Of(Membership::Subset)),
        ("anyof", Self::Of(Membership::Any)),
        ("noneof", Self::Of(Membership::NoneOf)),
        ("all", Self::All),
        ("size", Self::Size),
        ("empty", Self::Empty),
        ("contains", Self::Contains),
    ];
}
