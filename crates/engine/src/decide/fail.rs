//! A failed step: retry later, follow a catcher, or fail the state around it.

use super::{Seen, Turning, after_of};
use crate::effect::Effect;
use crate::event::{EventKind, Fault, Iteration, StateType};
use crate::id::{Seq, StrandId};
use crate::strand::{Sent, Standing};
use crate::trial::Handler;
use crate::turn::{LedgerStatus, Note, Retry};
use perdura_asl::error::{DATA_LIMIT_EXCEEDED, QUERY_EVALUATION, RUNTIME, Whose, matches};
use perdura_asl::evaluate::assign;
use perdura_asl::json::Payload;
use perdura_asl::machine::{After, Kind, QueryLanguage, Retrier, State, Transition};
use perdura_asl::scope::{Failure, States};

impl Turning<'_> {
    /// An expression failed, or its data did not fit.
    pub(super) fn evaluation_failed(&mut self, strand: StrandId, failure: Failure) {
        self.abort_branches(strand);
        let fault = self.tell_failure(strand, failure);
        self.step_failed(strand, fault);
    }

    /// The failure as the state's fault; for an expression it is also an event.
    fn tell_failure(&mut self, strand: StrandId, failure: Failure) -> Fault {
        let machine = self.machine();
        let name = &self.state(&machine, strand).name;
        let step = self.step(strand);
        let (entered, entered_after) = (step.entered, step.entered_after);
        // The text for data that is too large already names the field, so the state's name is not added.
        let cause = if failure.error == DATA_LIMIT_EXCEEDED {
            failure.cause
        } else {
            let at = format!("the state '{name}' (entered at the event id #{entered})");
            format!("An error occurred while executing {at}. {}", failure.cause)
        };
        let fault = Fault::new(failure.error, cause);
        if failure.error == QUERY_EVALUATION {
            // Step Functions links this event to the event before the state, if the state has no other events. Only the
            // expressions of a Wait are evaluated after its beginning.
            let last = self.strand(strand).last;
            let waits = matches!(self.state(&machine, strand).kind, Kind::Wait(_));
            let after = if last == entered && !waits { entered_after } else { last };
            let location = failure.location.map(Into::into);
            let kind = EventKind::EvaluationFailed { state: name.clone(), location, fault: fault.clone() };
            self.emit_after(after, strand, kind);
        }
        fault
    }

    /// The strand's step failed, and its event is written. Goes up until a state handles the fault.
    pub(super) fn step_failed(&mut self, strand: StrandId, fault: Fault) {
        self.failed(strand, fault, Whose::State);
    }

    /// The same, if the task itself failed, and not the processing of its data.
    pub(super) fn task_failed(&mut self, strand: StrandId, fault: Fault) {
        self.failed(strand, fault, Whose::Task);
    }

    fn failed(&mut self, strand: StrandId, fault: Fault, whose: Whose) {
        // A failure by the work limit can be caught too.
        self.allow();
        let (mut strand, mut fault, mut whose) = (strand, fault, whose);
        loop {
            match self.handle(strand, &fault, whose) {
                Handled::Yes => return,
                Handled::No => {}
                // A catcher's expressions may fail in turn; no handler of this state applies then.
                Handled::FailedAgain(again) => fault = again,
            }
            whose = Whose::State;
            let Some((parent, index)) = self.strand(strand).parent else {
                self.cancel_all();
                self.emit(strand, EventKind::ExecutionFailed(fault.told()));
                return;
            };
            self.branch_failed(strand, parent, index, &fault);
            strand = parent;
        }
    }

    /// Applies Retry, or Catch, or neither.
    fn handle(&mut self, strand: StrandId, fault: &Fault, whose: Whose) -> Handled {
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let Some(after) = after_of(state) else { return Handled::No };
        if self.retry(strand, after, fault, whose) {
            return Handled::Yes;
        }
        let fans = matches!(state.kind, Kind::Parallel(_) | Kind::Map(_));
        if fans && fault.error.as_deref() != Some(RUNTIME) {
            self.emit(strand, EventKind::StateFailed { state_type: (&state.kind).into() });
        }
        self.catch(strand, state, after, fault, whose)
    }

    fn retry(&mut self, strand: StrandId, after: &After, fault: &Fault, whose: Whose) -> bool {
        let Some((at, retrier)) = retrier(after, fault, whose) else { return false };
        let step = self.step(strand);
        let told = self.trial.and_then(|trial| trial.retries);
        let retries = told.unwrap_or_else(|| step.retries.get(&at).copied().unwrap_or(0));
        // Only a call that was certainly not performed may get a new key; a successful call whose result could not be
        // used keeps its key. A Map Run keeps its key too: its children follow from it.
        let refused = step.map_run.is_none() && step.sent.as_ref().is_none_or(Sent::is_refused);
        let round = if refused { step.round.next() } else { step.round };
        if retrier.delay_ms(retries, 0.0).is_none() {
            if let Some(trial) = self.trial {
                trial.exhaust(at);
            }
            return false;
        }
        if self.waits_for_held(strand, fault) {
            return true;
        }
        let fraction = if retrier.full_jitter { self.dice.fraction() } else { 0.0 };
        let Some(delay) = retrier.delay_ms(retries, fraction) else { return false };
        if let Some(trial) = self.trial {
            trial.handle(fault, Handler::Retrier { at, delay_ms: delay });
        }
        self.drop_branches(strand);
        self.note(Note::Resting {
            strand,
            until: self.moment.steady.after_ms(delay),
            retry: Some(Retry { retrier: at, round }),
            wall: false,
        });
        true
    }

    /// The longest possible pause before the next attempt; `None`: there is none.
    pub(super) fn longest_pause(&self, strand: StrandId, fault: &Fault) -> Option<i64> {
        let machine = self.machine();
        let Kind::Task(task) = &self.state(&machine, strand).kind else { return None };
        let (at, retrier) = retrier(&task.after, fault, Whose::Task)?;
        retrier.delay_ms(self.step(strand).retries.get(&at).copied().unwrap_or(0), 1.0)
    }

    fn catch(
        &mut self,
        strand: StrandId,
        state: &State,
        after: &After,
        fault: &Fault,
        whose: Whose,
    ) -> Handled {
        let mut all = after.catch.iter().enumerate();
        let found = all.find(|(_, catcher)| matches(&catcher.errors, fault.error.as_deref(), whose));
        let Some((at, catcher)) = found else { return Handled::No };
        let raw = self.step(strand).input.clone();
        let error_output = Payload::from(fault.told().error_output());
        let seen = Seen {
            input: error_output.value(),
            states: States {
                input: Some(raw.value()),
                result: None,
                error_output: Some(error_output.value()),
            },
            item: None,
            secret: None,
        };
        let shaped = self.with_scope(strand, &seen, |scope| {
            let assigned = assign(&catcher.assign, scope, &format!("Catch[{at}]/Assign"))?;
            let output = match (&catcher.output, state.language) {
                (Some(output), _) => output.evaluate(scope, &format!("Catch[{at}]/Output"))?.into(),
                (None, QueryLanguage::Jsonata) => error_output.clone(),
                (None, QueryLanguage::JsonPath) => catcher.result_path.place(&raw, error_output.clone())?,
            };
            Ok((output, assigned))
        });
        let left = shaped.and_then(|(output, assigned)| {
            self.check_size(&state.name, &output)?;
            self.drop_branches(strand);
            self.leave(strand, state, output, assigned, Transition::Next(catcher.next))
        });
        match left {
            Ok(()) => {
                if let Some(trial) = self.trial {
                    trial.handle(fault, Handler::Catcher { at });
                }
                Handled::Yes
            }
            Err(failure) => Handled::FailedAgain(self.tell_failure(strand, failure)),
        }
    }

    /// One branch or iteration failed for good: the others are stopped.
    fn branch_failed(&mut self, strand: StrandId, parent: StrandId, index: u32, fault: &Fault) {
        let machine = self.machine();
        self.note(Note::StrandFailed { strand, fault: fault.clone() });
        let failed_at = self.strand(parent).last;
        let around = self.state(&machine, parent);
        if matches!(around.kind, Kind::Map(_)) {
            let iteration = Iteration { name: around.name.clone(), index };
            self.emit_after(failed_at, parent, EventKind::MapIterationFailed(iteration));
        }
        if let Kind::Task(_) = self.state(&machine, strand).kind {
            self.emit_after(failed_at, parent, EventKind::StateAborted { state_type: StateType::Task });
        }
        self.abort_live(parent, failed_at, Some(index));
    }

    /// The Map itself failed while iterations ran.
    fn abort_branches(&mut self, strand: StrandId) {
        let failed_at = self.strand(strand).last;
        self.abort_live(strand, failed_at, None);
    }

    /// Records for every running branch, except one, that it was stopped.
    fn abort_live(&mut self, parent: StrandId, failed_at: Seq, but: Option<u32>) {
        let machine = self.machine();
        let state = self.state(&machine, parent);
        let Standing::Fanning(run) = &self.step(parent).standing else { return };
        let live: Vec<(u32, StrandId)> = run.live.iter().map(|(index, id)| (*index, *id)).collect();
        for (index, strand) in live.into_iter().filter(|(index, _)| Some(*index) != but) {
            if matches!(state.kind, Kind::Map(_)) {
                let iteration = Iteration { name: state.name.clone(), index };
                self.emit_after(failed_at, parent, EventKind::MapIterationAborted(iteration));
            }
            self.abort_strand(strand, failed_at);
        }
    }

    /// Stops a strand: cancels its call, and records the aborted state.
    fn abort_strand(&mut self, strand: StrandId, failed_at: Seq) {
        let machine = self.machine();
        let Some(step) = &self.strand(strand).step else { return };
        let state = machine.state(step.state);
        let state_type = StateType::from(&state.kind);
        match &step.standing {
            Standing::Fanning(_) => self.abort_live(strand, failed_at, None),
            Standing::MapRunning { over: false, .. } => {
                self.emit_after(failed_at, strand, EventKind::MapRunAborted);
            }
            Standing::Ready
            | Standing::Calling { .. }
            | Standing::Resting { .. }
            | Standing::Held { .. }
            | Standing::MapRunning { over: true, .. } => {}
        }
        self.cancel(strand);
        match state_type {
            StateType::Task | StateType::Wait | StateType::Parallel | StateType::Map => {
                self.emit_after(failed_at, strand, EventKind::StateAborted { state_type });
            }
            StateType::Pass | StateType::Choice | StateType::Succeed | StateType::Fail => {}
        }
    }

    /// Removes the branches of a strand, and cancels their calls.
    fn drop_branches(&mut self, strand: StrandId) {
        if !matches!(self.step(strand).standing, Standing::Fanning(_)) {
            return;
        }
        for child in self.descendants(strand) {
            self.cancel(child);
        }
        self.note(Note::StrandsDropped { parent: strand });
    }

    pub(super) fn descendants(&self, strand: StrandId) -> Vec<StrandId> {
        let mut found = Vec::new();
        let mut open = vec![strand];
        while let Some(id) = open.pop() {
            let step = self.draft.peek(id).and_then(|strand| strand.step.as_ref());
            if let Some(Standing::Fanning(run)) = step.map(|step| &step.standing) {
                found.extend(run.live.values());
                open.extend(run.live.values());
            }
        }
        found
    }

    /// Cancels the call of this strand.
    pub(super) fn cancel(&mut self, strand: StrandId) {
        let Some(step) = self.draft.peek(strand).and_then(|strand| strand.step.as_ref()) else { return };
        let calls = match &step.standing {
            Standing::Calling { .. } if step.sent.as_ref().is_none_or(|sent| sent.failed.is_none()) => true,
            Standing::MapRunning { over: false, .. } => false,
            // The status of its key is on record already, and stays.
            Standing::Held { .. } if step.sent.as_ref().is_some_and(Sent::is_in_doubt) => {
                if self.cancelled.insert(strand) {
                    let (key, stops_job) = (self.key(strand), self.is_job(strand));
                    self.effects.push(Effect::CancelTask { strand, key, stops_job });
                }
                return;
            }
            _ => return,
        };
        if !self.cancelled.insert(strand) {
            return;
        }
        let key = self.key(strand);
        if !calls {
            return self.effects.push(Effect::StopMapRun { strand, key });
        }
        // A call of this same Turn has not left yet, and now never will; a task that no worker took was not begun.
        let mut certainly_not = self.is_unstarted(strand);
        if self.called.contains(&strand) {
            self.effects.retain(|effect| !matches!(effect, Effect::CallTask(call) if call.strand == strand));
            certainly_not = true;
        } else {
            let stops_job = self.is_job(strand);
            self.effects.push(Effect::CancelTask { strand, key: key.clone(), stops_job });
        }
        let doubt = self.step(strand).sent.as_ref().is_some_and(|sent| sent.doubt);
        let status = if certainly_not && !doubt { LedgerStatus::Failed } else { LedgerStatus::Uncertain };
        self.note(Note::Ledger { strand, key, status });
    }

    pub(super) fn cancel_all(&mut self) {
        for strand in self.draft.strand_ids() {
            self.cancel(strand);
        }
    }
}

/// The first retrier that matches.
fn retrier<'a>(after: &'a After, fault: &Fault, whose: Whose) -> Option<(u32, &'a Retrier)> {
    let mut all = after.retry.iter().zip(0..);
    let (retrier, at) = all.find(|(retrier, _)| matches(&retrier.errors, fault.error.as_deref(), whose))?;
    Some((at, retrier))
}

enum Handled {
    Yes,
    No,
    FailedAgain(Fault),
}
