//! The data of a run: in memory, or for some seeds in a real SQLite file.

use perdura_engine::Timestamp;
use perdura_engine::asl::machine::MachineType;
use perdura_store::sqlite::{SqliteOptions, SqliteStore};
use perdura_store::{Catalog, MemoryStore, NewMachine, Reader, RevisionId, Store};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The store that all processes of a run share.
pub(crate) enum Home {
    Memory(MemoryStore),
    /// A file. The keeper holds its lock, and every process has a handle beside it. It is dropped before its folder.
    Disk {
        keeper: Option<Box<SqliteStore>>,
        shards: u16,
        folder: Folder,
    },
}

impl Home {
    /// An empty store with this many Shards.
    pub(crate) fn new(shards: u16, on_disk: bool) -> Self {
        if !on_disk {
            return Self::Memory(MemoryStore::new(shards));
        }
        let folder = Folder::new();
        let keeper = Some(Box::new(open(folder.path(), shards)));
        Self::Disk { keeper, shards, folder }
    }

    /// A handle for one process.
    pub(crate) fn handle(&self) -> Box<dyn Store> {
        match self {
            Self::Memory(memory) => Box::new(memory.clone()),
            Self::Disk { keeper, .. } => Box::new(
                keeper_of(keeper.as_deref()).beside().expect("a file that is open can be opened beside"),
            ),
        }
    }

    /// A reader for the checkers.
    pub(crate) fn reader(&self) -> Box<dyn Reader> {
        let reader = match self {
            Self::Memory(memory) => memory.reader(),
            Self::Disk { keeper, .. } => keeper_of(keeper.as_deref()).reader(),
        };
        reader.expect("what is open can be read")
    }

    /// All handles are gone: closes the file without a release and opens it again.
    pub(crate) fn reopen(&mut self) {
        if let Self::Disk { keeper, shards, folder } = self {
            drop(keeper.take());
            *keeper = Some(Box::new(open(folder.path(), *shards)));
        }
    }

    /// Deploys a definition.
    pub(crate) fn deploy(&self, name: &str, definition: &str) -> RevisionId {
        let new = NewMachine {
            name: name.into(),
            kind: MachineType::Standard,
            definition: definition.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(0),
        };
        self.handle()
            .deploy(&new, None)
            .expect("a definition can be stored before anything goes wrong")
            .revision
    }
}

fn keeper_of(keeper: Option<&SqliteStore>) -> &SqliteStore {
    keeper.expect("it is only away while the file is opened again")
}

fn open(folder: &Path, shards: u16) -> SqliteStore {
    let options =
        SqliteOptions { shards, cache_bytes: 1 << 20, log_bytes: 1 << 20, ..SqliteOptions::default() };
    SqliteStore::open(folder, options).expect("a folder of our own can be opened")
}

/// A folder that is deleted with the run.
pub(crate) struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // The simulation does not depend on disk behaviour, so a RAM disk will do if there is one.
        let memory = Path::new("/dev/shm");
        let within = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = within.join(format!("perdura-sim-{}-{number}", std::process::id()));
        // Remove the folder of an earlier process with the same number.
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
