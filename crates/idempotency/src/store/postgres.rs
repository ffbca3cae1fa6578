//! A store in PostgreSQL, for services with several instances, and for handlers whose effect is in the same database:
//! those share their transaction with the record, which makes them happen exactly once.
//!
//! Each verb is one function in the database and one round trip, because several statements would hold locks while the
//! network is slow. All times are the server's. LISTEN reports changes of other instances; missed ones are found by
//! polling.
//!
//! Durability is that of the server's commits: after a failover to a replica that had not received them, acknowledged
//! data is gone. Where that matters, replicate synchronously.

mod lent;
mod listener;
mod schema;
mod transaction;

pub use transaction::{NoTransaction, Transaction, TransactionGuard};

use super::wake::Bells;
use super::{Pending, Store, StoreError, Swept};
use crate::record::{
    Claim, Claimed, Completion, Ending, Epoch, Grant, Holding, Keep, OperationId, Record, RequestTag,
    ScopeTag, Standing, Takeover,
};
use bytes::Bytes;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use http::Extensions;
use jiff::Timestamp;
use lent::{Lent, unavailable, within};
use listener::Listener;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, NoTls, Row, Socket};
use uuid::Uuid;

/// Resets the session: settings, locks and temporary objects of one handler must not reach the next. Statements stay
/// prepared.
const CLEAN: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// Options for the use of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The schema of its tables and functions; created if it does not exist.
    pub schema: String,
    /// The size of its pool, without the listening connection. At least 2; a quarter, at least one, is reserved for
    /// verbs, so that leases can be renewed while handlers use all others.
    pub connections_max: usize,
    /// The time limit of a verb, including the wait for a connection.
    pub timeout_for: Duration,
    /// How long a handler's transaction may be idle, and how long one of its statements may take.
    pub transaction_for: Duration,
    /// Accepts a server that can lose acknowledged data.
    pub volatile: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: "idempotency".into(),
            connections_max: 16,
            timeout_for: Duration::from_secs(5),
            transaction_for: Duration::from_secs(30),
            volatile: false,
        }
    }
}

/// A store in PostgreSQL. A clone uses the same connections.
///
/// ```no_run
/// # async fn open() -> Result<(), perdura_idempotency::store::StoreError> {
/// use perdura_idempotency::store::{Postgres, postgres::Options};
///
/// let store = Postgres::connect("postgres://app:secret@db.internal/app", Options::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    pool: Pool,
    options: Options,
    statements: Statements,
    bells: Bells,
    /// Limits the connections of handlers.
    transactions: Arc<Semaphore>,
    /// The statement that resets a connection after a handler.
    clean: &'static str,
    listener: OnceLock<Listener>,
}

/// The statements of the verbs, with the schema's name.
struct Statements {
    agree: String,
    claim: String,
    renew: String,
    complete: String,
    complete_lent: String,
    settled: String,
    release: String,
    look: String,
    erase: String,
    sweep: String,
    unknown: String,
}

impl Statements {
    fn of(schema: &str) -> Self {
        let call = |function: &str| format!("SELECT * FROM {schema}.idempotency_{function}");
        Self {
            agree: call("agree($1)"),
            claim: call("claim($1, $2, $3, $4, $5, $6, $7, $8)"),
            renew: call("renew($1, $2, $3)"),
            complete: call("complete($1, $2, $3, $4, $5)"),
            complete_lent: call("complete_lent($1, $2, $3, $4, $5)"),
            settled: call("settled($1, $2)"),
            release: call("release($1, $2)"),
            look: call("look($1)"),
            erase: call("erase($1)"),
            sweep: call("sweep($1, $2, $3)"),
            unknown: format!("SELECT operation, (stands).* FROM {schema}.idempotency_unknown($1)"),
        }
    }
}

impl Postgres {
    /// Connects without TLS, as the URL or the key-value string says.
    pub async fn connect(config: &str, options: Options) -> Result<Self, StoreError> {
        let config: Config = config.parse().map_err(|error: tokio_postgres::Error| {
            StoreError::Unfit(format!("the address of PostgreSQL cannot be read: {error}"))
        })?;
        Self::connect_tls(config, NoTls, options).await
    }

