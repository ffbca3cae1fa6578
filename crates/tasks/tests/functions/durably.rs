//! Functions called by a runtime: what is called off ends at the receiver.

use crate::receiver::{Receiver, Reply};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{Fault, Input, Status, Timestamp};
use perdura_runtime::{Options, RealWorld, Runtime, Start, Steps};
use perdura_store::{MemoryStore, NewMachine, Store};
use perdura_tasks::connection::Connections;
use perdura_tasks::settings::Tables;
use perdura_tasks::{Settings, Tasks};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A runtime, and a start of a machine that calls `f` once.
fn stage(text: &str) -> (Runtime, Start) {
    let tables: Tables = toml::from_str(text).expect("TOML");
    let settings = Settings::check(tables, Path::new("/")).expect("right");
    let tasks = Tasks::new(settings, Arc::<Connections>::default(), Handle::current()).expect("TLS");
    let world = RealWorld::new(Steps::default(), Box::new(tasks), Handle::current());
    let store = MemoryStore::new(1);
    let opener = Box::new(move || Ok(Box::new(store.clone()) as Box<dyn Store>));
    let runtime = Runtime::open(opener, Arc::new(world), &Options::default()).expect("memory opens");
    let definition = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
        "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}"#;
    let machine = read(&Source::new("test", definition), &ReadOptions::default()).machine.expect("valid");
    let new = NewMachine {
        name: "test".into(),
        kind: MachineType::Standard,
        definition: definition.into(),
        role_arn: None,
        settings: None,
        at: Timestamp(0),
    };
    let revision = runtime.door().deploy(&new, Arc::new(machine)).expect("deployed").revision;
    let start = Start::new(revision, Payload::default());
    (runtime, start)
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_an_execution_drops_the_connection_of_its_call() {
    let mut receiver = Receiver::that(Reply::Silence).await;
    let (runtime, start) = stage(&format!("[functions.f]\nurl = 'http://{}/'", receiver.address));
    let door = runtime.door().clone();
    let id = door.start(start).await.expect("started").execution;
    receiver.requests.recv().await.expect("it was called");
    door.input(id, Input::Stop { fault: Fault::new("Enough", "") }).await.expect("stopped");
    receiver.gone.recv().await.expect("the caller hung up");
    assert_eq!(door.ending(id).await.expect("ended").status, Status::Aborted);
}
