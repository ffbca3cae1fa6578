//! The Ledger's marks in a Turn, with the results of their calls.
//!
//! A mark has only the status of a key: the answer or the error is in the record beside it. Rows of the Ledger and the
//! trace of an execution are both made by this module.

use crate::event::{EventKind, Fault};
use crate::id::EffectKey;
use crate::turn::{LedgerStatus, Note, Record, Turn};
use std::borrow::Cow;
use std::sync::Arc;

/// The status of a key from this Turn on.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark<'t> {
    pub key: &'t EffectKey,
    pub status: LedgerStatus,
    pub said: Said<'t>,
}

/// The Turn's record about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Said<'t> {
    /// It was done, with this result.
    Done(&'t Arc<str>),
    Failed(Cow<'t, Fault>),
    Nothing,
}

impl Turn {
    /// The marks of this Turn, in their order.
    pub fn marks(&self) -> impl Iterator<Item = Mark<'_>> {
        self.records.iter().enumerate().filter_map(|(at, record)| {
            let Record::Note(Note::Ledger { key, status, .. }) = record else { return None };
            let before = at.checked_sub(1).and_then(|before| self.records.get(before));
            Some(Mark { key, status: *status, said: Said::of(before, self.records.get(at + 1)) })
        })
    }
}

impl<'t> Said<'t> {
    /// An event comes right before its mark; a hold right after it.
    fn of(before: Option<&'t Record>, after: Option<&'t Record>) -> Self {
        if let Some(Record::Note(Note::Held { fault, .. })) = after {
            return Self::Failed(Cow::Borrowed(fault));
        }
        match before {
            Some(Record::Event(event)) => match &event.kind {
                EventKind::TaskSucceeded { output, .. } => Self::Done(output.text()),
                EventKind::TaskFailed { fault, .. }
                | EventKind::TaskSubmitFailed { fault, .. }
                | EventKind::TaskTimedOut { fault, .. }
                | EventKind::TaskNotStarted { fault, .. } => Self::Failed(Cow::Borrowed(fault)),
                _ => Self::Nothing,
            },
            // A success came late, under a failed key.
            Some(Record::Note(Note::LateOutcome { .. })) => Self::Failed(Cow::Owned(Fault::contradicted())),
            Some(Record::Note(_)) | None => Self::Nothing,
        }
    }

    pub fn result(&self) -> Option<Arc<str>> {
        match self {
            Self::Done(result) => Some((*result).clone()),
            Self::Failed(_) | Self::Nothing => None,
        }
    }

    /// Error and cause in a line.
    pub fn error(&self) -> Option<Arc<str>> {
        let Self::Failed(fault) = self else { return None };
        let parts = [fault.error.as_deref(), fault.cause.as_deref()];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join(": ").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certainty;
    use crate::event::{Event, TaskFamily};
    use crate::id::{Seq, StrandId, Timestamp};

    fn key(step: &str) -> EffectKey {
        serde_json::from_str(&format!("\"x:{step}#1:1\"")).unwrap()
    }

    fn mark(step: &str, status: LedgerStatus) -> Record {
        Record::Note(Note::Ledger { strand: StrandId::TOP, key: key(step), status })
    }

    #[test]
    fn a_mark_takes_its_own_error_and_not_that_of_a_neighbour() {
        let (strand, at) = (StrandId::TOP, Timestamp(0));
        let family = TaskFamily::Activity { resource: "a".into() };
        let fault = Fault::new("Broken", "it was");
        let kind = EventKind::TaskFailed { family, fault, certainty: Certainty::Ambiguous };
        let failed = Record::Event(Event { id: Seq(1), previous: Seq(0), at, steady: None, strand, kind });
        let fault = Fault::named("Held");
        let held = Record::Note(Note::Held { strand, key: key("C"), fault, at: None });
        let records = vec![
            failed,
            mark("A", LedgerStatus::Uncertain),
            mark("B", LedgerStatus::Uncertain),
            mark("C", LedgerStatus::Uncertain),
            held,
        ];
        let turn = Turn { records };
        let told: Vec<_> = turn.marks().map(|mark| (mark.key.clone(), mark.said.error())).collect();
        let expected = [("A", Some("Broken: it was".into())), ("B", None), ("C", Some("Held".into()))];
        assert_eq!(told, expected.map(|(step, error)| (key(step), error)));
    }
}
