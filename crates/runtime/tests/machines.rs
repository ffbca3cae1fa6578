//! Machines that change: which definition is run, under which role, and through which version or alias.

mod stage;

use perdura_engine::asl::json::{Payload, Value};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{Input, Policy, Status, Timestamp};
use perdura_runtime::card::{AliasChange, Card, Most, Route};
use perdura_runtime::{Runtime, Start, StepError, Steps, Via};
use perdura_store::{Filter, Head, MachineChange, NewRevision, Revised};
use stage::{Stage, json, start};
use std::sync::Arc;

fn pass(result: &str) -> String {
    format!(r#"{{"StartAt": "P", "States": {{"P": {{"Type": "Pass", "Result": {result}, "End": true}}}}}}"#)
}

fn call(machine: &str) -> String {
    format!(
        r#"{{"StartAt": "Call", "States": {{"Call": {{"Type": "Task", "End": true,
            "Resource": "arn:aws:states:::states:startExecution.sync:2",
            "Parameters": {{"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:{machine}"}}}}}}}}"#
    )
}

fn waiting() -> Steps {
    Steps::default().with("work", Policy::default(), |_| std::future::pending())
}

const WORK: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Task", "End": true,
    "Resource": "arn:perdura:step:::work"}}}"#;

/// Gives a machine a definition, or takes the machine away.
fn revise(runtime: &Runtime, name: &str, seen: Option<u64>, definition: Option<&str>) -> Revised {
    let revision = definition.map(|definition| NewRevision {
        kind: MachineType::Standard,
        definition: definition.into(),
        role_arn: Some("arn:aws:iam::123456789012:role/its-own".into()),
        settings: None,
        at: Timestamp(5),
    });
    let machine = definition.map(|definition| {
        Arc::new(read(&Source::new(name, definition), &ReadOptions::default()).machine.unwrap())
    });
    let card = |_| definition.map(|_| Arc::from("{}"));
    runtime.door().revise(&MachineChange { name: name.into(), seen, revision, card: &card }, machine).unwrap()
}

/// Keeps another card of a machine.
fn keep_card(runtime: &Runtime, seen: &Head, card: &Card) -> Revised {
    let card = |_| Some(Arc::from(serde_json::to_string(card).unwrap()));
    let change =
        MachineChange { name: seen.name.clone(), seen: Some(seen.changed), revision: None, card: &card };
    runtime.door().revise(&change, None).unwrap()
}

fn made(runtime: &Runtime, name: &str, definition: &str) -> Head {
    match revise(runtime, name, None, Some(definition)) {
        Revised::Stands(head) => head,
        other => panic!("{other:?}"),
    }
}

fn output(stage: &Stage, runtime: &Runtime, start: Start) -> String {
    let (_, ending) = stage.tokio.block_on(runtime.door().run(start)).unwrap();
    ending.unwrap().output.unwrap().to_string()
}

#[test]
fn every_definition_of_a_machine_can_be_run() {
    let stage = Stage::new();
    let runtime = stage.open(Steps::default());
    let first = made(&runtime, "test", &pass("1"));
    let Revised::Stands(second) = revise(&runtime, "test", Some(first.changed), Some(&pass("2"))) else {
        panic!("it was as it was seen")
    };
    drop(runtime);
    let runtime = stage.open(Steps::default());
    for (head, expected) in [(&first, "1"), (&second, "2")] {
        assert_eq!(output(&stage, &runtime, start(head.revision, None, "{}")), expected);
    }
    assert_eq!(revise(&runtime, "test", Some(second.changed), None), Revised::Gone);
    assert_eq!(
        output(&stage, &runtime, start(first.revision, None, "{}")),
        "1",
        "what was decided before counts"
    );
}