    /// Connects with this connector, for TLS: `tokio-postgres-rustls` has one.
    pub async fn connect_tls<T>(mut config: Config, tls: T, options: Options) -> Result<Self, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        if config.get_application_name().is_none() {
            config.application_name("perdura-idempotency");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.timeout_for);
        }
        config.keepalives_idle(Duration::from_secs(30));
        let mut pooled = config.clone();
        // A verb that the server still runs after its caller gave up must not hold a row.
        pooled.options(format!(
            "{} -c statement_timeout={} -c default_transaction_isolation=read\\ committed",
            config.get_options().unwrap_or_default(),
            options.timeout_for.as_millis().clamp(1, 2_147_483_647),
        ));
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(pooled, tls.clone(), recycling);
        let pool = Pool::builder(manager).max_size(options.connections_max).build();
        let pool = pool.map_err(|error| StoreError::Unfit(error.to_string()))?;
        let store = Self::over(pool, options, CLEAN).await?;
        store.listen(config, tls);
        Ok(store)
    }

    /// Uses a pool of the program's own; its size replaces `connections_max`. Changes of other instances are found by
    /// polling, unless [`listen`](Self::listen) is called too. Settings that a handler makes on a connection, beyond
    /// its transaction, stay there: only the program knows the initial settings of its connections.
    pub async fn with_pool(pool: Pool, options: Options) -> Result<Self, StoreError> {
        Self::over(pool, options, "").await
    }

    async fn over(pool: Pool, options: Options, clean: &'static str) -> Result<Self, StoreError> {
        schema::check_name(&options.schema)?;
        let connections = pool.status().max_size;
        if connections < 2 {
            return Err(StoreError::Unfit(
                "a pool of one connection cannot renew a lease while a handler uses it: allow two or more"
                    .into(),
            ));
        }
        within(options.timeout_for, async {
            let client = Lent::from(&pool).await?;
            schema::check_server(&client, options.volatile).await?;
            schema::migrate(&client, &options.schema).await?;
            client.give_back();
            Ok(())
        })
        .await?;
        Ok(Self(Arc::new(Inner {
            statements: Statements::of(&options.schema),
            transactions: Arc::new(Semaphore::new(connections - connections.div_ceil(4))),
            bells: Bells::default(),
            listener: OnceLock::new(),
            clean,
            pool,
            options,
        })))
    }

    /// Listens for changes of other instances, on a connection of its own: directly to the server, because poolers that
    /// share sessions do not pass notifications on. A second call changes nothing.
    pub fn listen<T>(&self, config: Config, tls: T)
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.0.listener.get_or_init(|| {
            let channel = format!("idempotency_{}", self.0.options.schema);
            Listener::start(config, tls, channel, self.0.bells.clone())
        });
    }
}

