//! Values with expressions in them.

use super::Reader;
use super::at::{At, quoted};
use super::value::USE_JSONATA;
use crate::diagnostic::code;
use crate::intrinsic::Intrinsic;
use crate::json::{Map, Value};
use crate::jsonata::Expression;
use crate::machine::{Assign, QueryLanguage, Scalar, Template};
use crate::node::{Member, Node, NodeKind};
use crate::path::Path;
use crate::source::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The length limit of all JSONata expressions of a definition: parsed, each byte may take a hundred.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// The members of `$states` that exist, besides `input` and `context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// None.
    Input,
    /// `$states.result`
    Result,
    /// `$states.errorOutput`
    Error,
}

/// `{% … %}`, with nothing around it.
pub(super) fn is_expression(text: &str) -> bool {
    text.len() >= 4 && text.starts_with("{%") && text.ends_with("%}")
}

/// Whether a text has one mark of an expression and not the other: `{% …` or `… %}`.
fn is_half_expression(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("{%") != text.ends_with("%}")
}

/// A string that would be a path or an intrinsic function if it were evaluated.
pub(super) fn looks_evaluated(text: &str) -> bool {
    text == "$"
        || text == "$$"
        || text.starts_with("$.")
        || text.starts_with("$[")
        || text.starts_with("$$.")
        || text.starts_with("States.") && text.ends_with(')')
}

impl<'n> Reader<'n> {
    /// The place of a character of a string's value in its source; the whole string, if that is hard to tell.
    pub(super) fn inside(&self, node: &Node, text: &str, byte: usize) -> Span {
        let source = self.source.slice(node.span);
        let offset = match source.strip_prefix(['"', '\'']) {
            Some(inner) if inner.len() == text.len() + 1 && inner.starts_with(text) => 1,
            None if source == text => 0,
            _ => return node.span,
        };
        let byte = text.floor_char_boundary(byte);
        let length = text[byte..].chars().next().map_or(0, char::len_utf8);
        let start = node.span.start + offset + byte;
        Span::new(start, start + length)
    }

