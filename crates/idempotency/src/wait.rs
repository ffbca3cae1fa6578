//! Waits for the end of the first request on any instance: notified by the store, and polling now and then as well.

use crate::asked::{Asked, random};
use crate::door::{Door, store_problem};
use crate::observe::What;
use crate::problem::{Problem, Reason};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The pause between polls: the first and the longest.
const ASK_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The longest `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// The result of a wait.
pub(crate) enum Waited {
    /// The first request has an end, or its lease ran out.
    Changed,
    /// The first request ended and did nothing.
    NotApplied,
    /// It still runs, and the wait timed out; or the caller has used its share of places.
    InVain,
}

/// Waits until the operation no longer runs, or until the timeout. A request that waited for one that did nothing gets
/// 409, and does not run in its place: otherwise all waiters would run, one after the other.
pub(crate) async fn for_change(
    door: &Door,
    asked: &Asked,
    patience_until: Instant,
) -> Result<Waited, Problem> {
    let operation = asked.operation;
    let Some(_place) = door.waiting.take(operation, asked.scope_tag) else { return Ok(Waited::InVain) };
    door.tell(&asked.route, Some(operation), What::Waiting);
    let began = Instant::now();
    let mut ask_after = ASK_AFTER.0;
    let waited = loop {
        // Listen before looking, so that a change in between is noticed.
        let changed = door.store.changed(operation);
        match door.store.look(operation).await.map_err(|error| store_problem(&error))? {
            Some(record) if record.standing.is_running() => {}
            Some(_) => break Waited::Changed,
            None => break Waited::NotApplied,
        }
        if Instant::now() >= patience_until {
            break Waited::InVain;
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = sleep_until(patience_until.min(Instant::now() + ask_after)) => ask_after = (ask_after * 2).min(ASK_AFTER.1),
        }
    };
    door.tell(&asked.route, Some(operation), What::Waited { waited_for: began.elapsed() });
    Ok(waited)
}

/// The 409 after a wait timed out: retry after about the duration of such a request, with jitter.
pub(crate) fn in_progress(asked: &Asked) -> Problem {
    Problem::new(Reason::InProgress).about(asked.operation).retry_after(spread(asked))
}

/// The 409 after waiting for a request that did nothing.
pub(crate) fn not_applied(asked: &Asked) -> Problem {
    Problem::new(Reason::NotApplied).about(asked.operation).retry_after(spread(asked))
}

fn spread(asked: &Asked) -> Duration {
    let pace = Duration::from_micros(asked.route.pace.load(Ordering::Relaxed));
    let [drawn] = random();
    let spread = f64::from(drawn) / 510.0;
    pace.mul_f64(1.0 + spread).clamp(Duration::from_secs(1), RETRY_AFTER_MAX)
}
