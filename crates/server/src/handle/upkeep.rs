//! How much there is, and what is too old.

use crate::Refusal;
use crate::control::{Answer, StatsAnswer, Swept, Table, ledger_word};
use crate::data::Data;
use crate::retention::SLICE;
use perdura_engine::Timestamp;
use perdura_store::{Retention, Stats, Totals};

/// How long things are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) ended_for_ms: i64,
    pub(super) ledger_for_ms: i64,
    pub(super) bytes_max: Option<u64>,
}

pub(super) fn stats<D: Data>(data: &mut D) -> Result<Answer, Refusal> {
    let stats = data.read(|reader| reader.stats())?;
    Ok(Answer::Stats(Box::new(told(stats))))
}

fn told(stats: Stats) -> StatsAnswer {
    let Stats { totals, executions, ledger, oldest_pending, tables, bytes } = stats;
    let names = Totals::NAMES.iter().map(ToString::to_string);
    StatsAnswer {
        executions: executions.into_iter().map(|(status, count)| (status.name().to_owned(), count)).collect(),
        ledger: ledger.into_iter().map(|(status, count)| (ledger_word(status).to_owned(), count)).collect(),
        totals: names.zip(totals.values()).collect(),
        oldest_pending,
        repeated_share: share(&totals),
        tables: tables.into_iter().map(|(name, rows, bytes)| Table { name, rows, bytes }).collect(),
        bytes,
    }
}

/// Of all attempts, how many were made again under their key, or were answered although they had been already.
fn share(totals: &Totals) -> f64 {
    let all = totals.steps_sent + totals.steps_repeated + totals.outcomes_late;
    if all == 0 { 0.0 } else { (totals.steps_repeated + totals.outcomes_late) as f64 / all as f64 }
}

pub(super) fn cleanup<D: Data>(data: &mut D, kept: Kept, dry_run: bool) -> Result<Answer, Refusal> {
    if kept.ended_for_ms < 0 || kept.ledger_for_ms < 0 {
        return Err(Refusal::invalid("nothing is older than now"));
    }
    let now = data.now();
    let before = |ms: i64| Timestamp(now.0.saturating_sub(ms));
    let retention = Retention {
        ended_before: before(kept.ended_for_ms),
        ledger_before: before(kept.ledger_for_ms),
        bytes_max: kept.bytes_max,
    };
    let swept = data.sweep(&retention, SLICE, dry_run)?;
    Ok(Answer::Swept(Swept { executions: swept.executions, ledger: swept.ledger, more: swept.more }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_counts_what_was_made_or_answered_twice() {
        assert_eq!(share(&Totals::default()), 0.0);
        let totals = Totals { steps_sent: 7, steps_repeated: 2, outcomes_late: 1, ..Totals::default() };
        assert_eq!(share(&totals), 0.3);
    }
}
