//! The supported services and their differences, as data, and the lookup.
//!
//! A definition names a service as AWS's SDK does (`aws-sdk:sfn:startExecution`), or by an optimized integration
//! (`sqs:sendMessage`). Both mean the same service; they differ in how results and errors are shown, see [`Style`].

use super::faults;
use super::{lambda, s3};
use perdura_engine::asl::resource::{Pattern, Resource, Target, TaskKind};

/// A service, with everything needed to call it.
#[derive(Debug)]
pub(super) struct Service {
    /// Its name in `aws-sdk:NAME:…`, which is also its name in `[aws.endpoints]`.
    pub(super) name: &'static str,
    /// The name in its signatures, which may also be the name in `[aws.endpoints]`.
    pub(super) signs_as: &'static str,
    pub(super) protocol: Protocol,
    /// The prefix of errors in an SDK integration: `DynamoDb` in `DynamoDb.DynamoDbException`.
    pub(super) sdk_name: &'static str,
    /// The codes of its model; see [`faults`].
    pub(super) faults: &'static str,
    /// Members that are text. JSON for one of them is written as text, as in Step Functions.
    pub(super) texts: &'static [&'static str],
    /// Members that are bytes, in base64 on the wire.
    pub(super) blobs: &'static [&'static str],
    /// Members that are times, by their names on the wire: seconds there, ISO 8601 in arguments and results.
    pub(super) times: &'static [&'static str],
    /// Members that have another name in a definition: on the wire, and there.
    pub(super) renamed: &'static [(&'static str, &'static str)],
    /// Actions that can be repeated safely if this member is the same.
    pub(super) tokens: &'static [(&'static str, &'static str)],
}

/// The protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Everything in a JSON body, the action in a header.
    Json {
        /// `1.0` or `1.1`.
        version: &'static str,
        /// The prefix of the action.
        target: &'static str,
        case: Case,
    },
    /// A form, answered with XML.
    Query {
        /// The version of the API.
        version: &'static str,
    },
    /// Lambda's addresses.
    Lambda,
    /// S3's addresses.
    S3,
}

/// How members are spelled on the wire. A definition always begins them in upper case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    /// Names below these members were chosen by users, and stay unchanged.
    Lower {
        maps: &'static [&'static str],
    },
}

/// The two kinds of Step Functions' integrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `arn:aws:states:::aws-sdk:…`
    Sdk,
    /// `arn:aws:states:::sqs:sendMessage`: an optimized integration, with the answer's headers in the result.
    Optimized(Optimized),
}

/// The errors of an optimized integration, which come from an older SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Optimized {
    /// The prefix of errors.
    pub(super) prefix: &'static str,
    /// The service in a cause.
    pub(super) service: &'static str,
    /// The error for codes that the model does not have.
    pub(super) base: &'static str,
}

/// A call of a service, as its resource names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation<'a> {
    pub(super) service: &'static Service,
    /// In camel case, as in definitions.
    pub(super) action: &'a str,
    pub(super) style: Style,
}

impl Operation<'_> {
    /// `SendMessage`.
    pub(super) fn wire_action(&self) -> String {
        let mut letters = self.action.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    }
}

const NONE: &[&str] = &[];

