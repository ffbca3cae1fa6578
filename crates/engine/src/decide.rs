//! Decides what follows from an input: the one match over (current state, input).
//!
//! Pure states between two Effects belong to the same Turn, up to a bound on states, bytes and work; then the Turn is
//! committed and [`Effect::Continue`] asks for the next, so that an endless loop can be stopped and starves no
//! execution.

mod alone;
mod branches;
mod choose;
mod end;
mod fail;
mod finish;
mod hold;
mod map_run;
mod resume;
mod run;
mod task;
mod wake;

use crate::context::{MapItem, StepContext};
use crate::draft::{Changes, Draft};
use crate::effect::Effect;
use crate::event::{Event, EventKind};
use crate::execution::{Execution, Status};
use crate::id::{Attempt, EffectKey, Moment, Secret, Seq, StrandId, TaskToken, Timestamp, Wake};
use crate::input::Input;
use crate::strand::{Step, Strand};
use crate::trial::{GivenContext, Stage, Trial};
use crate::turn::{Note, Record, Turn};
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::{Kind, Machine, State, StateIx};
use perdura_asl::scope::{Context, Dice, Scope, States, Variables};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alone::after_of;
pub(crate) use alone::{Alone, decide_alone};

/// The decision on an input: records to commit, and effects that may leave after the commit.
#[derive(Debug)]
pub struct Decision {
    /// The records to commit, all or nothing.
    pub turn: Turn,
    /// The effects to perform after the commit.
    pub effects: Vec<Effect>,
    /// Why an input to an ended execution changed nothing. It is not recorded.
    pub ignored: Option<Arc<str>>,
    /// The work of deciding, in the units of [`TURN_WORK_MAX`](crate::TURN_WORK_MAX).
    pub work: u64,
    changes: Changes,
}

impl Execution {
    /// The Turn is on disk: applies it, and returns the effects, which may leave now.
    pub fn commit(&mut self, decision: Decision) -> Vec<Effect> {
        self.install(decision.changes);
        decision.effects
    }
}

/// Decides. Total: an input that does not fit changes nothing and is recorded as ignored.
pub fn decide(execution: &Execution, input: &Input, moment: &Moment) -> Decision {
    Turning::new(execution, moment, None).decide(input)
}

/// The same in a process that is about to end: it begins no effects, and resumes nothing. A strand that comes to a call
/// stops before it, and [`Effect::Continue`] is for the next process.
pub fn decide_before_calls(execution: &Execution, input: &Input, moment: &Moment) -> Decision {
    let mut turning = Turning::new(execution, moment, None);
    turning.begins_calls = false;
    turning.decide(input)
}

/// The same of one whose machine is paused: what arrives is taken, and no state is carried out, so no call is made. It goes on with
/// [`Input::Continue`] when it is decided by [`decide`] again.
pub fn decide_paused(execution: &Execution, input: &Input, moment: &Moment) -> Decision {
    let mut turning = Turning::new(execution, moment, None);
    turning.goes_on = false;
    turning.decide(input)
}

/// Resumes an execution in a process that makes some of its calls already: those are neither repeated nor held.
pub fn resume_beside(execution: &Execution, live: &BTreeSet<LiveCall>, moment: &Moment) -> Decision {
    let mut turning = Turning::new(execution, moment, None);
    turning.live = Some(live);
    turning.decide(&Input::Resume)
}

/// One attempt of a call that this process makes.
pub type LiveCall = (StrandId, EffectKey, Attempt);

/// A Turn under construction.
struct Turning<'e> {
    draft: Draft<'e>,
    turn: Turn,
    effects: Vec<Effect>,
    dice: Dice,
    /// The clocks and the entropy of the Turn.
    moment: Moment,
    /// The time of the Turn: the wall clock, but never before earlier events.
    now: Timestamp,
    states: u32,
    bytes: usize,
    /// The work limit of expressions, from one [`Turning::allow`] to the next.
    allowance: u64,
    /// Strands whose calls leave with this Turn.
    called: BTreeSet<StrandId>,
    /// Strands whose calls were cancelled in this Turn.
    cancelled: BTreeSet<StrandId>,
    /// Present in a trial of one state.
    trial: Option<&'e Trial>,
    /// Why the input changed nothing, if that is not recorded.
    ignored: Option<Arc<str>>,
    /// Calls and Map Runs may begin.
    begins_calls: bool,
    /// States may be carried out.
    goes_on: bool,
    /// Calls that this process is making.
    live: Option<&'e BTreeSet<LiveCall>>,
}

