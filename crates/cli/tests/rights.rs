//! Who may do what: every operation of the table for every role, for tokens that count for nobody, and for a token that is
//! bound to machines.

mod common;

use common::Scene;
use common::server::{Server, call, wait_until};
use perdura_server::sfn::actions;
use perdura_server::v1::table::{Mode, OPERATIONS, Of, Operation, Reads};
use perdura_server::who::Role;
use perdura_sigv4::{Credentials, Scope, Secret, Signable, sign};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};

const KEY: &str = "0193a5b2-7c7e-7d31-8a52-0c5b1e0f9d44";

/// Asks with this token; status, code and the whole body.
fn ask(server: &Server, token: &str, operation: &Operation, path: &str, body: &str) -> (u16, Value) {
    let (method, length) = (operation.method.name(), body.len());
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Idempotency-Key: {KEY}\r\nPrefer: wait=0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut answer = BufReader::new(server.sent(request.as_bytes()));
    let (mut status, mut length) = (None, None);
    loop {
        let mut line = String::new();
        answer.read_line(&mut line).expect("an answer can be read");
        let line = line.trim_end().to_ascii_lowercase();
        match (line.strip_prefix("http/1.1 "), line.strip_prefix("content-length: ")) {
            (Some(line), _) => status = line.split(' ').next().and_then(|status| status.parse().ok()),
            (_, Some(given)) => length = given.parse().ok(),
            (None, None) if line.is_empty() => break,
            (None, None) => {}
        }
    }
    // A stream has no length, and no end.
    let mut body = vec![0; length.unwrap_or(0)];
    answer.read_exact(&mut body).expect("an answer has a body");
    (
        status.unwrap_or_else(|| panic!("{path} is not answered")),
        serde_json::from_slice(&body).unwrap_or_default(),
    )
}

fn body(operation: &Operation) -> &'static str {
    match operation.reads {
        Reads::Nothing => "",
        Reads::Members(_) | Reads::Definition => "{}",
    }
}

fn made(scene: &Scene, name: &str, more: &[&str]) -> (String, String) {
    let made = scene.one(&[&["token", "create", name, "--role"], more].concat());
    let text = |member: &str| made[member].as_str().expect("a text").to_owned();
    (text("id"), text("token"))
}

#[test]
fn each_role_opens_the_operations_that_need_it_or_less_and_no_other_token_opens_any() {
    let scene = Scene::new("rights-roles");
    let server = Server::start(&scene, &[]);
    let elsewhere = Scene::new("rights-elsewhere");
    let (_, foreign) = made(&elsewhere, "boss", &["admin"]);
    let (_, expired) = made(&scene, "expired", &["admin", "--ends", "1ms"]);
    let (id, revoked) = made(&scene, "revoked", &["admin"]);
    scene.one(&["token", "revoke", &id]);
    let roles = Role::ALL.map(|role| (role, made(&scene, role.name(), &[role.name()]).1));
    let (_, admin) = &roles[3];
    let nobody = [&foreign, &expired, &revoked, &admin[..admin.len() - 1], &admin.to_uppercase(), "", "pdr_"];
    for operation in OPERATIONS {
        let path = operation.path.replace(['{', '}'], "");
        for (role, token) in &roles {
            let (status, told) = ask(&server, token, operation, &path, body(operation));
            let is_refused = status == 403 && told["code"] == "forbidden";
            assert_eq!(
                is_refused,
                *role < operation.role,
                "{} as {}: {status} {told}",
                operation.name,
                role.name()
            );
            assert!(status != 401 && status < 500, "{} as {}: {status} {told}", operation.name, role.name());
        }
        for token in nobody {
            let (status, told) = ask(&server, token, operation, &path, body(operation));
            assert_eq!(
                (status, &told["code"]),
                (401, &"notAuthenticated".into()),
                "{} {token}",
                operation.name
            );
        }
    }
}

#[test]
fn each_post_says_what_its_key_promises_and_each_operation_which_machine_it_concerns() {
    for operation in OPERATIONS {
        let is_post = operation.method.name() == "POST";
        assert_eq!(operation.mode.is_some(), is_post, "{}", operation.name);
        let names = |part: &str| operation.path.contains(part);
        let by_path =
            [("{machine}", Of::Machine), ("{execution}", Of::Execution), ("{activity}", Of::Activity)];
        for (part, of) in by_path {
            assert_eq!(names(part), operation.of == of, "{}", operation.name);
        }
        let reads = matches!(operation.of, Of::Nothing) && operation.role > Role::Read;
        assert!(!reads, "{} changes something and concerns no machine", operation.name);
        assert!(operation.role > Role::Read || !is_post || operation.mode == Some(Mode::Exempt));
    }
}

