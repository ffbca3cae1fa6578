use super::*;
use crate::row::Address;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("an instant")
}

fn pending() -> Row {
    let address = Address { inbox: name("in"), tenant: name("t"), id: name("1") };
    accept(&Put::new(address, "x"), 1, true, at(100))
}

fn claimed(owner: &str, epoch: u64, now: i64) -> Row {
    claim(&pending(), &wish(owner), Epoch(epoch), at(now))
}

fn wish(owner: &str) -> Claim {
    Claim { inbox: name("in"), owner: name(owner), limit: 1, lease_for: Duration::from_secs(30), after: None }
}

fn held(owner: &str, epoch: u64) -> Held {
    Held { address: pending().address, owner: name(owner), epoch: Epoch(epoch) }
}

#[test]
fn a_claim_counts_as_an_attempt_and_has_a_lease() {
    let row = claimed("a", 7, 200);
    assert_eq!((row.status, row.attempts, row.epoch), (Status::Doing, 1, Epoch(7)));
    assert_eq!((row.claimed_at, row.lease_until), (Some(at(200)), Some(at(230))));
    assert!(!is_ready(&row, at(300)), "it is taken");
}

#[test]
fn only_a_pending_head_whose_time_has_come_is_ready() {
    let ready = pending();
    assert!(is_ready(&ready, at(100)));
    assert!(!is_ready(&ready, at(99)));
    assert!(!is_ready(&Row { head: false, ..ready.clone() }, at(100)));
    for status in [Status::Doing, Status::Done, Status::Dead] {
        assert!(!is_ready(&Row { status, ..ready.clone() }, at(100)), "{status}");
    }
}

#[test]
fn another_owner_and_another_epoch_change_nothing() {
    let row = claimed("a", 7, 200);
    for stale in [held("b", 7), held("a", 6), held("a", 8)] {
        assert_eq!(beat(&row, &stale, Duration::from_secs(30), at(210)), None);
        for ending in [
            Ending::Done,
            Ending::Dead { error: "e".into() },
            Ending::Again { error: "e".into(), delay_for: Duration::ZERO },
        ] {
            assert_eq!(end(&row, &stale, &ending, at(210)), (Holding::Lost, None), "{stale:?}");
        }
    }
}

#[test]
fn what_is_done_stays_done_whatever_its_holder_says_next() {
    let (_, done) = end(&claimed("a", 7, 200), &held("a", 7), &Ending::Done, at(210));
    let done = done.expect("it was held");
    assert_eq!((done.status, done.processed_at, done.lease_until), (Status::Done, Some(at(210)), None));
    assert_eq!(end(&done, &held("a", 7), &Ending::Done, at(220)), (Holding::Held, None), "told twice");
    let dead = Ending::Dead { error: "the answer was lost".into() };
    assert_eq!(end(&done, &held("a", 7), &dead, at(220)), (Holding::Lost, None));
    assert_eq!(lapse(&done, 1, at(9_999)), None);
    assert_eq!(redrive(&done, 2, true, at(220)), None);
}

#[test]
fn a_lease_that_ran_out_returns_the_row_or_buries_it() {
    let row = claimed("a", 7, 200);
    assert_eq!(lapse(&row, 3, at(229)), None);
    let returned = lapse(&row, 3, at(230)).expect("it ran out");
    assert_eq!((returned.status, returned.attempts, returned.head), (Status::Pending, 1, true));
    assert!(is_ready(&returned, at(230)), "at once");
    assert_eq!(end(&returned, &held("a", 7), &Ending::Done, at(231)), (Holding::Lost, None));
    let dead = lapse(&row, 1, at(230)).expect("it ran out");
    assert_eq!((dead.status, dead.head, dead.last_error.as_deref()), (Status::Dead, false, Some(LAPSED)));
}

#[test]
fn a_redriven_row_begins_anew() {
    let ended = end(&claimed("a", 7, 200), &held("a", 7), &Ending::Dead { error: "no".into() }, at(210)).1;
    let row = redrive(&ended.expect("it was held"), 9, false, at(500)).expect("it is dead");
    assert_eq!((row.status, row.attempts, row.number, row.head), (Status::Pending, 0, 9, false));
    assert_eq!((row.processed_at, row.last_error.as_deref()), (None, Some("no")));
}

#[test]
fn only_ended_rows_expire() {
    let keep = Keep { done_for: Duration::from_secs(10), dead_for: Duration::from_secs(20) };
    let ended = |status| Row { status, processed_at: Some(at(100)), ..pending() };
    assert!(!is_expired(&ended(Status::Done), keep, at(109)));
    assert!(is_expired(&ended(Status::Done), keep, at(110)));
    assert!(!is_expired(&ended(Status::Dead), keep, at(119)));
    assert!(is_expired(&ended(Status::Dead), keep, at(120)));
    assert!(!is_expired(&pending(), keep, at(9_999)));
    assert!(!is_expired(&claimed("a", 1, 100), keep, at(9_999)));
}

#[test]
fn delays_double_up_to_the_longest_and_are_spread_over_their_second_half() {
    let retry =
        Retry { attempts_max: 9, first_for: Duration::from_secs(2), longest_for: Duration::from_secs(10) };
    for (attempts, full) in [(1, 2), (2, 4), (3, 8), (4, 10), (8, 10)] {
        let full = Duration::from_secs(full);
        for chance in [0, 1, 77_777_777, u64::MAX] {
            match retry.after(attempts, "e".into(), chance) {
                Ending::Again { delay_for, .. } => {
                    assert!(full / 2 <= delay_for && delay_for <= full, "{attempts} {chance}: {delay_for:?}");
                }
                Ending::Done | Ending::Dead { .. } => panic!("attempts are left"),
            }
        }
    }
    assert_eq!(retry.after(9, "e".into(), 0), Ending::Dead { error: "e".into() });
}

#[test]
fn tenants_share_a_claim() {
    for (limit, tenants, expected) in [(10, 1, 10), (10, 3, 3), (2, 2, 1), (1_000, 1, 100), (1, 5, 1)] {
        assert_eq!(share(limit, tenants), expected, "{limit} among {tenants}");
    }
}

#[test]
fn the_next_claim_begins_after_the_tenant_that_came_last_in_its_round() {
    let [a, b, c] = ["a", "b", "c"].map(name);
    for (after, claimed, expected) in [
        (None, vec![&a, &c, &b], Some(&c)),
        (Some(&b), vec![&c, &a], Some(&a)),
        (Some(&b), vec![&c], Some(&c)),
        (Some(&b), vec![], Some(&b)),
        (None, vec![], None),
    ] {
        assert_eq!(served_last(after, claimed.iter().copied()).as_ref(), expected, "{after:?} {claimed:?}");
    }
}
