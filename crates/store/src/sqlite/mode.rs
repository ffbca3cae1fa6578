//! File modes: only the owner may read the data.
//!
//! Inputs, results and the secret of the installation are in these files. So they are created for their owner alone,
//! whatever the umask of the process, and access by others is removed when the data is opened. The mode of another
//! user's file cannot be changed; that is reported, and opening goes on.

use super::fault::{Files, io};
use crate::store::Failure;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of a folder.
const FOLDER: u32 = 0o700;
/// The mode of a file.
const FILE: u32 = 0o600;
/// The bits for other users.
const OTHERS: u32 = 0o077;

/// A file or folder that others could access when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tightened {
    pub path: PathBuf,
    /// Its mode when it was found, as for `chmod`.
    pub mode: u32,
    /// Why it is still accessible; `None`: access was removed.
    pub failed: Option<String>,
}

/// Creates the data directory, or removes the access of others to the existing one and to all of our files in it.
pub(super) fn close(files: &Files) -> Result<Vec<Tightened>, Failure> {
    make_folder(&files.folder)?;
    let name = |end: &str| {
        let mut name = files.db.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let mut found: Vec<Tightened> = tighten(&files.folder).into_iter().collect();
    for file in [name(""), name("-wal"), name("-shm"), files.folder.join("lock")] {
        found.extend(tighten(&file));
    }
    // SQLite gives the log and its index the mode of the file.
    if !files.db.exists() {
        make(&files.db)?;
    }
    Ok(found)
}

/// Creates a folder for its owner alone. Parent folders get the system's default mode.
pub(super) fn make_folder(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Ok(());
    }
    let fail = |error: &std::io::Error| io("making", path, error);
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        std::fs::create_dir_all(above).map_err(|error| fail(&error))?;
    }
    match DirBuilder::new().mode(FOLDER).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(fail(&error)),
        // The umask has removed bits from the mode.
        Ok(()) => {
            std::fs::set_permissions(path, Permissions::from_mode(FOLDER)).map_err(|error| fail(&error))
        }
    }
}

/// Creates an empty file for its owner alone; refuses an existing file.
pub(super) fn make(path: &Path) -> Result<File, Failure> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE).open(path);
    let set = made.and_then(|file| file.set_permissions(Permissions::from_mode(FILE)).map(|()| file));
    set.map_err(|error| io("making", path, &error))
}

/// Removes the access of others; `None`: they had none, or the file does not exist.
fn tighten(path: &Path) -> Option<Tightened> {
    let mode = |about: Metadata| about.permissions().mode() & 0o777;
    let mode = std::fs::metadata(path).ok().map(mode).filter(|mode| mode & OTHERS != 0)?;
    let closed = std::fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS));
    let failed = closed.err().map(|error| error.to_string());
    Some(Tightened { path: path.to_owned(), mode, failed })
}
