//! The conformance suite: promises that every Store must keep, run on memory, on SQLite and on every later store.
//!
//! Each promise is a function of its own. [`store_conformance!`](crate::store_conformance) makes a test of each
//! for one kind of store; it is the only list of them. A store under test needs a [`Home`]: data that several
//! handles can be opened on, and that outlives them.

pub mod audit;
pub mod erasing;
pub mod journal;
pub mod leases;
pub mod ledger;
pub mod lists;
pub mod machines;
pub mod map_runs;
pub mod names;
pub mod reading;
pub mod retention;
pub mod rows;

use crate::group::{Content, Group, MachineId, RevisionId, Row, Totals};
use crate::lease::{Claim, Lease, Position, Shard};
use crate::record::{self, JournalWriter};
use crate::store::{CommitError, Reader, Recovery, Retention, Store, StoredTurn, SweepPlace, Swept};
use perdura_engine::{ExecutionId, Status, Timestamp, Wake};

/// Data with handles on it.
pub trait Home {
    /// Another handle on the same data, beside the open ones.
    fn handle(&mut self) -> Box<dyn Store>;

    /// The effect of a process restart on the data; all handles are gone.
    fn restart(&mut self);
}

/// Makes empty data with this many Shards.
pub type Make<'m> = &'m mut dyn FnMut(u16) -> Box<dyn Home>;

/// Makes one test of each promise. The argument is a function from the number of Shards to a
/// [`Home`](crate::conformance::Home).
#[macro_export]
macro_rules! store_conformance {
    ($make:expr) => {
        $crate::store_conformance! { @each $make;
            leases: acquiring_again_begins_a_higher_incarnation, a_lease_tells_the_steady_time_of_those_before,
                a_lease_that_has_not_run_out_is_not_taken,
                a_lease_that_ran_out_is_taken, who_has_ended_can_neither_renew_nor_release_nor_recover_nor_ask,
                released_shards_are_free_at_once, a_renewed_lease_holds_for_longer,
                incarnations_outlive_a_restart, several_nodes_hold_some_shards_each,
                everybody_can_see_who_holds_what,
                a_dead_nodes_shards_go_to_several;
            journal: a_commit_is_all_or_nothing, a_commit_of_one_who_has_ended_is_refused,
                a_gap_or_a_repeat_in_the_journal_is_refused, an_empty_journal_begins_at_one,
                the_newest_row_tells_whether_a_commit_happened,
                turns_come_back_in_order, turns_come_back_in_order_over_several_lives,
                totals_come_back_with_the_last_row, totals_of_all_lives_are_counted_once,
                an_old_journal_stays_until_all_who_need_it_went_on,
                journal_rows_go_but_never_the_newest, a_damaged_journal_row_hides_nothing_else,
                an_execution_with_a_hole_is_damaged,
                what_was_set_aside_is_there_when_the_journal_has_gone_on, what_was_set_aside_and_is_spoilt_makes_nobody_whole,
                what_was_given_up_is_gone;
            rows: ended_executions_are_not_recovered, sleepers_are_not_recovered, awake_rows_are_recovered,
                a_sleeper_with_newer_turns_is_recovered, turns_that_a_row_covers_are_not_given_again,
                a_listed_row_is_recovered_from_the_journal, a_listed_row_leaves_content_in_place,
                a_row_comes_back_as_it_was, segments_say_where_the_rest_begins,
                a_damaged_row_is_told_and_the_others_are_there, a_name_belongs_to_one_execution;
            machines: the_same_definition_again_is_one_revision, a_changed_definition_is_a_new_revision,
                going_back_to_a_definition_is_a_new_revision, role_and_settings_belong_to_a_definition,
                machines_are_listed_by_name, a_head_follows_what_is_deployed, a_change_counts_only_on_what_was_seen,
                a_card_is_written_for_the_definition_that_counts_then,
                a_machine_that_goes_keeps_its_id_and_its_definitions, heads_are_listed_by_name_and_page,
                what_is_registered_is_kept_by_kind_and_name, what_is_registered_is_read_by_page,
                what_is_unregistered_is_gone;
            reading: a_name_is_found_and_only_of_its_machine, no_name_is_no_name,
                lists_are_newest_first_and_pages_meet, lists_are_filtered,
                lists_tell_how_executions_were_started_and_redriven, a_page_is_stable_while_others_start,
                due_gives_sleepers_in_order_and_by_page, due_follows_each_clock_and_shard, those_that_wait_are_listed_by_shard_and_page,
                those_that_are_held_are_listed_and_counted_and_wait,
                turns_stream_without_gap_or_repeat_from_anywhere, turns_stop_at_about_the_bytes_asked_for,
                turns_stream_backwards_from_anywhere, every_installation_has_a_secret_of_its_own,
                an_execution_is_seen_with_its_newest_turns, readers_see_what_was_committed_before,
                stats_count_what_is_there;
            lists: what_an_execution_was_given_finds_it, the_few_are_found_among_the_many,
                labels_stay_with_their_execution_and_go_with_it;
            map_runs: a_map_run_comes_back_as_it_was, map_runs_that_have_not_ended_are_found,
                children_are_in_no_list_but_that_of_their_run,
                children_are_listed_by_status_and_page_the_last_one_first,
                the_runs_of_an_execution_are_told_in_order, children_stay_as_long_as_their_parent,
                children_go_after_their_parent_and_the_run_after_them, children_of_children_go_too,
                a_dry_run_counts_children;
            names: a_name_is_reserved_for_whoever_came_first, a_reservation_counts_for_everybody_at_once,
                each_machine_has_names_of_its_own, a_name_that_has_a_row_is_not_reserved_again,
                one_that_has_not_begun_is_not_found_by_its_name, a_reservation_that_never_began_is_no_obstacle,
                the_name_of_one_that_only_the_journal_has_outlives_a_restart,
                a_swept_name_can_be_reserved_anew, a_name_goes_with_what_was_given_up;
            ledger: what_is_put_is_there_and_what_is_dropped_is_not, a_second_put_replaces_the_first,
                the_ledger_is_filtered_and_oldest_first, rows_of_ended_executions_go_after_a_while,
                an_attempt_that_is_pending_again_stays;
            retention: only_what_is_old_enough_goes, a_sweep_takes_slices, segments_and_ledger_rows_go_along,
                a_dry_run_counts_and_takes_nothing, too_much_data_sends_the_first_to_end_away,
                what_the_journal_would_bring_back_stays, what_the_journal_goes_on_with_stays_whatever_its_row_says,
                what_was_redriven_after_it_was_seen_stays, a_swept_name_is_free_again;
            audit: an_entry_is_written_with_its_change_or_neither_is, a_chain_goes_on_in_the_next_life,
                who_has_ended_adds_nothing, pages_of_the_audit_meet_from_either_end,
                the_audit_is_cut_at_its_old_end_alone,
                a_hash_that_was_noted_is_found_as_long_as_its_row_is_kept;
            erasing: what_is_erased_stands_nowhere, erasing_again_changes_nothing, all_are_erased_or_none,
                who_has_ended_erases_nothing;
        }
    };
    (@each $make:expr; $($module:ident: $($promise:ident),+ $(,)?;)+) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the expression may name anything")]
            use super::*;
            $(#[test]
            fn $promise() {
                let make = $make;
                $crate::conformance::$module::$promise(&mut |shards| Box::new(make(shards)));
            })+
        })+
    };
}

