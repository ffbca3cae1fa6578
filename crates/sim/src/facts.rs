//! Facts about a run for the checkers, and a trace for people.

use crate::clock::Steady;
use crate::observed::Life;
use perdura_engine::{EffectKey, ExecutionId, TaskToken};
use std::collections::{BTreeMap, BTreeSet};

/// A call that left a process.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    /// The process that made it.
    pub(crate) by: Life,
    pub(crate) key: EffectKey,
    pub(crate) at: i64,
    /// How often this process had recorded it by then.
    pub(crate) ordered: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The steady clock of each life.
    pub(crate) lives: BTreeMap<Life, Steady>,
    /// All differences between each process's steady time and its clock.
    ahead: BTreeMap<Life, BTreeSet<i64>>,
    /// How far the wall clock was ahead, and from when on.
    pub(crate) walls: Vec<(i64, i64)>,
    /// The periods in which a process was paused.
    pub(crate) pauses: Vec<(i64, i64)>,
    /// Calls, in the order in which they left.
    pub(crate) left: Vec<Left>,
    /// How often each call may have reached a receiver with the policy `hold`.
    pub(crate) held_reached: BTreeMap<EffectKey, u32>,
    /// Tasks that workers got.
    pub(crate) handed: Vec<TaskToken>,
    /// Violations that were noticed during the run.
    pub(crate) complaints: Vec<String>,
    /// When each swept execution was swept.
    pub(crate) swept_at: BTreeMap<ExecutionId, i64>,
    /// Executions that were swept while they ran.
    pub(crate) swept_running: Vec<String>,
    /// How often each kind of event happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Everything has ended, and no client waits for an answer.
    pub(crate) is_quiet: bool,
    /// Executions and requests that did not come to an end.
    pub(crate) restless: Vec<String>,
    /// Executions in memory of the process that was begun at the very end.
    pub(crate) in_memory_at_last: usize,
    /// Executions that this process could not read.
    pub(crate) parked_at_last: usize,
    lines: Option<Vec<String>>,
}

impl Facts {
    /// With a trace for people, or without.
    pub(crate) fn new(traces: bool) -> Self {
        Self { lines: traces.then(Vec::new), ..Self::default() }
    }

    /// Records that a process takes steady time to be so far ahead of its clock.
    pub(crate) fn followed(&mut self, life: Life, ahead_ms: i64) {
        self.ahead.entry(life).or_default().insert(ahead_ms);
    }

    /// All such differences of a process.
    pub(crate) fn ahead(&self, life: Life) -> impl Iterator<Item = i64> {
        self.ahead.get(&life).into_iter().flatten().copied()
    }

    /// Counts an event.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Adds a line to the trace; the line is only built if there is a trace.
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
