//! The parser's position in the definition.
//!
//! A chain of borrowed steps: only a diagnostic turns it into text.

use crate::node::{Member, Node};
use crate::source::Span;

/// How much of one name a location quotes.
const QUOTED_MAX: usize = 200;

/// A place in the tree of the definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
    /// The span to underline for the whole place: its name, not all of its content.
    pub(super) span: Span,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// The beginning of a chain: the location so far, empty for the whole definition.
    Base(&'a str),
    Field(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    /// The beginning of a chain.
    pub(super) fn base(pointer: &'a str, span: Span) -> Self {
        Self { parent: None, step: Step::Base(pointer), span }
    }

    /// A member of what stands here.
    pub(super) fn member(&'a self, member: &'a Member) -> At<'a> {
        At { parent: Some(self), step: Step::Field(&member.key), span: member.key_span }
    }

    /// An item of the array that stands here.
    pub(super) fn item(&'a self, index: usize, node: &Node) -> At<'a> {
        let span = Span::new(node.span.start, node.span.end.min(node.span.start + 1));
        At { parent: Some(self), step: Step::Index(index), span }
    }

    /// The location as AWS writes it.
    pub(super) fn pointer(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        if out.is_empty() {
            out.push('/');
        }
        out
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            Step::Base(pointer) => out.push_str(pointer),
            Step::Field(name) => {
                out.push('/');
                out.push_str(&quoted(name));
            }
            Step::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
}

/// A name for a sentence: a very long one is cut.
pub(super) fn quoted(name: &str) -> std::borrow::Cow<'_, str> {
    match name.char_indices().nth(QUOTED_MAX) {
        None => name.into(),
        Some((end, _)) => format!("{}…", &name[..end]).into(),
    }
}
