//! The intrinsic functions: resolves the expressions of a template.

use super::resource::{attribute, reference};
use super::{Given, Problem};
use perdura_asl::json::{Map, Value};
use std::cell::Cell;

/// How deep references may be nested. Circular ones reach this limit.
const DEPTH_MAX: u32 = 50;
/// The most expressions to resolve, so that names that refer to each other many times come to an end.
const STEPS_MAX: u32 = 1_000_000;

pub(super) type Resolved<T> = Result<T, Problem>;

/// A template with its environment.
pub(super) struct Resolver<'a> {
    pub(super) document: &'a Value,
    pub(super) given: &'a Given,
    depth: Cell<u32>,
    steps: Cell<u32>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(document: &'a Value, given: &'a Given) -> Self {
        Self { document, given, depth: Cell::new(0), steps: Cell::new(0) }
    }

    /// A section of the template, or one of its members.
    pub(super) fn part(&self, section: &str, name: &str) -> Option<&'a Value> {
        self.document.get(section)?.get(name)
    }

    /// The value with every expression in it resolved. `None`: it is `AWS::NoValue`, as if it were absent.
    pub(super) fn value(&self, value: &Value, path: &str) -> Resolved<Option<Value>> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS_MAX || self.depth.get() > DEPTH_MAX {
            return Err(Problem::new(path, "it leads back to itself", "write one of the names out"));
        }
        match value {
            Value::Object(members) => match single(members) {
                Some((name, argument)) if is_function(name) => {
                    self.depth.set(self.depth.get() + 1);
                    let came = self.function(name, argument, &format!("{path}/{name}"));
                    self.depth.set(self.depth.get() - 1);
                    came
                }
                Some(_) | None => {
                    let mut object = Map::new();
                    for (name, member) in members.iter() {
                        if let Some(member) = self.value(member, &format!("{path}/{name}"))? {
                            object.insert(name.clone(), member);
                        }
                    }
                    Ok(Some(object.into()))
                }
            },
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items = items.map(|(at, item)| self.value(item, &format!("{path}/{at}")));
                let items = items.collect::<Resolved<Vec<_>>>()?;
                Ok(Some(items.into_iter().flatten().collect::<Value>()))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Some(value.clone())),
        }
    }

    /// The same, which must be a text.
    pub(super) fn text(&self, value: &Value, path: &str) -> Resolved<String> {
        let came = self.value(value, path)?;
        as_text(came.as_ref(), path)
    }

    fn function(&self, name: &str, argument: &Value, path: &str) -> Resolved<Option<Value>> {
        match name {
            "Ref" => self.refer(&as_text(Some(argument), path)?, path),
            "Fn::GetAtt" => self.get_attribute(argument, path).map(Some),
            "Fn::Sub" => self.substitute(argument, path).map(|text| Some(text.into())),
            "Fn::Join" => {
                let [delimiter, list] = self.arguments(argument, path)?;
                let parts = as_list(&list, path)?.iter().map(|part| as_text(Some(part), path));
                let parts = parts.collect::<Resolved<Vec<_>>>()?;
                Ok(Some(parts.join(&as_text(Some(&delimiter), path)?).into()))
            }
            "Fn::Split" => {
                let [delimiter, text] = self.arguments(argument, path)?;
                let (delimiter, text) = (as_text(Some(&delimiter), path)?, as_text(Some(&text), path)?);
                Ok(Some(text.split(&*delimiter).map(Value::from).collect()))
            }
            "Fn::Select" => {
                let [index, list] = self.arguments(argument, path)?;
                let (index, list) = (as_text(Some(&index), path)?, as_list(&list, path)?);
                let item = index.parse::<usize>().ok().and_then(|at| list.get(at)).cloned();
                let what = || format!("there is no item {index} in a list of {}", list.len());
                item.map(Some).ok_or_else(|| Problem::new(path, what(), "count from 0"))
            }
            "Fn::If" => {
                let [condition, then, otherwise] = of_list(argument, path)?;
                let holds = self.condition(&as_text(Some(condition), path)?, path)?;
                self.value(if holds { then } else { otherwise }, path)
            }
            "Fn::FindInMap" => {
                let [map, first, second] = self.arguments(argument, path)?;
                let keys = [map, first, second].map(|key| as_text(Some(&key), path));
                let [map, first, second] = keys;
                let (map, first, second) = (map?, first?, second?);
                let found = self.part("Mappings", &map).and_then(|map| map.get(&first)?.get(&second));
                let what = || format!("Mappings has no {map}/{first}/{second}");
                found.cloned().map(Some).ok_or_else(|| Problem::new(path, what(), "see how it is spelt"))
            }
            "Fn::ImportValue" => {
                let export = self.text(argument, path)?;
                let given = self.given.values.get(&export).map(|value| Value::from(value.as_str()));
                let what = || format!("{export:?} is an output of another stack");
                given.map(Some).ok_or_else(|| Problem::unknown(path, what(), &export))
            }
            "Fn::ToJsonString" => {
                Ok(Some(self.value(argument, path)?.unwrap_or(Value::Null).to_string().into()))
            }
            _ => Err(Problem::new(path, format!("{name} is not known here"), "write its value out")),
        }
    }

    /// `Ref`: a given value, a pseudo parameter, a parameter's default, or a resource.
    fn refer(&self, name: &str, path: &str) -> Resolved<Option<Value>> {
        if let Some(given) = self.given.values.get(name) {
            return Ok(Some(given.as_str().into()));
        }
        if name == "AWS::NoValue" {
            return Ok(None);
        }
        if let Some(pseudo) = self.pseudo(name) {
            return Ok(Some(pseudo));
        }
        if let Some(parameter) = self.part("Parameters", name) {
            let kind = parameter.get("Type").and_then(Value::as_str).unwrap_or_default();
            // The default of such a parameter is not its value, but a name in another service.
            let default = parameter.get("Default").filter(|_| !kind.starts_with("AWS::SSM::"));
            let default = default
                .ok_or_else(|| Problem::unknown(path, format!("the parameter {name} has no value"), name))?;
            let is_list = kind == "CommaDelimitedList" || kind.starts_with("List<");
            return Ok(Some(match default.as_str().filter(|_| is_list) {
                Some(list) => list.split(',').map(|item| Value::from(item.trim())).collect(),
                None => default.clone(),
            }));
        }
        reference(self, name, path).map(|text| Some(text.into()))
    }

    fn pseudo(&self, name: &str) -> Option<Value> {
        let Given { arns, stack, .. } = self.given;
        Some(match name {
            "AWS::Region" => arns.region.as_str().into(),
            "AWS::AccountId" => arns.account.as_str().into(),
            "AWS::Partition" => arns.partition.as_str().into(),
            "AWS::StackName" => stack.as_str().into(),
            "AWS::URLSuffix" => self.url_suffix().into(),
            "AWS::StackId" => {
                let whose = format!("{}:cloudformation:{}:{}", arns.partition, arns.region, arns.account);
                format!("arn:{whose}:stack/{stack}/perdura").into()
            }
            "AWS::NotificationARNs" => Vec::<Value>::new().into(),
            _ => return None,
        })
    }

    /// The domain of this partition's services.
    pub(super) fn url_suffix(&self) -> &'static str {
        if self.given.arns.partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" }
    }

    fn get_attribute(&self, argument: &Value, path: &str) -> Resolved<Value> {
        let written = match argument {
            Value::Array(_) => {
                let [resource, attribute] = of_list(argument, path)?;
                format!("{}.{}", as_text(Some(resource), path)?, self.text(attribute, path)?)
            }
            other => as_text(Some(other), path)?,
        };
        self.attribute(&written, path).map(Value::from)
    }

    /// `Resource.Attribute`
    fn attribute(&self, written: &str, path: &str) -> Resolved<String> {
        if let Some(given) = self.given.values.get(written) {
            return Ok(given.clone());
        }
        match written.split_once('.') {
            Some((resource, name)) => attribute(self, resource, name, path),
            None => {
                Err(Problem::new(path, format!("{written:?} names no attribute"), "write Resource.Attribute"))
            }
        }
    }

    /// `Fn::Sub`: replaces names between `${` and `}`; `${!` is an escape.
    fn substitute(&self, argument: &Value, path: &str) -> Resolved<String> {
        let (text, own) = match argument {
            Value::Array(_) => {
                let [text, own] = of_list(argument, path)?;
                (as_text(Some(text), path)?, Some(own))
            }
            other => (as_text(Some(other), path)?, None),
        };
        let mut out = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some(at) = rest.find("${") {
            out.push_str(&rest[..at]);
            let Some(end) = rest[at..].find('}') else { break };
            let name = &rest[at + 2..at + end];
            rest = &rest[at + end + 1..];
            if let Some(literal) = name.strip_prefix('!') {
                out.extend(["${", literal, "}"]);
                continue;
            }
            let name = name.trim();
            let put = match own.and_then(|own| own.get(name)) {
                Some(own) => self.text(own, path)?,
                None if name.contains('.') => self.attribute(name, path)?,
                None => as_text(self.refer(name, path)?.as_ref(), path)?,
            };
            out.push_str(&put);
        }
        Ok(out + rest)
    }

    /// The arguments of a function, resolved.
    fn arguments<const N: usize>(&self, argument: &Value, path: &str) -> Resolved<[Value; N]> {
        let came = self.value(argument, path)?.unwrap_or(Value::Null);
        of_list::<N>(&came, path).map(|items| items.map(Clone::clone))
    }
}

