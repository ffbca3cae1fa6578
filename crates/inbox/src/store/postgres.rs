//! The inbox in PostgreSQL, for services behind several instances.
//!
//! Each verb is one function in the database and one round trip, because a rule that needs several statements would hold locks while
//! the network is slow. All times are the server's. Durability is that of the server's commits.

mod lent;
mod read;
mod schema;
mod transaction;

pub use transaction::transactional;

use super::{Pending, Store, StoreError, check_size};
use crate::row::{
    Address, Claim, Counts, Ending, Epoch, Held, Holding, Keep, List, Message, Name, Named, Put, ROWS_MAX,
    Receipt, Redriven, Row, Status, shortened,
};
use crate::rule;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use lent::{Lent, unavailable, within};
use read::{COLUMNS, message, row, rows};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, GenericClient, NoTls, Socket};

/// How the store uses its server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The schema that holds its table and functions; made when it is not there.
    pub schema: String,
    /// How many connections its pool opens. At least 2; a quarter, at least one, is never given to handlers, so that leases can be
    /// renewed while all others are in use.
    pub connections_max: usize,
    /// How long a verb may take, with waiting for a connection.
    pub timeout_for: Duration,
    /// How long a handler's transaction may be idle, and how long one of its statements may take.
    pub transaction_for: Duration,
    /// It is known that this server can lose what it acknowledged.
    pub volatile: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: "inbox".into(),
            connections_max: 16,
            timeout_for: Duration::from_secs(5),
            transaction_for: Duration::from_secs(30),
            volatile: false,
        }
    }
}

/// Rows in PostgreSQL. A clone uses the same connections.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    pool: Pool,
    options: Options,
    bell: Arc<Notify>,
    /// Places for handlers that hold a connection.
    transactions: Arc<Semaphore>,
}

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

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
            config.application_name("perdura-inbox");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.timeout_for);
        }
        // A verb that the server still works on after nobody waits for it must not hold a row.
        config.options(format!(
            "{} -c statement_timeout={} -c default_transaction_isolation=read\\ committed",
            config.get_options().unwrap_or_default(),
            options.timeout_for.as_millis().clamp(1, 2_147_483_647),
        ));
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, tls, recycling);
        let pool = Pool::builder(manager).max_size(options.connections_max).build();
        Self::with_pool(pool.map_err(|error| StoreError::Unfit(error.to_string()))?, options).await
    }

    /// Uses a pool of the program's own; its size counts in place of `connections_max`.
    pub async fn with_pool(pool: Pool, options: Options) -> Result<Self, StoreError> {
        schema::check_name(&options.schema)?;
        let connections = pool.status().max_size;
        if connections < 2 {
            let why =
                "a pool of one connection cannot renew a lease while a handler uses it: allow two or more";
            return Err(StoreError::Unfit(why.into()));
        }
        within(options.timeout_for, async {
            let client = Lent::from(&pool).await?;
            schema::check_server(&client, options.volatile).await?;
            schema::migrate(&client, &options.schema).await?;
            client.give_back();
            Ok(())
        })
        .await?;
        let transactions = Arc::new(Semaphore::new(connections - connections.div_ceil(4)));
        Ok(Self(Arc::new(Inner { pool, options, bell: Arc::default(), transactions })))
    }

    /// Takes the message in inside a transaction of the caller's own: it is there if, and only if, that commits. Workers find
    /// it when they look the next time. With an ordering key, the transaction is READ COMMITTED, and others who put or end messages
    /// of this key wait for its end.
    pub async fn put_in(&self, client: &impl GenericClient, put: &Put) -> Result<Receipt, StoreError> {
        check_size(put)?;
        let Address { inbox, tenant, id } = &put.address;
        let parameters: [&(dyn ToSql + Sync); 7] = [
            &inbox.as_str(),
            &tenant.as_str(),
            &id.as_str(),
            &put.ordering_key.as_ref().map(Name::as_str),
            &&put.fingerprint.0[..],
            &&put.payload[..],
            &micros(put.delay_for),
        ];
        let told = client.query_one(&self.0.put(), &parameters).await.map_err(unavailable)?;
        received(&told, put)
    }
}

fn received(told: &tokio_postgres::Row, put: &Put) -> Result<Receipt, StoreError> {
    let row = row(told)?;
    Ok(if told.get("accepted") { Receipt::Accepted(row) } else { rule::found(row, put) })
}

