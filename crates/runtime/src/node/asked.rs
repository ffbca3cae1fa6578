//! What is asked of the store, and what waits for it.
//!
//! About each subject there is one question at a time, and whoever needs the same waits for the same answer, in the
//! order of arrival. That is what makes an answer good when it comes: an execution that is asked for moves only after
//! it is here, and whoever wants to begin under a name that is asked for waits for the answer too. So nothing that was
//! read can have changed by what this node did meanwhile, as long as it is used in the step in which it arrives.
//!
//! What could not be read is asked for again. Whoever can be told of that is told; what nobody would say again stays.

use super::errands::Errand;
use crate::librarian::{Ask, Finding, Question, Subject};
use perdura_engine::ExecutionId;
use std::collections::BTreeMap;

/// The questions that are not answered yet.
pub(super) struct Questions {
    /// The number of the last one; other nodes count elsewhere.
    last: u128,
    open: BTreeMap<Subject, Open>,
    /// Those that are to be handed over.
    out: Vec<Question>,
    /// How many are about executions that come into memory, or may.
    executions: usize,
    /// How many of them are about children that may begin.
    children: usize,
    starts: Starts,
}

/// Starts that wait for an answer. Each was let in, so it has its room.
#[derive(Default)]
struct Starts {
    count: usize,
    bytes: u64,
}

impl Starts {
    fn wait(&mut self, errand: &Errand) {
        if let Errand::Start(starting) = errand {
            self.count += 1;
            self.bytes += starting.weight();
        }
    }

    fn go_on(&mut self, errands: &[Errand]) {
        for errand in errands {
            if let Errand::Start(starting) = errand {
                self.count -= 1;
                self.bytes -= starting.weight();
            }
        }
    }
}

/// A question that is not answered yet.
struct Open {
    ask: Ask,
    /// `None`: it could not be read, and is asked again in a while.
    number: Option<u128>,
    /// What is done with the answer, in this order.
    errands: Vec<Errand>,
}

impl Questions {
    pub(super) fn numbered_from(number: u128) -> Self {
        Self {
            last: number,
            open: BTreeMap::new(),
            out: Vec::new(),
            executions: 0,
            children: 0,
            starts: Starts::default(),
        }
    }

    /// Asks, unless that is asked already; an errand waits for the answer.
    pub(super) fn ask(&mut self, ask: Ask, errand: Option<Errand>) {
        let subject = ask.subject();
        let is_child = matches!(subject, Subject::Child(_));
        let comes = usize::from(is_child || matches!(subject, Subject::Execution(_)));
        let (executions, children) = (&mut self.executions, &mut self.children);
        let open = self.open.entry(subject).or_insert_with(|| {
            *executions += comes;
            *children += usize::from(is_child);
            Open { ask, number: None, errands: Vec::new() }
        });
        if let Some(errand) = &errand {
            self.starts.wait(errand);
        }
        open.errands.extend(errand);
        if open.number.is_none() {
            send(open, &mut self.last, &mut self.out);
        }
    }

    /// What is to be handed over to whoever reads.
    pub(super) fn questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.out)
    }

    pub(super) fn has_questions(&self) -> bool {
        !self.out.is_empty()
    }

    /// What waits for this answer; `None`: it was another node's question.
    pub(super) fn answered(&mut self, answer: &Finding) -> Option<Vec<Errand>> {
        let open = self.open.get(&answer.subject)?;
        if open.number != Some(answer.number) {
            return None;
        }
        self.remove(&answer.subject)
    }

    fn remove(&mut self, subject: &Subject) -> Option<Vec<Errand>> {
        let open = self.open.remove(subject)?;
        let is_child = matches!(subject, Subject::Child(_));
        self.executions -= usize::from(is_child || matches!(subject, Subject::Execution(_)));
        self.children -= usize::from(is_child);
        self.starts.go_on(&open.errands);
        Some(open.errands)
    }

    /// It could not be read; whoever can be told is told.
    pub(super) fn failed(&mut self, answer: &Finding, tell: impl FnMut(Errand) -> Option<Errand>) {
        let Some(open) = self.open.get_mut(&answer.subject) else { return };
        if open.number != Some(answer.number) {
            return;
        }
        open.number = None;
        let errands = std::mem::take(&mut open.errands);
        let had_errands = !errands.is_empty();
        self.starts.go_on(&errands);
        open.errands = errands.into_iter().filter_map(tell).collect();
        for errand in &open.errands {
            self.starts.wait(errand);
        }
        if had_errands && open.errands.is_empty() {
            self.remove(&answer.subject);
        }
    }

    /// What could not be read is asked again.
    pub(super) fn ask_again(&mut self) {
        for open in self.open.values_mut().filter(|open| open.number.is_none()) {
            send(open, &mut self.last, &mut self.out);
        }
    }

    /// Something is to be asked again.
    pub(super) fn has_failed(&self) -> bool {
        self.open.values().any(|open| open.number.is_none())
    }

    /// This execution, or the child that it may be, is asked for: what is stored of it must stay.
    pub(super) fn is_about(&self, id: ExecutionId) -> bool {
        self.open.contains_key(&Subject::Execution(id)) || self.open.contains_key(&Subject::Child(id))
    }

    /// It is asked who has a name that one execution shares with another: that one is known only after that.
    pub(super) fn is_about_shared(&self) -> bool {
        self.open.keys().any(|subject| matches!(subject, Subject::Shared(_)))
    }

    /// How many executions are on their way into memory.
    pub(super) fn executions(&self) -> usize {
        self.executions
    }

    /// How many starts wait for an answer, and how many bytes they will weigh.
    pub(super) fn starts(&self) -> (usize, u64) {
        (self.starts.count, self.starts.bytes)
    }

    /// How many children may begin as soon as it is read with what.
    pub(super) fn children(&self) -> u64 {
        self.children as u64
    }

    /// Nothing is asked.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Somebody waits for an answer.
    pub(super) fn has_errands(&self) -> bool {
        self.open.values().any(|open| !open.errands.is_empty())
    }

    /// All that waits.
    pub(super) fn into_errands(self) -> impl Iterator<Item = Errand> {
        self.open.into_values().flat_map(|open| open.errands)
    }
}

fn send(open: &mut Open, last: &mut u128, out: &mut Vec<Question>) {
    *last = last.wrapping_add(1);
    open.number = Some(*last);
    out.push(Question { number: *last, ask: open.ask.clone() });
}
