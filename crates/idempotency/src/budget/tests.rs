use super::*;

const WINDOW: Duration = Duration::from_mins(1);

fn spending(replays: u32, conflicts: u32) -> Spending {
    Spending::new(Budgets { window: WINDOW, replays, conflicts, ..Budgets::default() })
}

/// A scope; its bytes are distributed like those of a keyed hash.
fn scope(number: u64) -> ScopeTag {
    let spread =
        |salt: u64| (number ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_be_bytes();
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&number.to_be_bytes());
    tag[8..].copy_from_slice(&spread(0x5bd1_e995));
    ScopeTag(tag)
}

fn operation(number: u8) -> OperationId {
    OperationId::from_hash([number; 16])
}

fn request(number: u8) -> RequestTag {
    RequestTag([number; 32])
}

#[test]
fn a_budget_is_spent_then_refused_with_the_time_to_wait_then_there_again() {
    let (spending, began) = (spending(2, 9), Instant::now());
    assert_eq!(spending.replay(scope(1), began), Ok(()));
    assert_eq!(spending.replay(scope(1), began + WINDOW / 2), Ok(()));
    let refused = Exceeded { what: "replays", limit: 2, window: Some(WINDOW), retry_after: WINDOW / 4 };
    for _ in 0..3 {
        assert_eq!(spending.replay(scope(1), began + WINDOW * 3 / 4), Err(refused));
    }
    assert_eq!(spending.replay(scope(2), began + WINDOW * 3 / 4), Ok(()), "each scope has its own");
    assert_eq!(spending.replay(scope(1), began + WINDOW), Ok(()), "who waited as told is let in");
}

#[test]
fn a_clock_read_out_of_order_neither_resets_nor_panics() {
    let (spending, began) = (spending(1, 9), Instant::now());
    assert_eq!(spending.replay(scope(1), began + WINDOW), Ok(()));
    let refused = spending.replay(scope(1), began).unwrap_err();
    assert_eq!(refused.retry_after, WINDOW);
    assert_eq!(spending.replay(scope(2), began), Ok(()));
    let refused = spending.replay(scope(2), began + WINDOW * 3 / 2).unwrap_err();
    assert_eq!(refused.retry_after, WINDOW / 2, "a window begins no earlier than the ones before it");
}

#[test]
fn stored_bytes_refuse_what_is_new_and_an_empty_answer_is_not_free() {
    let budgets = Budgets { window: WINDOW, stored_bytes: 1_000, ..Budgets::default() };
    let (spending, now) = (Spending::new(budgets), Instant::now());
    spending.stored(scope(1), 700, now);
    assert_eq!(spending.admit(scope(1), now), Ok(()));
    spending.stored(scope(1), 0, now);
    let refused = spending.admit(scope(1), now + WINDOW / 3).unwrap_err();
    assert_eq!((refused.what, refused.retry_after), ("bytes of stored answers", WINDOW * 2 / 3));
    assert_eq!(spending.admit(scope(2), now), Ok(()));
    assert_eq!(spending.admit(scope(1), now + WINDOW), Ok(()));
    spending.stored(scope(3), u64::MAX, now + WINDOW);
    spending.stored(scope(3), u64::MAX, now + WINDOW);
    assert!(spending.admit(scope(3), now + WINDOW).is_err(), "it does not wrap around");
}

#[test]
fn new_keys_are_counted_however_small_their_answers_are() {
    let budgets = Budgets { window: WINDOW, stored_records: 2, ..Budgets::default() };
    let (spending, now) = (Spending::new(budgets), Instant::now());
    spending.stored(scope(1), 0, now);
    assert_eq!(spending.admit(scope(1), now), Ok(()));
    spending.stored(scope(1), 0, now);
    let refused = spending.admit(scope(1), now + WINDOW / 3).unwrap_err();
    assert_eq!((refused.what, refused.retry_after), ("new keys", WINDOW * 2 / 3));
    assert_eq!(spending.admit(scope(2), now), Ok(()));
    assert_eq!(spending.admit(scope(1), now + WINDOW), Ok(()));
}

#[test]
fn running_operations_count_until_their_place_is_dropped_and_leave_nothing_behind() {
    let budgets = Budgets { running: 2, ..Budgets::default() };
    let spending = Spending::new(budgets);
    let first = spending.run(scope(1)).ok().unwrap();
    let second = spending.run(scope(1)).ok().unwrap();
    assert_eq!(spending.run(scope(1)).err().unwrap().what, "running operations");
    let other = spending.run(scope(2)).ok().unwrap();
    drop(first);
    let third = spending.run(scope(1)).ok().unwrap();
    assert!(spending.run(scope(1)).is_err());
    drop((second, third, other));
    assert!(lock(&spending.running).is_empty());
}

#[test]
fn an_anomaly_is_told_once_per_key_and_window() {
    let (spending, began) = (spending(9, 1_000), Instant::now());
    let told = |key: u8, asked: u8, at: Instant| {
        spending.conflict(scope(1), operation(key), request(asked), at).anomaly
    };
    for asked in [1, 1, 2, 2, 3, 1] {
        assert_eq!(told(1, asked, began), None, "three different ones and the first are not many");
    }
    assert_eq!(told(1, 4, began), Some(5), "four conflicted, and one came first");
    for asked in 0..200 {
        assert_eq!(told(1, asked, began), None, "it was told");
    }
    for asked in 1..=3 {
        assert_eq!(told(2, asked, began), None);
    }
    assert_eq!(told(2, 4, began), Some(5), "another key is another anomaly");
    let next = began + WINDOW;
    let again: Vec<_> = (1..=5).map(|asked| told(1, asked, next)).collect();
    assert_eq!(again, [None, None, None, Some(5), None], "in the next window it is told anew");
}

