//! Which Turns are shown: those of the run itself, and of the children of its Map Runs.

use super::progress::Progress;
use super::story::{At, ExecutionNo};
use anyhow::{Context, Result};
use perdura_engine::{Arn, EventKind, ExecutionId, Moment, Named, Timestamp, Turn};
use perdura_runtime::Turned;
use perdura_server::Refusal;
use perdura_server::fold::PAGE_BYTES;
use perdura_store::record::TurnBody;
use perdura_store::{ChildOf, Reader};
use std::collections::BTreeMap;

/// The shown executions, and the position in each.
pub(super) struct Telling {
    progress: Progress,
    top: Option<ExecutionId>,
    next_turn: u64,
    /// The ids of Map Runs, and their waiting states.
    runs: BTreeMap<u128, At>,
    children: BTreeMap<ExecutionId, ExecutionNo>,
    last: ExecutionNo,
}

impl Telling {
    pub(super) fn new(progress: Progress) -> Self {
        let (runs, children) = (BTreeMap::new(), BTreeMap::new());
        Self { progress, top: None, next_turn: 1, runs, children, last: ExecutionNo::TOP }
    }

    /// Shows this execution: its recorded Turns, and all that follow.
    pub(super) fn begin(&mut self, id: ExecutionId, reader: &mut dyn Reader, moment: &Moment) -> Result<()> {
        self.top = Some(id);
        loop {
            let page = reader.turns(id, self.next_turn, PAGE_BYTES).map_err(Refusal::from)?;
            if page.is_empty() {
                return Ok(());
            }
            for turn in page {
                let body = TurnBody::read(&turn.body).context("what is on record cannot be read")?;
                self.next_turn = turn.number + 1;
                self.tell(ExecutionNo::TOP, &body.turn, moment.now);
            }
        }
    }

    /// A Turn was recorded.
    pub(super) fn take(&mut self, turned: &Turned, moment: &Moment) {
        let Turned { execution, child, number, turn, has_ended } = turned;
        if self.top == Some(*execution) {
            // Earlier ones were shown when they were found on record.
            if *number == self.next_turn {
                self.next_turn += 1;
                self.tell(ExecutionNo::TOP, turn, moment.now);
            }
            return;
        }
        let Some(told) = child.and_then(|child| self.number(*execution, child)) else { return };
        // One that is stopped with its Map Run needs no lines.
        if turn.events().any(|event| matches!(event.kind, EventKind::ExecutionAborted(_))) {
            self.progress.drop_child(told);
        } else {
            self.tell(told, turn, moment.now);
        }
        if *has_ended {
            self.children.remove(execution);
        }
    }

    /// The number of a child, if its waiting state is shown.
    fn number(
        &mut self,
        execution: ExecutionId,
        ChildOf { run, index, items }: ChildOf,
    ) -> Option<ExecutionNo> {
        let parent = *self.runs.get(&run.as_u128())?;
        Some(*self.children.entry(execution).or_insert_with(|| {
            self.last = ExecutionNo(self.last.0 + 1);
            self.progress.begin_child(self.last, parent, index, items);
            self.last
        }))
    }

    fn tell(&mut self, number: ExecutionNo, turn: &Turn, now: Timestamp) {
        for event in turn.events() {
            let at = (number, event.strand);
            match &event.kind {
                EventKind::MapRunStarted { arn } | EventKind::MapRunRedriven { arn, .. } => {
                    if let Ok(Arn { named: Named::MapRun { id, .. }, .. }) = Arn::parse(arn) {
                        self.runs.insert(id.as_u128(), at);
                    }
                }
                EventKind::MapRunSucceeded | EventKind::MapRunFailed(_) | EventKind::MapRunAborted => {
                    self.runs.retain(|_, of| *of != at);
                }
                _ => {}
            }
        }
        let at = turn.events().next().map_or(now, |event| event.at);
        self.progress.tell(number, turn, at);
    }

    pub(super) fn hint(&mut self, text: &str) {
        self.progress.hint(text);
    }

    pub(super) fn draw_if_due(&mut self, moment: &Moment) {
        self.progress.draw_if_due(moment.now);
    }

    /// Shows everything: nothing happens for a while.
    pub(super) fn draw(&mut self, moment: &Moment) {
        self.progress.draw(moment.now);
    }

    pub(super) fn finish(&mut self, moment: &Moment) {
        self.progress.finish(moment.now);
    }
}
