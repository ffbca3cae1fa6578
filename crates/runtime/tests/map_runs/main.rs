//! Distributed Maps, on a node by hand that can be lost between any two commits.

mod reading;
mod rig;

use perdura_engine::{ExecutionId, Fault, Input, Status, Tally};
use perdura_runtime::{FetchKind, bring_results};
use rig::{PASS, READER, Rig, WORK, map, numbers, values};
use std::sync::{Arc, Mutex};

#[test]
fn children_are_executions_of_their_own_and_their_results_are_in_order() {
    let mut rig = Rig::new();
    let parent = rig.start(&map("", WORK), &numbers(9));
    let (status, output) = rig.until_ended(parent);
    assert_eq!((status, &*output), (Status::Succeeded, "[[0],[1],[2],[3],[4],[5],[6],[7],[8]]"));
    assert_eq!(rig.children(parent), [Status::Succeeded; 9]);
    let row = rig.run_row(parent);
    assert_eq!(
        (row.status, row.counts.items.succeeded, row.counts.items.pending()),
        (Status::Succeeded, 9, 0)
    );
    assert!(rig.reader().list(&perdura_store::Filter::default(), None, 100).unwrap().rows.len() == 1);
}

#[test]
fn no_more_children_run_at_once_than_asked() {
    let mut rig = Rig::new();
    rig.hangs = |_| true;
    let parent = rig.start(&map(r#""MaxConcurrency": 3,"#, WORK), &numbers(9));
    for _ in 0..50 {
        rig.step();
    }
    assert_eq!(rig.children(parent), [Status::Running; 3]);
    assert_eq!(rig.run_row(parent).counts.items.running, 3);
}

/// Crashes after each commit of a run, and sees that nobody can tell the difference.
fn whatever_crashes(machine: &str, input: &str, prepare: fn(&mut Rig), check: fn(&mut Rig, ExecutionId)) {
    for crash_after in 1.. {
        let mut rig = Rig::new();
        prepare(&mut rig);
        let parent = rig.start(machine, input);
        while rig.commits < crash_after && !rig.has_ended(parent) {
            rig.step();
        }
        let is_over = rig.has_ended(parent);
        rig.crash();
        rig.until_ended(parent);
        check(&mut rig, parent);
        if is_over {
            assert!(crash_after > 4, "it was over after {crash_after} commits");
            return;
        }
    }
}

#[test]
fn whatever_crashes_each_child_runs_once() {
    whatever_crashes(
        &map("", PASS),
        &numbers(30),
        |_| (),
        |rig, parent| {
            let (status, output) = rig.until_ended(parent);
            assert_eq!((status, output), (Status::Succeeded, numbers(30)));
            let run = rig.run_row(parent).id;
            let children = rig.reader().children(run, 0, 100).unwrap();
            let turns: Vec<u64> = children.iter().map(|row| row.content.as_ref().unwrap().turns).collect();
            assert_eq!(turns, [1; 30], "a child that has ended has no second Turn");
        },
    );
}

#[test]
fn whatever_crashes_a_finished_step_of_a_child_is_not_made_again() {
    whatever_crashes(
        &map(r#""MaxConcurrency": 3,"#, WORK),
        &numbers(8),
        |_| (),
        |rig, parent| {
            assert_eq!(rig.until_ended(parent).1, "[[0],[1],[2],[3],[4],[5],[6],[7]]");
            // One that was under way is made again under its key; no more than ran at once.
            let again = rig.worked.values().filter(|times| **times > 1).count();
            assert!(again <= 3 && rig.worked.values().all(|times| *times <= 2), "{:?}", rig.worked);
        },
    );
}

#[test]
fn whatever_crashes_items_that_are_read_are_handled_once() {
    let batches = format!(r#"{READER} "ItemBatcher": {{"MaxItemsPerBatch": 3}},"#);
    whatever_crashes(
        &map(&batches, PASS),
        "{}",
        |rig| rig.items = values(&numbers(10)),
        |rig, parent| {
            let expected = r#"[{"Items":[0,1,2]},{"Items":[3,4,5]},{"Items":[6,7,8]},{"Items":[9]}]"#;
            assert_eq!(rig.until_ended(parent), (Status::Succeeded, expected.into()));
            let counts = rig.run_row(parent).counts;
            assert_eq!((counts.items.succeeded, counts.children.succeeded), (10, 4));
        },
    );
}

#[test]
fn whatever_crashes_a_run_over_its_tolerance_fails_and_its_children_end() {
    let fields = r#""MaxConcurrency": 4, "ToleratedFailureCount": 1,"#;
    let prepare = |rig: &mut Rig| {
        rig.fails = |text| text == "1" || text == "5";
        rig.hangs = |text| text == "2";
    };
    whatever_crashes(&map(fields, WORK), &numbers(12), prepare, |rig, parent| {
        let (status, fault) = rig.until_ended(parent);
        assert!(fault.contains("States.ExceedToleratedFailureThreshold"), "{status:?} {fault}");
        let children = rig.children(parent);
        assert_eq!((children[2], children.contains(&Status::Running)), (Status::Aborted, false));
        assert_eq!(rig.run_row(parent).status, Status::Failed);
    });
}

#[test]
fn a_source_that_changed_is_not_gone_on_with() {
    let mut rig = Rig::new();
    rig.items = values(&numbers(3));
    rig.hangs = |text| text == "1";
    let parent = rig.start(&map(READER, WORK), "{}");
    for _ in 0..40 {
        rig.step();
    }
    rig.version = "v2";
    rig.crash();
    let (status, fault) = rig.until_ended(parent);
    assert_eq!(status, Status::Failed);
    assert!(fault.contains("States.ItemReaderFailed") && fault.contains("it was v1, and is v2"), "{fault}");
    assert_eq!(rig.children(parent), [Status::Succeeded, Status::Aborted, Status::Succeeded]);
}

#[test]
fn a_stopped_parent_stops_its_children_even_if_the_process_dies_then() {
    for crashes in [false, true] {
        let mut rig = Rig::new();
        rig.hangs = |_| true;
        let parent = rig.start(&map("", WORK), &numbers(5));
        for _ in 0..40 {
            rig.step();
        }
        rig.input(parent, Input::Stop { fault: Fault::default() });
        rig.until_ended(parent);
        if crashes {
            rig.crash();
        }
        for _ in 0..60 {
            rig.step();
        }
        assert_eq!(rig.children(parent), [Status::Aborted; 5], "crashes: {crashes}");
        assert_eq!(rig.node.in_memory(), 0);
    }
}

#[test]
fn a_stopped_run_ends_with_its_counts_wherever_the_process_dies() {
    let long = r#"{"Type": "Wait", "Seconds": 100000, "End": true}"#;
    for (what, child) in [("calls", WORK), ("rests", long)] {
        for crash_after in (0..12).chain([1_000]) {
            let mut rig = Rig::new();
            rig.hangs = |text| !text.contains("[0,1]");
            let fields = r#""MaxConcurrency": 2, "ItemBatcher": {"MaxItemsPerBatch": 2},"#;
            let parent = rig.start(&map(fields, child), &numbers(7));
            for _ in 0..40 {
                rig.step();
            }
            rig.input(parent, Input::Stop { fault: Fault::default() });
            rig.until_ended(parent);
            for _ in 0..crash_after.min(60) {
                rig.step();
            }
            if crash_after < 60 {
                rig.crash();
            }
            for _ in 0..100 {
                rig.step();
            }
            let row = rig.run_row(parent);
            let of =
                |status: Status| rig.children(parent).iter().filter(|child| **child == status).count() as u64;
            let (succeeded, aborted) = (of(Status::Succeeded), of(Status::Aborted));
            let case = format!("one that {what}, after {crash_after}: {row:?}");
            assert_eq!((row.status, aborted), (Status::Aborted, 2), "{case}");
            assert!(row.ended_at.is_some(), "{case}");
            let children = Tally { total: succeeded + 2, succeeded, aborted, ..Tally::default() };
            assert_eq!(row.counts.children, children, "{case}");
            let items = Tally { total: 7, succeeded: 2 * succeeded, aborted: 4, ..Tally::default() };
            assert_eq!(row.counts.items, items, "{case}");
            assert_eq!(rig.node.in_memory(), 0, "{case}");
        }
    }
}

#[test]
fn a_thousand_children_are_stopped_a_few_at_a_time() {
    let mut rig = Rig::new();
    let long = r#"{"Type": "Wait", "Seconds": 100000, "End": true}"#;
    let parent = rig.start(&map("", long), &numbers(1_000));
    while rig.reader().map_runs(parent).unwrap().iter().all(|row| row.counts.children.running < 1_000) {
        rig.step();
    }
    while rig.node.in_memory() > 1 {
        rig.step();
    }
    rig.input(parent, Input::Stop { fault: Fault::default() });
    rig.until_ended(parent);
    rig.crash();
    let mut most = 0;
    while rig.run_row(parent).status == Status::Running {
        rig.step();
        most = most.max(rig.node.in_memory());
    }
    assert!(most < 500, "{most} at once");
    assert_eq!(rig.children(parent), [Status::Aborted; 1_000]);
    assert_eq!(rig.run_row(parent).counts.children.aborted, 1_000);
}

#[test]
fn a_run_of_an_earlier_process_that_its_parent_waits_for_goes_on() {
    let mut rig = Rig::new();
    rig.hangs = |_| true;
    let parent = rig.start(&map("", WORK), &numbers(3));
    for _ in 0..40 {
        rig.step();
    }
    rig.crash();
    for _ in 0..100 {
        rig.step();
    }
    assert_eq!(rig.children(parent), [Status::Running; 3]);
    assert_eq!(rig.run_row(parent).status, Status::Running);
}

#[test]
fn a_child_that_is_redriven_is_counted_by_its_new_end() {
    let mut rig = Rig::new();
    rig.hangs = |_| true;
    let parent = rig.start(&map("", WORK), &numbers(200));
    while rig.reader().map_runs(parent).unwrap().iter().all(|row| row.counts.children.running < 200) {
        rig.step();
    }
    rig.input(parent, Input::Stop { fault: Fault::default() });
    rig.until_ended(parent);
    while rig.run_row(parent).status == Status::Running {
        rig.step();
    }
    rig.hangs = |_| false;
    rig.input(parent, Input::Redrive);
    rig.step();
    assert_eq!(rig.until_ended(parent).0, Status::Succeeded);
    let children = Tally { total: 200, succeeded: 200, ..Tally::default() };
    assert_eq!(rig.run_row(parent).counts.children, children);
}

#[test]
fn each_retry_of_a_run_counts_as_a_redrive() {
    for crashes in [false, true] {
        let mut rig = Rig::new();
        rig.fails = |text| text == "1";
        let retry = r#""Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 2}],"#;
        let parent = rig.start(&map(retry, WORK), &numbers(2));
        while rig.reader().map_runs(parent).unwrap().iter().all(|row| row.redrives == 0) {
            rig.step();
        }
        if crashes {
            rig.crash();
        }
        assert_eq!(rig.until_ended(parent).0, Status::Failed);
        let row = rig.run_row(parent);
        assert_eq!((row.status, row.redrives), (Status::Failed, 2), "crashes: {crashes}");
        assert!(row.redriven_at.is_some());
    }
}

#[test]
fn what_runs_again_after_a_redrive_is_counted_among_those_that_run() {
    let mut rig = Rig::new();
    rig.fails = |_| true;
    let one = format!(r#"{{"StartAt": "D", "States": {{"D": {WORK}}}}}"#);
    let execution = rig.start(&one, "1");
    assert_eq!(rig.until_ended(execution).0, Status::Failed);
    assert_eq!(rig.committer.totals().running(), 0);
    rig.fails = |_| false;
    rig.hangs = |_| true;
    rig.input(execution, Input::Redrive);
    rig.step();
    assert_eq!(rig.committer.totals().running(), 1);
    rig.crash();
    assert_eq!(rig.committer.totals().running(), 1, "also after a restart");
    rig.hangs = |_| false;
    assert_eq!(rig.until_ended(execution).0, Status::Succeeded);
    assert_eq!(rig.committer.totals().running(), 0);
}

/// Children that work, wait or look for a worker, and a parent that gives them up after a while and goes on.
fn given_up(child: &str) -> String {
    let branch = map("", child);
    format!(
        r#"{{"StartAt": "Both", "States": {{
            "Both": {{"Type": "Parallel", "End": true, "Catch": [{{"ErrorEquals": ["Enough"], "Next": "Rest"}}],
                "Branches": [{branch}, {{"StartAt": "W", "States": {{
                    "W": {{"Type": "Wait", "Seconds": 2, "Next": "F"}}, "F": {{"Type": "Fail", "Error": "Enough"}}}}}}]}},
            "Rest": {{"Type": "Wait", "Seconds": 100000, "End": true}}}}}}"#
    )
}

#[test]
fn children_that_nobody_waits_for_are_ended_wherever_the_process_dies() {
    let long = r#"{"Type": "Wait", "Seconds": 30, "End": true}"#;
    let activity =
        r#"{"Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:a", "End": true}"#;
    for (what, child) in [("calls", WORK), ("rests", long), ("looks for a worker", activity)] {
        for crash_after in 1..60 {
            let mut rig = Rig::new();
            rig.hangs = |_| true;
            let parent = rig.start(&given_up(child), &numbers(3));
            for _ in 0..crash_after {
                rig.step();
            }
            let ended = |status: &Status| *status == Status::Aborted;
            let had_ended = crash_after > 10 && rig.children(parent).iter().any(ended);
            rig.crash();
            for _ in 0..1_000 {
                rig.step();
            }
            let expected = vec![Status::Aborted; rig.children(parent).len()];
            assert_eq!(rig.children(parent), expected, "one that {what}, after {crash_after}");
            assert!(
                had_ended || rig.run_row(parent).status == Status::Aborted,
                "{what}, after {crash_after}"
            );
            assert_eq!(rig.node.activities().0, 0, "nothing is left for workers");
        }
    }
}

#[test]
fn a_run_that_is_stopped_and_redriven_before_it_knows_its_children_goes_on() {
    let mut rig = Rig::new();
    rig.hangs = |_| true;
    let parent = rig.start(&map("", WORK), &numbers(3));
    for _ in 0..40 {
        rig.step();
    }
    rig.crash();
    rig.withheld = Some(Vec::new());
    for input in [None, Some(Input::Stop { fault: Fault::default() }), Some(Input::Redrive)] {
        if let Some(input) = input {
            rig.input(parent, input);
        }
        for _ in 0..10 {
            rig.step();
        }
    }
    rig.hangs = |_| false;
    for fetch in rig.withheld.take().unwrap() {
        rig.fetch(fetch);
    }
    assert_eq!(rig.until_ended(parent).0, Status::Succeeded);
}

#[test]
fn a_writer_that_ends_without_a_word_is_asked_again() {
    let (order, told) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(Vec::new())));
    let mut rig = Rig::new();
    rig.withheld = Some(Vec::new());
    let writer = r#""ResultWriter": {"Resource": "arn:aws:states:::s3:putObject",
        "Parameters": {"Bucket": "b", "Prefix": "p"}},"#;
    let parent = rig.start(&map(writer, WORK), &numbers(2));
    for _ in 0..60 {
        rig.step();
        for fetch in rig.withheld.replace(Vec::new()).unwrap() {
            if let FetchKind::Results { order: of, bytes_max } = &fetch.kind
                && told.lock().unwrap().is_empty()
            {
                let (order, told) = (order.clone(), told.clone());
                let write = move |written| *order.lock().unwrap() = Some(written);
                let send = move |message| told.lock().unwrap().push(message);
                bring_results(fetch.ticket, rig.reader(), (&**of, *bytes_max), write, send);
                continue;
            }
            let withheld = rig.withheld.take();
            rig.fetch(fetch);
            rig.withheld = withheld;
        }
        if let Some(unwritten) = order.lock().unwrap().take() {
            drop::<perdura_runtime::WriteOrder>(unwritten);
            for message in std::mem::take(&mut *told.lock().unwrap()) {
                let moment = rig.moment();
                rig.node.take(message, &moment);
            }
            rig.withheld = None;
            break;
        }
    }
    assert_eq!(rig.until_ended(parent), (Status::Succeeded, r#""written""#.to_owned()));
}

#[test]
fn a_redrive_runs_the_unsuccessful_children_of_the_same_run() {
    for crashes in [false, true] {
        let mut rig = Rig::new();
        rig.fails = |text| text == "1" || text == "4";
        let fields = r#""MaxConcurrency": 2, "ToleratedFailureCount": 1,"#;
        let parent = rig.start(&map(fields, WORK), &numbers(7));
        assert_eq!(rig.until_ended(parent).0, Status::Failed);
        let run = rig.run_row(parent).id;
        let before = rig.worked.clone();
        rig.fails = |_| false;
        rig.now += 5_000;
        rig.input(parent, Input::Redrive);
        rig.step();
        if crashes {
            rig.step();
            rig.step();
            rig.crash();
        }
        let (status, output) = rig.until_ended(parent);
        assert_eq!((status, &*output), (Status::Succeeded, "[[0],[1],[2],[3],[4],[5],[6]]"));
        assert_eq!((rig.run_row(parent).id, rig.run_row(parent).redrives), (run, 1));
        for succeeded in ["0", "2"] {
            assert_eq!(rig.worked[succeeded], before[succeeded], "{succeeded} succeeded before");
        }
        assert!(rig.worked["1"] > before["1"]);
    }
}

#[test]
fn results_are_written_where_the_machine_says_so() {
    let writer = r#""ResultWriter": {"Resource": "arn:aws:states:::s3:putObject",
        "Parameters": {"Bucket": "b", "Prefix": "p"}}, "ToleratedFailureCount": 1, "Label": "Each","#;
    let mut rig = Rig::new();
    rig.fails = |text| text == "1";
    let parent = rig.start(&map(writer, WORK), &numbers(3));
    assert_eq!(rig.until_ended(parent), (Status::Succeeded, r#""written""#.into()));
    assert_eq!(rig.run_row(parent).results_written, 3);
    let written = rig.written.lock().unwrap();
    let seen: Vec<_> =
        written.iter().map(|child| (child.index, child.status, child.input.to_string())).collect();
    let expected = [(0, Status::Succeeded), (1, Status::Failed), (2, Status::Succeeded)];
    assert_eq!(seen, expected.map(|(index, status)| (index, status, index.to_string())));
    assert_eq!(written[1].fault, Fault::named("Bad"));
    assert_eq!(written[2].output.as_ref().map(ToString::to_string).as_deref(), Some("[2]"));
    assert!(written[0].arn.contains(":execution:test/"), "{}", written[0].arn);
}

#[test]
fn results_that_are_too_large_fail_the_state() {
    let mut rig = Rig::new();
    rig.limits.payload_bytes_max = 1_000;
    let large = format!(r#"{{"Type": "Pass", "Result": "{}", "End": true}}"#, "x".repeat(300));
    let parent = rig.start(&map("", &large), &numbers(4));
    let (status, fault) = rig.until_ended(parent);
    assert_eq!(status, Status::Failed);
    assert!(fault.contains("States.DataLimitExceeded"), "{fault}");
}

#[test]
fn a_map_in_a_child_of_a_map_runs_too() {
    let inner = map("", PASS).replace("Each", "Inner").replace("Do", "Leaf");
    let start = inner.find(r#"{"Type": "Map""#).unwrap();
    let inner = &inner[start..inner.len() - 2];
    let mut rig = Rig::new();
    let parent = rig.start(&map("", inner), "[[1,2],[],[3]]");
    assert_eq!(rig.until_ended(parent), (Status::Succeeded, "[[1,2],[],[3]]".into()));
}

#[test]
fn children_that_sleep_are_awaited() {
    let wait = r#"{"Type": "Wait", "Seconds": 30, "End": true}"#;
    whatever_crashes(
        &map("", wait),
        &numbers(4),
        |_| (),
        |rig, parent| {
            assert_eq!(rig.until_ended(parent), (Status::Succeeded, numbers(4)));
        },
    );
}
