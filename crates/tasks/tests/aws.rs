//! Calls of services as they go over the wire: signature, key and trace, what a lost one means, and our own API.

#[path = "functions/receiver.rs"]
#[allow(dead_code, reason = "tests of functions use the rest")]
mod receiver;

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Attempt, Call, Certainty, EffectKey, ExecutionId, Outcome, StrandId};
use perdura_sigv4::{Presented, Principal, SKEW_SECONDS, Scope, Secret, sha256, verify};
use perdura_tasks::aws::{OwnApi, OwnRefusal, OwnRequest};
use perdura_tasks::connection::Connections;
use perdura_tasks::settings::Tables;
use perdura_tasks::{Settings, Tasks};
use receiver::{Receiver, Reply, Request};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;

fn execution() -> ExecutionId {
    ExecutionId::from_random(7)
}

fn call(resource: &str, input: &str, timeout_seconds: Option<u64>) -> Call {
    let key: Arc<str> = format!("{}:Call#1:1", execution()).into();
    let arn = if resource.starts_with("arn:") {
        resource.to_owned()
    } else {
        format!("arn:aws:states:::{resource}")
    };
    Call {
        strand: StrandId(0),
        key: EffectKey::try_from(key).expect("a key"),
        attempt: Attempt::FIRST,
        resource: Resource::parse(&arn).expect("a resource"),
        input: Payload::from_text(input).expect("JSON"),
        token: None,
        credentials: None,
        timeout_seconds,
        heartbeat_seconds: None,
        submitted: false,
    }
}

fn settings(text: &str, is_signing: bool) -> Settings {
    let tables: Tables = toml::from_str(text).expect("TOML");
    let mut settings = Settings::check(tables, Path::new("/")).expect("right");
    let secret = is_signing.then(|| Secret::new("hidden-secret"));
    settings.aws =
        settings.aws.with_credentials(Some("AKIDEXAMPLE".into()), secret, None).expect("plain text");
    settings
}

fn tasks(settings: Settings) -> Tasks {
    Tasks::new(settings, Arc::<Connections>::default(), Handle::current()).expect("TLS")
}

fn failure(outcome: &Outcome) -> (&str, &str, Certainty) {
    match outcome {
        Outcome::Failed { fault, certainty } | Outcome::SubmitFailed { fault, certainty } => (
            fault.error.as_deref().unwrap_or_default(),
            fault.cause.as_deref().unwrap_or_default(),
            *certainty,
        ),
        other => panic!("{other:?}"),
    }
}

/// Who signed a request, by the verifier's own reading of it.
fn signer(request: &Request, service: &'static str) -> Result<Principal, perdura_sigv4::Refusal> {
    let mut line = request.line.split(' ');
    let method = line.next().expect("a verb");
    let (path, query) = line
        .next()
        .expect("a path")
        .split_once('?')
        .unwrap_or_else(|| (request.line.split(' ').nth(1).expect("a path"), ""));
    let headers: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let body_sha256 = &sha256(request.body.as_bytes());
    let presented = Presented { method, path, query, headers: &headers, body_sha256 };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    verify(&presented, Scope { region: "eu-west-1", service }, now, SKEW_SECONDS, |id| {
        (id == "AKIDEXAMPLE").then(|| Secret::new("hidden-secret"))
    })
}

const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:f:live";