fn single(members: &Map) -> Option<(&str, &Value)> {
    let mut all = members.iter();
    let first = all.next()?;
    all.next().is_none().then_some((&**first.0, first.1))
}

fn is_function(name: &str) -> bool {
    name == "Ref" || name.starts_with("Fn::")
}

/// Exactly this many.
pub(super) fn of_list<'v, const N: usize>(value: &'v Value, path: &str) -> Resolved<[&'v Value; N]> {
    let items = as_list(value, path)?;
    let count = || Problem::new(path, format!("{} values are given", items.len()), format!("give {N}"));
    <&[Value; N]>::try_from(items).map(<[Value; N]>::each_ref).map_err(|_| count())
}

pub(super) fn as_list<'v>(value: &'v Value, path: &str) -> Resolved<&'v [Value]> {
    value.as_array().ok_or_else(|| Problem::new(path, format!("{} is no list", shown(value)), "write a list"))
}

pub(super) fn as_text(value: Option<&Value>, path: &str) -> Resolved<String> {
    match value {
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        Some(other @ (Value::Null | Value::Array(_) | Value::Object(_))) => {
            Err(Problem::new(path, format!("{} is no text", shown(other)), "write a text"))
        }
        None => Err(Problem::new(path, "there is no value", "write a text")),
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}
