//! Logs of executions as files: one for each machine, a record a line.
//!
//! A file at its size limit is renamed to `MACHINE.1.jsonl`, replacing the previous one. So a machine never has more
//! than twice the limit on disk.

use perdura_server::sfn::LogRecord;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The size limit of a file.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

/// Appends records to the file of a machine, which only its owner can read. They are one write.
pub(super) fn append(folder: &Path, machine: &str, records: &[LogRecord], bytes_max: u64) -> io::Result<()> {
    let mut lines = Vec::new();
    for record in records {
        lines.extend_from_slice(record.message.as_bytes());
        lines.push(b'\n');
    }
    if lines.is_empty() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(format!("{machine}.jsonl"));
    let has = match fs::metadata(&path) {
        Ok(file) => file.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if has > 0 && has + lines.len() as u64 > bytes_max {
        fs::rename(&path, folder.join(format!("{machine}.1.jsonl")))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?.write_all(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::Timestamp;
    use std::os::unix::fs::PermissionsExt;

    fn record(message: &str) -> LogRecord {
        LogRecord { at: Timestamp(0), message: message.into() }
    }

    #[test]
    fn a_machine_has_a_file_and_the_one_before_it_and_nobody_else_reads_them() {
        let logs = std::env::temp_dir().join(format!("perdura-execution-logs-{}", std::process::id()));
        let _ = fs::remove_dir_all(&logs);
        let add = |message: &str| append(&logs, "m", &[record(message), record("x")], 10).unwrap();
        let read = |name: &str| fs::read_to_string(logs.join(name)).unwrap_or_default();
        append(&logs, "m", &[], 10).unwrap();
        assert!(!logs.exists(), "nothing to write makes no file");
        add("one");
        assert_eq!((read("m.jsonl"), read("m.1.jsonl")), ("one\nx\n".into(), String::new()));
        add("two");
        assert_eq!((read("m.jsonl"), read("m.1.jsonl")), ("two\nx\n".into(), "one\nx\n".into()));
        add("3");
        assert_eq!((read("m.jsonl"), read("m.1.jsonl")), ("two\nx\n3\nx\n".into(), "one\nx\n".into()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&logs), mode(&logs.join("m.jsonl"))), (0o700, 0o600));
        fs::remove_dir_all(&logs).unwrap();
    }
}
