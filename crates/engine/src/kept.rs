//! What a run of a Parallel or Map leaves to the next one: the keys of its calls.
//!
//! A retry of a Parallel or Map is a retry: a step at the same place is the same step, so it keeps its round, its key
//! and its recorded bytes, unless its receiver has refused it. That is kept with the strand whose Parallel or Map may
//! be run again, the outermost where several are, and goes when that state is left. What an execution keeps so is
//! bounded in bytes. Of a completed call beyond the bound the key is kept, and a digest of the bytes: where the state gives
//! the same bytes once more, they go out under that key; otherwise a person decides.

use crate::draft::Draft;
use crate::id::{Round, StrandId};
use crate::input::Certainty;
use crate::strand::{MapRunId, Sent, Step};
use perdura_asl::json::Payload;
use perdura_asl::machine::{Kind, MapMode, State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is kept of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kept {
    /// Its next call is made in this round, and is the first there.
    Round(Round),
    /// Perhaps performed, or never sent, or performed with bytes that are lost: the same goes out again under the same key.
    Again(Box<Sent>),
    /// Performed, with this result. The same goes out again under the same key, and where that may not be, the result
    /// is used.
    Done(Box<Sent>, Payload),
    /// A Map Run of this round: it is taken up again, with the children that it has.
    MapRun(Round, MapRunId),
}

impl Kept {
    /// What is to be known of a step when it is taken again.
    fn of(step: &Step) -> Option<Self> {
        let Some(sent) = step.sent.as_ref().filter(|sent| sent.round == step.round) else {
            return (step.round > Round::FIRST).then_some(Self::Round(step.round));
        };
        Some(match step.result.as_ref().or(step.done.as_ref()) {
            Some(result) => Self::done(sent.clone(), result.clone()),
            None if sent.is_refused() => Self::Round(step.round.next()),
            None => {
                let failed = sent.failed.unwrap_or_else(|| step.standing.unanswered());
                Self::Again(Box::new(Sent { failed: Some(failed), ..sent.clone() }))
            }
        })
    }

    /// It was performed, and must not be under another key.
    pub(crate) fn done(sent: Sent, result: Payload) -> Self {
        Self::Done(Box::new(Sent { failed: Some(Certainty::Ambiguous), doubt: true, ..sent }), result)
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Round(_) | Self::Again(_) | Self::MapRun(..) => 0,
            Self::Done(sent, result) => sent.input.len() + result.len(),
        }
    }

    /// The step begins where the run before left it.
    fn resume(self, step: &mut Step) {
        match self {
            Self::Round(round) => step.round = round,
            Self::MapRun(round, run) => {
                step.round = round;
                step.map_run = Some(run);
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
        }
    }
}

/// Whether a state runs branches or iterations, and does so again if they fail.
fn runs_again(state: &State) -> bool {
    match &state.kind {
        Kind::Parallel(parallel) => !parallel.after.retry.is_empty(),
        Kind::Map(map) => map.mode == MapMode::Inline && !map.after.retry.is_empty(),
        _ => false,
    }
}

/// The strand that keeps what is kept of this one's steps: that of the outermost Parallel or Map around it that may be
/// run again.
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

/// A strand's step is about to be gone: what the next run needs of it is kept.
pub(crate) fn keep(table: &mut Draft<'_>, strand: StrandId) {
    // Nothing around most strands may be run again.
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

/// This is what the next run shall know of the strand's step.
pub(crate) fn put(table: &mut Draft<'_>, strand: StrandId, kept: Kept) {
    let Some(keeper) = keeper(table, strand) else { return };
    let Some(place) = place(table, strand) else { return };
    let bytes = kept.bytes();
    let is_too_much = table.core().kept_bytes + bytes > table.base.identity.limits.kept_bytes_max;
    let kept = match kept {
        Kept::Done(sent, _) if is_too_much => Kept::Again(Box::new(sent.without_bytes())),
        kept => {
            table.core().kept_bytes += bytes;
            kept
        }
    };
    let before = table.put_kept(keeper, place, kept);
    table.core().kept_bytes -= before.map_or(0, |before| before.bytes());
}

/// A strand has entered a state: it goes on from what the run before left.
pub(crate) fn take_up(table: &mut Draft<'_>, strand: StrandId) {
    let Some(keeper) = keeper(table, strand).filter(|keeper| table.keeps(*keeper)) else { return };
    let Some(place) = place(table, strand) else { return };
    let Some(kept) = table.kept(keeper, &place).cloned() else { return };
    if let Some(step) = table.strand(strand).and_then(|strand| strand.step.as_mut()) {
        kept.resume(step);
    }
}

/// The Parallel or Map of this strand is left, and is not run again.
pub(crate) fn forget(table: &mut Draft<'_>, strand: StrandId) {
    if table.keeps(strand) {
        let bytes: usize = table.drop_kept(strand).iter().map(Kept::bytes).sum();
        table.core().kept_bytes -= bytes;
    }
}
