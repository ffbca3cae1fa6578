//! Pulling the plug at a named point, so that it can be seen what a crash or a pause does exactly there.
//!
//! The layer tells observers each thing before it does it; a signal to oneself at that moment ends or stops the process
//! between two of its steps. Where the plug is pulled while an operation runs, that operation waits for it before its
//! deed, so that chance has no part in the order of the two.

use perdura_idempotency::observe::{Happening, Observer, What};
use rustix::process::{Signal, getpid, kill_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::block_in_place;

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
    /// Before the lease is renewed, while the operation runs.
    Renewing,
    /// When the lease was renewed once, and is about to be renewed again.
    Renewed,
    /// Between two batches of expired records that are removed, while the operation runs.
    Sweeping,
    /// When the process was told to end and waits for the operation.
    Draining,
}

impl Point {
    const ALL: [(&str, Self); 10] = [
        ("arrived", Self::Arrived),
        ("claimed", Self::Claimed),
        ("before-effect", Self::BeforeEffect),
        ("after-effect", Self::AfterEffect),
        ("saving", Self::Saving),
        ("saved", Self::Saved),
        ("renewing", Self::Renewing),
        ("renewed", Self::Renewed),
        ("sweeping", Self::Sweeping),
        ("draining", Self::Draining),
    ];

    /// Whether it comes while an operation runs, and not by its running.
    fn is_beside(self) -> bool {
        match self {
            Self::Arrived
            | Self::Claimed
            | Self::BeforeEffect
            | Self::AfterEffect
            | Self::Saving
            | Self::Saved => false,
            Self::Renewing | Self::Renewed | Self::Sweeping | Self::Draining => true,
        }
    }
}

/// Ends or stops this process the first time that an operation comes to a point.
#[derive(Clone, Default)]
pub(crate) struct Plug(Arc<Wire>);

#[derive(Default)]
struct Wire {
    armed: Option<(Point, Signal)>,
    /// Some operation was claimed.
    live: watch::Sender<bool>,
    renewals: AtomicU32,
    pulled: AtomicBool,
    /// It was pulled, and the process goes on.
    over: watch::Sender<bool>,
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
        if wire.pulled.swap(true, Ordering::SeqCst) {
            return;
        }
        kill_process(getpid(), signal).expect("a process may signal itself");
        // The signal is for the process, and on a busy machine it reaches this thread late: it must not go on meanwhile.
        std::thread::sleep(Duration::from_millis(500));
        wire.over.send_replace(true);
    }

    /// The operation goes on when what is to happen beside it has happened.
    pub(crate) async fn passed(&self) {
        if self.0.armed.is_some_and(|(point, _)| point.is_beside()) {
            let over = self.0.over.subscribe().wait_for(|over| *over).await.is_ok();
            assert!(over, "the sender is held by self");
        }
    }

    /// Sweeping begins when there is an operation beside it.
    fn await_live(&self) {
        if self.0.armed.is_some_and(|(point, _)| point == Point::Sweeping) {
            let mut live = self.0.live.subscribe();
            let live = block_in_place(|| Handle::current().block_on(live.wait_for(|live| *live)).is_ok());
            assert!(live, "the sender is held by self");
        }
    }
}

impl Observer for Plug {
    fn happened(&self, happening: &Happening) {
        let point = match happening.what {
            What::Arrived => Point::Arrived,
            What::Claimed { .. } => {
                self.0.live.send_replace(true);
                Point::Claimed
            }
            What::Renewing { .. } => match self.0.renewals.fetch_add(1, Ordering::SeqCst) {
                0 => Point::Renewing,
                _ => Point::Renewed,
            },
            What::Saving { .. } => Point::Saving,
            What::Saved { .. } => Point::Saved,
            What::Sweeping => return self.await_live(),
            What::Swept(_) => Point::Sweeping,
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
            | What::Refused { .. } => return,
        };
        self.at(point);
    }
}
