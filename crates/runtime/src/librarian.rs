//! What a node asks of the store, and who answers.
//!
//! A node does not read. It asks, goes on with others, and is told: by a thread of its own on a real machine, late, out
//! of order or not at all in a simulation, at once by whoever has one thread. Executions are rebuilt here as well, so a
//! slow disk and a long history keep nobody else waiting.

mod left;

use crate::card::{Card, Unstartable};
use crate::committer::panic_text;
use crate::fold::{Unreadable, rebuild};
use crate::library::{Definition, Shelf};
use crate::naming::Via;
use crate::running::Running;
pub(crate) use left::{LeftRun, Waits};
use perdura_engine::{Destinations, ExecutionId, Timestamp, Wake};
use perdura_store::{
    Clock, Due, Failure, FailureKind, MachineId, MapRunRow, Reader, Recovered, RevisionId, Shard,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use uuid::Uuid;

/// Something that a node wants to know.
#[derive(Debug)]
pub struct Question {
    /// No other question of any node has it.
    pub(crate) number: u128,
    pub(crate) ask: Ask,
}

impl Question {
    /// It cannot be answered now.
    pub fn unread(&self, failure: Failure) -> Finding {
        Finding { number: self.number, subject: self.ask.subject(), told: Err(failure), fresh: Vec::new() }
    }
}

/// What came of a question.
#[derive(Debug)]
pub struct Finding {
    pub(crate) number: u128,
    pub(crate) subject: Subject,
    /// It may be possible to read it another time.
    pub(crate) told: Result<Told, Failure>,
    /// Definitions that were read for it.
    pub(crate) fresh: Vec<Arc<Definition>>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// One that sleeps or has ended.
    Execution(ExecutionId),
    Definition(RevisionId),
    /// The execution that has a name, and how it stands. A free name is reserved for `wanted_by`.
    Name {
        machine: MachineId,
        name: Arc<str>,
        wanted_by: Option<ExecutionId>,
    },
    /// The child of a step: is it there, and if not, what is it to begin with?
    Child(ExecutionId, ChildAsk),
    /// Who has the name that the child of a step was given, where the step did not begin that one itself.
    Shared {
        child: ExecutionId,
        machine: Arc<str>,
        name: Arc<str>,
    },
    /// Which of these a step waits for.
    Awaited(Arc<[ExecutionId]>),
    /// Sleepers of an earlier process that somebody has to look after.
    Waiting {
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    },
    /// Sleepers that were held because their machine was paused.
    Held {
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    },
    /// Sleepers whose timers go off until then.
    Due {
        line: (Clock, Shard),
        after: Due,
        until: Timestamp,
        most: u32,
    },
    /// The row of a Map Run.
    MapRun(Uuid),
    /// A slice of the Map Runs whose rows say that they run, after this one: an earlier process may have left them behind.
    LeftRuns {
        after: Option<Uuid>,
    },
    /// These Map Runs, whose children wait for them.
    Runs(Arc<[Uuid]>),
    /// Who holds which Shard.
    Holders,
    /// When the next of all wants to be woken, after those that are known.
    First(Arc<[(Clock, Shard, Due)]>),
}

/// What the child of a step is to begin with.
#[derive(Clone, Debug)]
pub(crate) struct ChildAsk {
    pub(crate) machine: Arc<str>,
    /// A version or an alias of it.
    pub(crate) qualifier: Option<Arc<str>>,
    /// Which of an alias's versions it is follows from this.
    pub(crate) chance: u128,
}

/// What a question is about. There is one at a time about each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Execution(ExecutionId),
    Definition(RevisionId),
    Name(MachineId, Arc<str>),
    Child(ExecutionId),
    Shared(ExecutionId),
    Awaited(Arc<[ExecutionId]>),
    Waiting(Shard),
    Held(Shard),
    Due(Clock, Shard),
    MapRun(Uuid),
    LeftRuns,
    Runs,
    Holders,
    First,
}

impl Ask {
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Self::Execution(id) => Subject::Execution(*id),
            Self::Definition(revision) => Subject::Definition(*revision),
            Self::Name { machine, name, .. } => Subject::Name(*machine, name.clone()),
            Self::Child(id, _) => Subject::Child(*id),
            Self::Shared { child, .. } => Subject::Shared(*child),
            Self::Awaited(ids) => Subject::Awaited(ids.clone()),
            Self::Waiting { shard, .. } => Subject::Waiting(*shard),
            Self::Held { shard, .. } => Subject::Held(*shard),
            Self::Due { line: (clock, shard), .. } => Subject::Due(*clock, *shard),
            Self::MapRun(run) => Subject::MapRun(*run),
            Self::LeftRuns { .. } => Subject::LeftRuns,
            Self::Runs(_) => Subject::Runs,
            Self::Holders => Subject::Holders,
            Self::First(_) => Subject::First,
        }
    }
}

