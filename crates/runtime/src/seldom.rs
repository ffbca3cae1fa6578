//! Lines of the log that could come many at once: told once in a while, with how many were left out.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a kind of line is silent after one was told.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// One kind of line.
#[derive(Debug)]
pub struct Seldom(Mutex<Told>);

#[derive(Debug)]
struct Told {
    last_at: Option<Instant>,
    left_out: u64,
}

impl Default for Seldom {
    fn default() -> Self {
        Self::new()
    }
}

impl Seldom {
    /// It was not told yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Told { last_at: None, left_out: 0 }))
    }

    /// Whether to tell it now, and how many were left out since the last.
    pub fn turn(&self) -> Option<u64> {
        self.turn_at(Instant::now())
    }

    fn turn_at(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.last_at.is_some_and(|last_at| now.saturating_duration_since(last_at) < SILENT_FOR) {
            told.left_out += 1;
            return None;
        }
        told.last_at = Some(now);
        Some(std::mem::take(&mut told.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_once_in_a_while_with_a_count() {
        let (line, began) = (Seldom::new(), Instant::now());
        assert_eq!(line.turn_at(began), Some(0));
        for ms in 0..500 {
            assert_eq!(line.turn_at(began + Duration::from_millis(ms)), None);
        }
        assert_eq!(line.turn_at(began + SILENT_FOR), Some(500));
        assert_eq!(line.turn_at(began + SILENT_FOR * 2), Some(0));
    }
}
