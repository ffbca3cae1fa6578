//! Waiting for the first request to end, wherever it runs: woken by the store, and asking it now and then as well.

use crate::asked::{Asked, random};
use crate::door::{Door, store_problem};
use crate::observe::What;
use crate::problem::{Problem, Reason};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How soon, and later how rarely, the store is asked whether anything changed.
const ASK_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The longest time that a caller is told to wait before it comes again.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// How a wait ended.
pub(crate) enum Waited {
    /// The first request has an end, or its lease ran out.
    Changed,
    /// It ended, and nothing of it was done.
    NotApplied,
    /// It still runs, and patience is over; or all places that its caller may wait in are taken.
    InVain,
}

/// Waits until the operation no longer runs, or until patience is over. Who waits for one that did nothing is told so, and
/// does not run it in its place: otherwise each of those who wait would, one after the other.
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
        // Hung up before looking, so that what changes in between is heard.
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

/// What one is told who waited in vain: to come again after about as long as such a request takes, each at another time.
pub(crate) fn in_progress(asked: &Asked) -> Problem {
    Problem::new(Reason::InProgress).about(asked.operation).retry_after(spread(asked))
}

/// What one is told who waited for a request that did nothing.
pub(crate) fn not_applied(asked: &Asked) -> Problem {
    Problem::new(Reason::NotApplied).about(asked.operation).retry_after(spread(asked))
}

fn spread(asked: &Asked) -> Duration {
    let pace = Duration::from_micros(asked.route.pace.load(Ordering::Relaxed));
    let [drawn] = random();
    let spread = f64::from(drawn) / 510.0;
    pace.mul_f64(1.0 + spread).clamp(Duration::from_secs(1), RETRY_AFTER_MAX)
}
