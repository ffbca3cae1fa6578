//! The rule against its table, at exact moments that no store can be brought to.

use super::{Kept, Row, State, Write, claim, complete, erase, later, release, renew, sweep};
use crate::conformance::table;
use crate::record::{
    Claim, Claimed, Ending, Epoch, Grant, Holding, Keep, OperationId, RequestTag, ScopeTag, Takeover,
};
use bytes::Bytes;
use jiff::Timestamp;
use std::time::Duration;
use uuid::Uuid;

const HELD: Epoch = Epoch(5);
const NEXT: Epoch = Epoch(9);
const LEASE_FOR: Duration = Duration::from_secs(30);
const KEEP: Keep = Keep { answer_for: Duration::from_secs(100), tombstone_for: Duration::from_secs(10) };

/// This many seconds after the record began. The verbs come at 1000.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("near 1970")
}

fn now() -> Timestamp {
    at(1_000)
}

fn kept(expires_at: i64, gone_at: i64) -> Kept {
    Kept { at: at(500), expires_at: at(expires_at), gone_at: at(gone_at) }
}

fn row(state: State) -> Row {
    Row {
        scope: ScopeTag([1; 16]),
        request: RequestTag([1; 32]),
        claimant: Uuid::from_u128(1),
        epoch: HELD,
        taken_over: false,
        first_at: at(0),
        state,
    }
}

fn answer() -> Bytes {
    Bytes::from_static(b"answer")
}

