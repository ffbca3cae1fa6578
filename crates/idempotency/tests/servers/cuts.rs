//! Connections that are cut before and after the server's reply, on both servers.

use crate::kit::{
    answer, answered, complete, found, granted, in_time, is_running, is_unavailable, operation, take,
};
use crate::proxy::{Point, Proxy};
use crate::redis_server::Server;
use crate::{pg, redis_server};
use perdura_idempotency::record::{Holding, OperationId, Standing};
use perdura_idempotency::store::{Postgres, Store};
use std::os::unix::fs::symlink;

const POINTS: [Point; 2] = [Point::BeforeTheRequest, Point::BeforeTheReply];

/// `through` goes through the proxy, `beside` does not; `name` is how an operation looks on the wire.
async fn one_grant_and_one_end(
    proxy: &Proxy,
    through: &dyn Store,
    beside: &dyn Store,
    name: impl Fn(OperationId) -> Vec<u8>,
    repeats_itself: bool,
) {
    for (n, point) in (1..).zip(POINTS) {
        let key = operation(n);
        let cuts = proxy.cuts();
        proxy.cut(&name(key), point);
        let wish = take(key, 1);
        if !repeats_itself {
            assert!(is_unavailable(&through.claim(&wish).await), "{point:?}");
            let there = beside.look(key).await.expect("the store answers").is_some();
            assert_eq!(there, point == Point::BeforeTheReply, "what was answered is there: {point:?}");
        }
        let grant = granted(through, &wish).await;
        assert_eq!(proxy.cuts(), cuts + 1, "{point:?}");
        assert!(!grant.taken_over);
        let seen = found(beside, &take(key, 2)).await;
        assert_eq!((seen.epoch, seen.first_at), (grant.epoch, grant.first_at), "one grant: {point:?}");

        proxy.cut(&name(key), point);
        if !repeats_itself {
            assert!(
                is_unavailable(&through.complete(&answered(key, grant.epoch, "once")).await),
                "{point:?}"
            );
            assert_eq!(is_running(beside, key).await, point == Point::BeforeTheRequest);
        }
        assert_eq!(complete(through, key, grant.epoch, "once").await, Holding::Held, "{point:?}");
        assert_eq!(proxy.cuts(), cuts + 2, "{point:?}");
        let Standing::Completed { at, answer, .. } = found(beside, &take(key, 2)).await.standing else {
            panic!("should be completed")
        };
        assert_eq!(complete(through, key, grant.epoch, "twice").await, Holding::Held);
        let after = found(beside, &take(key, 3)).await.standing;
        assert!(matches!(after, Standing::Completed { at: again, .. } if again == at), "one end: {point:?}");
        assert_eq!(answer, "once");
    }
}

/// A store behind a proxy, with its statements prepared, and one beside it.
async fn cut_off_postgres(schema: &str) -> (Proxy, Postgres, Postgres) {
    let beside = pg::open(schema).await;
    let (proxy, url) = Proxy::before(&pg::url()).await;
    let through = Postgres::connect(&url, pg::options(schema)).await.expect("the store opens");
    let grant = granted(&through, &take(operation(0), 1)).await;
    assert_eq!(complete(&through, operation(0), grant.epoch, "prepared").await, Holding::Held);
    (proxy, through, beside)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_to_postgres_gives_one_grant_and_one_end() {
    let (proxy, through, beside) = cut_off_postgres(&pg::fresh_schema()).await;
    one_grant_and_one_end(&proxy, &through, &beside, |key| key.as_bytes().to_vec(), false).await;
}

/// The store asks again by itself: a claim and an end are the same when they are offered twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_to_redis_gives_one_grant_and_one_end() {
    let prefix = redis_server::fresh_name();
    let beside = redis_server::open(&redis_server::url(), &prefix).await;
    let (proxy, url) = Proxy::before(&redis_server::url()).await;
    let through = redis_server::open(&url, &prefix).await;
    let grant = granted(&through, &take(operation(0), 1)).await;
    assert_eq!(complete(&through, operation(0), grant.epoch, "loaded").await, Holding::Held);
    one_grant_and_one_end(&proxy, &through, &beside, |key| key.to_string().into_bytes(), true).await;
}

