//! Faults.

use super::process::{Process, State};
use super::{Happening, Sim};
use crate::observed::Life;
use crate::plan::Fault;
use crate::sabotage::Sabotage;
use perdura_engine::{Call, EffectKey};
use perdura_runtime::Live;

impl Sim {
    pub(super) fn strike(&mut self, fault: Fault) {
        if !self.is_rough() {
            return;
        }
        self.say(|| format!("{fault:?}"));
        match fault {
            Fault::Crash(process) => self.crash(process, "at any time"),
            Fault::Restart(process) => self.ask_to_end(process, 3_000),
            Fault::Pause(process, for_ms) => {
                self.facts.count("pauses");
                let (from, until) = (self.clock.now(), self.clock.now() + for_ms);
                self.facts.pauses.push((from, until));
                self.processes[process].paused_until = until;
            }
            Fault::Replace(process, for_ms) => self.replace(process, for_ms),
            Fault::SetWall(ahead_ms) => self.set_wall(ahead_ms),
            Fault::BeginWrong(process, ahead_ms, for_ms) => {
                self.facts.count("processes that began with a wrong clock");
                self.set_wall(ahead_ms);
                let pause = self.dice.between(0..=for_ms / 2);
                self.crash_for(process, "to begin with a wrong clock", pause);
                self.after(for_ms, Happening::Fault(Fault::SetWall(0)));
            }
            Fault::DiskFull(for_ms) => {
                self.facts.count("full disks");
                let until = self.clock.now() + for_ms;
                self.disk().full_until = until;
            }
            Fault::Hold(held, for_ms) => self.hold(held, for_ms),
            Fault::Sweep(age_ms) => self.look_for_old(age_ms),
        }
    }

    /// A process is paused, and another with the same name begins: it takes the Lease over at once.
    fn replace(&mut self, process: usize, for_ms: i64) {
        if self.processes[process].is_away() || self.processes[process].is_replaced {
            return;
        }
        self.facts.count("replacements");
        self.processes[process].paused_until = self.clock.now() + for_ms;
        self.processes[process].is_replaced = true;
        let holder = self.processes[process].holder.clone();
        self.processes.push(Process::new(holder));
        let new = self.processes.len() - 1;
        let pause = self.dice.between(0..=1_000);
        self.after(pause, Happening::Boot(new));
    }

    pub(super) fn set_wall(&mut self, ahead_ms: i64) {
        self.facts.count("clock steps");
        self.clock.set_wall(ahead_ms);
        self.facts.walls.push((self.clock.now(), ahead_ms));
        // Sleepers by the wall clock check it again.
        for process in 0..self.processes.len() {
            let life = Life { process, boot: self.processes[process].boot };
            self.after(0, Happening::Step(life));
        }
    }

    /// A process may die here.
    pub(super) fn dies(&mut self, life: Life, place: &'static str) -> bool {
        let dies = self.is_rough() && self.dice.in_thousand(self.plan.weather.crash);
        if dies {
            self.crash(life.process, place);
        }
        dies
    }

    pub(super) fn crash(&mut self, process: usize, place: &'static str) {
        let pause = self.dice.between(0..=5_000);
        self.crash_for(process, place, pause);
    }

    /// Kills a process, which begins again after a pause.
    fn crash_for(&mut self, process: usize, place: &'static str, pause: i64) {
        if matches!(self.processes[process].state, State::Down) {
            return;
        }
        self.facts.count("crashes");
        self.facts.count(place);
        self.say(|| format!("process {process} crashes {place}"));
        self.processes[process].lose();
        self.disk().lose_promises();
        if self.processes.iter().all(Process::is_away) {
            self.home.reopen();
        }
        if self.processes[process].is_replaced {
            return;
        }
        self.after(pause, Happening::Boot(process));
    }

    /// A process may hang here, until another has taken its Shards.
    pub(super) fn stalls(&mut self, life: Life) -> bool {
        let stalls = self.is_rough() && self.dice.in_thousand(self.plan.weather.stall);
        if stalls && !self.processes[life.process].is_replaced {
            self.say(|| format!("{life:?} stalls with a group in hand"));
            self.facts.count("stalls");
            let for_ms = self.dice.between(12_000..=25_000);
            if self.plan.processes == 1 {
                self.replace(life.process, for_ms);
            }
            self.processes[life.process].paused_until = self.clock.now() + for_ms;
            return true;
        }
        false
    }

    /// The wall clock woke an execution; now it is set back before the wake is decided.
    pub(super) fn take_back(&mut self, life: Life) {
        if self.is_rough() && self.plan.weather.step > 0 && self.dice.in_thousand(300) {
            let ahead_ms = self.dice.between(-3_600_000..=0);
            self.say(|| format!("the clock on the wall is set {ahead_ms} ms ahead, while {life:?} wakes"));
            self.set_wall(ahead_ms);
        }
    }

    /// Time passes in the middle of a process's work, or the clock is stepped.
    pub(super) fn dawdle(&mut self, life: Life) {
        if !self.is_rough() {
            return;
        }
        if self.dice.in_thousand(self.plan.weather.hang) {
            let hangs_for = self.dice.between(1..=4_000);
            self.facts.count("hangs");
            self.say(|| format!("{life:?} hangs for {hangs_for} ms"));
            self.clock.advance_to(self.clock.now() + hangs_for);
            let now = self.clock.now();
            self.disk().now = now;
        }
        if self.dice.in_thousand(self.plan.weather.step) {
            let ahead_ms = self.dice.between(-3_600_000..=3_600_000);
            self.say(|| format!("the clock on the wall is set {ahead_ms} ms ahead"));
            self.set_wall(ahead_ms);
        }
    }

    /// For sabotage: the calls under way, as if this process made them.
    pub(super) fn calls_on_record(&mut self) -> Live {
        debug_assert_eq!(self.sabotage, Some(Sabotage::ResumeForgotten));
        let mut live = Live::default();
        for history in crate::history::read_all(self) {
            if let Some(execution) = history.execution {
                let calls: Vec<_> = execution.calls().collect();
                if !calls.is_empty() {
                    live.calls.insert(history.id, calls);
                }
            }
        }
        live
    }

    /// For sabotage: a key that is not on record.
    pub(super) fn another_key(&mut self, call: &Call) -> EffectKey {
        let number = 1_000 + self.dice.below(1_000_000);
        let text = format!("{}:{number}", crate::receiver::step_place(&call.key));
        serde_json::from_value(serde_json::Value::String(text)).expect("a key is text")
    }
}
