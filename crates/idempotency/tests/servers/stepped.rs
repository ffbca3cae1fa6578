//! A clock that steps back and on, on every store: it makes no second holder.

use crate::kit::{answer, complete, found, granted, operation, take};
use perdura_idempotency::record::{Holding, Standing};
use perdura_idempotency::store::Store;
use std::time::Duration;

/// An hour back, a lease lasts an hour longer; an hour on, it ends early. Neither makes two holders.
pub(crate) async fn one_holder_whatever_the_clock_says(store: &dyn Store, step: impl AsyncFn(f64)) {
    const HOUR: f64 = 3_600.0;
    let key = operation(1);
    let first = granted(store, &take(key, 1)).await;

    step(-HOUR).await;
    let Standing::Running { lease_left } = found(store, &take(key, 2)).await.standing else { panic!("runs") };
    assert!(lease_left > Duration::from_hours(1), "{lease_left:?}");
    let renewed = store.renew(key, first.epoch, Duration::from_mins(1)).await;
    assert_eq!(renewed.expect("the store answers"), Holding::Held);
    let Standing::Running { lease_left } = found(store, &take(key, 2)).await.standing else { panic!("runs") };
    assert!(lease_left <= Duration::from_mins(1), "renewed on the new clock: {lease_left:?}");

    step(HOUR).await;
    let second = granted(store, &take(key, 2)).await;
    assert!(second.taken_over && second.epoch > first.epoch && second.first_at == first.first_at);
    let renewed = store.renew(key, first.epoch, Duration::from_mins(1)).await;
    assert_eq!(renewed.expect("the store answers"), Holding::Lost);
    assert_eq!(complete(store, key, first.epoch, "late").await, Holding::Lost);

    step(-HOUR).await;
    assert_eq!(complete(store, key, second.epoch, "second").await, Holding::Held);
    assert_eq!(complete(store, key, first.epoch, "later").await, Holding::Lost);
    step(HOUR).await;
    assert_eq!(answer(store, key).await, "second");
    let third = granted(store, &take(operation(2), 3)).await;
    assert!(third.epoch > second.epoch, "epochs grow whatever the clock does");
}
