//! Reference Paths: names and indices only, for writing.

use super::Root;
use super::cursor::Cursor;
use super::parse;
use super::step::Step;
use crate::json::{DEPTH_MAX, SyntaxError, Value};
use crate::scope::Failure;
use std::sync::Arc;

/// AWS's error when a `ResultPath` does not fit its input. The specification calls it `States.ResultPathMatchFailure`;
/// the service never uses that name.
const CONFLICT: &str = "States.ReferencePathConflict";

/// A path of names and indices only, for writing.
#[derive(Clone, Debug)]
pub struct ReferencePath {
    text: Arc<str>,
    steps: Arc<[Member]>,
}

/// A member of an object or of a list.
#[derive(Clone, Debug)]
enum Member {
    Name(Arc<str>),
    Index(usize),
}

impl ReferencePath {
    /// Reads a reference path.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let (root, steps) = parse::whole_with(text, |at, step| match step {
            Step::Name(name) => Ok(Member::Name(name)),
            Step::Index(index @ 0..) => Ok(Member::Index(index as usize)),
            Step::Index(_)
            | Step::Names(_)
            | Step::Indices(_)
            | Step::Slice { .. }
            | Step::Every
            | Step::Filter(_)
            | Step::Descend => Cursor::error(
                at,
                "a Reference Path leads to one place: it has names and indices from 0 on, and no `*`, `..`, \
                 `,`, `:` or `?`",
            ),
        })?;
        match root {
            Root::Context => Cursor::error(0, "the context object cannot be written to; begin with `$.`"),
            Root::Variable(name) => {
                Cursor::error(0, format!("the variable ${name} cannot be written to here; use Assign"))
            }
            Root::Input if steps.len() > DEPTH_MAX => {
                Cursor::error(0, format!("a Reference Path has at most {DEPTH_MAX} steps"))
            }
            Root::Input => Ok(Self { text: text.into(), steps: steps.into() }),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is just `$`: what is put there replaces everything.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// `target` with `value` at this place; missing parts on the way are created.
    pub fn put(&self, mut target: Value, value: Value) -> Result<Value, Failure> {
        self.check(&target)?;
        let mut here = &mut target;
        for step in self.steps.iter() {
            here = match (step, here) {
                (Member::Name(name), Value::Object(map)) => {
                    let map = Arc::make_mut(map);
                    if !map.contains_key(name) {
                        map.insert(name.clone(), Value::empty_object());
                    }
                    map.get_mut(name).expect("it is there, or was just made")
                }
                (Member::Index(index), Value::Array(items)) => &mut Arc::make_mut(items)[*index],
                (Member::Name(_) | Member::Index(_), other) => other, // check has ruled it out
            };
        }
        *here = value;
        Ok(target)
    }

    /// Checks that every step fits. Nothing is copied before.
    fn check(&self, target: &Value) -> Result<(), Failure> {
        let mut here = Some(target);
        for step in self.steps.iter() {
            here = match (step, here) {
                (Member::Name(_), None) => None,
                (Member::Name(name), Some(Value::Object(map))) => map.get(name),
                (Member::Index(index), Some(Value::Array(items))) if *index < items.len() => {
                    Some(&items[*index])
                }
                _ => return Err(Failure::new(CONFLICT, step.conflict(target))),
            };
        }
        Ok(())
    }
}

impl Member {
    fn conflict(&self, input: &Value) -> String {
        match self {
            Self::Name(name) => format!("Unable to apply step \"{name}\" to input {input}"),
            Self::Index(index) => format!("Unable to apply step \"[{index}]\" to input {input}"),
        }
    }
}
