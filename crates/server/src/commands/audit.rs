//! Who did what: entries of the audit, from either end.

use super::find::find;
use crate::Refusal;
use crate::control::{Answer, AuditEntry, AuditPlace, AuditQuestion, Page};
use crate::data::Data;
use perdura_engine::ExecutionId;
use perdura_store::audit::{AuditPage, Entry};
use perdura_store::{Failure, FailureKind};
use std::str::FromStr;
use uuid::Uuid;

/// The most entries of a page.
const ENTRIES_MAX: u32 = 10_000;
/// About how much is read at once, and for one page; a page for which nothing was found goes on after that.
const READ_BYTES: usize = 1 << 18;
const SCANNED_BYTES: usize = 1 << 24;

pub(crate) fn audit<D: Data>(data: &mut D, question: &AuditQuestion) -> Result<Answer, Refusal> {
    let most = question.most.clamp(1, ENTRIES_MAX) as usize;
    let execution = match &question.execution {
        // One that was deleted is on the audit, and nowhere else.
        Some(which) => match Uuid::from_str(which) {
            Ok(id) => Some(ExecutionId::from_uuid(id)),
            Err(_) => Some(find(data, which)?),
        },
        None => None,
    };
    let is_meant = |entry: &Entry| {
        execution.is_none_or(|execution| entry.subject.has(execution)) && question.is_about(entry)
    };
    let (mut items, mut scanned) = (Vec::new(), 0);
    let mut place = question.after;
    loop {
        // The row of the place may have more.
        let after = place.map(|place| if question.oldest_first { place.row - 1 } else { place.row + 1 });
        let page = AuditPage {
            after,
            newest_first: !question.oldest_first,
            since: question.since,
            until: question.until,
            bytes_max: READ_BYTES,
        };
        let rows = data.read(|reader| reader.audit(&page))?;
        let begun = place;
        for row in &rows {
            let seen = place.filter(|place| place.row == row.id).map(|place| place.number);
            let mut lines: Vec<(u64, &str)> = row.lines().collect();
            if !question.oldest_first {
                lines.reverse();
            }
            for (number, line) in lines {
                let is_behind = |seen| if question.oldest_first { number > seen } else { number < seen };
                if !seen.is_none_or(is_behind) {
                    continue;
                }
                if items.len() == most {
                    return Ok(Answer::Audit(Page { items, next: place }));
                }
                place = Some(AuditPlace { row: row.id, number });
                let entry: Entry = serde_json::from_str(line).map_err(|error| broken(row.id, &error))?;
                if is_meant(&entry) {
                    items.push(AuditEntry { chain: row.chain, number, entry });
                }
            }
            scanned += row.entries.len();
        }
        if place == begun {
            return Ok(Answer::Audit(Page { items, next: None }));
        }
        if scanned > SCANNED_BYTES {
            return Ok(Answer::Audit(Page { items, next: place }));
        }
    }
}

fn broken(row: i64, error: &serde_json::Error) -> Refusal {
    Failure {
        what: format!("reading row {row} of the audit"),
        why: error.to_string(),
        kind: FailureKind::Corrupt,
    }
    .into()
}

impl AuditQuestion {
    /// Whether an entry is asked for, whatever its execution.
    fn is_about(&self, entry: &Entry) -> bool {
        let origin = &entry.origin;
        self.since.is_none_or(|since| origin.at >= since)
            && self.until.is_none_or(|until| origin.at <= until)
            && self.who.as_deref().is_none_or(|who| *origin.principal == *who)
            && self.verb.is_none_or(|verb| entry.verb == verb)
            && self.machine.as_deref().is_none_or(|machine| entry.subject.machine() == Some(machine))
            && self.key.as_deref().is_none_or(|key| origin.key.as_deref() == Some(key))
    }
}
