//! Erasing: the whole change is checked before its first part is made.

use super::{Kept, Memory};
use crate::record::{Damage, erase};
use crate::store::Erased;
use perdura_engine::{ExecutionId, Timestamp};
use std::collections::BTreeSet;

impl Memory {
    pub(super) fn erase(
        &mut self,
        ended: &[(ExecutionId, Timestamp)],
        at: Timestamp,
    ) -> Result<Erased, Damage> {
        let mut rows = Vec::new();
        for (execution, ended_at) in ended {
            let is_meant = |kept: &&Kept| {
                !kept.row.awake && kept.row.content.is_some() && kept.row.ended_at == Some(*ended_at)
            };
            let Some(kept) = self.rows.get(execution).filter(is_meant) else {
                return Ok(Erased::Moved(*execution));
            };
            if kept.erased_at.is_none() {
                rows.push(Kept {
                    row: erase::row(&kept.row, at)?,
                    erased_at: Some(at),
                    covered_at: kept.covered_at,
                });
            }
        }
        let whose: BTreeSet<ExecutionId> = rows.iter().map(|kept| kept.row.execution).collect();
        let mut segments = Vec::new();
        for (place, segment) in
            self.segments.iter().filter(|((whose_it_is, _), _)| whose.contains(whose_it_is))
        {
            segments.push((*place, erase::history(&segment.bytes, segment.first)?));
        }
        for (place, bytes) in segments {
            self.segments.get_mut(&place).expect("it was just seen").bytes = bytes;
        }
        for sealed in self.journal.values_mut() {
            // Recovery reports rows that cannot be read.
            if let Ok(Some(without)) = erase::journal(sealed, &whose) {
                *sealed = without;
            }
        }
        self.aside
            .retain(|(_, whose_it_is), _| whose_it_is.is_none_or(|execution| !whose.contains(&execution)));
        let mut ledger = 0;
        for (row, _) in self.ledger.values_mut().filter(|(row, _)| whose.contains(&row.execution)) {
            ledger += u64::from(row.result.is_some() || row.error.is_some());
            erase::ledger(row);
        }
        let executions = rows.len() as u64;
        self.rows.extend(rows.into_iter().map(|kept| (kept.row.execution, kept)));
        Ok(Erased::Done { executions, ledger })
    }
}
