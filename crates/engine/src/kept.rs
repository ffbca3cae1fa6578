//! The records that a run of a Parallel or Map leaves to the next one: the keys of its calls.
//!
//! A retry of a Parallel or Map is a retry of its steps: a step at the same place is the same step, so it keeps its
//! round, its key and its recorded bytes, unless its receiver has refused it. The strand whose Parallel or Map may run
//! again keeps these records (the outermost if there are several), until that state is left. Their size per execution
//! is bounded. Of a completed call beyond the bound, the key and a digest of the bytes are kept: if the state gives the
//! same bytes again, they go out under that key; otherwise a person decides.

use crate::draft::Draft;
use crate::id::{EffectKey, Round, StrandId};
use crate::input::Certainty;
use crate::strand::{MapRunId, Sent, Step};
use perdura_asl::json::Payload;
use perdura_asl::machine::{Kind, MapMode, State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The record of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kept {
    /// Its next call is made in this round, and is the first there.
    Round(Round),
    /// Refused: the next call is made in the next round. The step returns to this round if a late success says that it
    /// was performed after all.
    Refused(Box<Sent>),
    /// Perhaps performed, or never sent, or performed with lost bytes: the same goes out again under the same key.
    Again(Box<Sent>),
    /// Performed, with this result. The same goes out again under the same key; if that is not allowed, the result is
    /// used.
    Done(Box<Sent>, Payload),
    /// A Map Run of this round: it is taken up again, with its existing children.
    MapRun(Round, MapRunId),
    /// The first record, and the call of another round, to which the step may yet return.
    Beside(Box<Kept>, Box<Sent>),
}

impl Kept {
    /// The record to keep of a step.
    fn of(step: &Step) -> Option<Self> {
        let kept = Self::of_sent(step)?;
        Some(match (&kept, step.aside.clone()) {
            (Self::Refused(_) | Self::Again(_), Some(aside)) => Self::Beside(Box::new(kept), aside),
            _ => kept,
        })
    }

    fn of_sent(step: &Step) -> Option<Self> {
        let sent = match &step.sent {
            Some(sent) if sent.round == step.round => sent,
            Some(refused) if refused.round.next() == step.round => {
                return Some(Self::refused(refused.clone()));
            }
            Some(_) | None => return (step.round > Round::FIRST).then_some(Self::Round(step.round)),
        };
        Some(match step.result.as_ref().or(step.done.as_ref()) {
            Some(result) => Self::done(sent.clone(), result.clone()),
            None if sent.is_refused() => Self::refused(sent.clone()),
            None => {
                let failed = sent.failed.unwrap_or_else(|| step.standing.unanswered());
                let submitted = sent.submitted || step.standing.is_submitted();
                Self::Again(Box::new(Sent { failed: Some(failed), submitted, ..sent.clone() }))
            }
        })
    }

    /// The record of a call that was not performed in this round, as far as is known.
    pub(crate) fn refused(sent: Sent) -> Self {
        Self::Refused(Box::new(sent))
    }

    /// The record of a call that was performed, and must not be performed under another key.
    pub(crate) fn done(sent: Sent, result: Payload) -> Self {
        Self::Done(Box::new(Sent { failed: Some(Certainty::Ambiguous), doubt: true, ..sent }), result)
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Round(_) | Self::Again(_) | Self::MapRun(..) => 0,
            Self::Refused(sent) => sent.bytes(),
            Self::Done(sent, result) => sent.bytes() + result.len(),
            Self::Beside(kept, aside) => kept.bytes() + aside.bytes(),
        }
    }

    /// The same with fewer bytes, if they are too many.
    fn smaller(self) -> Self {
        match self {
            Self::Done(sent, _) => Self::Again(Box::new(sent.without_bytes())),
            Self::Refused(sent) => Self::Refused(Box::new(sent.without_bytes())),
            Self::Beside(kept, aside) => {
                Self::Beside(Box::new(kept.smaller()), Box::new(aside.without_bytes()))
            }
            Self::Round(_) | Self::Again(_) | Self::MapRun(..) => self,
        }
    }

    /// A late success says that it was performed in a failed round.
    fn contradicted(self, round: Round) -> Self {
        let (kept, mut aside) = match self {
            Self::Beside(kept, aside) => (*kept, Some(aside)),
            kept => (kept, None),
        };
        let kept = match kept {
            Self::Refused(mut sent) | Self::Again(mut sent) => {
                sent.contradict(aside.as_deref_mut(), round, true);
                Self::Again(sent)
            }
            Self::Done(mut sent, result) => {
                sent.contradict(None, round, false);
                Self::Done(sent, result)
            }
            kept @ (Self::Round(_) | Self::MapRun(..) | Self::Beside(..)) => kept,
        };
        match aside {
            Some(aside) => Self::Beside(Box::new(kept), aside),
            None => kept,
        }
    }

    /// Begins the step from the record of the previous run.
    fn resume(self, step: &mut Step) {
        match self {
            Self::Round(round) => step.round = round,
            Self::MapRun(round, run) => {
                step.round = round;
                step.map_run = Some(run);
            }
            Self::Refused(sent) => {
                step.round = sent.round.next();
                step.sent = Some(*sent);
            }
            Self::Again(sent) => {
                step.round = sent.round;
                step.sent = Some(*sent);
            }
            Self::Done(sent, result) => {
                step.round = sent.round;
                step.sent = Some(*sent);
                step.done = Some(result);
            }
            Self::Beside(kept, aside) => {
                kept.resume(step);
                step.aside = Some(aside);
            }
        }
    }
}

