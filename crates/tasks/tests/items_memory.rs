//! A file of any size passes through a few megabytes.
//!
//! Alone in its process, because it measures the process: what it held at most, before and after.

#[path = "items_data/scene.rs"]
mod scene;

use perdura_engine::asl::json::Value;
use perdura_runtime::ReadOrder;
use perdura_tasks::items::read;
use scene::{feed, folder, local, reader, stores};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

const FILE_BYTES: usize = 200_000_000;
const GROWTH_MAX: u64 = 50_000_000;

/// The most memory that this process ever held.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kilobytes * 1_024
}

/// Writes a file of records until it is large; gives their count.
fn generate(path: &Path, start: &str, between: &str, end: &str, record: impl Fn(u64) -> String) -> u64 {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    file.write_all(start.as_bytes()).expect("room on the disk");
    let (mut count, mut bytes) = (0, 0);
    while bytes < FILE_BYTES {
        let text = if count == 0 { record(0) } else { format!("{between}{}", record(count)) };
        file.write_all(text.as_bytes()).expect("room on the disk");
        bytes += text.len();
        count += 1;
    }
    file.write_all(end.as_bytes()).expect("room on the disk");
    file.flush().expect("room on the disk");
    count
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_megabytes_pass_through_less_than_fifty() {
    let root = folder("memory");
    let stores = stores(&local(&root));
    let filler = "x".repeat(20_000);
    let json = |index: u64| format!(r#"{{"n": {index}, "text": "{filler}"}}"#);
    let table: [(&str, &str, u64); 3] = [
        (
            "a.json",
            r#"{"InputType": "JSON", "ItemsPointer": "/deep/list"}"#,
            generate(&root.join("a.json"), r#"{"deep": {"list": ["#, ", ", "]}}", json),
        ),
        ("a.jsonl", r#"{"InputType": "JSONL"}"#, generate(&root.join("a.jsonl"), "", "\n", "", json)),
        (
            "a.csv",
            r#"{"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}"#,
            generate(&root.join("a.csv"), "n,text\n", "\n", "", |index| format!("{index},\"{filler}\"")),
        ),
    ];
    for (key, config, wanted) in table {
        let before = peak_bytes();
        let arguments = format!(r#"{{"Bucket": "local", "Key": "{key}"}}"#);
        let (feed, taken) = feed(|batch| {
            let bytes: usize = batch
                .iter()
                .filter_map(|item| item.get("text"))
                .filter_map(Value::as_str)
                .map(str::len)
                .sum();
            assert!(bytes < 300_000, "a batch is bounded: {bytes}");
            false
        });
        read(&stores, ReadOrder { reader: reader("getObject", &arguments, config, None), feed }).await;
        let taken = taken.lock().expect("nobody panics");
        assert_eq!(taken.end, Some(Ok(())));
        assert_eq!(taken.batches.iter().sum::<usize>() as u64, wanted, "{key}");
        let growth = peak_bytes() - before;
        assert!(growth < GROWTH_MAX, "{key}: the process grew by {growth} bytes");
        println!("{key}: {wanted} items, the process grew by {growth} bytes");
        fs::remove_file(root.join(key)).expect("the file goes");
    }
}
