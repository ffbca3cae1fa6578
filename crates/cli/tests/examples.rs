//! The commands of examples/README.md, as they stand there.

mod common;

use common::{Ended, Scene};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is above the crate")
}

fn perdura(arguments: &[&str]) -> Ended {
    Scene { folder: root() }.perdura(arguments)
}

fn machines() -> Vec<String> {
    let files = std::fs::read_dir(root().join("examples")).expect("examples/ is there");
    let names =
        files.map(|file| file.expect("examples/ can be listed").file_name().to_string_lossy().into_owned());
    let mut machines: Vec<String> = names.filter(|name| name.ends_with(".asl.json")).collect();
    machines.sort();
    assert!(machines.len() >= 5, "{machines:?}");
    machines.into_iter().map(|name| format!("examples/{name}")).collect()
}

/// Some of them call what only their mock files answer; that is the one thing that may be said about them.
#[test]
fn every_example_is_valid() {
    let machines = machines();
    let arguments: Vec<&str> = ["validate"].into_iter().chain(machines.iter().map(String::as_str)).collect();
    let ended = perdura(&arguments);
    let expected = format!("{} files checked: no errors", machines.len());
    assert!(ended.code == Some(0) && ended.stderr.contains(&expected), "{}", ended.stderr);
    let known =
        ["warning[UNSUPPORTED_RESOURCE]", "warning[UNCONFIGURED_FUNCTION]", "warning[UNCONFIGURED_SERVICE]"];
    for line in ended.stderr.lines().filter(|line| line.starts_with("warning[")) {
        assert!(known.iter().any(|known| line.starts_with(known)), "{line}");
    }
}

#[test]
fn every_example_gives_the_output_beside_it() {
    let readme =
        std::fs::read_to_string(root().join("examples/README.md")).expect("examples/README.md is there");
    for machine in machines() {
        let command = format!("cargo run --release -- run {machine} ");
        let line = readme.lines().find(|line| line.starts_with(&command));
        let line = line.unwrap_or_else(|| panic!("examples/README.md has no command for {machine}"));
        let arguments: Vec<&str> = line.split(' ').skip(4).collect();
        let ended = perdura(&arguments);
        assert_eq!(ended.code, Some(0), "{line}\n{}", ended.stderr);
        let expected = root().join(machine.replace(".asl.json", ".output.json"));
        let expected = std::fs::read_to_string(expected).expect("the output is there");
        let plain = |text: &str| text.parse::<serde_json::Value>().expect("it is JSON").to_string();
        assert_eq!(plain(&ended.stdout), plain(&expected), "{line}");
    }
}

#[test]
fn a_declined_card_ends_the_order_as_its_readme_says() {
    let order =
        std::fs::read_to_string(root().join("examples/order.json")).expect("examples/order.json is there");
    let declined = order.replace("tok_visa", "tok_declined");
    let ended = perdura(&["run", "examples/order.asl.json", "--input", &declined]);
    ended.fails(1, &["ReleaseStock  succeeded", "FAILED after ", ": NotPaid: the card was declined"]);
}
