//! Results and errors as Step Functions shows them.

use super::*;
use crate::aws::service::operation;
use bytes::Bytes;
use http::HeaderValue;
use perdura_engine::asl::json::parse;
use perdura_engine::asl::resource::Resource;

fn answer(status: u16, body: &'static str) -> Incoming {
    let headers = [("x-amzn-requestid", "r-1"), ("content-type", "text/xml")]
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    Incoming { status, headers: headers.into_iter().collect(), body: Bytes::from(body) }
}

fn refusal(code: &str, message: &str) -> Refusal {
    Refusal { code: Some(code.into()), old_code: None, message: Some(message.into()) }
}

#[test]
fn errors_have_the_names_and_causes_of_step_functions() {
    use Certainty::{Ambiguous, Refused};
    for (resource, status, refusal, error, cause, certainty) in [
        (
            "dynamodb:putItem",
            400,
            refusal("ValidationException", "no item"),
            "DynamoDB.AmazonDynamoDBException",
            "no item (Service: AmazonDynamoDBv2; Status Code: 400; Error Code: ValidationException; Request ID: \
             r-1; Proxy: null)",
            Refused,
        ),
        (
            "dynamodb:putItem",
            400,
            refusal("ResourceNotFoundException", "no table"),
            "DynamoDB.ResourceNotFoundException",
            "Error Code: ResourceNotFoundException;",
            Refused,
        ),
        (
            "aws-sdk:dynamodb:putItem",
            400,
            refusal("ValidationException", "no item"),
            "DynamoDb.DynamoDbException",
            "no item (Service: DynamoDb, Status Code: 400, Request ID: r-1) (SDK Attempt Count: 1)",
            Refused,
        ),
        (
            "aws-sdk:dynamodb:transactWriteItems",
            400,
            refusal("TransactionInProgressException", "wait"),
            "DynamoDb.TransactionInProgressException",
            "wait",
            Ambiguous,
        ),
        (
            "sns:publish",
            404,
            refusal("NotFound", "no topic"),
            "SNS.NotFoundException",
            "Error Code: NotFound;",
            Refused,
        ),
        (
            "aws-sdk:sns:publish",
            404,
            refusal("NotFound", "no"),
            "Sns.NotFoundException",
            "no (Service: Sns,",
            Refused,
        ),
        (
            "aws-sdk:sns:publish",
            400,
            refusal("ParameterValueInvalid", "no"),
            "Sns.InvalidParameterValueException",
            "no",
            Refused,
        ),
        (
            "sqs:sendMessage",
            400,
            Refusal {
                old_code: Some("AWS.SimpleQueueService.NonExistentQueue".into()),
                ..refusal("QueueDoesNotExist", "gone")
            },
            "SQS.QueueDoesNotExistException",
            "Error Code: AWS.SimpleQueueService.NonExistentQueue;",
            Refused,
        ),
        ("sqs:sendMessage", 403, refusal("AccessDenied", "no"), "SQS.AmazonSQSException", "no", Refused),
        (
            "aws-sdk:sqs:sendMessage",
            400,
            refusal("QueueDoesNotExist", "gone"),
            "Sqs.QueueDoesNotExistException",
            "gone",
            Refused,
        ),
        (
            "aws-sdk:secretsmanager:createSecret",
            400,
            refusal("ValidationException", "bad"),
            "SecretsManager.SecretsManagerException",
            "bad (Service: SecretsManager, Status Code: 400, Request ID: r-1) (SDK Attempt Count: 1)",
            Refused,
        ),
        (
            "aws-sdk:sfn:startExecution",
            400,
            refusal("StateMachineDoesNotExist", "none"),
            "Sfn.StateMachineDoesNotExistException",
            "none",
            Refused,
        ),
        (
            "aws-sdk:kms:encrypt",
            400,
            refusal("KMSInvalidStateException", "off"),
            "Kms.KmsInvalidStateException",
            "off",
            Refused,
        ),
        (
            "aws-sdk:s3:listObjects",
            404,
            refusal("NoSuchBucket", "none"),
            "S3.NoSuchBucketException",
            "none",
            Refused,
        ),
        ("aws-sdk:s3:headBucket", 403, Refusal::default(), "S3.S3Exception", "<html>", Refused),
        ("aws-sdk:kms:encrypt", 503, Refusal::default(), "Kms.KmsException", "<html>", Ambiguous),
        ("sqs:sendMessage", 429, refusal("Throttling", "slow"), "SQS.AmazonSQSException", "slow", Ambiguous),
    ] {
        let resource = Resource::parse(&format!("arn:aws:states:::{resource}")).unwrap();
        let operation = operation(&resource).unwrap();
        let found = refused(&operation, &answer(status, "<html>"), &refusal, &BTreeMap::new());
        let Outcome::Failed { fault, certainty: found } = found else { panic!("{found:?}") };
        assert_eq!((fault.error.as_deref(), found), (Some(error), certainty), "{fault:?}");
        assert!(fault.cause.as_deref().unwrap_or_default().contains(cause), "{fault:?}");
    }
}

