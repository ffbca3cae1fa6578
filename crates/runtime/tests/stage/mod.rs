//! A runtime over a store in memory that outlives it.
#![allow(dead_code, reason = "each test file uses what it needs")]

use perdura_engine::Timestamp;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_runtime::{Door, Ending, Nowhere, Options, RealWorld, Runtime, Start, Started, Steps};
use perdura_store::{MemoryStore, NewMachine, RevisionId, Store};
use std::sync::Arc;

pub(crate) struct Stage {
    pub(crate) tokio: tokio::runtime::Runtime,
    pub(crate) store: MemoryStore,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        Self { tokio, store: MemoryStore::new(1) }
    }

    pub(crate) fn open(&self, steps: Steps) -> Runtime {
        self.open_with(steps, &Options::default())
    }

    pub(crate) fn open_with(&self, steps: Steps, options: &Options) -> Runtime {
        let store = self.store.clone();
        let world = RealWorld::new(steps, Box::new(Nowhere), self.tokio.handle().clone());
        let opener = Box::new(move || Ok(Box::new(store.clone()) as Box<dyn Store>));
        Runtime::open(opener, Arc::new(world), options).unwrap()
    }

    pub(crate) fn deploy(runtime: &Runtime, definition: &str) -> RevisionId {
        Self::deploy_as("test", runtime, definition)
    }

    pub(crate) fn deploy_as(name: &str, runtime: &Runtime, definition: &str) -> RevisionId {
        let reading = read(&Source::new(name, definition), &ReadOptions::default());
        let new = NewMachine {
            name: name.into(),
            kind: MachineType::Standard,
            definition: definition.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(0),
        };
        runtime.door().deploy(&new, Arc::new(reading.machine.unwrap())).unwrap().revision
    }

    /// Starts one and gives it time to come to its rest.
    pub(crate) fn begin(&self, door: &Door, revision: RevisionId, input: &str) -> Started {
        self.tokio.block_on(door.start(start(revision, None, input))).unwrap()
    }

    pub(crate) fn ending(&self, door: &Door, started: &Started) -> Ending {
        self.tokio.block_on(door.ending(started.execution)).unwrap()
    }
}

pub(crate) fn start(revision: RevisionId, name: Option<&str>, input: &str) -> Start {
    Start { name: name.map(Into::into), ..Start::new(revision, Payload::from_text(input).unwrap()) }
}

/// A payload of this JSON.
pub(crate) fn json(text: &str) -> Payload {
    Payload::from_text(text).unwrap()
}