#[test]
fn an_execution_remembers_its_role_its_version_and_its_alias() {
    let stage = Stage::new();
    let runtime = stage.open(Steps::default());
    let head = made(&runtime, "test", &pass("1"));
    let via = Via {
        version: Some(3),
        alias: Some("PROD".into()),
        trace_header: Some("Root=1-67891233-abcdef".into()),
        ..Via::default()
    };
    let (started, _) =
        stage.tokio.block_on(runtime.door().run(Start { via, ..start(head.revision, None, "{}") })).unwrap();
    drop(runtime);
    let runtime = stage.open(Steps::default());
    let by = |filter: Filter| runtime.door().read(|reader| reader.list(&filter, None, 9)).unwrap().rows;
    let machine = Some(head.machine);
    for filter in [
        Filter { machine, version: Some(3), ..Filter::default() },
        Filter { machine, alias: Some("PROD".into()), ..Filter::default() },
    ] {
        let found = by(filter);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].version, found[0].alias.as_deref()), (Some(3), Some("PROD")));
    }
    assert_eq!(by(Filter { machine, version: Some(2), ..Filter::default() }), []);
    let turns = runtime.door().read(|reader| reader.turns(started.execution, 1, 1 << 20)).unwrap();
    let first = perdura_store::record::TurnBody::read(&turns[0].body).unwrap();
    let identity = first.begun.unwrap().identity;
    assert_eq!(identity.trace_header.as_deref(), Some("Root=1-67891233-abcdef"));
    let shown = first.turn.events().next().unwrap().to_api(&identity);
    let details = shown.get("executionStartedEventDetails").unwrap();
    for (name, arn) in [
        ("roleArn", "arn:aws:iam::123456789012:role/its-own"),
        ("stateMachineVersionArn", "arn:aws:states:us-east-1:123456789012:stateMachine:test:3"),
        ("stateMachineAliasArn", "arn:aws:states:us-east-1:123456789012:stateMachine:test:PROD"),
    ] {
        assert_eq!(details.get(name).and_then(Value::as_str), Some(arn));
    }
}

