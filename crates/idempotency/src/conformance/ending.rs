//! The end of an operation, and its record afterwards.

use super::{Bench, Desk, KEEP, LEASE_FOR, NEAR, answered, claim, operation};
use crate::record::{Completion, Ending, Holding, Standing};
use bytes::Bytes;

/// An empty answer, every byte, and a mebibyte.
pub async fn answers_of_any_size_come_back(bench: &Bench) {
    let desk = Desk::of(bench);
    let sizes: [usize; 6] = [0, 1, 256, 4_096, 70_000, 1 << 20];
    for (n, size) in (1..).zip(sizes) {
        let answer: Bytes = (0..size).map(|at| (at * 31 / 8) as u8).collect::<Vec<u8>>().into();
        let grant = desk.granted(&claim(operation(n), 1)).await;
        let ending = Ending::Answered(answer.clone());
        let completion = Completion { operation: operation(n), epoch: grant.epoch, ending, keep: KEEP };
        assert_eq!(desk.complete(&completion).await, Holding::Held);
        assert!(desk.answer(&claim(operation(n), 2)).await == answer, "{size} bytes");
    }
}

/// The second instance sees at once what the first recorded.
pub async fn another_instance_sees_what_was_done(bench: &Bench) {
    let (here, there) = (Desk::of(bench), Desk(bench.another()));
    let grant = here.granted(&claim(operation(1), 1)).await;
    assert_eq!(there.found(&claim(operation(1), 2)).await.epoch, grant.epoch);
    bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
    assert_eq!(there.renew(operation(1), grant.epoch).await, Holding::Held);
    assert_eq!(there.complete(&answered(operation(1), grant.epoch, "there")).await, Holding::Held);
    assert_eq!(here.answer(&claim(operation(1), 3)).await, "there");
    assert!(here.erase(operation(1)).await);
    assert!(matches!(there.standing(operation(1)).await, Standing::Expired { .. }));
}

/// Many completions at once under the same epoch: all hold, one counts, and it stays.
pub async fn many_ends_at_once_are_one_end(bench: &Bench) {
    const ENDS: [&str; 4] = ["a", "b", "c", "d"];
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    let tasks: Vec<_> = ENDS
        .into_iter()
        .zip([bench.store(), bench.another()].iter().cycle())
        .map(|(end, store)| {
            let store = store.clone();
            tokio::spawn(async move { store.complete(&answered(operation(1), grant.epoch, end)).await })
        })
        .collect();
    for task in tasks {
        let holding = task.await.expect("completing does not panic").expect("completing");
        assert_eq!(holding, Holding::Held);
    }
    let kept = desk.answer(&claim(operation(1), 2)).await;
    assert!(ENDS.iter().any(|end| kept == *end), "{kept:?}");
    assert_eq!(Desk(bench.another()).answer(&claim(operation(1), 3)).await, kept);
}
