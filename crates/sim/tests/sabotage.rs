//! Each checker is shown a run with its safeguard missing, and must object.

use perdura_sim::check::Promise;
use perdura_sim::{Sabotage, Setting, Trouble, judge};

/// How many seeds a checker gets to notice.
const SEEDS: u64 = 60;

/// With the safeguard missing, the promise is broken within a few seeds; which one is printed.
fn check(sabotage: Sabotage, broken: Promise) {
    check_in(sabotage, None, broken);
}

/// The same in seeds of this trouble.
fn check_in(sabotage: Sabotage, trouble: impl Into<Option<Trouble>>, broken: Promise) {
    let setting = Setting { sabotage: Some(sabotage), trouble: trouble.into(), ..Setting::default() };
    let noticed = (0..SEEDS).find(|seed| judge(*seed, setting).broken().contains(&broken));
    match noticed {
        Some(seed) => println!("{sabotage:?} breaks {broken:?} at seed {seed}"),
        None => panic!("{sabotage:?} does not break {broken:?} in {SEEDS} seeds"),
    }
}

/// With the safeguard missing, somebody complains in these words.
fn objects(sabotage: Sabotage, trouble: impl Into<Option<Trouble>>, words: &str) {
    says(sabotage, trouble, &[words]);
}

/// With the safeguard missing, all of this is said within a few seeds.
fn says(sabotage: Sabotage, trouble: impl Into<Option<Trouble>>, sentences: &[&str]) {
    let setting = Setting { sabotage: Some(sabotage), trouble: trouble.into(), ..Setting::default() };
    let mut unsaid = sentences.to_vec();
    for seed in 0..SEEDS {
        if unsaid.is_empty() {
            return;
        }
        let complaints = judge(seed, setting).complaints;
        unsaid.retain(|words| {
            let is_said = complaints.iter().any(|(_, what)| what.contains(words));
            if is_said {
                println!("{sabotage:?} is noticed at seed {seed}: {words}");
            }
            !is_said
        });
    }
    assert!(unsaid.is_empty(), "{sabotage:?} is not noticed in {SEEDS} seeds: {unsaid:#?}");
}

#[test]
fn a_commit_without_its_entries_is_not_what_was_told() {
    check(Sabotage::AuditForgotten, Promise::ToldOnTheAudit);
}

#[test]
fn those_that_were_held_and_are_forgotten_never_go_on() {
    check(Sabotage::HeldForgotten, Promise::NothingLost);
}

#[test]
fn a_process_that_does_not_know_what_is_paused_runs_it() {
    check(Sabotage::PausesForgotten, Promise::PausedStands);
}

#[test]
fn a_store_without_a_fence_makes_histories_illegal() {
    check(Sabotage::NoFence, Promise::HistoriesLegal);
}

#[test]
fn a_store_without_a_fence_loses_what_was_acknowledged() {
    check(Sabotage::NoFence, Promise::AcknowledgedIsDurable);
}

#[test]
fn a_store_without_a_fence_runs_steps_again() {
    check(Sabotage::NoFence, Promise::CompletedNeverRunsAgain);
}

#[test]
fn effects_before_the_commit_are_on_no_record() {
    check(Sabotage::EffectsFirst, Promise::AppliedOncePerKey);
}

#[test]
fn effects_before_the_commit_run_again_though_completed() {
    check(Sabotage::EffectsFirst, Promise::CompletedNeverRunsAgain);
}

#[test]
fn replies_before_the_commit_are_not_durable() {
    check(Sabotage::RepliesFirst, Promise::AcknowledgedIsDurable);
}

#[test]
fn replies_before_the_commit_lose_executions() {
    check(Sabotage::RepliesFirst, Promise::NothingLost);
}

#[test]
fn a_new_key_for_a_repeated_call_is_noticed() {
    check(Sabotage::NewKeyOnRepeat, Promise::AppliedOncePerKey);
}

#[test]
fn other_bytes_under_the_same_key_are_noticed() {
    check(Sabotage::NewBytesOnRepeat, Promise::AppliedOncePerKey);
}

