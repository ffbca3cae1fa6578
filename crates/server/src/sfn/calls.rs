//! Calls by action and result, for metrics.

use super::actions::{ACTIONS, place};
use super::error::ApiError;
use std::sync::atomic::{AtomicU64, Ordering};

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    Done,
    /// The caller has to change something.
    Refused,
    /// The same call may succeed later.
    Unavailable,
}

impl Went {
    pub const ALL: [Self; 3] = [Self::Done, Self::Refused, Self::Unavailable];

    /// As metrics spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        }
    }

    fn of<T>(answer: &Result<T, ApiError>) -> Self {
        match answer {
            Ok(_) => Self::Done,
            Err(error) if error.is_passing() => Self::Unavailable,
            Err(_) => Self::Refused,
        }
    }
}

/// Counts by action, in the order of the table, and by result.
pub(super) struct Calls([[AtomicU64; 3]; ACTIONS.len()]);

impl Default for Calls {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Calls {
    pub(super) fn count<T>(&self, action: &str, answer: &Result<T, ApiError>) {
        if let Some(at) = place(action) {
            self.0[at][Went::of(answer) as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts that are not zero.
    pub(super) fn counts(&self) -> Vec<(&'static str, Went, u64)> {
        let all = ACTIONS.iter().zip(&self.0).flat_map(|(action, counts)| {
            Went::ALL
                .iter()
                .zip(counts)
                .map(|(went, count)| (action.name, *went, count.load(Ordering::Relaxed)))
        });
        all.filter(|(_, _, count)| *count > 0).collect()
    }
}
