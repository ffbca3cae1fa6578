//! The table of differences in docs/step-functions.md: it is made of `differences.txt`, where each difference names the tests
//! that hold perdura to it, and those tests have to be there.
//!
//! After a change that is meant, run with `PERDURA_BLESS=1` and read the difference before committing it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const BEGIN: &str = "## What differs\n\n| | AWS | perdura |\n|---|---|---|\n";

/// One row, and what proves it.
#[derive(Default)]
struct Difference {
    name: String,
    aws: String,
    perdura: String,
    proofs: Vec<String>,
    is_absent: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn differences() -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    for line in include_str!("differences.txt").lines().filter(|line| !line.starts_with('#')) {
        let Some((word, value)) = line.split_once(':') else {
            assert_eq!(line, "", "a line is a word, a colon and a value");
            continue;
        };
        let value = value.trim().to_owned();
        if word == "difference" {
            found.push(Difference { name: value, ..Difference::default() });
            continue;
        }
        let last = found.last_mut().expect("a difference begins with its name");
        match word {
            "aws" => last.aws = value,
            "perdura" => last.perdura = value,
            "proof" => last.proofs.push(value),
            "absent" => last.is_absent = true,
            _ => panic!("{line}"),
        }
    }
    found
}

/// Whether a file has this test: a function, one of the histories that a macro names, or a case of a script.
fn has(text: &str, test: &str) -> bool {
    [format!("fn {test}("), format!(": \"{test}\""), format!("\n## {test}\n")]
        .iter()
        .any(|form| text.contains(form))
        || text.starts_with(&format!("## {test}\n"))
}

#[test]
fn the_table_of_differences_is_made_of_what_is_tested() {
    let mut table = BEGIN.to_owned();
    for Difference { name, aws, perdura, .. } in differences() {
        let aws = if aws.is_empty() { String::new() } else { format!("{aws} ") };
        writeln!(table, "| {name} | {aws}| {perdura} |").expect("a String takes everything");
    }
    let path = root().join("docs/step-functions.md");
    let docs = read(&path);
    let begin = docs.find(BEGIN).expect("the docs have the table");
    let end = begin + docs[begin..].find("|\n\n").expect("the table ends") + 2;
    if docs[begin..end] == table {
        return;
    }
    assert!(
        std::env::var_os("PERDURA_BLESS").is_some(),
        "docs/step-functions.md has another table than differences.txt; PERDURA_BLESS=1 writes it"
    );
    let blessed = format!("{}{table}{}", &docs[..begin], &docs[end..]);
    std::fs::write(&path, blessed).expect("the docs can be written");
}

#[test]
fn every_difference_has_a_test_that_is_there() {
    let mut names = BTreeSet::new();
    for difference in differences() {
        let Difference { name, proofs, is_absent, .. } = difference;
        assert!(names.insert(name.clone()), "{name} stands twice");
        assert_eq!(proofs.is_empty(), is_absent, "{name} has proofs, or says that there can be none");
        for proof in proofs {
            let (file, test) = proof.split_once(": ").unwrap_or_else(|| panic!("{name}: {proof}"));
            assert!(has(&read(&root().join(file)), test), "{name}: {file} has no {test}");
        }
    }
    assert!(names.len() > 30);
}