#[test]
fn conflicts_beyond_the_budget_are_refused_and_still_watched() {
    let (spending, now) = (spending(9, 2), Instant::now());
    let conflicts: Vec<_> =
        (1..=5).map(|asked| spending.conflict(scope(1), operation(1), request(asked), now)).collect();
    let allowed: Vec<_> = conflicts.iter().map(|conflict| conflict.allowed.is_ok()).collect();
    assert_eq!(allowed, [true, true, false, false, false]);
    let anomalies: Vec<_> = conflicts.iter().map(|conflict| conflict.anomaly).collect();
    assert_eq!(anomalies, [None, None, None, Some(5), None]);
}

#[test]
fn keys_tried_once_each_hide_no_key_that_is_tried_often() {
    let (spending, now) = (spending(9, u32::MAX), Instant::now());
    let mut told = 0;
    for asked in 1..=4 {
        told += u32::from(spending.conflict(scope(1), operation(0), request(asked), now).anomaly.is_some());
        for key in 1..200 {
            let conflict = spending.conflict(scope(1), operation(key), request(1), now);
            assert_eq!(conflict.anomaly, None);
        }
        // Only the second request under the watched key distinguishes it from the noise.
        told +=
            u32::from(spending.conflict(scope(1), operation(0), request(asked + 10), now).anomaly.is_some());
    }
    assert_eq!(told, 1);
    assert!(lock(&spending.windows).own[&scope(1)].keys.len() <= KEYS_PER_WINDOW_MAX);
}

#[test]
fn a_key_that_was_told_is_not_told_again_whatever_other_keys_come_between() {
    let (spending, now) = (spending(9, u32::MAX), Instant::now());
    let told = |key: u8, asked: u8| spending.conflict(scope(1), operation(key), request(asked), now).anomaly;
    assert_eq!((1..=4).filter_map(|asked| told(0, asked)).count(), 1);
    for key in 1..200 {
        assert_eq!(told(key, 1), None);
    }
    assert_eq!((10..20).filter_map(|asked| told(0, asked)).count(), 0);
}

#[test]
fn a_million_scopes_take_bounded_memory() {
    let (spending, began) = (spending(u32::MAX, u32::MAX), Instant::now());
    for number in 0..1_000_000 {
        let now = began + Duration::from_micros(number);
        spending.conflict(scope(number), operation(1), request(1), now).allowed.unwrap();
        if number % 100_000 == 99_999 {
            let windows = lock(&spending.windows);
            assert_eq!((windows.own.len(), windows.order.len()), (OWN_WINDOWS_MAX, OWN_WINDOWS_MAX));
            assert!(windows.own.capacity() <= 4 * OWN_WINDOWS_MAX, "{}", windows.own.capacity());
            assert_eq!(windows.shared.len() as u64, SHARED_WINDOWS, "all of them are in use, evenly or not");
            let kept = windows.shared.values().map(|window| window.keys.len()).max();
            assert!(kept <= Some(KEYS_PER_WINDOW_MAX));
        }
    }
    spending.replay(scope(0), began + WINDOW * 2).unwrap();
    let windows = lock(&spending.windows);
    assert_eq!((windows.own.len(), windows.order.len()), (1, 1), "what ended is gone");
}

#[test]
fn a_flood_of_scopes_resets_nobody_who_has_spent_his_budget() {
    let (spending, began) = (spending(3, 3), Instant::now());
    let spend = |number: u64, now: Instant| {
        std::iter::repeat_with(|| spending.replay(scope(number), now)).take_while(Result::is_ok).count()
    };
    assert_eq!(spend(1, began), 3);
    let flood = 10..10 + 3 * OWN_WINDOWS_MAX as u64;
    for number in flood.clone() {
        assert!(spend(number, began + WINDOW / 2) <= 3);
    }
    assert_eq!(spend(1, began + WINDOW * 99 / 100), 0, "his window is live, and was kept");
    let latecomers: usize =
        (flood.end..flood.end + 5_000).map(|number| spend(number, began + WINDOW / 2)).sum();
    assert_eq!(latecomers, 0, "who comes when all is full pays with the others; nobody is exempt");
}

#[test]
fn a_scope_that_moves_from_a_shared_window_to_its_own_takes_along_what_it_spent() {
    let (spending, began) = (spending(3, 3), Instant::now());
    for number in 10..10 + OWN_WINDOWS_MAX as u64 {
        spending.replay(scope(number), began).unwrap();
    }
    let late = began + WINDOW * 59 / 60;
    for _ in 0..3 {
        spending.replay(scope(1), late).unwrap();
    }
    assert!(spending.replay(scope(1), late).is_err());
    let room_again = began + WINDOW;
    assert!(
        spending.replay(scope(1), room_again).is_err(),
        "it has a window of its own now, and not a fresh one"
    );
    assert!(lock(&spending.windows).own.contains_key(&scope(1)));
    assert_eq!(spending.replay(scope(1), room_again + WINDOW), Ok(()), "and that ends like any other");
}
