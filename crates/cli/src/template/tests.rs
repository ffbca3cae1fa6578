//! Templates like those of CDK and people, and their results.

use super::*;
use perdura_asl::machine::MachineType;

fn given(values: &[(&str, &str)]) -> Given {
    let arns = Arns { partition: "aws".into(), region: "eu-west-1".into(), account: "111122223333".into() };
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Given::new(arns, Path::new("cdk.out/Orders.template.json"), values)
}

fn template(file: &str, text: &str) -> Value {
    parse(&Source::new(file, text)).unwrap().expect("it is a template").value
}

/// The resolved definition of a machine that is this expression, in a template with one resource of each kind.
fn resolved(expression: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let text = format!(
        r#"{{
        "Parameters": {{
            "Stage": {{"Type": "String", "Default": "test"}},
            "Zones": {{"Type": "CommaDelimitedList", "Default": "a, b"}},
            "Image": {{"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/images/newest"}},
            "Secret": {{"Type": "String"}}
        }},
        "Mappings": {{"Limits": {{"test": {{"Most": 5}}}}}},
        "Conditions": {{
            "IsTest": {{"Fn::Equals": [{{"Ref": "Stage"}}, "test"]}},
            "IsFar": {{"Fn::And": [{{"Condition": "IsTest"}},
                {{"Fn::Not": [{{"Fn::Or": [{{"Fn::Equals": [{{"Ref": "AWS::Region"}}, "eu-west-1"]}}, {{"Condition": "IsTest"}}]}}]}}]}},
            "Round": {{"Fn::Not": [{{"Condition": "Round"}}]}}
        }},
        "Resources": {{
            "Charge7A1B": {{"Type": "AWS::Lambda::Function", "Properties": {{"Code": {{}}}}}},
            "Named": {{"Type": "AWS::Lambda::Function", "Properties": {{"FunctionName": {{"Fn::Sub": "${{Stage}}-charge"}}}}}},
            "NamedVersion": {{"Type": "AWS::Lambda::Version", "Properties": {{"FunctionName": {{"Ref": "Named"}}}}}},
            "Queue": {{"Type": "AWS::SQS::Queue"}},
            "Topic": {{"Type": "AWS::SNS::Topic", "Properties": {{"TopicName": "news"}}}},
            "Table": {{"Type": "AWS::DynamoDB::Table"}},
            "Files": {{"Type": "AWS::S3::Bucket"}},
            "Child": {{"Type": "AWS::StepFunctions::StateMachine", "Properties": {{"StateMachineName": "child", "DefinitionString": "c"}}}},
            "Resize": {{"Type": "AWS::StepFunctions::Activity", "Properties": {{"Name": "resize"}}}},
            "Role": {{"Type": "AWS::IAM::Role"}},
            "Odd": {{"Type": "Custom::Odd"}},
            "One": {{"Type": "AWS::SQS::Queue", "Properties": {{"QueueName": {{"Ref": "Two"}}}}}},
            "Two": {{"Type": "AWS::SQS::Queue", "Properties": {{"QueueName": {{"Ref": "One"}}}}}},
            "Machine": {{"Type": "AWS::StepFunctions::StateMachine", "Properties": {{"DefinitionString": {expression}}}}}
        }}}}"#
    );
    let found = Found::read(&template("t.json", &text), &given(values), &|_| None);
    let found = found.map_err(|problems| problems[0].to_string())?;
    let machine = found.machines.into_iter().find(|machine| machine.name == "Machine");
    Ok(machine.expect("the machine is there").definition.text.to_string())
}

