//! A file that stands for the outside world: what is written there was done, and cannot be undone. Beside it the outside
//! world counts how often it was asked, whatever it made of that.

use perdura_idempotency::record::Epoch;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One JSON object per line. Several processes may write to it.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<PathBuf>);

impl Ledger {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(Arc::new(path))
    }

    /// Does it. The outside world knows nothing of keys: asked twice, it does it twice.
    pub(crate) async fn append(&self, line: Value) -> io::Result<()> {
        self.asked(|| (), line, |_| true).await.map(|_done| ())
    }

    /// Does it unless it was done under this key: a receiver that honours keys.
    pub(crate) async fn append_once(&self, line: Value) -> io::Result<()> {
        let key = line["key"].clone();
        self.asked(|| (), line, move |there| there["key"] != key).await.map(|_done| ())
    }

    /// Does it unless somebody with a larger epoch came before: a receiver that refuses old writers. It says whether it
    /// was done. `on_the_way` is between sending it and its arrival.
    pub(crate) async fn append_unless_older(
        &self,
        epoch: Epoch,
        mut line: Value,
        on_the_way: impl FnOnce() + Send + 'static,
    ) -> io::Result<bool> {
        line["epoch"] = epoch.0.into();
        let reference = line["reference"].clone();
        let is_newer = move |there: &Value| {
            there["reference"] != reference || there["epoch"].as_u64().is_none_or(|there| there <= epoch.0)
        };
        self.asked(on_the_way, line, is_newer).await
    }

    /// All that was done under this reference.
    pub(crate) async fn about(&self, reference: &str) -> io::Result<Vec<Value>> {
        let lines = self.locked(|| (), read).await?;
        Ok(lines.into_iter().filter(|line| line["reference"] == reference).collect())
    }

    /// All that was asked for under this reference, in vain or not.
    pub(crate) async fn attempts(&self, reference: &str) -> io::Result<Vec<Value>> {
        Self::at(self.beside("attempts")).about(reference).await
    }

    /// Another file of this service, beside the ledger.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.0.with_added_extension(name)
    }

    /// Somebody asks for it. It is done if all that was done before is such that it may be.
    async fn asked(
        &self,
        on_the_way: impl FnOnce() + Send + 'static,
        line: Value,
        may: impl Fn(&Value) -> bool + Send + 'static,
    ) -> io::Result<bool> {
        let attempts = self.beside("attempts");
        let work = move |file: &mut File| {
            // A line for each time, before anything is decided.
            write(&mut OpenOptions::new().append(true).create(true).open(attempts)?, &line)?;
            let is_done = read(file)?.iter().all(may);
            if is_done {
                write(file, &line)?;
            }
            Ok(is_done)
        };
        self.locked(on_the_way, work).await
    }

    async fn locked<T: Send + 'static>(
        &self,
        before: impl FnOnce() + Send + 'static,
        work: impl FnOnce(&mut File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let path = self.0.clone();
        blocking(move || {
            before();
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(&*path)?;
            file.lock()?;
            work(&mut file)
        })
        .await
    }
}

fn write(file: &mut File, line: &Value) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
}

fn read(file: &mut File) -> io::Result<Vec<Value>> {
    BufReader::new(file).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

/// Writes a file that is there as a whole or not at all, also after a crash. The first one written stays: whoever comes
/// second is told `false`.
pub(crate) fn write_first(path: &Path, content: &Value) -> io::Result<bool> {
    let draft =
        path.with_added_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
    let mut file = File::create(&draft)?;
    write(&mut file, content)?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Ok(()) => {
            File::open(path.parent().expect("a file is in a folder"))?.sync_all()?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// On a thread that may wait for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await?
}