/// The rows for each state of the table at 1000, on the exact boundary. `None`: there is no row.
fn places() -> [(&'static str, Option<Row>); 13] {
    let completed = |kept, answer: Option<Bytes>| Some(row(State::Completed(kept, answer)));
    [
        ("nothing", None),
        ("nothing", Some(row(State::Unknown(kept(900, 1_000))))),
        ("nothing", completed(kept(1_000, 1_000), Some(answer()))),
        ("nothing", completed(kept(900, 1_000), None)),
        ("running", Some(row(State::Running { until: at(1_001) }))),
        ("lapsed", Some(row(State::Running { until: at(1_000) }))),
        ("lapsed", Some(row(State::Running { until: at(1) }))),
        ("unknown", Some(row(State::Unknown(kept(1_001, 1_001))))),
        ("unknown", Some(row(State::Unknown(kept(900, 1_001))))),
        ("answered", completed(kept(1_001, 1_001), Some(answer()))),
        ("expired", completed(kept(1_000, 1_001), Some(answer()))),
        ("expired", completed(kept(1_000, 1_001), None)),
        ("expired", completed(kept(1_001, 1_001), None)),
    ]
}

fn wish(takeover: Takeover) -> Claim {
    Claim {
        operation: OperationId::from_hash([3; 16]),
        scope: ScopeTag([1; 16]),
        request: RequestTag([1; 32]),
        claimant: Uuid::from_u128(2),
        lease_for: LEASE_FOR,
        takeover,
        keep: KEEP,
    }
}

fn offered(row: Option<&Row>, wish: &Claim) -> (&'static str, Write) {
    let (claimed, write) = claim(row, wish, NEXT, now());
    let word = match claimed {
        Claimed::Granted(Grant { epoch: NEXT, taken_over: false, first_at }) if first_at == now() => "new",
        Claimed::Granted(Grant { epoch: NEXT, taken_over: true, first_at }) if first_at == at(0) => "taken",
        Claimed::Granted(Grant { epoch: HELD, taken_over: false, first_at }) if first_at == at(0) => "same",
        Claimed::Granted(grant) => panic!("no such grant: {grant:?}"),
        Claimed::Lapsed(record) => {
            assert!(matches!(&write, Write::Put(row) if row.record(now()) == record));
            "noticed"
        }
        Claimed::Found(record) => {
            assert_eq!(row.map(|row| row.record(now())), Some(record), "told as it stands");
            "found"
        }
    };
    (word, write)
}

/// All variants of a line of the table, each with its result and its change.
fn asked(verb: &str, row: Option<&Row>) -> Vec<(&'static str, Write)> {
    let held = |outcomes: Vec<(Holding, Write)>| -> Vec<_> {
        let word = |holding| if holding == Holding::Held { "held" } else { "lost" };
        outcomes.into_iter().map(|(holding, write)| (word(holding), write)).collect()
    };
    let told = Ending::Answered(Bytes::from_static(b"told"));
    let again = |takeover| Claim { claimant: Uuid::from_u128(1), ..wish(takeover) };
    match verb {
        "claim" => vec![offered(row, &wish(Takeover::Never))],
        "claim, may take over" => vec![offered(row, &wish(Takeover::Allowed))],
        "the same claim again" => vec![offered(row, &again(Takeover::Never))],
        "the same claim again, may take over" => vec![offered(row, &again(Takeover::Allowed))],
        "claim for another request" => {
            let wishes =
                [Takeover::Never, Takeover::Allowed].map(|takeover| [wish(takeover), again(takeover)]);
            let other = |wish| Claim { request: RequestTag([2; 32]), ..wish };
            wishes.into_iter().flatten().map(|wish| offered(row, &other(wish))).collect()
        }
        "renew" => held(vec![renew(row, HELD, LEASE_FOR, now())]),
        "tell an answer" => held(vec![complete(row, HELD, &told, KEEP, now())]),
        "tell that it is unknown" => held(vec![complete(row, HELD, &Ending::Unknown, KEEP, now())]),
        "release" => held(vec![release(row, HELD, now())]),
        "any of these four under another epoch" => {
            let epochs = [0, HELD.0 - 1, HELD.0 + 1, u64::MAX].map(Epoch);
            let under = |epoch| {
                [
                    renew(row, epoch, LEASE_FOR, now()),
                    complete(row, epoch, &told, KEEP, now()),
                    complete(row, epoch, &Ending::Unknown, KEEP, now()),
                    release(row, epoch, now()),
                ]
            };
            held(epochs.into_iter().flat_map(under).collect())
        }
        "erase" => {
            let (erased, write) = erase(row, now());
            vec![(if erased { "yes" } else { "no" }, write)]
        }
        "sweep" => {
            let write = row.map_or(Write::Nothing, |row| sweep(row, KEEP, now()));
            let is_noticed = matches!(&write, Write::Put(Row { state: State::Unknown(_), .. }));
            vec![(if is_noticed { "noticed" } else { "no" }, write)]
        }
        other => panic!("no such line: {other}"),
    }
}

/// Checks that a new row has the right times, and otherwise the values of the old one.
fn assert_put(before: Option<&Row>, put: &Row) {
    if let Some(before) = before.filter(|before| before.epoch == put.epoch) {
        assert_eq!(Row { state: before.state.clone(), ..put.clone() }, *before);
    }
    match (&put.state, before.map(|before| &before.state)) {
        (State::Running { until }, _) => assert_eq!(*until, later(now(), LEASE_FOR)),
        (State::Unknown(kept), _) => assert_eq!(*kept, Kept::from(now(), KEEP)),
        (State::Completed(kept, Some(answer)), _) => {
            let until = Kept { at: now(), expires_at: at(1_100), gone_at: at(1_110) };
            assert_eq!((*kept, answer.as_ref()), (until, &b"told"[..]));
        }
        (State::Completed(kept, None), Some(State::Completed(before, Some(_)))) => assert_eq!(kept, before),
        (State::Completed(_, None), before) => panic!("made of {before:?}"),
    }
}

#[test]
fn the_rule_is_the_table_to_the_very_moment() {
    for cell in table::cells() {
        for (_, row) in places().iter().filter(|(place, _)| *place == cell.place) {
            let row = row.as_ref();
            for (told, write) in asked(cell.verb, row) {
                let left = match &write {
                    Write::Nothing => row,
                    Write::Remove => None,
                    Write::Put(put) => {
                        assert_put(row, put);
                        Some(put)
                    }
                };
                let left = left.filter(|row| row.is_there(now())).map(|row| row.record(now()));
                let expected = (cell.told, cell.left.unwrap_or(cell.place));
                assert_eq!((told, table::place(left.as_ref())), expected, "{cell:?} at {row:?}");
            }
        }
    }
}

#[test]
fn a_sweep_writes_where_something_is_due_and_nowhere_else() {
    for (place, row) in places() {
        let Some(row) = row else { continue };
        let write = sweep(&row, KEEP, now());
        assert_eq!(row.sweep_at() <= now(), write != Write::Nothing, "at {place}: {row:?}");
        assert_eq!(place == "nothing", write == Write::Remove, "at {place}: {row:?}");
    }
}

#[test]
fn a_sweep_of_what_ended_changes_no_answer_now_or_later() {
    let wishes = [wish(Takeover::Never), wish(Takeover::Allowed)];
    for (place, row) in places() {
        let Some(row) = row.filter(|row| !matches!(row.state, State::Running { .. })) else { continue };
        let swept = match sweep(&row, KEEP, now()) {
            Write::Nothing => Some(row.clone()),
            Write::Put(row) => Some(row),
            Write::Remove => None,
        };
        for (wish, when) in
            wishes.iter().flat_map(|wish| [now(), at(1_001), at(2_000)].map(|when| (wish, when)))
        {
            let before = claim(Some(&row), wish, NEXT, when).0;
            assert_eq!(before, claim(swept.as_ref(), wish, NEXT, when).0, "at {place}, claimed at {when}");
        }
    }
}

#[test]
fn a_sweep_leaves_a_lapsed_lease_as_a_claim_does_and_takes_no_rights() {
    let lapsed = row(State::Running { until: at(1) });
    let Write::Put(swept) = sweep(&lapsed, KEEP, now()) else { panic!("it has lapsed") };
    assert_eq!(claim(Some(&lapsed), &wish(Takeover::Never), NEXT, now()).1, Write::Put(swept.clone()));
    let (taken, write) = claim(Some(&swept), &wish(Takeover::Allowed), NEXT, now());
    assert_eq!((taken, write), claim(Some(&lapsed), &wish(Takeover::Allowed), NEXT, now()));
    let ends = [Ending::Answered(answer()), Ending::Unknown];
    for ending in ends {
        assert_eq!(complete(Some(&swept), HELD, &ending, KEEP, now()).0, Holding::Held, "its holder, late");
    }
    assert_eq!(renew(Some(&swept), HELD, KEEP.answer_for, now()), (Holding::Lost, Write::Nothing));
}

#[test]
fn time_ends_at_its_end() {
    assert_eq!(later(now(), Duration::from_secs(1)), at(1_001));
    assert_eq!(later(now(), Duration::MAX), Timestamp::MAX);
    assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    let kept = Kept::from(now(), Keep { answer_for: Duration::MAX, tombstone_for: Duration::MAX });
    assert_eq!((kept.expires_at, kept.gone_at), (Timestamp::MAX, Timestamp::MAX));
}