/// A machine whose step waits for a worker of this activity.
fn machine(activity: &str) -> String {
    let arn = format!("arn:aws:states:us-east-1:123456789012:activity:{activity}");
    json!({"StartAt": "T", "States": {"T": {"Type": "Task", "Resource": arn, "End": true}}}).to_string()
}

#[test]
fn what_is_of_other_machines_is_not_there_for_a_token_that_is_bound_to_some() {
    let scene =
        Scene::new("rights-bound").file("other.json", &machine("jobs")).file("own.json", &machine("pays"));
    let server = Server::start(&scene, &[]);
    let find = |name: &str| OPERATIONS.iter().find(|one| one.name == name).expect("it is in the table");
    let (_, boss) = made(&scene, "boss", &["admin"]);
    let (_, bound) = made(&scene, "bound", &["admin", "--machines", "pay-"]);
    let poll = |activity: &str| {
        let path = format!("/v1/activities/{activity}/poll");
        let mut task = Value::Null;
        wait_until("there is a task", || {
            task = ask(&server, &boss, find("pollActivity"), &path, "{}").1;
            task["token"].is_string()
        });
        task
    };
    let (mut ids, mut tasks) = (Vec::new(), Vec::new());
    for (name, file, activity) in [("other", "other.json", "jobs"), ("pay-a", "own.json", "pays")] {
        scene.one(&["deploy", file, "--name", name]);
        ids.push(scene.one(&["start", name, "--name", "n"])["id"].as_str().expect("an id").to_owned());
        tasks.push(poll(activity));
    }
    for operation in OPERATIONS {
        let name = operation.name;
        for (at, machine, activity, is_own) in [(0, "other", "jobs", false), (1, "pay-a", "pays", true)] {
            let key = tasks[at]["key"].as_str().expect("a key");
            let path = operation.path.replace("{machine}", machine).replace("{execution}", &ids[at]);
            let path = path
                .replace("{activity}", activity)
                .replace("{key}", &key.replace('#', "%23"))
                .replace(['{', '}'], "");
            let asked = match operation.of {
                Of::Start => json!({ "machine": format!("{machine}:1") }).to_string(),
                Of::Starts => json!({"executions": [{ "machine": machine }]}).to_string(),
                Of::Task if name == "completeTask" => {
                    json!({"token": tasks[at]["token"], "output": 1}).to_string()
                }
                Of::Task => json!({"token": tasks[at]["token"]}).to_string(),
                Of::Call => json!({"key": key, "again": true, "reason": "seen"}).to_string(),
                _ => body(operation).to_owned(),
            };
            // What would be done is not: each asks for a little less than it needs, or for what is there already.
            if is_own
                && !matches!(
                    name,
                    "describeMachine" | "describeExecution" | "listHistory" | "traceKey" | "heartbeatTask"
                )
            {
                continue;
            }
            let (status, told) = ask(&server, &bound, operation, &path, &asked);
            match operation.of {
                Of::Nothing => assert!(status != 403 && status != 404, "{name}: {status} {told}"),
                Of::All => assert_eq!((status, &told["code"]), (403, &"forbidden".into()), "{name}: {told}"),
                Of::Listed => {
                    let text = told.to_string();
                    let shows = text.contains("pay-a") || text.contains(&ids[1]);
                    assert!(status == 200 && shows, "{name}: {status} {told}");
                    assert!(!text.contains("other") && !text.contains(&ids[0]), "{name}: {told}");
                }
                Of::Machine
                | Of::Execution
                | Of::Activity
                | Of::Start
                | Of::Starts
                | Of::Task
                | Of::Call
                | Of::Traced => {
                    assert_eq!(status == 404, !is_own, "{name} of {machine}: {status} {told}");
                    assert!(is_own || !told.to_string().contains("other"), "{name}: {told}");
                }
            }
        }
    }
    for (path, status) in [
        (format!("/v1/ledger?execution={}", ids[0]), 404),
        (format!("/v1/ledger?execution={}", ids[1]), 200),
        (format!("/v1/ledger?key={}", tasks[0]["key"].as_str().expect("a key").replace('#', "%23")), 404),
        ("/v1/ledger?key=none".to_owned(), 404),
    ] {
        assert_eq!(ask(&server, &bound, find("listLedger"), &path, "").0, status, "{path}");
    }
    for machine in ["other", "none", "pay-none"] {
        let path = format!("/v1/executions?machine={machine}");
        let (status, told) = ask(&server, &bound, find("listExecutions"), &path, "");
        assert_eq!((status, told.get("remedy")), (404, None), "{machine}: {told}");
    }
    let started = ask(
        &server,
        &bound,
        find("startExecution"),
        "/v1/executions",
        r#"{"machine": "pay-a", "name": "b"}"#,
    );
    assert_eq!(started.0, 201, "{}", started.1);
    assert_eq!(scene.one(&["show", "other/n"])["status"], "RUNNING", "nothing was done to it");
}

