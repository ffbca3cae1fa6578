//! Distributed Maps over files, on the real binary.

mod common;

use common::Scene;
use serde_json::Value;

const MACHINE: &str = r#"{"StartAt": "Each", "States": {"Each": {"Type": "Map", "End": true, "Label": "each",
    "ItemReader": {"Resource": "arn:aws:states:::s3:getObject", "ReaderConfig": {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"},
        "Parameters": {"Bucket": "orders", "Key": "in/all.csv"}},
    "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Known",
        "States": {
            "Known": {"Type": "Choice", "Choices": [{"Variable": "$.amount", "StringEquals": "0", "Next": "No"}], "Default": "Yes"},
            "No": {"Type": "Fail", "Error": "Empty"},
            "Yes": {"Type": "Pass", "Result": "paid", "ResultPath": "$.state", "End": true}}},
    "ToleratedFailureCount": 1,
    "ResultWriter": {"Resource": "arn:aws:states:::s3:putObject", "Parameters": {"Bucket": "results", "Prefix": "out"}}}}}"#;

const CONFIG: &str = "
[items]
local = 'files'
[items.buckets.orders]
folder = 'orders'
[items.buckets.results]
folder = 'results'
";

fn read(scene: &Scene, path: &str) -> Value {
    let text =
        std::fs::read_to_string(scene.folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn items_of_a_file_run_as_children_and_their_results_go_into_files() {
    let scene = Scene::new("items");
    for folder in ["files/orders/in", "files/results"] {
        std::fs::create_dir_all(scene.folder.join(folder)).unwrap();
    }
    let scene = scene
        .file("perdura.toml", CONFIG)
        .file("pay.asl.json", MACHINE)
        .file("files/orders/in/all.csv", "order,amount\nA-1,10\nA-2,0\n\"A,3\",7\n");
    let ended = scene.perdura(&["run", "pay.asl.json", "--data", "data", "--name", "one", "--quiet"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let output: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(output["ResultWriterDetails"]["Bucket"], "results");
    let key = output["ResultWriterDetails"]["Key"].as_str().unwrap();
    let manifest = read(&scene, &format!("files/results/{key}"));
    let file = |kind: &str| {
        let key = manifest["ResultFiles"][kind][0]["Key"].as_str().unwrap();
        read(&scene, &format!("files/results/{key}"))
    };
    let outputs: Vec<Value> =
        file("SUCCEEDED").as_array().unwrap().iter().map(|child| child["Output"].clone()).collect();
    let expected =
        [r#"{"order":"A-1","amount":"10","state":"paid"}"#, r#"{"order":"A,3","amount":"7","state":"paid"}"#];
    assert_eq!(outputs, expected);
    assert_eq!(file("FAILED")[0]["Error"], "Empty");
}

#[test]
fn a_bucket_that_nobody_configured_says_what_to_write() {
    let scene = Scene::new("no_items").file("pay.asl.json", MACHINE);
    let ended = scene.perdura(&["run", "pay.asl.json", "--data", "data", "--quiet"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("States.ItemReaderFailed") && ended.stderr.contains("[items"),
        "{}",
        ended.stderr
    );
}
