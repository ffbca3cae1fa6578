//! Functions of every kind: what they are given, and what comes of every way in which they can end.

use crate::receiver::{Receiver, Reply};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{
    Attempt, Call, Certainty, EffectKey, ExecutionId, Outcome, Policy, StrandId, Uncertain,
};
use perdura_runtime::Performer;
use perdura_tasks::connection::Connections;
use perdura_tasks::settings::Tables;
use perdura_tasks::{Settings, Tasks};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

const BARE: &str = "arn:aws:lambda:us-east-1:123456789012:function:f";
const INVOKE: &str = "arn:aws:states:::lambda:invoke";

fn execution() -> ExecutionId {
    ExecutionId::from_random(7)
}

fn call(arn: &str, input: &str) -> Call {
    let key: Arc<str> = format!("{}:Call#1:1", execution()).into();
    Call {
        strand: StrandId(0),
        key: EffectKey::try_from(key).expect("a key"),
        attempt: Attempt::FIRST,
        resource: Resource::parse(arn).expect("a resource"),
        input: Payload::from_text(input).expect("JSON"),
        token: None,
        credentials: None,
        timeout_seconds: None,
        heartbeat_seconds: None,
        submitted: false,
    }
}

fn tasks(text: &str) -> Tasks {
    let tables: Tables = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let settings = Settings::check(tables, Path::new("/")).expect("the settings are right");
    Tasks::new(settings, Arc::<Connections>::default(), Handle::current()).expect("there is TLS")
}

async fn outcome(text: &str, arn: &str, input: &str) -> Outcome {
    tasks(text).outcome(execution(), &call(arn, input)).await
}

fn output(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded { output } | Outcome::Submitted { output } => output.to_string(),
        other => panic!("{other:?}"),
    }
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

fn wire() -> String {
    call(BARE, "{}").key.wire().to_string()
}

