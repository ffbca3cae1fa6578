//! Stories of Map Runs: the events or moves of a run, and its answers.

use super::*;
use crate::arn::Arns;
use crate::decide::decide;
use crate::effect::Effect;
use crate::execution::Execution;
use crate::id::{Moment, Timestamp};
use crate::identity::Limits;
use crate::input::Input;
use crate::map_run::Tally;
use MapRunEvent::{Adjusted, AskedFor, Gathered, Items, NoMoreItems, Second, Source, Unread, Unwanted};
use perdura_asl::machine::MachineType;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::source::Source as Text;

/// One line of a story.
enum Line {
    Told(MapRunEvent),
    /// It may make a move, with this place.
    Moves(MapRunPlace),
}
use Line::{Moves, Told};

const NEXT: Line = Moves(MapRunPlace::Free);

/// The order of a Distributed Map with these fields.
fn ordered(fields: &str, input: &str) -> OrderedMapRun {
    ordered_by(1, fields, input)
}

fn ordered_by(execution: u128, fields: &str, input: &str) -> OrderedMapRun {
    let text = format!(
        r#"{{"StartAt":"Each","States":{{"Each":{{"Type":"Map",{fields}"ItemProcessor":{{
            "ProcessorConfig":{{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"}},
            "StartAt":"Do","States":{{"Do":{{"Type":"Pass","End":true}}}}}},"End":true}}}}}}"#
    );
    let machine = Arc::new(read(&Text::new("map.json", text), &ReadOptions::default()).machine.unwrap());
    let arns = Arns::default();
    let parent = Identity {
        id: ExecutionId::from_random(execution),
        arn: arns.execution("map", "one", MachineType::Standard, "").into(),
        name: "one".into(),
        machine_arn: arns.machine("map").into(),
        machine_name: "map".into(),
        role_arn: "role".into(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        labels: crate::labels::Labels::default(),
        root_key: None,
        kind: MachineType::Standard,
        flow: Machine::TOP,
        input: Payload::from_text(input).unwrap(),
        limits: Limits::GENEROUS,
    };
    let execution = Execution::new(machine.clone(), parent.clone());
    let decision = decide(&execution, &Input::Start, &Moment::at(Timestamp(0), 1));
    let order = decision.effects.into_iter().find_map(|effect| match effect {
        Effect::StartMapRun(order) => Some(*order),
        _ => None,
    });
    OrderedMapRun { parent, machine, order: order.unwrap() }
}

const READER: &str = r#""ItemReader":{"Resource":"arn:aws:states:::s3:getObject",
    "ReaderConfig":{"InputType":"JSON"},"Parameters":{"Bucket":"b","Key":"k"}},"#;

/// A run over so many items.
fn over(items: u32) -> OrderedMapRun {
    let items: Vec<String> = (0..items).map(|item| item.to_string()).collect();
    ordered("", &format!("[{}]", items.join(",")))
}

/// The ids of the first children of a run, by number.
fn child(index: u32) -> ExecutionId {
    over(1).order.child(index)
}

fn index(id: ExecutionId) -> u32 {
    (0..10).find(|index| child(*index) == id).unwrap()
}

fn key() -> EffectKey {
    over(1).order.key
}

fn ended(index: u32) -> MapRunEvent {
    MapRunEvent::ChildEnded { child: child(index), index, status: Status::Succeeded }
}

fn failed(index: u32) -> MapRunEvent {
    MapRunEvent::ChildEnded { child: child(index), index, status: Status::Failed }
}

/// The store's data: the statuses of the first children, and the run's own row, if there is one.
fn recalled(children: &[Status], row: Option<(Status, MapRunFigures)>) -> MapRunEvent {
    let mut recalled = MapRunRecalled { row, ..MapRunRecalled::default() };
    for (status, index) in children.iter().zip(0..) {
        recalled.known.set(index, *status);
        recalled.counts.add(*status, 1);
        recalled.running.extend((*status == Status::Running).then(|| child(index)));
    }
    MapRunEvent::Recalled(Box::new(recalled))
}

fn fresh() -> MapRunEvent {
    recalled(&[], None)
}

fn results() -> MapRunEvent {
    Gathered(Ok(Payload::default()))
}

