//! The state machines and activities of a template.

use super::resolve::{Resolved, Resolver, as_text};
use super::resource::deployed_name;
use super::{Given, Problem};
use perdura_asl::json::{Map, Value};
use perdura_asl::machine::MachineType;
use perdura_asl::source::Source;

/// The relevant contents of a template.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) machines: Vec<Machine>,
    pub(crate) activities: Vec<String>,
}

/// A state machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) kind: MachineType,
    /// Its definition, named after the template and its logical id.
    pub(crate) definition: Source,
    /// Its role. Only AWS uses it, so an unknown one is not an error yet.
    pub(crate) role: Result<Option<String>, Problem>,
}

/// The property names of the two types of machines.
struct Words {
    kind: &'static str,
    role: &'static str,
    /// The property with a definition file.
    file: &'static str,
}

const PLAIN: Words = Words { kind: "StateMachineType", role: "RoleArn", file: "DefinitionS3Location" };
const SERVERLESS: Words = Words { kind: "Type", role: "Role", file: "DefinitionUri" };

/// Files beside the template, by their names in it; `None`: it does not exist.
pub(crate) type Beside<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Found {
    /// All of them, or all mistakes.
    pub(crate) fn read(document: &Value, given: &Given, beside: Beside<'_>) -> Result<Self, Vec<Problem>> {
        let resolver = Resolver::new(document, given);
        let (mut found, mut problems) = (Self { machines: Vec::new(), activities: Vec::new() }, Vec::new());
        let resources = document.get("Resources").and_then(Value::as_object);
        for (id, resource) in resources.into_iter().flat_map(Map::iter) {
            if let Err(problem) = found.take(&resolver, id, resource, beside) {
                problems.push(problem);
            }
        }
        if problems.is_empty() { Ok(found) } else { Err(problems) }
    }

    fn take(
        &mut self,
        resolver: &Resolver<'_>,
        id: &str,
        resource: &Value,
        beside: Beside<'_>,
    ) -> Resolved<()> {
        let words = match resource.get("Type").and_then(Value::as_str) {
            Some("AWS::StepFunctions::StateMachine") => Some(PLAIN),
            Some("AWS::Serverless::StateMachine") => Some(SERVERLESS),
            Some("AWS::StepFunctions::Activity") => None,
            Some(_) | None => return Ok(()),
        };
        let path = format!("Resources/{id}");
        let condition = resource.get("Condition").and_then(Value::as_str);
        if let Some(condition) = condition
            && !resolver.condition(condition, &path)?
        {
            return Ok(());
        }
        let name = deployed_name(resolver, id)?;
        match words {
            Some(words) => {
                let none = Value::empty_object();
                let properties = resource.get("Properties").unwrap_or(&none);
                let reading =
                    Reading { resolver, properties, words, path: format!("{path}/Properties"), beside };
                self.machines.push(reading.machine(id, name)?);
            }
            None => self.activities.push(name),
        }
        Ok(())
    }
}

/// One machine being parsed.
struct Reading<'a> {
    resolver: &'a Resolver<'a>,
    properties: &'a Value,
    words: Words,
    path: String,
    beside: Beside<'a>,
}

impl Reading<'_> {
    fn machine(&self, id: &str, name: String) -> Resolved<Machine> {
        let kind = match self.property(self.words.kind)? {
            Some(kind) if kind.as_str() == Some("EXPRESS") => MachineType::Express,
            Some(_) | None => MachineType::Standard,
        };
        let role = self
            .property(self.words.role)
            .and_then(|role| role.map(|role| as_text(Some(&role), &self.at(self.words.role))).transpose());
        let file = format!("{}#{id}", self.resolver.given.file);
        Ok(Machine { name, kind, definition: Source::new(file, self.definition()?), role })
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// A property with every expression in it resolved.
    fn property(&self, name: &str) -> Resolved<Option<Value>> {
        match self.properties.get(name) {
            Some(written) => self.resolver.value(written, &self.at(name)),
            None => Ok(None),
        }
    }

    fn definition(&self) -> Resolved<String> {
        let substitutions = self.substitutions()?;
        if let Some(text) = self.property("DefinitionString")? {
            return Ok(put_in(&as_text(Some(&text), &self.at("DefinitionString"))?, &substitutions));
        }
        if let Some(definition) = self.property("Definition")? {
            return Ok(put_in_value(&definition, &substitutions).to_string());
        }
        let Some(place) = self.property(self.words.file)? else {
            let what = "it has no definition";
            return Err(Problem::new(&self.path, what, "give it a DefinitionString or a Definition"));
        };
        // CDK keeps its assets beside the template.
        let key = place.get("Key").or(Some(&place)).and_then(Value::as_str).unwrap_or_default();
        let text = (self.beside)(&format!("asset.{key}")).or_else(|| (self.beside)(key));
        let text = text.ok_or_else(|| {
            let what = format!("the definition is in a file {key:?}, which is not beside the template");
            Problem::new(&self.at(self.words.file), what, "put it there, or deploy it by itself")
        })?;
        Ok(put_in(&text, &substitutions))
    }

    fn substitutions(&self) -> Resolved<Vec<(String, String)>> {
        let substitutions = self.property("DefinitionSubstitutions")?;
        let members = substitutions.as_ref().and_then(Value::as_object);
        let each = members.into_iter().flat_map(Map::iter).map(|(name, value)| {
            Ok((name.to_string(), as_text(Some(value), &self.at("DefinitionSubstitutions"))?))
        });
        each.collect()
    }
}

/// Replaces `${Name}` by its value; an unknown name stays.
fn put_in(text: &str, substitutions: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let end = rest[at..].find('}').map_or(rest.len(), |end| at + end + 1);
        let written = &rest[at..end];
        let name = written.trim_start_matches("${").trim_end_matches('}');
        let put = substitutions.iter().find(|(own, _)| own == name);
        out.push_str(put.map_or(written, |(_, value)| value));
        rest = &rest[end..];
    }
    out + rest
}

/// The same in every text of a value.
fn put_in_value(value: &Value, substitutions: &[(String, String)]) -> Value {
    match value {
        Value::String(text) => put_in(text, substitutions).into(),
        Value::Array(items) => items.iter().map(|item| put_in_value(item, substitutions)).collect(),
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, member)| (name.clone(), put_in_value(member, substitutions)));
            members.collect::<Map>().into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
