//! Machines are paused and resumed, as a person does it, at any moment.

use super::process::State;
use super::{Happening, Sim};
use crate::observed::{Hold, Life};
use crate::plan::Held;
use perdura_engine::Timestamp;
use perdura_runtime::{ALL, Message, Pause, Reply};
use perdura_store::{MachineId, Registry};
use std::sync::PoisonError;

impl Sim {
    /// A machine, or all of them, is paused for so long.
    pub(super) fn hold(&mut self, held: Held, for_ms: i64) {
        let name = self.held_name(held);
        let machine = self.held_machine(held);
        let pause = Pause { machine, now: held.now };
        let entry = pause.entry(&name, Timestamp(self.clock.now()));
        // Somebody who is refused asks again, or leaves it.
        if self.home.handle().register(&entry, None).is_err() {
            return;
        }
        self.facts.count("machines paused");
        self.facts.pauses.push((self.clock.now(), self.clock.now() + for_ms));
        let number = self.disk().observed.hold(Hold { machine, now: held.now });
        for life in self.lives_up() {
            let disk = self.disk.clone();
            let told = move |()| {
                disk.lock().unwrap_or_else(PoisonError::into_inner).observed.knows(number, life);
            };
            self.post(life, Message::Pace { machine, pause: Some(pause), reply: Reply::new(told) });
        }
        self.after(for_ms, Happening::LetGo(held, number));
    }

    /// It goes on, unless somebody has paused it anew.
    pub(super) fn let_go(&mut self, held: Held, number: usize) {
        if self.disk().observed.is_over(number) {
            return;
        }
        let (name, machine) = (self.held_name(held), self.held_machine(held));
        if self.home.handle().unregister(Registry::Pause, &name, None).is_err() {
            return self.after(100, Happening::LetGo(held, number));
        }
        self.facts.count("machines resumed");
        self.disk().observed.let_go(number);
        for life in self.lives_up() {
            self.post(life, Message::Pace { machine, pause: None, reply: Reply::new(drop) });
        }
    }

    /// A process that begins reads what is paused.
    pub(super) fn knows_what_is_held(&mut self, life: Life) {
        self.disk().observed.knows_all(life);
    }

    fn held_name(&self, held: Held) -> String {
        held.script.map_or_else(|| ALL.to_owned(), |script| self.plan.scripts[script].name.to_owned())
    }

    fn held_machine(&self, held: Held) -> Option<MachineId> {
        let name = held.script.map(|script| self.plan.scripts[script].name)?;
        self.home.reader().machine_id(name).expect("what was written can be read")
    }

    fn lives_up(&self) -> Vec<Life> {
        let up = self.processes.iter().enumerate();
        let up = up.filter(|(_, process)| matches!(process.state, State::Up(_)));
        up.map(|(process, it)| Life { process, boot: it.boot }).collect()
    }
}
