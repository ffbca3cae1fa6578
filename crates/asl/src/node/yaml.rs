//! YAML text to a tree: version 1.2, core schema, one document.
//!
//! `yes` and `no` are strings, dates are strings, and YAML that has no meaning in JSON is refused: keys that are not
//! scalars, `.nan`, unknown tags unless the caller has names for them. Anchors and aliases work, but copies are
//! counted, so that a few lines cannot unfold into millions of values. Merge keys (`<<`) belong to YAML 1.1 and are
//! refused by name.

mod scalar;

use super::{Member, Node, NodeKind, VALUES_MAX, too_many_values};
use crate::diagnostic::{Diagnostic, code};
use crate::json::DEPTH_MAX;
use crate::source::Span;
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span as Marked, StructureStyle, Tag};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many values anchors and aliases may copy in one document.
const COPIES_MAX: usize = 100_000;

type Parsed<T> = Result<T, Box<Diagnostic>>;

/// Parses one YAML document. An empty one is `null`. A tag with a name becomes an object with that member.
pub(super) fn parse(text: &str, named: fn(&str) -> Option<String>) -> Parsed<Node> {
    // One more than the limit, so that our own check reports the depth.
    let options = granit_parser::options! {
        flow_nesting_limit: DEPTH_MAX + 2,
        block_nesting_limit: DEPTH_MAX + 2,
    };
    let mut builder = Builder { text, named: Some(named), ..Builder::default() };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, marked) = event.map_err(|error| syntax(&error, text))?;
        builder.take(event, &marked)?;
    }
    Ok(builder.root.unwrap_or(Node { span: Span::new(text.len(), text.len()), kind: NodeKind::Null }))
}

fn syntax(error: &ScanError, text: &str) -> Box<Diagnostic> {
    let at = error.marker().byte_offset().unwrap_or_default().min(text.len());
    let length = text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    let span = Span::new(at, at + length);
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return too_deep(span);
    }
    Box::new(Diagnostic::error(code::INVALID_YAML_DESCRIPTION, error.info()).at("", span))
}

fn refuse<T>(span: Span, message: impl Into<String>) -> Parsed<T> {
    Err(Box::new(Diagnostic::error(code::INVALID_YAML_DESCRIPTION, message).at("", span)))
}

fn too_deep(span: Span) -> Box<Diagnostic> {
    let message = format!("nested more than {DEPTH_MAX} deep");
    Box::new(Diagnostic::error(code::TOO_DEEPLY_NESTED, message).at("", span))
}

fn span_of(marked: &Marked) -> Span {
    let start = marked.start.byte_offset().unwrap_or_default();
    Span::new(start, marked.end.byte_offset().unwrap_or(start).max(start))
}

/// A collection that is still open.
struct Open {
    start: usize,
    anchor: usize,
    is_block: bool,
    /// The member that it becomes.
    member: Option<Arc<str>>,
    /// How many values were there before it.
    before: usize,
    filling: Filling,
}

enum Filling {
    Array(Vec<Node>),
    Object { members: Vec<Member>, key: Option<(Arc<str>, Span)> },
}

/// A finished node that an alias may name.
struct Anchored {
    node: Node,
    values: usize,
    depth: usize,
}

