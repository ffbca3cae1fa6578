//! A folder of its own, gone with the test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("idempotency-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    /// Where a database may be.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("idempotency.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is under the target directory, and harms nobody.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
