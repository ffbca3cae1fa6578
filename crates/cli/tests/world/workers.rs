//! Workers: who takes the tasks of an activity, and how it answers.
//!
//! One that falls silent misses its heartbeat and answers late. Where its task goes to another worker, that is while
//! the other works. Where the task is held, that is when a person comes to look.

use crate::books::Fate;
use crate::door::{Caller, Door};
use crate::kinds::{Kind, To};
use crate::play::answer;
use crate::receiver::{Receiver, deed};
use perdura_asl::json::Payload;
use perdura_engine::Certainty;
use perdura_server::Refusal;
use perdura_server::control::{Answer, LedgerEntry, Request, Task};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All workers on the activities of one receiver.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that fell silent, by deed.
    silent: BTreeMap<String, Silent>,
    late: Late,
}

/// Who has taken a task and said nothing yet.
struct Silent {
    token: String,
    wire_key: String,
    was_done: bool,
}

/// How many late answers there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Late {
    pub(crate) successes: usize,
    pub(crate) failures: usize,
}

impl Workers {
    /// Works until there are no more servers.
    pub(crate) fn work(&self, door: &Door, receiver: &Receiver, to: To) {
        let mut caller = door.caller();
        let poll = Request::Poll { activity: Kind::Activity.machine(to), worker: None };
        while let Some(told) = caller.try_ask(&poll) {
            let Ok(Answer::Task(task)) = told else { panic!("a poll is answered with {told:?}") };
            let Some(task) = task else { continue };
            let deed = deed(task.input.text());
            self.let_the_other_answer(&mut caller, &deed, &task);
            if let Some(request) = self.perform(receiver, &deed, &task) {
                // A refusal says that it comes too late, and that the task is somebody else's now, or held.
                caller.try_ask(&request);
            }
        }
    }

    /// Does what the task wants, and gives the answer; none: it falls silent.
    fn perform(&self, receiver: &Receiver, deed: &str, task: &Task) -> Option<Request> {
        let token = task.token.clone();
        match receiver.take(&task.wire_key, task.input.text()) {
            Fate::Done => Some(succeed(token, deed)),
            Fate::Refused => Some(fail(token, Certainty::Refused)),
            Fate::DoneBut500
            | Fate::DoneBut303
            | Fate::DoneButHungUp
            | Fate::DoneButHalf
            | Fate::Only500
            | Fate::Only503 => Some(fail(token, Certainty::Ambiguous)),
            fate @ (Fate::DoneButSilent | Fate::OnlySilent) => {
                let was_done = fate == Fate::DoneButSilent;
                let silent = Silent { token, wire_key: task.wire_key.clone(), was_done };
                self.state().silent.insert(deed.into(), silent);
                None
            }
            // It is never heard of again.
            Fate::DoneButDied | Fate::OnlyDied => None,
        }
    }

    /// Who had this task before and fell silent says what became of it, while another has it.
    fn let_the_other_answer(&self, caller: &mut Caller<'_>, deed: &str, task: &Task) {
        let Some(silent) = self.state().silent.remove(deed) else { return };
        assert_ne!(silent.token, task.token, "each attempt answers for itself");
        // Of those that have done it, half say that they failed.
        let late = self.late();
        let succeeds = silent.was_done && late.successes <= late.failures;
        let told = self.say(caller, deed, silent, succeeds);
        let is_believed = matches!(told, Some(Ok(_)));
        assert!(succeeds || !is_believed, "{deed}: a late failure has ended the attempt of another worker");
    }

    /// The same for a task that is held. Whether it is resolved by that.
    pub(crate) fn let_who_holds_answer(
        &self,
        caller: &mut Caller<'_>,
        deed: &str,
        entry: &LedgerEntry,
    ) -> bool {
        let is_it = |silent: &Silent| silent.wire_key == entry.wire_key;
        let silent = {
            let mut state = self.state();
            if !state.silent.get(deed).is_some_and(is_it) {
                return false;
            }
            state.silent.remove(deed)
        };
        silent.is_some_and(|silent| {
            let succeeds = silent.was_done;
            matches!(self.say(caller, deed, silent, succeeds), Some(Ok(_)))
        })
    }

    fn say(
        &self,
        caller: &mut Caller<'_>,
        deed: &str,
        silent: Silent,
        succeeds: bool,
    ) -> Option<Result<Answer, Refusal>> {
        let request = if succeeds {
            self.state().late.successes += 1;
            succeed(silent.token, deed)
        } else {
            self.state().late.failures += 1;
            fail(silent.token, if silent.was_done { Certainty::Ambiguous } else { Certainty::Refused })
        };
        caller.try_ask(&request)
    }

    /// How many late answers there were.
    pub(crate) fn late(&self) -> Late {
        self.state().late
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn succeed(token: String, deed: &str) -> Request {
    Request::Succeed { token, output: Payload::from_text(answer(deed)).expect("it is JSON") }
}

fn fail(token: String, certainty: Certainty) -> Request {
    Request::Fail { token, error: Some("Trouble".into()), cause: None, certainty }
}
