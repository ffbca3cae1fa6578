//! The data is its owner's alone, whatever the umask, and what is found open is closed.

mod common;

use common::Scene;
use common::server::Server;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

/// Every file of the folder, and the folder.
#[track_caller]
fn assert_closed(folder: &Path) {
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("it can be read").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

/// Under an umask that leaves all open.
const OPEN: [&str; 3] = ["sh", "-c", "umask 0; exec \"$0\" \"$@\""];

#[test]
fn new_data_a_backup_and_what_is_restored_are_their_owners_alone() {
    let scene = Scene::new("modes-new").file("pass.asl.json", PASS);
    let server = Server::start_by(&scene, &OPEN, &[]);
    scene.one(&["deploy", "pass.asl.json"]);
    scene.one(&["start", "pass", "--name", "n"]);
    assert_closed(&scene.path("data"));
    assert!(scene.path("data/control.sock").exists(), "the socket is among them");
    let open = |arguments: &[&str]| {
        let mut all = vec!["-c", OPEN[2], env!("CARGO_BIN_EXE_perdura")];
        all.extend(arguments);
        let ended: common::Ended = scene.command_of("sh", &all).output().expect("perdura runs").into();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    open(&["backup", "backup.db", "--data", "data"]);
    assert_eq!(mode(&scene.path("backup.db")), 0o600);
    open(&["restore", "backup.db", "--data", "again"]);
    assert_closed(&scene.path("again"));
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn data_that_is_open_to_others_is_closed_and_the_log_says_so() {
    let scene = Scene::new("modes-old").file("pass.asl.json", PASS);
    scene.one(&["deploy", "pass.asl.json"]);
    for (name, loose) in [("data", 0o755), ("data/perdura.db", 0o644), ("data/lock", 0o664)] {
        fs::set_permissions(scene.path(name), Permissions::from_mode(loose)).expect("a mode can be set");
    }
    let server = Server::start(&scene, &[]);
    assert_closed(&scene.path("data"));
    let log = fs::read_to_string(scene.path("serve.log")).expect("there is a log");
    for part in ["data/perdura.db", "644", "755", "its owner's alone now"] {
        assert!(log.contains(part), "the log lacks {part:?}:\n{log}");
    }
    assert_eq!(server.end("-TERM"), Some(0));
}
