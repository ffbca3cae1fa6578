//! The requests as the service's model has them: which members there are, and what they may be.
//!
//! One table says it for all 37 actions; one function holds a request to it. It complains as AWS does: about all that
//! is wrong at once, in the order of the table, and about a wrong type before anything else. Members that nobody knows
//! are passed over. What the table does not say, that an ARN is one of ours or that a name is taken, is seen to by the
//! action itself.

use super::error::{ApiError, Code};
use perdura_engine::asl::json::{Map, Value};
use std::fmt::Write;

/// An action.
pub(super) struct Action {
    /// Its name.
    pub(super) name: &'static str,
    /// What it takes.
    members: &'static [Member],
}

/// One member of a structure.
struct Member {
    name: &'static str,
    is_required: bool,
    shape: Shape,
}

/// What a member may be.
#[derive(Clone, Copy)]
enum Shape {
    /// Length in characters.
    Text {
        min: usize,
        max: usize,
        pattern: Option<Pattern>,
        is_sensitive: bool,
    },
    /// JSON in a text. AWS's bound holds in strict mode alone: without it the bound is the body's.
    Document {
        max: usize,
    },
    OneOf(&'static [&'static str]),
    Flag,
    Integer {
        min: i64,
        max: i64,
    },
    Float {
        min: f64,
        max: f64,
    },
    Object {
        type_name: &'static str,
        members: &'static [Member],
    },
    List {
        min: usize,
        max: usize,
        item: &'static Shape,
    },
}

/// A pattern of the model.
#[derive(Clone, Copy)]
enum Pattern {
    AliasName,
    Printable,
    Ascii,
}

impl Pattern {
    fn text(self) -> &'static str {
        match self {
            Self::AliasName => r"^(?=.*[a-zA-Z_\-\.])[a-zA-Z0-9_\-\.]+$",
            Self::Printable => "[!-~]+",
            Self::Ascii => r"\p{ASCII}*",
        }
    }

    fn fits(self, text: &str) -> bool {
        let mark = |char: char| matches!(char, '_' | '-' | '.');
        match self {
            Self::AliasName => {
                text.chars().all(|char| char.is_ascii_alphanumeric() || mark(char))
                    && text.chars().any(|char| char.is_ascii_alphabetic() || mark(char))
            }
            Self::Printable => text.chars().all(|char| char.is_ascii_graphic()),
            Self::Ascii => text.is_ascii(),
        }
    }
}

const fn text(min: usize, max: usize) -> Shape {
    Shape::Text { min, max, pattern: None, is_sensitive: false }
}

const fn secret(min: usize, max: usize) -> Shape {
    Shape::Text { min, max, pattern: None, is_sensitive: true }
}

const fn patterned(max: usize, min: usize, pattern: Pattern) -> Shape {
    Shape::Text { min, max, pattern: Some(pattern), is_sensitive: false }
}

const fn need(name: &'static str, shape: Shape) -> Member {
    Member { name, is_required: true, shape }
}

const fn may(name: &'static str, shape: Shape) -> Member {
    Member { name, is_required: false, shape }
}

