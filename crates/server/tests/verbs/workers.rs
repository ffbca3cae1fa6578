//! Workers that wait, and whoever asks a server that ends: what needs several at once, or a hand on the clock.

use crate::stage::{Mode, Stage, With, tokio};
use perdura_server::sfn::{Api, ApiError, Code, Went, actions};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

const WORK: &str = r#"{"activityArn": "arn:aws:states:us-east-1:123456789012:activity:work"}"#;

type Asking<'a> =
    Pin<Box<dyn Future<Output = Result<perdura_engine::asl::json::Value, ApiError>> + Send + 'a>>;

fn asking<'a>(api: &'a Api, action: &'a str, body: &'static str) -> Asking<'a> {
    Box::pin(api.ask(action, body))
}

/// Lets somebody wait until the place among the workers is taken: what comes before it is a look at the store.
async fn wait_in_line(api: &Api, waits: &mut Asking<'_>) {
    loop {
        let polled = poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await;
        assert!(polled, "there is no task");
        // Whoever comes next is refused once the first has its place.
        let second = tokio::time::timeout(std::time::Duration::ZERO, api.ask("GetActivityTask", WORK));
        if let Ok(Err(error)) = second.await {
            assert_eq!(error.code, Code::ActivityWorkerLimitExceeded);
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// A server whose activity `work` has room for one worker.
fn with_room_for_one(tokio: &tokio::runtime::Runtime) -> Stage {
    let mut with = With::default();
    with.and("quota pollers=1");
    let stage = Stage::new(tokio, with, Mode::Served);
    stage.ask("CreateActivity", r#"{"name": "work"}"#).expect("it is made");
    stage
}

#[test]
fn no_more_workers_wait_than_the_quota_says_and_one_that_goes_makes_room() {
    let tokio = tokio();
    let stage = with_room_for_one(&tokio);
    let api = stage.api();
    tokio.block_on(async {
        for _ in 0..3 {
            let mut first = asking(api, "GetActivityTask", WORK);
            wait_in_line(api, &mut first).await;
            let refused = api.ask("GetActivityTask", WORK).await.expect_err("there is one place");
            assert_eq!(
                refused.to_string(),
                "ActivityWorkerLimitExceeded: Activity Worker Limit Exceeded: \
                 'arn:aws:states:us-east-1:123456789012:activity:work'"
            );
            // It hangs up, and its place is free.
            drop(first);
        }
    });
}

#[test]
fn each_activity_has_places_of_its_own() {
    let tokio = tokio();
    let mut stage = with_room_for_one(&tokio);
    stage.ask("CreateActivity", r#"{"name": "other"}"#).expect("it is made");
    let definition = r#"{"StartAt": "A", "States": {"A": {"Type": "Task", "End": true,
        "Resource": "arn:aws:states:us-east-1:123456789012:activity:other"}}}"#;
    let deploy =
        serde_json::json!({"deploy": {"machine": "m", "kind": "STANDARD", "definition": definition}});
    let start = serde_json::json!({"start": {"machine": "m", "name": "n", "input": "{}", "strict": false}});
    for request in [deploy, start] {
        stage.command(serde_json::from_value(request).expect("it is a request")).expect("it is done");
    }
    let api = stage.api();
    tokio.block_on(async {
        let mut first = asking(api, "GetActivityTask", WORK);
        wait_in_line(api, &mut first).await;
        let other = r#"{"activityArn": "arn:aws:states:us-east-1:123456789012:activity:other"}"#;
        let task = api.ask("GetActivityTask", other).await.expect("it has a place");
        assert!(task.get("taskToken").is_some(), "{task}");
    });
}

#[test]
fn a_worker_that_waits_gets_the_task_of_an_execution_that_starts_later() {
    let tokio = tokio();
    let stage = with_room_for_one(&tokio);
    let api = stage.api();
    let create = r#"{"name": "m", "roleArn": "arn:aws:iam::1:role/r", "definition":
        "{\"StartAt\": \"A\", \"States\": {\"A\": {\"Type\": \"Task\", \"End\": true, \"Resource\":
        \"arn:aws:states:us-east-1:123456789012:activity:work\"}}}"}"#;
    stage.ask("CreateStateMachine", &create.replace('\n', " ")).expect("it is made");
    let start =
        r#"{"stateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:m", "input": "[1]"}"#;
    tokio.block_on(async {
        let mut waits = asking(api, "GetActivityTask", WORK);
        wait_in_line(api, &mut waits).await;
        api.ask("StartExecution", start).await.expect("it is started");
        let task = waits.await.expect("it is handed out");
        assert_eq!(task.get("input").and_then(|input| input.as_str()), Some("[1]"));
    });
}

#[test]
fn a_worker_that_hung_up_leaves_the_task_to_the_next() {
    let tokio = tokio();
    let stage = with_room_for_one(&tokio);
    let api = stage.api();
    let create = r#"{"name": "m", "roleArn": "arn:aws:iam::1:role/r", "definition": "{\"StartAt\": \"A\", \"States\": {\"A\": {\"Type\": \"Task\", \"End\": true, \"Resource\": \"arn:aws:states:us-east-1:123456789012:activity:work\"}}}"}"#;
    stage.ask("CreateStateMachine", create).expect("it is made");
    let start = r#"{"stateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:m", "name": "n"}"#;
    tokio.block_on(async {
        let mut gone = asking(api, "GetActivityTask", WORK);
        wait_in_line(api, &mut gone).await;
        drop(gone);
        api.ask("StartExecution", start).await.expect("it is started");
        let task = api.ask("GetActivityTask", WORK).await.expect("there is a task");
        assert!(task.get("taskToken").is_some(), "{task}");
    });
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_sent_away_with_nothing_after_a_minute() {
    let threads = tokio();
    let stage =
        std::thread::scope(|scope| scope.spawn(|| with_room_for_one(&threads)).join().expect("it opens"));
    let began = tokio::time::Instant::now();
    let nothing = stage.api().ask("GetActivityTask", WORK).await.expect("that is no error");
    assert_eq!(nothing.to_string(), "{}");
    assert_eq!(began.elapsed().as_secs(), 60);
    threads.shutdown_background();
}

#[test]
fn what_is_no_action_is_refused_whatever_it_brings() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    for action in ["", "Start", "startExecution", "DeleteEverything"] {
        for body in ["{}", "no JSON", ""] {
            let refused = stage.ask(action, body).expect_err("there is none");
            assert_eq!(refused.code, Code::UnknownOperationException, "{action} {body}");
        }
    }
}

#[test]
fn every_action_refuses_a_body_that_is_no_object() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    for action in actions() {
        for body in ["", "no JSON", "[]", "null", "\"{}\"", "{\"a\": 1", "\u{feff}x"] {
            let refused = stage.ask(action, body).expect_err("it is none");
            assert_eq!(refused.code, Code::SerializationException, "{action} {body}");
        }
    }
}