impl Inner {
    /// One statement, one round trip once it is prepared on its connection.
    async fn ask(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, StoreError> {
        within(self.options.timeout_for, async {
            let client = Lent::from(&self.pool).await?;
            let statement = client.prepare_cached(sql).await.map_err(unavailable)?;
            let row = client.query_one(&statement, parameters).await.map_err(unavailable)?;
            client.give_back();
            Ok(row)
        })
        .await
    }

    /// The same, about one record. A value that the functions cannot compute with means a damaged record.
    async fn ask_about(
        &self,
        operation: OperationId,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, StoreError> {
        self.ask(sql, parameters).await.map_err(|error| {
            if lent::is_about_data(&error) {
                StoreError::Corrupt { operation, what: "an instant is beyond all times".into() }
            } else {
                error
            }
        })
    }

    /// The same, for any number of rows.
    async fn list(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        within(self.options.timeout_for, async {
            let client = Lent::from(&self.pool).await?;
            let statement = client.prepare_cached(sql).await.map_err(unavailable)?;
            let rows = client.query(&statement, parameters).await.map_err(unavailable)?;
            client.give_back();
            Ok(rows)
        })
        .await
    }

    /// A holder's verb.
    async fn held(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Holding, StoreError> {
        let held: bool = self.ask(sql, parameters).await?.get(0);
        Ok(if held { Holding::Held } else { Holding::Lost })
    }

    async fn complete(&self, completion: &Completion) -> Result<Holding, StoreError> {
        let (answered, answer_for, tombstone_for) = completion_of(completion);
        let epoch = completion.epoch.0.cast_signed();
        let holding = self
            .held(
                &self.statements.complete,
                &[&completion.operation.0, &epoch, &answered, &answer_for, &tombstone_for],
            )
            .await?;
        self.bells.ring(completion.operation);
        Ok(holding)
    }
}

/// The answer, and how long answer and tombstone are kept.
fn completion_of(completion: &Completion) -> (Option<&[u8]>, i64, i64) {
    let answered = match &completion.ending {
        Ending::Answered(answer) => Some(&answer[..]),
        Ending::Unknown => None,
    };
    (answered, micros(completion.keep.answer_for), micros(completion.keep.tombstone_for))
}

/// A duration for the functions. One longer than nine thousand years is shortened to that.
fn micros(duration: Duration) -> i64 {
    const LONGEST: i64 = 9_000 * 366 * 24 * 3_600 * 1_000_000;
    i64::try_from(duration.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

impl Store for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.0.ask(&self.0.statements.agree, &[&&check[..]]).await?.get(0)) })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            let takeover = match claim.takeover {
                Takeover::Allowed => true,
                Takeover::Never => false,
            };
            let parameters: [&(dyn ToSql + Sync); 8] = [
                &claim.operation.0,
                &&claim.scope.0[..],
                &&claim.request.0[..],
                &claim.claimant,
                &micros(claim.lease_for),
                &takeover,
                &micros(claim.keep.answer_for),
                &micros(claim.keep.tombstone_for),
            ];
            let row = self.0.ask_about(claim.operation, &self.0.statements.claim, &parameters).await?;
            let told = Told::read(claim.operation, &row)?;
            if told.granted {
                let Record { epoch, first_at, .. } = told.record;
                return Ok(Claimed::Granted(Grant { epoch, taken_over: told.taken_over, first_at }));
            }
            // An earlier detection of the lapse wakes nobody; an unnecessary wake-up is allowed.
            if matches!(told.record.standing, Standing::Unknown { .. }) {
                self.0.bells.ring(claim.operation);
            }
            Ok(if told.lapsed { Claimed::Lapsed(told.record) } else { Claimed::Found(told.record) })
        })
    }

    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            let parameters: [&(dyn ToSql + Sync); 3] =
                [&operation.0, &epoch.0.cast_signed(), &micros(lease_for)];
            self.0.held(&self.0.statements.renew, &parameters).await
        })
    }

    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>> {
        Box::pin(self.0.complete(completion))
    }

    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            let parameters: [&(dyn ToSql + Sync); 2] = [&operation.0, &epoch.0.cast_signed()];
            let holding = self.0.held(&self.0.statements.release, &parameters).await?;
            self.0.bells.ring(operation);
            Ok(holding)
        })
    }

    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>> {
        Box::pin(async move {
            let row = self.0.ask_about(operation, &self.0.statements.look, &[&operation.0]).await?;
            match row.get::<_, Option<bool>>("granted") {
                Some(_) => Ok(Some(Told::read(operation, &row)?.record)),
                None => Ok(None),
            }
        })
    }

    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.0.ask(&self.0.statements.erase, &[&operation.0]).await?.get(0)) })
    }

    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>> {
        Box::pin(async move {
            let parameters: [&(dyn ToSql + Sync); 3] =
                [&i64::from(records_max), &micros(keep.answer_for), &micros(keep.tombstone_for)];
            let row = self.0.ask(&self.0.statements.sweep, &parameters).await?;
            let (answers, records) = (row.get::<_, i64>("answers"), row.get::<_, i64>("records"));
            let lapsed: Vec<_> = row.get::<_, Vec<Uuid>>("lapsed").into_iter().map(OperationId).collect();
            for operation in &lapsed {
                self.0.bells.ring(*operation);
            }
            Ok(Swept { answers: answers.cast_unsigned(), records: records.cast_unsigned(), lapsed })
        })
    }

    fn unknown(&self, limit: u32) -> Pending<'_, Result<Vec<(OperationId, Record)>, StoreError>> {
        Box::pin(async move {
            let rows = self.0.list(&self.0.statements.unknown, &[&i64::from(limit)]).await?;
            let told = rows.iter().filter_map(|row| {
                let operation = OperationId(row.get("operation"));
                match Told::read(operation, row) {
                    Ok(told) => Some((operation, told.record)),
                    Err(error) => {
                        tracing::error!(%error, "left out of a list");
                        None
                    }
                }
            });
            Ok(told.collect())
        })
    }

    fn changed(&self, operation: OperationId) -> Pending<'static, ()> {
        self.0.bells.heard(operation)
    }

    fn begin<'a>(
        &'a self,
        operation: OperationId,
        grant: Grant,
        extensions: &'a mut Extensions,
    ) -> Pending<'a, Result<Option<Box<dyn super::Transaction>>, StoreError>> {
        Box::pin(async move {
            let (lending, transaction) =
                transaction::Lending::new(Arc::clone(&self.0), operation, grant.epoch);
            extensions.insert(transaction);
            Ok(Some(Box::new(lending) as Box<dyn super::Transaction>))
        })
    }

    fn shares_transactions(&self) -> bool {
        true
    }
}

