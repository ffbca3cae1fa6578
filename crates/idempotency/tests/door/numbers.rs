//! What a real layer tells metrics and observers: each thing that happens, once, with its operation and its grant.

use crate::asks::{Ask, key};
use crate::grounds::on_each_store;
use crate::shop::{Events, Plan, Shop, durable, paid};
use axum::response::IntoResponse;
use http::StatusCode;
use perdura_idempotency::observe::{Happening, What};
use perdura_idempotency::record::{Epoch, OperationId};
use perdura_idempotency::store::Store;
use perdura_idempotency::{Metrics, NotApplied, Policy};
use std::collections::BTreeMap;
use std::time::Duration;

const ROUTE: &str = "POST /payments";

/// The numbers of one route, as they stood when they were read last.
#[derive(Default)]
struct Gauge {
    metrics: Metrics,
    read: BTreeMap<String, u64>,
}

impl Gauge {
    /// Handlers that end as the query says, and whose numbers stand here.
    fn on(&self, policy: Policy) -> Plan {
        let metrics = self.metrics.clone();
        let plan = Plan::of(policy, |call| async move {
            match call.request.uri().query() {
                Some("panics") => panic!("on purpose"),
                Some("fails") => StatusCode::BAD_GATEWAY.into_response(),
                Some("does-nothing") => NotApplied(StatusCode::SERVICE_UNAVAILABLE).into_response(),
                Some("large") => "x".repeat(2_000).into_response(),
                Some("waits") if call.nth == 1 => {
                    call.till.at_the_gate().await;
                    paid(call.nth)
                }
                _ => paid(call.nth),
            }
        });
        plan.set_up(move |layer| layer.observe(metrics.clone()))
    }

    /// What rose since then, by how much.
    fn rose(&mut self) -> Vec<(String, u64)> {
        let text = self.metrics.render();
        let read: BTreeMap<_, _> = text.lines().filter_map(sample).collect();
        let rises = read.iter().map(|(name, now)| (name.clone(), now - self.read.get(name).unwrap_or(&0)));
        let rises = rises.filter(|(_, by)| *by > 0).collect();
        self.read = read;
        rises
    }
}

/// A count of the route: its name, or the outcome that it counts. What depends on the time is left out.
fn sample(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("perdura_idempotency_")?.split_once('{')?;
    let (labels, count) = rest.split_once("} ")?;
    if name == "lease_expiries_total" {
        return Some((format!("{name} by {labels}").replace('"', ""), count.parse().expect("a count")));
    }
    let more = labels.strip_prefix(&format!("route=\"{ROUTE}\"")).expect("no other route was asked");
    match (name, more) {
        ("requests_total", outcome) => Some((outcome.strip_prefix(",outcome=")?.replace('"', ""), count)),
        ("renewals_total", "") => None,
        (name, "") if !name.ends_with("_sum") => Some((name.to_owned(), count)),
        _ => None,
    }
    .map(|(name, count)| (name, count.parse().expect("a count")))
}

fn by(rises: &[(&str, u64)]) -> Vec<(String, u64)> {
    rises.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect()
}

/// What happened on the route, in order and by operation; how long anything took is left out.
fn story(events: &Events) -> Vec<(Option<OperationId>, What)> {
    let all = events.all().into_iter();
    let all = all.filter(|happening| !matches!(happening.what, What::Renewing { .. }));
    all.map(|Happening { route, operation, what }| {
        assert_eq!(&*route, ROUTE);
        let ran_for = Duration::ZERO;
        match what {
            What::Saving { epoch, .. } => (operation, What::Saving { epoch, ran_for }),
            What::Waited { .. } => (operation, What::Waited { waited_for: ran_for }),
            other => (operation, other),
        }
    })
    .collect()
}

async fn epoch(shop: &Shop) -> Epoch {
    shop.store.look(shop.store.operation()).await.unwrap().expect("it is recorded").epoch
}

