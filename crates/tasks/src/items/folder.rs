//! A bucket that is a folder of this machine.
//!
//! A definition chooses the key, so the key must not lead out of the folder. Its parts are plain names: no `..`, no
//! drive, nothing absolute. A symbolic link may be followed to a file inside the folder and never out of it: the
//! resolved path counts. Users who can create links below the folder at the moment of reading are trusted; the author
//! of a definition is not. Devices and pipes are not files.

use super::content::{Content, Opened};
use super::place::PlaceError;
use crate::lack::{Pauses, no_files};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A folder, by its resolved path.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// This folder, which must exist.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        let root = fs::canonicalize(root)?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a file in it. If the limit of open files is reached, it waits.
    pub(super) async fn open(&self, key: &str) -> Result<Opened, PlaceError> {
        let mut pauses = Pauses::default();
        loop {
            let (folder, key) = (self.clone(), key.to_owned());
            let opened = blocking(move || folder.open_now(&key)).await;
            if opened.is_ok() || no_files().is_none() {
                return opened;
            }
            tokio::time::sleep(pauses.next().unwrap_or_default()).await;
        }
    }

    fn open_now(&self, key: &str) -> Result<Opened, PlaceError> {
        let path = fs::canonicalize(self.path_of(key)?).map_err(|error| trouble(&error))?;
        if !path.starts_with(&self.root) {
            return Err(outside(key));
        }
        // Checked before opening, because opening a pipe would wait for its other end.
        if !fs::metadata(&path).map_err(|error| trouble(&error))?.is_file() {
            return Err(PlaceError::Refused(format!("\"{key}\" is not a file")));
        }
        let file = File::open(&path).map_err(|error| trouble(&error))?;
        let facts = file.metadata().map_err(|error| trouble(&error))?;
        Ok(Opened { version: tag(&facts).into(), size: Some(facts.len()), content: Content::File(file) })
    }

    /// The path for a new file with this key. Creates the folders on the way, after checking where they lead.
    pub(super) fn prepare(&self, key: &str) -> Result<PathBuf, PlaceError> {
        let path = self.path_of(key)?;
        let parent = path.parent().unwrap_or(&self.root);
        let mut there = parent;
        while !there.exists() {
            there = there.parent().unwrap_or(&self.root);
        }
        let really = fs::canonicalize(there).map_err(|error| trouble(&error))?;
        if !really.starts_with(&self.root) {
            return Err(outside(key));
        }
        fs::create_dir_all(parent).map_err(|error| trouble(&error))?;
        Ok(path)
    }

    fn path_of(&self, key: &str) -> Result<PathBuf, PlaceError> {
        let mut path = self.root.clone();
        for part in key.split('/') {
            let mut components = Path::new(part).components();
            match (components.next(), components.next()) {
                (Some(Component::Normal(name)), None) if name == part && !part.contains('\0') => {
                    path.push(name);
                }
                _ => {
                    let what = format!(
                        "the key \"{key}\" is not a path of plain names, which it must be where a bucket is a folder"
                    );
                    return Err(PlaceError::Refused(what));
                }
            }
        }
        Ok(path)
    }
}

/// A tag that changes with the content of a file: its size and its time.
pub(super) fn tag(facts: &Metadata) -> String {
    let (is_before, since) = match facts.modified().map(|at| at.duration_since(UNIX_EPOCH)) {
        Ok(Ok(since)) => ("", since),
        Ok(Err(error)) => ("-", error.duration()),
        // A file system without times: use only the size.
        Err(_) => ("", std::time::Duration::ZERO),
    };
    format!("\"{:x}-{is_before}{:x}\"", facts.len(), since.as_nanos())
}

pub(super) fn trouble(error: &io::Error) -> PlaceError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => PlaceError::Missing,
        io::ErrorKind::PermissionDenied => {
            PlaceError::Refused("this process may not use it: check who owns the folder and its files".into())
        }
        _ => PlaceError::Failed(error.to_string()),
    }
}

fn outside(key: &str) -> PlaceError {
    PlaceError::Refused(format!("the key \"{key}\" leads out of the folder by a symbolic link"))
}

/// Runs blocking file work on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PlaceError> + Send + 'static,
) -> Result<T, PlaceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(PlaceError::Failed(format!("the work on a file was cut short: {error}"))),
    }
}
