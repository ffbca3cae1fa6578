//! Services of AWS, as moto's server speaks them: each that is listed as callable is called.

#[path = "items_data/moto.rs"]
#[allow(dead_code, reason = "tests of items use the rest")]
mod moto;

use moto::Moto;
use perdura_engine::asl::json::{Payload, Value, parse};
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Attempt, Call, Certainty, EffectKey, ExecutionId, Outcome, StrandId};
use perdura_sigv4::Secret;
use perdura_tasks::connection::Connections;
use perdura_tasks::settings::Tables;
use perdura_tasks::{Settings, Tasks};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Moto, and whoever calls it.
struct Stage {
    tasks: Tasks,
    _moto: Moto,
}

impl Stage {
    fn new() -> Self {
        let moto = Moto::start(None);
        let tables: Tables = toml::from_str(&format!("[aws]\nendpoint = '{}'", moto.url)).expect("TOML");
        let mut settings = Settings::check(tables, Path::new("/")).expect("right");
        let credentials = settings.aws.with_credentials(
            Some("AKIDEXAMPLE".into()),
            Some(Secret::new("hidden-secret")),
            None,
        );
        settings.aws = credentials.expect("plain text");
        let tasks = Tasks::new(settings, Arc::<Connections>::default(), Handle::current()).expect("TLS");
        Self { tasks, _moto: moto }
    }

    async fn outcome(&self, resource: &str, input: &str) -> Outcome {
        let execution = ExecutionId::from_random(7);
        let key: Arc<str> = format!("{execution}:Call#1:1").into();
        let call = Call {
            strand: StrandId(0),
            key: EffectKey::try_from(key).expect("a key"),
            attempt: Attempt::FIRST,
            resource: Resource::parse(&format!("arn:aws:states:::{resource}")).expect("a resource"),
            input: Payload::from_text(input).unwrap_or_else(|error| panic!("{input}: {error}")),
            token: None,
            credentials: None,
            timeout_seconds: Some(60),
            heartbeat_seconds: None,
            submitted: false,
        };
        self.tasks.outcome(execution, &call).await
    }

    /// The result of a call that succeeds.
    async fn call(&self, resource: &str, input: &str) -> Value {
        match self.outcome(resource, input).await {
            Outcome::Succeeded { output } | Outcome::Submitted { output } => output.value().clone(),
            other => panic!("{resource} {input}: {other:?}"),
        }
    }

    /// Calls, and looks at the result.
    async fn gives(&self, resource: &str, input: &str, expected: &str) {
        assert_eq!(self.call(resource, input).await, parse(expected).expect("JSON"), "{resource} {input}");
    }

