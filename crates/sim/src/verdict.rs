//! The verdict on one seed.

use crate::check::{self, Evidence, Promise};
use crate::sim::{Setting, Sim};
use std::collections::BTreeMap;

/// The result of a seed.
#[derive(Debug, Default)]
pub struct Verdict {
    pub seed: u64,
    /// The broken promises.
    pub complaints: Vec<(Promise, String)>,
    /// How often each kind of event happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The trace, if it was requested.
    pub trace: Vec<String>,
}

/// Runs a seed and checks it; a deterministic one also runs without faults.
pub fn judge(seed: u64, setting: Setting) -> Verdict {
    let mut sim = Sim::from_seed(seed, setting);
    sim.run();
    let evidence = Evidence::of(&sim);
    let mut complaints = Vec::new();
    let mut add = |promise, found: Vec<String>| {
        complaints.extend(found.into_iter().map(|what| (promise, what)));
    };
    add(Promise::NothingLost, check::nothing_lost(&evidence));
    add(Promise::AcknowledgedIsDurable, check::acknowledged_is_durable(&evidence));
    add(Promise::AppliedOncePerKey, check::applied_once_per_key(&evidence));
    add(Promise::CompletedNeverRunsAgain, check::completed_never_runs_again(&evidence));
    add(Promise::DoubtIsSticky, check::doubt_is_sticky(&evidence));
    add(Promise::PausedStands, check::paused_stands(&evidence));
    add(Promise::HeldIsNotRepeated, check::held_is_not_repeated(&evidence));
    add(Promise::HistoriesLegal, check::histories_legal(&evidence));
    add(Promise::MapRunsEnd, check::map_runs_end(&evidence));
    add(Promise::Timers, check::timers(&evidence));
    add(Promise::AnsweredAnywhere, check::answered_anywhere(&evidence));
    add(Promise::ToldOnTheAudit, check::told_on_the_audit(&evidence));
    if sim.plan.steadfast {
        let mut calm =
            Sim::from_seed(seed, Setting { without_faults: true, sabotage: None, traces: false, ..setting });
        calm.run();
        add(Promise::SameAsWithoutFaults, check::same_as_without_faults(&evidence, &Evidence::of(&calm)));
    }
    let counts = sim.counts();
    Verdict { seed, complaints, counts, trace: sim.facts.lines().to_vec() }
}

impl Verdict {
    /// Whether everything holds.
    pub fn is_good(&self) -> bool {
        self.complaints.is_empty()
    }

    pub fn broken(&self) -> Vec<Promise> {
        let mut broken: Vec<Promise> = self.complaints.iter().map(|(promise, _)| *promise).collect();
        broken.sort_unstable();
        broken.dedup();
        broken
    }

    /// For people: the seed, the broken promises, and the command to repeat the run.
    pub fn report(&self, setting: Setting) -> String {
        let found = self.complaints.iter().take(20).map(|(promise, what)| format!("  {promise:?}: {what}\n"));
        format!(
            "seed {} breaks {:?}\n{}replay it with: {}\n",
            self.seed,
            self.broken(),
            found.collect::<String>(),
            replay_command(self.seed, setting)
        )
    }
}

/// The command that runs a seed again, with its trace.
pub fn replay_command(seed: u64, setting: Setting) -> String {
    let sabotage = setting.sabotage.map(|sabotage| format!(" --sabotage {sabotage:?}")).unwrap_or_default();
    let trouble = setting.trouble.map(|trouble| format!(" --trouble {trouble:?}")).unwrap_or_default();
    format!("cargo run --release -p perdura-sim --example seeds -- --seed {seed} --trace{sabotage}{trouble}")
}