const NAME: Shape = text(1, 80);
const ARN: Shape = text(1, 256);
const LONG_ARN: Shape = text(1, 2000);
const DEFINITION: Shape = Shape::Document { max: 1_048_576 };
const PAYLOAD: Shape = Shape::Document { max: 262_144 };
const ERROR: Shape = secret(0, 256);
const CAUSE: Shape = secret(0, 32_768);
const DESCRIPTION: Shape = secret(0, 256);
const TASK_TOKEN: Shape = secret(1, 2048);
const PAGE_TOKEN: Shape = text(1, 1024);
const PAGE_SIZE: Shape = Shape::Integer { min: 0, max: 1000 };
const TRACE_HEADER: Shape = patterned(256, 0, Pattern::Ascii);
const INCLUDED_DATA: Shape = Shape::OneOf(&["ALL_DATA", "METADATA_ONLY"]);
const MACHINE_TYPE: Shape = Shape::OneOf(&["STANDARD", "EXPRESS"]);
const COUNT: Shape = Shape::Integer { min: 0, max: i64::MAX };
const STATE_NAME: Shape = secret(1, 80);
const TAG_KEY: Shape = text(1, 128);
const TAGS: Shape = Shape::List {
    min: 0,
    max: usize::MAX,
    item: &Shape::Object { type_name: "Tag", members: &[may("key", TAG_KEY), may("value", text(0, 256))] },
};
const ENCRYPTION: Shape = Shape::Object {
    type_name: "EncryptionConfiguration",
    members: &[
        may("kmsKeyId", text(1, 2048)),
        may("kmsDataKeyReusePeriodSeconds", Shape::Integer { min: 60, max: 900 }),
        need("type", Shape::OneOf(&["AWS_OWNED_KEY", "CUSTOMER_MANAGED_KMS_KEY"])),
    ],
};
const LOGGING: Shape = Shape::Object {
    type_name: "LoggingConfiguration",
    members: &[
        may("level", Shape::OneOf(&["ALL", "ERROR", "FATAL", "OFF"])),
        may("includeExecutionData", Shape::Flag),
        may(
            "destinations",
            Shape::List {
                min: 0,
                max: usize::MAX,
                item: &Shape::Object {
                    type_name: "LogDestination",
                    members: &[may(
                        "cloudWatchLogsLogGroup",
                        Shape::Object {
                            type_name: "CloudWatchLogsLogGroup",
                            members: &[may("logGroupArn", ARN)],
                        },
                    )],
                },
            },
        ),
    ],
};
const TRACING: Shape =
    Shape::Object { type_name: "TracingConfiguration", members: &[may("enabled", Shape::Flag)] };
const ROUTING: Shape = Shape::List {
    min: 1,
    max: 2,
    item: &Shape::Object {
        type_name: "RoutingConfigurationListItem",
        members: &[need("stateMachineVersionArn", ARN), need("weight", Shape::Integer { min: 0, max: 100 })],
    },
};
const MOCK: Shape = Shape::Object {
    type_name: "MockInput",
    members: &[
        may("result", PAYLOAD),
        may(
            "errorOutput",
            Shape::Object {
                type_name: "MockErrorOutput",
                members: &[may("error", ERROR), may("cause", CAUSE)],
            },
        ),
        may("fieldValidationMode", Shape::OneOf(&["STRICT", "PRESENT", "NONE"])),
    ],
};
const STATE_CONFIGURATION: Shape = Shape::Object {
    type_name: "TestStateConfiguration",
    members: &[
        may("retrierRetryCount", COUNT),
        may("errorCausedByState", STATE_NAME),
        may("mapIterationFailureCount", COUNT),
        may("mapItemReaderData", PAYLOAD),
    ],
};

const fn action(name: &'static str, members: &'static [Member]) -> Action {
    Action { name, members }
}