#[test]
fn a_destination_says_what_a_status_means() {
    let resource = Resource::parse("arn:aws:states:::sqs:sendMessage").unwrap();
    let operation = operation(&resource).unwrap();
    let statuses = BTreeMap::from([(409, Verdict::Done), (403, Verdict::Ambiguous), (503, Verdict::Refused)]);
    let found = |status| refused(&operation, &answer(status, ""), &Refusal::default(), &statuses);
    assert!(matches!(found(409), Outcome::Succeeded { .. }));
    assert!(matches!(found(403), Outcome::Failed { certainty: Certainty::Ambiguous, .. }));
    assert!(matches!(found(503), Outcome::Failed { certainty: Certainty::Refused, .. }));
}

#[test]
fn the_form_of_its_own_shows_the_head_of_the_answer() {
    for (resource, expected) in [
        ("aws-sdk:sns:publish", r#"{"MessageId":"m"}"#),
        (
            "sns:publish",
            r#"{"MessageId":"m","SdkHttpMetadata":{"AllHttpHeaders":{"x-amzn-RequestId":["r-1"],"Content-Type":["text/xml"]},"HttpHeaders":{"x-amzn-RequestId":"r-1","Content-Type":"text/xml"},"HttpStatusCode":200},"SdkResponseMetadata":{"RequestId":"r-1"}}"#,
        ),
    ] {
        let resource = Resource::parse(&format!("arn:aws:states:::{resource}")).unwrap();
        let result = object! { "MessageId" => "m" };
        match succeeded(&operation(&resource).unwrap(), &answer(200, ""), result, None) {
            Outcome::Succeeded { output } => assert_eq!(output.to_string(), expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn events_that_were_not_taken_are_an_error_of_the_form_of_its_own() {
    for (resource, result, expected) in [
        (
            "events:putEvents",
            r#"{"FailedEntryCount":1,"Entries":[{"ErrorCode":"X"}]}"#,
            Some(Certainty::Refused),
        ),
        (
            "events:putEvents",
            r#"{"FailedEntryCount":1,"Entries":[{},{"ErrorCode":"X"}]}"#,
            Some(Certainty::Ambiguous),
        ),
        ("events:putEvents", r#"{"FailedEntryCount":0,"Entries":[{}]}"#, None),
        ("aws-sdk:eventbridge:putEvents", r#"{"FailedEntryCount":1,"Entries":[{}]}"#, None),
    ] {
        let resource = Resource::parse(&format!("arn:aws:states:::{resource}")).unwrap();
        let result = parse(result).unwrap();
        match (succeeded(&operation(&resource).unwrap(), &answer(200, ""), result.clone(), None), expected) {
            (Outcome::Succeeded { .. }, None) => {}
            (Outcome::Failed { fault, certainty }, Some(expected)) => {
                assert_eq!(certainty, expected);
                assert_eq!(fault, Fault::new("EventBridge.FailedEntry", result.to_string()));
            }
            (found, _) => panic!("{found:?}"),
        }
    }
}

#[test]
fn abbreviations_are_written_like_words() {
    for (code, expected) in [
        ("NotFound", "NotFoundException"),
        ("KMSInternalException", "KmsInternalException"),
        ("EC2AccessDeniedException", "Ec2AccessDeniedException"),
        ("EFSIOException", "EfsioException"),
        ("InvalidSubnetIDException", "InvalidSubnetIdException"),
        ("SubnetIPAddressLimitReachedException", "SubnetIpAddressLimitReachedException"),
        ("KeyFault", "KeyException"),
    ] {
        assert_eq!(in_java(&exception(code)), expected);
    }
}
