//! Statistics, cleanup and compaction.

use super::pauses;
use crate::Refusal;
use crate::control::{Answer, FreeRoom, StatsAnswer, Swept, Table, ledger_word};
use crate::data::Data;
use crate::retention::{COUNTED_AT_ONCE, PAGES, PAUSE, SLICE};
use perdura_engine::{Status, Timestamp};
use perdura_store::{Retention, Stats, SweepPlace, Totals};

/// How long one request works before it answers; the client asks again if there is more.
const ANSWERED_AFTER_MS: i64 = 2_000;

/// How long a cleanup keeps things.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) ended_for_ms: i64,
    pub(super) ledger_for_ms: i64,
    pub(super) bytes_max: Option<u64>,
}

pub(super) fn who() -> Answer {
    Answer::Who { pid: std::process::id(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

pub(super) fn stats<D: Data>(data: &mut D) -> Result<Answer, Refusal> {
    // In this order: an execution that gets its row between the two reads is counted once.
    let mut stats = data.read(|reader| reader.stats())?;
    let unlisted = data.unlisted()?;
    match stats.executions.iter_mut().find(|(status, _)| *status == Status::Running) {
        Some((_, running)) => *running += unlisted,
        None if unlisted > 0 => stats.executions.push((Status::Running, unlisted)),
        None => {}
    }
    let counts = data.read(|reader| reader.held_counts())?;
    let (paused, held) = (pauses::paused(data, &counts)?, counts.values().sum());
    Ok(Answer::Stats(Box::new(StatsAnswer { paused, held, ..told(stats) })))
}

fn told(stats: Stats) -> StatsAnswer {
    let Stats { totals, executions, ledger, oldest_pending, tables, bytes, room } = stats;
    let names = Totals::NAMES.iter().map(ToString::to_string);
    StatsAnswer {
        executions: executions.into_iter().map(|(status, count)| (status.name().to_owned(), count)).collect(),
        ledger: ledger.into_iter().map(|(status, count)| (ledger_word(status).to_owned(), count)).collect(),
        totals: names.zip(totals.values()).collect(),
        oldest_pending,
        repeated_share: share(&totals),
        tables: tables.into_iter().map(|(name, rows, bytes)| Table { name, rows, bytes }).collect(),
        bytes,
        free_bytes: room.free_bytes,
        ..StatsAnswer::default()
    }
}

/// The share of attempts that were repeated under their key, or answered twice.
fn share(totals: &Totals) -> f64 {
    let all = totals.steps_sent + totals.steps_repeated + totals.outcomes_late;
    if all == 0 { 0.0 } else { (totals.steps_repeated + totals.outcomes_late) as f64 / all as f64 }
}

pub(super) fn cleanup<D: Data>(data: &mut D, kept: Kept, dry_run: bool) -> Result<Answer, Refusal> {
    if kept.ended_for_ms < 0 || kept.ledger_for_ms < 0 {
        return Err(Refusal::invalid("a time to keep cannot be negative"));
    }
    let now = data.moment().now;
    let before = |ms: i64| Timestamp(now.0.saturating_sub(ms));
    let retention = Retention {
        ended_before: before(kept.ended_for_ms),
        ledger_before: before(kept.ledger_for_ms),
        bytes_max: kept.bytes_max,
    };
    let swept = if dry_run { would_go(data, &retention)? } else { sweep(data, &retention)? };
    Ok(Answer::Swept(swept))
}

/// Gives free pages back to the disk, a slice at a time.
pub(super) fn compact<D: Data>(data: &mut D) -> Result<Answer, Refusal> {
    let until = data.moment().now.after_ms(ANSWERED_AFTER_MS);
    loop {
        let room = data.give_back(PAGES, false)?;
        if !room.gives_back {
            return Err(Refusal::conflict("the file was made by an earlier perdura, and gives nothing back while it is in use")
                .but("stop the server and run `perdura compact` once: it rewrites the file, which gives space back from then on"));
        }
        if !room.more || data.moment().now >= until {
            return Ok(Answer::Room(FreeRoom { free_bytes: room.free_bytes, more: room.more }));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Counts what a cleanup would delete, in small reads: no commit waits, and no long read keeps SQLite's log
/// from being reused.
fn would_go<D: Data>(data: &mut D, retention: &Retention) -> Result<Swept, Refusal> {
    let ledger = data.read(|reader| reader.old_ledger(retention.ledger_before))?;
    let mut swept = Swept { executions: 0, ledger, more: false };
    let mut place = Some(SweepPlace::default());
    while let Some(after) = place {
        let found = data.read(|reader| reader.sweepable(retention, Some(after), COUNTED_AT_ONCE))?;
        swept.executions += found.going.len() as u64 + found.children;
        swept.ledger += found.ledger;
        place = found.next;
    }
    Ok(swept)
}

/// Deletes slices for a while, with pauses in which commits go on.
fn sweep<D: Data>(data: &mut D, retention: &Retention) -> Result<Swept, Refusal> {
    let until = data.moment().now.after_ms(ANSWERED_AFTER_MS);
    let mut sum = Swept { executions: 0, ledger: 0, more: true };
    let mut place = None;
    while sum.more && data.moment().now < until {
        let swept = data.sweep(retention, &mut place, SLICE)?;
        sum.executions += swept.executions;
        sum.ledger += swept.ledger;
        sum.more = swept.more;
        if data.performs() {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(sum)
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
