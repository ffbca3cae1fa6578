//! Metrics in Prometheus's text format. A test compares them with docs/operating.md.

use super::Health;
use crate::sfn::{Api, Went};
use perdura_engine::Timestamp;
use perdura_runtime::{BUCKETS, Reading, bucket_end_us};
use perdura_store::Totals;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// All metrics at one moment.
pub(super) struct Numbers {
    reading: Reading,
    stuck: u64,
    oldest_pending: Option<Timestamp>,
    spans_sent: u64,
    traces_dropped: u64,
    put_off: u64,
    held: u64,
    is_ready: bool,
    calls: Vec<(&'static str, Went, u64)>,
}

impl Numbers {
    pub(super) fn of(health: &Health, api: &Api, is_ready: bool) -> Self {
        Self {
            reading: health.door.gauges(),
            stuck: health.watch.stuck(),
            oldest_pending: health.watch.oldest_pending(),
            spans_sent: health.spans.sent(),
            traces_dropped: health.spans.dropped(),
            held: health.watch.held(),
            put_off: health.put_off.load(Ordering::Relaxed),
            is_ready,
            calls: api.calls(),
        }
    }
}

/// The help texts of the totals, in their order.
const TOTALS: [(&str, &str); 11] = [
    ("executions_started", "Executions that began."),
    ("executions_succeeded", "Executions that ended well."),
    ("executions_failed", "Executions that ended in error, by a stop or by running out of time."),
    ("turns", "Turns."),
    ("steps_sent", "Attempts that were sent."),
    ("steps_completed", "Steps that were done."),
    ("steps_failed", "Attempts that were certainly not done."),
    ("steps_uncertain", "Attempts of which nobody knows."),
    ("steps_repeated", "Attempts of an earlier process that were sent again under the same key."),
    ("outcomes_late", "Answers that came for a step that had one, or was given up."),
    ("executions_redriven", "Executions that had ended and run again."),
];

pub(super) fn text(numbers: &Numbers) -> String {
    let Numbers {
        reading,
        stuck,
        oldest_pending,
        spans_sent,
        traces_dropped,
        put_off,
        held,
        is_ready,
        calls,
    } = numbers;
    let mut out = Page(String::with_capacity(8 * 1024));
    for ((name, help), value) in TOTALS.iter().zip(reading.totals.values()) {
        out.one(&format!("perdura_{name}_total"), "counter", help, value as f64);
    }
    out.one("perdura_executions_in_memory", "gauge", "Executions in memory.", reading.in_memory as f64);
    out.one("perdura_executions_parked", "gauge", "Executions that were set aside.", reading.parked as f64);
    let help = "Tasks of activities that wait for a worker.";
    out.one("perdura_activity_tasks_waiting", "gauge", help, reading.tasks as f64);
    let help = "Workers that wait for a task of an activity.";
    out.one("perdura_activity_workers_waiting", "gauge", help, reading.polls as f64);
    let help = "Attempts sent more than five minutes ago that nobody tries.";
    out.one("perdura_steps_stuck", "gauge", help, *stuck as f64);
    let oldest = oldest_pending.map_or(0.0, |at| at.0 as f64 / 1000.0);
    let help = "When the oldest pending attempt was sent, in seconds since 1970; 0: there is none.";
    out.one("perdura_oldest_pending_timestamp_seconds", "gauge", help, oldest);
    let help = "Machines that are paused; all of them together count as one.";
    out.one("perdura_pauses", "gauge", help, reading.pauses as f64);
    let help = "Executions that sleep because their machine is paused, counted once a minute.";
    out.one("perdura_executions_held", "gauge", help, *held as f64);
    let help = "Spans that the collector has taken.";
    out.one("perdura_spans_sent_total", "counter", help, *spans_sent as f64);
    let help = "Executions whose trace was not told, or not all of it.";
    out.one("perdura_traces_dropped_total", "counter", help, *traces_dropped as f64);
    let help = "Times that a call was put off because this machine lacked files, memory, processes or ports.";
    out.one("perdura_calls_put_off_total", "counter", help, *put_off as f64);
    let help = "1 if the data can be written and work moves.";
    out.one("perdura_ready", "gauge", help, f64::from(u8::from(*is_ready)));
    out.head("perdura_api_calls_total", "counter", "Calls of the Step Functions API.");
    for (action, went, count) in calls {
        let went = went.name();
        out.line(format_args!("perdura_api_calls_total{{action=\"{action}\",went=\"{went}\"}} {count}"));
    }
    out.commits(reading);
    let version = env!("CARGO_PKG_VERSION");
    out.head("perdura_build_info", "gauge", "The version.");
    out.line(format_args!("perdura_build_info{{version=\"{version}\"}} 1"));
    debug_assert_eq!(TOTALS.len(), Totals::NAMES.len(), "each total has a name here");
    out.0
}

/// Lines of the text format.
struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a String cannot fail");
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(format_args!("{name} {value}"));
    }

    /// How long commits take. Of the fine buckets, only whole powers of two are shown.
    fn commits(&mut self, reading: &Reading) {
        let name = "perdura_commit_seconds";
        self.head(name, "histogram", "How long a commit took.");
        let per_power = BUCKETS / 26;
        let mut seen = 0;
        for (at, count) in reading.buckets.iter().enumerate() {
            seen += count;
            if at % per_power == per_power - 1 && at + 1 < BUCKETS {
                let le = bucket_end_us(at) / 1e6;
                self.line(format_args!("{name}_bucket{{le=\"{le}\"}} {seen}"));
            }
        }
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {}", reading.commits));
        self.line(format_args!("{name}_sum {}", reading.commit_us as f64 / 1e6));
        self.line(format_args!("{name}_count {}", reading.commits));
    }
}
