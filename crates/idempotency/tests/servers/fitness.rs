//! Servers that cannot keep what is promised are refused with a remedy, and what is damaged is said.

use crate::kit::{complete, granted, in_time, is_running, is_unavailable, operation, take, unfit};
use crate::pg;
use crate::redis_server::{self, Server, fresh_name};
use deadpool_postgres::{Manager, Pool};
use perdura_idempotency::record::Holding;
use perdura_idempotency::store::{Postgres, Redis, Store, StoreError, postgres, redis as redis_store};
use tokio_postgres::{Config, NoTls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_forgets_is_refused() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).expect("the address is well-formed");
    let mut connection = client.get_connection().expect("it runs");
    for (name, careless, right) in [
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
        ("appendonly", "no", "yes"),
        ("appendfsync", "everysec", "always"),
    ] {
        let mut set = |value: &str| {
            let done = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query::<()>(&mut connection);
            done.expect("the setting is changed");
        };
        set(careless);
        let options = redis_server::options("careless");
        let why = unfit(Redis::connect(&server.url(), options.clone()).await);
        assert!(why.contains(&format!("set `{name} {right}`")), "{why}");
        let known = redis_store::Options { volatile: true, ..options };
        Redis::connect(&server.url(), known).await.expect("it is known");
        set(right);
    }
    redis_server::open(&server.url(), "careful").await;
    // Switched on, the log is first written by a process of its own, which would outlive the server's folder.
    in_time("the log", async {
        loop {
            let told: String =
                redis::cmd("INFO").arg("persistence").query(&mut connection).expect("it tells");
            if told.contains("aof_rewrite_in_progress:0") && told.contains("aof_rewrite_scheduled:0") {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Hosted servers forbid CONFIG, and mostly sync once a second: nobody can tell from here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_does_not_tell_is_refused_unless_that_is_known() {
    let (url, user) = (redis_server::url(), fresh_name());
    let client = redis::Client::open(url.clone()).expect("the address is well-formed");
    let mut connection = client.get_connection().expect("it runs");
    let mut allow = redis::cmd("ACL");
    allow.arg("SETUSER").arg(&user).arg(&["on", ">secret", "~*", "&*", "+@all", "-config"]);
    allow.query::<()>(&mut connection).expect("the user is made");
    let (_, address) = url.rsplit_once('@').expect("the URL has a password");
    let url = format!("redis://{user}:secret@{address}");
    let why = unfit(Redis::connect(&url, redis_server::options(&user)).await);
    assert!(why.contains("does not tell") && why.contains("`volatile`"), "{why}");
    let known = redis_store::Options { volatile: true, ..redis_server::options(&user) };
    let store = Redis::connect(&url, known).await.expect("it is known");
    granted(&store, &take(operation(1), 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_would_not_work_are_refused() {
    for prefix in ["", "a{b}", "a b", &"a".repeat(65)] {
        let why = unfit(Redis::connect(&redis_server::url(), redis_server::options(prefix)).await);
        assert!(why.contains("letters, digits"), "{why}");
    }
    let why = unfit(Postgres::connect(&pg::url(), pg::options("Upper case")).await);
    assert!(why.contains("lower-case letters"), "{why}");
    assert!(unfit(Postgres::connect("not=an address", pg::options("a")).await).contains("cannot be read"));
    assert!(unfit(Redis::connect("no address", redis_server::options("a")).await).contains("cannot be read"));
}

fn pool(setting: &str, connections: usize) -> Pool {
    let mut config: Config = pg::url().parse().expect("the address is well-formed");
    config.options(setting);
    Pool::builder(Manager::new(config, NoTls)).max_size(connections).build().expect("the pool is made")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_forgets_or_isolates_otherwise_is_refused() {
    let options = pg::options(&pg::fresh_schema());
    let careless = "-c synchronous_commit=off";
    let why = unfit(Postgres::with_pool(pool(careless, 4), options.clone()).await);
    assert!(why.contains("set synchronous_commit = on"), "{why}");
    let known = postgres::Options { volatile: true, ..options.clone() };
    Postgres::with_pool(pool(careless, 4), known.clone()).await.expect("it is known");
    let why =
        unfit(Postgres::with_pool(pool("-c default_transaction_isolation=serializable", 4), known).await);
    assert!(why.contains("'read committed'"), "{why}");
    let why = unfit(Postgres::with_pool(pool("", 1), options.clone()).await);
    assert!(why.contains("two or more"), "{why}");
    let store = Postgres::with_pool(pool("", 2), options).await.expect("it fits");
    granted(&store, &take(operation(1), 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_start_together_make_the_tables_once() {
    let schema = pg::fresh_schema();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn({
                let schema = schema.clone();
                async move { pg::open(&schema).await }
            })
        })
        .collect();
    for opened in opening {
        in_time("opening", opened).await.expect("it opens");
    }
    let client = pg::connection().await;
    let versions = format!("SELECT array_agg(version) FROM {schema}.idempotency_version");
    let versions: Vec<i32> = client.query_one(&versions, &[]).await.expect("it answers").get(0);
    assert_eq!(versions, [1]);
    let newer = format!("INSERT INTO {schema}.idempotency_version (version) VALUES (99)");
    client.batch_execute(&newer).await.expect("it is written");
    let why = unfit(Postgres::connect(&pg::url(), pg::options(&schema)).await);
    assert!(why.contains("version 99") && why.contains("newer program"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_unavailable_and_its_password_is_not_told() {
    let postgres =
        Postgres::connect("postgres://me:geheim@127.0.0.1:1/x", postgres::Options::default()).await;
    let redis = Redis::connect("redis://me:geheim@127.0.0.1:1", redis_store::Options::default()).await;
    assert!(is_unavailable(&postgres) && is_unavailable(&redis));
    for error in [postgres.err(), redis.err()] {
        let told = format!("{error:?} {}", error.as_ref().expect("it is not there"));
        assert!(!told.contains("geheim"), "{told}");
    }
}

/// Where programs may not make tables, somebody else has made them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_rights_to_make_tables_uses_those_that_are_there() {
    let schema = pg::fresh_schema();
    let grants = format!(
        "CREATE ROLE {schema} LOGIN PASSWORD 'plain';
         CREATE SCHEMA {schema};
         GRANT USAGE ON SCHEMA {schema} TO {schema};
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {schema};
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE ON SEQUENCES TO {schema}"
    );
    pg::connection().await.batch_execute(&grants).await.expect("the role is made");
    let url = pg::url();
    let (_, address) = url.rsplit_once('@').expect("the URL has a password");
    let url = format!("postgres://{schema}:plain@{address}");
    let refused = Postgres::connect(&url, pg::options(&schema)).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("permission denied")));
    pg::open(&schema).await;
    let store = Postgres::connect(&url, pg::options(&schema)).await.expect("the tables are there");
    let grant = granted(&store, &take(operation(1), 1)).await;
    assert_eq!(complete(&store, operation(1), grant.epoch, "done").await, Holding::Held);
}

fn assert_corrupt<T: std::fmt::Debug>(result: &Result<T, StoreError>, said: &str) {
    assert!(matches!(result, Err(StoreError::Corrupt { what, .. }) if what.contains(said)), "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_is_refused_and_only_that_one() {
    let schema = pg::fresh_schema();
    let store = pg::open(&schema).await;
    granted(&store, &take(operation(1), 1)).await;
    granted(&store, &take(operation(2), 1)).await;
    let damage = format!("UPDATE {schema}.idempotency_record SET scope = 'short' WHERE operation = $1");
    let damaged = uuid::Uuid::from_bytes(*operation(1).as_bytes());
    pg::connection().await.execute(&damage, &[&damaged]).await.expect("it is written");
    assert_corrupt(&store.claim(&take(operation(1), 2)).await, "scope");
    assert_corrupt(&store.look(operation(1)).await, "scope");
    assert!(is_running(&store, operation(2)).await);

    let prefix = fresh_name();
    let store = redis_server::open(&redis_server::url(), &prefix).await;
    granted(&store, &take(operation(1), 1)).await;
    granted(&store, &take(operation(2), 1)).await;
    let client = redis::Client::open(redis_server::url()).expect("the address is well-formed");
    let mut connection = client.get_connection().expect("it runs");
    let record = format!("{{{prefix}}}:record:{}", operation(1));
    redis::cmd("HSET").arg(record).arg("scope").arg("short").query::<()>(&mut connection).expect("written");
    assert_corrupt(&store.claim(&take(operation(1), 2)).await, "scope");
    assert_corrupt(&store.look(operation(1)).await, "scope");
    assert!(is_running(&store, operation(2)).await);
}
