//! What happened, as far as a checker wants to know it; and a trace for people.

use crate::clock::Steady;
use crate::observed::Life;
use perdura_engine::{EffectKey, ExecutionId, TaskToken};
use std::collections::{BTreeMap, BTreeSet};

/// A call that left.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    /// Who made it.
    pub(crate) by: Life,
    pub(crate) key: EffectKey,
    pub(crate) at: i64,
    /// How often this life had put it on record by then.
    pub(crate) ordered: u32,
}

/// What a checker may want to know.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The steady clock of each life.
    pub(crate) lives: BTreeMap<Life, Steady>,
    /// How far each life took steady time to be ahead of its clock, whenever that was.
    ahead: BTreeMap<Life, BTreeSet<i64>>,
    /// How far the wall was ahead, from when on.
    pub(crate) walls: Vec<(i64, i64)>,
    /// From when to when a process was paused.
    pub(crate) pauses: Vec<(i64, i64)>,
    /// Calls, in the order in which they left.
    pub(crate) left: Vec<Left>,
    /// How often each call may have reached one who does not want it repeated.
    pub(crate) held_reached: BTreeMap<EffectKey, u32>,
    /// Tasks that workers got.
    pub(crate) handed: Vec<TaskToken>,
    /// What should not have happened, seen as it happened.
    pub(crate) complaints: Vec<String>,
    /// When each execution was swept that was.
    pub(crate) swept_at: BTreeMap<ExecutionId, i64>,
    /// Executions that were swept while they ran.
    pub(crate) swept_running: Vec<String>,
    /// How often what happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Everything has ended, and nobody waits for an answer.
    pub(crate) is_quiet: bool,
    /// Who did not come to an end.
    pub(crate) restless: Vec<String>,
    /// Executions in memory of a process that was begun at the very end.
    pub(crate) in_memory_at_last: usize,
    /// And those it could not read.
    pub(crate) parked_at_last: usize,
    lines: Option<Vec<String>>,
}

impl Facts {
    /// With a trace for people, or without.
    pub(crate) fn new(traces: bool) -> Self {
        Self { lines: traces.then(Vec::new), ..Self::default() }
    }

    /// A life takes steady time to be so far ahead of its clock.
    pub(crate) fn followed(&mut self, life: Life, ahead_ms: i64) {
        self.ahead.entry(life).or_default().insert(ahead_ms);
    }

    /// All that it took it to be.
    pub(crate) fn ahead(&self, life: Life) -> impl Iterator<Item = i64> {
        self.ahead.get(&life).into_iter().flatten().copied()
    }

    /// One more.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// A line for people; it is made only if somebody reads it.
    pub(crate) fn say(&mut self, at: i64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>8}.{:03}  {}", at / 1_000, at % 1_000, line()));
        }
    }

    /// The trace.
    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
