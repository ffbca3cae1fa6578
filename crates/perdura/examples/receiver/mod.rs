//! Somebody outside who knows keys: what was done under one is not done again.
//!
//! It stands for a payment service or a mail service. It keeps one line for each thing it did, with the key in it, so
//! that the thing and the knowledge that it was done are one write.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Cloning shares.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    file: Arc<Mutex<File>>,
}

impl Receiver {
    /// With what it did in former lives.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        Ok(Self { file: Arc::new(Mutex::new(file)) })
    }

    /// Does a thing, unless it was done under this key; whether it was new.
    pub(crate) fn once(&self, key: &str, what: &str) -> io::Result<bool> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if read(&mut file)?.lines().any(|line| line.starts_with(key)) {
            return Ok(false);
        }
        file.write_all(format!("{key} {what}\n").as_bytes())?;
        file.sync_data()?;
        Ok(true)
    }

    /// All that it did, in order, without the keys.
    pub(crate) fn done(&self) -> io::Result<Vec<String>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let text = read(&mut file)?;
        Ok(text.lines().filter_map(|line| line.split_once(' ')).map(|(_, what)| what.to_owned()).collect())
    }
}

fn read(file: &mut File) -> io::Result<String> {
    use std::io::Seek;
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}