/// All actions, by name.
#[rustfmt::skip]
pub(super) const ACTIONS: [Action; 37] = [
    action("CreateActivity", &[need("name", NAME), may("tags", TAGS), may("encryptionConfiguration", ENCRYPTION)]),
    action("CreateStateMachine", &[
        need("name", NAME), need("definition", DEFINITION), need("roleArn", ARN), may("type", MACHINE_TYPE),
        may("loggingConfiguration", LOGGING), may("tags", TAGS), may("tracingConfiguration", TRACING),
        may("publish", Shape::Flag), may("versionDescription", DESCRIPTION),
        may("encryptionConfiguration", ENCRYPTION),
    ]),
    action("CreateStateMachineAlias", &[
        may("description", DESCRIPTION), need("name", patterned(80, 1, Pattern::AliasName)),
        need("routingConfiguration", ROUTING),
    ]),
    action("DeleteActivity", &[need("activityArn", ARN)]),
    action("DeleteStateMachine", &[need("stateMachineArn", ARN)]),
    action("DeleteStateMachineAlias", &[need("stateMachineAliasArn", ARN)]),
    action("DeleteStateMachineVersion", &[need("stateMachineVersionArn", LONG_ARN)]),
    action("DescribeActivity", &[need("activityArn", ARN)]),
    action("DescribeExecution", &[need("executionArn", ARN), may("includedData", INCLUDED_DATA)]),
    action("DescribeMapRun", &[need("mapRunArn", LONG_ARN)]),
    action("DescribeStateMachine", &[need("stateMachineArn", ARN), may("includedData", INCLUDED_DATA)]),
    action("DescribeStateMachineAlias", &[need("stateMachineAliasArn", ARN)]),
    action("DescribeStateMachineForExecution", &[need("executionArn", ARN), may("includedData", INCLUDED_DATA)]),
    action("GetActivityTask", &[need("activityArn", ARN), may("workerName", NAME)]),
    action("GetExecutionHistory", &[
        need("executionArn", ARN), may("maxResults", PAGE_SIZE), may("reverseOrder", Shape::Flag),
        may("nextToken", PAGE_TOKEN), may("includeExecutionData", Shape::Flag),
    ]),
    action("ListActivities", &[may("maxResults", PAGE_SIZE), may("nextToken", PAGE_TOKEN)]),
    action("ListExecutions", &[
        may("stateMachineArn", ARN),
        may("statusFilter", Shape::OneOf(
            // As AWS lists them.
            &["SUCCEEDED", "TIMED_OUT", "PENDING_REDRIVE", "ABORTED", "FAILED", "RUNNING"],
        )),
        may("maxResults", PAGE_SIZE), may("nextToken", text(1, 3096)), may("mapRunArn", LONG_ARN),
        may("redriveFilter", Shape::OneOf(&["REDRIVEN", "NOT_REDRIVEN"])),
    ]),
    action("ListMapRuns", &[need("executionArn", ARN), may("maxResults", PAGE_SIZE), may("nextToken", PAGE_TOKEN)]),
    action("ListStateMachineAliases", &[
        need("stateMachineArn", ARN), may("nextToken", PAGE_TOKEN), may("maxResults", PAGE_SIZE),
    ]),
    action("ListStateMachineVersions", &[
        need("stateMachineArn", ARN), may("nextToken", PAGE_TOKEN), may("maxResults", PAGE_SIZE),
    ]),
    action("ListStateMachines", &[may("maxResults", PAGE_SIZE), may("nextToken", PAGE_TOKEN)]),
    action("ListTagsForResource", &[need("resourceArn", ARN)]),
    action("PublishStateMachineVersion", &[
        need("stateMachineArn", ARN), may("revisionId", text(0, usize::MAX)), may("description", DESCRIPTION),
    ]),
    action("RedriveExecution", &[
        need("executionArn", ARN), may("clientToken", patterned(64, 1, Pattern::Printable)),
    ]),
    action("SendTaskFailure", &[need("taskToken", TASK_TOKEN), may("error", ERROR), may("cause", CAUSE)]),
    action("SendTaskHeartbeat", &[need("taskToken", TASK_TOKEN)]),
    action("SendTaskSuccess", &[need("taskToken", TASK_TOKEN), need("output", PAYLOAD)]),
    action("StartExecution", &[
        need("stateMachineArn", ARN), may("name", NAME), may("input", PAYLOAD), may("traceHeader", TRACE_HEADER),
    ]),
    action("StartSyncExecution", &[
        need("stateMachineArn", ARN), may("name", NAME), may("input", PAYLOAD), may("traceHeader", TRACE_HEADER),
        may("includedData", INCLUDED_DATA),
    ]),
    action("StopExecution", &[need("executionArn", ARN), may("error", ERROR), may("cause", CAUSE)]),
    action("TagResource", &[need("resourceArn", ARN), need("tags", TAGS)]),
    action("TestState", &[
        need("definition", DEFINITION), may("roleArn", ARN), may("input", PAYLOAD),
        may("inspectionLevel", Shape::OneOf(&["INFO", "DEBUG", "TRACE"])), may("revealSecrets", Shape::Flag),
        may("variables", PAYLOAD), may("stateName", STATE_NAME), may("mock", MOCK), may("context", PAYLOAD),
        may("stateConfiguration", STATE_CONFIGURATION),
    ]),
    action("UntagResource", &[
        need("resourceArn", ARN), need("tagKeys", Shape::List { min: 0, max: usize::MAX, item: &TAG_KEY }),
    ]),
    action("UpdateMapRun", &[
        need("mapRunArn", LONG_ARN), may("maxConcurrency", COUNT),
        may("toleratedFailurePercentage", Shape::Float { min: 0.0, max: 100.0 }),
        may("toleratedFailureCount", COUNT),
    ]),
    action("UpdateStateMachine", &[
        need("stateMachineArn", ARN), may("definition", DEFINITION), may("roleArn", ARN),
        may("loggingConfiguration", LOGGING), may("tracingConfiguration", TRACING), may("publish", Shape::Flag),
        may("versionDescription", DESCRIPTION), may("encryptionConfiguration", ENCRYPTION),
    ]),
    action("UpdateStateMachineAlias", &[
        need("stateMachineAliasArn", ARN), may("description", DESCRIPTION), may("routingConfiguration", ROUTING),
    ]),
    action("ValidateStateMachineDefinition", &[
        need("definition", DEFINITION), may("type", MACHINE_TYPE),
        may("severity", Shape::OneOf(&["ERROR", "WARNING"])),
        may("maxResults", Shape::Integer { min: 0, max: 100 }),
    ]),
];