/// An execution of this Shard, the same for the same number.
pub(crate) fn execution(number: u128, shard: Shard, shards: u16) -> ExecutionId {
    (0..u128::from(u16::MAX))
        .map(|attempt: u128| ExecutionId::from_random((number << 64) + attempt * 0x1_0000_0001))
        .find(|id| Shard::of(*id, shards) == shard)
        .expect("ids are spread over all Shards")
}

/// An execution of the only Shard.
pub(crate) fn only(number: u128) -> ExecutionId {
    execution(number, Shard(0), 1)
}

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp(ms)
}

/// The body of a Turn for tests; it differs from all others.
pub(crate) fn body(execution: ExecutionId, number: u64) -> Vec<u8> {
    format!("Turn {number} of {execution}").into_bytes()
}

pub(crate) fn turn(execution: ExecutionId, number: u64) -> StoredTurn {
    StoredTurn { number, body: body(execution, number) }
}

/// Turns from one number to another, as a sealed history.
pub(crate) fn history(execution: ExecutionId, from: u64, to: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in from..=to {
        record::push_turn(&mut bytes, &body(execution, number));
    }
    record::seal(&bytes)
}

/// Content that covers these Turns, all in the tail.
pub(crate) fn content(execution: ExecutionId, turns: u64) -> Content {
    Content { turns, events: turns * 3, state: None, tail_from: 1, tail: history(execution, 1, turns) }
}

/// A running execution that all readers can see.
pub(crate) fn row(execution: ExecutionId) -> Row {
    Row {
        execution,
        machine: MachineId(1),
        revision: RevisionId(1),
        name: None,
        status: Status::Running,
        awake: true,
        started_at: at(1_000),
        ended_at: None,
        wake: Wake::default(),
        waits: false,
        held: false,
        redrives: 0,
        redriven_at: None,
        version: None,
        alias: None,
        labels: perdura_engine::Labels::default(),
        root_key: None,
        error: None,
        child: None,
        content: None,
    }
}

