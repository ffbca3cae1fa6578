//! From decisions to a commit: what of a group goes into the journal, and which executions leave memory with it.
//!
//! An execution and its decision are handed over together and come back together, after the commit. So nobody can
//! see a state that is not on disk: memory follows the disk by ownership, not by care.

mod journal;
mod ledger;
mod rows;

use crate::audit::{self, Asking, Witnessed};
use crate::message::{AdjustError, Reply, Unavailable};
use crate::running::{Running, SEEN_AFTER_MS, Told};
pub(crate) use journal::base_of;
use journal::{Finished, Journal};
use ledger::{Heard, Ledger, count_ends};
use perdura_engine::asl::resource::Doer;
use perdura_engine::{
    Decision, Effect, ExecutionId, Lateness, MapRunBounds, Moment, Note, Timestamp, Turn, Wake,
};
use perdura_store::audit::{Entries, Entry};
use perdura_store::record::{self, Begun, JournalWriter};
use perdura_store::{
    ChildOf, CommitError, Group, Lease, MapRunRow, Position, Recovery, Shard, Store, Totals,
};
use rows::Rows;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An execution that only waits, for longer than this, leaves memory.
const SLEEPS_FOR_MS: i64 = 1_000;
/// Why an outcome changed nothing.
const TOO_LATE: &str = "nobody waits for it any more";

/// An execution on its way to disk.
#[derive(Debug)]
pub struct Item {
    pub(crate) running: Box<Running>,
    /// `None`: nothing was decided, it is only to be seen or taken down.
    pub(crate) decision: Option<Decision>,
    /// Present on its first Turn.
    pub(crate) begun: Option<Box<Begun>>,
    /// Nothing waits for it here and it has no call under way.
    pub(crate) is_idle: bool,
    /// The journal is to be freed of it.
    pub(crate) is_stale: bool,
    /// There is no room for it: it sleeps as it is, whatever it waits for, until somebody resumes it.
    pub(crate) is_put_off: bool,
    pub(crate) moment: Moment,
    /// Who asked for what was decided.
    pub(crate) asking: Option<Asking>,
}

impl Item {
    /// One of which nothing was decided.
    pub(crate) fn as_it_is(running: Box<Running>, moment: &Moment) -> Self {
        let (is_idle, is_stale, is_put_off) = (false, false, false);
        let (decision, begun, asking) = (None, None, None);
        Self { running, decision, begun, is_idle, is_stale, is_put_off, moment: *moment, asking }
    }
}

/// One that came back: its Turn is on disk.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) running: Box<Running>,
    pub(crate) effects: Vec<Effect>,
    /// The Turn, where somebody tells of all.
    pub(crate) turn: Option<Turn>,
    /// What a person may want to hear of.
    pub(crate) remarks: Vec<Note>,
    /// Why its input changed nothing.
    pub(crate) ignored: Option<Arc<str>>,
    /// It was an outcome that nobody waited for.
    pub(crate) late: Option<Lateness>,
    /// Its row is all that is needed.
    pub(crate) may_leave: bool,
    /// Which row of the group has all of it, if one does.
    row: Option<usize>,
}

/// A group on its way to disk.
#[derive(Debug)]
pub struct Prepared {
    /// Journals, tails and states are sealed while it is written.
    group: Group,
    journal: JournalWriter,
    committed: Committed,
}

/// A Map Run as it is to be written.
#[derive(Debug)]
pub struct MapRunNews {
    pub(crate) row: MapRunRow,
    /// Who changed its bounds, and is told once that is on disk.
    pub(crate) told: Vec<Adjusting>,
}

/// A change of the bounds of a Map Run.
#[derive(Debug)]
pub(crate) struct Adjusting {
    /// As they were.
    pub(crate) before: MapRunBounds,
    pub(crate) reply: Reply<Result<(), AdjustError>>,
}

impl From<MapRunRow> for MapRunNews {
    fn from(row: MapRunRow) -> Self {
        Self { row, told: Vec::new() }
    }
}

