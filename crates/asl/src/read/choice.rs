//! Choice: rules and their targets.

use super::Reader;
use super::at::At;
use super::fields::Field;
use super::paths::PathKind;
use super::state::Fields;
use super::template::{Sight, looks_evaluated};
use crate::diagnostic::code;
use crate::json::Value;
use crate::machine::{Choice, Comparison, Condition, Kind, Operand, Operator, QueryLanguage, Rule, Scalar};
use crate::node::{Member, Node, NodeKind, find};

const PATH: Option<QueryLanguage> = Some(QueryLanguage::JsonPath);
const ATA: Option<QueryLanguage> = Some(QueryLanguage::Jsonata);

/// The forms of a rule, which has exactly one of them.
const FORMS: [&str; 5] = ["And", "Or", "Not", "Variable", "Condition"];
const OUTER: &[Field] = &[("Next", None), ("Assign", None), ("Output", ATA)];
const EVERY: &[Field] =
    &[("And", PATH), ("Or", PATH), ("Not", PATH), ("Variable", PATH), ("Condition", ATA), ("Comment", None)];

const COMPARISONS: [(&str, Comparison); 5] = [
    ("Equals", Comparison::Equals),
    ("LessThan", Comparison::LessThan),
    ("LessThanEquals", Comparison::LessThanEquals),
    ("GreaterThan", Comparison::GreaterThan),
    ("GreaterThanEquals", Comparison::GreaterThanEquals),
];

/// The operator of this name, and whether its operand is a path.
fn operator(name: &str) -> Option<(Operator, bool)> {
    let alone = match name {
        "StringMatches" => Some(Operator::StringMatches),
        "IsNull" => Some(Operator::IsNull),
        "IsPresent" => Some(Operator::IsPresent),
        "IsNumeric" => Some(Operator::IsNumeric),
        "IsString" => Some(Operator::IsString),
        "IsBoolean" => Some(Operator::IsBoolean),
        "IsTimestamp" => Some(Operator::IsTimestamp),
        _ => None,
    };
    if let Some(operator) = alone {
        return Some((operator, false));
    }
    let (plain, is_path) = name.strip_suffix("Path").map_or((name, false), |plain| (plain, true));
    let comparison = |suffix: &str| {
        COMPARISONS.iter().find(|(name, _)| *name == suffix).map(|(_, comparison)| *comparison)
    };
    let operator = if plain == "BooleanEquals" {
        Operator::BooleanEquals
    } else if let Some(suffix) = plain.strip_prefix("Numeric") {
        Operator::Numeric(comparison(suffix)?)
    } else if let Some(suffix) = plain.strip_prefix("String") {
        Operator::String(comparison(suffix)?)
    } else {
        Operator::Timestamp(comparison(plain.strip_prefix("Timestamp")?)?)
    };
    Some((operator, is_path))
}

/// All operators' names, for guesses.
fn operator_names() -> Vec<String> {
    let mut names = vec!["BooleanEquals".to_owned(), "StringMatches".to_owned()];
    for kind in ["Numeric", "String", "Timestamp"] {
        names.extend(COMPARISONS.iter().map(|(suffix, _)| format!("{kind}{suffix}")));
    }
    names.extend(
        ["Null", "Present", "Numeric", "String", "Boolean", "Timestamp"].map(|kind| format!("Is{kind}")),
    );
    names
}

impl<'n> Reader<'n> {
    pub(super) fn choice(&mut self, fields: &Fields<'n, '_>) -> Option<Kind> {
        let at = fields.at;
        let default = fields.get("Default").map(|member| self.next(member, at));
        if !self.require(&["Choices"], fields.members, at) {
            self.lost[self.state.0 as usize] = true;
            return None;
        }
        let member = fields.get("Choices")?;
        let place = at.member(member);
        let Some(items) = self.filled_array(&member.value, &place) else {
            self.lost[self.state.0 as usize] = true;
            return None;
        };
        let rules: Vec<Option<Rule>> =
            items.iter().enumerate().map(|(index, item)| self.rule(item, &place.item(index, item))).collect();
        let rules = rules.into_iter().collect::<Option<_>>()?;
        let default = match default {
            Some(target) => Some(target?),
            None => None,
        };
        Some(Kind::Choice(Choice { rules, default }))
    }

    fn rule(&mut self, node: &'n Node, at: &At<'_>) -> Option<Rule> {
        let Some(members) = self.object(node, at) else {
            self.lost[self.state.0 as usize] = true;
            return None;
        };
        if !self.require(&["Next"], members, at) {
            self.lost[self.state.0 as usize] = true;
        }
        let next = find(members, "Next").and_then(|member| self.next(member, at));
        let assign = self.assign(find(members, "Assign"), at, Sight::Input);
        let output = self.output(find(members, "Output"), at, Sight::Input);
        let condition = self.condition(members, at, true);
        Some(Rule { condition: condition?, next: next?, assign, output })
    }

    fn condition(&mut self, members: &'n [Member], at: &At<'_>, is_outer: bool) -> Option<Condition> {
        self.check_rule_fields(members, at, is_outer);
        if let Some(member) = find(members, "Comment") {
            self.comment(&member.value, &at.member(member));
        }
        let forms: Vec<&Member> = FORMS.iter().filter_map(|name| find(members, name)).collect();
        let [form] = forms.as_slice() else {
            let message =
                format!("The object must have only one of the following fields, [{}]", FORMS.join(", "));
            let span = forms.get(1).map_or(at.span, |second| second.key_span);
            self.findings.shape(at, span, message);
            return None;
        };
        let (node, place) = (&form.value, at.member(form));
        match &*form.key {
            "And" => self.conditions(node, &place).map(Condition::And),
            "Or" => self.conditions(node, &place).map(Condition::Or),
            "Not" => {
                let members = self.object(node, &place)?;
                self.condition(members, &place, false).map(|inner| Condition::Not(Box::new(inner)))
            }
            "Variable" => self.test(form, members, at),
            _ => self.jsonata_condition(node, &place),
        }
    }

