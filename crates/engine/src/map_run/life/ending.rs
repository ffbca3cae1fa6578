//! A run that ends early: it is no longer wanted, or it cannot continue.
//!
//! Such a run starts nothing more. Its children are stopped, a few at a time, and are counted by their rows when the
//! last of them has ended; only then does the run's own row say that it is over. None of this needs the run's order. So
//! a run that an earlier process has left behind, of which there is only a row, ends in the same way.

use super::{MapRunCommand, MapRunEnd, MapRunFigures, MapRunMove, MapRunRecalled};
use crate::event::Fault;
use crate::execution::Status;
use crate::id::{EffectKey, ExecutionId};
use crate::input::By;
use crate::map_run::MapRunOutcome;
use std::collections::BTreeSet;

pub(super) struct Ending {
    /// Its data at the beginning of the end.
    figures: MapRunFigures,
    stage: Stage,
    /// The step that gets the fault. `None`: no step waits for it.
    told: Option<(By, Fault)>,
    /// The step that has requested it again; it begins anew as soon as it is over.
    asked_for: Option<EffectKey>,
}

enum Stage {
    /// Children are stopped. Until they are known, the earlier data counts no more than this.
    Stopping { asks: Option<Basis>, children: Children },
    /// It reads how its children ended.
    Counting,
    /// There is nothing left to wait for.
    Counted,
    /// Its row says already that it has ended.
    WasOver,
}

/// The known data of a run that begins to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// All of its data.
    Whole,
    /// Its order: it was stopped before it had read its own row.
    Order,
    /// Its row, which may be outdated.
    Row,
}

/// The known children of a run that ends.
#[derive(Default)]
struct Children {
    /// To be stopped.
    untold: Vec<ExecutionId>,
    /// All that have not ended yet, including the others.
    left: BTreeSet<ExecutionId>,
}

impl Children {
    fn stop(&mut self, children: impl IntoIterator<Item = ExecutionId>) {
        for child in children {
            if self.left.insert(child) {
                self.untold.push(child);
            }
        }
    }
}

impl Ending {
    pub(super) fn new(
        figures: MapRunFigures,
        basis: Basis,
        known: Vec<ExecutionId>,
        told: Option<(By, Fault)>,
    ) -> Self {
        let mut children = Children::default();
        children.stop(known);
        Self { figures, stage: Stage::Stopping { asks: Some(basis), children }, told, asked_for: None }
    }

    pub(super) fn figures(&self) -> &MapRunFigures {
        &self.figures
    }

    pub(super) fn has_untold(&self) -> bool {
        matches!(&self.stage, Stage::Stopping { children, .. } if !children.untold.is_empty())
    }

    pub(super) fn is_unread(&self) -> bool {
        matches!(self.stage, Stage::Stopping { asks: Some(Basis::Order), .. })
    }

    pub(super) fn is_reading(&self) -> bool {
        match self.stage {
            Stage::Stopping { asks, .. } => asks.is_some(),
            Stage::Counting => true,
            Stage::Counted | Stage::WasOver => false,
        }
    }

    /// A failing run must still report the failure, to the new request too.
    pub(super) fn asked_for(&mut self, key: EffectKey) {
        if self.told.is_none() {
            self.asked_for = Some(key);
        }
    }

    /// The step under this key no longer waits.
    pub(super) fn unwanted(&mut self, key: &EffectKey) {
        self.told.take_if(|(by, _)| by.key() == Some(key));
        self.asked_for.take_if(|asked_for| asked_for == key);
    }

    pub(super) fn child_ended(&mut self, child: ExecutionId) {
        if let Stage::Stopping { children, .. } = &mut self.stage {
            children.left.remove(&child);
        }
    }

    pub(super) fn go_on(&mut self) -> MapRunMove {
        match &mut self.stage {
            Stage::Stopping { asks, children } => {
                if let Some(child) = children.untold.pop() {
                    return MapRunMove::Stop(child);
                }
                if asks.is_some() || !children.left.is_empty() {
                    return MapRunMove::Rest(Vec::new());
                }
                self.stage = Stage::Counting;
                MapRunMove::Rest(vec![MapRunCommand::ReadChildren])
            }
            Stage::Counting => MapRunMove::Rest(Vec::new()),
            Stage::Counted => {
                let status = if self.told.is_some() { Status::Failed } else { Status::Aborted };
                self.finish(Some(status))
            }
            Stage::WasOver => self.finish(None),
        }
    }

    fn finish(&self, status: Option<Status>) -> MapRunMove {
        let failed = |(by, fault)| (by, MapRunOutcome::Failed { fault });
        MapRunMove::Finish(Box::new(MapRunEnd {
            writes: status.map(|status| (status, self.figures.clone())),
            tells: self.told.clone().map(failed),
            is_asked_for: self.asked_for.is_some(),
        }))
    }

    pub(super) fn second(&self, asks_again: bool) -> Vec<MapRunCommand> {
        let command = if self.is_reading() { MapRunCommand::ReadChildren } else { MapRunCommand::GoOn };
        asks_again.then_some(command).into_iter().collect()
    }

    pub(super) fn recalled(&mut self, recalled: MapRunRecalled) -> Vec<MapRunCommand> {
        let MapRunRecalled { running, counts, row, known: _ } = recalled;
        match &mut self.stage {
            Stage::Stopping { asks, children } => {
                let is_over = row.as_ref().is_some_and(|(status, _)| *status != Status::Running);
                match (asks.take(), row) {
                    (Some(Basis::Row), _) if is_over => {
                        self.stage = Stage::WasOver;
                        return vec![MapRunCommand::GoOn];
                    }
                    (Some(Basis::Order), Some((_, row))) => {
                        (self.figures.bounds, self.figures.source_version) = (row.bounds, row.source_version);
                        let total = &mut self.figures.counts.items.total;
                        *total = row.counts.items.total.max(*total);
                    }
                    (Some(Basis::Whole | Basis::Order | Basis::Row) | None, _) => {}
                }
                children.stop(running);
            }
            Stage::Counting => {
                let total = self.figures.counts.items.total.max(counts.items.total);
                self.figures.counts = counts;
                self.figures.counts.items.total = total;
                self.stage = Stage::Counted;
            }
            Stage::Counted | Stage::WasOver => {}
        }
        vec![MapRunCommand::GoOn]
    }
}
