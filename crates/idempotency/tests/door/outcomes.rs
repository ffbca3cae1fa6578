//! What comes of a request, by how its handler ended: what is kept, what is forgotten, what is not known.

use crate::asks::{Ask, Told, key};
use crate::faulty::{Faulty, Verb};
use crate::grounds::{Ground, on_each_store};
use crate::shop::{Call, Plan, Shop};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use bytes::Bytes;
use http::{StatusCode, header};
use http_body::Frame;
use perdura_idempotency::{Attached, IdempotencyContext, NotApplied, Policy};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::ServiceExt;

/// What a second request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// What the first was.
    Replayed,
    /// What a second run comes to.
    RunAgain,
    /// That it is not known.
    Unknown,
}

/// An answer that breaks off after its first bytes.
struct BreaksOff(bool);

impl http_body::Body for BreaksOff {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let told = std::mem::replace(&mut self.0, true);
        Poll::Ready(Some(if told {
            Err(std::io::Error::other("broke off on purpose"))
        } else {
            Ok(Frame::data(Bytes::from_static(b"half of it")))
        }))
    }
}

/// Ends as the query says.
async fn ends(call: Call) -> Response {
    let how = call.request.uri().query().unwrap_or_default().to_owned();
    let text = format!("run {}", call.nth);
    match how.as_str() {
        "panic" => panic!("on purpose"),
        "never" => std::future::pending().await,
        "breaks-off" => Response::new(Body::new(BreaksOff(false))),
        "not-applied" => NotApplied((StatusCode::SERVICE_UNAVAILABLE, text)).into_response(),
        "not-applied-200" => NotApplied(text).into_response(),
        status => (status.parse::<u16>().map(StatusCode::from_u16).unwrap().unwrap(), text).into_response(),
    }
}

const KEPT: &[u16] = &[
    200, 201, 202, 204, 206, 301, 303, 307, 400, 401, 402, 403, 404, 406, 409, 410, 412, 415, 418, 422, 451,
];
const FORGOTTEN: &[u16] = &[405, 408, 425, 429];
const BROKEN: &[u16] = &[500, 501, 502, 503, 504, 507, 599];

/// What a mode promises of handlers that break.
struct Promise {
    broken: Second,
    /// The reason that the first caller is told, and what to do next.
    broken_told: (&'static str, Option<&'static str>),
}

/// Sends each request twice and holds it to what should come of it.
async fn check(ground: &Arc<Ground>, policy: Policy, promise: Promise) {
    let patient = Shop::open(ground, Plan::of(policy.clone(), ends)).await;
    let hasty = Shop::open(ground, Plan::of(policy.run_for_max(Duration::from_millis(50)), ends)).await;
    let statuses = |statuses: &[u16], second: Second| {
        statuses.iter().map(|status| (status.to_string(), *status, second)).collect::<Vec<_>>()
    };
    let mut table = statuses(KEPT, Second::Replayed);
    table.extend(statuses(FORGOTTEN, Second::RunAgain));
    table.extend(statuses(BROKEN, promise.broken));
    table.extend([
        ("not-applied".to_owned(), 503, Second::RunAgain),
        ("not-applied-200".to_owned(), 200, Second::RunAgain),
        ("panic".to_owned(), 500, promise.broken),
        ("never".to_owned(), 504, promise.broken),
        ("breaks-off".to_owned(), 500, promise.broken),
    ]);
    for (nth, (how, status, second)) in (1..).zip(table) {
        let shop = if how == "never" { &hasty } else { &patient };
        let ask = Ask::pay(&key(nth)).to(&format!("/payments?{how}"));
        let before = shop.till.runs();
        let first = shop.ask(&ask).await;
        assert_eq!(first.status.as_u16(), status, "{how}: {first:?}");
        let told = shop.ask(&ask).await;
        let runs = shop.till.runs() - before;
        match second {
            Second::Replayed => {
                assert_eq!((told.status, &told.body, runs), (first.status, &first.body, 1), "{how}");
                assert!(told.is_replayed(), "{how}");
            }
            Second::RunAgain => {
                assert_eq!((told.status, runs), (first.status, 2), "{how}");
                assert!(!told.is_replayed(), "{how}");
            }
            Second::Unknown => {
                told.is_refused(409, "OUTCOME_UNKNOWN").says_next("stop");
                assert_eq!(runs, 1, "{how}");
            }
        }
        if matches!(how.as_str(), "panic" | "never" | "breaks-off") {
            assert_told_honestly(&first, &promise);
        }
    }
}

