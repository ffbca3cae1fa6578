//! The steps of a path.

use super::filter::Filter;
use std::fmt;
use std::sync::Arc;

/// One step from a value to values inside of it.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// `.name`, `['name']`
    Name(Arc<str>),
    /// `['a','b']`: at the end of a path an object of these members, before that each of them.
    Names(Arc<[Arc<str>]>),
    /// `[0]`; `[-1]` counts from the end.
    Index(i64),
    /// `[0,2]`
    Indices(Arc<[i64]>),
    /// `[1:3]`, with either end open.
    Slice { from: Option<i64>, to: Option<i64> },
    /// `.*`, `[*]`
    Every,
    /// `[?(…)]`
    Filter(Arc<Filter>),
    /// `..`: the next step, applied here and everywhere below. Never the last step.
    Descend,
}

impl Step {
    /// The name, if this step is a single one.
    pub(crate) fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

/// Whether these steps can lead to one place only.
pub(crate) fn are_definite(steps: &[Step]) -> bool {
    steps.iter().enumerate().all(|(at, step)| match step {
        Step::Name(_) | Step::Index(_) => true,
        Step::Names(_) => at + 1 == steps.len(),
        Step::Indices(_) | Step::Slice { .. } | Step::Every | Step::Filter(_) | Step::Descend => false,
    })
}

/// In the bracket form of Jayway's messages.
impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &Arc<str>| format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"));
        let end = |index: &Option<i64>| index.map_or(String::new(), |index| index.to_string());
        match self {
            Self::Name(name) => write!(out, "[{}]", quoted(name)),
            Self::Names(names) => write!(out, "[{}]", names.iter().map(quoted).collect::<Vec<_>>().join(",")),
            Self::Index(index) => write!(out, "[{index}]"),
            Self::Indices(indices) => {
                write!(out, "[{}]", indices.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
            }
            Self::Slice { from, to } => write!(out, "[{}:{}]", end(from), end(to)),
            Self::Every => out.write_str("[*]"),
            Self::Filter(_) => out.write_str("[?]"),
            Self::Descend => out.write_str(".."),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::path::Path;

    #[test]
    fn a_path_is_shown_as_jayway_shows_it() {
        for (text, shown) in [
            ("$", "$"),
            ("$.a[0]['it\\'s']", "$['a'][0]['it\\'s']"),
            ("$$.Map.Item", "$['Map']['Item']"),
            ("$order.lines", "$order['lines']"),
            ("$..a['b','c'][1,-2].*", "$..['a']['b','c'][1,-2][*]"),
            ("$[1:][:2][3:4][?(@.a)]", "$[1:][:2][3:4][?]"),
        ] {
            assert_eq!(Path::parse(text).unwrap().normalized(), shown);
        }
    }
}