#[test]
fn every_expression_comes_to_what_it_would_be_in_our_account() {
    for (expression, expected) in [
        (r#""plain""#, "plain"),
        (r#"{"Ref": "Stage"}"#, "test"),
        (r#"{"Ref": "AWS::Region"}"#, "eu-west-1"),
        (r#"{"Ref": "AWS::AccountId"}"#, "111122223333"),
        (r#"{"Ref": "AWS::Partition"}"#, "aws"),
        (r#"{"Ref": "AWS::StackName"}"#, "Orders"),
        (r#"{"Ref": "AWS::URLSuffix"}"#, "amazonaws.com"),
        (r#"{"Fn::Join": ["", ["a", {"Ref": "Stage"}, 5]]}"#, "atest5"),
        (r#"{"Fn::Join": ["-", {"Ref": "Zones"}]}"#, "a-b"),
        (r#"{"Fn::Join": ["-", {"Fn::Split": ["/", "x/y/z"]}]}"#, "x-y-z"),
        (r#"{"Fn::Select": [1, {"Ref": "Zones"}]}"#, "b"),
        (r#"{"Fn::Select": ["5", {"Fn::Split": [":", {"Fn::GetAtt": ["Queue", "Arn"]}]}]}"#, "Queue"),
        (
            r#"{"Fn::Sub": "${AWS::Region}/${Queue.Arn}/${!Kept}/$5"}"#,
            "eu-west-1/arn:aws:sqs:eu-west-1:111122223333:Queue/${Kept}/$5",
        ),
        (r#"{"Fn::Sub": ["${A}-${Stage}", {"A": {"Ref": "Table"}}]}"#, "Table-test"),
        (r#"{"Fn::If": ["IsTest", "yes", "no"]}"#, "yes"),
        (r#"{"Fn::If": ["IsFar", "yes", "no"]}"#, "no"),
        (r#"{"Fn::FindInMap": ["Limits", {"Ref": "Stage"}, "Most"]}"#, "5"),
        (r#"{"Fn::ToJsonString": {"a": {"Ref": "Stage"}, "b": {"Ref": "AWS::NoValue"}}}"#, r#"{"a":"test"}"#),
        (
            r#"{"Fn::GetAtt": ["Charge7A1B", "Arn"]}"#,
            "arn:aws:lambda:eu-west-1:111122223333:function:Charge7A1B",
        ),
        (r#"{"Fn::GetAtt": "Named.Arn"}"#, "arn:aws:lambda:eu-west-1:111122223333:function:test-charge"),
        (r#"{"Ref": "NamedVersion"}"#, "arn:aws:lambda:eu-west-1:111122223333:function:test-charge"),
        (r#"{"Ref": "Queue"}"#, "https://sqs.eu-west-1.amazonaws.com/111122223333/Queue"),
        (r#"{"Ref": "Topic"}"#, "arn:aws:sns:eu-west-1:111122223333:news"),
        (r#"{"Fn::GetAtt": ["Table", "Arn"]}"#, "arn:aws:dynamodb:eu-west-1:111122223333:table/Table"),
        (r#"{"Fn::Sub": "${Files} ${Files.Arn}"}"#, "files arn:aws:s3:::files"),
        (r#"{"Ref": "Child"}"#, "arn:aws:states:eu-west-1:111122223333:stateMachine:child"),
        (r#"{"Ref": "Resize"}"#, "arn:aws:states:eu-west-1:111122223333:activity:resize"),
        (r#"{"Fn::GetAtt": ["Role", "Arn"]}"#, "arn:aws:iam::111122223333:role/Role"),
    ] {
        assert_eq!(resolved(expression, &[]).as_deref(), Ok(expected), "{expression}");
    }
}

#[test]
fn what_cannot_be_known_is_named_and_can_be_given() {
    for (expression, path, name) in [
        (r#"{"Ref": "Secret"}"#, "Ref", "Secret"),
        (r#"{"Ref": "Image"}"#, "Ref", "Image"),
        (r#"{"Ref": "Nothing"}"#, "Ref", "Nothing"),
        (r#"{"Ref": "Odd"}"#, "Ref", "Odd"),
        (r#"{"Fn::GetAtt": ["Odd", "Endpoint"]}"#, "Fn::GetAtt", "Odd.Endpoint"),
        (r#"{"Fn::Sub": "${Table.StreamArn}"}"#, "Fn::Sub", "Table.StreamArn"),
        (r#"{"Fn::ImportValue": {"Fn::Sub": "shared-${Stage}"}}"#, "Fn::ImportValue", "shared-test"),
    ] {
        let problem = resolved(expression, &[]).unwrap_err();
        let place = format!("Resources/Machine/Properties/DefinitionString/{path}");
        assert!(problem.starts_with(&place), "{problem}");
        assert!(problem.ends_with(&format!("give its value with --parameter '{name}=VALUE'")), "{problem}");
        assert_eq!(resolved(expression, &[(name, "given")]).as_deref(), Ok("given"), "{expression}");
    }
    assert_eq!(resolved(r#"{"Ref": "Stage"}"#, &[("Stage", "live")]).as_deref(), Ok("live"));
    let elsewhere =
        [("AWS::AccountId", "999988887777"), ("AWS::Region", "cn-north-1"), ("AWS::Partition", "aws-cn")];
    let topic = "arn:aws-cn:sns:cn-north-1:999988887777:news";
    assert_eq!(resolved(r#"{"Ref": "Topic"}"#, &elsewhere).as_deref(), Ok(topic));
}

#[test]
fn what_makes_no_sense_is_refused_at_its_place() {
    for (expression, expected) in [
        (r#"{"Ref": "One"}"#, "it leads back to itself"),
        (r#"{"Fn::If": ["Round", "a", "b"]}"#, "Conditions/Round: it leads back to itself"),
        (r#"{"Fn::If": ["None", "a", "b"]}"#, "Conditions has no \"None\""),
        (r#"{"Fn::If": ["IsTest", "a"]}"#, "2 values are given; give 3"),
        (r#"{"Fn::Select": [9, ["a"]]}"#, "there is no item 9 in a list of 1"),
        (r#"{"Fn::FindInMap": ["Limits", "live", "Most"]}"#, "Mappings has no Limits/live/Most"),
        (r#"{"Fn::GetAZs": ""}"#, "Fn::GetAZs is not known here; write its value out"),
        (r#"{"Fn::Join": ["", "text"]}"#, "\"text\" is no list"),
        (r#"["a"]"#, "[\"a\"] is no text"),
        (r#"{"Ref": "AWS::NoValue"}"#, "it has no definition"),
    ] {
        let problem = resolved(expression, &[]).unwrap_err();
        assert!(problem.contains(expected), "{expression}: {problem}");
    }
}

const YAML: &str = r#"
AWSTemplateFormatVersion: "2010-09-09"
Conditions:
  Never: !Equals [a, b]
Resources:
  Orders:
    Type: AWS::StepFunctions::StateMachine
    Properties:
      StateMachineName: !Sub "orders-${AWS::Region}"
      StateMachineType: EXPRESS
      RoleArn: !ImportValue roles
      DefinitionSubstitutions:
        ChargeArn: !GetAtt Charge.Arn
        Most: 3
      Definition:
        StartAt: Charge
        States:
          Charge:
            Type: Task
            Resource: "${ChargeArn}"
            Parameters: {most: "${Most}", other: "${Other}"}
            End: true
  Plain:
    Type: AWS::StepFunctions::StateMachine
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/plain
      DefinitionSubstitutions: {Arn: !Ref Orders}
      DefinitionString: '{"a": "${Arn}"}'
  Filed:
    Type: AWS::StepFunctions::StateMachine
    Properties:
      DefinitionS3Location: {Bucket: b, Key: 0a1b.json}
      DefinitionSubstitutions: {Word: put in}
  Local:
    Type: AWS::Serverless::StateMachine
    Properties: {Name: local, Type: STANDARD, Role: !GetAtt Charge.Arn, DefinitionUri: machines/local.json}
  Gone:
    Type: AWS::StepFunctions::StateMachine
    Condition: Never
  Worker:
    Type: AWS::StepFunctions::Activity
    Properties: {Name: worker}
  Charge:
    Type: AWS::Lambda::Function
"#;

#[test]
fn machines_and_activities_are_found_with_all_that_is_said_of_them() {
    let beside = |name: &str| match name {
        "asset.0a1b.json" => Some("{\"b\": \"${Word}\"}".to_owned()),
        "machines/local.json" => Some("{}".to_owned()),
        _ => None,
    };
    let document = template("t.yaml", YAML);
    let found = Found::read(&document, &given(&[]), &beside).unwrap();
    assert_eq!(found.activities, ["worker"]);
    let told: Vec<_> = found
        .machines
        .iter()
        .map(|machine| (&*machine.name, machine.kind, &*machine.definition.text))
        .collect();
    let charge = r#"{"StartAt":"Charge","States":{"Charge":{"Type":"Task","Resource":"arn:aws:lambda:eu-west-1:111122223333:function:Charge","Parameters":{"most":"3","other":"${Other}"},"End":true}}}"#;
    let orders = "arn:aws:states:eu-west-1:111122223333:stateMachine:orders-eu-west-1";
    let expected = [
        ("orders-eu-west-1", MachineType::Express, charge),
        ("Plain", MachineType::Standard, &*format!("{{\"a\": \"{orders}\"}}")),
        ("Filed", MachineType::Standard, "{\"b\": \"put in\"}"),
        ("local", MachineType::Standard, "{}"),
    ];
    assert_eq!(told, expected);
    assert_eq!(found.machines[0].definition.name, "cdk.out/Orders.template.json#Orders");
    let role = |at: usize| found.machines[at].role.clone();
    assert!(role(0).unwrap_err().to_string().contains("--parameter 'roles=VALUE'"));
    assert_eq!(role(1), Ok(Some("arn:aws:iam::111122223333:role/plain".to_owned())));
    assert_eq!(role(2), Ok(None));
    let problems = Found::read(&document, &given(&[]), &|_| None).unwrap_err();
    let places: Vec<&str> = problems.iter().map(|problem| &*problem.path).collect();
    assert_eq!(
        places,
        ["Resources/Filed/Properties/DefinitionS3Location", "Resources/Local/Properties/DefinitionUri"]
    );
}

#[test]
fn only_what_has_resources_is_a_template() {
    for (text, is_one) in [
        (r#"{"Resources": {"A": {"Type": "AWS::SQS::Queue"}}}"#, true),
        (r#"{"Resources": ["AWS::SQS::Queue"]}"#, false),
        (r#"{"StartAt": "A", "States": {}, "Comment": "AWS::", "Resources": {}}"#, false),
        (r#"{"StartAt": "A", "States": {}}"#, false),
        ("not even JSON", false),
    ] {
        assert_eq!(parse(&Source::new("t.json", text)).unwrap().is_some(), is_one, "{text}");
    }
    let broken = parse(&Source::new("t.yaml", "A: AWS::X\nB: !Sub [")).unwrap_err().to_string();
    assert!(broken.starts_with("t.yaml:"), "{broken}");
}
