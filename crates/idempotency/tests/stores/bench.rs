//! Stores under test on one machine: two instances, and a clock that stands still until it is told to go on, or back.

use jiff::{SignedDuration, Timestamp};
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::sqlite::{Options, Sqlite};
use perdura_idempotency::store::{Clock, Memory, Pending, Store};
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// The memory of one process.
pub(crate) fn memory() -> Bench {
    let clock = StandingClock::new();
    let memory = Arc::new(Memory::with_clock(clock.clock()));
    clock.bench([memory.clone(), memory], true, ())
}

/// One SQLite file, and where it is.
pub(crate) fn sqlite(options: &Options) -> (Bench, PathBuf) {
    let (folder, clock) = (Folder::new(), StandingClock::new());
    let file = folder.file();
    let instances = clock.open_twice(&file, options);
    (clock.bench(instances, false, folder), file)
}

/// Microseconds since 1970. A clone is the same clock.
#[derive(Clone)]
pub(crate) struct StandingClock(Arc<AtomicI64>);

impl StandingClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_123_456)))
    }

    /// Goes by so many seconds, also back.
    pub(crate) fn step(&self, seconds: f64) {
        self.0.fetch_add((seconds * 1e6).round() as i64, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let micros = self.0.clone();
        Arc::new(move || {
            Timestamp::from_microsecond(micros.load(Ordering::SeqCst)).expect("a time that can be told")
        })
    }

    /// Two instances on one file, on this clock.
    pub(crate) fn open_twice(&self, file: &Path, options: &Options) -> [Arc<dyn Store>; 2] {
        [(), ()].map(|()| -> Arc<dyn Store> {
            Arc::new(Sqlite::open_with_clock(file, options, self.clock()).expect("a file to work with"))
        })
    }

    /// Two instances of a store that lives on this clock, and what has to last as long as they do.
    pub(crate) fn bench(
        self,
        instances: [Arc<dyn Store>; 2],
        hears_others: bool,
        keeps: impl Send + Sync + 'static,
    ) -> Bench {
        let step = move |time: SignedDuration| -> Pending<'static, ()> {
            let _kept = &keeps;
            self.step(time.as_secs_f64());
            Box::pin(ready(()))
        };
        Bench::new(instances, hears_others, Box::new(step))
    }
}

/// A folder of its own, gone with the test.
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
