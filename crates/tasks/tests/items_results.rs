//! Results of a run as files: their form, their names, and that a file is there whole or not at all.

#[path = "items_data/scene.rs"]
mod scene;

use perdura_engine::Status;
use perdura_engine::asl::json::Value;
use perdura_runtime::{ChildResult, Reply, WriteOrder};
use perdura_store::{Failure, FailureKind};
use perdura_tasks::items::{BucketSettings, ItemSettings, write};
use scene::{MAP_RUN, child, folder, json, local, put, stores, writer};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::oneshot;

const RUN: &str = "ad9b5f27-090b-3ac6-9beb-243cd77144a7";

fn mixed() -> impl Iterator<Item = ChildResult> + Send + 'static {
    [
        child(0, Status::Succeeded, Some(r#"[1,{"a":9007199254740993}]"#)),
        child(1, Status::Failed, None),
        child(2, Status::Succeeded, Some(r#""two""#)),
        child(3, Status::TimedOut, None),
        child(4, Status::Aborted, None),
        child(5, Status::Created, None),
        child(6, Status::Succeeded, Some("[]")),
    ]
    .into_iter()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn every_child_is_told_as_aws_tells_it() {
    let root = folder("whole");
    put(&stores(&local(&root)), writer(r#"{"Bucket": "local", "Prefix": "p/q"}"#, "{}"), mixed())
        .await
        .expect("it is written");
    let run = root.join("p/q").join(RUN);
    assert_eq!(names(&run), ["FAILED_0.json", "PENDING_0.json", "SUCCEEDED_0.json", "manifest.json"]);
    let file = |name: &str| json(&fs::read_to_string(run.join(name)).expect("a file"));
    let succeeded = r#"{"ExecutionArn": "arn:aws:states:us-east-1:123456789012:execution:orders/Each:c2",
        "Input": "{\"n\":2}", "InputDetails": {"Included": true}, "Name": "c2", "Output": "\"two\"",
        "OutputDetails": {"Included": true}, "RedriveCount": 0, "RedriveStatus": "NOT_REDRIVABLE",
        "RedriveStatusReason": "Execution is SUCCEEDED and cannot be redriven",
        "StartDate": "2023-11-14T22:13:20.123Z",
        "StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:orders/Each",
        "Status": "SUCCEEDED", "StopDate": "2023-11-14T22:13:21.000Z"}"#;
    let all = file("SUCCEEDED_0.json");
    assert_eq!(all.as_array().expect("an array").len(), 3);
    assert_eq!(all.as_array().expect("an array")[1].to_string(), json(succeeded).to_string());
    let failed = r#"{"Cause": "number 1", "Error": "Broken",
        "ExecutionArn": "arn:aws:states:us-east-1:123456789012:execution:orders/Each:c1",
        "Input": "{\"n\":1}", "InputDetails": {"Included": true}, "Name": "c1", "RedriveCount": 0,
        "RedriveStatus": "REDRIVABLE_BY_MAP_RUN", "StartDate": "2023-11-14T22:13:20.123Z",
        "StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:orders/Each",
        "Status": "FAILED", "StopDate": "2023-11-14T22:13:21.000Z"}"#;
    let all = file("FAILED_0.json");
    let status = |item: &Value| item.get("Status").and_then(Value::as_str).map(str::to_owned);
    let statuses: Vec<_> = all.as_array().expect("an array").iter().filter_map(status).collect();
    assert_eq!(statuses, ["FAILED", "TIMED_OUT", "ABORTED"]);
    assert_eq!(all.as_array().expect("an array")[0].to_string(), json(failed).to_string());
    let pending = file("PENDING_0.json");
    assert_eq!(status(&pending.as_array().expect("an array")[0]).as_deref(), Some("PENDING"));
}

#[tokio::test]
async fn outputs_are_transformed_and_failures_are_not() {
    let table = [
        ("JSON", "COMPACT", "json", r#"[[1,{"a":9007199254740993}],"two",[]]"#),
        ("JSONL", "COMPACT", "jsonl", "[1,{\"a\":9007199254740993}]\n\"two\"\n[]\n"),
        ("JSON", "FLATTEN", "json", r#"[1,{"a":9007199254740993},"two"]"#),
        ("JSONL", "FLATTEN", "jsonl", "1\n{\"a\":9007199254740993}\n\"two\"\n"),
    ];
    for (output, transformation, extension, wanted) in table {
        let root = folder(&format!("{output}-{transformation}"));
        let config = format!(r#"{{"OutputType": "{output}", "Transformation": "{transformation}"}}"#);
        let written = put(&stores(&local(&root)), writer(r#"{"Bucket": "local"}"#, &config), mixed()).await;
        let details = format!(
            r#"{{"MapRunArn": "{MAP_RUN}", "ResultWriterDetails": {{"Bucket": "local", "Key": "{RUN}/manifest.json"}}}}"#
        );
        assert_eq!(written, Ok(json(&details)));
        let file = |name: &str| fs::read_to_string(root.join(RUN).join(format!("{name}_0.{extension}")));
        assert_eq!(file("SUCCEEDED").expect("a file"), wanted, "{config}");
        assert!(file("FAILED").expect("a file").contains(r#""Cause":"number 1""#), "{config}");
    }
}

#[tokio::test]
async fn a_run_without_results_has_a_manifest_alone() {
    let root = folder("nothing");
    let order = writer(r#"{"Bucket": "local"}"#, "{}");
    put(&stores(&local(&root)), order, std::iter::empty()).await.expect("it is written");
    assert_eq!(names(&root.join(RUN)), ["manifest.json"]);
    let manifest = fs::read_to_string(root.join(RUN).join("manifest.json")).expect("a file");
    let files = r#"{"FAILED": [], "PENDING": [], "SUCCEEDED": []}"#;
    assert_eq!(json(&manifest).get("ResultFiles"), Some(&json(files)));
}

#[tokio::test]
async fn files_are_split_by_size_and_written_again_alike() {
    let root = folder("split");
    let stores = stores(&ItemSettings { result_file_bytes_max: 30, ..local(&root) });
    let order = || writer(r#"{"Bucket": "local"}"#, r#"{"OutputType": "JSON", "Transformation": "COMPACT"}"#);
    let results =
        || (0..10).map(|index| child(index, Status::Succeeded, Some(&format!("{{\"number\":{index}}}"))));
    put(&stores, order(), results()).await.expect("it is written");
    let run = root.join(RUN);
    let files = names(&run);
    assert_eq!(files.len(), 6, "{files:?}");
    let contents = || -> Vec<Vec<u8>> {
        names(&run).iter().map(|name| fs::read(run.join(name)).expect("a file")).collect()
    };
    let first = contents();
    assert!(first[..5].iter().all(|file| file.len() <= 30));
    assert_eq!(first[4], br#"[{"number":8},{"number":9}]"#);
    fs::write(run.join("SUCCEEDED_3.json.unfinished"), "what a crash left").expect("a file");
    put(&stores, order(), results()).await.expect("it is written again");
    assert_eq!(contents(), first);
}

#[tokio::test]
async fn results_do_not_leave_their_folder() {
    let root = folder("results-escape");
    fs::create_dir(root.join("inside")).expect("a folder");
    #[cfg(unix)]
    std::os::unix::fs::symlink("..", root.join("inside/up")).expect("a link");
    let web = BucketSettings { url: Some("https://example.org/".into()), ..BucketSettings::default() };
    let mut settings = local(&root.join("inside"));
    settings.buckets.insert("web".into(), web);
    let stores = stores(&settings);
    let table = [
        (r#"{"Bucket": "local", "Prefix": ".."}"#, "plain names"),
        (r#"{"Bucket": "local", "Prefix": "/tmp"}"#, "plain names"),
        (r#"{"Bucket": "local", "Prefix": "up"}"#, "leads out of the folder"),
        (r#"{"Bucket": "web"}"#, "can only be read"),
        (r#"{"Bucket": "none"}"#, "no store is configured"),
        ("{}", "`Bucket` is missing"),
    ];
    for (arguments, wanted) in table {
        let fault = put(&stores, writer(arguments, "{}"), mixed()).await.expect_err(arguments);
        assert_eq!(fault.error.as_deref(), Some("States.ResultWriterFailed"));
        let cause = fault.cause.as_deref().expect("a cause");
        assert!(cause.contains(wanted), "{arguments}: {cause}");
    }
    assert_eq!(names(&root), ["inside"]);
}

#[tokio::test]
async fn what_nobody_waits_for_is_not_finished() {
    let root = folder("unwanted-results");
    let wanted = Arc::new(());
    let reply = Reply::while_wanted(&wanted, |_| ());
    drop(wanted);
    let results = Box::new(mixed().map(Ok));
    let order = WriteOrder {
        writer: writer(r#"{"Bucket": "local"}"#, "{}"),
        map_run_arn: MAP_RUN.into(),
        results,
        reply,
    };
    write(&stores(&local(&root)), order).await;
    assert!(!root.join(RUN).join("manifest.json").exists());
}

#[tokio::test]
async fn results_that_cannot_be_read_back_leave_nothing() {
    type Results = Box<dyn Iterator<Item = Result<ChildResult, Failure>> + Send>;
    let failure =
        || Failure { what: "reading".into(), why: "the disk is gone".into(), kind: FailureKind::Io };
    let root = folder("lost-results");
    let broken: [(Results, &str); 2] = [
        (
            Box::new(mixed().map(Ok).chain([Err(failure())])),
            "they cannot be read back: reading: the disk is gone",
        ),
        (
            Box::new(mixed().map(|child| if child.index == 3 { panic!("on purpose") } else { Ok(child) })),
            "died",
        ),
    ];
    for (results, wanted) in broken {
        let (sender, receiver) = oneshot::channel();
        let reply = Reply::new(move |written| sender.send(written).expect("somebody waits"));
        let writer = writer(r#"{"Bucket": "local"}"#, "{}");
        write(&stores(&local(&root)), WriteOrder { writer, map_run_arn: MAP_RUN.into(), results, reply })
            .await;
        let fault = receiver.await.expect("a reply").expect_err(wanted);
        assert!(fault.cause.as_deref().is_some_and(|cause| cause.contains(wanted)), "{fault:?}");
        assert_eq!(names(&root.join(RUN)), [] as [&str; 0]);
    }
}
