//! The table of all 37 actions: the name, the function that carries it out, and the members of its request, as the
//! service's model has them. A new action is a row here and its function.

use super::error::{ApiError, Code};
use super::model::{Member, Pattern, Shape};
use super::requested::Asked;
use super::{Api, activities, executions, history, list, machines, map_runs, tags, test_state, versions};
use crate::who::Role;
use perdura_engine::asl::json::Value;
use std::pin::Pin;

/// An action.
pub(super) struct Action {
    pub(super) name: &'static str,
    /// It only reads, so that a client may call it again.
    pub(super) only_asks: bool,
    /// What an access key needs for it.
    pub(super) role: Role,
    pub(super) carry_out: CarryOut,
    pub(super) members: &'static [Member],
}

type CarryOut =
    for<'a> fn(&'a Api, Asked) -> Pin<Box<dyn Future<Output = Result<Value, ApiError>> + Send + 'a>>;

/// An action by its name.
pub(super) fn find(name: &str) -> Result<&'static Action, ApiError> {
    let at = place(name).ok_or_else(|| ApiError::new(Code::UnknownOperationException, ""))?;
    Ok(&ACTIONS[at])
}

/// The index of an action in the table.
pub(super) fn place(name: &str) -> Option<usize> {
    ACTIONS.binary_search_by(|action| action.name.cmp(name)).ok()
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
const DEFINITION: Shape = Shape::Document { min: 1, max: 1_048_576 };
const PAYLOAD: Shape = Shape::Document { min: 0, max: 262_144 };
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

const fn asks(name: &'static str, carry_out: CarryOut, members: &'static [Member]) -> Action {
    Action { name, only_asks: true, role: Role::Read, carry_out, members }
}

const fn does(name: &'static str, carry_out: CarryOut, members: &'static [Member]) -> Action {
    Action { name, only_asks: false, role: Role::Operate, carry_out, members }
}

/// Starts executions, or works on tasks.
const fn works(name: &'static str, carry_out: CarryOut, members: &'static [Member]) -> Action {
    Action { name, only_asks: false, role: Role::Run, carry_out, members }
}

/// A function that reads the request.
macro_rules! reads {
    ($function:path) => {
        |api, asked| Box::pin(async move { $function(api, asked.requested()).await })
    };
}

/// A function that takes the request, and drops it before it waits.
macro_rules! takes {
    ($function:path) => {
        |api, asked| Box::pin($function(api, asked))
    };
}

/// All actions, by name.
#[rustfmt::skip]
pub(super) static ACTIONS: [Action; 37] = [
    does("CreateActivity", reads!(activities::create), &[
        need("name", NAME), may("tags", TAGS), may("encryptionConfiguration", ENCRYPTION),
    ]),
    does("CreateStateMachine", reads!(machines::create), &[
        need("name", NAME), need("definition", DEFINITION), need("roleArn", ARN), may("type", MACHINE_TYPE),
        may("loggingConfiguration", LOGGING), may("tags", TAGS), may("tracingConfiguration", TRACING),
        may("publish", Shape::Flag), may("versionDescription", DESCRIPTION),
        may("encryptionConfiguration", ENCRYPTION),
    ]),
    does("CreateStateMachineAlias", reads!(versions::create_alias), &[
        may("description", DESCRIPTION), need("name", patterned(80, 1, Pattern::AliasName)),
        need("routingConfiguration", ROUTING),
    ]),
    does("DeleteActivity", reads!(activities::delete), &[need("activityArn", ARN)]),
    does("DeleteStateMachine", reads!(machines::delete), &[need("stateMachineArn", ARN)]),
    does("DeleteStateMachineAlias", reads!(versions::delete_alias), &[need("stateMachineAliasArn", ARN)]),
    does("DeleteStateMachineVersion", reads!(versions::delete_version), &[need("stateMachineVersionArn", LONG_ARN)]),
    asks("DescribeActivity", reads!(activities::describe), &[need("activityArn", ARN)]),
    asks("DescribeExecution", reads!(executions::describe), &[
        need("executionArn", ARN), may("includedData", INCLUDED_DATA),
    ]),
    asks("DescribeMapRun", reads!(map_runs::describe), &[need("mapRunArn", LONG_ARN)]),
    asks("DescribeStateMachine", reads!(machines::describe), &[
        need("stateMachineArn", ARN), may("includedData", INCLUDED_DATA),
    ]),
    asks("DescribeStateMachineAlias", reads!(versions::describe_alias), &[need("stateMachineAliasArn", ARN)]),
    asks("DescribeStateMachineForExecution", reads!(machines::describe_for_execution), &[
        need("executionArn", ARN), may("includedData", INCLUDED_DATA),
    ]),
    works("GetActivityTask", takes!(activities::get_task), &[need("activityArn", ARN), may("workerName", NAME)]),
    asks("GetExecutionHistory", reads!(history::get), &[
        need("executionArn", ARN), may("maxResults", PAGE_SIZE), may("reverseOrder", Shape::Flag),
        may("nextToken", PAGE_TOKEN), may("includeExecutionData", Shape::Flag),
    ]),
    asks("ListActivities", reads!(activities::list), &[may("maxResults", PAGE_SIZE), may("nextToken", PAGE_TOKEN)]),
    asks("ListExecutions", reads!(list::executions), &[
        may("stateMachineArn", ARN),
        may("statusFilter", Shape::OneOf(
            // As AWS lists them.
            &["SUCCEEDED", "TIMED_OUT", "PENDING_REDRIVE", "ABORTED", "FAILED", "RUNNING"],
        )),
        may("maxResults", PAGE_SIZE), may("nextToken", text(1, 3096)), may("mapRunArn", LONG_ARN),
        may("redriveFilter", Shape::OneOf(&["REDRIVEN", "NOT_REDRIVEN"])),
    ]),
    asks("ListMapRuns", reads!(map_runs::list), &[
        need("executionArn", ARN), may("maxResults", PAGE_SIZE), may("nextToken", PAGE_TOKEN),
    ]),
    asks("ListStateMachineAliases", reads!(versions::list_aliases), &[
        need("stateMachineArn", ARN), may("nextToken", PAGE_TOKEN), may("maxResults", PAGE_SIZE),
    ]),
    asks("ListStateMachineVersions", reads!(versions::list_versions), &[
        need("stateMachineArn", ARN), may("nextToken", PAGE_TOKEN), may("maxResults", PAGE_SIZE),
    ]),
    asks("ListStateMachines", reads!(machines::list), &[may("maxResults", PAGE_SIZE), may("nextToken", PAGE_TOKEN)]),
    asks("ListTagsForResource", reads!(tags::list), &[need("resourceArn", ARN)]),
    does("PublishStateMachineVersion", reads!(versions::publish), &[
        need("stateMachineArn", ARN), may("revisionId", text(0, usize::MAX)), may("description", DESCRIPTION),
    ]),
    does("RedriveExecution", reads!(executions::redrive), &[
        need("executionArn", ARN), may("clientToken", patterned(64, 1, Pattern::Printable)),
    ]),
    works("SendTaskFailure", reads!(activities::fail), &[
        need("taskToken", TASK_TOKEN), may("error", ERROR), may("cause", CAUSE),
    ]),
    works("SendTaskHeartbeat", reads!(activities::heartbeat), &[need("taskToken", TASK_TOKEN)]),
    works("SendTaskSuccess", reads!(activities::succeed), &[need("taskToken", TASK_TOKEN), need("output", PAYLOAD)]),
    works("StartExecution", takes!(executions::start), &[
        need("stateMachineArn", ARN), may("name", NAME), may("input", PAYLOAD), may("traceHeader", TRACE_HEADER),
    ]),
    works("StartSyncExecution", takes!(executions::start_sync), &[
        need("stateMachineArn", ARN), may("name", NAME), may("input", PAYLOAD), may("traceHeader", TRACE_HEADER),
        may("includedData", INCLUDED_DATA),
    ]),
    does("StopExecution", reads!(executions::stop), &[
        need("executionArn", ARN), may("error", ERROR), may("cause", CAUSE),
    ]),
    does("TagResource", reads!(tags::tag), &[need("resourceArn", ARN), need("tags", TAGS)]),
    does("TestState", reads!(test_state::test), &[
        need("definition", DEFINITION), may("roleArn", ARN), may("input", PAYLOAD),
        may("inspectionLevel", Shape::OneOf(&["INFO", "DEBUG", "TRACE"])), may("revealSecrets", Shape::Flag),
        may("variables", PAYLOAD), may("stateName", STATE_NAME), may("mock", MOCK), may("context", PAYLOAD),
        may("stateConfiguration", STATE_CONFIGURATION),
    ]),
    does("UntagResource", reads!(tags::untag), &[
        need("resourceArn", ARN), need("tagKeys", Shape::List { min: 0, max: usize::MAX, item: &TAG_KEY }),
    ]),
    does("UpdateMapRun", reads!(map_runs::update), &[
        need("mapRunArn", LONG_ARN), may("maxConcurrency", COUNT),
        may("toleratedFailurePercentage", Shape::Float { min: 0.0, max: 100.0 }),
        may("toleratedFailureCount", COUNT),
    ]),
    does("UpdateStateMachine", reads!(machines::update), &[
        need("stateMachineArn", ARN), may("definition", DEFINITION), may("roleArn", ARN),
        may("loggingConfiguration", LOGGING), may("tracingConfiguration", TRACING), may("publish", Shape::Flag),
        may("versionDescription", DESCRIPTION), may("encryptionConfiguration", ENCRYPTION),
    ]),
    does("UpdateStateMachineAlias", reads!(versions::update_alias), &[
        need("stateMachineAliasArn", ARN), may("description", DESCRIPTION), may("routingConfiguration", ROUTING),
    ]),
    asks("ValidateStateMachineDefinition", reads!(machines::validate), &[
        need("definition", DEFINITION), may("type", MACHINE_TYPE),
        may("severity", Shape::OneOf(&["ERROR", "WARNING"])),
        may("maxResults", Shape::Integer { min: 0, max: 100 }),
    ]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_found_by_their_names() {
        assert!(ACTIONS.is_sorted_by_key(|action| action.name), "they are searched by halving");
        assert!(ACTIONS.iter().all(|action| find(action.name).is_ok()));
        assert!(find("startExecution").is_err());
    }

    #[test]
    fn only_questions_may_be_sent_away_with_their_answers() {
        let is_question = |name: &str| find(name).is_ok_and(|action| action.only_asks);
        for ask in ["DescribeExecution", "ListExecutions", "GetExecutionHistory", "DescribeMapRun"] {
            assert!(is_question(ask), "{ask}");
        }
        for deed in ["StartSyncExecution", "GetActivityTask", "TestState", "SendTaskSuccess", ""] {
            assert!(!is_question(deed), "{deed}");
        }
    }
}
