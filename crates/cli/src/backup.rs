//! `perdura backup` and `perdura restore`: copies all data, and makes a data directory from a copy.

use crate::arguments::{BackupArguments, RestoreArguments};
use crate::definition::plural;
use crate::serve::requests;
use crate::{ledger, table, terminal};
use anyhow::Result;
use perdura_runtime::RealClock;
use perdura_server::Refusal;
use perdura_server::control::LedgerEntry;
use perdura_store::sqlite;
use std::process::ExitCode;

/// Copies the data, also while a server runs.
pub(crate) fn backup(arguments: &BackupArguments) -> Result<ExitCode> {
    let file = &arguments.file;
    let folder = arguments.data.folder()?;
    requests::backup(&folder, file)?;
    sqlite::backup(&folder, file).map_err(|failure| {
        requests::forget_backup(file);
        Refusal::from(failure)
    })?;
    let bytes = file.metadata().map_or(0, |about| about.len());
    if arguments.data.json {
        table::print_json(&serde_json::json!({ "file": file, "bytes": bytes }))?;
    } else {
        terminal::print(format!("{} is complete: {bytes} bytes\n", file.display()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a data directory from a backup. Calls that were under way in it are held.
pub(crate) fn restore(arguments: &RestoreArguments) -> Result<ExitCode> {
    let folder = &arguments.data.folder()?;
    let now = RealClock::default().moment().now;
    let restored = sqlite::restore(&arguments.file, folder, now).map_err(Refusal::from)?;
    requests::restore(&arguments.file, folder)?;
    for (execution, what) in &restored.damaged {
        let whose = execution.map(|id| format!("{id}: ")).unwrap_or_default();
        terminal::complain(&format!("{whose}{what}"));
    }
    let uncertain: Vec<LedgerEntry> = restored.uncertain.into_iter().map(LedgerEntry::from).collect();
    ledger::print(&uncertain, arguments.data.json)?;
    let executions = usize::try_from(restored.executions).unwrap_or(usize::MAX);
    terminal::tell(&format!(
        "{} restored to {}; {} uncertain: say how they went with `perdura ledger resolve`",
        plural(executions, "execution"),
        folder.display(),
        plural(uncertain.len(), "call"),
    ));
    Ok(ExitCode::SUCCESS)
}