fn figures(fill: impl FnOnce(&mut MapRunFigures)) -> MapRunFigures {
    let mut figures = MapRunFigures::default();
    fill(&mut figures);
    figures
}

fn tally(Tally { total, running, succeeded, failed, timed_out, aborted }: Tally) -> String {
    let parts =
        [(running, "running"), (succeeded, "well"), (failed + timed_out, "failed"), (aborted, "aborted")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}")).collect();
    if parts.is_empty() { format!("0 of {total}") } else { format!("{} of {total}", parts.join(" ")) }
}

fn command(command: MapRunCommand) -> String {
    match command {
        MapRunCommand::GoOn => "go on".into(),
        MapRunCommand::AwaitPlace => "await a place".into(),
        MapRunCommand::ReadChildren => "read children".into(),
        MapRunCommand::ReadItems { .. } => "read items".into(),
        MapRunCommand::TakeItems(batches) => format!("take {batches}"),
        MapRunCommand::Gather { .. } => "gather".into(),
        MapRunCommand::Write(figures) => {
            let most = figures.bounds.max_concurrency;
            let most = if most == 0 { String::new() } else { format!(", {most} at once") };
            format!("write {}{most}", tally(figures.counts.items))
        }
        MapRunCommand::RefuseChanges => "refuse changes".into(),
        MapRunCommand::Join => "join".into(),
        MapRunCommand::StopBelow(children) => {
            format!("stop below {:?}", children.into_iter().map(index).collect::<Vec<_>>())
        }
    }
}

fn commands(commands: Vec<MapRunCommand>) -> String {
    commands.into_iter().map(command).collect::<Vec<_>>().join("; ")
}

fn said(next: MapRunMove) -> String {
    match next {
        MapRunMove::Start { index, .. } => format!("start {index}"),
        MapRunMove::Redrive { index, .. } => format!("redrive {index}"),
        MapRunMove::Stop(id) => format!("stop {}", index(id)),
        MapRunMove::Finish(end) => {
            let MapRunEnd { writes, tells, is_asked_for } = *end;
            let mut said = vec!["finish".to_owned()];
            said.extend(writes.map(|(status, is)| format!("write {status:?}, {}", tally(is.counts.items))));
            said.extend(tells.map(|(_, outcome)| match outcome {
                MapRunOutcome::Succeeded { .. } => "tell that it succeeded".to_owned(),
                MapRunOutcome::Failed { fault } => format!("tell {}", fault.error.unwrap_or_default()),
            }));
            said.extend(is_asked_for.then(|| "begin anew".to_owned()));
            said.join("; ")
        }
        MapRunMove::Rest(rest) if rest.is_empty() => "rest".into(),
        MapRunMove::Rest(rest) => format!("rest; {}", commands(rest)),
    }
}

/// Plays a story, and compares each answer.
#[track_caller]
fn play(life: &mut MapRunLife, story: Vec<(Line, &str)>) {
    for (at, (line, expected)) in story.into_iter().enumerate() {
        let (told, answer) = match line {
            Told(event) => (format!("{event:?}"), commands(life.take(event))),
            Moves(place) => (format!("a move, {place:?}"), said(life.go_on(place))),
        };
        assert_eq!(answer, expected, "line {at}: {told}");
    }
}

/// A run that knows its children and has none yet.
fn spreading(ordered: OrderedMapRun) -> MapRunLife {
    let mut life = MapRunLife::begin(ordered, Vec::new()).0;
    life.take(fresh());
    life
}