#[tokio::test]
async fn a_url_gets_the_payload_as_it_is_the_key_and_the_trace() {
    let mut receiver = Receiver::that(Reply::With(200, "", r#"{"paid": true}"#)).await;
    let text = format!("[functions.f]\nurl = 'http://{}/pay?x=1'", receiver.address);
    let told = outcome(&text, BARE, r#"{"amount":  1.50}"#).await;
    assert_eq!(output(&told), r#"{"paid": true}"#);
    let request = receiver.requests.recv().await.expect("it was called");
    assert_eq!((&*request.line, &*request.body), ("POST /pay?x=1 HTTP/1.1", r#"{"amount":  1.50}"#));
    assert_eq!(request.headers["idempotency-key"], wire());
    assert_eq!(request.headers["content-type"], "application/json");
    let trace = &request.headers["traceparent"];
    let simple = execution().uuid().simple().to_string();
    assert!(trace.starts_with(&format!("00-{simple}-")) && trace.len() == 55, "{trace}");
}

#[tokio::test]
async fn a_destination_names_the_header_and_says_what_a_status_means() {
    for (status, settings, expected) in [
        (409, "done = [409]", Ok("\"seen\"")),
        (409, "refused = [409]", Err(("States.Http.StatusCode.409", Certainty::Refused))),
        (404, "ambiguous = [404]", Err(("States.Http.StatusCode.404", Certainty::Ambiguous))),
        (404, "", Err(("States.Http.StatusCode.404", Certainty::Refused))),
        (503, "", Err(("Lambda.ServiceException", Certainty::Ambiguous))),
    ] {
        let mut receiver = Receiver::that(Reply::With(status, "", "seen")).await;
        let text = format!(
            "[functions.f]\nurl = 'http://{}/pay'\n[[destinations]]\nhost = '127.0.0.1'\npath = '/pay'\n\
             header = 'X-Request-Key'\n{settings}",
            receiver.address
        );
        let told = outcome(&text, BARE, "{}").await;
        match expected {
            Ok(expected) => assert_eq!(output(&told), expected, "{status} {settings}"),
            Err((error, certainty)) => assert_eq!(failure(&told), (error, "seen", certainty), "{settings}"),
        }
        let request = receiver.requests.recv().await.expect("it was called");
        assert_eq!(request.headers["x-request-key"], wire());
        assert!(!request.headers.contains_key("idempotency-key"));
    }
}

#[tokio::test]
async fn every_way_in_which_a_url_does_not_answer_has_its_error() {
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("it is bound")
    };
    let silent = Receiver::that(Reply::Silence).await.address;
    let rude = Receiver::that(Reply::Hangup).await.address;
    for (address, settings, error, cause, certainty) in [
        (
            nobody.to_string(),
            "",
            "Lambda.SdkClientException",
            "no connection to 127.0.0.1",
            Certainty::NotSent,
        ),
        (rude.to_string(), "", "Lambda.SdkClientException", "did not arrive whole", Certainty::Ambiguous),
        (
            silent.to_string(),
            "timeout_seconds = 0.5",
            "Sandbox.Timedout",
            "Task timed out after 0.50 seconds",
            Certainty::Ambiguous,
        ),
        ("169.254.169.254".into(), "", "Lambda.AccessDeniedException", "link-local", Certainty::NotSent),
    ] {
        let text = format!("[functions.f]\nurl = 'http://{address}/'\n{settings}");
        let told = outcome(&text, BARE, "{}").await;
        let found = failure(&told);
        assert_eq!((found.0, found.2), (error, certainty), "{found:?}");
        assert!(found.1.contains(cause), "{found:?}");
    }
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let huge = Receiver::that(Reply::With(200, "", Box::leak("9".repeat(300_000).into_boxed_str()))).await;
    let tables: Tables =
        toml::from_str(&format!("[functions.f]\nurl = 'http://{}/'", huge.address)).expect("TOML");
    let settings = Settings::check(tables, Path::new("/")).expect("right");
    let settings = Settings { strict: true, ..settings };
    let tasks = Tasks::new(settings, Arc::<Connections>::default(), Handle::current()).expect("TLS");
    let told = tasks.outcome(execution(), &call(BARE, "{}")).await;
    let found = failure(&told);
    assert_eq!((found.0, found.2), ("States.DataLimitExceeded", Certainty::Ambiguous), "{found:?}");
}

#[tokio::test]
async fn a_lambda_endpoint_is_asked_as_lambda_is_and_the_key_is_in_the_client_context() {
    let version = "X-Amz-Executed-Version: 7\r\n";
    let mut receiver = Receiver::that(Reply::With(200, version, r#"{"ok":1}"#)).await;
    let text = format!("[lambda]\nendpoint = 'http://{}'\n[functions.g]\nlambda = 'named'", receiver.address);
    for (arn, input, line, body, kind, expected) in [
        (
            format!("{BARE}:live"),
            r#"{"a":1}"#,
            "POST /2015-03-31/functions/f/invocations?Qualifier=live HTTP/1.1",
            r#"{"a":1}"#,
            "RequestResponse",
            r#"{"ok":1}"#,
        ),
        (
            INVOKE.into(),
            r#"{"FunctionName":"g","Qualifier":"7","Payload":[1]}"#,
            "POST /2015-03-31/functions/named/invocations?Qualifier=7 HTTP/1.1",
            "[1]",
            "RequestResponse",
            r#"{"ExecutedVersion":"7","Payload":{"ok":1},"StatusCode":200}"#,
        ),
        (
            INVOKE.into(),
            r#"{"FunctionName":"other","InvocationType":"Event"}"#,
            "POST /2015-03-31/functions/other/invocations HTTP/1.1",
            "{}",
            "Event",
            r#"{"Payload":"","StatusCode":202}"#,
        ),
        (
            INVOKE.into(),
            r#"{"FunctionName":"other","InvocationType":"DryRun"}"#,
            "POST /2015-03-31/functions/other/invocations HTTP/1.1",
            "{}",
            "DryRun",
            r#"{"Payload":"","StatusCode":204}"#,
        ),
    ] {
        assert_eq!(output(&outcome(&text, &arn, input).await), expected, "{input}");
        let request = receiver.requests.recv().await.expect("it was called");
        assert_eq!((&*request.line, &*request.body), (line, body));
        assert_eq!(request.headers["x-amz-invocation-type"], kind);
        let context = decoded(&request.headers["x-amz-client-context"]);
        assert_eq!(context, format!(r#"{{"custom":{{"idempotencyKey":"{}"}}}}"#, wire()));
    }
}

/// Base64, by a reader of its own.
fn decoded(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let bits: Vec<u8> = digits
        .flat_map(|byte| {
            let value = DIGITS.iter().position(|digit| *digit == byte).expect("base64");
            (0..6).rev().map(move |bit| (value >> bit & 1) as u8)
        })
        .collect();
    let bytes = bits.chunks_exact(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit));
    String::from_utf8(bytes.collect()).expect("text")
}

#[tokio::test]
async fn a_lambda_endpoint_that_does_not_answer_is_a_client_that_could_not_reach_it() {
    let silent = Receiver::that(Reply::Silence).await.address;
    let text =
        format!("[lambda]\nendpoint = 'http://{silent}'\n[functions.f]\nlambda = 'f'\ntimeout_seconds = 0.5");
    let told = outcome(&text, BARE, "{}").await;
    let found = failure(&told);
    assert_eq!((found.0, found.2), ("Lambda.ClientExecutionTimeoutException", Certainty::Ambiguous));
    let bad = r#"{"FunctionName":"f","ClientContext":"%"}"#;
    let told = outcome(&text, INVOKE, bad).await;
    let found = failure(&told);
    assert_eq!((found.0, found.2), ("Lambda.InvalidRequestContentException", Certainty::NotSent));
}

#[tokio::test]
async fn a_command_gets_the_payload_and_the_key() {
    let text = r#"[functions.f]
        command = ["sh", "-c", 'printf "[%s, \"%s\"]" "$(cat)" "$PERDURA_IDEMPOTENCY_KEY"']"#;
    let told = outcome(text, BARE, r#"{"a":1}"#).await;
    assert_eq!(output(&told), format!(r#"[{{"a":1}}, "{}"]"#, wire()));
}

#[tokio::test]
async fn commands_wait_for_a_place_and_those_that_are_called_off_give_theirs_up() {
    let folder = std::env::temp_dir().join(format!("perdura-tasks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let began = folder.join("began");
    let text = format!(
        "[commands]\nat_once = 1\n\
         [functions.f]\ncommand = ['sh', '-c', 'touch {}; sleep 600 & sleep 600']\n\
         [functions.g]\ncommand = ['echo', '2']",
        began.display()
    );
    let tasks = tasks(&text);
    let first = tokio::spawn({
        let tasks = tasks.clone();
        async move { tasks.outcome(execution(), &call(BARE, "{}")).await }
    });
    while !began.exists() {
        tokio::task::yield_now().await;
    }
    let arn = "arn:aws:lambda:us-east-1:123456789012:function:g";
    let second = tokio::spawn(async move { tasks.outcome(execution(), &call(arn, "{}")).await });
    tokio::task::yield_now().await;
    assert!(!second.is_finished(), "there is one place, and it is taken");
    first.abort();
    assert_eq!(output(&second.await.expect("it ends")), "2");
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[tokio::test]
async fn a_function_that_nobody_configured_fails_as_a_missing_lambda_function_does() {
    for (arn, input) in [(BARE, "{}"), (INVOKE, r#"{"FunctionName":"f"}"#)] {
        let told = outcome("", arn, input).await;
        let found = failure(&told);
        assert_eq!((found.0, found.2), ("Lambda.ResourceNotFoundException", Certainty::NotSent));
        assert!(
            found.1.starts_with(&format!("Function not found: {BARE}:$LATEST (Service: AWSLambda;")),
            "{}",
            found.1
        );
    }
}

#[tokio::test]
async fn a_token_is_only_handed_over() {
    let arn = "arn:aws:states:::lambda:invoke.waitForTaskToken";
    let receiver = Receiver::that(Reply::With(200, "", "{}")).await;
    let text = format!("[functions.f]\nurl = 'http://{}/'", receiver.address);
    let told = outcome(&text, arn, r#"{"FunctionName":"f"}"#).await;
    assert!(matches!(told, Outcome::Submitted { .. }), "{told:?}");
    let told = outcome("", arn, r#"{"FunctionName":"f"}"#).await;
    assert!(matches!(told, Outcome::SubmitFailed { certainty: Certainty::NotSent, .. }), "{told:?}");
}

#[tokio::test]
async fn what_nobody_performs_is_named() {
    let told = outcome("", "arn:aws:states:::glue:startJobRun", "{}").await;
    match told {
        Outcome::NotStarted { fault, .. } => {
            assert_eq!(fault.error.as_deref(), Some("States.Runtime"));
            assert!(fault.cause.unwrap_or_default().contains("arn:aws:states:::glue:startJobRun"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_policy_of_a_call_is_that_of_its_destination() {
    let text = "[[destinations]]\nhost = 'bank.example'\nuncertain = 'hold'\nkey_memory = '2h'";
    let call = call("arn:aws:states:::http:invoke", r#"{"ApiEndpoint": "https://bank.example/pay"}"#);
    let policy = tasks(text).policy(&call.resource, &call.input);
    assert_eq!(policy, Policy { uncertain: Uncertain::Hold, key_memory_ms: 7_200_000, ..Policy::default() });
}