#[test]
fn the_last_use_of_a_token_is_kept_and_its_revocation_stays() {
    let scene = Scene::new("rights-used");
    let server = Server::start(&scene, &[]);
    let (id, token) = made(&scene, "ci", &["read"]);
    let one = |scene: &Scene| scene.json(&["token", "list"]).remove(0);
    assert!(one(&scene).get("lastUsedAt").is_none());
    let find = OPERATIONS.iter().find(|one| one.name == "describeServer").expect("it is in the table");
    assert_eq!(ask(&server, &token, find, "/v1/server", "").0, 200);
    wait_until("its use is written", || one(&scene)["lastUsedAt"].is_string());
    let at = one(&scene)["lastUsedAt"].clone();
    assert_eq!(ask(&server, &token, find, "/v1/server", "").0, 200);
    scene.one(&["token", "revoke", &id]);
    assert_eq!(ask(&server, &token, find, "/v1/server", "").0, 401);
    let listed = one(&scene);
    assert_eq!(
        (listed["revokedAt"].is_string(), &listed["lastUsedAt"]),
        (true, &at),
        "within a minute it is one use"
    );
}

#[test]
fn tokens_alone_let_a_server_listen_elsewhere() {
    let scene = Scene::new("rights-listen");
    scene.on_data(&["serve", "--listen", "0.0.0.0:0"]).fails(2, &["make a token (perdura token create)"]);
    let (_, token) = made(&scene, "ci", &["admin"]);
    let server = Server::start(&scene, &["--listen", "0.0.0.0:0"]);
    let find = OPERATIONS.iter().find(|one| one.name == "readStats").expect("it is in the table");
    assert_eq!(ask(&server, &token, find, "/v1/stats", "").0, 200);
    assert_eq!(ask(&server, "", find, "/v1/stats", "").0, 401);
    let told = server.told(&call("ListStateMachines", &[], b"{}"));
    assert!(told.contains("MissingAuthenticationToken"), "{told}");
}

/// The status and the body of an action that is signed with this key.
fn signed(server: &Server, id: &str, action: &str) -> String {
    let target = format!("AWSStepFunctions.{action}");
    let headers =
        [("host", "localhost"), ("content-type", "application/x-amz-json-1.0"), ("x-amz-target", &*target)];
    let request = Signable { method: "POST", path: "/", query: "", headers: &headers, body: b"{}" };
    let credentials = Credentials {
        access_key_id: id.into(),
        secret_access_key: Secret::new("secret"),
        session_token: None,
    };
    let now = std::time::UNIX_EPOCH.elapsed().expect("it is after 1970").as_secs();
    let added = sign(&request, &credentials, Scope { region: "us-east-1", service: "states" }, now);
    let added: Vec<(&str, &str)> = added.iter().map(|(name, value)| (*name, &**value)).collect();
    server.told(&call(action, &[&[("Host", "localhost")], &added[..]].concat(), b"{}"))
}