/// The first caller, whose handler gave no answer, is told what to do next.
fn assert_told_honestly(first: &Told, promise: &Promise) {
    assert_eq!((first.reason().as_str(), first.member("next").as_deref()), promise.broken_told, "{first:?}");
    let code = if first.status == 504 { "ERR504_GATEWAY_TIMEOUT" } else { "ERR500_INTERNAL" };
    assert_eq!(first.member("code").as_deref(), Some(code));
    assert_eq!(first.header(header::CACHE_CONTROL), "no-store");
}

on_each_store! {
    async fn at_most_once_a_failure_is_not_known_and_never_run_again(ground) {
        let broken_told = ("OUTCOME_UNKNOWN", Some("stop"));
        check(&ground, Policy::at_most_once(), Promise { broken: Second::Unknown, broken_told }).await;
    }

    async fn durable_work_that_nobody_can_tell_of_is_not_run_again(ground) {
        let nobody_knows = |_: IdempotencyContext| async { Attached::Unknown };
        let broken_told = ("OUTCOME_UNKNOWN", Some("same_key"));
        check(&ground, Policy::durable(nobody_knows), Promise { broken: Second::Unknown, broken_told }).await;
    }

    async fn durable_work_that_was_not_begun_is_run_again(ground) {
        let not_begun = |_: IdempotencyContext| async { Attached::NotBegun };
        let broken_told = ("OUTCOME_UNKNOWN", Some("same_key"));
        check(&ground, Policy::durable(not_begun), Promise { broken: Second::RunAgain, broken_told }).await;
    }

    async fn a_transaction_that_failed_is_run_again(ground) {
        if ground.shares_transactions() {
            let broken_told = ("HANDLER_FAILED", Some("same_key"));
            check(&ground, Policy::transactional(), Promise { broken: Second::RunAgain, broken_told }).await;
        }
    }

    async fn what_an_extractor_answers_in_place_of_the_handler_is_the_handlers_answer(ground) {
        let store = Faulty::new(ground.store());
        let layer = Plan::pays(Policy::default()).builder(store.clone()).build().await.unwrap();
        let handler = async |Json(cents): Json<u32>| format!("{cents} paid");
        let app = Router::new().route("/payments", axum::routing::post(handler)).layer(layer);
        let told = async |ask: &Ask| Told::read(app.clone().oneshot(ask.request()).await.unwrap()).await;
        let ask = |n| Ask::pay(&key(n));
        for (nth, (what, ask, status)) in (1..).zip([
            ("no JSON", ask(1).body("seventeen"), 400),
            ("another JSON", ask(2).body("{}"), 422),
            ("not said to be JSON", ask(3).header("content-type", "text/plain").body("17"), 415),
            ("what is awaited", ask(4).body("17"), 200),
        ]) {
            let (first, again) = (told(&ask).await, told(&ask).await);
            assert_eq!((first.status.as_u16(), first.is_replayed()), (status, false), "{what}: {first:?}");
            assert_eq!((again.status, &again.body), (first.status, &first.body), "{what}");
            assert!(again.is_replayed(), "{what}");
            assert_eq!(store.asked(Verb::Complete), nth, "{what}");
        }
        told(&ask(1).body("17")).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    }

    async fn a_method_that_a_route_does_not_have_leaves_nothing_behind(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        for _ in 0..2 {
            let told = shop.ask(&Ask::pay(&key(1)).to("/health")).await;
            assert_eq!(told.status, 405);
            let told = shop.ask(&Ask::pay(&key(1)).to("/nowhere")).await;
            assert_eq!(told.status, 404);
        }
        assert_eq!((shop.till.runs(), shop.store.given()), (0, vec![]));
    }

    async fn an_unknown_outcome_stays_unknown_as_long_as_a_result_would_stay(ground) {
        let plan = Plan::of(Policy::default().retention(Duration::from_hours(2)), |call| async move {
            assert!(call.nth > 1, "the first breaks");
            crate::shop::paid(call.nth)
        });
        let shop = Shop::open(&ground, plan).await;
        shop.ask(&Ask::pay(&key(1))).await.is_refused(500, "OUTCOME_UNKNOWN");
        ground.pass(Duration::from_mins(119)).await;
        shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "OUTCOME_UNKNOWN");
        ground.pass(Duration::from_mins(2)).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(2);
    }
}
