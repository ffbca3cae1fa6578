//! Progress, line by line: `12:00:01.123  ChargeCard  retry 2 in 5 s: States.Timeout`.

use super::story::{Told, What};
use super::tree::pause;
use crate::terminal::{Paint, harmless};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use perdura_engine::{Fault, Timestamp};

/// How much of a cause a line shows.
const CAUSE_SHOWN: usize = 200;

/// Writes lines in local time. A new day has a line of its own.
#[derive(Debug)]
pub(crate) struct Lines {
    zone: TimeZone,
    paint: Paint,
    day: Option<Date>,
}

impl Lines {
    pub(crate) fn new(zone: TimeZone, paint: Paint) -> Self {
        Self { zone, paint, day: None }
    }

    /// The line of an event.
    pub(crate) fn line(&mut self, told: &Told) -> String {
        let what = match &told.what {
            What::Entered => "entered".into(),
            What::Waits { until } => format!("waits {}", pause(told.at, *until)),
            What::Retries { tries, until, fault } => {
                let fault = fault.as_ref().map(|fault| format!(": {}", brief(fault))).unwrap_or_default();
                self.paint.yellow(&format!("retry {tries} in {}{fault}", pause(told.at, *until)))
            }
            What::Succeeded => self.paint.green("succeeded"),
            // Not every error has an event of its own; that of a Fail state in a branch has none.
            What::Caught(fault) if *fault == Fault::default() => self.paint.yellow("caught an error"),
            What::Caught(fault) => self.paint.yellow(&format!("caught {}", brief(fault))),
            What::Failed(fault) if *fault == Fault::default() => self.paint.red("failed"),
            What::Failed(fault) => self.paint.red(&format!("failed: {}", brief(fault))),
            What::Counted { total, done, failed: 0 } => format!("{done} of {total} done"),
            What::Counted { total, done, failed } => format!("{done} of {total} done, {failed} failed"),
        };
        self.at(told.at, &format!("{}  {what}", self.paint.bold(&harmless(&told.whose))))
    }

    /// A sentence with the time before it.
    pub(crate) fn at(&mut self, at: Timestamp, text: &str) -> String {
        let Ok(instant) = jiff::Timestamp::from_millisecond(at.0) else { return format!("{text}\n") };
        let local = instant.to_zoned(self.zone.clone());
        let before = self.day.replace(local.date());
        let day = match before {
            Some(before) if before != local.date() => {
                format!("{}\n", self.paint.dim(&local.date().to_string()))
            }
            _ => String::new(),
        };
        format!("{day}{}  {text}\n", self.paint.dim(&local.strftime("%H:%M:%S%.3f").to_string()))
    }
}

/// Error and cause on one line: `CardDeclined: the card was declined`.
fn brief(fault: &Fault) -> String {
    let cause = fault.cause.as_deref().map(|cause| {
        let line = cause.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let cut: String = line.chars().take(CAUSE_SHOWN).collect();
        if cut.len() < cause.trim_end().len() { format!("{cut}…") } else { cut }
    });
    let parts = [fault.error.as_deref().map(str::to_owned), cause];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    harmless(&parts.join(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_time_state_and_what_happened() {
        let mut lines = Lines::new(TimeZone::UTC, Paint(false));
        let at = Timestamp(1_767_268_801_123);
        let fault = Fault::new("States.Timeout", "no answer\nat line 2");
        let mut line = |what| lines.line(&Told { at, whose: "Pay\u{1b}[3]".into(), what });
        for (what, expected) in [
            (What::Entered, "entered"),
            (What::Waits { until: at.after_seconds(90) }, "waits 1 min 30 s"),
            (
                What::Retries { tries: 2, until: at.after_ms(1500), fault: Some(fault.clone()) },
                "retry 2 in 1.5 s: States.Timeout: no answer…",
            ),
            (What::Retries { tries: 1, until: at, fault: None }, "retry 1 in 0 s"),
            (What::Succeeded, "succeeded"),
            (What::Caught(Fault::named("E")), "caught E"),
            (What::Caught(Fault::default()), "caught an error"),
            (What::Failed(Fault::default()), "failed"),
            (What::Failed(fault), "failed: States.Timeout: no answer…"),
            (What::Counted { total: 200, done: 40, failed: 0 }, "40 of 200 done"),
            (What::Counted { total: 200, done: 40, failed: 2 }, "40 of 200 done, 2 failed"),
        ] {
            assert_eq!(line(what), format!("12:00:01.123  Pay\u{fffd}[3]  {expected}\n"));
        }
    }

    #[test]
    fn a_new_day_has_a_line_of_its_own() {
        let mut lines = Lines::new(TimeZone::UTC, Paint(false));
        let at = Timestamp(1_767_268_801_123);
        assert_eq!(lines.at(at, "a"), "12:00:01.123  a\n");
        assert_eq!(lines.at(at.after_seconds(86_400), "b"), "2026-01-02\n12:00:01.123  b\n");
        assert_eq!(lines.at(Timestamp(i64::MAX), "beyond the calendar"), "beyond the calendar\n");
    }
}