/// What came of a commit.
#[derive(Debug)]
pub struct Committed {
    /// Those of the group.
    pub(crate) done: Vec<Done>,
    /// Who waits for what it says of Map Runs.
    pub(crate) told: Vec<Reply<Result<(), AdjustError>>>,
    /// Who waits for an entry of the audit.
    pub(crate) witnessed: Vec<Reply<Result<(), Unavailable>>>,
    /// Executions that pin old journal rows.
    pub(crate) stale: Vec<ExecutionId>,
}

impl Committed {
    /// The executions whose Turns are committed.
    pub(crate) fn executions(&self) -> Vec<ExecutionId> {
        self.done.iter().map(|done| done.running.id()).collect()
    }
}

/// A Turn that is on disk, for those who tell of it.
#[derive(Debug)]
pub struct Turned {
    pub execution: ExecutionId,
    /// Whose child it is in a Map Run.
    pub child: Option<ChildOf>,
    /// Which Turn it is, from 1.
    pub number: u64,
    pub turn: Turn,
    pub has_ended: bool,
}

impl Committed {
    /// Its Turns, if they were kept; see [`Committer::keep_turns`].
    pub fn turned(&mut self) -> Vec<Turned> {
        let turned = |done: &mut Done| {
            let (turn, running) = (done.turn.take()?, &done.running);
            let (execution, has_ended) = (running.id(), running.execution.is_ended());
            Some(Turned { execution, child: running.child, number: running.turns, turn, has_ended })
        };
        self.done.iter_mut().filter_map(turned).collect()
    }
}

/// Gathers for the Shards that this node holds.
#[derive(Debug)]
pub struct Committer {
    lease: Lease,
    shards: u16,
    totals: Totals,
    journal: Journal,
    /// The next group, beside its row of the journal.
    draft: Draft,
    /// See [`Committer::keep_turns`].
    keeps_turns: bool,
}

/// A group in the making.
#[derive(Debug, Default)]
struct Draft {
    rows: Rows,
    ledger: Ledger,
    map_runs: Vec<MapRunRow>,
    /// Its totals are to be seen.
    publishes: bool,
    done: Vec<Done>,
    /// Who waits for the Map Runs in it.
    told: Vec<Reply<Result<(), AdjustError>>>,
    audit: BTreeMap<Shard, Entries>,
    /// Who waits for entries that stand for themselves.
    witnessed: Vec<Reply<Result<(), Unavailable>>>,
}

impl Committer {
    /// For who goes on after what was recovered, on data of so many Shards.
    pub(crate) fn new(lease: Lease, shards: u16, recovery: &Recovery) -> Self {
        let journal = Journal::after(recovery);
        Self { lease, shards, totals: recovery.totals, journal, draft: Draft::default(), keeps_turns: false }
    }

    /// These need the journal no more: what it has of them is kept elsewhere.
    pub(crate) fn unpin(&mut self, unreadable: &[(Position, ExecutionId)]) {
        self.journal.unpin(unreadable);
    }

    /// A rebuilt execution needs the journal from its base on.
    pub(crate) fn rest_on_journal(&mut self, running: &Running) {
        self.journal.pin(running);
    }

    /// From now on each Turn is read back before it is committed, as a debug build does: a Turn that cannot be read again
    /// is a mistake of ours, and is found where it is made. It costs as much as writing.
    pub fn read_back(&mut self) {
        self.journal.reads_back = true;
    }

    /// From now on whoever commits gets the Turns as well.
    pub fn keep_turns(&mut self) {
        self.keeps_turns = true;
    }

    /// The right under which it writes.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// It is held for longer now.
    pub(crate) fn renewed(&mut self, lease: Lease) {
        self.lease = lease;
    }

