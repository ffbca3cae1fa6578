//! Every verb and every refusal of both doors, in process and on a store in memory.
//!
//! What each verb does stands in a text file named after it: `actions/` has the Step Functions API, `commands/` what the
//! command line asks, with a server and without one, `doors/` what both do, and `tools/` what other programs ask for in
//! their order. `script.rs` says how such a file is written.

mod script;
mod stage;
mod v1;
mod workers;

use perdura_server::control::Request;
use script::run;
use stage::Mode;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of this test.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verbs").join(name)
}

macro_rules! scripts {
    ($folder:ident on $modes:expr; $($name:ident),* $(,)?) => {
        mod $folder {
            use super::*;

            /// Those that are run.
            pub(super) const ALL: &[&str] = &[$(stringify!($name)),*];

            $(#[test]
            #[allow(non_snake_case, reason = "it is named as the verb is")]
            fn $name() {
                run(&folder(stringify!($folder)).join(concat!(stringify!($name), ".txt")), $modes);
            })*
        }
    };
}

scripts! { actions on &[Mode::Served];
    CreateActivity, CreateStateMachine, CreateStateMachineAlias, DeleteActivity, DeleteStateMachine,
    DeleteStateMachineAlias, DeleteStateMachineVersion, DescribeActivity, DescribeExecution, DescribeMapRun,
    DescribeStateMachine, DescribeStateMachineAlias, DescribeStateMachineForExecution, GetActivityTask,
    GetExecutionHistory, ListActivities, ListExecutions, ListMapRuns, ListStateMachineAliases,
    ListStateMachineVersions, ListStateMachines, ListTagsForResource, PublishStateMachineVersion,
    RedriveExecution, SendTaskFailure, SendTaskHeartbeat, SendTaskSuccess, StartExecution, StartSyncExecution,
    StopExecution, TagResource, TestState, UntagResource, UpdateMapRun, UpdateStateMachine,
    UpdateStateMachineAlias, ValidateStateMachineDefinition,
}

scripts! { commands on &[Mode::Served, Mode::Alone];
    activities, audit, cleanup, compact, connections, createToken, deleteConnection, deploy, erase, eraseKey, fail, giveUp, heartbeat, history, left,
    ledger, list, pause, pauses, poll, putActivity, putConnection, redrive, resolve, resume, revokeToken, show, start, stats, stop, succeed,
    tokens, trace, turns, who,
}

// Where both doors do the same thing, what was done through one is seen through the other, and both refuse it.
scripts! { doors on &[Mode::Served];
    activities, delete, deploy, erase, find, history, list, redrive, start, stop, tokens,
}

// What other tools ask for, in their order.
scripts! { tools on &[Mode::Served];
    terraform,
}

/// What stands in a folder, without the ending.
fn files(name: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder(name)).expect("the folder is there");
    let stem = |path: PathBuf| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
    entries.filter_map(|entry| stem(entry.expect("it can be read").path())).collect()
}

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_action_has_its_file_and_every_file_is_run() {
    let known = set(perdura_server::sfn::actions());
    assert_eq!(files("actions"), known);
    assert_eq!(set(actions::ALL.iter().copied()), known);
}

#[test]
fn every_file_of_the_doors_and_of_tools_is_run() {
    assert_eq!(files("doors"), set(doors::ALL.iter().copied()));
    assert_eq!(files("tools"), set(tools::ALL.iter().copied()));
}

#[test]
fn every_command_has_its_file_and_every_file_is_run() {
    // Only serde knows all names of the requests, and tells them to whoever uses none of them.
    let told = serde_json::from_str::<Request>(r#"{"no such": {}}"#).expect_err("it is none").to_string();
    let known = set(told.split('`').skip(3).step_by(2));
    assert_eq!(files("commands"), known);
    assert_eq!(set(commands::ALL.iter().copied()), known);
}

/// The codes of the service's model, as AWS lists them.
const CODES: [&str; 33] = [
    "ActivityAlreadyExists",
    "ActivityDoesNotExist",
    "ActivityLimitExceeded",
    "ActivityWorkerLimitExceeded",
    "ConflictException",
    "ExecutionAlreadyExists",
    "ExecutionDoesNotExist",
    "ExecutionLimitExceeded",
    "ExecutionNotRedrivable",
    "InvalidArn",
    "InvalidDefinition",
    "InvalidEncryptionConfiguration",
    "InvalidExecutionInput",
    "InvalidLoggingConfiguration",
    "InvalidName",
    "InvalidOutput",
    "InvalidToken",
    "InvalidTracingConfiguration",
    "KmsAccessDeniedException",
    "KmsInvalidStateException",
    "KmsThrottlingException",
    "MissingRequiredParameter",
    "ResourceNotFound",
    "ServiceQuotaExceededException",
    "StateMachineAlreadyExists",
    "StateMachineDeleting",
    "StateMachineDoesNotExist",
    "StateMachineLimitExceeded",
    "StateMachineTypeNotSupported",
    "TaskDoesNotExist",
    "TaskTimedOut",
    "TooManyTags",
    "ValidationException",
];

#[test]
fn every_code_of_the_model_is_answered_in_some_case() {
    let texts = files("actions").into_iter().map(|name| {
        fs::read_to_string(folder("actions").join(format!("{name}.txt"))).expect("it can be read")
    });
    let texts: String = texts.collect();
    let told: BTreeSet<&str> = texts
        .lines()
        .filter_map(|line| line.strip_prefix("! ")?.split(':').next())
        // The quota of workers needs several who wait at once.
        .chain(["ActivityWorkerLimitExceeded"])
        .collect();
    let missing: Vec<_> = CODES.iter().filter(|code| !told.contains(*code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
