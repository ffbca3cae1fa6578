//! The service integrations of Step Functions: services, their actions, and how each may be awaited.

/// Besides the plain call: `.sync`.
const SYNC: u8 = 1;
/// Besides the plain call: `.waitForTaskToken`.
const TOKEN: u8 = 2;
/// Besides the plain call: `.sync:2`.
const SYNC2: u8 = 4;

type Actions = &'static [(&'static str, u8)];

/// The optimized integrations.
const OPTIMIZED: &[(&str, Actions)] = &[
    ("apigateway", &[("invoke", TOKEN)]),
    (
        "athena",
        &[
            ("startQueryExecution", SYNC),
            ("stopQueryExecution", 0),
            ("getQueryExecution", 0),
            ("getQueryResults", 0),
        ],
    ),
    ("batch", &[("submitJob", SYNC)]),
    ("bedrock", &[("invokeModel", TOKEN), ("createModelCustomizationJob", SYNC | TOKEN)]),
    ("bedrockagentcore", &[("invokeHarness", 0)]),
    (
        "codebuild",
        &[
            ("startBuild", SYNC),
            ("stopBuild", 0),
            ("batchDeleteBuilds", 0),
            ("batchGetReports", 0),
            ("startBuildBatch", SYNC),
            ("stopBuildBatch", 0),
            ("retryBuildBatch", SYNC),
            ("deleteBuildBatch", 0),
        ],
    ),
    ("databrew", &[("startJobRun", SYNC)]),
    ("dynamodb", &[("getItem", 0), ("putItem", 0), ("updateItem", 0), ("deleteItem", 0)]),
    ("ecs", &[("runTask", SYNC | TOKEN)]),
    (
        "eks",
        &[
            ("createCluster", SYNC),
            ("createNodegroup", SYNC),
            ("createFargateProfile", SYNC),
            ("deleteCluster", SYNC),
            ("deleteNodegroup", SYNC),
            ("deleteFargateProfile", SYNC),
            ("runJob", SYNC | TOKEN),
            ("call", TOKEN),
        ],
    ),
    (
        "elasticmapreduce",
        &[
            ("createCluster", SYNC),
            ("terminateCluster", SYNC),
            ("addStep", SYNC),
            ("cancelStep", 0),
            ("setClusterTerminationProtection", 0),
            ("modifyInstanceFleetByName", 0),
            ("modifyInstanceGroupByName", 0),
        ],
    ),
    ("emr-containers", &[("createVirtualCluster", 0), ("deleteVirtualCluster", SYNC), ("startJobRun", SYNC)]),
    (
        "emr-serverless",
        &[
            ("createApplication", SYNC),
            ("startApplication", SYNC),
            ("stopApplication", SYNC),
            ("deleteApplication", SYNC),
            ("startJobRun", SYNC),
            ("cancelJobRun", SYNC),
        ],
    ),
    ("events", &[("putEvents", TOKEN)]),
    ("glue", &[("startJobRun", SYNC)]),
    ("http", &[("invoke", 0)]),
    ("lambda", &[("invoke", TOKEN)]),
    ("mediaconvert", &[("createJob", SYNC)]),
    (
        "sagemaker",
        &[
            ("createEndpoint", 0),
            ("createEndpointConfig", 0),
            ("createHyperParameterTuningJob", SYNC),
            ("createLabelingJob", SYNC),
            ("createModel", 0),
            ("createProcessingJob", SYNC),
            ("createTrainingJob", SYNC),
            ("createTransformJob", SYNC),
            ("updateEndpoint", 0),
        ],
    ),
    ("sns", &[("publish", TOKEN)]),
    ("sqs", &[("sendMessage", TOKEN)]),
    ("states", &[("startExecution", SYNC | SYNC2 | TOKEN)]),
];

/// The required arguments of a call, as AWS checks them when a definition is created.
const REQUIRED: &[(&str, &str, &[&str])] = &[
    ("dynamodb", "getItem", &["TableName", "Key"]),
    ("dynamodb", "putItem", &["TableName", "Item"]),
    ("ecs", "runTask", &["TaskDefinition"]),
    ("events", "putEvents", &["Entries"]),
    ("glue", "startJobRun", &["JobName"]),
    ("http", "invoke", &["ApiEndpoint", "Method"]),
    ("lambda", "invoke", &["FunctionName"]),
    ("sns", "publish", &["Message"]),
    ("sqs", "sendMessage", &["QueueUrl", "MessageBody"]),
    ("states", "startExecution", &["StateMachineArn"]),
];

fn split(action: &str) -> (&str, &str) {
    action.split_once('.').unwrap_or((action, ""))
}

/// Whether there is such a call. SDK integrations are too many to list: any service in lower case, any action
/// in camel case.
pub(super) fn is_known(service: &str, action: &str) -> bool {
    let (name, pattern) = split(action);
    let flag = match pattern {
        "" => 0,
        "sync" => SYNC,
        "sync:2" => SYNC2,
        "waitForTaskToken" => TOKEN,
        _ => return false,
    };
    if let Some(api) = service.strip_prefix("aws-sdk:") {
        let is_api = !api.is_empty() && api.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let is_camel = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        return is_api && is_camel && flag & (SYNC | SYNC2) == 0;
    }
    let actions = OPTIMIZED.iter().find(|(known, _)| *known == service).map(|(_, actions)| *actions);
    let found = actions.unwrap_or_default().iter().find(|(known, _)| *known == name);
    found.is_some_and(|(_, patterns)| flag & !patterns == 0)
}

pub(super) fn required_arguments(service: &str, action: &str) -> &'static [&'static str] {
    let (name, _) = split(action);
    let found = REQUIRED.iter().find(|entry| entry.0 == service && entry.1 == name);
    found.map_or(&[], |entry| entry.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_its_actions_and_patterns() {
        for (service, action, expected) in [
            ("lambda", "invoke", true),
            ("lambda", "invoke.waitForTaskToken", true),
            ("lambda", "invoke.sync", false),
            ("states", "startExecution.sync:2", true),
            ("ecs", "runTask.sync:2", false),
            ("dynamodb", "query", false),
            ("dynamodb", "getItem.waitForTaskToken", false),
            ("aws-sdk:dynamodb", "query", true),
            ("aws-sdk:sfn", "startExecution.waitForTaskToken", true),
            ("aws-sdk:sfn", "startExecution.sync", false),
            ("aws-sdk:s3", "ListBuckets", false),
            ("s3", "getObject", false),
            ("stateMachine", "mine", false),
        ] {
            assert_eq!(is_known(service, action), expected, "{service}:{action}");
        }
        assert_eq!(required_arguments("sqs", "sendMessage.waitForTaskToken"), ["QueueUrl", "MessageBody"]);
    }
}