/// Whether a state has branches or iterations, and runs them again if they fail.
fn runs_again(state: &State) -> bool {
    match &state.kind {
        Kind::Parallel(parallel) => !parallel.after.retry.is_empty(),
        Kind::Map(map) => map.mode == MapMode::Inline && !map.after.retry.is_empty(),
        _ => false,
    }
}

/// The strand that keeps the records of this one's steps: that of the outermost Parallel or Map around it that may run
/// again.
pub(crate) fn keeper(table: &Draft<'_>, strand: StrandId) -> Option<StrandId> {
    let mut keeper = None;
    let mut parent = table.peek(strand)?.parent;
    while let Some((id, _)) = parent {
        let around = table.peek(id)?;
        let state = around.step.as_ref().map(|step| table.base.machine.state(step.state));
        if state.is_some_and(runs_again) {
            keeper = Some(id);
        }
        parent = around.parent;
    }
    keeper
}

/// The step's place, the same in every run.
fn place(table: &Draft<'_>, strand: StrandId) -> Option<Arc<str>> {
    let found = table.peek(strand)?;
    let step = found.step.as_ref()?;
    let visit = table.visits(strand, step.state);
    let mut place = String::new();
    found.step_place(step, &table.base.machine, visit).write(&mut place);
    Some(place.into())
}

/// A strand's step is about to be removed: keeps the record for the next run.
pub(crate) fn keep(table: &mut Draft<'_>, strand: StrandId) {
    // Most strands have nothing around them that may run again.
    if keeper(table, strand).is_none() {
        return;
    }
    let Some(step) = table.peek(strand).and_then(|strand| strand.step.as_ref()) else { return };
    let kept = match &table.base.machine.state(step.state).kind {
        Kind::Task(_) => Kept::of(step),
        Kind::Map(map) if map.mode != MapMode::Inline => {
            step.map_run.clone().map(|run| Kept::MapRun(step.round, run))
        }
        _ => None,
    };
    if let Some(kept) = kept {
        put(table, strand, kept);
    }
}

/// Sets the record of the strand's step for the next run.
pub(crate) fn put(table: &mut Draft<'_>, strand: StrandId, kept: Kept) {
    let Some(keeper) = keeper(table, strand) else { return };
    let Some(place) = place(table, strand) else { return };
    let bytes = kept.bytes();
    let is_too_much = table.core().kept_bytes + bytes > table.base.identity.limits.kept_bytes_max;
    let kept = if is_too_much { kept.smaller() } else { kept };
    table.core().kept_bytes += kept.bytes();
    let before = table.put_kept(keeper, place, kept);
    table.core().kept_bytes -= before.map_or(0, |before| before.bytes());
}

/// A strand has entered a state: continues from the previous run's record.
pub(crate) fn take_up(table: &mut Draft<'_>, strand: StrandId) {
    let Some(keeper) = keeper(table, strand).filter(|keeper| table.keeps(*keeper)) else { return };
    let Some(place) = place(table, strand) else { return };
    let Some(kept) = table.kept(keeper, &place).cloned() else { return };
    if let Some(step) = table.strand(strand).and_then(|strand| strand.step.as_mut()) {
        kept.resume(step);
    }
}

/// A failed key is in doubt after all, while its step is between two runs of the state around it: the next run repeats
/// the call under that key or, if a later one went out since, under the later one.
pub(crate) fn contradict(table: &mut Draft<'_>, key: &EffectKey) {
    let place: Arc<str> = key.step().into();
    let Some((keeper, kept)) = table.kept_anywhere(&place) else { return };
    let before = kept.bytes();
    let kept = kept.clone().contradicted(key.round());
    table.core().kept_bytes += kept.bytes();
    table.core().kept_bytes -= before;
    table.put_kept(keeper, place, kept);
}

/// The Parallel or Map of this strand is left, and will not run again: removes its records.
pub(crate) fn forget(table: &mut Draft<'_>, strand: StrandId) {
    if table.keeps(strand) {
        let bytes: usize = table.drop_kept(strand).iter().map(Kept::bytes).sum();
        table.core().kept_bytes -= bytes;
    }
}
