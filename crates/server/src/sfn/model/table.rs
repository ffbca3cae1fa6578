//! The table: all 37 actions with their members, as the service's model has them.

use super::{Action, Member, Pattern, Shape};

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
pub(in crate::sfn) const ACTIONS: [Action; 37] = [
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