/// What a node is told.
#[derive(Debug)]
pub(crate) enum Told {
    Execution(Stored),
    /// The definition, or what is wrong with it.
    Definition(Result<Arc<Definition>, Arc<str>>),
    Name(Option<(ExecutionId, Stored)>),
    Child(Child),
    /// Which machine it is, and whose the name is, begun or not.
    Shared(Option<(MachineId, Option<ExecutionId>)>),
    Awaited(Vec<Awaited>),
    Waiting(Vec<ExecutionId>),
    /// After whom, and of which machine each is.
    Held(Option<ExecutionId>, Vec<(ExecutionId, MachineId)>),
    Due(Vec<Due>),
    /// Its row, if it has one.
    MapRun(Option<Box<MapRunRow>>),
    Runs(Vec<LeftRun>),
    Holders(BTreeMap<Shard, Arc<str>>),
    First(Wake),
}

/// An execution as its row has it.
pub(crate) type Stored = Result<Box<Running>, Missing>;

/// Why there is no such execution to go on with.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    Unknown,
    /// It is in some node's memory, and not in the one that asks: what the row holds is not all.
    Elsewhere(Shard),
    /// What is stored is not what was written.
    Damaged(Arc<str>),
}

/// The child of a step.
#[derive(Debug)]
pub(crate) enum Child {
    There(Stored),
    Begins(Box<Chosen>),
    /// It cannot begin.
    Refused(Refusal),
}

/// What a child begins with.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) definition: Arc<Definition>,
    pub(crate) via: Via,
}

impl Chosen {
    /// What a child is started through: the request that its parent began with is its own too.
    pub(crate) fn via_of(&self, asked: &perdura_engine::nested::Asked) -> Via {
        Via { root_key: asked.root_key.clone(), ..self.via.clone() }
    }
}

/// Why a child cannot begin.
#[derive(Debug)]
pub(crate) enum Refusal {
    NoSuchMachine,
    Deleting,
    Damaged(Arc<str>),
}

/// One that a step may wait for.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) child: ExecutionId,
    /// The execution of the step; `None`: it cannot be read now.
    pub(crate) parent: Option<ExecutionId>,
    /// That one's row says that it runs, or cannot be read now.
    pub(crate) parent_runs: bool,
}

/// Whoever reads for a node.
pub struct Librarian {
    reader: Box<dyn Reader>,
    shelf: Shelf,
    destinations: Arc<dyn Destinations>,
    shards: u16,
}

impl Librarian {
    pub(crate) fn new(reader: Box<dyn Reader>, destinations: Arc<dyn Destinations>, shards: u16) -> Self {
        Self { reader, shelf: Shelf::default(), destinations, shards }
    }

    /// Reads what a node wants to know. A mistake of ours costs this finding, and nothing else.
    pub fn answer(&mut self, question: Question) -> Finding {
        let Question { number, ask } = question;
        let subject = ask.subject();
        let told = catch_unwind(AssertUnwindSafe(|| self.read(ask))).unwrap_or_else(|panic| {
            let (what, why) = ("reading panicked".into(), panic_text(&*panic).to_string());
            Err(Failure { what, why, kind: FailureKind::Io })
        });
        Finding { number, subject, told, fresh: self.fresh() }
    }

    /// Definitions that were read since this was last asked.
    pub(crate) fn fresh(&mut self) -> Vec<Arc<Definition>> {
        std::mem::take(&mut self.shelf.fresh)
    }

    fn read(&mut self, ask: Ask) -> Result<Told, Failure> {
        Ok(match ask {
            Ask::Execution(id) => Told::Execution(self.stored(id)?),
            Ask::Definition(revision) => Told::Definition(self.definition(revision)?),
            Ask::Name { machine, name, wanted_by } => {
                let whose = match wanted_by {
                    Some(id) => Some(self.reader.reserve(machine, &name, id)?),
                    None => self.reader.reserved(machine, &name)?,
                };
                Told::Name(match whose {
                    Some(id) => Some((id, self.stored(id)?)),
                    None => None,
                })
            }
            Ask::Child(id, asked) => Told::Child(self.child(id, &asked)?),
            Ask::Shared { machine, name, .. } => Told::Shared(match self.reader.head(&machine)? {
                Some(head) => Some((head.machine, self.reader.reserved(head.machine, &name)?)),
                None => None,
            }),
            Ask::Awaited(ids) => Told::Awaited(ids.iter().filter_map(|id| self.awaited(*id)).collect()),
            Ask::Waiting { shard, after, most } => Told::Waiting(self.reader.waiting(shard, after, most)?),
            Ask::Held { shard, after, most } => Told::Held(after, self.reader.held(shard, after, most)?),
            Ask::Due { line: (clock, shard), after, until, most } => {
                Told::Due(self.reader.due(shard, clock, Some(after), until, most)?)
            }
            Ask::MapRun(run) => Told::MapRun(self.reader.map_run(run)?.map(Box::new)),
            Ask::LeftRuns { after } => self.left_runs(after)?,
            Ask::Runs(runs) => self.runs(&runs)?,
            Ask::Holders => Told::Holders(self.reader.holders()?),
            Ask::First(lines) => Told::First(self.first(&lines)?),
        })
    }