/// An action by its name.
pub(super) fn find(name: &str) -> Option<&'static Action> {
    let at = ACTIONS.binary_search_by(|action| action.name.cmp(name)).ok()?;
    Some(&ACTIONS[at])
}

impl Action {
    /// Holds a request to the model.
    pub(super) fn check(&self, request: &Map, is_strict: bool) -> Result<(), ApiError> {
        types(request, self.members)?;
        let mut complaints = Complaints { found: Vec::new(), is_strict };
        complaints.structure(request, self.members, "");
        match complaints.found.len() {
            0 => Ok(()),
            1 => Err(ApiError::invalid(format!("1 validation error detected: {}", complaints.found[0]))),
            count => {
                let all = complaints.found.join("; ");
                Err(ApiError::invalid(format!("{count} validation errors detected: {all}")))
            }
        }
    }
}

/// Whether everything has the type that it should have.
fn types(given: &Map, members: &[Member]) -> Result<(), ApiError> {
    for member in members {
        if let Some(value) = given.get(member.name).filter(|value| !value.is_null()) {
            type_of(value, &member.shape)?;
        }
    }
    Ok(())
}

fn type_of(value: &Value, shape: &Shape) -> Result<(), ApiError> {
    let wanted = match (shape, value) {
        (Shape::Text { .. } | Shape::Document { .. } | Shape::OneOf(_), Value::String(_))
        | (Shape::Flag, Value::Bool(_))
        | (Shape::Float { .. }, Value::Number(_)) => return Ok(()),
        (Shape::Integer { .. }, Value::Number(number)) if number.as_i64().is_some() => return Ok(()),
        (Shape::Object { members, .. }, Value::Object(given)) => return types(given, members),
        (Shape::List { item, .. }, Value::Array(items)) => {
            let mut given = items.iter().filter(|value| !value.is_null());
            return given.try_for_each(|value| type_of(value, item));
        }
        (Shape::Text { .. } | Shape::Document { .. } | Shape::OneOf(_), _) => "String",
        (Shape::Flag, _) => "Boolean",
        (Shape::Integer { .. }, _) => "Integer",
        (Shape::Float { .. }, _) => "Float",
        (Shape::Object { .. } | Shape::List { .. }, _) => "",
    };
    let found = match value {
        Value::Array(_) | Value::Object(_) if wanted.is_empty() => "Unexpected container type".to_owned(),
        Value::Array(_) => "Unrecognized collection type class java.lang.String".to_owned(),
        Value::Object(_) => "Start of structure or map found where not expected.".to_owned(),
        _ if wanted.is_empty() => "Unexpected field type".to_owned(),
        Value::Number(number) if number.is_integer() => {
            format!("NUMBER_VALUE cannot be converted to {wanted}")
        }
        Value::Number(_) => format!("DECIMAL_VALUE cannot be converted to {wanted}"),
        Value::Bool(true) => format!("TRUE_VALUE cannot be converted to {wanted}"),
        Value::Bool(false) => format!("FALSE_VALUE cannot be converted to {wanted}"),
        Value::String(_) | Value::Null => format!("STRING_VALUE cannot be converted to {wanted}"),
    };
    Err(ApiError::new(Code::SerializationException, found))
}

/// What is wrong with a request whose types are right.
struct Complaints {
    found: Vec<String>,
    is_strict: bool,
}