on_each_store! {
    async fn each_end_of_a_request_is_counted_as_what_it_is(ground) {
        const ARRIVED: (&str, u64) = ("arrived_total", 1);
        const RAN: [(&str, u64); 3] = [ARRIVED, ("claims_total", 1), ("handler_seconds_count", 1)];
        let mut gauge = Gauge::default();
        let shop = Shop::open(&ground, gauge.on(Policy::default().answer_bytes_max(1_000))).await;
        let pay = |n, how: &str| Ask::pay(&key(n)).to(&format!("/payments?{how}"));
        for (what, ask, always, beside) in [
            ("answered", pay(1, ""), &RAN[..], &["completed"][..]),
            ("replayed", pay(1, ""), &[ARRIVED], &["replayed"]),
            (
                "conflicting",
                pay(1, "").body("{}"),
                &[ARRIVED],
                &["conflicting_idempotent_request", "conflicts_total"],
            ),
            ("refused", pay(1, "").without("idempotency-key"), &[], &["idempotency_key_required"]),
            ("not known", pay(2, "fails"), &RAN, &["unknown", "unknown_outcomes_total"]),
            ("not known, again", pay(2, "fails"), &[ARRIVED], &["outcome_unknown"]),
            ("not applied", pay(3, "does-nothing"), &RAN, &["released"]),
            ("not kept", pay(4, "large"), &RAN, &["completed_without_answer"]),
            ("not kept, again", pay(4, "large"), &[ARRIVED], &["result_not_retained"]),
        ] {
            shop.ask(&ask).await;
            let beside = beside.iter().map(|name| (*name, 1));
            let mut expected: Vec<_> = always.iter().copied().chain(beside).collect();
            expected.sort_unstable();
            assert_eq!(gauge.rose(), by(&expected), "{what}");
        }
    }

    async fn each_request_has_one_outcome(ground) {
        let transactional = ground.shares_transactions().then(Policy::transactional);
        for policy in [Policy::default()].into_iter().chain(transactional) {
            let metrics = Metrics::new();
            let counting = metrics.clone();
            let plan = Plan::of(policy, |call| async move { assert!(call.nth == 0, "no run succeeds") });
            let shop = Shop::open(&ground, plan.set_up(move |layer| layer.observe(counting.clone()))).await;
            assert_eq!(shop.ask(&Ask::pay(&key(9))).await.status, 500);
            let text = metrics.render();
            let counts = text.lines().filter(|line| line.contains("_requests_total{") && !line.ends_with(" 0"));
            assert_eq!(counts.count(), 1, "{text}");
        }
    }

    async fn a_panic_is_counted(ground) {
        let mut gauge = Gauge::default();
        let shop = Shop::open(&ground, gauge.on(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1)).to("/payments?panics")).await.is_refused(500, "OUTCOME_UNKNOWN");
        let rose = gauge.rose();
        for count in ["arrived_total", "claims_total", "panics_total", "unknown_outcomes_total", "unknown"] {
            assert!(rose.contains(&(count.to_owned(), 1)), "{count}: {rose:?}");
        }
    }

    async fn who_waits_is_counted(ground) {
        let mut gauge = Gauge::default();
        let shop = Shop::open(&ground, gauge.on(Policy::default())).await;
        let ask = Ask::pay(&key(1)).to("/payments?waits");
        let [first, waiting] = shop.send_twice(&ask).await;
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        waiting.await.unwrap().is_payment(1);
        let expected = [
            ("arrived_total", 2),
            ("claims_total", 1),
            ("completed", 1),
            ("handler_seconds_count", 1),
            ("replayed", 1),
            ("wait_seconds_count", 1),
            ("waits_total", 1),
        ];
        assert_eq!(gauge.rose(), by(&expected));
    }

    async fn a_lost_lease_is_counted_by_who_lost_it(ground) {
        let mut gauge = Gauge::default();
        let here = Shop::open(&ground, gauge.on(durable())).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1)).to("/payments?waits");
        let paused = here.send(&ask);
        here.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        there.ask(&ask).await.is_payment(2);
        here.till.open(1);
        assert!(paused.await.unwrap().is_payment(2).is_replayed());
        let expected = [
            ("arrived_total", 2),
            ("claims_total", 2),
            ("completed", 1),
            ("handler_seconds_count", 2),
            ("lease_losses_total", 1),
            ("replayed", 1),
            ("takeovers_total", 1),
        ];
        assert_eq!(gauge.rose(), by(&expected));
    }

    async fn observers_are_told_of_a_replay_and_a_conflict_with_operation_and_grant(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        let (operation, epoch) = (shop.store.operation(), epoch(&shop).await);
        shop.ask(&ask).await.is_payment(1);
        shop.ask(&ask.clone().body("{}")).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        shop.ask(&ask.clone().without("idempotency-key")).await.is_refused(400, "IDEMPOTENCY_KEY_REQUIRED");
        let about = |what| (Some(operation), what);
        let expected = [
            about(What::Arrived),
            about(What::Claimed { epoch, taken_over: false }),
            about(What::Saving { epoch, ran_for: Duration::ZERO }),
            about(What::Saved { epoch, status: 201, retained: true }),
            about(What::Arrived),
            about(What::Replayed { epoch }),
            about(What::Arrived),
            about(What::Conflicted),
            about(What::Refused { reason: "CONFLICTING_IDEMPOTENT_REQUEST" }),
            (None, What::Refused { reason: "IDEMPOTENCY_KEY_REQUIRED" }),
        ];
        assert_eq!(story(&shop.events), expected);
    }

    async fn observers_are_told_what_was_forgotten_and_what_is_not_known_under_which_grant(ground) {
        let plan = Plan::of(Policy::default(), |call| async move {
            match call.nth {
                1 => StatusCode::TOO_MANY_REQUESTS,
                2 => StatusCode::BAD_GATEWAY,
                _ => panic!("on purpose"),
            }
        });
        let shop = Shop::open(&ground, plan).await;
        for n in [1, 1, 2] {
            shop.ask(&Ask::pay(&key(n))).await;
        }
        let (story, claims) = (story(&shop.events), shop.events.claims());
        let epochs: Vec<_> = claims.iter().map(|(epoch, _)| Epoch(*epoch)).collect();
        assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
        assert_eq!(epochs[2], epoch(&shop).await);
        let ended: Vec<_> = story
            .iter()
            .filter(|(_, what)| matches!(what, What::Released { .. } | What::Unknown { .. }))
            .cloned()
            .collect();
        let (one, two) = (story[0].0, Some(shop.store.operation()));
        assert!(one.is_some() && one != two);
        let expected = [
            (one, What::Released { epoch: epochs[0] }),
            (one, What::Unknown { epoch: epochs[1], panicked: false }),
            (two, What::Unknown { epoch: epochs[2], panicked: true }),
        ];
        assert_eq!(ended, expected);
    }

    async fn observers_are_told_which_grant_was_lost_and_which_counts(ground) {
        let here = Shop::open(&ground, Gauge::default().on(durable())).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1)).to("/payments?waits");
        let paused = here.send(&ask);
        here.till.began(1).await;
        let (operation, lost) = (here.store.operation(), epoch(&here).await);
        ground.pass(Duration::from_secs(31)).await;
        there.ask(&ask).await.is_payment(2);
        let counts = epoch(&there).await;
        here.till.open(1);
        paused.await.unwrap().is_payment(2);
        let ran_for = Duration::ZERO;
        let expected = [
            What::Arrived,
            What::Claimed { epoch: lost, taken_over: false },
            What::Arrived,
            What::Claimed { epoch: counts, taken_over: true },
            What::Saving { epoch: counts, ran_for },
            What::Saved { epoch: counts, status: 201, retained: true },
            What::Saving { epoch: lost, ran_for },
            What::LeaseLost { epoch: lost },
            What::Replayed { epoch: counts },
        ];
        assert_eq!(story(&here.events), expected.map(|what| (Some(operation), what)));
    }
}
