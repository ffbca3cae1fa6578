//! The clock of a store that lives in this process. The stores that are servers of their own bring theirs.

use jiff::Timestamp;
use std::sync::Arc;

/// Says what time it is. Tests bring one that stands still until it is told to go on.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of this machine.
pub(crate) fn system() -> Clock {
    Arc::new(Timestamp::now)
}