    /// What has happened, those Turns included that are being written.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Applies a decision and encodes it, for the next group.
    pub fn add(&mut self, item: Item) {
        let Item { mut running, decision, begun, is_idle, is_stale, is_put_off, moment, asking } = item;
        let (mut effects, mut kept, mut heard) = (Vec::new(), None, Heard::default());
        if let Some(mut decision) = decision {
            let turn = std::mem::take(&mut decision.turn);
            self.journal.write(&mut running, begun.as_deref(), &turn);
            self.draft.rows.cut(&mut running);
            self.draft.ledger.follow(&turn, &mut running, &mut self.totals);
            heard = Heard::of(&turn, &mut self.totals);
            let before = begun.is_none().then(|| running.execution.status());
            effects = running.execution.commit(decision);
            if let Some(asking) = asking {
                let late = || heard.late.map(|_| TOO_LATE.into());
                let unchanged = heard.ignored.clone().or_else(late);
                self.tell(&asking.entry(before, &running, unchanged));
            }
            self.totals.turns += 1;
            self.totals.started += u64::from(begun.is_some());
            count_ends(&effects, &mut self.totals);
            kept = self.keeps_turns.then_some(turn);
        }
        let may_leave = running.execution.is_ended()
            || is_put_off
            || is_idle && rests(&effects, running.execution.next_wake(), &moment);
        let row = if may_leave {
            let row = self.draft.rows.rest(&mut running, is_put_off, moment.now);
            self.draft.ledger.show_pending(&mut running, None);
            self.draft.ledger.end(&running, moment.now);
            self.journal.free(&mut running);
            Some(row)
        } else {
            self.run_on(&mut running, is_stale, moment.now)
        };
        let Heard { remarks, ignored, late } = heard;
        self.draft.done.push(Done { running, effects, turn: kept, remarks, ignored, late, may_leave, row });
    }

    /// It stays in memory; what readers are to know of it gets into the tables. Which row has all of it, if one does.
    fn run_on(&mut self, running: &mut Running, is_stale: bool, now: Timestamp) -> Option<usize> {
        let mut row = None;
        if is_stale {
            let (taken_down, bytes) = self.draft.rows.take_down(running);
            self.journal.took_down(running, bytes);
            row = Some(taken_down);
        }
        // It was redriven: from this commit on nobody may take it for one that has ended.
        if running.told == Told::Ended {
            self.draft.rows.show(running);
        }
        if running.is_unseen(now) {
            self.draft.rows.show(running);
            self.draft.ledger.show_pending(running, Some(now.after_ms(-SEEN_AFTER_MS)));
            self.draft.publishes = true;
        }
        row
    }

    /// Writes Map Runs with the next group.
    pub fn add_map_runs(&mut self, news: Vec<MapRunNews>) {
        for MapRunNews { row, told } in news {
            for Adjusting { before, reply } in told {
                if let Some(by) = reply.origin() {
                    self.tell(&audit::of_bounds(by, &before, &row));
                }
                self.draft.told.push(reply);
            }
            self.draft.map_runs.push(row);
        }
    }

    /// Writes entries of the audit that stand for themselves with the next group.
    pub(crate) fn witness(&mut self, witnessed: Vec<Witnessed>) {
        for Witnessed { entry, reply } in witnessed {
            self.tell(&entry);
            self.draft.witnessed.push(reply);
        }
    }

    /// An entry of the next group. One that is about nothing on a Shard goes to the first Shard that is held.
    fn tell(&mut self, entry: &Entry) {
        let own = entry.subject.of_shard().map(|execution| Shard::of(execution, self.shards));
        let held = self.lease.shards();
        let shard = own.filter(|shard| held.contains(shard)).or(held.first().copied());
        self.draft.audit.entry(shard.unwrap_or(Shard(0))).or_default().push(entry);
    }

    /// How many executions, Map Runs and entries of their own the next group has so far.
    pub fn gathered(&self) -> usize {
        self.draft.done.len() + self.draft.map_runs.len() + self.draft.witnessed.len()
    }

    /// How large the next group is so far, before it is compressed.
    pub fn gathered_bytes(&self) -> u64 {
        let audit: u64 = self.draft.audit.values().map(Entries::bytes).sum();
        self.journal.bytes() + self.draft.rows.bytes + audit
    }