/// Effect and record, or neither, whichever side of the commit the cut is on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_reply_was_lost_is_found_out() {
    let schema = pg::fresh_schema();
    let (proxy, through, beside) = cut_off_postgres(&schema).await;
    pg::make_effects(&schema).await;
    for (n, point) in (1..).zip(POINTS) {
        let key = operation(n);
        let grant = granted(&through, &take(key, 1)).await;
        let (shared, transaction) = pg::begin(&through, key, grant).await;
        pg::act(&transaction, &schema, n).await;
        proxy.cut(b"COMMIT", point);
        let completed = shared.complete(answered(key, grant.epoch, "done")).await;
        match point {
            Point::BeforeTheRequest => {
                assert!(is_unavailable(&completed), "{completed:?}");
                assert!(is_running(&beside, key).await);
                assert_eq!(pg::effects(&schema, n).await, 0);
            }
            Point::BeforeTheReply => {
                assert_eq!(completed.expect("it was found out"), Holding::Held);
                assert_eq!(answer(&beside, key).await, "done");
                assert_eq!(pg::effects(&schema, n).await, 1);
            }
        }
    }
    assert_eq!(proxy.cuts(), 2);
}

/// `here` hears through the proxy what `there` does.
async fn hears_again_after_a_cut(proxy: &Proxy, here: &dyn Store, there: &dyn Store) {
    for key in [operation(101), operation(102)] {
        let grant = granted(there, &take(key, 1)).await;
        let heard = here.changed(key);
        in_time("finding it", async {
            // The cut meets the verbs' own connection as well.
            while here.claim(&take(key, 2)).await.is_err() {}
        })
        .await;
        proxy.cut_everybody();
        in_time("hearing that something may have been missed", heard).await;
        let heard = here.changed(key);
        assert_eq!(complete(there, key, grant.epoch, "done").await, Holding::Held);
        in_time("hearing of the end", heard).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_listener_of_postgres_comes_back() {
    let (proxy, through, beside) = cut_off_postgres(&pg::fresh_schema()).await;
    hears_again_after_a_cut(&proxy, &through, &beside).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscriber_of_redis_comes_back() {
    let prefix = redis_server::fresh_name();
    let beside = redis_server::open(&redis_server::url(), &prefix).await;
    let (proxy, url) = Proxy::before(&redis_server::url()).await;
    let through = redis_server::open(&url, &prefix).await;
    hears_again_after_a_cut(&proxy, &through, &beside).await;
}

/// The address leads to the new server; the connection to the old one is still good, and takes no writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_demoted_is_left_for_the_one_that_took_its_place() {
    let (before, after) = (Server::start(), Server::start());
    let address = before.socket().with_file_name("address");
    symlink(before.socket(), &address).expect("the folder can be written");
    let url = format!("redis+unix://{}", address.display());
    let store = redis_server::open(&url, &redis_server::fresh_name()).await;
    granted(&store, &take(operation(1), 1)).await;
    before.demote();
    std::fs::remove_file(&address).expect("it is there");
    symlink(after.socket(), &address).expect("the folder can be written");
    in_time("finding the new one", async {
        while is_unavailable(&store.claim(&take(operation(2), 1)).await) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(is_running(&store, operation(2)).await);
}

/// How often a client speaks for a claim, an end and a replay, once it has said them before.
async fn round_trips(proxy: &Proxy, store: &dyn Store) -> [usize; 3] {
    let mut before = proxy.requests();
    let mut since = || {
        let now = proxy.requests();
        now - std::mem::replace(&mut before, now)
    };
    let key = operation(7);
    let grant = granted(store, &take(key, 1)).await;
    let claim = since();
    assert_eq!(complete(store, key, grant.epoch, "done").await, Holding::Held);
    let end = since();
    found(store, &take(key, 2)).await;
    [claim, end, since()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_is_one_round_trip_to_postgres() {
    let schema = pg::fresh_schema();
    let (proxy, url) = Proxy::before(&pg::url()).await;
    let beside = pg::open(&schema).await;
    let through = Postgres::connect(&url, pg::options(&schema)).await.expect("the store opens");
    let grant = granted(&through, &take(operation(0), 1)).await;
    let heard = through.changed(operation(0));
    found(&beside, &take(operation(0), 2)).await;
    assert_eq!(complete(&beside, operation(0), grant.epoch, "prepared").await, Holding::Held);
    in_time("the listener being up", heard).await;
    assert_eq!(complete(&through, operation(0), grant.epoch, "prepared").await, Holding::Held);
    assert_eq!(round_trips(&proxy, &through).await, [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_is_one_round_trip_to_redis() {
    let prefix = redis_server::fresh_name();
    let (proxy, url) = Proxy::before(&redis_server::url()).await;
    let beside = redis_server::open(&redis_server::url(), &prefix).await;
    let through = redis_server::open(&url, &prefix).await;
    let grant = granted(&through, &take(operation(0), 1)).await;
    let heard = through.changed(operation(0));
    found(&beside, &take(operation(0), 2)).await;
    assert_eq!(complete(&beside, operation(0), grant.epoch, "loaded").await, Holding::Held);
    in_time("the subscriber being up", heard).await;
    assert_eq!(complete(&through, operation(0), grant.epoch, "loaded").await, Holding::Held);
    assert_eq!(round_trips(&proxy, &through).await, [1, 1, 1]);
}
