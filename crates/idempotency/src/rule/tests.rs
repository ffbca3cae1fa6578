//! The rules as tables: where a record stands on the left, what each verb comes to on the right.

use super::{Kept, Row, State, Write, claim, complete, erase, later, release, renew, sweep};
use crate::record::{
    Claim, Claimed, Ending, Epoch, Grant, Holding, Keep, OperationId, RequestTag, ScopeTag, Standing,
    Takeover,
};
use bytes::Bytes;
use jiff::Timestamp;
use std::time::Duration;
use uuid::Uuid;

const HELD: Epoch = Epoch(5);
const NEXT: Epoch = Epoch(9);
const KEEP: Keep = Keep { answer_for: Duration::from_secs(100), tombstone_for: Duration::from_secs(10) };

/// So many seconds after the record began. The verbs come at 1000.
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

/// Every place where a record can stand at 1000, under a name. `None`: there is no row.
fn places() -> [(&'static str, Option<Row>); 13] {
    [
        ("no row", None),
        ("held", Some(row(State::Running { until: at(1_001) }))),
        ("lapsed now", Some(row(State::Running { until: at(1_000) }))),
        ("lapsed", Some(row(State::Running { until: at(1) }))),
        ("unknown", Some(row(State::Unknown(kept(1_001, 1_001))))),
        ("unknown, buried", Some(row(State::Unknown(kept(900, 1_001))))),
        ("unknown, gone", Some(row(State::Unknown(kept(900, 1_000))))),
        ("answered", Some(row(State::Completed(kept(1_001, 1_001), Some(answer()))))),
        ("expired", Some(row(State::Completed(kept(1_000, 1_001), Some(answer()))))),
        ("expired, swept", Some(row(State::Completed(kept(1_000, 1_001), None)))),
        ("erased", Some(row(State::Completed(kept(1_001, 1_001), None)))),
        ("gone", Some(row(State::Completed(kept(1_000, 1_000), Some(answer()))))),
        ("gone, swept", Some(row(State::Completed(kept(900, 1_000), None)))),
    ]
}

/// Compares each place's outcome, told in one word, with the table.
fn check(expected: &[(&str, &str); 13], outcome: impl Fn(Option<&Row>) -> String) {
    for ((place, row), (named, expected)) in places().iter().zip(expected) {
        assert_eq!(place, named, "the table has every place in order");
        assert_eq!(outcome(row.as_ref()), *expected, "at {place}");
    }
}

fn wish(takeover: Takeover) -> Claim {
    Claim {
        operation: OperationId::from_hash([3; 16]),
        scope: ScopeTag([1; 16]),
        request: RequestTag([1; 32]),
        claimant: Uuid::from_u128(2),
        lease_for: Duration::from_secs(30),
        takeover,
        keep: KEEP,
    }
}

fn standing(standing: &Standing) -> &'static str {
    match standing {
        Standing::Running { lease_left: Duration::ZERO } => "lapsed",
        Standing::Running { .. } => "running",
        Standing::Unknown { .. } => "unknown",
        Standing::Completed { .. } => "answered",
        Standing::Expired { .. } => "expired",
    }
}

/// What is written, by where it leaves the row; a row that is put keeps what it is not about.
fn written(before: Option<&Row>, write: &Write) -> &'static str {
    match write {
        Write::Nothing => "-",
        Write::Remove => "removed",
        Write::Put(row) => {
            if let Some(before) = before.filter(|before| before.epoch == row.epoch) {
                assert_eq!(Row { state: before.state.clone(), ..row.clone() }, *before);
            }
            match &row.state {
                State::Running { until } => {
                    assert_eq!(*until, at(1_030));
                    "runs"
                }
                State::Unknown(kept) => {
                    assert_eq!(*kept, Kept::from(now(), KEEP));
                    "unknown"
                }
                State::Completed(_, Some(_)) => "answered",
                State::Completed(_, None) => "bare",
            }
        }
    }
}

fn claimed(row: Option<&Row>, wish: &Claim) -> String {
    let (claimed, write) = claim(row, wish, NEXT, now());
    let told = match claimed {
        Claimed::Granted(Grant { epoch: NEXT, taken_over: false, first_at }) if first_at == now() => "new",
        Claimed::Granted(Grant { epoch: NEXT, taken_over: true, first_at }) if first_at == at(0) => "taken",
        Claimed::Granted(Grant { epoch: HELD, taken_over: false, first_at }) if first_at == at(0) => "same",
        Claimed::Granted(grant) => panic!("no such grant: {grant:?}"),
        Claimed::Lapsed(record) => {
            assert_eq!((record.epoch, standing(&record.standing)), (HELD, "unknown"));
            "lapsed"
        }
        Claimed::Found(record) => {
            assert_eq!((record.epoch, record.first_at, record.request), (HELD, at(0), RequestTag([1; 32])));
            standing(&record.standing)
        }
    };
    format!("{told} {}", written(row, &write))
}

