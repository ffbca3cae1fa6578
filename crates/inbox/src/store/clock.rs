//! The clock of a store that lives in this process. PostgreSQL brings its own.

use jiff::Timestamp;
use std::sync::Arc;
#[cfg(feature = "sqlite")]
use std::time::Instant;

/// Says what time it is. Tests bring one that stands still until it is told to go on.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of this machine.
pub(crate) fn system() -> Clock {
    Arc::new(Timestamp::now)
}

/// The clock of this machine, for rows of earlier processes: it begins no earlier than the newest time on record, and time
/// passes by it whatever becomes of the machine's clock. Rows that arrived before the machine's clock was set back would
/// otherwise not be claimed for so long.
#[cfg(feature = "sqlite")]
pub(crate) fn not_before(newest: Option<Timestamp>) -> Clock {
    let (began_at, began) = (Timestamp::now(), Instant::now());
    let least = newest.map_or(began_at, |newest| newest.max(began_at));
    Arc::new(move || {
        let passed = least.checked_add(began.elapsed()).unwrap_or(Timestamp::MAX);
        Timestamp::now().max(passed)
    })
}
