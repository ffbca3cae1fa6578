//! Connections through the command line: sealed on the way in, described without their secrets on the way out.

mod common;

use common::Scene;
use common::server::Server;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BASIC: &str = r#"{"hosts": ["bank.example"], "basic": {"user": "anna", "password": "hunter2"},
    "headers": {"x-team": "hunter3"}}"#;

fn scene(name: &str) -> Scene {
    Scene::new(name)
        .file("key", KEY)
        .file("bank.json", BASIC)
        .file("perdura.toml", "[connections]\nkey_file = 'key'\n")
}

fn the_life_of_a_connection(scene: &Scene) {
    assert_eq!(scene.one(&["connection", "put", "bank", "--file", "bank.json"])["name"], "bank");
    let shown = scene.one(&["connection", "show", "bank"]);
    assert_eq!((&shown["kind"], &shown["user"]), (&"basic".into(), &"anna".into()));
    assert_eq!((&shown["headers"][0], &shown["hosts"][0]), (&"x-team".into(), &"bank.example".into()));
    let listed = scene.json(&["connection", "list"]);
    assert_eq!((listed.len(), &listed[0]["name"], &listed[0]["kind"]), (1, &"bank".into(), &"basic".into()));
    for arguments in
        [&["connection", "show", "bank"][..], &["connection", "list"], &["connection", "list", "--json"]]
    {
        let told = scene.on_data(arguments);
        assert!(!told.stdout.contains("hunter") && told.stdout.contains("bank"), "{told:?}");
    }
    assert_eq!(scene.one(&["connection", "delete", "bank"])["name"], "bank");
    scene.on_data(&["connection", "delete", "bank"]).fails(1, &["there is no connection \"bank\""]);
    scene.on_data(&["connection", "show", "bank"]).fails(1, &["there is no connection \"bank\""]);
}

#[test]
fn connections_are_kept_with_a_server_and_without() {
    let scene = scene("connections-life");
    let server = Server::start(&scene, &[]);
    the_life_of_a_connection(&scene);
    assert_eq!(server.end("-TERM"), Some(0));
    the_life_of_a_connection(&scene);
}

#[test]
fn no_secret_is_in_the_data() {
    let scene = scene("connections-sealed");
    let server = Server::start(&scene, &["--log", "trace"]);
    scene.one(&["connection", "put", "bank", "--file", "bank.json"]);
    assert_eq!(server.end("-TERM"), Some(0));
    let is_secret = |bytes: &[u8]| bytes.windows(6).any(|part| part == b"hunter");
    let log = std::fs::read(scene.path("serve.log")).expect("there is a log");
    assert!(!is_secret(&log));
    let files: Vec<_> = std::fs::read_dir(scene.path("data")).expect("there is data").flatten().collect();
    assert!(!files.is_empty());
    for file in files.iter().filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).expect("a file can be read");
        assert!(!is_secret(&bytes), "{:?}", file.path());
    }
}

#[test]
fn without_the_right_key_there_is_a_clear_word() {
    let scene = Scene::new("connections-key").file("bank.json", BASIC).file("key", KEY);
    let missing = scene.on_data(&["connection", "put", "bank", "--file", "bank.json"]);
    missing.fails(2, &["there is no key for connections", "--connection-key-file"]);
    let with = |file: &str, arguments: &[&str]| {
        scene.on_data(&[arguments, &["--connection-key-file", file]].concat())
    };
    assert_eq!(with("key", &["connection", "put", "bank", "--file", "bank.json"]).code, Some(0));
    let scene = &scene;
    std::fs::write(scene.path("other"), KEY.replace("AAEC", "AAED")).expect("a file can be written");
    with("other", &["connection", "show", "bank"]).fails(2, &["connection `bank` does not open"]);
    std::fs::write(scene.path("short"), "abc").expect("a file can be written");
    with("short", &["connection", "show", "bank"]).fails(2, &["not 32 bytes in base64 or hex"]);
    let listed = scene.json(&["connection", "list"]);
    assert_eq!((&listed[0]["name"], listed[0].get("kind")), (&"bank".into(), None));
}

#[test]
fn a_connection_that_is_none_is_refused_without_its_content() {
    let scene =
        scene("connections-wrong").file("wrong.json", r#"{"basic": {"user": "anna", "pasword": "hunter2"}}"#);
    let refused = scene.on_data(&["connection", "put", "bank", "--file", "wrong.json"]);
    refused.fails(2, &["wrong.json is no connection"]);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    let unbound = r#"{"basic": {"user": "anna", "password": "hunter2"}}"#;
    std::fs::write(scene.path("unbound.json"), unbound).expect("a file can be written");
    let refused = scene.on_data(&["connection", "put", "bank", "--file", "unbound.json"]);
    refused.fails(2, &["unbound.json is no connection", "`hosts` is needed"]);
}
