//! CloudFormation templates, deployed by the real binary.

mod common;

use common::Scene;
use common::server::Server;

/// As `cdk synth` writes a stack with a function, a worker and two machines, one of which starts the other.
const ORDERS: &str = r#"{
 "Resources": {
  "ChargeServiceRoleDE42ABD6": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}},
  "Charge8B1D4C09": {"Type": "AWS::Lambda::Function", "Properties": {
    "Code": {"S3Bucket": {"Fn::Sub": "cdk-assets-${AWS::AccountId}-${AWS::Region}"}, "S3Key": "1f.zip"},
    "FunctionName": {"Fn::Join": ["-", [{"Ref": "Stage"}, "charge"]]}}},
  "Resize2E5C0B31": {"Type": "AWS::StepFunctions::Activity", "Properties": {"Name": "resize"}},
  "ShipRole1C2D": {"Type": "AWS::IAM::Role", "Properties": {}},
  "Ship9D0A6F11": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {
    "DefinitionString": "{\"StartAt\":\"Done\",\"States\":{\"Done\":{\"Type\":\"Pass\",\"Result\":{\"shipped\":true},\"End\":true}}}",
    "RoleArn": {"Fn::GetAtt": ["ShipRole1C2D", "Arn"]}}, "DependsOn": ["ShipRole1C2D"]},
  "OrdersB5E0A7F2": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {
    "StateMachineName": "orders",
    "DefinitionString": {"Fn::Join": ["", [
      "{\"StartAt\":\"Ship\",\"States\":{\"Ship\":{\"Type\":\"Task\",\"Resource\":\"arn:",
      {"Ref": "AWS::Partition"},
      ":states:::states:startExecution.sync:2\",\"Parameters\":{\"StateMachineArn\":\"",
      {"Ref": "Ship9D0A6F11"},
      "\",\"Input.$\":\"$\"},\"OutputPath\":\"$.Output\",\"Next\":\"Note\"},\"Note\":{\"Type\":\"Pass\",\"Parameters\":{\"by\":\"",
      {"Fn::GetAtt": ["Charge8B1D4C09", "Arn"]},
      "\"},\"End\":true}}}"]]},
    "RoleArn": {"Fn::ImportValue": "shared-role"}}},
  "CDKMetadata": {"Type": "AWS::CDK::Metadata", "Condition": "CDKMetadataAvailable", "Properties": {"Analytics": "v2"}}
 },
 "Conditions": {"CDKMetadataAvailable": {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-east-1"]}},
 "Parameters": {"Stage": {"Type": "String"},
  "BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/version"}}
}"#;

#[test]
fn all_machines_of_a_template_are_deployed_and_run() {
    let scene = Scene::new("templates-run").file("Orders.template.json", ORDERS);
    let server = Server::start(&scene, &[]);
    let deploy = ["deploy", "Orders.template.json", "--parameter", "Stage=test"];
    let told = scene.on_data(&deploy);
    assert_eq!(told.code, Some(0), "{told:?}");
    let expected = "resize is kept as an activity\nShip9D0A6F11 is deployed, revision 1\norders is deployed, revision 2\n";
    assert_eq!(told.stdout, expected);
    let again = scene.json(&deploy);
    assert_eq!(again[0]["activity"], "resize");
    assert_eq!((&again[2]["machine"], &again[2]["revision"]), (&"orders".into(), &2.into()));
    scene.one(&["start", "orders", "--name", "a"]);
    let shown = scene.until_status("a", "SUCCEEDED");
    let function = r#"{"by":"arn:aws:lambda:us-east-1:123456789012:function:test-charge"}"#;
    assert_eq!(shown["output"], function);
    let activities = scene.json(&["activity", "list"]);
    assert_eq!(activities[0]["name"], "resize");
    drop(server);
}

#[test]
fn what_is_missing_is_said_and_nothing_is_deployed() {
    let scene = Scene::new("templates-missing").file("Orders.template.json", ORDERS);
    scene.on_data(&["deploy", "Orders.template.json"]).fails(
        2,
        &[
            "Orders.template.json cannot be used:",
            "Resources/Charge8B1D4C09/Properties/FunctionName/Fn::Join/1/0/Ref: ",
            "the parameter Stage has no value; give its value with --parameter 'Stage=VALUE'",
        ],
    );
    scene
        .on_data(&["deploy", "Orders.template.json", "--parameter", "Stage=test", "--name", "x"])
        .fails(2, &["--name is for one machine, and the template has 2"]);
    let wrong = ORDERS.replace(r#"\"StartAt\":\"Done\""#, r#"\"StartAt\":\"Gone\""#);
    let scene = scene.file("Wrong.template.json", &wrong);
    let arguments = ["deploy", "Wrong.template.json", "--parameter", "Stage=test"];
    scene.on_data(&arguments).fails(1, &["Wrong.template.json#Ship9D0A6F11 cannot be deployed: "]);
    assert!(!scene.path("data").exists(), "nothing was written");
    scene
        .file("Queue.template.json", r#"{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}"#)
        .on_data(&["deploy", "Queue.template.json"])
        .fails(2, &["has neither state machines nor activities"]);
}

#[test]
fn a_template_is_validated_machine_by_machine() {
    let yaml = "Resources:\n  Good:\n    Type: AWS::StepFunctions::StateMachine\n    Properties:\n      Definition: {StartAt: A, States: {A: {Type: Succeed}}}\n  Bad:\n    Type: AWS::StepFunctions::StateMachine\n    Properties:\n      DefinitionString: !Sub '{\"StartAt\": \"${AWS::Region}\", \"States\": {\"A\": {\"Type\": \"Succeed\"}}}'\n";
    let scene = Scene::new("templates-validate").file("t.yaml", yaml);
    let told = scene.perdura(&["validate", "t.yaml", "--json"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    let results: Vec<(String, String)> = told
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("each line is JSON"))
        .map(|one| (one["file"].to_string(), one["result"].to_string()))
        .collect();
    let pair = |file: &str, result: &str| (format!("{file:?}"), format!("{result:?}"));
    assert_eq!(results, [pair("t.yaml#Good", "OK"), pair("t.yaml#Bad", "FAIL")]);
}

#[test]
fn without_a_server_the_activities_of_a_template_count_in_their_quota() {
    let scene = Scene::new("templates-quota")
        .file("Orders.template.json", ORDERS)
        .file("perdura.toml", "[quotas]\nactivities = 0\n");
    let deploy = ["deploy", "Orders.template.json", "--parameter", "Stage=test"];
    scene.on_data(&deploy).fails(1, &["the quota of 0 activities is used up", "raise quotas.activities"]);
}
