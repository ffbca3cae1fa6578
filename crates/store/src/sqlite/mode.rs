//! Who may read the data: its owner, and nobody else.
//!
//! Inputs, results and the secret of the installation stand in these files. So they are made for their owner alone,
//! whatever the umask of whoever starts perdura, and what is found open to others is closed. What another user owns
//! cannot be closed; that is told, and it goes on.

use super::fault::{Files, io};
use crate::store::Failure;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Of a folder.
const FOLDER: u32 = 0o700;
/// Of a file.
const FILE: u32 = 0o600;
/// What others may do.
const OTHERS: u32 = 0o077;

/// Something that was open to others when it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tightened {
    pub path: PathBuf,
    /// What everybody might do with it, as `chmod` takes it.
    pub mode: u32,
    /// Why it is so still; `None`: it is closed now.
    pub failed: Option<String>,
}

/// Makes the data directory, or closes the one that is there, with all files of ours in it.
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

/// Makes a folder for its owner alone. Folders above it are made as the system makes them.
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
        // The umask has taken from it.
        Ok(()) => {
            std::fs::set_permissions(path, Permissions::from_mode(FOLDER)).map_err(|error| fail(&error))
        }
    }
}

/// Makes a file for its owner alone, empty; one that is there is refused.
pub(super) fn make(path: &Path) -> Result<File, Failure> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE).open(path);
    let set = made.and_then(|file| file.set_permissions(Permissions::from_mode(FILE)).map(|()| file));
    set.map_err(|error| io("making", path, &error))
}

/// Closes what is open to others; `None`: it was not, or it is not there.
fn tighten(path: &Path) -> Option<Tightened> {
    let mode = |about: Metadata| about.permissions().mode() & 0o777;
    let mode = std::fs::metadata(path).ok().map(mode).filter(|mode| mode & OTHERS != 0)?;
    let closed = std::fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS));
    let failed = closed.err().map(|error| error.to_string());
    Some(Tightened { path: path.to_owned(), mode, failed })
}