#[test]
fn each_access_key_opens_the_actions_that_need_its_role_or_less() {
    let keys = "R secret read\nX secret run\nO secret operate\nA secret admin\nU secret\n";
    let scene = Scene::new("rights-keys").file("keys", keys);
    let server = Server::start(&scene, &["--access-key-file", "keys"]);
    let runs = |action: &str| {
        matches!(action, "StartExecution" | "StartSyncExecution" | "GetActivityTask")
            || action.starts_with("SendTask")
    };
    let asks =
        |action: &str| ["Describe", "List", "Get", "Validate"].iter().any(|verb| action.starts_with(verb));
    for action in actions() {
        let needs = match action {
            _ if runs(action) => Role::Run,
            _ if asks(action) => Role::Read,
            _ => Role::Operate,
        };
        let keys = [
            ("R", Role::Read),
            ("X", Role::Run),
            ("O", Role::Operate),
            ("A", Role::Admin),
            ("U", Role::Operate),
        ];
        for (id, role) in keys {
            let told = signed(&server, id, action);
            let is_refused = told.contains("AccessDeniedException");
            assert_eq!(is_refused, role < needs, "{action} by {}: {told}", role.name());
            assert!(!told.contains("Signature"), "{action}: {told}");
        }
    }
}

/// Asks for the deployment of a machine whose one task, inside of whatever `around` makes of it, calls this.
fn deploys(server: &Server, token: &str, around: &dyn Fn(Value) -> Value, task: &Value) -> (u16, Value) {
    let find = OPERATIONS.iter().find(|one| one.name == "putMachine").expect("it is in the table");
    let flow = json!({"StartAt": "T", "States": {"T": task}});
    ask(server, token, find, "/v1/machines/a-x", &around(flow).to_string())
}

fn inside(kind: &str, member: &str, flow: &Value) -> Value {
    json!({"StartAt": kind, "States": {kind: {"Type": kind, member: flow, "End": true}}})
}

#[test]
fn a_token_that_is_bound_deploys_nothing_that_reaches_other_machines_through_this_server() {
    let scene = Scene::new("rights-deputy");
    let server = Server::start(&scene, &[]);
    let (_, bound) = made(&scene, "dev", &["operate", "--machines", "a-"]);
    let (_, free) = made(&scene, "ops", &["operate"]);
    let arn = |name: &str| format!("arn:aws:states:us-east-1:123456789012:stateMachine:{name}");
    let task = |resource: &str, arguments: Value| {
        let resource = format!("arn:aws:states:::{resource}");
        json!({"Type": "Task", "Resource": resource, "Parameters": arguments, "End": true})
    };
    let processor = |mode: &str, flow: &Value| {
        let mut flow = flow.clone();
        flow["ProcessorConfig"] = json!({"Mode": mode, "ExecutionType": "STANDARD"});
        if mode == "INLINE" {
            flow["ProcessorConfig"] = json!({"Mode": mode});
        }
        inside("Map", "ItemProcessor", &flow)
    };
    let arounds: [&dyn Fn(Value) -> Value; 5] = [
        &|flow| flow,
        &|flow| inside("Parallel", "Branches", &json!([flow])),
        &|flow| processor("INLINE", &flow),
        &|flow| processor("DISTRIBUTED", &flow),
        &|flow| processor("DISTRIBUTED", &inside("Parallel", "Branches", &json!([flow]))),
    ];
    let start = "states:startExecution";
    let refused = [
        task("aws-sdk:sfn:describeExecution", json!({"ExecutionArn": "x"})),
        task("aws-sdk:sfn:listStateMachines", json!({})),
        task("aws-sdk:sfn:startExecution", json!({"StateMachineArn": arn("a-own")})),
        task(start, json!({"StateMachineArn": arn("b-pay")})),
        task(&format!("{start}.sync:2"), json!({"StateMachineArn": arn("b-pay:1")})),
        task(start, json!({"StateMachineArn": "b-pay"})),
        task(&format!("{start}.sync"), json!({"StateMachineArn.$": "$.machine"})),
        task(start, json!({"StateMachineArn.$": "States.Format('{}', $.machine)"})),
        json!({"Type": "Task", "QueryLanguage": "JSONata", "Resource": format!("arn:aws:states:::{start}"),
               "Arguments": "{% $states.input %}", "End": true}),
        json!({"Type": "Task", "QueryLanguage": "JSONata", "Resource": format!("arn:aws:states:::{start}"),
               "Arguments": {"StateMachineArn": "{% $states.input.machine %}"}, "End": true}),
    ];
    for task in &refused {
        for (at, around) in arounds.iter().enumerate() {
            let (status, told) = deploys(&server, &bound, around, task);
            assert_eq!((status, &told["code"]), (403, &json!("forbidden")), "{at} {task}: {told}");
            let told = told.to_string();
            assert!(told.contains("state T") && told.contains("without --machines"), "{told}");
        }
    }
    let reaches = |name: &str| {
        let path = format!("/v1/machines/{name}");
        let find = OPERATIONS.iter().find(|one| one.name == "describeMachine").expect("it is in the table");
        ask(&server, &free, find, &path, "").0 == 200
    };
    assert!(!reaches("a-x"), "nothing was deployed");
    for task in [
        task(start, json!({"StateMachineArn": arn("a-own"), "Input.$": "$"})),
        task(&format!("{start}.sync:2"), json!({"StateMachineArn": arn("a-own:live")})),
        task("aws-sdk:sqs:sendMessage", json!({"QueueUrl": "x"})),
    ] {
        for (at, around) in arounds.iter().enumerate() {
            let (status, told) = deploys(&server, &bound, around, &task);
            assert_eq!(status, 200, "{at} {task}: {told}");
        }
    }
    for task in &refused {
        assert_eq!(deploys(&server, &free, arounds[3], task).0, 200, "an unbound token deploys it: {task}");
    }
    let audit = scene.json(&["audit", "--limit", "1000"]);
    let told = audit.iter().filter(|entry| entry.to_string().contains("reaches other machines")).count();
    assert_eq!(told, refused.len() * arounds.len(), "each refusal is on the audit");
}