/// As the functions take durations. What is longer than nine thousand years ends with time itself.
fn micros(duration: Duration) -> i64 {
    const LONGEST: i64 = 9_000 * 366 * 24 * 3_600 * 1_000_000;
    i64::try_from(duration.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

impl Inner {
    fn schema(&self) -> &str {
        &self.options.schema
    }

    fn put(&self) -> String {
        format!(
            "SELECT accepted, {} FROM {}.inbox_put($1, $2, $3, $4, $5, $6, $7)",
            read::of_composite(),
            self.schema()
        )
    }

    /// One statement, one round trip once it is prepared on its connection.
    async fn ask(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        within(self.options.timeout_for, async {
            let client = Lent::from(&self.pool).await?;
            let statement = client.prepare_cached(sql).await.map_err(unavailable)?;
            let rows = client.query(&statement, parameters).await.map_err(unavailable)?;
            client.give_back();
            Ok(rows)
        })
        .await
    }

    /// One that may make something claimable.
    async fn ringing(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let told = self.ask(sql, parameters).await?;
        self.bell.notify_waiters();
        Ok(told)
    }
}

/// The parameters of `inbox_end`.
struct EndParameters<'a> {
    /// Inbox, tenant, id and owner.
    names: [&'a str; 4],
    epoch: i64,
    status: &'static str,
    error: Option<&'a str>,
    delay: i64,
}

impl<'a> EndParameters<'a> {
    fn new(held: &'a Held, ending: &'a Ending) -> Self {
        let Held { address: Address { inbox, tenant, id }, owner, epoch } = held;
        let (status, error, delay) = match ending {
            Ending::Done => (Status::Done, None, 0),
            Ending::Again { error, delay_for } => {
                (Status::Pending, Some(shortened(error)), micros(*delay_for))
            }
            Ending::Dead { error } => (Status::Dead, Some(shortened(error)), 0),
        };
        let names = [inbox, tenant, id, owner].map(Name::as_str);
        Self { names, epoch: epoch.0.cast_signed(), status: status.as_str(), error, delay }
    }

    fn list(&self) -> [&(dyn ToSql + Sync); 8] {
        let [inbox, tenant, id, owner] = &self.names;
        [inbox, tenant, id, owner, &self.epoch, &self.status, &self.error, &self.delay]
    }
}

impl Store for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn put<'a>(&'a self, put: &'a Put) -> Pending<'a, Result<Receipt, StoreError>> {
        Box::pin(async move {
            check_size(put)?;
            let Address { inbox, tenant, id } = &put.address;
            let key = put.ordering_key.as_ref().map(Name::as_str);
            let parameters: Parameters<'_> = &[
                &inbox.as_str(),
                &tenant.as_str(),
                &id.as_str(),
                &key,
                &&put.fingerprint.0[..],
                &&put.payload[..],
                &micros(put.delay_for),
            ];
            let told = self.0.ringing(&self.0.put(), parameters).await?;
            received(read::only(&told)?, put)
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Vec<Message>, StoreError>> {
        Box::pin(async move {
            let sql =
                format!("SELECT {COLUMNS}, payload FROM {}.inbox_claim($1, $2, $3, $4, $5)", self.0.schema());
            let limit = claim.limit.min(ROWS_MAX).cast_signed();
            let after = claim.after.as_ref().map(Name::as_str);
            let (inbox, owner) = (claim.inbox.as_str(), claim.owner.as_str());
            let told = self.0.ask(&sql, &[&inbox, &owner, &limit, &micros(claim.lease_for), &after]).await?;
            let mut claimed = told.iter().map(message).collect::<Result<Vec<_>, _>>()?;
            claimed.sort_by_key(|message| (message.row.not_before, message.row.number));
            Ok(claimed)
        })
    }

    fn claim_named<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
    ) -> Pending<'a, Result<Named, StoreError>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT claimed, {}, (at).payload FROM {}.inbox_claim_named($1, $2, $3, $4, $5)",
                read::of_composite(),
                self.0.schema()
            );
            let Address { inbox, tenant, id } = address;
            let (inbox, tenant, id) = (inbox.as_str(), tenant.as_str(), id.as_str());
            let parameters: Parameters<'_> =
                &[&inbox, &tenant, &id, &claim.owner.as_str(), &micros(claim.lease_for)];
            let told = self.0.ask(&sql, parameters).await?;
            let Some(told) = told.first() else { return Ok(Named::Missing) };
            let message = message(told)?;
            Ok(match message.row.status {
                Status::Doing if told.get("claimed") => Named::Claimed(message),
                Status::Pending => Named::NotYet,
                status @ (Status::Doing | Status::Done | Status::Dead) => Named::Taken(status),
            })
        })
    }

    fn beat<'a>(
        &'a self,
        held: &'a [Held],
        lease_for: Duration,
    ) -> Pending<'a, Result<Vec<Epoch>, StoreError>> {
        Box::pin(async move {
            let sql = format!("SELECT {}.inbox_beat($1, $2, $3, $4, $5, $6)", self.0.schema());
            let texts =
                |of: fn(&Held) -> &Name| held.iter().map(|held| of(held).as_str()).collect::<Vec<_>>();
            let epochs: Vec<i64> = held.iter().map(|held| held.epoch.0.cast_signed()).collect();
            let parameters: Parameters<'_> = &[
                &texts(|held| &held.address.inbox),
                &texts(|held| &held.address.tenant),
                &texts(|held| &held.address.id),
                &texts(|held| &held.owner),
                &epochs,
                &micros(lease_for),
            ];
            let told = self.0.ask(&sql, parameters).await?;
            Ok(told.iter().map(|told| Epoch(told.get::<_, i64>(0).cast_unsigned())).collect())
        })
    }

    fn end<'a>(&'a self, held: &'a Held, ending: &'a Ending) -> Pending<'a, Result<Holding, StoreError>> {
        Box::pin(async move {
            let sql = format!("SELECT {}.inbox_end($1, $2, $3, $4, $5, $6, $7, $8)", self.0.schema());
            let told = self.0.ringing(&sql, &EndParameters::new(held, ending).list()).await?;
            Ok(if read::only(&told)?.get(0) { Holding::Held } else { Holding::Lost })
        })
    }

    fn lapse<'a>(
        &'a self,
        inbox: &'a Name,
        attempts_max: u32,
        rows_max: u32,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let sql = format!("SELECT {COLUMNS} FROM {}.inbox_lapse($1, $2, $3, $4)", self.0.schema());
            let limit = rows_max.min(ROWS_MAX).cast_signed();
            let parameters: Parameters<'_> =
                &[&inbox.as_str(), &i64::from(attempts_max), &limit, &rule::LAPSED];
            rows(&self.0.ringing(&sql, parameters).await?)
        })
    }

    fn look<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Option<Message>, StoreError>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT {COLUMNS}, payload FROM {}.inbox_row WHERE inbox = $1 AND tenant = $2 AND id = $3",
                self.0.schema()
            );
            let Address { inbox, tenant, id } = address;
            let told = self.0.ask(&sql, &[&inbox.as_str(), &tenant.as_str(), &id.as_str()]).await?;
            told.first().map(message).transpose()
        })
    }

    fn list<'a>(&'a self, list: &'a List) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT {COLUMNS} FROM {}.inbox_row WHERE inbox = $1 AND status = $2 AND number > $3
                 ORDER BY number LIMIT $4",
                self.0.schema()
            );
            let after = i64::try_from(list.after).unwrap_or(i64::MAX);
            let limit = i64::from(list.limit.min(ROWS_MAX));
            rows(&self.0.ask(&sql, &[&list.inbox.as_str(), &list.status.as_str(), &after, &limit]).await?)
        })
    }

    fn stuck<'a>(
        &'a self,
        inbox: &'a Name,
        doing_for: Duration,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let schema = self.0.schema();
            let sql = format!(
                "SELECT {COLUMNS} FROM {schema}.inbox_row WHERE status = 'DOING' AND inbox = $1
                     AND {schema}.inbox_later(claimed_at, $2) <= {schema}.inbox_now()
                 ORDER BY claimed_at, number LIMIT {ROWS_MAX}"
            );
            rows(&self.0.ask(&sql, &[&inbox.as_str(), &micros(doing_for)]).await?)
        })
    }

    fn counts<'a>(&'a self, inbox: &'a Name) -> Pending<'a, Result<Counts, StoreError>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT status, count(*) FROM {}.inbox_row WHERE inbox = $1 GROUP BY status",
                self.0.schema()
            );
            let mut counts = Counts::default();
            for told in self.0.ask(&sql, &[&inbox.as_str()]).await? {
                let status = Status::parse(told.get(0));
                let status = status.ok_or(StoreError::Corrupt { number: 0, what: "a status is none" })?;
                counts.add(status, told.get::<_, i64>(1).cast_unsigned());
            }
            Ok(counts)
        })
    }

    fn redrive<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Redriven, StoreError>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT redriven, {} FROM {}.inbox_redrive($1, $2, $3)",
                read::of_composite(),
                self.0.schema()
            );
            let Address { inbox, tenant, id } = address;
            let told = self.0.ringing(&sql, &[&inbox.as_str(), &tenant.as_str(), &id.as_str()]).await?;
            let Some(told) = told.first() else { return Ok(Redriven::Missing) };
            let row = row(told)?;
            Ok(if told.get("redriven") { Redriven::Pending(row) } else { Redriven::NotDead(row.status) })
        })
    }

    fn sweep<'a>(
        &'a self,
        inbox: &'a Name,
        keep: Keep,
        rows_max: u32,
    ) -> Pending<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let schema = self.0.schema();
            // Rows that were processed long ago arrived long ago, so the index by arrival finds them.
            let sql = format!(
                "WITH gone AS (
                     DELETE FROM {schema}.inbox_row WHERE number IN (
                         SELECT number FROM {schema}.inbox_row
                         WHERE status = $1 AND inbox = $2 AND {schema}.inbox_later(processed_at, $3) <= {schema}.inbox_now()
                             AND received_at <= {schema}.inbox_now() - LEAST($3, 31536000000000) * interval '1 microsecond'
                         ORDER BY received_at LIMIT $4 FOR UPDATE SKIP LOCKED)
                     RETURNING 1)
                 SELECT count(*) FROM gone"
            );
            let mut swept = 0;
            for (status, keep_for) in [(Status::Done, keep.done_for), (Status::Dead, keep.dead_for)] {
                let left = i64::from(rows_max) - swept;
                let parameters: Parameters<'_> =
                    &[&status.as_str(), &inbox.as_str(), &micros(keep_for), &left];
                swept += read::only(&self.0.ask(&sql, parameters).await?)?.get::<_, i64>(0);
            }
            Ok(swept.cast_unsigned())
        })
    }

    fn bell(&self) -> Arc<Notify> {
        self.0.bell.clone()
    }
}