/// The functions' result for a record.
struct Told {
    granted: bool,
    taken_over: bool,
    /// This claim found the expired lease.
    lapsed: bool,
    record: Record,
}

impl Told {
    /// An invalid value means a damaged or foreign record.
    fn read(operation: OperationId, row: &Row) -> Result<Self, StoreError> {
        let corrupt = |what: &'static str| StoreError::Corrupt { operation, what: what.into() };
        let at = |column| {
            let at = row.try_get::<_, Option<Timestamp>>(column);
            at.map_err(|_| corrupt("an instant is beyond all times"))?
                .ok_or_else(|| corrupt("an instant is missing"))
        };
        let flag = |column| row.try_get::<_, bool>(column).map_err(|_| corrupt("a field is missing"));
        let bytes = |column| {
            let bytes =
                row.try_get::<_, Option<&[u8]>>(column).map_err(|_| corrupt("a field is no bytes"))?;
            bytes.ok_or_else(|| corrupt("the answer or a tag is missing"))
        };
        let stands: &str = row.try_get("standing").map_err(|_| corrupt("its state is missing"))?;
        let standing = match stands {
            "running" => {
                let left = row.try_get::<_, Option<i64>>("lease_left").ok().flatten();
                let left = left.and_then(|left| u64::try_from(left).ok());
                let left = left.ok_or_else(|| corrupt("the lease is missing"))?;
                Standing::Running { lease_left: Duration::from_micros(left) }
            }
            "unknown" | "lapsed" => Standing::Unknown { at: at("ended_at")?, expires_at: at("expires_at")? },
            "completed" => Standing::Completed {
                at: at("ended_at")?,
                expires_at: at("expires_at")?,
                answer: Bytes::copy_from_slice(bytes("answer")?),
            },
            "expired" => Standing::Expired { at: at("ended_at")? },
            _ => return Err(corrupt("its state has no name")),
        };
        let scope = bytes("scope")?.try_into().map_err(|_| corrupt("its scope is not of 16 bytes"))?;
        let request = bytes("request")?.try_into().map_err(|_| corrupt("its request is not of 32 bytes"))?;
        let epoch = row.try_get::<_, i64>("epoch").map_err(|_| corrupt("its epoch is missing"))?;
        Ok(Self {
            granted: flag("granted")?,
            taken_over: flag("taken_over")?,
            lapsed: stands == "lapsed",
            record: Record {
                scope: ScopeTag(scope),
                request: RequestTag(request),
                epoch: Epoch(epoch.cast_unsigned()),
                first_at: at("first_at")?,
                standing,
            },
        })
    }
}