#[test]
fn a_claim_at_most_once() {
    let table = [
        ("no row", "new runs"),
        ("held", "running -"),
        ("lapsed now", "lapsed unknown"),
        ("lapsed", "lapsed unknown"),
        ("unknown", "unknown -"),
        ("unknown, buried", "unknown -"),
        ("unknown, gone", "new runs"),
        ("answered", "answered -"),
        ("expired", "expired -"),
        ("expired, swept", "expired -"),
        ("erased", "expired -"),
        ("gone", "new runs"),
        ("gone, swept", "new runs"),
    ];
    check(&table, |row| claimed(row, &wish(Takeover::Never)));
}

#[test]
fn a_claim_that_may_take_over() {
    let table = [
        ("no row", "new runs"),
        ("held", "running -"),
        ("lapsed now", "taken runs"),
        ("lapsed", "taken runs"),
        ("unknown", "taken runs"),
        ("unknown, buried", "taken runs"),
        ("unknown, gone", "new runs"),
        ("answered", "answered -"),
        ("expired", "expired -"),
        ("expired, swept", "expired -"),
        ("erased", "expired -"),
        ("gone", "new runs"),
        ("gone, swept", "new runs"),
    ];
    check(&table, |row| claimed(row, &wish(Takeover::Allowed)));
}

#[test]
fn the_same_claim_again() {
    let table = [
        ("no row", "new runs"),
        ("held", "same -"),
        ("lapsed now", "same -"),
        ("lapsed", "same -"),
        ("unknown", "unknown -"),
        ("unknown, buried", "unknown -"),
        ("unknown, gone", "new runs"),
        ("answered", "answered -"),
        ("expired", "expired -"),
        ("expired, swept", "expired -"),
        ("erased", "expired -"),
        ("gone", "new runs"),
        ("gone, swept", "new runs"),
    ];
    check(&table, |row| claimed(row, &Claim { claimant: Uuid::from_u128(1), ..wish(Takeover::Never) }));
}

#[test]
fn a_claim_for_something_else_writes_only_where_nothing_is() {
    let table = [
        ("no row", "new runs"),
        ("held", "running -"),
        ("lapsed now", "lapsed -"),
        ("lapsed", "lapsed -"),
        ("unknown", "unknown -"),
        ("unknown, buried", "unknown -"),
        ("unknown, gone", "new runs"),
        ("answered", "answered -"),
        ("expired", "expired -"),
        ("expired, swept", "expired -"),
        ("erased", "expired -"),
        ("gone", "new runs"),
        ("gone, swept", "new runs"),
    ];
    for (claimant, takeover) in
        [(1, Takeover::Never), (1, Takeover::Allowed), (2, Takeover::Never), (2, Takeover::Allowed)]
    {
        let other =
            Claim { request: RequestTag([2; 32]), claimant: Uuid::from_u128(claimant), ..wish(takeover) };
        check(&table, |row| claimed(row, &other));
    }
}

fn holding(row: Option<&Row>, (holding, write): &(Holding, Write)) -> String {
    format!("{holding:?} {}", written(row, write))
}

#[test]
fn the_holder_renews() {
    let table = [
        ("no row", "Lost -"),
        ("held", "Held runs"),
        ("lapsed now", "Held runs"),
        ("lapsed", "Held runs"),
        ("unknown", "Lost -"),
        ("unknown, buried", "Lost -"),
        ("unknown, gone", "Lost -"),
        ("answered", "Lost -"),
        ("expired", "Lost -"),
        ("expired, swept", "Lost -"),
        ("erased", "Lost -"),
        ("gone", "Lost -"),
        ("gone, swept", "Lost -"),
    ];
    check(&table, |row| holding(row, &renew(row, HELD, Duration::from_secs(30), now())));
}