    fn conditions(&mut self, node: &'n Node, at: &At<'_>) -> Option<Vec<Condition>> {
        let items = self.filled_array(node, at)?;
        let conditions: Vec<Option<Condition>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let place = at.item(index, item);
                let members = self.object(item, &place)?;
                self.condition(members, &place, false)
            })
            .collect();
        conditions.into_iter().collect()
    }

    fn check_rule_fields(&mut self, members: &'n [Member], at: &At<'_>, is_outer: bool) {
        let has_variable = find(members, "Variable").is_some();
        for member in members {
            let name = &*member.key;
            let known = EVERY.iter().chain(OUTER.iter().filter(|_| is_outer)).find(|field| field.0 == name);
            match known {
                Some((_, only)) => self.check_language(member, at, *only, self.language),
                None if operator(name).is_some() && self.language == QueryLanguage::Jsonata => {
                    self.check_language(member, at, PATH, self.language);
                }
                None if operator(name).is_some() && has_variable => {}
                None => {
                    let hint = if OUTER.iter().any(|field| field.0 == name) {
                        Some(format!("`{name}` belongs to the outermost rule only"))
                    } else if operator(name).is_some() {
                        Some("a comparison needs `Variable` beside it".to_owned())
                    } else {
                        let operators = operator_names();
                        let known = EVERY.iter().chain(OUTER).map(|field| field.0);
                        self.guess(name, known.chain(operators.iter().map(String::as_str)))
                    };
                    self.unknown_field(member, at, hint);
                }
            }
        }
    }

    /// `Variable` with its comparison.
    fn test(&mut self, variable: &'n Member, members: &'n [Member], at: &At<'_>) -> Option<Condition> {
        let variable = self.path(&variable.value, &at.member(variable), PathKind::Reference);
        let tests: Vec<&Member> = members.iter().filter(|member| operator(&member.key).is_some()).collect();
        let test = match tests.as_slice() {
            [test] => test,
            [first, second, ..] => {
                let names: Vec<&str> = tests.iter().map(|member| &*member.key).collect();
                let message =
                    format!("There should only be one of the following fields: [{}]", names.join(", "));
                self.findings
                    .shape(at, second.key_span, message)
                    .related(first.key_span, format!("`{}` is here", first.key))
                    .hint("join several comparisons with `And` or `Or`");
                return None;
            }
            [] => {
                let message = "A rule with 'Variable' must have one comparison";
                self.findings.shape(at, at.span, message).hint("such as `StringEquals` or `IsPresent`");
                return None;
            }
        };
        let (operator, is_path) = operator(&test.key)?;
        let (node, place) = (&test.value, at.member(test));
        let operand = if is_path {
            self.path(node, &place, PathKind::Reference).map(Operand::Path)
        } else {
            self.operand(operator, test, &place).map(Operand::Literal)
        };
        Some(Condition::Test { variable: variable?, operator, operand: operand? })
    }

    fn operand(&mut self, operator: Operator, test: &'n Member, at: &At<'_>) -> Option<Value> {
        let node = &test.value;
        match operator {
            Operator::Numeric(_) => {
                if !matches!(node.kind, NodeKind::Number(_)) {
                    self.wrong_type(node, at, "Number");
                    return None;
                }
            }
            Operator::String(_) | Operator::StringMatches => {
                let written = self.string(node, at)?;
                if looks_evaluated(written) && operator != Operator::StringMatches {
                    let name = &test.key;
                    let message =
                        format!("The value of '{name}' looks like a path, but it is taken as it is");
                    let hint = format!("to compare with what is there, use `{name}Path`");
                    self.findings.warning(code::NO_PATH, at, node.span, message).hint(hint);
                }
            }
            Operator::Timestamp(_) => return self.timestamp(node, at),
            Operator::BooleanEquals
            | Operator::IsNull
            | Operator::IsPresent
            | Operator::IsNumeric
            | Operator::IsString
            | Operator::IsBoolean
            | Operator::IsTimestamp => {
                self.boolean(node, at)?;
            }
        }
        Some(node.to_value())
    }

    /// `Condition`: an expression, or a constant truth.
    fn jsonata_condition(&mut self, node: &'n Node, at: &At<'_>) -> Option<Condition> {
        if self.language == QueryLanguage::JsonPath {
            return None;
        }
        let scalar = match &node.kind {
            NodeKind::Bool(_) => Scalar::Literal(node.to_value()),
            NodeKind::String(text) => Scalar::Jsonata(self.expression(node, text, at, Sight::Input)?),
            _ => {
                self.wrong_type(node, at, "[STRING]");
                return None;
            }
        };
        Some(Condition::Jsonata(scalar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_39_comparisons() {
        let plain = operator_names();
        let with_paths = plain.iter().flat_map(|name| [name.clone(), format!("{name}Path")]);
        let known = with_paths.filter(|name| operator(name).is_some()).count();
        assert_eq!(known, 39);
        assert!(operator("Numeric").is_none() && operator("IsNullPath").is_none());
    }
}
