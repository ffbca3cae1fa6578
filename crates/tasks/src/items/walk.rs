//! The files below a folder, in the order in which S3 lists keys.
//!
//! A thread walks, and waits while no page is requested. It holds the names of the folders that it is in. Symbolic
//! links are not listed: they could form cycles.

use super::folder::{Folder, tag, trouble};
use super::listing::{Entry, PAGE_ENTRIES};
use super::outlet::UNFINISHED;
use super::place::PlaceError;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use tokio::sync::mpsc;

/// The most names in one folder: they must be held to be sorted.
const NAMES_MAX: usize = 1_000_000;

/// Begins to walk.
pub(super) fn start(
    folder: &Folder,
    prefix: &str,
) -> Result<mpsc::Receiver<Result<Vec<Entry>, PlaceError>>, PlaceError> {
    let (pages, receiver) = mpsc::channel(1);
    let (root, prefix) = (folder.root().to_owned(), prefix.to_owned());
    let walk = move || {
        let mut page = Vec::new();
        let walked = walk(&root, &prefix, &mut |entry| {
            page.push(entry);
            page.len() < PAGE_ENTRIES || pages.blocking_send(Ok(std::mem::take(&mut page))).is_ok()
        });
        let last = walked.map(|()| page);
        // Fails only if the receiver is gone.
        drop(pages.blocking_send(last));
    };
    match std::thread::Builder::new().name("items-list".into()).spawn(walk) {
        Ok(_) => Ok(receiver),
        Err(error) => Err(PlaceError::Failed(format!("there is no thread to list with: {error}"))),
    }
}

/// A name in a folder; a folder's name ends with a slash, and sorts that way.
type Name = (String, PathBuf);

/// Calls `tell` for all files whose keys begin with the prefix, while it returns true.
fn walk(root: &Path, prefix: &str, tell: &mut dyn FnMut(Entry) -> bool) -> Result<(), PlaceError> {
    let mut open = vec![names(root, "")?.into_iter()];
    while let Some(names_left) = open.last_mut() {
        let Some((key, path)) = names_left.next() else {
            open.pop();
            continue;
        };
        if key.ends_with('/') {
            if key.starts_with(prefix) || prefix.starts_with(&key) {
                open.push(names(&path, &key)?.into_iter());
            }
        } else if key.starts_with(prefix) && !key.ends_with(UNFINISHED) {
            let facts = fs::metadata(&path).map_err(|error| trouble(&error))?;
            let modified = facts.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let entry = Entry {
                key: key.into(),
                size: facts.len(),
                // A time before 1970, or none, becomes 1970; the tag has the real one.
                modified_ms: modified.map_or(0, |since| since.as_millis() as i64),
                etag: tag(&facts).into(),
                class: "STANDARD".into(),
            };
            if !tell(entry) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn names(folder: &Path, key: &str) -> Result<Vec<Name>, PlaceError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| trouble(&error))? {
        let entry = entry.map_err(|error| trouble(&error))?;
        let kind = entry.file_type().map_err(|error| trouble(&error))?;
        let slash = match (kind.is_dir(), kind.is_file()) {
            (true, _) => "/",
            (false, true) => "",
            (false, false) => continue,
        };
        let Ok(name) = entry.file_name().into_string() else {
            let what = format!("a file in \"{key}\" has a name that is not valid UTF-8: rename it");
            return Err(PlaceError::Refused(what));
        };
        names.push((format!("{key}{name}{slash}"), entry.path()));
        if names.len() > NAMES_MAX {
            let what = format!("the folder \"{key}\" has more than {NAMES_MAX} names: split it");
            return Err(PlaceError::Refused(what));
        }
    }
    names.sort_unstable();
    Ok(names)
}
