//! Backups: copying everything while work goes on.

use super::fault::{Files, Trouble, io};
use super::{read, sync_folder};
use crate::store::{Failure, FailureKind};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Copies the data in a folder to a new file: the data of one moment, complete and synced when this returns. Commits go
/// on meanwhile; the log grows until the copy is done.
pub fn backup(folder: &Path, file: &Path) -> Result<(), Failure> {
    refuse_existing(file)?;
    let files = Files::of(folder);
    let connection = read::connect(&files)?;
    super::schema::version(&connection, &files)?;
    let part = beside(file);
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io("removing", &part, &error));
        }
        Ok(()) | Err(_) => {}
    }
    // Copy into an empty file that only its owner can read.
    drop(super::mode::make(&part)?);
    let name = read::uri(&part);
    let copied = connection.execute("VACUUM INTO ?1", [name]).map_err(|error| {
        let mut failure = files.failure("backing up", Trouble::from(error));
        failure.what = format!("{} to {}", failure.what, file.display());
        failure
    });
    let done = copied.and_then(|_| settle(&part, file));
    if done.is_err() {
        // An unfinished copy is no backup; if it cannot be removed here, the next backup removes it.
        let _ = std::fs::remove_file(&part);
    }
    done
}

pub(super) fn refuse_existing(file: &Path) -> Result<(), Failure> {
    if !file.exists() {
        return Ok(());
    }
    Err(Failure {
        what: format!("backing up to {}", file.display()),
        why: "it exists and is not overwritten; name a new file".to_owned(),
        kind: FailureKind::Held,
    })
}

/// The name of an unfinished backup.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn settle(part: &Path, file: &Path) -> Result<(), Failure> {
    File::open(part).and_then(|opened| opened.sync_all()).map_err(|error| io("syncing", part, &error))?;
    refuse_existing(file)?;
    std::fs::rename(part, file).map_err(|error| io("naming", file, &error))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    sync_folder(folder.unwrap_or(Path::new(".")))
}