/// A run over three items, two of which have children under way.
fn under_way() -> MapRunLife {
    let ordered = ordered(r#""MaxConcurrency":2,"#, "[0,1,2]");
    let mut life = spreading(ordered);
    play(&mut life, vec![(NEXT, "start 0"), (NEXT, "start 1"), (NEXT, "rest")]);
    life
}

/// A run that waits for its results, and one that has them.
fn gathering() -> MapRunLife {
    let mut life = spreading(over(1));
    play(&mut life, vec![(NEXT, "start 0"), (Told(ended(0)), "go on"), (NEXT, "rest; gather")]);
    life
}

fn telling() -> MapRunLife {
    let mut life = gathering();
    life.take(results());
    life
}

#[test]
fn a_run_recalls_its_children_spreads_gathers_and_tells() {
    let (mut life, begun) = MapRunLife::begin(over(2), Vec::new());
    assert_eq!(commands(begun), "read children");
    play(
        &mut life,
        vec![
            (NEXT, "rest"),
            (Told(fresh()), "write 0 of 2; join; go on"),
            (NEXT, "start 0"),
            (NEXT, "start 1"),
            (NEXT, "rest"),
            (Told(Second), "write 2 running of 2"),
            (Told(Second), ""),
            (Told(ended(1)), "go on"),
            (Told(ended(1)), "go on"),
            (NEXT, "rest"),
            (Told(ended(0)), "go on"),
            (NEXT, "rest; gather"),
            (NEXT, "rest"),
            (Told(Second), "write 2 well of 2"),
            (Told(results()), "go on"),
            (NEXT, "finish; write Succeeded, 2 well of 2; tell that it succeeded"),
        ],
    );
    assert_eq!(life.figures().results_written, 2);
}

#[test]
fn children_of_an_earlier_process_are_awaited_and_not_started_again() {
    // The first has ended, the second runs by its row, the third is in memory without one; a fourth never began.
    let (mut life, _) = MapRunLife::begin(over(4), vec![2]);
    play(
        &mut life,
        vec![
            (Told(ended(1)), "go on"),
            (Told(recalled(&[Status::Succeeded, Status::Running], None)), "write 0 of 4; join; go on"),
            (NEXT, "start 3"),
            (NEXT, "rest"),
            (Told(Second), "write 2 running 2 well of 4"),
        ],
    );
}

#[test]
fn what_cannot_be_read_is_asked_for_again_when_a_second_is_over() {
    let stages: [(&str, MapRunLife, &str); 4] = [
        ("recalling", MapRunLife::begin(over(1), Vec::new()).0, "read children"),
        ("gathering", gathering(), "write 1 well of 1; gather"),
        ("telling", telling(), "write 1 well of 1; go on"),
        ("ending", MapRunLife::left_behind(MapRunFigures::default(), Vec::new()).0, "read children"),
    ];
    for (stage, mut life, again) in stages {
        assert_eq!(commands(life.take(Unread)), "", "{stage}");
        assert_eq!(commands(life.take(Second)), again, "{stage}");
        assert_eq!(commands(life.take(Second)), "", "{stage}: it is asked for once");
    }
}

#[test]
fn a_change_is_answered_when_it_is_on_disk_and_refused_when_it_comes_too_late() {
    let change = || Adjusted(MapRunChange { max_concurrency: Some(1), ..MapRunChange::default() });
    let stored = figures(|row| row.bounds.tolerated_count = Some(5));
    let (mut early, _) = MapRunLife::begin(over(2), Vec::new());
    play(
        &mut early,
        vec![
            (Told(change()), ""),
            (Told(recalled(&[], Some((Status::Running, stored)))), "write 0 of 2, 1 at once; join; go on"),
            (NEXT, "start 0"),
            (NEXT, "rest"),
        ],
    );
    assert_eq!(early.figures().bounds.tolerated_count, Some(5), "the change is one of those that it had");
    let mut in_time = spreading(over(2));
    play(&mut in_time, vec![(Told(change()), "write 0 of 2, 1 at once; go on")]);
    for mut late in [gathering(), telling(), MapRunLife::left_behind(MapRunFigures::default(), vec![]).0] {
        play(&mut late, vec![(Told(change()), "refuse changes")]);
    }
    let (mut stopped, _) = MapRunLife::begin(over(2), Vec::new());
    play(
        &mut stopped,
        vec![
            (Told(change()), ""),
            (Told(Unwanted { key: None }), "refuse changes; read children; go on; stop below []"),
        ],
    );
}

#[test]
fn items_are_taken_while_there_is_room_for_them() {
    let version = || Source { name: "S3://b/k".into(), version: "v1".into() };
    let many = |count: usize| Items(vec![Value::from(1); count]);
    let (mut life, _) = MapRunLife::begin(ordered(READER, "{}"), Vec::new());
    play(
        &mut life,
        vec![
            (Told(fresh()), "write 0 of 0; take 4; read items; join; go on"),
            (Told(version()), "go on"),
            (Told(many(1)), "go on"),
            (NEXT, "start 0"),
            (NEXT, "rest; take 1"),
            (NEXT, "rest"),
            (Told(many(ITEMS_AHEAD)), "go on"),
            (Moves(MapRunPlace::None), "rest; await a place"),
            (Told(NoMoreItems(Ok(()))), "go on"),
            (Told(Second), "write 1 running of 4097"),
        ],
    );
    assert!(!life.is_reading(), "there are no more");
}

#[test]
fn a_source_that_changed_or_cannot_be_read_fails_the_run() {
    let stored = || figures(|row| row.source_version = Some("v1".into()));
    let changed = Source { name: "S3://b/k".into(), version: "v2".into() };
    for fault in [changed, NoMoreItems(Err(Fault::named(ITEM_READER)))] {
        let (mut life, _) = MapRunLife::begin(ordered(READER, "{}"), Vec::new());
        let known = recalled(&[Status::Succeeded], Some((Status::Running, stored())));
        life.take(known);
        play(
            &mut life,
            vec![
                (Told(fault), "refuse changes; read children; go on"),
                (NEXT, "rest"),
                (Told(recalled(&[Status::Succeeded], Some((Status::Running, stored())))), "go on"),
                (NEXT, "rest; read children"),
                (Told(recalled(&[Status::Succeeded], None)), "go on"),
                (NEXT, "finish; write Failed, 1 well of 1; tell States.ItemReaderFailed"),
            ],
        );
    }
}

#[test]
fn without_a_place_only_a_run_that_has_no_child_starts_one() {
    let first = || Moves(MapRunPlace::ForTheFirst);
    play(
        &mut spreading(over(3)),
        vec![
            (Moves(MapRunPlace::None), "rest; await a place"),
            (first(), "start 0"),
            (first(), "rest; await a place"),
            (Told(ended(0)), "go on"),
            (first(), "start 1"),
            (NEXT, "start 2"),
        ],
    );
}

#[test]
fn a_run_that_nobody_waits_for_stops_its_children_and_counts_them() {
    let mut life = under_way();
    play(
        &mut life,
        vec![
            (Told(Unwanted { key: Some(key()) }), "refuse changes; read children; go on; stop below [0, 1]"),
            (NEXT, "stop 1"),
            (NEXT, "stop 0"),
            (NEXT, "rest"),
            (Told(ended(0)), "go on"),
            (Told(recalled(&[Status::Succeeded, Status::Running], None)), "go on"),
            (NEXT, "rest"),
            (Told(MapRunEvent::StopInVain(child(1))), "go on"),
            (NEXT, "rest; read children"),
            (NEXT, "rest"),
            (Told(recalled(&[Status::Succeeded, Status::Aborted], None)), "go on"),
            (NEXT, "finish; write Aborted, 1 well 1 aborted of 3"),
        ],
    );
}

#[test]
fn wherever_it_stands_a_run_ends_when_nobody_waits_for_it() {
    let recalling = MapRunLife::begin(over(1), Vec::new()).0;
    for mut life in [recalling, spreading(over(1)), gathering(), telling()] {
        let other = ordered_by(2, "", "[]").order.key;
        assert_eq!(commands(life.take(Unwanted { key: Some(other) })), "", "somebody else's run");
        play(
            &mut life,
            vec![
                (Told(Unwanted { key: Some(key()) }), "refuse changes; read children; go on; stop below []"),
                (Told(Unwanted { key: Some(key()) }), ""),
                (Told(fresh()), "go on"),
                (NEXT, "rest; read children"),
                (Told(recalled(&[Status::Succeeded], None)), "go on"),
                (NEXT, "finish; write Aborted, 1 well of 1"),
            ],
        );
    }
}

#[test]
fn a_run_that_failed_tells_its_parent_when_its_children_have_ended() {
    let exceeded =
        "finish; write Failed, 1 failed 1 aborted of 3; tell States.ExceedToleratedFailureThreshold";
    // An event meanwhile, and the end then.
    for (meanwhile, end) in [
        (None, exceeded),
        // The new request gets the failure.
        (Some(AskedFor { key: key() }), exceeded),
        (Some(Unwanted { key: None }), exceeded),
        (Some(Unwanted { key: Some(key()) }), "finish; write Aborted, 1 failed 1 aborted of 3"),
    ] {
        let mut life = under_way();
        play(
            &mut life,
            vec![
                (Told(failed(0)), "go on"),
                (NEXT, "rest; refuse changes; read children; go on"),
                (NEXT, "stop 1"),
                (Told(recalled(&[Status::Failed, Status::Running], None)), "go on"),
                (Told(ended(1)), "go on"),
                (NEXT, "rest; read children"),
            ],
        );
        play(&mut life, meanwhile.into_iter().map(|event| (Told(event), "")).collect());
        play(
            &mut life,
            vec![(Told(recalled(&[Status::Failed, Status::Aborted], None)), "go on"), (NEXT, end)],
        );
    }
}

#[test]
fn a_run_that_is_asked_for_while_it_ends_begins_anew() {
    for (given_up, end) in
        [(false, "finish; write Aborted, 0 of 1; begin anew"), (true, "finish; write Aborted, 0 of 1")]
    {
        let mut life = spreading(over(1));
        life.take(Unwanted { key: None });
        play(&mut life, vec![(Told(AskedFor { key: key() }), "")]);
        if given_up {
            play(&mut life, vec![(Told(Unwanted { key: Some(key()) }), "")]);
        }
        play(
            &mut life,
            vec![
                (Told(fresh()), "go on"),
                (NEXT, "rest; read children"),
                (Told(fresh()), "go on"),
                (NEXT, end),
            ],
        );
    }
}

#[test]
fn a_run_that_was_stopped_before_it_had_read_its_row_says_what_its_row_says() {
    let stored = figures(|row| {
        row.bounds.max_concurrency = 7;
        row.counts.items.total = 9;
    });
    let (mut life, _) = MapRunLife::begin(over(2), vec![0, 1]);
    life.take(ended(0));
    life.take(Unwanted { key: None });
    assert!(life.is_unread());
    play(
        &mut life,
        vec![
            (NEXT, "stop 1"),
            (NEXT, "rest"),
            (Told(recalled(&[], Some((Status::Running, stored)))), "go on"),
            (Told(ended(1)), "go on"),
        ],
    );
    assert!(!life.is_unread());
    assert_eq!((life.figures().bounds.max_concurrency, life.figures().counts.items.total), (7, 9));
}

#[test]
fn a_run_that_was_left_behind_ends_unless_its_row_says_so_already() {
    for (row, story) in [
        (
            Status::Running,
            vec![
                (NEXT, "stop 1"),
                (NEXT, "stop 0"),
                (Told(ended(0)), "go on"),
                (NEXT, "rest"),
                (Told(ended(1)), "go on"),
                (NEXT, "rest; read children"),
                (Told(recalled(&[Status::Aborted, Status::Succeeded], None)), "go on"),
                (NEXT, "finish; write Aborted, 1 well 1 aborted of 5"),
            ],
        ),
        (Status::Succeeded, vec![(NEXT, "finish")]),
    ] {
        let stood = figures(|row| row.counts.items.total = 5);
        let (mut life, begun) = MapRunLife::left_behind(stood.clone(), vec![child(0)]);
        assert_eq!(commands(begun), "read children; go on");
        let children = [Status::Running, Status::Running];
        play(&mut life, vec![(Told(recalled(&children, Some((row, stood)))), "go on")]);
        play(&mut life, story);
    }
}

/// Deciding is total: there is an answer for every event at every point.
#[test]
fn every_event_is_answered_in_every_stage() {
    let events = || {
        let source = Source { name: "n".into(), version: "v".into() };
        let vain = MapRunEvent::StopInVain(child(0));
        let change = Adjusted(MapRunChange::default());
        let items =
            [source, Items(vec![Value::Null]), NoMoreItems(Ok(())), NoMoreItems(Err(Fault::default()))];
        let asks = [AskedFor { key: key() }, Unwanted { key: None }, Unwanted { key: Some(key()) }];
        let others = [Second, Unread, fresh(), ended(0), failed(9), vain, change, results()];
        items.into_iter().chain(asks).chain(others).collect::<Vec<_>>()
    };
    for at in 0..events().len() {
        let recalling = MapRunLife::begin(over(1), Vec::new()).0;
        let left = MapRunLife::left_behind(MapRunFigures::default(), Vec::new()).0;
        for mut life in [recalling, under_way(), gathering(), telling(), left] {
            life.take(events().remove(at));
            for event in events() {
                life.take(event);
                life.go_on(MapRunPlace::Free);
            }
        }
    }
}
