//! Pulling the plug at a named point, so that it can be seen what a crash or a pause does exactly there.
//!
//! The layer tells observers each thing before it does it; a signal to oneself at that moment ends or stops the process
//! between two of its steps.

use perdura_idempotency::observe::{Happening, Observer, What};
use rustix::process::{Signal, getpid, kill_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where in the life of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before it is claimed.
    Arrived,
    /// Claimed, before the handler runs.
    Claimed,
    /// In the handler, before it does anything.
    BeforeEffect,
    /// In the handler, when it was done.
    AfterEffect,
    /// Before the end is recorded.
    Saving,
    /// The end is recorded, and nobody was answered.
    Saved,
    /// Before the lease is renewed.
    Renewing,
    /// Before expired records are removed, while the operation runs.
    Sweeping,
    /// When the process was told to end, while the operation runs.
    Shutdown,
}

impl Point {
    const ALL: [(&str, Self); 9] = [
        ("arrived", Self::Arrived),
        ("claimed", Self::Claimed),
        ("before-effect", Self::BeforeEffect),
        ("after-effect", Self::AfterEffect),
        ("saving", Self::Saving),
        ("saved", Self::Saved),
        ("renewing", Self::Renewing),
        ("sweeping", Self::Sweeping),
        ("shutdown", Self::Shutdown),
    ];
}

/// Ends or stops this process the first time that an operation comes to a point.
#[derive(Clone, Default)]
pub(crate) struct Plug(Arc<Wire>);

#[derive(Default)]
struct Wire {
    armed: Option<(Point, Signal)>,
    /// Some operation was claimed.
    live: AtomicBool,
    pulled: AtomicBool,
}

impl Plug {
    /// Reads `POINT`, `POINT=kill` or `POINT=stop`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (point, how) = text.split_once('=').unwrap_or((text, "kill"));
        let signal = match how {
            "kill" => Signal::KILL,
            "stop" => Signal::STOP,
            other => return Err(format!("{other}: it is kill or stop")),
        };
        let point = Point::ALL.iter().find(|(name, _)| *name == point).map(|(_, point)| *point);
        let point = point.ok_or_else(|| {
            let names: Vec<_> = Point::ALL.iter().map(|(name, _)| *name).collect();
            format!("{text}: the points are {}", names.join(", "))
        })?;
        Ok(Self(Arc::new(Wire { armed: Some((point, signal)), ..Wire::default() })))
    }

    /// The operation is at this point.
    pub(crate) fn at(&self, point: Point) {
        let wire = &self.0;
        let Some((_, signal)) = wire.armed.filter(|(armed, _)| *armed == point) else { return };
        let needs_live = matches!(point, Point::Sweeping | Point::Shutdown);
        if (needs_live && !wire.live.load(Ordering::SeqCst)) || wire.pulled.swap(true, Ordering::SeqCst) {
            return;
        }
        kill_process(getpid(), signal).expect("a process may signal itself");
        // The signal is for the process, and may reach this thread last: it must not go on meanwhile.
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Observer for Plug {
    fn happened(&self, happening: &Happening) {
        let point = match happening.what {
            What::Arrived => Point::Arrived,
            What::Claimed { .. } => {
                self.0.live.store(true, Ordering::SeqCst);
                Point::Claimed
            }
            What::Renewing { .. } => Point::Renewing,
            What::Saving { .. } => Point::Saving,
            What::Saved { .. } => Point::Saved,
            What::Sweeping => Point::Sweeping,
            What::SaveFailed { .. }
            | What::Released { .. }
            | What::Unknown { .. }
            | What::GoesOn { .. }
            | What::Lapsed { .. }
            | What::LeaseLost { .. }
            | What::Waiting
            | What::Waited { .. }
            | What::Replayed { .. }
            | What::Conflicted
            | What::ReplayAnomaly { .. }
            | What::Swept(_)
            | What::Refused { .. } => return,
        };
        self.at(point);
    }
}