#[tokio::test]
async fn a_call_is_signed_and_carries_key_and_trace() {
    let mut receiver = Receiver::that(Reply::With(200, "", "{}")).await;
    let text = format!("[aws]\nendpoint = 'http://{}/'\nregion = 'eu-west-1'", receiver.address);
    for (resource, input, service, line) in [
        ("sqs:sendMessage", r#"{"QueueUrl":"q","MessageBody":"é"}"#, "sqs", "POST / HTTP/1.1"),
        ("aws-sdk:sfn:listStateMachines", "{}", "states", "POST / HTTP/1.1"),
        (
            "aws-sdk:s3:putObject",
            r#"{"Bucket":"b","Key":"a b/c+d","Body":{"a":1},"Metadata":{"color":"deep  blue"}}"#,
            "s3",
            "PUT /b/a%20b/c%2Bd HTTP/1.1",
        ),
        (
            "aws-sdk:lambda:getFunction",
            r#"{"FunctionName":"a:b","Qualifier":"$LATEST"}"#,
            "lambda",
            "GET /2015-03-31/functions/a%3Ab?Qualifier=%24LATEST HTTP/1.1",
        ),
        (
            "lambda:invoke",
            r#"{"FunctionName":"f"}"#,
            "lambda",
            "POST /2015-03-31/functions/f/invocations HTTP/1.1",
        ),
        (FUNCTION, "{}", "lambda", "POST /2015-03-31/functions/f/invocations?Qualifier=live HTTP/1.1"),
    ] {
        for is_signing in [true, false] {
            let call = call(resource, input, None);
            let told = tasks(settings(&text, is_signing)).outcome(execution(), &call).await;
            assert!(matches!(told, Outcome::Succeeded { .. }), "{resource}: {told:?}");
            let request = receiver.requests.recv().await.expect("it was called");
            assert_eq!(request.line, line);
            if is_signing {
                let principal = Principal { access_key_id: "AKIDEXAMPLE".into() };
                assert_eq!(signer(&request, service), Ok(principal), "{resource}: {request:?}");
            } else {
                assert!(!request.headers.contains_key("authorization"), "{request:?}");
            }
            assert_eq!(request.headers["traceparent"].len(), 55);
            let is_function = resource == FUNCTION || resource == "lambda:invoke";
            let key = request.headers.get("idempotency-key").map(String::as_str);
            assert_eq!(key.is_none(), is_function, "a function has it in its client context");
            assert!(key.is_none_or(|key| key == call.key.wire().to_string()));
        }
    }
}

#[tokio::test]
async fn a_destination_names_the_header_and_says_what_a_status_means() {
    let mut receiver = Receiver::that(Reply::With(409, "", "{}")).await;
    let text = format!(
        "[aws.endpoints]\nsqs = 'http://{}'\n[[destinations]]\nresource = 'arn:aws:states:::sqs:sendMessage'\n\
         header = 'X-Amz-Our-Key'\ndone = [409]",
        receiver.address
    );
    let call = call("sqs:sendMessage", r#"{"QueueUrl":"q","MessageBody":"b"}"#, None);
    let told = tasks(settings(&text, true)).outcome(execution(), &call).await;
    assert!(matches!(told, Outcome::Succeeded { .. }), "{told:?}");
    let request = receiver.requests.recv().await.expect("it was called");
    assert_eq!(request.headers["x-amz-our-key"], call.key.wire().to_string());
    assert!(request.headers["authorization"].contains(";x-amz-our-key;"), "Amazon's own names are signed");
}

#[tokio::test]
async fn a_call_without_an_answer_is_in_doubt_only_if_it_may_have_arrived() {
    let nobody = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        listener.local_addr().expect("it is bound").to_string()
    };
    let silent = Receiver::that(Reply::Silence).await;
    let rude = Receiver::that(Reply::Hangup).await;
    let garbled = Receiver::that(Reply::With(200, "", "<html>")).await;
    let broken = Receiver::that(Reply::With(503, "", "busy")).await;
    for (address, resource, error, cause, certainty) in [
        (nobody, "sqs:sendMessage", "SQS.SdkClientException", "no connection to", Certainty::NotSent),
        (
            rude.address.to_string(),
            "aws-sdk:sqs:sendMessage",
            "Sqs.SdkClientException",
            "did not arrive whole",
            Certainty::Ambiguous,
        ),
        (
            silent.address.to_string(),
            "sqs:sendMessage",
            "SQS.SdkClientException",
            "no answer from",
            Certainty::Ambiguous,
        ),
        (
            garbled.address.to_string(),
            "sqs:sendMessage",
            "SQS.SdkClientException",
            "no JSON",
            Certainty::Ambiguous,
        ),
        (
            broken.address.to_string(),
            "sqs:sendMessage",
            "SQS.AmazonSQSException",
            "busy (Service: AmazonSQS; Status Code: 503;",
            Certainty::Ambiguous,
        ),
        (
            "169.254.169.254".into(),
            "sqs:sendMessage",
            "SQS.SdkClientException",
            "link-local",
            Certainty::NotSent,
        ),
    ] {
        let text = format!("[aws]\nendpoint = 'http://{address}'");
        let call = call(resource, r#"{"QueueUrl":"q","MessageBody":"b"}"#, Some(1));
        let told = tasks(settings(&text, true)).outcome(execution(), &call).await;
        let found = failure(&told);
        assert_eq!((found.0, found.2), (error, certainty), "{found:?}");
        assert!(found.1.contains(cause) && !found.1.contains("hidden"), "{found:?}");
    }
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let body = format!(r#"{{"a":"{}"}}"#, "9".repeat(300_000));
    let huge = Receiver::that(Reply::With(200, "", Box::leak(body.into_boxed_str()))).await;
    let settings =
        Settings { strict: true, ..settings(&format!("[aws]\nendpoint = 'http://{}'", huge.address), true) };
    let told = tasks(settings).outcome(execution(), &call("aws-sdk:sqs:listQueues", "{}", None)).await;
    let found = failure(&told);
    assert_eq!((found.0, found.2), ("States.DataLimitExceeded", Certainty::Ambiguous), "{found:?}");
}

#[tokio::test]
async fn arguments_that_cannot_be_sent_are_named_and_nothing_is_called() {
    for (resource, input, cause) in [
        ("sqs:sendMessage", "[]", "[The parameters must be an OBJECT]"),
        ("aws-sdk:s3:getObject", r#"{"Bucket":"b"}"#, "[The field 'Key' is required but was missing]"),
    ] {
        let settings = settings("[aws]\nendpoint = 'http://127.0.0.1:1'", true);
        let told = tasks(settings).outcome(execution(), &call(resource, input, None)).await;
        let found = failure(&told);
        assert_eq!((found.0, found.2), ("States.Runtime", Certainty::NotSent));
        assert!(found.1.contains(cause), "{found:?}");
    }
}

#[tokio::test]
async fn a_service_without_an_address_says_what_to_write() {
    let tasks = tasks(settings("[aws.endpoints]\nsns = 'http://127.0.0.1:1'", true));
    for (resource, input, name) in [
        ("sqs:sendMessage", r#"{"QueueUrl":"q","MessageBody":"b"}"#, "sqs"),
        ("aws-sdk:sfn:listStateMachines", "{}", "sfn"),
    ] {
        match tasks.outcome(execution(), &call(resource, input, None)).await {
            Outcome::NotStarted { fault, .. } => {
                assert_eq!(fault.error.as_deref(), Some("States.Runtime"));
                let cause = fault.cause.unwrap_or_default();
                assert!(cause.contains(&format!("[aws.endpoints] with {name} = ")), "{cause}");
            }
            other => panic!("{other:?}"),
        }
    }
    let resource = |text: &str| Resource::parse(&format!("arn:aws:states:::{text}")).expect("a resource");
    for (text, expected) in [
        ("sns:publish", true),
        ("sqs:sendMessage", false),
        ("glue:startJobRun", false),
        ("lambda:invoke", true),
        ("http:invoke", true),
    ] {
        assert_eq!(tasks.performs(&resource(text)), expected, "{text}");
    }
}

/// Takes what it is asked, and answers by the action.
fn api(seen: &Arc<Mutex<Vec<OwnRequest>>>) -> OwnApi {
    let seen = seen.clone();
    Arc::new(move |request: OwnRequest| {
        let answer = match request.action.as_str() {
            "StartExecution" => {
                Ok(Payload::from_text(r#"{"executionArn":"e","startDate":1772600767.5}"#).expect("JSON"))
            }
            _ => Err(OwnRefusal {
                name: "StateMachineDoesNotExist".into(),
                message: "State Machine Does Not Exist: 'm'".into(),
                status: 400,
            }),
        };
        seen.lock().expect("no test panics with it").push(request);
        Box::pin(async move { answer })
    })
}

#[tokio::test]
async fn step_functions_without_an_address_of_its_own_is_this_process() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tasks = tasks(settings("[aws]\nendpoint = 'http://127.0.0.1:1'", true));
    assert!(tasks.answer_with(api(&seen)).is_ok());
    assert!(tasks.answer_with(api(&seen)).is_err(), "the first stays");
    let start =
        call("aws-sdk:sfn:startExecution", r#"{"StateMachineArn":"m","Input":{"Key":1},"Name":null}"#, None);
    match tasks.outcome(execution(), &start).await {
        Outcome::Succeeded { output } => {
            assert_eq!(output.to_string(), r#"{"ExecutionArn":"e","StartDate":"2026-03-04T05:06:07.500Z"}"#);
        }
        other => panic!("{other:?}"),
    }
    let describe = call("aws-sdk:sfn:describeStateMachine", r#"{"StateMachineArn":"m"}"#, None);
    let told = tasks.outcome(execution(), &describe).await;
    let cause = format!(
        "State Machine Does Not Exist: 'm' (Service: Sfn, Status Code: 400, Request ID: {}) (SDK Attempt Count: 1)",
        describe.key.wire()
    );
    assert_eq!(failure(&told), ("Sfn.StateMachineDoesNotExistException", cause.as_str(), Certainty::Refused));
    let input = Payload::from_text(r#"{"stateMachineArn":"m","input":"{\"Key\":1}"}"#).expect("JSON");
    let expected = OwnRequest { action: "StartExecution".into(), input, key: start.key.clone() };
    assert_eq!(seen.lock().expect("no test panics with it")[0], expected);
}

#[tokio::test]
async fn step_functions_with_an_address_of_its_own_is_elsewhere() {
    let mut receiver = Receiver::that(Reply::With(200, "", r#"{"stateMachines":[]}"#)).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tasks = tasks(settings(&format!("[aws.endpoints]\nsfn = 'http://{}'", receiver.address), true));
    assert!(tasks.answer_with(api(&seen)).is_ok());
    let told = tasks.outcome(execution(), &call("aws-sdk:sfn:listStateMachines", "{}", None)).await;
    assert!(matches!(told, Outcome::Succeeded { .. }), "{told:?}");
    let request = receiver.requests.recv().await.expect("it was called");
    assert_eq!(request.headers["x-amz-target"], "AWSStepFunctions.ListStateMachines");
    assert!(seen.lock().expect("no test panics with it").is_empty());
}
