//! What a store keeps, as somebody sees it who has taken its disk: every byte.

use crate::asks::{Ask, key};
use crate::grounds::{Place, on_each_store};
use crate::pg;
use crate::shop::{Plan, Shop};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use perdura_idempotency::{DerivedKeys, IDEMPOTENCY_FINGERPRINT, Policy, Secret};
use std::path::Path;
use std::process::Command;
use uuid::Uuid;

const KEY: &str = "5ec4e7ed-cafe-4000-8000-00000000c0de";
/// What the caller sends, and what the handler answers.
const CONTENT: &str = r#"{"card":"4111-1111-1111-1111"}"#;
const ANSWER: &str = "the balance is 17.50";

pub(crate) async fn bytes(place: &Place) -> Vec<u8> {
    match place {
        Place::Memory => Vec::new(),
        Place::Sqlite(file) => in_files(file),
        Place::Postgres(schema) => in_tables(schema).await,
        Place::Redis(url) => on_redis(url),
    }
}

/// The file and its log. Another process reads them: who closes a file lets go of all its locks on it.
fn in_files(file: &Path) -> Vec<u8> {
    let read = Command::new("cat").arg(file).arg(format!("{}-wal", file.display())).output();
    let read = read.expect("cat is there");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    read.stdout
}

/// Every row of every table, as PostgreSQL writes it and with its bytes as they are.
async fn in_tables(schema: &str) -> Vec<u8> {
    let client = pg::connection().await;
    let tables = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1";
    let mut all = Vec::new();
    for table in client.query(tables, &[&schema]).await.expect("the schema is there") {
        let rows = format!("SELECT t::text FROM {schema}.{} t ORDER BY 1", table.get::<_, String>(0));
        for row in client.query(&rows, &[]).await.expect("the table is there") {
            let text: String = row.get(0);
            all.extend(text.bytes());
            for part in text.split(r"\x").skip(1) {
                let digits = part.find(|char: char| !char.is_ascii_hexdigit()).unwrap_or(part.len());
                all.extend(unhex(&part[..digits]));
            }
        }
    }
    all
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Every key and every value.
fn on_redis(url: &str) -> Vec<u8> {
    let client = redis::Client::open(url).expect("the address is well-formed");
    let mut server = client.get_connection().expect("Redis answers");
    let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut server).expect("Redis answers");
    keys.sort();
    let mut all = keys.concat();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query(&mut server).expect("Redis answers");
        let read = match kind.as_str() {
            "string" => redis::cmd("GET").arg(&key).query::<Vec<u8>>(&mut server),
            "hash" => redis::cmd("HGETALL")
                .arg(&key)
                .query::<Vec<Vec<u8>>>(&mut server)
                .map(|fields| fields.concat()),
            "zset" => redis::cmd("ZRANGE")
                .arg(&key)
                .arg(0)
                .arg(-1)
                .query::<Vec<Vec<u8>>>(&mut server)
                .map(|members| members.concat()),
            other => panic!("nobody looks into a {other}"),
        };
        all.extend(read.expect("it is there"));
    }
    all
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

/// These bytes are nowhere: not as they are, not in hex, not in base64.
#[track_caller]
fn assert_unseen(what: &str, part: &[u8], bytes: &[u8]) {
    let digits = part.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hex: String = digits.map(|digit| char::from_digit(digit.into(), 16).expect("a digit")).collect();
    for form in [part, hex.as_bytes(), BASE64_STANDARD.encode(part).trim_end_matches('=').as_bytes()] {
        assert!(!holds(bytes, form), "{what} is seen in {}", String::from_utf8_lossy(bytes));
    }
}

fn answers() -> Plan {
    Plan::of(Policy::default(), |call| async move {
        match call.nth {
            1 => (StatusCode::CREATED, ANSWER),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, ANSWER),
        }
    })
}

on_each_store! {
    async fn neither_the_key_nor_what_was_asked_is_kept(ground) {
        let shop = Shop::open(&ground, answers()).await;
        let ask = Ask::pay(KEY).body(CONTENT).by("hush-tenant/hush-principal");
        let first = shop.ask(&ask).await;
        assert_eq!(first.status, 201);
        assert!(shop.ask(&ask).await.is_replayed());
        shop.ask(&ask.clone().header("idempotency-key", &key(2))).await;
        let kept = ground.at_rest().await;

        let uuid: Uuid = KEY.parse().unwrap();
        assert_unseen("the key", KEY.as_bytes(), &kept);
        assert_unseen("the key in 16 bytes", uuid.as_bytes(), &kept);
        let told = first.headers[IDEMPOTENCY_FINGERPRINT].to_str().unwrap();
        let told = told.strip_prefix("sha-256=:").and_then(|told| told.strip_suffix(':')).unwrap();
        let fingerprint = BASE64_STANDARD.decode(told).unwrap();
        assert_eq!(fingerprint.len(), 32);
        assert_unseen("the fingerprint", &fingerprint, &kept);
        for secret in [CONTENT, "4111-1111", "hush-tenant", "hush-principal", "Bearer", "/payments"] {
            assert_unseen(secret, secret.as_bytes(), &kept);
        }
    }

    async fn an_answer_is_kept_in_clear_only_without_encryption(ground) {
        let master = || Secret::new([1; 32]).unwrap();
        let sealed = answers().set_up(move |layer| layer.encrypt_with(DerivedKeys::new(master())));
        let shop = Shop::open(&ground, sealed).await;
        shop.ask(&Ask::pay(KEY)).await;
        assert!(shop.ask(&Ask::pay(KEY)).await.is_replayed());
        let kept = ground.at_rest().await;
        assert_unseen("the answer", ANSWER.as_bytes(), &kept);
        assert_unseen("what the answer's type is", b"text/plain", &kept);

        let shop = Shop::open(&ground, answers()).await;
        shop.ask(&Ask::pay(&key(2))).await;
        let kept = ground.at_rest().await;
        let is_kept = !matches!(ground.store().name(), "memory");
        assert_eq!(holds(&kept, ANSWER.as_bytes()), is_kept, "who looks for it finds it where it is");
    }
}
