//! Where this machine lacks files, processes or memory for the moment, a call is put off, and the workflow does not see it.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver};
use common::server::{Server, wait_until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::sync::{Mutex, mpsc};

/// What the machine lacks for a while.
struct Lack {
    /// What the log says of it.
    says: &'static str,
    /// Starts a server in the scene that can be made to lack it.
    start: fn(&Scene) -> Server,
    begin: fn(&Scene, &Server),
    end: fn(&Scene, &Server),
}

const FILES: Lack = Lack {
    says: "Too many open files",
    start: |scene| Server::start(scene, &[]),
    begin: |_, server| limit_files(server, 3),
    end: |_, server| limit_files(server, MANY),
};

/// Processes and threads.
const PROCESSES: Lack = Lack {
    says: "Resource temporarily unavailable",
    start: |scene| {
        let by = as_somebody();
        for file in ["", "perdura.toml", "m.asl.json", "f.sh"].iter().filter(|_| !by.is_empty()) {
            std::os::unix::fs::chown(scene.path(file), Some(SOMEBODY), Some(SOMEBODY))
                .expect("root may do that");
        }
        Server::start_by(scene, &by.iter().map(|word| &**word).collect::<Vec<_>>(), &[])
    },
    begin: |scene, server| limit_processes(scene, server, 1),
    end: |scene, server| limit_processes(scene, server, MANY),
};

/// Memory for another process, of which the system says the same as where a fork finds none.
const MEMORY: Lack = Lack {
    says: "Cannot allocate memory",
    start: |scene| {
        std::fs::write(scene.path("spawn.c"), NO_MEMORY).expect("a file can be written");
        let compiled = scene.command_of("cc", &["-shared", "-fPIC", "-o", "spawn.so", "spawn.c"]).status();
        assert!(compiled.expect("cc is needed here: scripts/test installs it").success());
        Server::start_by(scene, &["sh", "-c", r#"LD_PRELOAD=./spawn.so exec "$0" "$@""#], &[])
    },
    begin: |scene, _| std::fs::write(scene.path("lack"), "").expect("a file can be written"),
    end: |scene, _| std::fs::remove_file(scene.path("lack")).expect("it is there"),
};

/// A number of a user that has nothing else.
const SOMEBODY: u32 = 54_321;
/// As many as the server needs.
const MANY: u64 = 1_000;

/// No process can be started while the file `lack` is there.
const NO_MEMORY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <unistd.h>
static int is_lacking(void) { return access("lack", F_OK) == 0; }
int posix_spawnp(pid_t *id, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *with, char *const arguments[], char *const environment[]) {
    int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                char *const[], char *const[]) = dlsym(RTLD_NEXT, "posix_spawnp");
    return is_lacking() ? ENOMEM : real(id, file, actions, with, arguments, environment);
}
pid_t fork(void) {
    pid_t (*real)(void) = dlsym(RTLD_NEXT, "fork");
    if (!is_lacking()) return real();
    errno = ENOMEM;
    return -1;
}
"#;

/// How many files the server may open from now on; those that are open stay so.
fn limit_files(server: &Server, most: u64) {
    let pid = Pid::from_raw(server.id().cast_signed()).expect("a process has a number");
    let limit = Rlimit { current: Some(most), maximum: Some(MANY) };
    prlimit(Some(pid), Resource::Nofile, limit).expect("the limit of one's own process can be set");
}

/// How many processes and threads its user may have from now on.
fn limit_processes(scene: &Scene, server: &Server, most: u64) {
    let (pid, limit) = (server.id().to_string(), format!("--nproc={most}:{MANY}"));
    let mut words = as_somebody();
    words.extend(["prlimit", "--pid", &pid, &limit].map(str::to_owned));
    let arguments: Vec<&str> = words[1..].iter().map(|word| &**word).collect();
    let set = scene.command_of(&words[0], &arguments).status();
    assert!(set.expect("util-linux is there").success());
}

/// How another user's program is started by root, who may have as many processes as it likes.
fn as_somebody() -> Vec<String> {
    if !rustix::process::getuid().is_root() {
        return Vec::new();
    }
    let id = SOMEBODY.to_string();
    ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"].map(str::to_owned).to_vec()
}

/// An execution whose second call comes when something lacks, and what it came to once it was there.
fn second_call_without(lack: &Lack, name: &str, second: &str, config: &str) {
    let (go, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let first = Receiver::start(move |_, _| {
        told.lock().expect("one at a time").recv().expect("the test goes on");
        Act::Answer(200, "{}".to_owned())
    });
    let machine = format!(
        r#"{{"StartAt": "First", "States": {{"First": {{"Type": "Task", "Resource": "arn:aws:states:::http:invoke",
            "Parameters": {{"ApiEndpoint": "{}", "Method": "POST"}}, "Next": "Second"}}, "Second": {second}}}}}"#,
        first.url("/")
    );
    let script = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; echo 1";
    let scene =
        Scene::new(name).file("m.asl.json", &machine).file("f.sh", script).file("perdura.toml", config);
    let server = (lack.start)(&scene);
    scene.one(&["deploy", "m.asl.json"]);
    let execution = scene.one(&["start", "m"])["id"].as_str().expect("an id").to_owned();
    first.until_seen(1);
    (lack.begin)(&scene, &server);
    go.send(()).expect("the receiver waits");
    wait_until("a call is put off", || scene.lines("serve.log").iter().any(|line| line.contains(lack.says)));
    (lack.end)(&scene, &server);
    let shown = scene.until(&["show", &execution], |shown| shown[0]["status"] != "RUNNING").remove(0);
    assert_eq!(shown["status"], "SUCCEEDED", "{shown}");
    let history = scene.on_data(&["history", &execution, "--json"]).stdout;
    assert!(!history.contains("Failed") && !history.contains(lack.says), "{history}");
    let metrics = server.get("/metrics");
    let put_off = metrics.lines().find_map(|line| line.strip_prefix("perdura_calls_put_off_total "));
    assert!(put_off.is_some_and(|count| count != "0"), "{metrics}");
    if second.contains(":function:") {
        assert_eq!(scene.lines("keys").len(), 1, "it was run once");
    }
}

#[test]
fn a_request_for_which_there_are_no_files_is_sent_when_there_are() {
    let second = Receiver::start(|_, _| Act::Answer(200, "{}".to_owned()));
    let state = format!(
        r#"{{"Type": "Task", "Resource": "arn:aws:states:::http:invoke", "End": true,
            "Parameters": {{"ApiEndpoint": "{}", "Method": "POST"}}}}"#,
        second.url("/")
    );
    second_call_without(&FILES, "not-now-http", &state, "");
    assert_eq!(second.seen().len(), 1);
}

/// A Task that is a local command.
const COMMAND: &str =
    r#"{"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "End": true}"#;
const CONFIG: &str = "[functions.f]\ncommand = ['sh', 'f.sh']\n";

#[test]
fn a_command_for_which_there_are_no_files_is_run_when_there_are() {
    second_call_without(&FILES, "not-now-command", COMMAND, CONFIG);
}

#[test]
fn a_command_for_which_there_are_no_processes_is_run_when_there_are() {
    second_call_without(&PROCESSES, "not-now-processes", COMMAND, CONFIG);
}

#[test]
fn a_command_for_which_there_is_no_memory_is_run_when_there_is() {
    second_call_without(&MEMORY, "not-now-memory", COMMAND, CONFIG);
}
