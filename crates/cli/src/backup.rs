//! `perdura backup` and `perdura restore`: a copy of everything, and the way back.

use crate::arguments::{BackupArguments, RestoreArguments};
use crate::definition::plural;
use crate::{ledger, table, terminal};
use anyhow::{Context, Result, bail};
use perdura_engine::LedgerStatus;
use perdura_server::control::{Answer, LedgerQuestion, Request};
use perdura_server::data::{Data, Deposit, UnderWay};
use perdura_server::{Refusal, handle};
use perdura_store::{SqliteOptions, SqliteStore, sqlite};
use std::fs::{self, File};
use std::io;
use std::process::ExitCode;

/// The file that holds the data.
const DATABASE: &str = "perdura.db";
/// How many held calls are listed.
const LISTED_MAX: u32 = 10_000;

/// Copies the data, beside whoever works on it.
pub(crate) fn backup(arguments: &BackupArguments) -> Result<ExitCode> {
    let file = &arguments.file;
    sqlite::backup(&arguments.data.data, file).map_err(Refusal::from)?;
    let bytes = file.metadata().map_or(0, |about| about.len());
    if arguments.data.json {
        table::print_json(&serde_json::json!({ "file": file, "bytes": bytes }))?;
    } else {
        terminal::print(format!("{} is complete: {bytes} bytes\n", file.display()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a data directory from a backup, and holds what was under way in it.
pub(crate) fn restore(arguments: &RestoreArguments) -> Result<ExitCode> {
    let folder = &arguments.data.data;
    let target = folder.join(DATABASE);
    if target.exists() {
        bail!(
            Refusal::conflict(format!("there is data in {} already", folder.display()))
                .but("restore into a new directory, and swap the two when it is right")
        );
    }
    let mut from =
        File::open(&arguments.file).with_context(|| format!("cannot read {}", arguments.file.display()))?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Until everything is done it does not have the name under which a server would take it up.
    let part = folder.join("restoring");
    let _ = fs::remove_dir_all(&part);
    fs::create_dir(&part).with_context(|| format!("cannot make {}", part.display()))?;
    let copied = File::create(part.join(DATABASE)).and_then(|mut file| {
        io::copy(&mut from, &mut file)?;
        file.sync_all()
    });
    copied.with_context(|| format!("cannot copy {}", arguments.file.display()))?;
    let store = SqliteStore::open(&part, SqliteOptions::default()).map_err(Refusal::from)?;
    let mut deposit = Deposit::new(Box::new(store), UnderWay::Hold).map_err(Refusal::from)?;
    deposit.take_up()?;
    let question = LedgerQuestion {
        status: Some(LedgerStatus::Uncertain),
        most: LISTED_MAX,
        ..LedgerQuestion::default()
    };
    let Answer::Ledger(held) = handle(&mut deposit, Request::Ledger(question))? else {
        bail!("the answer is none to this question");
    };
    let stats = deposit.read(|reader| reader.stats()).map_err(Refusal::from)?;
    drop(deposit);
    settle(folder, &part)?;
    let executions: u64 = stats.executions.iter().map(|(_, count)| count).sum();
    ledger::print(&held.items, arguments.data.json)?;
    let count = |count, noun| plural(usize::try_from(count).unwrap_or(usize::MAX), noun);
    terminal::tell(&format!(
        "{} restored to {}; {} uncertain: say how they went with `perdura ledger resolve`",
        count(executions, "execution"),
        folder.display(),
        plural(held.items.len(), "call"),
    ));
    Ok(ExitCode::SUCCESS)
}

/// Gives the restored files their place.
fn settle(folder: &std::path::Path, part: &std::path::Path) -> Result<()> {
    let failed = || format!("cannot put the data into {}", folder.display());
    // The file goes last: without it the others mean nothing.
    let mut files: Vec<_> =
        fs::read_dir(part).and_then(Iterator::collect::<io::Result<_>>).with_context(failed)?;
    files.sort_by_key(|entry: &fs::DirEntry| entry.file_name() == DATABASE);
    for entry in files {
        if entry.file_name() != "lock" {
            fs::rename(entry.path(), folder.join(entry.file_name())).with_context(failed)?;
        }
    }
    fs::remove_dir_all(part).with_context(failed)?;
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)
}