#[test]
fn a_journal_dropped_too_early_loses_executions() {
    check(Sabotage::JournalDropped, Promise::NothingLost);
}

#[test]
fn a_journal_dropped_too_early_makes_histories_illegal() {
    check(Sabotage::JournalDropped, Promise::HistoriesLegal);
}

#[test]
fn a_forgotten_resume_loses_executions() {
    check(Sabotage::ResumeForgotten, Promise::NothingLost);
}

#[test]
fn a_forgotten_row_loses_executions() {
    check(Sabotage::RowsForgotten, Promise::NothingLost);
}

#[test]
fn a_forgotten_sleeper_is_a_lost_timer() {
    check(Sabotage::SleepersForgotten, Promise::Timers);
}

#[test]
fn a_clock_that_runs_ahead_ends_waits_early() {
    check(Sabotage::ClockAhead, Promise::Timers);
}

#[test]
fn a_process_that_is_woken_late_ends_waits_late() {
    check(Sabotage::WokenLate, Promise::Timers);
}

#[test]
fn a_call_after_its_answer_is_noticed() {
    check(Sabotage::CalledAfterwards, Promise::CompletedNeverRunsAgain);
}

#[test]
fn a_receiver_that_ignores_keys_applies_twice() {
    check(Sabotage::KeysIgnored, Promise::AppliedOncePerKey);
}

#[test]
fn a_receiver_that_ignores_keys_gives_other_outputs() {
    check(Sabotage::KeysIgnored, Promise::SameAsWithoutFaults);
}

#[test]
fn a_ledger_that_is_not_written_is_noticed() {
    check(Sabotage::LedgerForgotten, Promise::HistoriesLegal);
}

#[test]
fn a_map_run_that_forgets_its_children_starts_them_again() {
    check(Sabotage::ChildrenForgotten, Promise::HistoriesLegal);
}

#[test]
fn a_map_run_that_nobody_ends_is_noticed() {
    objects(Sabotage::MapRunsForgotten, Trouble::Spreads, "has ended, and its Map Run");
}

#[test]
fn a_queue_that_is_not_filled_again_loses_executions() {
    check(Sabotage::WaitingForgotten, Promise::NothingLost);
}

#[test]
fn a_connection_never_made_that_counts_as_a_refusal_performs_a_step_again() {
    objects(Sabotage::UnreachableRefuses, Trouble::Dying, "was performed while");
}

#[test]
fn a_connection_never_made_that_counts_as_a_refusal_makes_the_ledger_lie() {
    objects(Sabotage::UnreachableRefuses, Trouble::Dying, "the Ledger said that");
}

#[test]
fn a_redirect_that_counts_as_a_refusal_performs_a_step_again() {
    objects(Sabotage::RedirectsRefuse, Trouble::Dying, "was performed while");
}

#[test]
fn an_exit_code_that_counts_as_a_refusal_performs_a_step_again() {
    objects(Sabotage::ExitsRefuse, Trouble::Exits, "was performed while");
}

#[test]
fn the_failure_of_an_old_attempt_that_ends_a_new_one_is_noticed() {
    objects(Sabotage::OldFailuresCount, Trouble::Overlaps, "by the failure of attempt");
}

#[test]
fn new_keys_for_another_run_of_a_parallel_or_map_are_noticed() {
    objects(Sabotage::RunsForgetKeys, Trouble::Fans, "was performed while");
}

#[test]
fn a_sweep_that_believes_old_rows_takes_what_runs() {
    objects(Sabotage::SweepsBlindly, Trouble::Sweeps, "was swept while it ran");
}

#[test]
fn a_list_of_rows_alone_lacks_what_was_acknowledged() {
    check(Sabotage::ListsOfRows, Promise::AcknowledgedIsDurable);
}

#[test]
fn a_map_run_that_nobody_ends_says_that_it_runs_and_so_do_its_children() {
    let words = ["has ended, and it says that it runs", "ms after whoever waited for it"];
    says(Sabotage::MapRunsForgotten, Trouble::Spreads, &words);
}