#[derive(Default)]
struct Builder<'t> {
    text: &'t str,
    named: Option<fn(&str) -> Option<String>>,
    /// How many of those that are open become a member.
    members: usize,
    open: Vec<Open>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Anchored>,
    values: usize,
    copies: usize,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, marked: &Marked) -> Parsed<()> {
        let span = span_of(marked);
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                refuse(span, "a second document begins here; a definition is one document")
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), marked)
            }
            Event::SequenceStart(style, anchor, tag) => {
                let member = self.member(tag.as_deref(), &["seq"], marked)?;
                self.start(span, style, anchor, member, Filling::Array(Vec::new()))
            }
            Event::MappingStart(style, anchor, tag) => {
                let member = self.member(tag.as_deref(), &["map"], marked)?;
                self.start(span, style, anchor, member, Filling::Object { members: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            // Without the features that emit them, other events carry no value.
            _ => Ok(()),
        }
    }

    fn count(&mut self, span: Span) -> Parsed<()> {
        self.values += 1;
        if self.values > VALUES_MAX { Err(too_many_values(span)) } else { Ok(()) }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        marked: &Marked,
    ) -> Parsed<()> {
        let span = span_of(marked);
        self.count(span)?;
        if let Some(Open { filling: Filling::Object { key: key @ None, .. }, .. }) = self.open.last_mut() {
            if text == "<<" && style == ScalarStyle::Plain {
                let mut error = refuse::<()>(span, "merge keys (`<<`) are not supported");
                if let Err(error) = &mut error {
                    error.hint("write the fields out, or use an alias as the whole value of a field");
                }
                return error;
            }
            check_tag(tag, &["str", "int", "float", "bool", "null"], marked)?;
            *key = Some((text.into(), span));
            return Ok(());
        }
        let member = self.member(tag, &["str", "int", "float", "bool", "null"], marked)?;
        let kind = match scalar::resolve(text, style == ScalarStyle::Plain, tag) {
            Ok(kind) => kind,
            Err(message) => return refuse(span, message),
        };
        let depth = usize::from(member.is_some());
        let node = within(member, Node { span, kind });
        self.remember(anchor, &node, 1 + depth, depth)?;
        self.add(node)
    }

    /// The member for a value's tag. Any other tag must be one of the known ones.
    fn member(&mut self, tag: Option<&Tag>, known: &[&str], marked: &Marked) -> Parsed<Option<Arc<str>>> {
        let written = tag.map(ToString::to_string);
        let name = written.as_deref().and_then(|written| written.strip_prefix('!'));
        let name = name.filter(|name| !name.is_empty() && !name.starts_with('!'));
        let member = self.named.and_then(|named| name.and_then(named));
        match &member {
            Some(_) => self.count(span_of(marked))?,
            None => check_tag(tag, known, marked)?,
        }
        Ok(member.map(Into::into))
    }

    fn start(
        &mut self,
        span: Span,
        style: StructureStyle,
        anchor: usize,
        member: Option<Arc<str>>,
        filling: Filling,
    ) -> Parsed<()> {
        self.count(span)?;
        if let Some(Open { filling: Filling::Object { key: None, .. }, .. }) = self.open.last() {
            return refuse(span, "a key must be a scalar");
        }
        self.members += usize::from(member.is_some());
        if self.open.len() + self.members > DEPTH_MAX {
            return Err(too_deep(span));
        }
        let is_block = style == StructureStyle::Block;
        self.open.push(Open { start: span.start, anchor, is_block, member, before: self.values, filling });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Parsed<()> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let (kind, last) = match open.filling {
            Filling::Array(items) => {
                let last = items.last().map(|item| item.span.end);
                (NodeKind::Array(items), last)
            }
            Filling::Object { members, .. } => {
                let last = members.last().map(|member| member.value.span.end.max(member.key_span.end));
                (NodeKind::Object(members), last)
            }
        };
        // The end of a block is noticed only at the beginning of the next node.
        let end = if open.is_block { last.unwrap_or(span.start) } else { span.end };
        self.members -= usize::from(open.member.is_some());
        let node = Node { span: Span::new(open.start, end.max(open.start)), kind };
        let node = within(open.member, node);
        let values = self.values - open.before + 1;
        if open.anchor != 0 {
            let depth = depth(&node);
            self.remember(open.anchor, &node, values, depth)?;
        }
        self.add(node)
    }

    fn add(&mut self, node: Node) -> Parsed<()> {
        match self.open.last_mut().map(|open| &mut open.filling) {
            None => self.root = Some(node),
            Some(Filling::Array(items)) => items.push(node),
            Some(Filling::Object { members, key }) => match key.take() {
                Some((key, key_span)) => members.push(Member { key, key_span, value: node }),
                None => return refuse(node.span, "a key must be a scalar"),
            },
        }
        Ok(())
    }

    fn copy(&mut self, values: usize, span: Span) -> Parsed<()> {
        self.copies = self.copies.saturating_add(values);
        if self.copies > COPIES_MAX {
            return refuse(span, format!("anchors and aliases make more than {COPIES_MAX} copies of values"));
        }
        Ok(())
    }

    fn remember(&mut self, anchor: usize, node: &Node, values: usize, depth: usize) -> Parsed<()> {
        if anchor != 0 {
            self.copy(values, node.span)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), values, depth });
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Parsed<()> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            let name = self.text.get(span.start..span.end).unwrap_or_default();
            return refuse(span, format!("the alias `{name}` stands inside of what it names"));
        };
        if self.open.len() + anchored.depth > DEPTH_MAX {
            return Err(too_deep(span));
        }
        let (values, node) = (anchored.values, anchored.node.clone());
        self.copy(values, span)?;
        self.values += values;
        if self.values > VALUES_MAX {
            return Err(too_many_values(span));
        }
        self.add(node)
    }
}

/// The value, or the object that it is the only member of.
fn within(member: Option<Arc<str>>, value: Node) -> Node {
    let Some(key) = member else { return value };
    let span = value.span;
    Node { span, kind: NodeKind::Object(vec![Member { key, key_span: span, value }]) }
}

/// How many levels of collections stand in each other below this one.
fn depth(node: &Node) -> usize {
    let below = match &node.kind {
        NodeKind::Array(items) => items.iter().map(depth).max(),
        NodeKind::Object(members) => members.iter().map(|member| depth(&member.value)).max(),
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::String(_) => return 0,
    };
    below.unwrap_or(0) + 1
}

