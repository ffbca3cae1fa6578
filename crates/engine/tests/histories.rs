//! Whole stories: what reaches an execution, and what follows, as text (see `story/mod.rs` for how to read one).

mod stage;
mod story;

/// One test for each story; its name is the promise, the text is in `histories/`.
macro_rules! stories {
    ($($promise:ident: $file:literal;)*) => {
        $(#[test]
        fn $promise() {
            story::check($file);
        })*

        #[test]
        fn every_story_is_told() {
            let told = [$($file),*].map(|file| format!("{file}.txt"));
            let written = std::fs::read_dir(story::folder()).expect("there are stories");
            for entry in written {
                let name = entry.expect("a story is a file").file_name().into_string().expect("with a plain name");
                assert!(told.contains(&name), "no test tells {name}");
            }
        }
    };
}

stories! {
    // The eight kinds of states, in both languages.
    a_pass_shapes_its_output_by_paths: "pass_jsonpath";
    a_pass_shapes_its_output_by_expressions: "pass_jsonata";
    the_first_rule_that_holds_decides: "choice_jsonpath";
    a_condition_is_true_or_false_and_nothing_else: "choice_jsonata";
    a_choice_without_a_match_fails: "choice_without_match";
    nothing_catches_a_choice_without_a_match: "choice_without_match_in_branch";
    a_choice_on_nothing_fails_rather_than_defaults: "choice_unresolved";
    a_wait_rests_for_seconds: "wait_seconds";
    a_wait_rests_until_a_time: "wait_timestamp";
    a_wait_rests_as_an_expression_says: "wait_jsonata";
    a_wait_for_no_number_fails: "wait_bad_path";
    a_wait_for_less_than_nothing_fails: "wait_negative_path";
    a_wait_for_no_timestamp_follows_from_its_state: "wait_bad_timestamp";
    a_succeed_selects_by_paths: "succeed_jsonpath";
    a_succeed_gives_its_output: "succeed_jsonata";
    a_fail_may_be_computed_by_paths: "fail_jsonpath";
    a_fail_may_be_computed_by_expressions: "fail_jsonata";
    a_fail_may_say_nothing: "fail_empty";
    a_task_sends_parameters_and_shapes_its_result: "task_jsonpath";
    a_task_sends_arguments_and_shapes_its_result: "task_jsonata";
    a_function_has_events_of_its_own: "task_function";
    a_task_that_cannot_be_started_is_told_by_its_family: "task_is_not_started";
    a_task_runs_under_its_credentials: "task_credentials";
    a_key_can_be_named_but_is_not_part_of_the_context: "task_idempotency_key";
    the_context_object_says_where_we_are: "context_object";
    an_express_execution_has_no_redrive_count: "express";

    // Retry.
    each_retrier_counts_by_itself: "retry_several_retriers";
    delays_grow_up_to_their_bound: "retry_max_delay";
    jitter_is_drawn_from_the_moment: "retry_jitter";
    an_exhausted_retrier_falls_to_catch: "retry_exhausted_is_caught";
    no_attempts_means_no_retry: "retry_never";
    a_refused_attempt_sees_its_retry_count: "retry_count_is_seen";

    // Catch.
    a_catcher_puts_the_error_where_it_says: "catch_result_path";
    a_catcher_shapes_output_and_variables: "catch_jsonata";
    nothing_catches_a_runtime_error: "catch_all_spares_runtime";
    a_state_with_too_much_data_is_caught_by_its_name_alone: "catch_all_spares_data_limit";
    a_tolerated_count_is_not_negative: "tolerated_count_negative";
    a_count_at_once_is_not_negative: "concurrency_negative";
    a_tolerated_count_is_a_number: "tolerated_count_text";
    a_tolerated_percentage_is_within_a_hundred: "tolerated_percentage_range";
    a_tolerated_percentage_is_a_number: "tolerated_percentage_type";
    timeouts_are_caught_by_their_names: "catch_timeouts_by_name";
    a_catcher_that_fails_is_not_caught_by_its_neighbour: "catch_fails_itself";
    an_evaluation_can_be_retried_and_caught: "catch_evaluation";
    an_evaluation_that_fails_first_follows_from_nothing: "evaluation_fails_in_the_first_state";
    an_expression_that_throws_is_told_with_its_place: "evaluation_throws";
    an_intrinsic_function_may_fail: "intrinsic_fails";
    a_result_that_does_not_fit_its_path_can_be_caught: "result_path_does_not_fit";

    // Timeouts and heartbeats.
    a_task_that_takes_too_long_is_given_up: "timeout_value";
    a_timeout_may_come_from_the_input: "timeout_path";
    a_timeout_that_is_not_there_fails: "timeout_path_missing";
    a_timeout_may_be_an_expression: "timeout_jsonata";
    an_expression_gives_whole_seconds_within_bounds: "task_seconds_jsonata";
    a_retry_after_a_timeout_repeats_the_same: "timeout_is_retried";
    heartbeats_keep_a_task_alive_but_not_for_ever: "heartbeats_keep_a_task_alive";
    a_silent_worker_is_given_up: "heartbeats_fall_silent";
    clocks_of_silence_begin_anew_at_a_restart: "heartbeats_restart";

    // Activities, callbacks and jobs.
    an_activity_is_scheduled_started_and_done: "activity_success";
    a_workers_own_error_is_a_refusal: "activity_fails";
    an_activity_may_be_answered_without_a_start: "activity_answers_unasked";
    a_late_worker_changes_nothing: "activity_late";
    whoever_returns_the_token_ends_the_task: "callback_by_token";
    a_callback_may_say_no: "callback_fails";
    a_callback_may_overtake_its_message: "callback_before_the_message_is_known";
    a_wrong_token_changes_nothing: "callback_with_a_wrong_token";
    a_token_that_never_returns_times_out: "callback_times_out";
    a_job_is_submitted_and_awaited: "sync_job";
    a_job_that_is_not_submitted_is_retried: "sync_job_is_not_submitted";
    a_job_that_was_submitted_after_all_is_not_sent_twice: "sync_job_is_submitted_late";

    // Keys and rounds.
    doubt_repeats_the_same_bytes_under_the_same_key: "ambiguous_failure_keeps_the_key";
    a_refusal_gets_a_new_key: "refusal_moves_the_round";
    a_late_outcome_answers_the_running_attempt: "late_outcome_answers_the_running_attempt";
    a_late_outcome_ends_the_pause_before_a_retry: "late_outcome_while_resting";
    a_late_failure_does_not_use_up_a_retry: "late_failure_while_resting";
    a_late_outcome_changes_nothing_once_given_up: "late_outcome_after_given_up";
    an_outcome_of_an_old_round_ends_nothing: "late_outcome_of_an_old_round";
    each_turn_of_a_loop_has_its_own_key: "loop_has_a_key_for_each_visit";

    // Variables.
    variables_are_set_together: "variables_are_set_together";
    inner_scopes_read_outer_ones_and_keep_their_own: "variables_of_inner_scopes";
    a_variable_without_a_value_fails: "variables_without_a_value";
    variables_have_a_bound: "variables_are_bounded";

    // Map.
    a_map_gathers_results_in_the_order_of_its_items: "map_jsonpath";
    a_map_may_be_written_in_expressions: "map_jsonata";
    a_map_may_run_one_at_a_time: "map_one_at_a_time";
    a_map_starts_the_next_when_one_ends: "map_two_at_a_time";
    an_inline_map_runs_forty_at_once: "map_forty_at_a_time";
    a_map_of_nothing_ends_at_once: "map_of_nothing";
    a_map_needs_an_array: "map_of_no_array";
    a_failed_iteration_aborts_the_others: "map_failure_aborts_the_others";
    an_iteration_may_come_to_a_fail: "map_failure_of_a_fail_state";
    a_retried_map_begins_anew: "map_retry";
    a_caught_map_leaves_nothing_running: "map_catch";
    an_iteration_that_catches_disturbs_nobody: "map_iteration_catches";
    a_selector_that_fails_midway_fails_the_map: "map_selector_fails_midway";
    a_selector_that_fails_midway_can_be_caught: "map_selector_fails_midway_jsonata";
    iterations_may_time_out_at_the_same_moment: "map_timeouts_at_once";

    // Parallel.
    branches_give_their_results_in_order: "parallel_jsonpath";
    a_parallel_may_be_written_in_expressions: "parallel_jsonata";
    a_failed_branch_aborts_the_others: "parallel_failure_aborts_the_others";
    a_retried_parallel_begins_anew: "parallel_retry";
    a_caught_parallel_leaves_nothing_running: "parallel_catch";
    a_failure_goes_up_until_somebody_handles_it: "parallel_failures_at_two_levels";
    keys_say_where_a_call_stands_however_deep: "parallel_in_map_in_parallel";

    // Distributed Map.
    a_distributed_map_is_ordered_and_gathered: "distributed_map";
    a_distributed_map_reads_and_writes_elsewhere: "distributed_map_reads_and_writes";
    a_distributed_map_may_fail_be_retried_and_caught: "distributed_map_fails";
    a_retried_map_run_goes_on_under_its_key: "distributed_map_is_retried";
    a_redriven_map_run_goes_on_under_its_key: "distributed_map_is_redriven";
    children_are_stopped_with_their_parent: "distributed_map_is_stopped";

    // The end, from outside.
    nothing_reaches_what_has_not_begun: "stop_before_the_start";
    a_waiting_execution_can_be_stopped: "stop_while_waiting";
    a_calling_execution_can_be_stopped: "stop_while_calling";
    a_resting_execution_can_be_stopped: "stop_while_resting";
    branches_end_with_a_stop: "stop_in_parallel";
    iterations_end_with_a_stop: "stop_in_map";
    the_first_stop_counts: "stop_twice_and_after_the_end";
    a_success_is_not_overwritten: "stop_after_success";
    the_machines_timeout_ends_everything: "execution_times_out";
    an_express_execution_has_five_minutes_where_aws_limits_hold: "express_times_out";

    // Redrive.
    a_redriven_task_is_scheduled_again: "redrive_task";
    a_redriven_task_that_was_stopped_keeps_its_key: "redrive_stopped_task";
    a_redrive_does_not_rest_on: "redrive_resting_task";
    a_redriven_wait_keeps_its_end: "redrive_wait";
    a_redriven_choice_is_evaluated_again: "redrive_choice";
    a_redriven_fail_fails_again: "redrive_fail";
    a_redriven_pass_is_tried_again: "redrive_pass";
    a_redriven_parallel_keeps_what_succeeded: "redrive_parallel";
    a_parallel_with_too_much_data_runs_all_again: "redrive_parallel_by_data_limit";
    a_redriven_map_keeps_what_succeeded: "redrive_map";
    a_stopped_map_goes_on_when_redriven: "redrive_map_that_was_stopped";
    a_redrive_starts_the_machines_timeout_anew: "redrive_after_the_execution_timed_out";
    a_redrive_may_fail_at_once_and_start_anew: "redrive_fails_at_once";
    the_same_token_again_is_the_same_redrive: "redrive_once";
    an_express_execution_is_not_redriven: "redrive_express";
    a_redriven_task_that_was_done_is_not_called_again: "redrive_after_an_unusable_result";

    // Taken up by another process.
    whoever_takes_an_execution_up_learns_what_is_under_way: "resume_tells_what_is_under_way";
    a_map_run_is_ordered_again_as_it_was: "resume_orders_the_same_map_run";
    what_has_no_time_left_is_not_called_again: "resume_begins_nothing_without_time";
    a_cut_turn_goes_on_in_another_process: "resume_of_a_cut_turn";
    a_process_that_is_about_to_end_leaves_calls_to_the_next: "the_end_of_a_process_begins_no_call";

    // Doubt, until something ends it.
    a_connection_that_was_never_made_ends_no_doubt: "doubt_outlives_a_refused_connection";
    a_refusal_under_the_key_ends_the_doubt: "doubt_ends_by_a_refusal";
    where_keys_are_not_honoured_a_refusal_ends_no_doubt: "doubt_outlives_a_refusal_where_keys_are_not_honoured";
    a_repeat_that_could_not_be_made_ends_no_doubt: "doubt_outlives_a_restart_and_a_failed_repeat";
    what_was_never_sent_leaves_no_doubt: "nothing_sent_leaves_no_doubt";
    only_an_error_that_is_listed_is_a_refusal: "an_error_that_is_listed_is_a_refusal";
    a_late_failure_counts_for_its_own_attempt: "a_late_failure_counts_for_its_own_attempt";
    a_late_success_counts_for_the_running_attempt: "a_late_success_counts_for_the_running_attempt";
    a_retry_of_a_parallel_is_a_retry_of_its_steps: "parallel_retry_keeps_what_is_in_doubt";
    what_is_held_keeps_a_parallel_from_being_run_again: "parallel_retry_waits_for_what_is_held";
    what_a_person_says_is_what_the_next_run_knows: "parallel_retry_after_again_and_failed";
    what_is_too_large_to_keep_keeps_its_key: "parallel_retry_beyond_what_is_kept";
    what_is_held_deep_inside_keeps_a_map_from_being_run_again: "map_retry_waits_in_depth";

    // Held until somebody knows.
    what_may_not_be_repeated_is_held: "hold_completed";
    what_was_certainly_not_done_gets_a_new_key: "hold_failed";
    a_person_may_repeat_what_was_held: "hold_again";
    a_child_that_has_ended_is_not_started_anew_by_a_retry_around_it: "parallel_retry_asks_no_child_again";
    an_interrupted_call_is_held: "hold_of_an_interrupted_call";
    a_late_answer_ends_a_hold: "hold_is_answered_late";
    a_held_step_ends_with_its_execution: "hold_ends_with_the_execution";
    nothing_is_repeated_once_its_key_is_forgotten: "hold_where_the_key_is_forgotten";
    a_redrive_repeats_nothing_once_its_key_is_forgotten: "hold_of_a_redriven_round";
    what_is_not_held_can_be_resolved_too: "resolve_what_is_not_held";
    late_outcomes_are_told_apart: "late_outcomes_are_told_apart";
    a_late_success_under_a_failed_key_leaves_doubt: "late_success_after_a_refusal";
    a_late_success_counts_before_another_key_goes_out: "late_success_before_the_next_key";
    a_late_success_counts_until_the_next_key_is_taken: "late_success_before_the_next_key_is_taken";
    what_was_done_between_two_runs_of_a_parallel_keeps_its_key: "late_success_between_two_runs";
    a_late_success_leaves_the_next_key_to_who_took_it: "late_success_after_the_next_key_is_taken";
    a_late_success_after_the_end_brings_its_key_back: "late_success_after_the_end_before_the_next_key_is_taken";
    a_late_success_after_a_stop_is_not_undone_by_a_refusal: "late_success_after_a_stop";
    what_was_never_sent_is_not_said_to_have_failed: "resolve_while_resting_before_the_next_key";

    // Bounds, clocks, nonsense.
    an_endless_loop_is_cut_and_can_be_stopped: "endless_loop_is_cut";
    a_state_has_a_bound_of_work: "a_state_has_a_bound_of_work";
    waits_that_end_together_take_turns: "waits_that_end_together_take_turns";
    catchers_share_what_a_state_may_take: "catchers_share_what_a_state_may_take";
    a_turn_is_cut_by_its_bytes: "endless_loop_is_cut_by_bytes";
    a_turn_is_cut_by_its_work: "endless_loop_is_cut_by_work";
    a_map_is_cut_and_goes_on: "map_is_cut";
    a_map_with_a_costly_selector_is_cut_and_goes_on: "map_is_cut_by_work";
    time_never_goes_back: "clock_goes_back";
    what_is_due_happens_once: "clock_jumps";
    a_call_has_its_seconds_whoever_sets_the_clock: "clock_steps_while_calling";
    a_pause_has_its_seconds_whoever_sets_the_clock: "clock_steps_while_resting";
    a_wait_for_a_time_follows_the_wall_clock: "clock_steps_while_waiting_for_a_time";
    an_execution_has_its_seconds_whoever_sets_the_clock: "clock_steps_before_the_execution_times_out";
    a_payload_has_a_bound: "payload_is_bounded";
    what_is_sent_has_a_bound: "payload_to_a_task_is_bounded";
    a_strict_history_has_an_end: "history_is_bounded";
    a_strict_history_ends_while_calling: "history_is_bounded_while_calling";
    garbage_changes_nothing: "garbage_changes_nothing";
    a_restart_changes_nothing: "restart_at_every_point";
    a_restart_loses_no_timer: "restart_does_not_lose_a_timer";
    a_restart_leaves_no_deadline_behind: "restart_with_the_clock_back";
}