impl Complaints {
    fn structure(&mut self, given: &Map, members: &[Member], place: &str) {
        for member in members {
            let place =
                if place.is_empty() { member.name.to_owned() } else { format!("{place}.{}", member.name) };
            match given.get(member.name).filter(|value| !value.is_null()) {
                Some(value) => self.value(value, &member.shape, &place),
                None if member.is_required => {
                    self.found.push(format!(
                        "Value null at '{place}' failed to satisfy constraint: Member must not be null"
                    ));
                }
                None => {}
            }
        }
    }

    fn value(&mut self, value: &Value, shape: &Shape, place: &str) {
        match (shape, value) {
            (Shape::Text { min, max, pattern, is_sensitive }, Value::String(text)) => {
                let length = text.chars().count();
                let shown = (!is_sensitive).then(|| text.to_string());
                self.length(length, *min, *max, shown.as_deref(), place);
                if let Some(pattern) = pattern.filter(|pattern| length > 0 && !pattern.fits(text)) {
                    let must = format!("Member must satisfy regular expression pattern: {}", pattern.text());
                    self.complain(shown.as_deref(), place, &must);
                }
            }
            (Shape::Document { max }, Value::String(text)) => {
                let max = if self.is_strict { *max } else { usize::MAX };
                self.length(text.chars().count(), 0, max, None, place);
            }
            (Shape::OneOf(words), Value::String(text)) if !words.contains(&&**text) => {
                let must = format!("Member must satisfy enum value set: [{}]", words.join(", "));
                self.complain(Some(text), place, &must);
            }
            (Shape::Integer { min, max }, Value::Number(number)) => {
                let given = number.as_i64().unwrap_or_default();
                let shown = given.to_string();
                if given < *min {
                    let must = format!("Member must have value greater than or equal to {min}");
                    self.complain(Some(&shown), place, &must);
                } else if given > *max {
                    self.complain(
                        Some(&shown),
                        place,
                        &format!("Member must have value less than or equal to {max}"),
                    );
                }
            }
            (Shape::Float { min, max }, Value::Number(number)) => {
                let (given, shown) = (number.as_f64(), number.to_string());
                if given < *min {
                    let must = format!("Member must have value greater than or equal to {min}");
                    self.complain(Some(&shown), place, &must);
                } else if given > *max {
                    self.complain(
                        Some(&shown),
                        place,
                        &format!("Member must have value less than or equal to {max}"),
                    );
                }
            }
            (Shape::Object { members, .. }, Value::Object(given)) => self.structure(given, members, place),
            (Shape::List { min, max, item }, Value::Array(items)) => {
                if items.len() < *min || items.len() > *max {
                    let shown = as_java(value, shape);
                    self.length(items.len(), *min, *max, Some(&shown), place);
                }
                for (at, value) in items.iter().enumerate() {
                    self.value(value, item, &format!("{place}.{}.member", at + 1));
                }
            }
            // A word of the list; a null; of all else the types are right.
            _ => {}
        }
    }

    fn length(&mut self, length: usize, min: usize, max: usize, shown: Option<&str>, place: &str) {
        if length < min {
            self.complain(shown, place, &format!("Member must have length greater than or equal to {min}"));
        } else if length > max {
            self.complain(shown, place, &format!("Member must have length less than or equal to {max}"));
        }
    }

    fn complain(&mut self, shown: Option<&str>, place: &str, must: &str) {
        let shown = shown.map_or_else(String::new, |shown| format!(" '{shown}'"));
        self.found.push(format!("Value{shown} at '{place}' failed to satisfy constraint: {must}"));
    }
}

/// A value as AWS prints it in a complaint.
fn as_java(value: &Value, shape: &Shape) -> String {
    match (value, shape) {
        (Value::Array(items), Shape::List { item, .. }) => {
            let items: Vec<String> = items.iter().map(|value| as_java(value, item)).collect();
            format!("[{}]", items.join(", "))
        }
        (Value::Object(given), Shape::Object { type_name, members }) => {
            let mut shown = format!("{type_name}(");
            for (at, member) in members.iter().enumerate() {
                let value = given
                    .get(member.name)
                    .map_or_else(|| "null".into(), |value| as_java(value, &member.shape));
                let comma = if at == 0 { "" } else { ", " };
                write!(shown, "{comma}{}={value}", member.name).expect("a text takes everything");
            }
            shown + ")"
        }
        (Value::String(text), _) => text.to_string(),
        (value, _) => value.to_string(),
    }
}
