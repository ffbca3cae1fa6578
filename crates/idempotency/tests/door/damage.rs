//! A record that cannot be read: its request is refused for good, and nothing is left behind that asks for it.

use crate::asks::{Ask, key};
use crate::redis_server;
use crate::shop::{Plan, Shop};
use perdura_idempotency::Policy;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_in_redis_stops_its_caller_and_leaves_no_task() {
    let server = redis_server::Server::start();
    let (url, client) = (server.url(), redis::Client::open(server.url()).expect("an address"));
    let ground = crate::grounds::redis_on(server).await;
    let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
    let ask = Ask::pay(&key(1));
    shop.ask(&ask).await.is_payment(1);
    let mut connection = client.get_connection().unwrap_or_else(|error| panic!("{url}: {error}"));
    let records: Vec<String> =
        redis::cmd("KEYS").arg("*:record:*").query(&mut connection).expect("it tells its keys");
    let [record] = &records[..] else { panic!("one record: {records:?}") };
    redis::cmd("HDEL").arg(record).arg("gone_at").query::<()>(&mut connection).expect("it is damaged");
    for _ in 0..3 {
        let told = shop.ask(&ask).await;
        told.is_refused(500, "IDEMPOTENCY_RECORD_DAMAGED").says_next("stop");
    }
    // Whoever still asked for it would be waited for as long as a lease.
    tokio::time::timeout(Duration::from_secs(5), shop.layer.drain()).await.expect("nothing is left running");
    assert_eq!(shop.till.runs(), 1);
}

/// It began before there were dates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beginning_that_no_date_can_tell_is_damage_and_ends_in_an_answer() {
    let ground = crate::grounds::sqlite();
    let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
    let ask = Ask::pay(&key(1));
    shop.ask(&ask).await.is_payment(1);
    let file = rusqlite::Connection::open(ground.file().expect("it has one")).expect("opening");
    let damage = "UPDATE idempotency_record SET first_at = -100000000000000000";
    assert_eq!(file.execute(damage, []).expect("damaging"), 1);
    let told = shop.ask(&ask).await;
    told.is_refused(500, "IDEMPOTENCY_RECORD_DAMAGED").says_next("stop");
}