/// The supported services. Each was tested against a server.
#[rustfmt::skip]
pub(super) const SERVICES: &[Service] = &[
    Service {
        name: "cloudwatchlogs", signs_as: "logs", sdk_name: "CloudWatchLogs", faults: faults::LOGS,
        protocol: Protocol::Json {
            version: "1.1", target: "Logs_20140328",
            case: Case::Lower { maps: &["Attributes", "Dimensions", "KeyAttributes", "LogRecord", "Tags"] },
        },
        texts: &["Message"], blobs: NONE, times: NONE, renamed: &[],
        tokens: &[("putQueryDefinition", "ClientToken")],
    },
    Service {
        name: "dynamodb", signs_as: "dynamodb", sdk_name: "DynamoDb", faults: faults::DYNAMODB,
        protocol: Protocol::Json { version: "1.0", target: "DynamoDB_20120810", case: Case::Upper },
        texts: NONE, blobs: NONE, renamed: &[],
        times: &[
            "ArchivalDateTime", "BackupCreationDateTime", "BackupExpiryDateTime", "CreationDateTime",
            "EarliestRestorableDateTime", "LastDecreaseDateTime", "LastIncreaseDateTime", "LastUpdateDateTime",
            "LastUpdateToPayPerRequestDateTime", "LatestRestorableDateTime", "RestoreDateTime",
            "TableCreationDateTime",
        ],
        tokens: &[
            ("executeTransaction", "ClientRequestToken"), ("exportTableToPointInTime", "ClientToken"),
            ("importTable", "ClientToken"), ("transactWriteItems", "ClientRequestToken"),
        ],
    },
    Service {
        name: "ecs", signs_as: "ecs", sdk_name: "Ecs", faults: faults::ECS,
        protocol: Protocol::Json {
            version: "1.1", target: "AmazonEC2ContainerServiceV20141113",
            case: Case::Lower { maps: &["DockerLabels", "DriverOpts", "Labels", "Options"] },
        },
        texts: NONE, blobs: NONE, renamed: &[],
        times: &[
            "connectivityAt", "createdAt", "deregisteredAt", "executionStoppedAt", "expiresAt", "finishedAt",
            "lastStartedAt", "lastStatusChange", "lastUpdated", "pullStartedAt", "pullStoppedAt", "registeredAt",
            "stabilityStatusAt", "startedAt", "stoppedAt", "stoppingAt", "updatedAt",
        ],
        tokens: &[("createService", "ClientToken"), ("createTaskSet", "ClientToken"), ("runTask", "ClientToken")],
    },
    Service {
        name: "eventbridge", signs_as: "events", sdk_name: "EventBridge", faults: faults::EVENTBRIDGE,
        protocol: Protocol::Json { version: "1.1", target: "AWSEvents", case: Case::Upper },
        texts: &["Detail"], blobs: NONE, renamed: &[], tokens: &[],
        times: &[
            "CreationTime", "EventEndTime", "EventLastReplayedTime", "EventStartTime", "ExpirationTime",
            "LastAuthorizedTime", "LastModifiedTime", "ReplayEndTime", "ReplayStartTime", "Time",
        ],
    },
    Service {
        name: "kinesis", signs_as: "kinesis", sdk_name: "Kinesis", faults: faults::KINESIS,
        protocol: Protocol::Json { version: "1.1", target: "Kinesis_20131202", case: Case::Upper },
        texts: NONE, blobs: &["Data"], renamed: &[], tokens: &[],
        times: &[
            "ApproximateArrivalTimestamp", "ConsumerCreationTimestamp", "StreamCreationTimestamp", "Timestamp",
        ],
    },
    Service {
        name: "kms", signs_as: "kms", sdk_name: "Kms", faults: faults::KMS,
        protocol: Protocol::Json { version: "1.1", target: "TrentService", case: Case::Upper },
        texts: NONE, blobs: &["Message", "Plaintext"], tokens: &[], renamed: &[("AWSAccountId", "AwsAccountId")],
        times: &["CreationDate", "DeletionDate", "LastUpdatedDate", "NextRotationDate", "RotationDate", "ValidTo"],
    },
    Service {
        name: "lambda", signs_as: "lambda", sdk_name: "Lambda", faults: faults::LAMBDA, protocol: Protocol::Lambda,
        texts: NONE, blobs: NONE, times: NONE, renamed: &[("KMSKeyArn", "KmsKeyArn")], tokens: &[],
    },
    Service {
        name: "s3", signs_as: "s3", sdk_name: "S3", faults: faults::S3, protocol: Protocol::S3,
        texts: NONE, blobs: NONE, times: NONE, renamed: &[], tokens: &[],
    },
    Service {
        name: "secretsmanager", signs_as: "secretsmanager", sdk_name: "SecretsManager",
        faults: faults::SECRETS_MANAGER,
        protocol: Protocol::Json { version: "1.1", target: "secretsmanager", case: Case::Upper },
        texts: &["SecretString"], blobs: &["SecretBinary"], renamed: &[("ARN", "Arn")],
        times: &[
            "CreatedDate", "DeletedDate", "DeletionDate", "LastAccessedDate", "LastChangedDate", "LastRotatedDate",
            "NextRotationDate",
        ],
        tokens: &[
            ("createSecret", "ClientRequestToken"), ("putSecretValue", "ClientRequestToken"),
            ("rotateSecret", "ClientRequestToken"), ("updateSecret", "ClientRequestToken"),
        ],
    },
    Service {
        name: "sfn", signs_as: "states", sdk_name: "Sfn", faults: faults::SFN,
        protocol: Protocol::Json {
            version: "1.0", target: "AWSStepFunctions",
            case: Case::Lower { maps: &["AssignedVariables", "VariableReferences"] },
        },
        texts: &["Cause", "Definition", "Input", "Output"], blobs: NONE, renamed: &[],
        times: &["creationDate", "redriveDate", "startDate", "stopDate", "timestamp", "updateDate"],
        tokens: &[("redriveExecution", "ClientToken")],
    },
    Service {
        name: "sns", signs_as: "sns", sdk_name: "Sns", faults: faults::SNS,
        protocol: Protocol::Query { version: "2010-03-31" },
        texts: &["Message"], blobs: NONE, times: NONE, renamed: &[], tokens: &[],
    },
    Service {
        name: "sqs", signs_as: "sqs", sdk_name: "Sqs", faults: faults::SQS,
        protocol: Protocol::Json { version: "1.0", target: "AmazonSQS", case: Case::Upper },
        texts: &["MessageBody"], blobs: NONE, times: NONE, tokens: &[],
        renamed: &[
            ("AWSAccountIds", "AwsAccountIds"), ("MD5OfBody", "Md5OfBody"),
            ("MD5OfMessageAttributes", "Md5OfMessageAttributes"), ("MD5OfMessageBody", "Md5OfMessageBody"),
            ("MD5OfMessageSystemAttributes", "Md5OfMessageSystemAttributes"),
        ],
    },
    Service {
        name: "ssm", signs_as: "ssm", sdk_name: "Ssm", faults: faults::SSM,
        protocol: Protocol::Json { version: "1.1", target: "AmazonSSM", case: Case::Upper },
        texts: &["Value"], blobs: NONE, renamed: &[("ARN", "Arn")],
        times: &[
            "CreatedDate", "ExecutionEndTime", "ExecutionStartTime", "ExpiresAfter", "LastModifiedDate",
            "ModifiedDate", "RequestedDateTime", "StartDate",
        ],
        tokens: &[("createMaintenanceWindow", "ClientToken"), ("createPatchBaseline", "ClientToken")],
    },
    Service {
        name: "sts", signs_as: "sts", sdk_name: "Sts", faults: faults::STS,
        protocol: Protocol::Query { version: "2011-06-15" },
        texts: &["Policy"], blobs: NONE, times: NONE, renamed: &[], tokens: &[],
    },
];

