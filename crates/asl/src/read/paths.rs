//! Paths in fields of their own: `InputPath`, `ResultPath`, `TimeoutSecondsPath`.

use super::Reader;
use super::at::At;
use super::template::is_expression;
use super::value::{Range, USE_JSONATA};
use crate::intrinsic::Intrinsic;
use crate::machine::{Placement, QueryLanguage, Scalar, Selection};
use crate::node::{Member, Node, NodeKind, find};
use crate::path::{Path, ReferencePath};

/// The allowed roots of a path, and whether it must lead to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    /// Any.
    Any,
    /// One value.
    Reference,
    /// One value, not of the context object.
    ReferenceInInput,
}

impl<'n> Reader<'n> {
    /// A path as a string.
    pub(super) fn path(&mut self, node: &'n Node, at: &At<'_>, kind: PathKind) -> Option<Path> {
        let text = self.string(node, at)?;
        let refused = match kind {
            PathKind::Any => "Value must be a valid JSONPath.",
            PathKind::Reference | PathKind::ReferenceInInput => "Value is not a Reference Path",
        };
        let problem = if !text.starts_with('$') && kind != PathKind::Any {
            (node.span, "Reference path didn't start with '$'".to_owned())
        } else if kind == PathKind::ReferenceInInput && text.starts_with("$$") {
            (node.span, "the context object has no place here".to_owned())
        } else {
            match Path::parse(text) {
                Ok(path) if kind == PathKind::Any || path.is_definite() => {
                    self.reads_path(&path, at, node.span);
                    return Some(path);
                }
                Ok(_) => (node.span, "it may lead to several values".to_owned()),
                Err(error) => (self.inside(node, text, error.at), error.message),
            }
        };
        let (span, detail) = problem;
        let is_expression = is_expression(text);
        let found = match kind {
            PathKind::Any => self.findings.shape(at, span, refused).hint(detail),
            PathKind::Reference | PathKind::ReferenceInInput => {
                self.findings.shape(at, span, format!("{refused}: {detail}"))
            }
        };
        if is_expression {
            found.hint(USE_JSONATA);
        }
        None
    }

    /// `InputPath`, `OutputPath`
    pub(super) fn selection(&mut self, member: Option<&'n Member>, at: &At<'_>) -> Selection {
        let Some(member) = member else { return Selection::Whole };
        match &member.value.kind {
            NodeKind::Null => Selection::Nothing,
            NodeKind::String(text) if &**text == "$" => Selection::Whole,
            _ => {
                let path = self.path(&member.value, &at.member(member), PathKind::Any);
                path.map_or(Selection::Whole, Selection::Path)
            }
        }
    }

    /// `ResultPath`
    pub(super) fn placement(&mut self, member: Option<&'n Member>, at: &At<'_>) -> Placement {
        let Some(member) = member else { return Placement::Replace };
        let (node, place) = (&member.value, at.member(member));
        let text = match &node.kind {
            NodeKind::Null => return Placement::Discard,
            NodeKind::String(text) if &**text == "$" => return Placement::Replace,
            NodeKind::String(text) => text,
            _ => {
                self.wrong_type(node, &place, "[STRING]");
                return Placement::Replace;
            }
        };
        let (span, detail) = if !text.starts_with('$') {
            (node.span, "Reference path didn't start with '$'".to_owned())
        } else if !text.starts_with("$.") && !text.starts_with("$[") {
            (node.span, "a result goes into the state's input, so this begins with `$.`".to_owned())
        } else {
            match ReferencePath::parse(text) {
                Ok(path) => return Placement::At(path),
                Err(error) => (self.inside(node, text, error.at), error.message),
            }
        };
        self.findings.shape(&place, span, format!("Value is not a Reference Path: {detail}"));
        Placement::Replace
    }

    /// A path or an intrinsic function: `ErrorPath`, `CausePath`.
    pub(super) fn path_or_intrinsic(&mut self, node: &'n Node, at: &At<'_>) -> Option<Scalar> {
        let text = self.string(node, at)?;
        if !text.starts_with("States.") {
            return self.path(node, at, PathKind::Reference).map(Scalar::Path);
        }
        match Intrinsic::parse(text) {
            Ok(intrinsic) => {
                self.reads_intrinsic(&intrinsic, at, node.span);
                Some(Scalar::Intrinsic(intrinsic))
            }
            Err(error) => {
                let span = self.inside(node, text, error.at);
                let message = "Value must be a valid JSONPath or a valid intrinsic function call";
                self.findings.shape(at, span, message).hint(error.message);
                None
            }
        }
    }

    /// A number that may be written, be computed, or be found by a path.
    pub(super) fn scalar(
        &mut self,
        [name, path_name]: [&str; 2],
        members: &'n [Member],
        at: &At<'_>,
        range: Range,
        kind: PathKind,
    ) -> Option<Scalar> {
        let is_jsonpath = self.language == QueryLanguage::JsonPath;
        if is_jsonpath {
            self.at_most_one(&[name, path_name], members, at);
        }
        if let Some(member) = find(members, path_name).filter(|_| is_jsonpath) {
            return self.path(&member.value, &at.member(member), kind).map(Scalar::Path);
        }
        let member = find(members, name)?;
        let (node, place) = (&member.value, at.member(member));
        if self.is_written_expression(node) {
            return self.written_expression(node, &place);
        }
        self.number_value(node, &place, range).map(Scalar::Literal)
    }
}
