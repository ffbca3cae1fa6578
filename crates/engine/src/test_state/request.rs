//! The request, member by member.
//!
//! Lengths, ranges and sets of values are those of the service model. Violations are reported as on AWS: all of them in
//! one sentence.

use super::mock::{Mock, Strictness};
use super::{Configuration, InspectionLevel, Refused, TestState};
use crate::event::Fault;
use perdura_asl::diagnostic::explain_in_a_sentence;
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::read::STRICT_BYTES_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;

const DATA_BYTES_MAX: usize = 262_144;
const NAME: (usize, usize) = (1, 80);
const DATA: (usize, usize) = (0, DATA_BYTES_MAX);

/// Parses the request of the API action; unknown members are ignored.
pub(super) fn read(request: &Value) -> Result<TestState, Refused> {
    let mut reader = Reader { wrong: Vec::new() };
    let definition = reader.text(request, "definition", "definition", (1, STRICT_BYTES_MAX));
    if definition.is_none() && reader.wrong.is_empty() {
        reader.constraint("null", "definition", "Member must not be null");
    }
    let role_arn = reader.text(request, "roleArn", "roleArn", (1, 256));
    let input = reader.text(request, "input", "input", DATA);
    let level = reader.one_of(
        request,
        "inspectionLevel",
        "inspectionLevel",
        &[
            ("INFO", InspectionLevel::Info),
            ("DEBUG", InspectionLevel::Debug),
            ("TRACE", InspectionLevel::Trace),
        ],
    );
    let variables = reader.text(request, "variables", "variables", DATA);
    let context = reader.text(request, "context", "context", DATA);
    let state_name = reader.text(request, "stateName", "stateName", NAME);
    let mock = member(request, "mock").map(|mock| reader.mock(mock));
    let configuration =
        member(request, "stateConfiguration").map(|found| reader.configuration(found)).unwrap_or_default();
    let reveal_secrets = reader.flag(request, "revealSecrets");
    reader.finish()?;
    let has_mock = mock.is_some();
    if reveal_secrets && has_mock {
        return refuse("TestState does not support RevealSecrets when a mock is specified.");
    }
    if context.is_some() && !has_mock {
        return refuse("Context can only be specified when a mock is specified");
    }
    if configuration.map_iteration_failure_count.is_some() && !has_mock {
        return refuse("mapIterationFailureCount can only be specified when a mock is specified");
    }
    Ok(TestState {
        definition: definition.unwrap_or_default(),
        role_arn,
        input: match input {
            Some(text) => Payload::from_text(text.clone()).map_err(|error| {
                let reason = explain_in_a_sentence(&text, &error, "Invalid execution input.");
                Refused::InvalidExecutionInput(format!("Invalid State Machine Execution Input: '{reason}'"))
            })?,
            None => Payload::default(),
        },
        level: level.unwrap_or_default(),
        reveal_secrets,
        variables: object(variables, "Variables")?
            .iter()
            .map(|(name, value)| (name.clone(), Payload::from(value.clone())))
            .collect::<BTreeMap<_, _>>(),
        context: if context.is_some() { Some(object(context, "Context")?) } else { None },
        state_name,
        mock: mock.map(MockRequest::resolve).transpose()?,
        configuration,
    })
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::ValidationException(message.into()))
}

/// A present member; `null` counts as absent.
fn member<'v>(request: &'v Value, name: &str) -> Option<&'v Value> {
    request.get(name).filter(|value| !value.is_null())
}

/// A text that must be a JSON object.
fn object(text: Option<Arc<str>>, what: &str) -> Result<Map, Refused> {
    let Some(text) = text else { return Ok(Map::new()) };
    match perdura_asl::json::parse(&text) {
        Ok(Value::Object(map)) => Ok(Arc::unwrap_or_clone(map)),
        Ok(_) | Err(_) => refuse(format!("{what} must be a JSON object")),
    }
}

/// `mock`, before its variant is known.
struct MockRequest {
    result: Option<Arc<str>>,
    error: Option<Fault>,
    strictness: Strictness,
}