    /// Any value, by the language of the state.
    pub(super) fn template(&mut self, node: &'n Node, at: &At<'_>, sight: Sight) -> Template {
        match &node.kind {
            NodeKind::String(text) => self.text(node, text, at, sight),
            NodeKind::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(index, item)| self.template(item, &at.item(index, item), sight));
                array_of(items.collect())
            }
            NodeKind::Object(members) => {
                self.warn_of_doubled_names(members, at);
                let members = members.iter().map(|member| self.field(member, at, sight));
                object_of(members.collect())
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) => Template::Literal(node.to_value()),
        }
    }

    fn text(&mut self, node: &'n Node, text: &str, at: &At<'_>, sight: Sight) -> Template {
        if self.is_written_expression(node) {
            let expression = self.expression(node, text, at, sight);
            return expression.map_or(Template::Literal(Value::Null), Template::Jsonata);
        }
        if is_expression(text.trim()) {
            let hint = match self.language {
                QueryLanguage::JsonPath => USE_JSONATA,
                QueryLanguage::Jsonata => "`{%` must be the first and `%}` the last of the string",
            };
            let message = "This expression is not evaluated";
            self.findings.warning(code::UNEVALUATED_EXPRESSION, at, node.span, message).hint(hint);
        }
        self.warn_of_half_expression(node, at);
        Template::Literal(node.to_value())
    }

    /// Warns of a text that stays as it is, although it has one of the two marks of an expression.
    pub(super) fn warn_of_half_expression(&mut self, node: &Node, at: &At<'_>) {
        let Some(text) = node.as_str().filter(|text| is_half_expression(text)) else { return };
        let (has, lacks) = if text.trim().starts_with("{%") {
            ("begins with `{%`", "end with `%}`")
        } else {
            ("ends with `%}`", "begin with `{%`")
        };
        let message = format!("This text {has} but does not {lacks}: it is taken as it is");
        let hint = match self.language {
            QueryLanguage::JsonPath => {
                "an expression has both marks, and is evaluated in JSONata states only"
            }
            QueryLanguage::Jsonata => "`{%` must be the first and `%}` the last of the string",
        };
        self.findings.warning(code::HALF_AN_EXPRESSION, at, node.span, message).hint(hint);
    }

    /// The same for every text in a value that is never evaluated.
    pub(super) fn warn_of_half_expressions(&mut self, node: &Node, at: &At<'_>) {
        match &node.kind {
            NodeKind::String(_) => self.warn_of_half_expression(node, at),
            NodeKind::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.warn_of_half_expressions(item, &at.item(index, item));
                }
            }
            NodeKind::Object(members) => {
                for member in members {
                    self.warn_of_half_expressions(&member.value, &at.member(member));
                }
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) => {}
        }
    }

    /// `name` and `name.$` together give one field, and the last of them counts.
    fn warn_of_doubled_names(&mut self, members: &'n [Member], at: &At<'_>) {
        if self.language != QueryLanguage::JsonPath
            || !members.iter().any(|member| member.key.ends_with(".$"))
        {
            return;
        }
        let mut seen: BTreeMap<&str, &Member> = BTreeMap::new();
        for member in members {
            let name = member.key.strip_suffix(".$").unwrap_or(&member.key);
            // Two with one spelling were reported already.
            if let Some(first) = seen.insert(name, member).filter(|first| first.key != member.key) {
                let message = format!(
                    "The fields '{}' and '{}' are one field, and the last one counts",
                    quoted(&first.key),
                    quoted(&member.key)
                );
                self.findings
                    .warning(code::DUPLICATE_FIELD, at, member.key_span, message)
                    .related(first.key_span, "first written here");
            }
        }
    }

    fn field(&mut self, member: &'n Member, at: &At<'_>, sight: Sight) -> (Arc<str>, Template) {
        let place = at.member(member);
        let dynamic = member.key.strip_suffix(".$");
        match (self.language, dynamic) {
            (QueryLanguage::JsonPath, Some(name)) => (name.into(), self.dynamic(member, at)),
            (QueryLanguage::JsonPath, None) => {
                if let Some(text) = member.value.as_str().filter(|text| looks_evaluated(text)) {
                    let message = format!(
                        "The value of '{}' looks like a path or an intrinsic function, but it is taken as it is",
                        quoted(&member.key)
                    );
                    let hint =
                        format!("to evaluate `{}`, name the field `{}.$`", quoted(text), quoted(&member.key));
                    self.findings.warning(code::NO_DOLLAR, &place, member.value.span, message).hint(hint);
                }
                (member.key.clone(), self.template(&member.value, &place, sight))
            }
            (QueryLanguage::Jsonata, _) => {
                if dynamic.is_some() {
                    let message =
                        format!("The ending '.$' of '{}' has no meaning in JSONata", quoted(&member.key));
                    self.findings
                        .warning(code::UNEVALUATED_EXPRESSION, &place, member.key_span, message)
                        .hint("write the field without `.$`, and its value as `{% … %}`");
                }
                (member.key.clone(), self.template(&member.value, &place, sight))
            }
        }
    }

    /// The value of a field that ends in `.$`.
    fn dynamic(&mut self, member: &'n Member, at: &At<'_>) -> Template {
        let node = &member.value;
        let place = at.member(member);
        let problem = match node.as_str() {
            None => (node.span, format!("this is {}", node.described())),
            Some(text) if text.starts_with('$') => match Path::parse(text) {
                Ok(path) => {
                    self.reads_path(&path, &place, node.span);
                    return Template::Path(path);
                }
                Err(error) => (self.inside(node, text, error.at), error.message),
            },
            Some(text) if text.starts_with("States.") => match Intrinsic::parse(text) {
                Ok(intrinsic) => {
                    self.reads_intrinsic(&intrinsic, &place, node.span);
                    return Template::Intrinsic(intrinsic);
                }
                Err(error) => (self.inside(node, text, error.at), error.message),
            },
            Some(_) => (node.span, "a path begins with `$`, an intrinsic function with `States.`".to_owned()),
        };
        let (span, hint) = problem;
        let message = format!(
            "The value for the field '{}' must be a valid JSONPath or a valid intrinsic function call",
            quoted(&member.key)
        );
        self.findings.shape(at, span, message).hint(hint);
        Template::Literal(Value::Null)
    }

    /// A JSONata expression with its delimiters.
    pub(super) fn expression(
        &mut self,
        node: &Node,
        text: &str,
        at: &At<'_>,
        sight: Sight,
    ) -> Option<Expression> {
        if !is_expression(text) {
            self.findings.shape(at, node.span, "JSONata string must start with {% and end with %}");
            return None;
        }
        let inner = &text[2..text.len() - 2];
        let before = 2 + inner.len() - inner.trim_start().len();
        let was_too_long = self.expression_bytes > EXPRESSION_BYTES_MAX;
        self.expression_bytes += inner.len();
        if self.expression_bytes > EXPRESSION_BYTES_MAX {
            // Report it once: all that follow exceed the limit too.
            if !was_too_long {
                let message = "The JSONata expressions of a definition may be 1 MiB long together";
                let finding = self.findings.error(code::INVALID_JSONATA_EXPRESSION, at, node.span, message);
                finding.hint("put data into the input, and divide the machine into children");
            }
            return None;
        }
        match Expression::parse(inner.trim()) {
            Ok(expression) => {
                self.reads_expression(&expression, at, node.span, sight);
                Some(expression)
            }
            Err(error) => {
                let span = self.inside(node, text, before + error.at);
                self.findings.error(code::INVALID_JSONATA_EXPRESSION, at, span, error.message);
                None
            }
        }
    }

    /// `Parameters` and similar: an object in JSONPath, anything in JSONata.
    pub(super) fn payload(&mut self, node: &'n Node, at: &At<'_>, sight: Sight) -> Option<Template> {
        if self.language == QueryLanguage::JsonPath {
            self.object(node, at)?;
        }
        Some(self.template(node, at, sight))
    }

    /// In a JSONata state, a string that begins like an expression.
    pub(super) fn is_written_expression(&self, node: &Node) -> bool {
        self.language == QueryLanguage::Jsonata && node.as_str().is_some_and(|text| text.starts_with("{%"))
    }

    pub(super) fn written_expression(&mut self, node: &Node, at: &At<'_>) -> Option<Scalar> {
        self.expression(node, node.as_str()?, at, Sight::Input).map(Scalar::Jsonata)
    }

    /// `Assign`
    pub(super) fn assign(&mut self, member: Option<&'n Member>, at: &At<'_>, sight: Sight) -> Assign {
        let Some(member) = member else { return Assign::new() };
        let place = at.member(member);
        let Some(members) = self.object(&member.value, &place) else { return Assign::new() };
        let mut assign = Assign::with_capacity(members.len());
        for member in members {
            let (name, template) = self.field(member, &place, sight);
            self.assigns(&name, &place.member(member), member.key_span);
            assign.push((name, template));
        }
        assign
    }
}

/// An array; a literal if it has no expressions.
fn array_of(items: Vec<Template>) -> Template {
    if !items.iter().all(|item| matches!(item, Template::Literal(_))) {
        return Template::Array(items);
    }
    Template::Literal(items.into_iter().map(literal).collect())
}

/// An object; a literal if it has no expressions.
fn object_of(members: Vec<(Arc<str>, Template)>) -> Template {
    if !members.iter().all(|(_, value)| matches!(value, Template::Literal(_))) {
        return Template::Object(members);
    }
    let members = members.into_iter().map(|(name, value)| (name, literal(value)));
    Template::Literal(members.collect::<Map>().into())
}

fn literal(template: Template) -> Value {
    if let Template::Literal(value) = template { value } else { Value::Null }
}