    /// The next group, if there is one.
    pub fn hand_over(&mut self) -> Option<Box<Prepared>> {
        if self.gathered() == 0 {
            return None;
        }
        let Draft { rows, ledger, map_runs, publishes, done, told, audit, witnessed } =
            std::mem::take(&mut self.draft);
        // The row tells whether the group is there: an entry must not be written twice.
        let needs_row = !audit.is_empty();
        let Finished { position, writer, keep_from } = self.journal.finish(&self.totals, needs_row);
        let group = Group {
            position,
            keep_from,
            rows: rows.written,
            segments: rows.segments,
            ledger: ledger.changes,
            map_runs,
            totals: publishes.then_some(self.totals),
            audit,
            ..Group::under(self.lease.clone())
        };
        let committed = Committed { done, told, witnessed, stale: self.journal.stale() };
        Some(Box::new(Prepared { group, journal: writer, committed }))
    }

    /// All at once, for those who have one thread.
    pub fn commit(&mut self, store: &mut dyn Store, items: Vec<Item>) -> Result<Committed, CommitError> {
        for item in items {
            self.add(item);
        }
        if let Some(prepared) = self.hand_over() {
            return prepared.write(store);
        }
        let (done, told, witnessed, stale) = Default::default();
        Ok(Committed { done, told, witnessed, stale })
    }
}

impl Prepared {
    /// How many executions it has.
    pub fn len(&self) -> usize {
        self.committed.done.len()
    }

    /// It holds only Map Runs.
    pub fn is_empty(&self) -> bool {
        self.committed.done.is_empty()
    }

    /// Writes it. On an error the executions are gone with it: what is true is on disk.
    pub fn write(mut self, store: &mut dyn Store) -> Result<Committed, CommitError> {
        let group = &mut self.group;
        if group.position.is_some() {
            group.journal = self.journal.seal();
        }
        for done in &self.committed.done {
            let row = done.row.map(|at| &mut group.rows[at]);
            let Some(content) = row.and_then(|row| row.content.as_mut()) else { continue };
            content.tail = record::seal(&done.running.tail.bytes);
            if let Some(state) = &mut content.state {
                state.bytes = record::seal(&state.bytes);
            }
        }
        for segment in &mut group.segments {
            segment.bytes = record::seal(&segment.bytes);
        }
        match offer(store, group) {
            Ok(()) => Ok(self.committed),
            Err(error) => {
                let why = Unavailable::Store(error.to_string().into());
                for reply in self.committed.told {
                    reply.send(Err(AdjustError::Unavailable(why.clone())));
                }
                self.committed.witnessed.into_iter().for_each(|reply| reply.send(Err(why.clone())));
                Err(error)
            }
        }
    }
}

/// Offers a group until it is taken or refused. An answer that was lost is looked for: if the group is there it was taken,
/// and if it is not it is offered once more.
fn offer(store: &mut dyn Store, group: &Group) -> Result<(), CommitError> {
    let mut was_lost = false;
    loop {
        match store.commit(group) {
            Ok(()) => return Ok(()),
            Err(CommitError::Busy) => std::thread::yield_now(),
            Err(error @ CommitError::Fenced { .. }) => return Err(error),
            Err(lost @ CommitError::Lost(_)) => match store.newest(&group.lease) {
                Ok(newest) if group.position == Some(newest) => return Ok(()),
                Ok(_) if !was_lost => was_lost = true,
                Ok(_) | Err(_) => return Err(lost),
            },
        }
    }
}

/// Whether an execution with nothing under way only waits, and for long.
pub(crate) fn rests(effects: &[Effect], wake: Wake, moment: &Moment) -> bool {
    let goes_on = effects.iter().any(|effect| match effect {
        // A task that waits for a worker can do so without its execution.
        Effect::CallTask(call) => call.resource.kind.doer() != Doer::Worker,
        Effect::StartMapRun(_) | Effect::Continue => true,
        Effect::AwaitTask(_)
        | Effect::CancelTask { .. }
        | Effect::SetTimer { .. }
        | Effect::StopMapRun { .. }
        | Effect::Publish { .. } => false,
    });
    let far = |at: Option<Timestamp>, now: Timestamp| at.is_none_or(|at| at > now.after_ms(SLEEPS_FOR_MS));
    !goes_on && far(wake.steady, moment.steady) && far(wake.wall, moment.now)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> Arc<str> {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").into()
}
