//! `JSONPath` in Step Functions' dialect, and Reference Paths for writing.
//!
//! Step Functions gives its paths to Jayway's Java library, so that library defines the dialect: names that RFC 9535
//! refuses (`$.x-y`, `$.a.['b c']`), filters with words (`in`, `subsetof`, `=~`), several names that return one object.
//! Where Jayway's answer is an accident of its code (a slice such as `[1:-1]`, whether a path with many answers
//! exists), ours follows the text; `docs/jsonpath.md` lists these places.
//!
//! A path is *definite* when it can lead to one place only. It then gives the value there, or `None`. Any other path
//! gives a list, empty if nothing matched. The work is limited for every path and all data: after [`WORK_MAX`] values
//! the path gives `None`.

pub(crate) mod cursor;
mod filter;
mod judge;
mod members;
pub(crate) mod parse;
mod parse_filter;
mod reference;
mod step;
mod walk;

pub use parse::{NESTING_MAX, STEPS_MAX};
pub use reference::ReferencePath;
pub use walk::WORK_MAX;

use crate::json::{SyntaxError, Value};
use crate::scope::{Failure, Scope};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use step::Step;

/// Units of [`crate::scope::Dice::spent`] for one value.
const LOOK: u64 = 8;

/// A parsed path: `$.a[0]`, `$$.Execution.Id`, `$variable.member`.
#[derive(Clone, Debug)]
pub struct Path {
    text: Arc<str>,
    root: Root,
    steps: Arc<[Step]>,
    definite: bool,
}

/// The root of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// `$`
    Input,
    /// `$$`
    Context,
    /// `$name`
    Variable(Arc<str>),
}

impl Path {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let (root, steps) = parse::whole(text)?;
        Ok(Self::new(text, root, steps))
    }

    pub(crate) fn new(text: &str, root: Root, steps: Vec<Step>) -> Self {
        Self { text: text.into(), root, definite: step::are_definite(&steps), steps: steps.into() }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its root.
    pub fn root(&self) -> Root {
        self.root.clone()
    }

    /// Whether it is only its root: `$`, `$$` or `$name`.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// In the bracket form that Step Functions shows in errors: `$['a'][0]`.
    pub fn normalized(&self) -> String {
        let mut text = match &self.root {
            Root::Input | Root::Context => "$".to_owned(),
            Root::Variable(name) => format!("${name}"),
        };
        for step in self.steps.iter() {
            write!(text, "{step}").expect("writing to a String cannot fail");
        }
        text
    }

    /// The sentence for a path that leads nowhere, with the missing part.
    pub fn not_found(&self, scope: &Scope<'_>) -> String {
        let prefix = |count: usize| Self { steps: self.steps[..count].into(), ..self.clone() };
        let missing =
            (1..self.steps.len()).map(prefix).find(|path| path.definite && path.select(scope).is_none());
        match missing {
            Some(part) => {
                format!("Invalid path '{}' : Missing property in path {}", self.text, part.normalized())
            }
            None => format!("Invalid path '{}' : No results for path: {}", self.text, self.normalized()),
        }
    }

    /// Whether it can lead to one place only; if not, it always gives a list.
    pub fn is_definite(&self) -> bool {
        self.definite
    }

    /// The selected value. `None`: a definite path that leads nowhere, or a variable that is not set. An error: the
    /// work limit is exceeded.
    pub fn look(&self, scope: &Scope<'_>) -> Result<Option<Value>, Failure> {
        let found = self.select(scope);
        scope.dice.check().map(|()| found)
    }

    /// The same, but `None` if the work limit is exceeded.
    pub fn select(&self, scope: &Scope<'_>) -> Option<Value> {
        let most = usize::try_from(scope.dice.left() / LOOK).map_or(WORK_MAX, |most| most.min(WORK_MAX));
        let (found, looked_at) = match &self.root {
            Root::Input => self.walk(scope.input, most),
            Root::Variable(name) => self.walk(scope.variables.get(name)?, most),
            Root::Context => match self.hidden(scope) {
                Some(hidden) => (Some(hidden), self.steps.len()),
                None => self.walk(&scope.context.whole(), most),
            },
        };
        scope.dice.spend((1 + looked_at as u64) * LOOK);
        found
    }

    /// The selected value in a payload template. There AWS gives `null` for an index outside of its array, where
    /// everywhere else the path leads nowhere.
    pub fn look_in_template(&self, scope: &Scope<'_>) -> Result<Option<Value>, Failure> {
        let found = self.look(scope)?;
        Ok(found.or_else(|| {
            let (Step::Index(_), steps) = self.steps.split_last()? else { return None };
            let array = Self { steps: steps.into(), ..self.clone() }.select(scope)?;
            (self.definite && array.as_array().is_some()).then_some(Value::Null)
        }))
    }

    /// The selected value in `root`, whatever the path's own root is.
    pub fn select_from(&self, root: &Value) -> Option<Value> {
        self.walk(root, WORK_MAX).0
    }

    /// The selected value in `root`, and how many values were looked at, hardly more than `most`.
    fn walk(&self, root: &Value, most: usize) -> (Option<Value>, usize) {
        if self.definite {
            let found = walk::definite(root, &self.steps).map(Cow::into_owned).or_else(|| self.length(root));
            return (found, self.steps.len());
        }
        walk::list(root, &self.steps, most)
    }

    /// Our one extension: `.length` at the end of a definite path is the length of an array.
    fn length(&self, root: &Value) -> Option<Value> {
        let (Step::Name(name), steps) = self.steps.split_last()? else { return None };
        let array = walk::definite(root, steps).filter(|_| &**name == "length")?;
        array.as_array().map(|items| items.len().into())
    }

    fn hidden(&self, scope: &Scope<'_>) -> Option<Value> {
        let names: Option<Vec<&str>> = self.steps.iter().map(Step::name).collect();
        names.filter(|names| !names.is_empty()).and_then(|names| scope.context.hidden(&names))
    }
}
