//! Each rule of the reader, as a definition that breaks it and what is said about it.
//!
//! `spec/diagnostics/NAME.asl.json` (or `.yaml`) has its expected output beside it in `NAME.txt`. A name that
//! ends in `.express` is read as an Express machine. To write the outputs anew after a change, set
//! `PERDURA_BLESS` and look at the difference.
#![allow(clippy::disallowed_methods, reason = "the room reads no files, but its tests are files")]

use perdura_asl::diagnostic::{Diagnostic, code};
use perdura_asl::machine::MachineType;
use perdura_asl::read::{ReadOptions, Reading, read};
use perdura_asl::source::Source;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Said only about texts too long for a file, to which `read_limits.rs` sees, or by whoever performs tasks.
const NOT_IN_FILES: [&str; 5] = [
    code::DEFINITION_TOO_LARGE,
    code::TOO_MANY_DIAGNOSTICS,
    code::UNSUPPORTED_RESOURCE,
    code::UNCONFIGURED_FUNCTION,
    code::UNCONFIGURED_SERVICE,
];

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec/diagnostics");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending != "txt")).collect();
    cases.sort();
    cases
}

fn read_case(path: &Path) -> (Source, Reading) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let source = Source::new(name, std::fs::read_to_string(path).unwrap());
    let machine_type = if name.contains(".express.") { MachineType::Express } else { MachineType::Standard };
    let reading = read(&source, &ReadOptions { machine_type, strict: true });
    (source, reading)
}

#[test]
fn each_mistake_is_told_with_its_place_and_a_remedy() {
    let is_blessing = std::env::var_os("PERDURA_BLESS").is_some();
    let cases = cases();
    assert!(cases.len() >= 80, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for path in &cases {
        let (source, reading) = read_case(path);
        assert!(!reading.diagnostics.is_empty(), "{} is not wrong", path.display());
        assert_eq!(reading.machine.is_none(), reading.diagnostics.iter().any(Diagnostic::is_error));
        let rendered: Vec<String> =
            reading.diagnostics.iter().map(|diagnostic| diagnostic.render(&source, false)).collect();
        let actual = rendered.join("\n");
        let name = path.to_str().unwrap();
        let stem = &name[..name.rfind(".asl.").expect("cases are called NAME.asl.json or NAME.asl.yaml")];
        let expected_path = format!("{stem}.txt");
        if is_blessing {
            std::fs::write(&expected_path, &actual).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
        if actual != expected {
            wrong.push(format!("=== {stem}\n--- expected\n{expected}\n--- actual\n{actual}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_code_has_a_case_and_a_chapter() {
    let mut seen: BTreeSet<&str> = NOT_IN_FILES.into();
    for path in cases() {
        seen.extend(read_case(&path).1.diagnostics.iter().map(|diagnostic| diagnostic.code));
    }
    let all: BTreeSet<&str> = code::ALL.into();
    assert_eq!(all.len(), code::ALL.len(), "a code is listed twice");
    assert_eq!(seen, all);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnostics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let chapters: BTreeSet<&str> = docs.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(chapters, all);
}