#[test]
fn a_map_run_whose_counts_are_not_written_is_noticed() {
    objects(Sabotage::CountsForgotten, Trouble::Spreads, "}, and its children");
}

#[test]
fn a_map_run_whose_row_knows_of_no_redrive_is_noticed() {
    objects(Sabotage::RedrivesLeaveMapRuns, Trouble::Spreads, "; its history");
}

#[test]
fn a_list_that_says_of_what_runs_that_it_has_ended_is_noticed() {
    objects(Sabotage::RedrivesLeaveRows, Trouble::Sweeps, "a list says that");
}

#[test]
fn a_call_that_may_not_be_repeated_and_is_is_noticed() {
    objects(Sabotage::HoldIgnored, Trouble::Dying, "may not be repeated, and went out");
    objects(Sabotage::HoldIgnored, Trouble::Exits, "may not be repeated, and went out");
}

#[test]
fn a_jump_of_the_wall_that_is_believed_at_once_ends_waits_and_timeouts_early() {
    let words = ["a wait until", "the whole execution's timeout until"];
    says(Sabotage::JumpsBelieved, Trouble::Clocks, &words);
}

#[test]
fn a_process_that_forgets_the_time_on_record_ends_waits_late() {
    objects(Sabotage::SteadyForgotten, Trouble::Clocks, "by true time ended late");
}

#[test]
fn a_process_that_is_woken_late_ends_waits_late_by_true_time() {
    objects(Sabotage::WokenLate, Trouble::Clocks, "by true time ended late");
}

#[test]
fn a_task_that_goes_to_two_workers_and_a_redrive_that_is_lost_are_noticed() {
    says(Sabotage::EffectsFirst, Trouble::Dying, &["workers, and "]);
    says(Sabotage::RepliesFirst, Trouble::Dying, &[" times and knows of "]);
}

#[test]
fn what_effects_before_the_commit_lead_to_is_said() {
    let words = [
        " was called and is on no record",
        " was acknowledged and is in no list",
        " has not ended and has no row",
    ];
    says(Sabotage::EffectsFirst, None, &words);
}

#[test]
fn what_a_store_without_a_fence_leads_to_is_said() {
    let words = [
        " was committed twice",
        " was committed and is gone",
        " is not what was committed",
        " was ordered again after it was completed",
    ];
    says(Sabotage::NoFence, None, &words);
}

#[test]
fn every_trouble_is_known_by_its_name() {
    for trouble in Trouble::ALL {
        assert_eq!(format!("{trouble:?}").parse(), Ok(trouble));
    }
}

#[test]
fn every_sabotage_is_known_by_its_name() {
    for sabotage in Sabotage::ALL {
        assert_eq!(format!("{sabotage:?}").parse(), Ok(sabotage));
    }
}

#[test]
fn a_process_that_forgets_the_time_on_record_ends_timeouts_early() {
    let words = "the whole execution's timeout until";
    objects(Sabotage::SteadyForgotten, Trouble::Clocks, words);
}

#[test]
fn a_commit_whose_answer_was_lost_is_not_made_twice() {
    objects(Sabotage::LostMeansNever, None, "the store refused a commit");
}

#[test]
fn a_request_that_is_done_twice_because_it_came_twice_is_noticed() {
    objects(Sabotage::DoneTwice, Trouble::Peers, "began 2 times as");
}

#[test]
fn a_node_that_never_looks_again_who_holds_a_shard_is_noticed() {
    objects(Sabotage::OldMapBelieved, Trouble::Peers, "times while all was calm");
}

#[test]
fn a_reserved_name_that_never_began_and_blocks_its_name_is_noticed() {
    objects(Sabotage::ReservedForGood, Trouble::Peers, "was never answered: Start");
}

#[test]
fn a_store_without_a_fence_is_noticed_among_several_nodes() {
    objects(Sabotage::NoFence, Trouble::Peers, "was taken after one of");
}

#[test]
fn what_cannot_be_read_for_a_moment_and_is_taken_for_nothing_loses_what_was_meant_for_it() {
    check_in(Sabotage::UnreadIsUnknown, Trouble::Exits, Promise::NothingLost);
}