#[test]
fn a_step_starts_what_counts_or_what_a_version_or_an_alias_stands_for_and_nothing_of_a_machine_that_goes() {
    let stage = Stage::new();
    let runtime = stage.open(Steps::default());
    let first = made(&runtime, "child", &pass(r#""old""#));
    let Revised::Stands(second) = revise(&runtime, "child", Some(first.changed), Some(&pass(r#""new""#)))
    else {
        panic!("it was as it was seen")
    };
    let mut card = Card::default();
    let most = Most { versions: 1, aliases: 1 };
    card.publish((first.revision, None), None, (None, Timestamp(5)), most).unwrap();
    let routes = vec![Route { version: 1, weight: 100 }];
    let change = AliasChange { description: None, routes: Some(routes) };
    card.create_alias("PROD", change, Timestamp(5), most).unwrap();
    let Revised::Stands(third) = keep_card(&runtime, &second, &card) else { panic!("it was as it was seen") };
    for (machine, expected) in [("child", r#""new""#), ("child:1", r#""old""#), ("child:PROD", r#""old""#)] {
        let revision = Stage::deploy(&runtime, &call(machine));
        let output = json(&output(&stage, &runtime, start(revision, None, "{}")));
        assert_eq!(
            output.value().get("Output").map(ToString::to_string).as_deref(),
            Some(expected),
            "{machine}"
        );
    }
    let filter = Filter { machine: Some(first.machine), alias: Some("PROD".into()), ..Filter::default() };
    let by_alias = runtime.door().read(|reader| reader.list(&filter, None, 9)).unwrap().rows;
    assert_eq!(by_alias.iter().map(|row| row.version).collect::<Vec<_>>(), [Some(1)]);
    let child = by_alias[0].execution;
    let turns = runtime.door().read(|reader| reader.turns(child, 1, 1 << 20)).unwrap();
    let identity = perdura_store::record::TurnBody::read(&turns[0].body).unwrap().begun.unwrap().identity;
    assert_eq!(&*identity.role_arn, "arn:aws:iam::123456789012:role/its-own", "not its parent's");

    let revision = Stage::deploy(&runtime, &call("child:TEST"));
    let (_, ending) = stage.tokio.block_on(runtime.door().run(start(revision, None, "{}"))).unwrap();
    let error = ending.unwrap().fault.error;
    assert_eq!(error.as_deref(), Some("StepFunctions.StateMachineDoesNotExistException"));

    card.deleting = true;
    keep_card(&runtime, &third, &card);
    for machine in ["child", "child:1", "child:PROD"] {
        let revision = Stage::deploy(&runtime, &call(machine));
        let (_, ending) = stage.tokio.block_on(runtime.door().run(start(revision, None, "{}"))).unwrap();
        let error = ending.unwrap().fault.error;
        assert_eq!(error.as_deref(), Some("StepFunctions.StateMachineDeletingException"), "{machine}");
    }
}

#[test]
fn what_was_just_started_is_seen_at_once() {
    let stage = Stage::new();
    let runtime = stage.open(waiting());
    let (revision, other) = (Stage::deploy(&runtime, WORK), Stage::deploy_as("other", &runtime, WORK));
    let door = runtime.door().clone();
    let machine = door.read(|reader| reader.head("test")).unwrap().unwrap().machine;
    let of_machine = Filter { machine: Some(machine), ..Filter::default() };
    stage.tokio.block_on(async {
        let first = door.start(start(revision, Some("a"), "{}")).await.unwrap();
        let second = door.start(start(revision, None, "{}")).await.unwrap();
        door.start(start(other, None, "{}")).await.unwrap();
        let mut ids = [second.execution, first.execution];
        ids.sort_unstable();
        let mut young = door.young(&of_machine, None, 10).await.unwrap();
        young.sort_by_key(|summary| summary.execution);
        assert_eq!(young.iter().map(|summary| summary.execution).collect::<Vec<_>>(), ids);
        assert!(
            young.iter().all(|summary| summary.status == Status::Running && summary.revision == revision)
        );
        let first = door.young(&of_machine, None, 1).await.unwrap();
        let place = (first[0].started_at, first[0].execution);
        let mut pages = [first, door.young(&of_machine, Some(place), 1).await.unwrap()].concat();
        pages.sort_by_key(|summary| summary.execution);
        assert_eq!(pages, young, "page by page it is the same");
        assert_eq!(door.list(&Filter::default(), None, 10).await.unwrap().rows.len(), 3, "of all machines");
        let ended = Filter { status: Some(Status::Succeeded), ..Filter::default() };
        assert_eq!(door.list(&ended, None, 10).await.unwrap().rows, []);
        assert_eq!(door.unlisted().await.unwrap(), 3);
    });
}

#[test]
fn the_same_token_redrives_once_also_after_a_restart() {
    let failing = || {
        Steps::default().with("work", Policy::default(), |_| async {
            Err::<Payload, _>(StepError::refused("Broken", "always"))
        })
    };
    let stage = Stage::new();
    let mut runtime = stage.open(failing());
    let revision = Stage::deploy(&runtime, WORK);
    let started = stage.begin(runtime.door(), revision, "{}");
    stage.ending(runtime.door(), &started);
    let redrive = |runtime: &Runtime, token: &str| {
        let input = Input::RedriveOnce { token: token.into() };
        let taken = stage.tokio.block_on(runtime.door().input(started.execution, input)).unwrap();
        stage.ending(runtime.door(), &started);
        taken
    };
    let first = redrive(&runtime, "t-1");
    assert!(first.ignored.is_none() && first.redriven_at.is_some());
    for _ in 0..2 {
        let again = redrive(&runtime, "t-1");
        assert_eq!((again.ignored, again.redriven_at), (None, first.redriven_at));
        drop(runtime);
        runtime = stage.open(failing());
    }
    redrive(&runtime, "t-2");
    let row = runtime.door().read(|reader| reader.row(started.execution)).unwrap().unwrap().0;
    assert_eq!(row.redrives, 2);
    assert!(row.redriven_at >= first.redriven_at);
}
