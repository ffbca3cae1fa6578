//! The scenarios that break other implementations.

use crate::asks::{Ask, key};
use crate::grounds::on_each_store;
use crate::shop::{Plan, Shop, durable};
use http::header;
use perdura_idempotency::Policy;
use perdura_idempotency::observe::What;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

on_each_store! {
    async fn ten_concurrent_requests_with_one_key_run_once(ground) {
        let here = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let sent: Vec<_> = (0..10).map(|n| if n % 2 == 0 { &here } else { &there }.send(&ask)).collect();
        here.events.until(9, |what| *what == What::Waiting).await;
        here.till.open(10);
        let mut first = 0;
        for told in sent {
            let told = told.await.unwrap();
            told.is_payment(1);
            first += usize::from(!told.is_replayed());
        }
        assert_eq!((here.till.runs(), first), (1, 1));
    }

    async fn same_key_with_another_body(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        let told = shop.ask(&ask.clone().body(r#"{"cents":101}"#)).await;
        told.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        assert_eq!(told.member("code").as_deref(), Some("ERR409_SERVER_STATE_CONFLICT"));
        assert_eq!(told.member("next").as_deref(), Some("new_key"));
        assert!(!told.is_replayed());
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed());
        assert_eq!(shop.till.runs(), 1);
    }

    async fn late_success_after_a_lost_lease(ground) {
        let gate = Arc::new(Semaphore::new(0));
        let second_gate = gate.clone();
        let plan = Plan::of(durable(), move |call| {
            let gate = second_gate.clone();
            async move {
                match call.nth {
                    1 => call.till.at_the_gate().await,
                    _ => gate.acquire().await.expect("it is never closed").forget(),
                }
                crate::shop::paid(call.nth)
            }
        });
        let here = Shop::open(&ground, plan).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let paused = here.send(&ask);
        here.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        let second = there.send(&ask);
        here.till.began(2).await;
        here.till.open(1);
        let paused = paused.await.unwrap();
        paused.is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        assert!(paused.headers.contains_key(header::RETRY_AFTER));
        gate.add_permits(1);
        second.await.unwrap().is_payment(2);
        assert!(here.ask(&ask).await.is_payment(2).is_replayed());
        assert_eq!(here.till.runs(), 2);
        assert_eq!(here.events.count(|what| matches!(what, What::LeaseLost { .. })), 1);
    }

    async fn late_success_after_another_ones_success(ground) {
        let plan = Plan::of(durable(), |call| async move {
            if call.nth == 1 {
                call.till.at_the_gate().await;
            }
            crate::shop::paid(call.nth)
        });
        let here = Shop::open(&ground, plan).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let paused = here.send(&ask);
        here.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        there.ask(&ask).await.is_payment(2);
        here.till.open(1);
        let paused = paused.await.unwrap();
        assert!(paused.is_payment(2).is_replayed(), "it is told what counts");
        assert!(here.ask(&ask).await.is_payment(2).is_replayed());
        assert_eq!(here.till.runs(), 2);
    }

    async fn late_failure_after_a_lost_lease(ground) {
        let plan = Plan::of(durable(), |call| async move {
            if call.nth == 1 {
                call.till.at_the_gate().await;
                panic!("late");
            }
            crate::shop::paid(call.nth)
        });
        let here = Shop::open(&ground, plan).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let paused = here.send(&ask);
        here.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        there.ask(&ask).await.is_payment(2);
        here.till.open(1);
        assert!(paused.await.unwrap().is_payment(2).is_replayed(), "it is told what counts");
        assert!(here.ask(&ask).await.is_payment(2).is_replayed(), "nothing was deleted");
        assert_eq!(here.till.runs(), 2);
    }

    async fn oversized_response(ground) {
        let plan = Plan::of(Policy::default().answer_bytes_max(1_000), |_| async { "x".repeat(100_000) });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        let told = shop.ask(&ask).await;
        assert_eq!(
            (told.status.as_u16(), told.body.len()),
            (200, 100_000),
            "the first caller gets all of it"
        );
        assert!(told.trailers.contains_key("content-digest"));
        for _ in 0..2 {
            let told = shop.ask(&ask).await;
            told.is_refused(409, "RESULT_NOT_RETAINED").says_next("stop");
            assert!(told.member("operation").is_some(), "it can be asked about");
        }
        assert_eq!(shop.till.runs(), 1);
    }

    async fn client_gone_in_the_middle(ground) {
        let shop = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let mut client = tokio::net::TcpStream::connect(shop.listen().await).await.unwrap();
        let body = r#"{"cents":100}"#;
        let request = format!(
            "POST /payments HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer acme/ann\r\nContent-Type: application/json\r\n\
             Idempotency-Key: {}\r\nContent-Length: {}\r\n\r\n{body}",
            key(1),
            body.len()
        );
        client.write_all(request.as_bytes()).await.unwrap();
        shop.till.began(1).await;
        drop(client);
        let retry = shop.send(&Ask::pay(&key(1)));
        shop.events.until(1, |what| *what == What::Waiting).await;
        shop.till.open(1);
        assert!(retry.await.unwrap().is_payment(1).is_replayed());
        assert_eq!(shop.till.runs(), 1);
    }
}
