//! Sweeps find operations that began and did not end, without a request for them, and list their unknown outcomes.

use super::serving::{waiting, woken};
use super::{
    ANSWER_FOR, Bench, Desk, KEEP, LEASE_FOR, NEAR, TOMBSTONE_FOR, answered, claim, operation, take, unknown,
};
use crate::record::{Claimed, Completion, Holding, Keep, OperationId, Record, Standing};
use crate::store::Swept;
use std::time::Duration;

/// The ids alone.
fn ids(listed: &[(OperationId, Record)]) -> Vec<OperationId> {
    listed.iter().map(|(operation, _)| *operation).collect()
}

/// The result of a sweep that finds only this.
fn lapsed(operation: OperationId) -> Swept {
    Swept { lapsed: vec![operation], ..Swept::default() }
}

/// The first one finds the lapse; the other sees its result.
pub async fn a_sweep_and_a_claim_find_a_lapse_once(bench: &Bench) {
    let (here, there) = (Desk::of(bench), Desk(bench.another()));
    for n in [1, 2] {
        here.granted(&claim(operation(n), 1)).await;
    }
    bench.pass(LEASE_FOR + NEAR).await;
    let found = here.lapsed(&claim(operation(1), 2)).await;
    assert_eq!(there.sweep(100).await, lapsed(operation(2)));
    assert_eq!(here.sweep(100).await, Swept::default());
    assert_eq!(there.claim(&claim(operation(1), 3)).await, Claimed::Found(found));
    let Claimed::Found(found) = here.claim(&claim(operation(2), 2)).await else { panic!("was found before") };
    assert!(matches!(found.standing, Standing::Unknown { .. }));
}

/// One of the two wins, on two instances, and the record says which.
pub async fn a_renewal_at_the_same_time_wins_or_loses(bench: &Bench) {
    let (here, there) = (Desk::of(bench), Desk(bench.another()));
    for n in 0..20 {
        let grant = here.granted(&claim(operation(n), 1)).await;
        bench.pass(LEASE_FOR + NEAR).await;
        let (renewed, swept) = tokio::join!(here.renew(operation(n), grant.epoch), there.sweep(1_000));
        let standing = here.standing(operation(n)).await;
        match renewed {
            Holding::Held => {
                assert!(!swept.lapsed.contains(&operation(n)) && standing.is_running(), "{standing:?}");
                assert_eq!(here.release(operation(n), grant.epoch).await, Holding::Held);
            }
            Holding::Lost => {
                assert_eq!(swept, lapsed(operation(n)));
                assert!(matches!(standing, Standing::Unknown { .. }), "{standing:?}");
            }
        }
    }
}

/// On this instance, and on others if the store can.
pub async fn a_sweep_wakes_who_waits(bench: &Bench) {
    let (here, there) = (Desk::of(bench), Desk(bench.another()));
    for (n, sweeper, is_heard) in [(1, &here, true), (2, &there, bench.hears_others)] {
        here.granted(&claim(operation(n), 1)).await;
        let heard = waiting(&here.0, operation(n)).await;
        assert!(here.found(&claim(operation(n), 2)).await.standing.is_running());
        bench.pass(LEASE_FOR + NEAR).await;
        assert_eq!(sweeper.sweep(100).await, lapsed(operation(n)));
        if is_heard {
            woken(heard, "a sweep").await;
        }
    }
}

/// Its tombstone too; then the operation is new.
pub async fn what_lapsed_is_kept_as_long_as_the_sweep_said(bench: &Bench) {
    let desk = Desk::of(bench);
    let keep = Keep { answer_for: Duration::from_hours(5), tombstone_for: TOMBSTONE_FOR };
    desk.granted(&claim(operation(1), 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.0.sweep(100, keep).await.expect("sweeping"), lapsed(operation(1)));
    let before = desk.standing(operation(1)).await;
    let Standing::Unknown { at, expires_at } = before else { panic!("is unknown: {before:?}") };
    super::assert_apart(at, expires_at, keep.answer_for);
    bench.pass(keep.answer_for + keep.tombstone_for.saturating_sub(NEAR)).await;
    assert_eq!(desk.sweep(100).await, Swept::default());
    assert_eq!(desk.standing(operation(1)).await, before);
    assert_eq!(ids(&desk.unknown(100).await), [operation(1)]);
    bench.pass(NEAR + NEAR).await;
    assert_eq!(desk.look(operation(1)).await, None);
    assert_eq!(desk.unknown(100).await, [], "swept or not");
    assert_eq!(desk.sweep(100).await, Swept { records: 1, ..Swept::default() });
    assert!(!desk.granted(&claim(operation(1), 2)).await.taken_over);
}

/// Lapsed records count like expired ones; enough sweeps find all, each once.
pub async fn a_sweep_bounds_lapses_and_the_rest_together(bench: &Bench) {
    let desk = Desk::of(bench);
    for n in 0..6 {
        desk.completed(operation(n), "old", KEEP).await;
        let grant = desk.granted(&claim(operation(10 + n), 1)).await;
        assert_eq!(desk.complete(&unknown(operation(10 + n), grant.epoch)).await, Holding::Held);
    }
    bench.pass(ANSWER_FOR).await;
    for n in 20..32 {
        desk.granted(&claim(operation(n), 1)).await;
    }
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.sweep(0).await, Swept::default());
    let mut found = Vec::new();
    for _ in 0..12 {
        found.extend(desk.sweep(5).await.lapsed);
    }
    found.sort();
    let mut expected: Vec<_> = (20..32).map(operation).collect();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(desk.sweep(5).await, Swept::default());
}

