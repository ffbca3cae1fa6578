//! An [`Observer`] that counts events, and renders the counts in the text format of Prometheus (0.0.4).
//!
//! Labels are bounded. A route is a template and not a path, and after a fixed number of them the rest are counted as
//! `other`; an outcome is one of a closed set. Keys, scopes and operations are never labels.

use crate::observe::{FoundBy, Happening, Observer, What};
use crate::problem::Reason;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The content type of the text from [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The most routes with labels of their own.
const ROUTES_MAX: usize = 256;
/// The longest route label.
const ROUTE_BYTES_MAX: usize = 200;
/// The label of all further routes. No template equals it, as templates have a slash.
const OTHER: &str = "other";

/// The upper bounds of the histograms' buckets, in milliseconds.
const BUCKETS: [u64; 15] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000];

/// The metrics. Clones count together.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Numbers>);

#[derive(Default)]
struct Numbers {
    routes: RwLock<BTreeMap<Box<str>, Arc<Route>>>,
    swept_answers: AtomicU64,
    swept_records: AtomicU64,
    /// By finder, in the order of [`FINDERS`].
    lease_expiries: [AtomicU64; FINDERS.len()],
}

/// Not by route: a sweep does not know it.
const FINDERS: [(FoundBy, &str); 2] = [(FoundBy::Sweep, "sweep"), (FoundBy::Claim, "claim")];

/// The end of a request that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Completed,
    CompletedWithoutAnswer,
    Released,
    Unknown,
    Replayed,
}

impl End {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Completed, "completed"),
        (Self::CompletedWithoutAnswer, "completed_without_answer"),
        (Self::Released, "released"),
        (Self::Unknown, "unknown"),
        (Self::Replayed, "replayed"),
    ];
}

/// A plain counter, by route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Arrived,
    Claims,
    Takeovers,
    Renewals,
    LeaseLosses,
    UnknownOutcomes,
    StillRunning,
    Panics,
    SaveFailures,
    Waits,
    Conflicts,
    Anomalies,
}

impl Count {
    const ALL: [(Self, &'static str, &'static str); 12] = [
        (Self::Arrived, "arrived", "Requests with a sound key, before they were claimed."),
        (Self::Claims, "claims", "Operations granted to this instance."),
        (Self::Takeovers, "takeovers", "Grants of operations that somebody began before and did not end."),
        (Self::Renewals, "renewals", "Renewals of leases that were begun."),
        (
            Self::LeaseLosses,
            "lease_losses",
            "Runs whose grant was lost, so that what they did does not count.",
        ),
        (Self::UnknownOutcomes, "unknown_outcomes", "Runs of which it is not known what came of them."),
        (Self::StillRunning, "still_running", "Takeovers of work that was found to go on elsewhere."),
        (Self::Panics, "panics", "Handlers that panicked, of those with an unknown outcome."),
        (
            Self::SaveFailures,
            "save_failures",
            "Ends that the store could not be told at the first try or a later one.",
        ),
        (Self::Waits, "waits", "Requests that waited for the first with their key."),
        (Self::Conflicts, "conflicts", "Keys that were used for a different request."),
        (Self::Anomalies, "replay_anomalies", "Keys under which many different requests came."),
    ];
}

/// The counts of one route.
#[derive(Default)]
struct Route {
    counts: [AtomicU64; Count::ALL.len()],
    ends: [AtomicU64; End::ALL.len()],
    /// One for each reason, and one for unknown reasons.
    refusals: [AtomicU64; Reason::ALL.len() + 1],
    waited: Histogram,
    ran: Histogram,
}

#[derive(Default)]
struct Histogram {
    /// One for each bucket, and one for larger values.
    counts: [AtomicU64; BUCKETS.len() + 1],
    /// In nanoseconds: enough for five centuries.
    sum: AtomicU64,
}

