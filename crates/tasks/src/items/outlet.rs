//! Writes a file a block at a time, so that it exists whole or not at all.
//!
//! In a store it is one request, or an upload in parts once it is larger than a block. In a folder it is written under
//! another name and renamed when it is on disk. Writing it again replaces it, so that a second try after a crash ends
//! the same as the first.

use super::folder::{Folder, blocking, trouble as file_trouble};
use super::place::PlaceError;
use super::s3::{S3, Upload};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// The size of a part, and so the memory for one file. Stores want at least 5 MiB, and equal parts.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// The suffix of a file's name until it is complete.
pub(super) const UNFINISHED: &str = ".unfinished";

/// A file under way.
pub(super) struct Outlet {
    block: Vec<u8>,
    to: Target,
}

enum Target {
    S3 { s3: Box<S3>, key: String, upload: Option<Upload> },
    Folder { file: Arc<File>, unfinished: PathBuf, path: PathBuf },
}

impl Outlet {
    pub(super) fn of_s3(s3: &S3, key: &str) -> Self {
        let to = Target::S3 { s3: Box::new(s3.clone()), key: key.to_owned(), upload: None };
        Self { block: Vec::new(), to }
    }

    pub(super) async fn of_folder(folder: &Folder, key: &str) -> Result<Self, PlaceError> {
        let (folder, key) = (folder.clone(), key.to_owned());
        let to = blocking(move || {
            let path = folder.prepare(&key)?;
            let mut unfinished = path.clone().into_os_string();
            unfinished.push(UNFINISHED);
            let file = File::create(&unfinished).map_err(|error| file_trouble(&error))?;
            Ok(Target::Folder { file: Arc::new(file), unfinished: unfinished.into(), path })
        });
        Ok(Self { block: Vec::new(), to: to.await? })
    }

    /// Appends bytes.
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), PlaceError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PART_BYTES - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == PART_BYTES {
                let block = std::mem::take(&mut self.block);
                self.send(block).await?;
            }
        }
        Ok(())
    }

    /// Completes the file, or removes what was sent.
    pub(super) async fn finish(mut self) -> Result<(), PlaceError> {
        let finished = self.finish_now().await;
        if finished.is_err() {
            self.discard().await;
        }
        finished
    }

    async fn finish_now(&mut self) -> Result<(), PlaceError> {
        let block = std::mem::take(&mut self.block);
        if let Target::S3 { s3, key, upload: None } = &self.to {
            return s3.put(key, block).await;
        }
        if !block.is_empty() {
            self.send(block).await?;
        }
        match &mut self.to {
            Target::S3 { upload: None, .. } => Ok(()),
            Target::S3 { s3, key, upload: Some(upload) } => s3.complete(key, upload).await,
            Target::Folder { file, unfinished, path } => {
                let (file, unfinished, path) = (file.clone(), unfinished.clone(), path.clone());
                let finish = move || {
                    file.sync_all()?;
                    fs::rename(&unfinished, &path)?;
                    // The name is on disk when its folder is synced.
                    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
                };
                blocking(move || finish().map_err(|error| file_trouble(&error))).await
            }
        }
    }

    /// Removes what was sent, because stores charge for the parts of an unfinished file.
    pub(super) async fn discard(self) {
        let discarded = match self.to {
            Target::S3 { s3, key, upload: Some(upload) } => s3.abort(&key, &upload).await,
            Target::S3 { upload: None, .. } => Ok(()),
            Target::Folder { unfinished, .. } => {
                blocking(move || fs::remove_file(unfinished).map_err(|error| file_trouble(&error))).await
            }
        };
        if let Err(error) = discarded {
            tracing::warn!(%error, "the parts of an unfinished file of results could not be removed");
        }
    }

    async fn send(&mut self, block: Vec<u8>) -> Result<(), PlaceError> {
        match &mut self.to {
            Target::S3 { s3, key, upload } => {
                let upload = match upload {
                    Some(upload) => upload,
                    none => none.insert(s3.begin(key).await?),
                };
                s3.put_part(key, upload, block).await
            }
            Target::Folder { file, .. } => {
                let file = file.clone();
                blocking(move || (&*file).write_all(&block).map_err(|error| file_trouble(&error))).await
            }
        }
    }
}