/// Optimized integrations: their names, their services, and the form of their errors.
#[rustfmt::skip]
const OPTIMIZED: &[(&str, &[&str], &str, Optimized)] = &[
    ("dynamodb", &["deleteItem", "getItem", "putItem", "updateItem"], "dynamodb",
        Optimized { prefix: "DynamoDB", service: "AmazonDynamoDBv2", base: "AmazonDynamoDBException" }),
    ("events", &["putEvents"], "eventbridge",
        Optimized { prefix: "EventBridge", service: "AmazonEventBridge", base: "AmazonEventBridgeException" }),
    ("sns", &["publish"], "sns",
        Optimized { prefix: "SNS", service: "AmazonSNS", base: "AmazonSNSException" }),
    ("sqs", &["sendMessage"], "sqs",
        Optimized { prefix: "SQS", service: "AmazonSQS", base: "AmazonSQSException" }),
];

/// The service with this name in an SDK integration or a signature.
pub(super) fn named(name: &str) -> Option<&'static Service> {
    SERVICES.iter().find(|service| service.name == name || service.signs_as == name)
}

/// The operation of a resource, if it is a call of a supported service.
pub(super) fn operation(resource: &Resource) -> Option<Operation<'_>> {
    let Target::Service { service, action } = &resource.target else { return None };
    // This room cannot wait for a job.
    if resource.kind != TaskKind::Service || resource.pattern == Pattern::Sync {
        return None;
    }
    let action = action.split('.').next().filter(|action| !action.is_empty())?;
    if let Some(name) = service.strip_prefix("aws-sdk:") {
        let service = SERVICES.iter().find(|service| service.name == name)?;
        let is_spoken = match service.protocol {
            Protocol::Json { .. } | Protocol::Query { .. } => true,
            Protocol::Lambda => lambda::knows(action),
            Protocol::S3 => s3::knows(action),
        };
        return is_spoken.then_some(Operation { service, action, style: Style::Sdk });
    }
    let (_, _, name, optimized) =
        OPTIMIZED.iter().find(|(known, actions, _, _)| *known == &**service && actions.contains(&action))?;
    Some(Operation { service: named(name)?, action, style: Style::Optimized(*optimized) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_means_a_service_an_action_and_a_style() {
        for (arn, expected) in [
            ("arn:aws:states:::sqs:sendMessage", Some(("sqs", "SendMessage", false))),
            ("arn:aws:states:::sqs:sendMessage.waitForTaskToken", Some(("sqs", "SendMessage", false))),
            ("arn:aws:states:::events:putEvents", Some(("eventbridge", "PutEvents", false))),
            ("arn:aws:states:::aws-sdk:sqs:sendMessage", Some(("sqs", "SendMessage", true))),
            ("arn:aws:states:::aws-sdk:sfn:listExecutions", Some(("sfn", "ListExecutions", true))),
            ("arn:aws:states:::aws-sdk:s3:listObjectsV2", Some(("s3", "ListObjectsV2", true))),
            ("arn:aws:states:::aws-sdk:lambda:invoke", Some(("lambda", "Invoke", true))),
            ("arn:aws:states:::aws-sdk:s3:putBucketPolicy", None),
            ("arn:aws:states:::aws-sdk:states:listExecutions", None),
            ("arn:aws:states:::aws-sdk:glue:startJobRun", None),
            ("arn:aws:states:::sqs:receiveMessage", None),
            ("arn:aws:states:::lambda:invoke", None),
            ("arn:aws:states:::http:invoke", None),
            ("arn:aws:states:::states:startExecution", None),
            ("arn:aws:lambda:us-east-1:123456789012:function:f", None),
        ] {
            let resource = Resource::parse(arn).unwrap();
            let found = operation(&resource);
            let found = found
                .map(|found| (found.service.name, found.wire_action(), matches!(found.style, Style::Sdk)));
            let expected =
                expected.map(|(name, action, is_sdk): (_, &str, _)| (name, action.to_owned(), is_sdk));
            assert_eq!(found, expected, "{arn}");
        }
    }

    #[test]
    fn names_are_in_order_and_each_means_one_service() {
        assert!(SERVICES.is_sorted_by_key(|service| service.name));
        for service in SERVICES {
            for name in [service.name, service.signs_as] {
                assert_eq!(named(name).map(|found| found.name), Some(service.name), "{name}");
            }
        }
    }
}
