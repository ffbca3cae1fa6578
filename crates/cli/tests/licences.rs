//! Every crate that we build with comes under a licence that lets us give ours.
//!
//! Asks `cargo metadata`, which knows all dependencies on all platforms. Packages of this workspace are
//! held to their own licence, MIT OR Apache-2.0.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Licences that ask for no more than a notice. To add one, argue for it in the commit.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// What our own packages are under.
const OURS: &str = "MIT OR Apache-2.0";

/// Whether one may use the work under allowed licences only. `None`: the expression cannot be read.
///
/// SPDX, where AND binds tighter than OR; `MIT/Apache-2.0` is how OR was once written.
fn is_allowed(expression: &str) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let allowed = either(&mut rest, 0)?;
    rest.is_empty().then_some(allowed)
}

/// Parentheses deeper than this are nobody's licence.
const DEPTH_MAX: u8 = 8;

fn either(words: &mut &[&str], depth: u8) -> Option<bool> {
    let mut allowed = both(words, depth)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        allowed |= both(words, depth)?;
    }
    Some(allowed)
}

fn both(words: &mut &[&str], depth: u8) -> Option<bool> {
    let mut allowed = one(words, depth)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        allowed &= one(words, depth)?;
    }
    Some(allowed)
}

fn one(words: &mut &[&str], depth: u8) -> Option<bool> {
    match *words {
        ["(", rest @ ..] if depth < DEPTH_MAX => {
            *words = rest;
            let allowed = either(words, depth + 1)?;
            *words = words.strip_prefix(&[")"])?;
            Some(allowed)
        }
        [name, "WITH", exception, rest @ ..] => {
            *words = rest;
            Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()))
        }
        [name, rest @ ..] if !["(", ")", "AND", "OR", "WITH"].contains(name) => {
            *words = rest;
            Some(ALLOWED.contains(name))
        }
        _ => None,
    }
}

/// What is wrong with a package's licence, and what to do about it.
fn complaint(package: &Value, is_ours: bool) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    let licence = package["license"].as_str();
    if is_ours {
        return (licence != Some(OURS))
            .then(|| format!("{name} is ours: write `license.workspace = true` in its Cargo.toml"));
    }
    let remedy = "choose another crate, or argue for it in the commit that adds it to ALLOWED in licences.rs";
    match licence.map(|licence| (licence, is_allowed(licence))) {
        Some((_, Some(true))) => None,
        Some((licence, Some(false))) => Some(format!("{name} is under {licence}: {remedy}")),
        Some((licence, None)) => Some(format!("{name} is under what is not SPDX, {licence:?}: {remedy}")),
        None => Some(format!("{name} names no licence in its manifest: {remedy}")),
    }
}

#[test]
fn every_dependency_has_a_licence_that_we_may_use() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed; try `cargo fetch` while online:\n{stderr}");

    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let ids = |key: &str| metadata[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    let members: BTreeSet<&str> = ids("workspace_members").collect();
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    assert!(packages.len() > members.len(), "there are dependencies to look at");

    let is_ours = |package: &Value| package["id"].as_str().is_some_and(|id| members.contains(id));
    let complaints: Vec<String> =
        packages.iter().filter_map(|package| complaint(package, is_ours(package))).collect();
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
}

#[test]
fn a_licence_is_allowed_when_one_may_choose_allowed_ones_only() {
    let cases = [
        ("MIT", Some(true)),
        ("MIT OR GPL-3.0-only", Some(true)),
        ("MIT AND GPL-3.0-only", Some(false)),
        ("GPL-3.0-only AND MIT OR ISC", Some(true)),
        ("GPL-3.0-only AND (MIT OR ISC)", Some(false)),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(true)),
        ("Apache-2.0/MIT", Some(true)),
        ("Apache-2.0 WITH LLVM-exception", Some(true)),
        ("Apache-2.0 WITH Some-exception", Some(false)),
        ("AGPL-3.0-only", Some(false)),
        ("SSPL-1.0", Some(false)),
        ("", None),
        ("MIT OR", None),
        ("MIT Apache-2.0", None),
        ("(MIT", None),
        ("MIT)", None),
        ("((((((((((MIT))))))))))", None),
    ];
    for (expression, expected) in cases {
        assert_eq!(is_allowed(expression), expected, "{expression}");
    }
}

#[test]
fn a_complaint_names_the_package_and_the_remedy() {
    let package =
        |licence: Value| serde_json::json!({"name": "left-pad", "version": "1.0.0", "license": licence});
    assert_eq!(complaint(&package("MIT".into()), false), None);
    for bad in [Value::Null, "GPL-2.0-only".into(), "see LICENSE.txt".into()] {
        let said = complaint(&package(bad), false).expect("it is refused");
        assert!(said.contains("left-pad 1.0.0") && said.contains("choose another crate"), "{said}");
    }
    assert_eq!(complaint(&package(OURS.into()), true), None);
    assert!(complaint(&package("MIT".into()), true).is_some());
}
