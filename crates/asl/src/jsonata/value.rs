//! Values while an expression runs.
//!
//! Values from outside are shared, never converted: an array or object of the input is the same allocation here. Values
//! that the expression builds may also contain functions and undefined, are counted by the [`Meter`], and know their
//! depth, so that walking or dropping them cannot exhaust the stack.

mod compare;
mod list;
mod record;

pub(super) use compare::{compare_text, equal, truth};
pub(super) use list::{Array, Flags, List};
pub(super) use record::{Object, Record};

use super::error::{Error, Fallible};
use super::function::Function;
use super::meter::{Charge, Meter, TEXT_FREE_BYTES};
use crate::json::{Number, Value};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// How deep built values may nest.
pub(super) const DEPTH_MAX: u16 = 256;

/// Any value of JSONata.
#[derive(Clone)]
pub(super) enum Val {
    /// Nothing: a path that led nowhere.
    Undefined,
    Null,
    Bool(bool),
    /// Any number that a double holds exactly.
    Number(f64),
    /// A number from outside that a double would round, or a zero with a sign: it stays as written until an operation
    /// computes with it.
    Exact(Number),
    String(Str),
    Array(Array),
    Object(Object),
    Function(Rc<Function>),
}

/// A string: of the input, or built and counted.
#[derive(Clone)]
pub(super) enum Str {
    Shared(Arc<str>),
    Held(Rc<(Arc<str>, Charge)>),
}

impl Str {
    /// The text as JSON values hold it.
    pub(super) fn shared(&self) -> Arc<str> {
        match self {
            Self::Shared(text) => text.clone(),
            Self::Held(held) => held.0.clone(),
        }
    }
}

impl Deref for Str {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Shared(text) => text,
            Self::Held(held) => &held.0,
        }
    }
}

/// Text that is being written, counted as it grows.
pub(super) struct Text {
    out: String,
    charge: Charge,
}

impl Text {
    pub(super) fn new(meter: &Rc<Meter>) -> Fallible<Self> {
        Ok(Self { out: String::new(), charge: meter.hold(0)? })
    }

    pub(super) fn push(&mut self, text: &str) -> Fallible<()> {
        self.charge.grow(2 * text.len())?;
        self.charge.meter().text(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    /// Counts the work of finding out what to write.
    pub(super) fn work(&self, units: u64) -> Fallible<()> {
        self.charge.meter().work(units)
    }

    /// Appends `text` `times` times, refusing before it allocates.
    pub(super) fn repeat(&mut self, text: &str, times: usize) -> Fallible<()> {
        let bytes = text.len().saturating_mul(times);
        self.charge.grow(bytes.saturating_mul(2))?;
        self.charge.meter().text(bytes)?;
        for _ in 0..times {
            self.out.push_str(text);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Val {
        Val::String(if self.out.len() <= TEXT_FREE_BYTES {
            Str::Shared(self.out.into())
        } else {
            Str::Held(Rc::new((self.out.into(), self.charge)))
        })
    }
}

impl Val {
    /// The depth of built values; the parser limits that of values from outside.
    pub(super) fn depth(&self) -> u16 {
        match self {
            Self::Array(array) => array.depth(),
            Self::Object(object) => object.depth(),
            Self::Function(function) => function.depth,
            _ => 0,
        }
    }

    pub(super) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    pub(super) fn is_function(&self) -> bool {
        matches!(self, Self::Function(_))
    }

    /// The double, if it is a number at all.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Exact(number) => Some(number.as_f64()),
            _ => None,
        }
    }

    pub(super) fn str(&self) -> Option<&Str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(super) fn array(&self) -> Option<&Array> {
        if let Self::Array(array) = self { Some(array) } else { None }
    }

    /// Whether it is a number, by the reference's test: infinity is an error.
    pub(super) fn is_numeric(&self) -> Fallible<bool> {
        match self.number() {
            Some(number) if number.is_nan() => Ok(false),
            Some(number) if number.is_infinite() => Err(Error::new("D1001").value("null".to_owned())),
            other => Ok(other.is_some()),
        }
    }

    /// A string that is part of the program or of the input, so that it need not be counted.
    pub(super) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Str::Shared(text.into()))
    }

    /// A string that was built.
    pub(super) fn built(meter: &Rc<Meter>, text: &str) -> Fallible<Self> {
        let mut out = Text::new(meter)?;
        out.push(text)?;
        Ok(out.finish())
    }

    pub(super) fn count(count: usize) -> Self {
        Self::Number(count as f64)
    }
}

/// Shares; only numbers are looked at.
impl From<&Value> for Val {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => Self::from(number),
            Value::String(text) => Self::String(Str::Shared(text.clone())),
            Value::Array(items) => Self::Array(Array::given(items)),
            Value::Object(map) => Self::Object(Object::Json(map.clone())),
        }
    }
}

impl From<&Number> for Val {
    fn from(number: &Number) -> Self {
        const EXACT: u64 = 1 << 53;
        match number {
            Number::Int(int) if int.unsigned_abs() <= EXACT => Self::Number(*int as f64),
            Number::Float(float) if !number.is_signed_zero() => Self::Number(*float),
            Number::Written(float, _) if *float != 0.0 => Self::Number(*float),
            Number::Int(_) | Number::Float(_) | Number::Written(..) | Number::Big(_) => {
                Self::Exact(number.clone())
            }
        }
    }
}

impl From<f64> for Val {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Val {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

/// The depth of a value that contains `item`.
fn deeper(item: &Val) -> Fallible<u16> {
    let depth = item.depth() + 1;
    if depth > DEPTH_MAX { Err(Error::stack()) } else { Ok(depth) }
}
