//! Ctrl-C: the execution is stopped, and what it had started is ended with it.

mod common;

use common::{Ended, Scene};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};

/// Reads stderr until a line has these words in it.
fn until(child: &mut Child, words: &str) -> BufReader<std::process::ChildStderr> {
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(
            stderr.read_line(&mut line).expect("stderr can be read"),
            0,
            "perdura ended before {words:?}"
        );
    }
    stderr
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

fn ended(mut child: Child, mut stderr: impl Read) -> Ended {
    let (mut said, mut output) = (String::new(), String::new());
    stderr.read_to_string(&mut said).expect("stderr can be read");
    child.stdout.take().expect("stdout is a pipe").read_to_string(&mut output).expect("stdout can be read");
    Ended { code: child.wait().expect("it ends").code(), stdout: output, stderr: said }
}

#[test]
fn an_interrupt_stops_the_execution_and_ends_its_functions_with_their_children() {
    // All processes of the function hold the pipe open: that it closes shows that none is left.
    let script = "exec 3> alive; echo up >&3; (sleep 20; echo late >&3) & sleep 20";
    let scene = Scene::new("interrupt-function").function(script, "").pipe("alive");
    let mut child = scene.start(&["run", "m.asl.json"]);
    let stderr = until(&mut child, "Call  entered");
    let mut alive = BufReader::new(File::open(scene.path("alive")).expect("the function opens the pipe"));
    let mut line = String::new();
    alive.read_line(&mut line).expect("the function writes");
    assert_eq!(line, "up\n");
    signal(&child, "-INT");
    ended(child, stderr).fails(4, &["ABORTED after ", ": stopped by an interrupt"]);
    assert_eq!(alive.read_to_string(&mut line).expect("the pipe closes"), 0);
}

#[test]
fn waits_and_endless_loops_can_be_stopped() {
    let wait = r#"{"StartAt": "A", "States": {"A": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#;
    let endless = r#"{"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Choice",
        "Choices": [{"Variable": "$.stop", "IsPresent": true, "Next": "C"}], "Default": "A"}, "C": {"Type": "Succeed"}}}"#;
    for (name, machine, name_of_signal) in
        [("interrupt-wait", wait, "-TERM"), ("interrupt-loop", endless, "-INT")]
    {
        let scene = Scene::new(name).file("m.json", machine);
        let mut child = scene.start(&["run", "m.json"]);
        let stderr = until(&mut child, "A  entered");
        signal(&child, name_of_signal);
        ended(child, stderr).fails(4, &["ABORTED after "]);
    }
}