    /// An execution as its row has it.
    fn stored(&mut self, id: ExecutionId) -> Result<Stored, Failure> {
        let Some((row, unsegmented_from)) = self.reader.row(id)? else { return Ok(Err(Missing::Unknown)) };
        if row.awake {
            return Ok(Err(Missing::Elsewhere(Shard::of(id, self.shards))));
        }
        let stored = Recovered { execution: id, row: Some(row), unsegmented_from, turns: Vec::new() };
        match self.rebuild(stored) {
            Ok(running) => Ok(Ok(Box::new(running))),
            Err(Unreadable::Damaged(damage)) => Ok(Err(Missing::Damaged(damage.0.into()))),
            Err(Unreadable::Unavailable(failure)) => Err(failure),
        }
    }

    /// Rebuilds one from what is stored of it.
    pub(crate) fn rebuild(&mut self, stored: Recovered) -> Result<Running, Unreadable> {
        rebuild(stored, &mut self.shelf, &mut *self.reader, &self.destinations)
    }

    fn definition(&mut self, revision: RevisionId) -> Result<Result<Arc<Definition>, Arc<str>>, Failure> {
        match self.shelf.find(revision, &mut *self.reader) {
            Ok(found) => Ok(Ok(found)),
            Err(Unreadable::Damaged(damage)) => Ok(Err(damage.0.into())),
            Err(Unreadable::Unavailable(failure)) => Err(failure),
        }
    }

    fn child(&mut self, id: ExecutionId, asked: &ChildAsk) -> Result<Child, Failure> {
        match self.stored(id)? {
            Err(Missing::Unknown) => {}
            stored => return Ok(Child::There(stored)),
        }
        let Some(head) = self.reader.head(&asked.machine)? else {
            return Ok(Child::Refused(Refusal::NoSuchMachine));
        };
        let card = match Card::read(&head) {
            Ok(card) => card,
            Err(error) => {
                tracing::error!(machine = %head.name, %error, "its card cannot be read");
                return Ok(Child::Refused(Refusal::NoSuchMachine));
            }
        };
        let (revision, via) = match card.start(head.revision, asked.qualifier.as_deref(), asked.chance) {
            Ok(chosen) => chosen,
            Err(Unstartable::NoSuchQualifier) => return Ok(Child::Refused(Refusal::NoSuchMachine)),
            Err(Unstartable::Deleting) => return Ok(Child::Refused(Refusal::Deleting)),
        };
        Ok(match self.definition(revision)? {
            Ok(definition) => Child::Begins(Box::new(Chosen { definition, via })),
            Err(what) => Child::Refused(Refusal::Damaged(what)),
        })
    }

    /// Whether a step of an execution has started this one, to wait for its end; `None`: nobody did.
    fn awaited(&mut self, child: ExecutionId) -> Option<Awaited> {
        let running = match self.stored(child) {
            Ok(Ok(running)) => running,
            Ok(Err(Missing::Unknown | Missing::Damaged(_))) => return None,
            Ok(Err(Missing::Elsewhere(_))) | Err(_) => {
                return Some(Awaited { child, parent: None, parent_runs: true });
            }
        };
        let parent = running.awaited_by.and_then(|key| key.execution())?;
        let parent_runs = match self.stored(parent) {
            Ok(Ok(running)) => !running.execution.is_ended(),
            Ok(Err(Missing::Unknown | Missing::Damaged(_))) => false,
            Ok(Err(Missing::Elsewhere(_))) | Err(_) => true,
        };
        Some(Awaited { child, parent: Some(parent), parent_runs })
    }

    fn first(&mut self, lines: &[(Clock, Shard, Due)]) -> Result<Wake, Failure> {
        let mut first = Wake::default();
        for (clock, shard, after) in lines {
            let asleep = self.reader.due(*shard, *clock, Some(*after), Timestamp(i64::MAX), 1)?;
            let of_clock = match clock {
                Clock::Steady => &mut first.steady,
                Clock::Wall => &mut first.wall,
            };
            *of_clock = of_clock.iter().copied().chain(asleep.first().map(|due| due.at)).min();
        }
        Ok(first)
    }
}