/// Sorted by the time of the lapse, not of the expiry, and no more than asked for.
pub async fn unknown_outcomes_are_listed_in_order(bench: &Bench) {
    let desk = Desk::of(bench);
    assert_eq!(desk.unknown(100).await, []);
    let (told, found, swept) = (operation(3), operation(1), operation(2));
    let grant = desk.granted(&claim(told, 1)).await;
    let keep = Keep { answer_for: Duration::from_hours(72), tombstone_for: TOMBSTONE_FOR };
    assert_eq!(desk.complete(&Completion { keep, ..unknown(told, grant.epoch) }).await, Holding::Held);
    desk.granted(&claim(found, 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    desk.lapsed(&claim(found, 2)).await;
    desk.granted(&claim(swept, 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.sweep(100).await, lapsed(swept));
    for desk in [&desk, &Desk(bench.another())] {
        let listed = desk.unknown(100).await;
        assert_eq!(ids(&listed), [told, found, swept]);
        for (operation, record) in &listed {
            assert_eq!(desk.look(*operation).await.as_ref(), Some(record), "as it is told by itself");
        }
        for limit in 0..=3 {
            assert_eq!(desk.unknown(limit).await, listed[..limit as usize]);
        }
    }
    bench.pass(NEAR).await;
    assert_eq!(desk.complete(&unknown(told, grant.epoch)).await, Holding::Held);
    assert_eq!(ids(&desk.unknown(100).await), [found, swept, told], "told again, it is unknown from then on");
}

/// Not running operations, even with an expired lease that nobody noticed; not those with an answer, or taken over,
/// forgotten or past their retention. Those past it take no place of others.
pub async fn only_what_is_unknown_is_listed(bench: &Bench) {
    let desk = Desk::of(bench);
    let keep = Keep { answer_for: Duration::from_hours(1), tombstone_for: Duration::ZERO };
    for n in 0..5 {
        let grant = desk.granted(&claim(operation(n), 1)).await;
        let completion = Completion { keep, ..unknown(operation(n), grant.epoch) };
        assert_eq!(desk.complete(&completion).await, Holding::Held);
    }
    for n in 5..9 {
        let grant = desk.granted(&claim(operation(n), 1)).await;
        assert_eq!(desk.complete(&unknown(operation(n), grant.epoch)).await, Holding::Held);
        match n {
            5 => {
                assert_eq!(desk.complete(&answered(operation(n), grant.epoch, "known")).await, Holding::Held);
            }
            6 => assert_eq!(desk.release(operation(n), grant.epoch).await, Holding::Held),
            7 => assert!(desk.granted(&take(operation(n), 2)).await.taken_over),
            _ => {}
        }
    }
    desk.granted(&claim(operation(9), 1)).await;
    desk.completed(operation(10), "known", KEEP).await;
    assert_eq!(desk.unknown(100).await.len(), 6);
    bench.pass(keep.answer_for + NEAR).await;
    for limit in [1, 2, 100] {
        assert_eq!(ids(&desk.unknown(limit).await), [operation(8)], "of at most {limit}");
    }
    assert!(!desk.granted(&claim(operation(0), 3)).await.taken_over, "a new one under an old id");
    assert_eq!(ids(&desk.unknown(100).await), [operation(8)]);
}

/// However an operation ended, no sweep and no list returns it once it is gone.
pub async fn after_everything_ended_nothing_is_left(bench: &Bench) {
    let desk = Desk::of(bench);
    for n in 0..24 {
        let grant = desk.granted(&take(operation(n), 1)).await;
        match n % 4 {
            0 => assert_eq!(desk.complete(&answered(operation(n), grant.epoch, "a")).await, Holding::Held),
            1 => assert_eq!(desk.complete(&unknown(operation(n), grant.epoch)).await, Holding::Held),
            2 => assert_eq!(desk.release(operation(n), grant.epoch).await, Holding::Held),
            _ => {}
        }
    }
    bench.pass(LEASE_FOR + NEAR).await;
    desk.sweep_all().await;
    assert_eq!(desk.unknown(100).await.len(), 12);
    for n in (0..24).filter(|n| n % 4 == 3 || n % 8 == 1) {
        let grant = desk.granted(&take(operation(n), 2)).await;
        assert!(grant.taken_over);
        if n % 3 == 0 {
            assert_eq!(desk.complete(&answered(operation(n), grant.epoch, "b")).await, Holding::Held);
        }
    }
    bench.pass(LEASE_FOR + NEAR).await;
    desk.sweep_all().await;
    bench.pass(ANSWER_FOR + NEAR).await;
    desk.sweep_all().await;
    assert_eq!((desk.unknown(100).await, desk.sweep(100).await), (Vec::new(), Swept::default()));
    for n in 0..24 {
        assert_eq!(desk.look(operation(n)).await, None);
    }
}