impl<'e> Turning<'e> {
    fn new(execution: &'e Execution, moment: &Moment, trial: Option<&'e Trial>) -> Self {
        let now = moment.now.max(execution.core.at);
        let turning = Self {
            draft: Draft::new(execution),
            // Capacity for a Task that ends and the next one, which is most Turns.
            turn: Turn { records: Vec::with_capacity(8) },
            effects: Vec::with_capacity(2),
            dice: Dice::new(now.0, moment.entropy),
            moment: *moment,
            now,
            states: 0,
            bytes: 0,
            allowance: execution.identity.limits.state_work_max,
            called: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            trial,
            ignored: None,
            begins_calls: true,
            goes_on: true,
            live: None,
        };
        turning.allow();
        turning
    }
}

impl Turning<'_> {
    fn decide(mut self, input: &Input) -> Decision {
        match (self.draft.base.core.status, input) {
            (Status::Created, Input::Start) => self.start(),
            (_, Input::Redrive) => self.redrive(None),
            (_, Input::RedriveOnce { token }) => self.redrive(Some(token)),
            (Status::Created, _) => self.ignore("the execution has not begun"),
            (Status::Running, Input::Start) => self.ignore("the execution has begun already"),
            (Status::Running, Input::Continue) if !self.goes_on => {}
            (Status::Running, Input::Continue) => self.start_the_rest(),
            (Status::Running, Input::Resume) => self.resume(),
            (Status::Running, Input::Timer) => self.wake(),
            (Status::Running, Input::TaskStarted { by, worker }) => self.task_started(by, worker.clone()),
            (Status::Running, Input::TaskOutcome { by, outcome }) => self.settle(by, outcome),
            (Status::Running, Input::Heartbeat { by }) => self.heartbeat(by),
            (Status::Running, Input::ChildOutcome { by, outcome }) => self.map_run_ended(by, outcome),
            (Status::Running, Input::Resolve { by, resolution, reason }) => {
                self.resolve(by, resolution, reason);
            }
            (Status::Running, Input::Stop { fault }) => self.stop(EventKind::ExecutionAborted(fault.clone())),
            (_, Input::TaskOutcome { by, outcome }) if self.draft.base.tells_of_late(by, outcome) => {
                self.late(by, outcome);
            }
            (_, _) => self.ignore("the execution has ended"),
        }
        // Resuming advances no strand.
        if self.goes_on && !matches!(input, Input::Resume) {
            self.run();
        }
        self.decision()
    }

    /// Records a value for a trial.
    fn see(&self, stage: Stage, value: &Payload) {
        if let Some(trial) = self.trial {
            trial.see(stage, value.clone());
        }
    }

    fn decision(mut self) -> Decision {
        let core = &self.draft.changes.core;
        let (status, timer, ready) = (core.status, core.timer, !core.ready.is_empty());
        let wake = if status == Status::Running { self.draft.next_wake() } else { Wake::default() };
        if wake != timer {
            self.draft.core().timer = wake;
            self.effects.push(Effect::SetTimer { wake });
        }
        if status == Status::Running && ready && self.goes_on {
            self.effects.push(Effect::Continue);
        }
        let before = &self.draft.base.core;
        let began = status != Status::Created
            && (before.status == Status::Created || before.redrives != self.draft.changes.core.redrives);
        if began {
            self.effects.push(Effect::Publish { status: Status::Running });
        }
        let has_ended = !matches!(status, Status::Created | Status::Running);
        if has_ended && (began || status != before.status) {
            self.effects.push(Effect::Publish { status });
        }
        let work = self.work();
        Decision {
            turn: self.turn,
            effects: self.effects,
            ignored: self.ignored,
            work,
            changes: self.draft.changes,
        }
    }

    fn machine(&self) -> Arc<Machine> {
        self.draft.base.machine.clone()
    }

    /// A strand that must exist.
    fn strand(&self, id: StrandId) -> &Strand {
        self.draft.peek(id).expect("a strand that is being decided on is there")
    }

    /// A strand's step, which must exist.
    fn step(&self, id: StrandId) -> &Step {
        self.strand(id).step.as_ref().expect("a strand that is being decided on has a step")
    }

    fn state<'m>(&self, machine: &'m Machine, id: StrandId) -> &'m State {
        machine.state(self.step(id).state)
    }

    /// The key of a strand's step in its current round.
    fn key(&self, id: StrandId) -> EffectKey {
        let visit = self.draft.visits(id, self.step(id).state);
        let base = self.draft.base;
        self.strand(id).key(base.identity.id, &base.machine, visit).expect("a strand with a step has a key")
    }

    fn note(&mut self, note: Note) {
        self.draft.record(&mut self.turn, Record::Note(note));
    }

    /// The input changes nothing. An ended execution does not grow by such inputs.
    fn ignore(&mut self, reason: &str) {
        if self.draft.base.is_ended() {
            self.ignored = Some(reason.into());
            return;
        }
        self.note(Note::Ignored { reason: reason.into() });
    }

    /// An event that follows from the strand's last one.
    fn emit(&mut self, strand: StrandId, kind: EventKind) -> Seq {
        let previous = self.draft.peek(strand).map_or(Seq(0), |strand| strand.last);
        self.emit_after(previous, strand, kind)
    }

    fn emit_after(&mut self, previous: Seq, strand: StrandId, kind: EventKind) -> Seq {
        let id = self.draft.changes.core.last.next();
        let steady = Some(self.moment.steady).filter(|steady| *steady != self.now);
        let event = Event { id, previous, at: self.now, steady, strand, kind };
        self.draft.record(&mut self.turn, Record::Event(event));
        id
    }

    /// A strand enters a state.
    fn enter(&mut self, strand: StrandId, state: StateIx, input: Payload) {
        self.states += 1;
        self.bytes += input.len();
        let machine = self.machine();
        let entered = machine.state(state);
        let kind = EventKind::StateEntered {
            state,
            state_type: (&entered.kind).into(),
            name: entered.name.clone(),
            input,
        };
        self.emit(strand, kind);
    }

    /// Calls `look` with a scope in which expressions of the strand's step can be evaluated.
    fn with_scope<R>(&self, id: StrandId, seen: &Seen<'_>, look: impl FnOnce(&Scope<'_>) -> R) -> R {
        let machine = self.machine();
        let strand = self.strand(id);
        let key = || matches!(self.state(&machine, id).kind, Kind::Task(_)).then(|| self.key(id));
        let context = StepContext {
            identity: &self.draft.base.identity,
            core: &self.draft.changes.core,
            state: self.state(&machine, id),
            step: self.step(id),
            key: &key,
            token: seen.secret.map(|secret| TaskToken {
                execution: self.draft.base.identity.id,
                strand: id,
                secret,
            }),
            item: seen.item.clone(),
        };
        let given = self.trial.map(|trial| {
            let mut whole = trial.context.clone();
            if let Some(item) = &seen.item {
                whole.insert("Map", item.to_map());
            }
            GivenContext { whole: whole.into(), step: &context }
        });
        let context: &dyn Context = given.as_ref().map_or(&context, |given| given);
        let mut maps = vec![strand.variables.clone()];
        let mut parent = strand.parent;
        while let Some((id, _)) = parent {
            let around = self.strand(id);
            maps.push(around.variables.clone());
            parent = around.parent;
        }
        nest(&maps, None, |variables| {
            look(&Scope { input: seen.input, context, variables, states: seen.states, dice: &self.dice })
        })
    }
}