#[test]
fn the_holder_tells_an_answer() {
    let table = [
        ("no row", "Lost -"),
        ("held", "Held answered"),
        ("lapsed now", "Held answered"),
        ("lapsed", "Held answered"),
        ("unknown", "Held answered"),
        ("unknown, buried", "Held answered"),
        ("unknown, gone", "Lost -"),
        ("answered", "Held -"),
        ("expired", "Held -"),
        ("expired, swept", "Held -"),
        ("erased", "Held -"),
        ("gone", "Lost -"),
        ("gone, swept", "Lost -"),
    ];
    let ending = Ending::Answered(Bytes::from_static(b"told"));
    check(&table, |row| holding(row, &complete(row, HELD, &ending, KEEP, now())));
    let told = complete(places()[1].1.as_ref(), HELD, &ending, KEEP, now()).1;
    let kept = Kept { at: now(), expires_at: at(1_100), gone_at: at(1_110) };
    assert_eq!(told, Write::Put(row(State::Completed(kept, Some(Bytes::from_static(b"told"))))));
}

#[test]
fn the_holder_tells_that_it_does_not_know() {
    let table = [
        ("no row", "Lost -"),
        ("held", "Held unknown"),
        ("lapsed now", "Held unknown"),
        ("lapsed", "Held unknown"),
        ("unknown", "Held unknown"),
        ("unknown, buried", "Held unknown"),
        ("unknown, gone", "Lost -"),
        ("answered", "Held -"),
        ("expired", "Held -"),
        ("expired, swept", "Held -"),
        ("erased", "Held -"),
        ("gone", "Lost -"),
        ("gone, swept", "Lost -"),
    ];
    check(&table, |row| holding(row, &complete(row, HELD, &Ending::Unknown, KEEP, now())));
}

#[test]
fn the_holder_releases() {
    let table = [
        ("no row", "Lost -"),
        ("held", "Held removed"),
        ("lapsed now", "Held removed"),
        ("lapsed", "Held removed"),
        ("unknown", "Held removed"),
        ("unknown, buried", "Held removed"),
        ("unknown, gone", "Lost -"),
        ("answered", "Lost -"),
        ("expired", "Lost -"),
        ("expired, swept", "Lost -"),
        ("erased", "Lost -"),
        ("gone", "Lost -"),
        ("gone, swept", "Lost -"),
    ];
    check(&table, |row| holding(row, &release(row, HELD, now())));
}

#[test]
fn under_any_other_epoch_nothing_is_held_and_nothing_written() {
    for epoch in [Epoch(0), Epoch(HELD.0 - 1), Epoch(HELD.0 + 1), Epoch(u64::MAX)] {
        for (place, row) in places() {
            let row = row.as_ref();
            let ending = Ending::Answered(Bytes::new());
            for outcome in [
                renew(row, epoch, Duration::MAX, now()),
                complete(row, epoch, &ending, KEEP, now()),
                complete(row, epoch, &Ending::Unknown, KEEP, now()),
                release(row, epoch, now()),
            ] {
                assert_eq!(outcome, (Holding::Lost, Write::Nothing), "at {place} under {epoch}");
            }
        }
    }
}

#[test]
fn an_answer_is_erased_where_one_would_be_given() {
    let table = [
        ("no row", "false -"),
        ("held", "false -"),
        ("lapsed now", "false -"),
        ("lapsed", "false -"),
        ("unknown", "false -"),
        ("unknown, buried", "false -"),
        ("unknown, gone", "false -"),
        ("answered", "true bare"),
        ("expired", "false bare"),
        ("expired, swept", "false -"),
        ("erased", "false -"),
        ("gone", "false bare"),
        ("gone, swept", "false -"),
    ];
    check(&table, |row| {
        let (erased, write) = erase(row, now());
        format!("{erased} {}", written(row, &write))
    });
}

#[test]
fn a_sweep_takes_what_nobody_is_given_any_more_and_finds_what_lapsed() {
    let table = [
        ("no row", "-"),
        ("held", "-"),
        ("lapsed now", "unknown"),
        ("lapsed", "unknown"),
        ("unknown", "-"),
        ("unknown, buried", "-"),
        ("unknown, gone", "removed"),
        ("answered", "-"),
        ("expired", "bare"),
        ("expired, swept", "-"),
        ("erased", "-"),
        ("gone", "removed"),
        ("gone, swept", "removed"),
    ];
    check(&table, |row| written(row, &row.map_or(Write::Nothing, |row| sweep(row, KEEP, now()))).to_owned());
    for (place, row) in places() {
        let Some(row) = row else { continue };
        let is_due = row.sweep_at() <= now();
        assert_eq!(is_due, sweep(&row, KEEP, now()) != Write::Nothing, "at {place}");
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
