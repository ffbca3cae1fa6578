//! The record of requests with an `Idempotency-Key`: a file of its own beside the data, part of backups and checks.

use anyhow::{Context, Result};
use perdura_idempotency::Scope;
use perdura_idempotency::store::{Scrubbed, Sqlite, sqlite};
use perdura_server::data::KeptAnswers;
use perdura_server::v1::{Memory, StoredAnswers};
use perdura_server::{Refusal, RefusalKind};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "idempotency.db";
/// The suffixes of the files that SQLite and the store create.
const BESIDE: [&str; 4] = ["", "-open", "-wal", "-shm"];
/// The suffix of its copy beside a backup.
const COPY: &str = ".idempotency";

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Creates it for its owner alone, whatever the umask; removes access of others.
fn make(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Opens it for the server that holds the data.
pub(crate) fn open(folder: &Path, installation: &[u8; 32]) -> Result<Memory> {
    let path = folder.join(NAME);
    let shown = path.display();
    for end in BESIDE {
        let path = with(&path, end);
        if end == "-open" || end.is_empty() || path.exists() {
            make(&path).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let store = Sqlite::open(&path, &sqlite::Options::default());
    let store = store.with_context(|| {
        format!(
            "cannot use {shown}; if it cannot be mended, move it away: keys used so far are forgotten then"
        )
    })?;
    Ok(Memory::new(Arc::new(store), installation))
}

/// The stored answers there, for a command that holds the data while no server runs.
pub(crate) struct Kept {
    pub(crate) folder: PathBuf,
    pub(crate) installation: [u8; 32],
}

impl Kept {
    /// Does something with them, if there are any.
    fn with<T: Default>(
        &self,
        work: impl AsyncFnOnce(StoredAnswers) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if !self.folder.join(NAME).exists() {
            return Ok(T::default());
        }
        let broken = |why: String| Refusal::new(RefusalKind::Broken, why);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| broken(error.to_string()))?;
        let memory = open(&self.folder, &self.installation).map_err(|error| broken(format!("{error:#}")))?;
        runtime.block_on(async {
            let answers = StoredAnswers::open(memory).await.map_err(|error| broken(error.to_string()))?;
            work(answers).await
        })
    }
}

impl KeptAnswers for Kept {
    fn erase(&self, scopes: &[Scope], key: &str) -> Result<u64, Refusal> {
        self.with(async |answers| answers.erase(scopes, key).await)
    }

    fn scrub(&self, bytes_max: u64) -> Result<Scrubbed, Refusal> {
        self.with(async |answers| answers.scrub(bytes_max).await)
    }
}

/// Copies it for a backup, before the data is copied: so everything that it records as done is in the copied data.
pub(crate) fn backup(folder: &Path, file: &Path) -> Result<()> {
    let path = folder.join(NAME);
    if file.exists() || !path.exists() {
        return Ok(());
    }
    let (copy, part) = (with(file, COPY), with(file, ".idempotency.part"));
    let copied = || -> Result<()> {
        remove(&part)?;
        let made = make(&part)?;
        sqlite::copy(&path, &part)?;
        made.sync_all()?;
        Ok(fs::rename(&part, &copy)?)
    };
    copied().with_context(|| format!("cannot copy {} to {}", path.display(), copy.display()))
}

/// Removes the copy of a failed backup.
pub(crate) fn forget_backup(file: &Path) {
    if !file.exists() {
        // Without its backup nothing reads it, and the next backup replaces it.
        let _ = remove(&with(file, COPY));
    }
}

/// Copies it from a backup to the restored data.
pub(crate) fn restore(file: &Path, folder: &Path) -> Result<()> {
    let (copy, path) = (with(file, COPY), folder.join(NAME));
    if !copy.exists() {
        return Ok(());
    }
    let part = with(&path, ".part");
    let copied = || -> io::Result<()> {
        remove(&part)?;
        let mut to = make(&part)?;
        io::copy(&mut File::open(&copy)?, &mut to)?;
        to.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(folder)?.sync_all()
    };
    copied().with_context(|| format!("cannot copy {} to {}", copy.display(), path.display()))
}

/// Checks all of it: the number of requests, and the problems.
pub(crate) fn check(folder: &Path) -> Result<sqlite::Checked> {
    let path = folder.join(NAME);
    if !path.exists() {
        return Ok(sqlite::Checked::default());
    }
    sqlite::check(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
