//! Memory is bounded in bytes: starts with large inputs wait and are refused in time, and what was accepted survives a
//! restart under the limit that the process lives with.

mod common;

use common::server::{Server, kill};
use common::{Ended, Scene};
use std::process::Child;

/// Waits until the file `go` is there.
const SLOW: &str =
    "echo $PERDURA_IDEMPOTENCY_KEY >> keys; while [ ! -e go ]; do sleep 0.05; done; echo '\"done\"'";
/// How many bytes executions may weigh: a few of those here.
const BYTES_MAX: &str = "20000000";

/// Starts many at once; those that were.
fn accepted(scene: &Scene) -> Vec<String> {
    let names = (0..12).map(|number| format!("large-{number}"));
    let start = |name: String| {
        let arguments = ["start", "m", "--name", &name, "--input", "@large.json", "--data", "data"];
        (scene.start(&arguments), name)
    };
    let starting: Vec<_> = names.map(start).collect();
    let was_started = |(child, name): (Child, String)| {
        let ended = Ended::from(child.wait_with_output().expect("it ends"));
        let is_refused = ended.stderr.contains("there is no room in memory now");
        assert!(ended.code == Some(0) || is_refused, "{ended:?}");
        (ended.code == Some(0)).then_some(name)
    };
    starting.into_iter().filter_map(was_started).collect()
}

#[test]
fn large_inputs_fill_memory_to_its_bound_and_a_restart_takes_up_all_that_was_accepted() {
    let settings = format!("[memory]\nbytes_max = {BYTES_MAX}\n");
    let scene = Scene::new("memory-bound").function(SLOW, &settings);
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    std::fs::write(scene.path("large.json"), large).expect("a file can be written");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json", "--name", "m"]);
    let accepted = accepted(&scene);
    assert!((2..12).contains(&accepted.len()), "{accepted:?}");
    kill(server.id(), "-KILL");
    drop(server);
    // Far less room than before: not even two of them.
    let settings = "[functions.f]\ncommand = ['sh', 'f.sh']\n[memory]\nbytes_max = 5000000\n";
    std::fs::write(scene.path("perdura.toml"), settings).expect("a file can be written");
    let _server = Server::start_by(&scene, &["prlimit", "--as=2000000000"], &[]);
    std::fs::write(scene.path("go"), "").expect("a file can be written");
    for name in &accepted {
        scene.until_status(name, "SUCCEEDED");
    }
    let mut keys = scene.lines("keys");
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), accepted.len(), "each under one key: {keys:?}");
}