/// Links scopes from the outermost, which is last, to the innermost.
fn nest<R>(
    maps: &[Arc<BTreeMap<Arc<str>, Payload>>],
    outer: Option<&Variables<'_>>,
    look: impl FnOnce(&Variables<'_>) -> R,
) -> R {
    match maps {
        [inner @ .., outermost] => {
            let variables = Variables { own: Some(outermost), outer };
            if inner.is_empty() { look(&variables) } else { nest(inner, Some(&variables), look) }
        }
        [] => look(&Variables::default()),
    }
}

/// The values that an expression sees besides the variables and the context object.
struct Seen<'a> {
    /// `$`
    input: &'a Value,
    /// `$states`
    states: States<'a>,
    /// `$$.Map.Item`
    item: Option<MapItem>,
    /// The secret of `$$.Task.Token`.
    secret: Option<Secret>,
}

impl<'a> Seen<'a> {
    /// Only `$`, and `$states.input`.
    fn input(input: &'a Value) -> Self {
        Self { input, states: States { input: Some(input), ..States::default() }, item: None, secret: None }
    }

    /// `$` is the result; `$states` has input and result.
    fn result(raw: &'a Value, result: &'a Value) -> Self {
        Self {
            input: result,
            states: States { input: Some(raw), result: Some(result), error_output: None },
            item: None,
            secret: None,
        }
    }
}