fn check_tag(tag: Option<&Tag>, known: &[&str], marked: &Marked) -> Parsed<()> {
    let Some(tag) = tag else { return Ok(()) };
    let is_known =
        scalar::core_name(tag).map_or_else(|| scalar::is_non_specific(tag), |name| known.contains(&name));
    if is_known {
        return Ok(());
    }
    let span = marked.tag_span().map_or_else(|| span_of(marked), |tag| span_of(&tag));
    let mut error =
        Diagnostic::error(code::INVALID_YAML_DESCRIPTION, "this tag has no meaning here").at("", span);
    error.hint("only the core tags are known: !!str, !!int, !!float, !!bool, !!null, !!map and !!seq");
    Err(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        json_tagged(text, |_| None)
    }

    fn json_tagged(text: &str, named: fn(&str) -> Option<String>) -> String {
        match parse(text, named) {
            Ok(node) => node.to_value().to_string(),
            Err(error) => format!("{}: {}", error.span.start, error.message),
        }
    }

    #[test]
    fn yaml_is_json_written_otherwise() {
        for (yaml, expected) in [
            ("a: 1\nb: [x, 'y', \"z\"]\n", r#"{"a":1,"b":["x","y","z"]}"#),
            ("a: yes\nb: no\nc: on\nd: 2016-03-14\n", r#"{"a":"yes","b":"no","c":"on","d":"2016-03-14"}"#),
            ("[true, False, ~, null, '', 'null']", r#"[true,false,null,null,"","null"]"#),
            (
                "[0x1F, 0o17, +5, 007, .5, 1., 1e3, -0, 12345678901234567890]",
                "[31,15,5,7,0.5,1.0,1e3,-0,12345678901234567890]",
            ),
            ("a: |\n  two\n  lines\nb: >-\n  folded\n  text\n", r#"{"a":"two\nlines\n","b":"folded text"}"#),
            ("1: a\ntrue: b\n", r#"{"1":"a","true":"b"}"#),
            ("a: &x {b: 1}\nc: *x\nd: [*x]", r#"{"a":{"b":1},"c":{"b":1},"d":[{"b":1}]}"#),
            ("a: !!str 5\nb: !!int '5'\nc: ! 5", r#"{"a":"5","b":5,"c":"5"}"#),
            ("a:\nb: {}", r#"{"a":null,"b":{}}"#),
            ("", "null"),
            ("{\"StartAt\": \"A\"}", r#"{"StartAt":"A"}"#),
        ] {
            assert_eq!(json(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn a_tag_with_a_name_becomes_a_member() {
        let named = |tag: &str| (tag != "Other").then(|| format!("Fn::{tag}"));
        for (yaml, expected) in [
            ("a: !Sub 5", r#"{"a":{"Fn::Sub":"5"}}"#),
            ("a: !Join [x, [!Ref b, c]]", r#"{"a":{"Fn::Join":["x",[{"Fn::Ref":"b"},"c"]]}}"#),
            ("!Map\nb: 1", r#"{"Fn::Map":{"b":1}}"#),
            ("a: &x !Sub t\nb: *x", r#"{"a":{"Fn::Sub":"t"},"b":{"Fn::Sub":"t"}}"#),
            ("a: !!str 5", r#"{"a":"5"}"#),
            ("a: ! 5", r#"{"a":"5"}"#),
            ("a: !Other 5", "3: this tag has no meaning here"),
        ] {
            assert_eq!(json_tagged(yaml, named), expected, "{yaml}");
        }
        let deep = format!("{}x{}", "!A [".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(json_tagged(&deep, named).contains("deep"));
    }

    #[test]
    fn what_json_cannot_say_is_refused_at_its_place() {
        for (yaml, complaint) in [
            ("a: *x", "3: "),
            ("b: &x {c: 1}\na: {<<: *x}", "17: merge keys"),
            ("a: !Sub x", "3: this tag has no meaning"),
            ("a: .inf", "3: infinity"),
            ("a: .nan", "3: not a number"),
            ("a: !!int x", "9: `x` is no"),
            ("? [1]\n: 2", "2: a key must be a scalar"),
            ("a: 1\n---\nb: 2", "5: a second document"),
            ("a: &x [*x]", "7: the alias `*x` stands inside"),
            ("a: [1", "3: unclosed bracket"),
        ] {
            assert!(json(yaml).starts_with(complaint), "{yaml}: {}", json(yaml));
        }
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "States:\n  Ünder:\n    Type: Pass\n    Result: |\n      block\nEnd: \"q\"\n";
        let node = parse(text, |_| None).unwrap();
        let slice = |span: Span| &text[span.start..span.end];
        let members = node.as_object().unwrap();
        let state = &members[0].value.as_object().unwrap()[0];
        assert_eq!(slice(state.key_span), "Ünder");
        let fields = state.value.as_object().unwrap();
        assert_eq!(slice(fields[0].value.span), "Pass");
        assert!(slice(fields[1].value.span).contains("block"));
        assert_eq!(slice(members[1].value.span), "\"q\"");
    }

    #[test]
    fn aliases_cannot_multiply_without_end() {
        let levels = (1..10).map(|level| {
            let inside = vec![format!("*a{}", level - 1); 10].join(", ");
            format!("a{level}: &a{level} [{inside}]\n")
        });
        let text = std::iter::once("a0: &a0 [x, x, x]\n".to_owned()).chain(levels).collect::<String>();
        assert!(json(&text).contains("copies of values"));
    }
}