/// An execution that ended after so many Turns.
pub(crate) fn ended(execution: ExecutionId, turns: u64, ended_at: i64) -> Row {
    Row {
        status: Status::Succeeded,
        awake: false,
        ended_at: Some(at(ended_at)),
        content: Some(content(execution, turns)),
        ..row(execution)
    }
}

/// An execution that sleeps after so many Turns.
pub(crate) fn asleep(execution: ExecutionId, turns: u64, wake_at: i64) -> Row {
    Row {
        awake: false,
        wake: Wake { steady: Some(at(wake_at)), wall: None },
        content: Some(content(execution, turns)),
        ..row(execution)
    }
}

/// A node that holds Shards and writes on them.
pub(crate) struct Node {
    pub(crate) store: Box<dyn Store>,
    pub(crate) lease: Lease,
    pub(crate) next: Position,
    pub(crate) keep_from: Position,
    pub(crate) totals: Totals,
}

impl Node {
    /// Takes all Shards.
    pub(crate) fn on(home: &mut dyn Home) -> Self {
        Self::named(home, "tester", u16::MAX)
    }

    /// Takes some Shards.
    pub(crate) fn named(home: &mut dyn Home, holder: &str, most: u16) -> Self {
        let mut store = home.handle();
        let claim = Claim { holder: holder.into(), most, now: at(0), expires_at: at(1_000_000) };
        let lease = store.acquire(&claim).unwrap();
        let next = Position::before(lease.incarnation()).next();
        Self { store, lease, next, keep_from: Position::default(), totals: Totals::default() }
    }

    /// A position in its journal.
    pub(crate) fn position(&self, number: u64) -> Position {
        Position { number, ..self.next }
    }

    /// An empty group.
    pub(crate) fn group(&self) -> Group {
        Group { keep_from: self.keep_from, ..Group::under(self.lease.clone()) }
    }

    /// These Turns, in one journal row.
    pub(crate) fn turns(&mut self, turns: &[(ExecutionId, u64)]) -> Group {
        self.totals.turns += turns.len() as u64;
        let mut writer = JournalWriter::new(&self.totals);
        for (execution, number) in turns {
            writer.push(*execution, *number, &body(*execution, *number));
        }
        let position = self.next;
        self.next = position.next();
        Group { position: Some(position), journal: writer.seal(), ..self.group() }
    }

    pub(crate) fn try_commit(&mut self, group: &Group) -> Result<(), CommitError> {
        self.store.commit(group)
    }

    #[track_caller]
    pub(crate) fn commit(&mut self, group: &Group) {
        self.try_commit(group).unwrap();
    }

    /// Rows in a commit of their own.
    #[track_caller]
    pub(crate) fn rows(&mut self, rows: Vec<Row>) {
        self.commit(&Group { rows, ..self.group() });
    }

    /// A commit after which the journal has no earlier rows.
    #[track_caller]
    pub(crate) fn move_on(&mut self) {
        let group = self.turns(&[]);
        self.keep_from = group.position.expect("it has Turns");
        self.commit(&Group { keep_from: self.keep_from, ..group });
    }

    pub(crate) fn recover(&mut self) -> Recovery {
        self.store.recover(&self.lease).unwrap()
    }

    pub(crate) fn reader(&self) -> Box<dyn Reader> {
        self.store.reader().unwrap()
    }

    /// Sweeps a slice.
    pub(crate) fn sweep(&mut self, retention: &Retention, most: u32) -> Swept {
        let found = self.reader().sweepable(retention, None, most).unwrap();
        let swept = self.store.sweep(&found.going, retention.ledger_before, most, None).unwrap();
        Swept { more: swept.more || found.next.is_some(), ..swept }
    }

    /// Counts everything that a sweep would delete, a slice at a time.
    pub(crate) fn would_go(&self, retention: &Retention, most: u32) -> Swept {
        let mut reader = self.reader();
        let ledger = reader.old_ledger(retention.ledger_before).unwrap();
        let mut swept = Swept { ledger, ..Swept::default() };
        let mut place = Some(SweepPlace::default());
        while let Some(after) = place {
            let found = reader.sweepable(retention, Some(after), most).unwrap();
            assert!(found.going.len() <= most as usize, "a slice is bounded");
            swept.executions += found.going.len() as u64 + found.children;
            swept.ledger += found.ledger;
            place = found.next;
        }
        swept
    }
}

/// The ids of the recovered executions.
pub(crate) fn ids(recovery: &Recovery) -> Vec<ExecutionId> {
    let mut ids: Vec<_> = recovery.executions.iter().map(|recovered| recovered.execution).collect();
    ids.sort_unstable();
    ids
}

/// The ids in the order of stores.
pub(crate) fn sorted<const N: usize>(mut ids: [ExecutionId; N]) -> Vec<ExecutionId> {
    ids.sort_unstable();
    ids.to_vec()
}