#[test]
fn calls_are_counted_by_action_and_by_how_they_went() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    stage.ask("ListActivities", "{}").expect("it is a list");
    stage.ask("ListActivities", "{}").expect("it is a list");
    stage.ask("ListActivities", r#"{"nextToken": "x"}"#).expect_err("it is no token");
    stage.ask("StopExecution", "{}").expect_err("it says not which");
    stage.ask("NoAction", "{}").expect_err("there is none");
    assert_eq!(
        stage.api().calls(),
        [
            ("ListActivities", Went::Done, 2),
            ("ListActivities", Went::Refused, 1),
            ("StopExecution", Went::Refused, 1)
        ]
    );
}

#[test]
fn whoever_starts_or_answers_while_the_server_ends_is_told_to_come_again() {
    let tokio = tokio();
    let mut stage = with_room_for_one(&tokio);
    let create = r#"{"name": "m", "roleArn": "arn:aws:iam::1:role/r",
        "definition": "{\"StartAt\": \"A\", \"States\": {\"A\": {\"Type\": \"Pass\", \"End\": true}}}"}"#;
    stage.ask("CreateStateMachine", create).expect("it is made");
    let api = stage.api().clone();
    // Another process has the data now; this one's API has nothing behind it.
    stage.go(Mode::Beside);
    let machine = r#""stateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:m""#;
    let token = "0".repeat(72);
    for (action, body) in [
        ("StartExecution", format!("{{{machine}}}")),
        ("GetActivityTask", WORK.to_owned()),
        ("SendTaskHeartbeat", format!(r#"{{"taskToken": "{token}"}}"#)),
        ("SendTaskSuccess", format!(r#"{{"taskToken": "{token}", "output": "1"}}"#)),
        ("CreateActivity", r#"{"name": "a"}"#.to_owned()),
        ("DeleteStateMachine", format!("{{{machine}}}")),
    ] {
        let refused = tokio.block_on(api.ask(action, body)).expect_err("nobody can do it");
        assert_eq!(
            (refused.code, refused.is_passing()),
            (Code::ServiceUnavailable, true),
            "{action}: {refused}"
        );
    }
    let unavailable = api.calls().into_iter().filter(|(_, went, _)| *went == Went::Unavailable).count();
    assert_eq!(unavailable, 6);
}