impl MockRequest {
    fn resolve(self) -> Result<Mock, Refused> {
        match (self.result, self.error) {
            (Some(result), None) => {
                let result =
                    Payload::from_text(result).or_else(|_| refuse("Mocked result must be valid JSON"))?;
                Ok(Mock::Result { result, strictness: self.strictness })
            }
            (None, Some(fault @ Fault { error: Some(_), .. })) => Ok(Mock::Error(fault)),
            (None, Some(Fault { error: None, .. })) => {
                refuse("A mocked errorOutput must contain the field: [error].")
            }
            (Some(_), Some(_)) | (None, None) => {
                refuse("A test mock should have only one of the following fields: [result, errorOutput].")
            }
        }
    }
}

/// Collects violations.
struct Reader {
    wrong: Vec<String>,
}

impl Reader {
    fn mock(&mut self, mock: &Value) -> MockRequest {
        let error = member(mock, "errorOutput").map(|output| {
            let error = self.text(output, "error", "mock.errorOutput.error", (0, 256));
            Fault { error, cause: self.text(output, "cause", "mock.errorOutput.cause", (0, 32_768)) }
        });
        let modes = [
            ("STRICT", Strictness::Strict),
            ("PRESENT", Strictness::Present),
            ("NONE", Strictness::Unchecked),
        ];
        let strictness = self.one_of(mock, "fieldValidationMode", "mock.fieldValidationMode", &modes);
        MockRequest {
            result: self.text(mock, "result", "mock.result", DATA),
            error,
            strictness: strictness.unwrap_or_default(),
        }
    }

    fn configuration(&mut self, found: &Value) -> Configuration {
        let at = |name: &str| format!("stateConfiguration.{name}");
        Configuration {
            retrier_retry_count: self.count(found, "retrierRetryCount", &at("retrierRetryCount")),
            error_caused_by_state: self.text(found, "errorCausedByState", &at("errorCausedByState"), NAME),
            map_iteration_failure_count: self.count(
                found,
                "mapIterationFailureCount",
                &at("mapIterationFailureCount"),
            ),
            map_item_reader_data: self.text(found, "mapItemReaderData", &at("mapItemReaderData"), DATA),
        }
    }

    fn constraint(&mut self, value: &str, at: &str, constraint: &str) {
        self.wrong.push(format!("Value '{value}' at '{at}' failed to satisfy constraint: {constraint}"));
    }

    fn text(
        &mut self,
        from: &Value,
        name: &str,
        at: &str,
        (least, most): (usize, usize),
    ) -> Option<Arc<str>> {
        let value = member(from, name)?;
        let Value::String(text) = value else {
            self.constraint(&value.to_string(), at, "Member must be a string");
            return None;
        };
        // A text that is too long is not repeated in the answer.
        if text.len() > most && text.chars().count() > most {
            self.constraint("…", at, &format!("Member must have length less than or equal to {most}"));
        } else if text.len() < least {
            self.constraint(text, at, &format!("Member must have length greater than or equal to {least}"));
        }
        Some(text.clone())
    }

    fn flag(&mut self, from: &Value, name: &str) -> bool {
        let Some(value) = member(from, name) else { return false };
        let flag = value.as_bool();
        if flag.is_none() {
            self.constraint(&value.to_string(), name, "Member must be a boolean");
        }
        flag.unwrap_or(false)
    }

    fn count(&mut self, from: &Value, name: &str, at: &str) -> Option<u64> {
        let value = member(from, name)?;
        let count = value.as_i64().and_then(|count| u64::try_from(count).ok());
        if count.is_none() {
            self.constraint(&value.to_string(), at, "Member must have value greater than or equal to 0");
        }
        count
    }

    fn one_of<T: Copy>(&mut self, from: &Value, name: &str, at: &str, all: &[(&str, T)]) -> Option<T> {
        let value = member(from, name)?;
        let found = all.iter().find(|(name, _)| value.as_str() == Some(name)).map(|(_, value)| *value);
        if found.is_none() {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            let constraint = format!("Member must satisfy enum value set: [{}]", names.join(", "));
            self.constraint(&shown, at, &constraint);
        }
        found
    }

    fn finish(self) -> Result<(), Refused> {
        match self.wrong.len() {
            0 => Ok(()),
            1 => refuse(format!("1 validation error detected: {}", self.wrong[0])),
            many => refuse(format!("{many} validation errors detected: {}", self.wrong.join("; "))),
        }
    }
}
