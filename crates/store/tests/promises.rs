//! SQLite keeps what every store promises.

mod folder;

use folder::TempFolder;
use perdura_store::conformance::Home;
use perdura_store::{SqliteOptions, SqliteStore, Store};

struct OnDisk {
    /// Before the folder, which goes last.
    store: Option<SqliteStore>,
    options: SqliteOptions,
    folder: TempFolder,
}

impl OnDisk {
    fn new(shards: u16) -> Self {
        let options = SqliteOptions { shards, ..SqliteOptions::default() };
        let mut home = Self { store: None, options, folder: TempFolder::new() };
        home.restart();
        home
    }
}

impl Home for OnDisk {
    fn handle(&mut self) -> Box<dyn Store> {
        Box::new(self.store.as_ref().unwrap().beside().unwrap())
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(SqliteStore::open(self.folder.path(), self.options).unwrap());
    }
}

perdura_store::store_conformance!(OnDisk::new);