#[test]
fn nobody_is_named_as_the_owner_or_the_server() {
    let scene = Scene::new("rights-names").file("keys", "owner secret operate\n");
    let server = Server::start(&scene, &[]);
    let (_, boss) = made(&scene, "boss", &["admin"]);
    let find = OPERATIONS.iter().find(|one| one.name == "createToken").expect("it is in the table");
    for (at, name) in ["owner", "perdura", "Owner"].into_iter().enumerate() {
        for tenant in ["default", "other"] {
            scene
                .on_data(&["token", "create", name, "--role", "read", "--tenant", tenant])
                .fails(1, &["is the name of", "use another name"]);
        }
        let body = json!({"id": format!("00000000000{at}"), "hash": "0".repeat(64), "name": name, "role": "read",
                          "tenant": "default"});
        let (status, told) = ask(&server, &boss, find, "/v1/tokens", &body.to_string());
        assert_eq!((status, &told["code"]), (400, &json!("invalid")), "{name}: {told}");
    }
    drop(server);
    let refused = scene.on_data(&["serve", "--listen", "127.0.0.1:0", "--access-key-file", "keys"]);
    refused.fails(2, &["key 1", "use another id"]);
}

#[test]
fn whoever_waits_is_told_nothing_once_the_token_is_revoked() {
    let scene = Scene::new("rights-waits").file("m.json", &machine("jobs"));
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    let shown = scene.one(&["start", "m", "--name", "shown"])["id"].as_str().expect("an id").to_owned();
    for (name, method, path, key, body) in [
        ("show", "GET", format!("/v1/executions/{shown}"), "", ""),
        ("start", "POST", "/v1/executions".to_owned(), KEY, r#"{"machine": "m", "name": "started"}"#),
        ("again", "POST", "/v1/executions".to_owned(), KEY, r#"{"machine": "m", "name": "started"}"#),
    ] {
        let principal = if name == "show" { "show" } else { "starts" };
        let (id, token) = made(&scene, principal, &["run"]);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Idempotency-Key: {key}\r\nPrefer: wait=60\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut answer = BufReader::new(server.sent(request.as_bytes()));
        let used = || {
            scene.json(&["token", "list"]).iter().any(|one| one["id"] == id && one["lastUsedAt"].is_string())
        };
        wait_until("the request is in", used);
        if name != "show" {
            wait_until("it is started", || scene.json(&["ps", "--machine", "m"]).len() == 2);
        }
        scene.one(&["token", "revoke", &id]);
        let mut told = String::new();
        answer.read_to_string(&mut told).expect("an answer comes");
        assert!(told.starts_with("HTTP/1.1 401 "), "{name}: {told}");
        assert!(!told.contains(r#""status":"RUNNING""#), "{name}: {told}");
    }
}