    /// Calls, and looks at the error.
    async fn fails(&self, resource: &str, input: &str, error: &str, cause: &str) {
        match self.outcome(resource, input).await {
            Outcome::Failed { fault, certainty: Certainty::Refused } => {
                assert_eq!(fault.error.as_deref(), Some(error), "{fault:?}");
                assert!(fault.cause.as_deref().unwrap_or_default().contains(cause), "{fault:?}");
            }
            other => panic!("{resource} {input}: {other:?}"),
        }
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_else(|| panic!("{value} has no {member}"))
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(|name| &**name).collect()
}

#[tokio::test]
async fn sqs_takes_messages_and_turns_the_second_into_the_first() {
    let stage = Stage::new();
    let made = stage.call("aws-sdk:sqs:createQueue", r#"{"QueueName": "plain"}"#).await;
    let plain = text(&made, "QueueUrl");
    let sent = stage
        .call("sqs:sendMessage", &format!(r#"{{"QueueUrl": "{plain}", "MessageBody": {{"a": [1]}}}}"#))
        .await;
    assert_eq!(names(&sent), ["MD5OfMessageBody", "MessageId", "SdkHttpMetadata", "SdkResponseMetadata"]);
    assert_eq!(sent.get("SdkHttpMetadata").and_then(|head| head.get("HttpStatusCode")), Some(&200.into()));
    let taken = stage.call("aws-sdk:sqs:receiveMessage", &format!(r#"{{"QueueUrl": "{plain}"}}"#)).await;
    let message = &taken.get("Messages").and_then(Value::as_array).expect("messages")[0];
    assert_eq!(text(message, "Body"), r#"{"a":[1]}"#);

    let fifo = r#"{"QueueName": "one.fifo", "Attributes": {"FifoQueue": "true"}}"#;
    let made = stage.call("aws-sdk:sqs:createQueue", fifo).await;
    let fifo = text(&made, "QueueUrl");
    let input = format!(r#"{{"QueueUrl": "{fifo}", "MessageBody": "x", "MessageGroupId": "g"}}"#);
    let first = stage.outcome("sqs:sendMessage.waitForTaskToken", &input).await;
    assert!(matches!(first, Outcome::Submitted { .. }), "{first:?}");
    let second = stage.call("aws-sdk:sqs:sendMessage", &input).await;
    assert!(second.get("Md5OfMessageBody").is_some(), "{second}");
    let counted = format!(r#"{{"QueueUrl": "{fifo}", "AttributeNames": ["ApproximateNumberOfMessages"]}}"#);
    stage
        .gives(
            "aws-sdk:sqs:getQueueAttributes",
            &counted,
            r#"{"Attributes": {"ApproximateNumberOfMessages": "1"}}"#,
        )
        .await;

    let gone = r#"{"QueueUrl": "http://sqs/123456789012/gone", "MessageBody": "x"}"#;
    stage
        .fails(
            "sqs:sendMessage",
            gone,
            "SQS.QueueDoesNotExistException",
            "(Service: AmazonSQS; Status Code: 400;",
        )
        .await;
    stage
        .fails(
            "aws-sdk:sqs:sendMessage",
            gone,
            "Sqs.QueueDoesNotExistException",
            "(Service: Sqs, Status Code: 400,",
        )
        .await;
}

#[tokio::test]
async fn sns_takes_messages() {
    let stage = Stage::new();
    let made = stage.call("aws-sdk:sns:createTopic", r#"{"Name": "news"}"#).await;
    let topic = text(&made, "TopicArn");
    let input = format!(
        r#"{{"TopicArn": "{topic}", "Message": {{"a": 1}},
            "MessageAttributes": {{"color": {{"DataType": "String", "StringValue": "red"}}}}}}"#
    );
    let sent = stage.call("sns:publish", &input).await;
    assert_eq!(names(&sent), ["MessageId", "SdkHttpMetadata", "SdkResponseMetadata"]);
    assert!(!text(sent.get("SdkResponseMetadata").expect("there"), "RequestId").is_empty(), "{sent}");
    assert_eq!(names(&stage.call("aws-sdk:sns:publish", &input).await), ["MessageId"]);
    stage
        .gives("aws-sdk:sns:listTopics", "{}", &format!(r#"{{"Topics": [{{"TopicArn": "{topic}"}}]}}"#))
        .await;
    stage.gives("aws-sdk:sns:listSubscriptions", "{}", r#"{"Subscriptions": []}"#).await;
    let gone = r#"{"TopicArn": "arn:aws:sns:us-east-1:123456789012:gone", "Message": "x"}"#;
    stage.fails("sns:publish", gone, "SNS.NotFoundException", "Error Code: NotFound;").await;
    stage
        .fails("aws-sdk:sns:publish", gone, "Sns.NotFoundException", "(Service: Sns, Status Code: 404,")
        .await;
    let who = stage.call("aws-sdk:sts:getCallerIdentity", "{}").await;
    assert_eq!(names(&who), ["UserId", "Account", "Arn"]);
}

#[tokio::test]
async fn dynamodb_keeps_items() {
    let stage = Stage::new();
    let table = r#"{"TableName": "t", "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}"#;
    let made = stage.call("aws-sdk:dynamodb:createTable", table).await;
    let made_at = text(made.get("TableDescription").expect("there"), "CreationDateTime");
    assert!(made_at.ends_with('Z') && made_at.starts_with("20"), "{made_at}");
    stage
        .gives(
            "aws-sdk:dynamodb:putItem",
            r#"{"TableName": "t", "Item": {"id": {"S": "1"}, "ok": {"Bool": true}}}"#,
            "{}",
        )
        .await;
    let key = r#"{"TableName": "t", "Key": {"id": {"S": "1"}}}"#;
    stage
        .gives("aws-sdk:dynamodb:getItem", key, r#"{"Item": {"id": {"S": "1"}, "ok": {"Bool": true}}}"#)
        .await;
    let found = stage.call("dynamodb:getItem", key).await;
    assert_eq!(names(&found), ["Item", "SdkHttpMetadata", "SdkResponseMetadata"]);
    assert_eq!(found.get("Item").expect("there").to_string(), r#"{"id":{"S":"1"},"ok":{"BOOL":true}}"#);
    let update = r#"{"TableName": "t", "Key": {"id": {"S": "1"}}, "ReturnValues": "UPDATED_NEW",
        "UpdateExpression": "set n = :n", "ExpressionAttributeValues": {":n": {"N": "5"}}}"#;
    let updated = stage.call("dynamodb:updateItem", update).await;
    assert_eq!(updated.get("Attributes").expect("there").to_string(), r#"{"n":{"N":"5"}}"#);
    let twice = r#"{"TransactItems": [{"Update": {"TableName": "t", "Key": {"id": {"S": "1"}},
        "UpdateExpression": "add n :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}}]}"#;
    for _ in 0..2 {
        stage.call("aws-sdk:dynamodb:transactWriteItems", twice).await;
    }
    assert_eq!(
        names(&stage.call("dynamodb:deleteItem", key).await),
        ["SdkHttpMetadata", "SdkResponseMetadata"]
    );
    stage.gives("aws-sdk:dynamodb:getItem", key, "{}").await;
    let gone = r#"{"TableName": "gone", "Item": {"id": {"S": "1"}}}"#;
    stage
        .fails(
            "dynamodb:putItem",
            gone,
            "DynamoDB.ResourceNotFoundException",
            "(Service: AmazonDynamoDBv2; Status Code: 400;",
        )
        .await;
    stage
        .fails(
            "aws-sdk:dynamodb:putItem",
            gone,
            "DynamoDb.ResourceNotFoundException",
            "(Service: DynamoDb, Status Code: 400,",
        )
        .await;
    let wrong = r#"{"TableName": "t", "Item": {"other": {"S": "1"}}}"#;
    stage
        .fails(
            "dynamodb:putItem",
            wrong,
            "DynamoDB.AmazonDynamoDBException",
            "Error Code: ValidationException;",
        )
        .await;
    stage.fails("aws-sdk:dynamodb:putItem", wrong, "DynamoDb.DynamoDbException", "(Service: DynamoDb,").await;
}

#[tokio::test]
async fn s3_keeps_objects() {
    let stage = Stage::new();
    let bucket = r#"{"Bucket": "books"}"#;
    stage.call("aws-sdk:s3:createBucket", bucket).await;
    let put = r#"{"Bucket": "books", "Key": "a b/ñ+1", "Body": {"Dict": "Value"}, "Metadata": {"color": "red"}, "ContentType": "application/json"}"#;
    let kept = stage.call("aws-sdk:s3:putObject", put).await;
    assert_eq!(text(&kept, "ETag"), "\"49e31cee5aec8faf3345893addb14346\"");
    let key = r#"{"Bucket": "books", "Key": "a b/ñ+1"}"#;
    let found = stage.call("aws-sdk:s3:getObject", key).await;
    assert_eq!(
        (text(&found, "Body"), text(&found, "ContentType")),
        (r#"{"Dict":"Value"}"#, "application/json")
    );
    assert_eq!(found.get("Metadata").expect("there").to_string(), r#"{"color":"red"}"#);
    assert_eq!(found.get("ContentLength"), Some(&16.into()));
    assert!(text(&found, "LastModified").ends_with('Z'), "{found}");
    let head = stage.call("aws-sdk:s3:headObject", key).await;
    assert_eq!((head.get("ContentLength"), head.get("Body")), (Some(&16.into()), None));
    let copied = stage
        .call(
            "aws-sdk:s3:copyObject",
            r#"{"Bucket": "books", "Key": "c", "CopySource": "books/a%20b/%C3%B1%2B1"}"#,
        )
        .await;
    assert!(copied.get("CopyObjectResult").and_then(|result| result.get("ETag")).is_some(), "{copied}");
    for action in ["listObjects", "listObjectsV2"] {
        let listed = stage.call(&format!("aws-sdk:s3:{action}"), bucket).await;
        let keys: Vec<&str> = listed
            .get("Contents")
            .and_then(Value::as_array)
            .expect("contents")
            .iter()
            .map(|one| text(one, "Key"))
            .collect();
        assert_eq!(keys, ["a b/ñ+1", "c"], "{action}");
        assert_eq!(listed.get("IsTruncated"), Some(&false.into()), "{action}");
    }
    let buckets = stage.call("aws-sdk:s3:listBuckets", "{}").await;
    assert_eq!(text(&buckets.get("Buckets").and_then(Value::as_array).expect("buckets")[0], "Name"), "books");
    stage.call("aws-sdk:s3:headBucket", bucket).await;
    for key in ["a b/ñ+1", "c"] {
        stage
            .gives("aws-sdk:s3:deleteObject", &format!(r#"{{"Bucket": "books", "Key": "{key}"}}"#), "{}")
            .await;
    }
    stage
        .fails(
            "aws-sdk:s3:getObject",
            key,
            "S3.NoSuchKeyException",
            "(Service: S3, Status Code: 404, Request ID:",
        )
        .await;
    stage
        .fails("aws-sdk:s3:headObject", key, "S3.NoSuchKeyException", "null (Service: S3, Status Code: 404,")
        .await;
    stage.gives("aws-sdk:s3:deleteBucket", bucket, "{}").await;
    stage
        .fails(
            "aws-sdk:s3:listObjects",
            bucket,
            "S3.NoSuchBucketException",
            "The specified bucket does not exist (Service: S3,",
        )
        .await;
}

#[tokio::test]
async fn events_are_put_and_those_that_are_not_taken_are_an_error() {
    let stage = Stage::new();
    let event = r#"{"Entries": [{"Source": "s", "DetailType": "d", "Detail": {"a": 1}, "Time": "2026-03-04T05:06:07Z"}]}"#;
    let put = stage.call("events:putEvents", event).await;
    assert_eq!(names(&put), ["FailedEntryCount", "Entries", "SdkHttpMetadata", "SdkResponseMetadata"]);
    let none = r#"{"Entries": [{"DetailType": "d", "Detail": {"a": 1}}]}"#;
    stage.fails("events:putEvents", none, "EventBridge.FailedEntry", "FailedEntryCount\":1").await;
    let told = stage.call("aws-sdk:eventbridge:putEvents", none).await;
    assert_eq!(told.get("FailedEntryCount"), Some(&1.into()), "{told}");
}

#[tokio::test]
async fn secrets_parameters_and_keys_are_kept() {
    let stage = Stage::new();
    let made =
        stage.call("aws-sdk:secretsmanager:createSecret", r#"{"Name": "n", "SecretString": {"a": 1}}"#).await;
    assert!(text(&made, "Arn").contains(":secret:n-"), "{made}");
    let kept = stage.call("aws-sdk:secretsmanager:getSecretValue", r#"{"SecretId": "n"}"#).await;
    assert_eq!(text(&kept, "SecretString"), r#"{"a":1}"#);
    assert!(text(&kept, "CreatedDate").ends_with('Z'), "{kept}");
    stage
        .fails(
            "aws-sdk:secretsmanager:getSecretValue",
            r#"{"SecretId": "gone"}"#,
            "SecretsManager.ResourceNotFoundException",
            "(Service: SecretsManager, Status Code: 404,",
        )
        .await;

    stage.call("aws-sdk:ssm:putParameter", r#"{"Name": "p", "Value": "v", "Type": "String"}"#).await;
    let found = stage.call("aws-sdk:ssm:getParameter", r#"{"Name": "p"}"#).await;
    let found = found.get("Parameter").expect("there");
    assert_eq!((text(found, "Value"), text(found, "Arn").is_empty()), ("v", false));
    stage
        .fails(
            "aws-sdk:ssm:getParameter",
            r#"{"Name": "gone"}"#,
            "Ssm.ParameterNotFoundException",
            "(Service: Ssm,",
        )
        .await;

    let key = stage.call("aws-sdk:kms:createKey", "{}").await;
    let id = text(key.get("KeyMetadata").expect("there"), "KeyId");
    let sealed =
        stage.call("aws-sdk:kms:encrypt", &format!(r#"{{"KeyId": "{id}", "Plaintext": {{"a": 1}}}}"#)).await;
    let blob = text(&sealed, "CiphertextBlob");
    let open = stage.call("aws-sdk:kms:decrypt", &format!(r#"{{"CiphertextBlob": "{blob}"}}"#)).await;
    assert_eq!(text(&open, "Plaintext"), "eyJhIjoxfQ==");
}

#[tokio::test]
async fn logs_streams_and_clusters_are_spoken_to() {
    let stage = Stage::new();
    stage.gives("aws-sdk:cloudwatchlogs:createLogGroup", r#"{"LogGroupName": "g"}"#, "{}").await;
    let groups = stage.call("aws-sdk:cloudwatchlogs:describeLogGroups", "{}").await;
    let group = &groups.get("LogGroups").and_then(Value::as_array).expect("groups")[0];
    assert_eq!(text(group, "LogGroupName"), "g");
    assert!(group.get("CreationTime").and_then(Value::as_i64).is_some_and(|at| at > 1_000_000_000_000));
    stage
        .fails(
            "aws-sdk:cloudwatchlogs:deleteLogGroup",
            r#"{"LogGroupName": "gone"}"#,
            "CloudWatchLogs.ResourceNotFoundException",
            "(Service: CloudWatchLogs,",
        )
        .await;

    stage.call("aws-sdk:kinesis:createStream", r#"{"StreamName": "s", "ShardCount": 1}"#).await;
    let put = stage
        .call("aws-sdk:kinesis:putRecord", r#"{"StreamName": "s", "PartitionKey": "p", "Data": {"a": 1}}"#)
        .await;
    let shard = text(&put, "ShardId");
    let at = format!(r#"{{"StreamName": "s", "ShardId": "{shard}", "ShardIteratorType": "TRIM_HORIZON"}}"#);
    let at = stage.call("aws-sdk:kinesis:getShardIterator", &at).await;
    let taken = format!(r#"{{"ShardIterator": "{}"}}"#, text(&at, "ShardIterator").trim_end());
    let taken = stage.call("aws-sdk:kinesis:getRecords", &taken).await;
    assert_eq!(
        text(&taken.get("Records").and_then(Value::as_array).expect("records")[0], "Data"),
        "eyJhIjoxfQ=="
    );

    let made = stage.call("aws-sdk:ecs:createCluster", r#"{"ClusterName": "c"}"#).await;
    assert_eq!(text(made.get("Cluster").expect("there"), "ClusterName"), "c");
    stage
        .fails(
            "aws-sdk:ecs:listServices",
            r#"{"Cluster": "gone"}"#,
            "Ecs.ClusterNotFoundException",
            "(Service: Ecs,",
        )
        .await;
}

#[tokio::test]
async fn another_step_functions_is_spoken_to_by_its_address() {
    let stage = Stage::new();
    let machine = r#"{"Name": "m", "RoleArn": "arn:aws:iam::123456789012:role/r",
        "Definition": {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}}"#;
    let made = stage.call("aws-sdk:sfn:createStateMachine", machine).await;
    let arn = text(&made, "StateMachineArn");
    assert!(text(&made, "CreationDate").ends_with('Z'), "{made}");
    let started = stage
        .call(
            "aws-sdk:sfn:startExecution",
            &format!(r#"{{"StateMachineArn": "{arn}", "Input": {{"Key": 1}}}}"#),
        )
        .await;
    let execution = format!(r#"{{"ExecutionArn": "{}"}}"#, text(&started, "ExecutionArn"));
    let shown = stage.call("aws-sdk:sfn:describeExecution", &execution).await;
    assert_eq!(text(&shown, "Input"), r#"{"Key":1}"#);
    let gone = r#"{"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:gone"}"#;
    stage
        .fails("aws-sdk:sfn:startExecution", gone, "Sfn.StateMachineDoesNotExistException", "(Service: Sfn,")
        .await;
}

#[tokio::test]
async fn lambda_itself_is_spoken_to() {
    let stage = Stage::new();
    stage.gives("aws-sdk:lambda:listFunctions", "{}", r#"{"Functions": []}"#).await;
    let gone = r#"{"FunctionName": "gone"}"#;
    stage
        .fails(
            "aws-sdk:lambda:getFunction",
            gone,
            "Lambda.ResourceNotFoundException",
            "(Service: Lambda, Status Code: 404,",
        )
        .await;
    stage
        .fails("aws-sdk:lambda:invoke", gone, "Lambda.ResourceNotFoundException", "Function not found")
        .await;
    stage
        .fails(
            "lambda:invoke",
            gone,
            "Lambda.ResourceNotFoundException",
            "(Service: AWSLambda; Status Code: 404;",
        )
        .await;
}