fn add(counter: &AtomicU64, by: u64) {
    // Only displayed: no other value depends on it.
    counter.fetch_add(by, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Histogram {
    fn observe(&self, took: Duration) {
        let bucket = BUCKETS.iter().position(|bound| took <= Duration::from_millis(*bound));
        add(&self.counts[bucket.unwrap_or(BUCKETS.len())], 1);
        add(&self.sum, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl Route {
    fn count(&self, what: Count) {
        add(&self.counts[what as usize], 1);
    }

    fn end(&self, end: End) {
        add(&self.ends[end as usize], 1);
    }
}

impl Observer for Metrics {
    fn happened(&self, happening: &Happening) {
        let route = || self.route(&happening.route);
        match &happening.what {
            What::Sweeping => {}
            What::Swept(swept) => {
                add(&self.0.swept_answers, swept.answers);
                add(&self.0.swept_records, swept.records);
            }
            What::Arrived => route().count(Count::Arrived),
            What::Claimed { epoch: _, taken_over } => {
                route().count(Count::Claims);
                if *taken_over {
                    route().count(Count::Takeovers);
                }
            }
            What::Renewing { epoch: _ } => route().count(Count::Renewals),
            What::Saving { epoch: _, ran_for } => route().ran.observe(*ran_for),
            What::SaveFailed { epoch: _ } => route().count(Count::SaveFailures),
            What::Saved { epoch: _, status: _, retained: true } => route().end(End::Completed),
            What::Saved { epoch: _, status: _, retained: false } => route().end(End::CompletedWithoutAnswer),
            What::Released { epoch: _ } => route().end(End::Released),
            What::Unknown { epoch: _, panicked } => {
                route().end(End::Unknown);
                route().count(Count::UnknownOutcomes);
                if *panicked {
                    route().count(Count::Panics);
                }
            }
            What::GoesOn { epoch: _ } => route().count(Count::StillRunning),
            What::Lapsed { by } => add(&self.0.lease_expiries[*by as usize], 1),
            What::LeaseLost { epoch: _ } => route().count(Count::LeaseLosses),
            What::Waiting => route().count(Count::Waits),
            What::Waited { waited_for } => route().waited.observe(*waited_for),
            What::Replayed { epoch: _ } => route().end(End::Replayed),
            What::Conflicted => route().count(Count::Conflicts),
            What::ReplayAnomaly { requests: _ } => route().count(Count::Anomalies),
            What::Refused { reason } => {
                let known = Reason::ALL.iter().position(|known| known.name() == *reason);
                add(&route().refusals[known.unwrap_or(Reason::ALL.len())], 1);
            }
        }
    }
}

impl Metrics {
    pub fn new() -> Self {
        Self::default()
    }

    fn route(&self, name: &str) -> Arc<Route> {
        let name = &name[..name.floor_char_boundary(ROUTE_BYTES_MAX)];
        if let Some(route) = self.0.routes.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(route);
        }
        let mut routes = self.0.routes.write().unwrap_or_else(PoisonError::into_inner);
        let name = if routes.len() < ROUTES_MAX || routes.contains_key(name) { name } else { OTHER };
        Arc::clone(routes.entry(name.into()).or_default())
    }

    /// All metrics, in the format of Prometheus.
    pub fn render(&self) -> String {
        let routes = self.0.routes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        write(&mut text, &self.0, &routes).expect("a String takes what is written to it");
        text
    }
}

fn write(text: &mut String, numbers: &Numbers, routes: &BTreeMap<Box<str>, Arc<Route>>) -> fmt::Result {
    for (count, name, help) in Count::ALL {
        let name = format!("perdura_idempotency_{name}_total");
        family(text, &name, "counter", help)?;
        for (label, route) in routes {
            writeln!(text, "{name}{{route=\"{}\"}} {}", Escaped(label), read(&route.counts[count as usize]))?;
        }
    }
    outcomes(text, routes)?;
    histogram(text, "wait", "How long requests waited for the first with their key.", routes, |route| {
        &route.waited
    })?;
    histogram(text, "handler", "How long handlers ran.", routes, |route| &route.ran)?;
    for (name, help, counter) in [
        ("perdura_idempotency_swept_answers_total", "Answers removed by sweeping.", &numbers.swept_answers),
        ("perdura_idempotency_swept_records_total", "Records removed by sweeping.", &numbers.swept_records),
    ] {
        family(text, name, "counter", help)?;
        writeln!(text, "{name} {}", read(counter))?;
    }
    let name = "perdura_idempotency_lease_expiries_total";
    family(text, name, "counter", "Leases that ran out and left an unknown outcome, by who found out.")?;
    for (finder, label) in FINDERS {
        writeln!(text, "{name}{{by=\"{label}\"}} {}", read(&numbers.lease_expiries[finder as usize]))?;
    }
    Ok(())
}

/// Always renders the ends, so that rates have a starting value; a refusal only once it occurred.
fn outcomes(text: &mut String, routes: &BTreeMap<Box<str>, Arc<Route>>) -> fmt::Result {
    let name = "perdura_idempotency_requests_total";
    family(text, name, "counter", "Requests by how they ended: an outcome, or the reason of a refusal.")?;
    let reasons = Reason::ALL.map(|reason| reason.name().to_ascii_lowercase());
    for (label, route) in routes {
        let ends = End::ALL.iter().map(|(end, outcome)| (*outcome, read(&route.ends[*end as usize])));
        let reasons = reasons.iter().map(String::as_str).chain([OTHER]);
        let refusals = reasons.zip(route.refusals.iter().map(read)).filter(|(_, count)| *count > 0);
        for (outcome, count) in ends.chain(refusals) {
            writeln!(text, "{name}{{route=\"{}\",outcome=\"{outcome}\"}} {count}", Escaped(label))?;
        }
    }
    Ok(())
}

fn histogram(
    text: &mut String,
    what: &str,
    help: &str,
    routes: &BTreeMap<Box<str>, Arc<Route>>,
    of: impl Fn(&Route) -> &Histogram,
) -> fmt::Result {
    let name = format!("perdura_idempotency_{what}_seconds");
    family(text, &name, "histogram", help)?;
    for (label, route) in routes {
        let (label, histogram) = (Escaped(label), of(route));
        let mut count = 0;
        for (bucket, bound) in histogram.counts.iter().zip(BUCKETS.map(Some).into_iter().chain([None])) {
            count += read(bucket);
            let bound = bound.map_or("+Inf".to_owned(), |millis| (millis as f64 / 1e3).to_string());
            writeln!(text, "{name}_bucket{{route=\"{label}\",le=\"{bound}\"}} {count}")?;
        }
        writeln!(text, "{name}_sum{{route=\"{label}\"}} {}", read(&histogram.sum) as f64 / 1e9)?;
        writeln!(text, "{name}_count{{route=\"{label}\"}} {count}")?;
    }
    Ok(())
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// A label's value, escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests;
