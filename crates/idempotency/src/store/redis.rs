//! A store in Redis, for services with several instances that have one already.
//!
//! Each verb is one script, so it is atomic, takes one round trip and reads the server's clock. A record is a hash; it
//! has no TTL while it runs, and expires by itself when its retention is over. Its answer is a key of its own, because
//! it may expire before the record does. Running and unknown operations are also in two sorted sets, for sweeps and
//! lists. All keys of a store have one hash tag: they are in one slot, on one node, and that node is the one to connect
//! to.
//!
//! Redis keeps acknowledged writes only if the server writes each command to disk (`appendonly yes`, `appendfsync
//! always`) and never evicts (`maxmemory-policy noeviction`). Other servers are refused, and so are those that do not
//! show their settings, unless the program accepts the risk. A failover to a replica may still lose the last commands.
//! There are no transactions to share.

mod line;
mod subscriber;

use super::wake::Bells;
use super::{Pending, Store, StoreError, Swept, Transaction};
use crate::record::{
    Claim, Claimed, Completion, Ending, Epoch, Grant, Holding, Keep, OperationId, Record, RequestTag,
    ScopeTag, Standing, Takeover,
};
use ::redis::{Client, FromRedisValue, Script, ScriptInvocation};
use bytes::Bytes;
use http::Extensions;
use jiff::Timestamp;
use line::{Line, Repeat, Trouble};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use subscriber::Subscriber;

/// Options for the use of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The prefix of its keys, and its hash tag: letters, digits, `-`, `_`, `.` and `:`.
    pub prefix: String,
    /// The time limit of connecting, and of a verb.
    pub timeout_for: Duration,
    /// Accepts a server that can lose acknowledged writes: its settings are not checked.
    pub volatile: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { prefix: "idempotency".into(), timeout_for: Duration::from_secs(5), volatile: false }
    }
}

/// A store in Redis. A clone uses the same connections.
///
/// ```no_run
/// # async fn open() -> Result<(), perdura_idempotency::store::StoreError> {
/// use perdura_idempotency::store::{Redis, redis::Options};
///
/// let store = Redis::connect("redis://app:secret@cache.internal", Options::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    prefix: String,
    line: Line,
    scripts: Scripts,
    bells: Bells,
    _subscriber: Subscriber,
}

struct Scripts {
    agree: Script,
    claim: Script,
    renew: Script,
    complete: Script,
    release: Script,
    look: Script,
    erase: Script,
    due: Script,
    sweep: Script,
    unknown: Script,
}

impl Scripts {
    fn new() -> Self {
        let verb = |code: &str| Script::new(&[include_str!("redis/common.lua"), code].concat());
        Self {
            agree: Script::new(include_str!("redis/agree.lua")),
            claim: verb(include_str!("redis/claim.lua")),
            renew: verb(include_str!("redis/renew.lua")),
            complete: verb(include_str!("redis/complete.lua")),
            release: verb(include_str!("redis/release.lua")),
            look: verb(include_str!("redis/look.lua")),
            erase: verb(include_str!("redis/erase.lua")),
            due: Script::new(include_str!("redis/due.lua")),
            sweep: verb(include_str!("redis/sweep.lua")),
            unknown: Script::new(include_str!("redis/unknown.lua")),
        }
    }
}

impl Redis {
    /// Connects as the URL says: `redis://user:password@host:port/database`.
    pub async fn connect(url: &str, options: Options) -> Result<Self, StoreError> {
        let client = Client::open(url).map_err(|error| {
            StoreError::Unfit(format!("the address of Redis cannot be read: {}", error.category()))
        })?;
        Self::with_client(client, options).await
    }

    /// Connects with a client of the program's own, which supports TLS if the program has enabled that in the `redis`
    /// crate.
    pub async fn with_client(client: Client, options: Options) -> Result<Self, StoreError> {
        let allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.:".contains(&letter);
        if options.prefix.is_empty() || options.prefix.len() > 64 || !options.prefix.bytes().all(allowed) {
            return Err(StoreError::Unfit(format!(
                "the prefix is {:?}; use up to 64 letters, digits and any of - _ . :",
                options.prefix
            )));
        }
        let line = Line::new(client.clone(), options.timeout_for);
        line.check_server(options.volatile).await?;
        let bells = Bells::default();
        let channel = format!("{{{}}}:changed", options.prefix);
        Ok(Self(Arc::new(Inner {
            _subscriber: Subscriber::start(&client, channel, bells.clone(), options.timeout_for),
            prefix: options.prefix,
            line,
            scripts: Scripts::new(),
            bells,
        })))
    }
}

impl Inner {
    /// The script, with the keys and the argument that all verbs of one operation have.
    fn call<'a>(&self, script: &'a Script, operation: OperationId) -> ScriptInvocation<'a> {
        let prefix = &self.prefix;
        let mut call = script.key(format!("{{{prefix}}}:record:{operation}"));
        call.key(format!("{{{prefix}}}:answer:{operation}"))
            .key(format!("{{{prefix}}}:epoch"))
            .key(format!("{{{prefix}}}:changed"))
            .key(self.due())
            .key(self.unknown())
            .arg(operation.to_string());
        call
    }

    /// The key of the set of operations for sweeps.
    fn due(&self) -> String {
        format!("{{{}}}:due", self.prefix)
    }

    /// The key of the set of unknown outcomes.
    fn unknown(&self) -> String {
        format!("{{{}}}:unknown", self.prefix)
    }

    /// Sweeps one operation that is due.
    async fn sweep(&self, operation: OperationId, keep: Keep) -> Result<Swept, StoreError> {
        let mut call = self.call(&self.scripts.sweep, operation);
        call.arg(micros(keep.answer_for)).arg(micros(keep.tombstone_for));
        let did: String = self.ask(operation, &call, Repeat::Never).await?;
        let mut swept = Swept::default();
        match did.as_str() {
            "lapsed" => {
                self.bells.ring(operation);
                swept.lapsed.push(operation);
            }
            "gone" => swept.records += 1,
            _ => {}
        }
        Ok(swept)
    }

    /// Runs a script about this operation.
    async fn ask<T: FromRedisValue>(
        &self,
        operation: OperationId,
        call: &ScriptInvocation<'_>,
        repeat: Repeat,
    ) -> Result<T, StoreError> {
        self.line.ask(call, repeat).await.map_err(|trouble| match trouble {
            Trouble::Damaged(what) => StoreError::Corrupt { operation, what: what.into() },
            Trouble::Store(error) => error,
        })
    }

    async fn held(
        &self,
        operation: OperationId,
        call: &ScriptInvocation<'_>,
        repeat: Repeat,
    ) -> Result<Holding, StoreError> {
        let held: bool = self.ask(operation, call, repeat).await?;
        Ok(if held { Holding::Held } else { Holding::Lost })
    }
}

/// A duration for the scripts.
fn micros(duration: Duration) -> String {
    duration.as_micros().to_string()
}

impl Store for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let mut call = self.0.scripts.agree.key(format!("{{{}}}:secret", self.0.prefix));
            call.arg(&check[..]);
            Ok(self.0.line.ask(&call, Repeat::Once).await?)
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            let takeover = match claim.takeover {
                Takeover::Allowed => "1",
                Takeover::Never => "0",
            };
            let mut call = self.0.call(&self.0.scripts.claim, claim.operation);
            call.arg(&claim.scope.0[..])
                .arg(&claim.request.0[..])
                .arg(&claim.claimant.as_bytes()[..])
                .arg(micros(claim.lease_for))
                .arg(takeover)
                .arg(micros(claim.keep.answer_for))
                .arg(micros(claim.keep.tombstone_for));
            let fields: Vec<Bytes> = self.0.ask(claim.operation, &call, Repeat::Once).await?;
            let told = Told::read(claim.operation, &fields)?;
            let Some(standing) = told.standing else {
                return Ok(Claimed::Granted(Grant {
                    epoch: told.epoch,
                    taken_over: told.taken_over,
                    first_at: told.first_at,
                }));
            };
            // An earlier detection of the lapse wakes nobody; an unnecessary wake-up is allowed.
            if matches!(standing, Standing::Unknown { .. }) {
                self.0.bells.ring(claim.operation);
            }
            let record = Record {
                scope: told.scope,
                request: told.request,
                epoch: told.epoch,
                first_at: told.first_at,
                standing,
            };
            Ok(if told.lapsed { Claimed::Lapsed(record) } else { Claimed::Found(record) })
        })
    }

    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            let mut call = self.0.call(&self.0.scripts.renew, operation);
            call.arg(epoch.0).arg(micros(lease_for));
            self.0.held(operation, &call, Repeat::Once).await
        })
    }

    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>> {
        Box::pin(async move {
            let mut call = self.0.call(&self.0.scripts.complete, completion.operation);
            call.arg(completion.epoch.0)
                .arg(micros(completion.keep.answer_for))
                .arg(micros(completion.keep.tombstone_for));
            match &completion.ending {
                Ending::Answered(answer) => {
                    call.arg(&answer[..]);
                }
                Ending::Unknown => {}
            }
            let holding = self.0.held(completion.operation, &call, Repeat::Once).await?;
            self.0.bells.ring(completion.operation);
            Ok(holding)
        })
    }

    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            let mut call = self.0.call(&self.0.scripts.release, operation);
            call.arg(epoch.0);
            let holding = self.0.held(operation, &call, Repeat::Never).await?;
            self.0.bells.ring(operation);
            Ok(holding)
        })
    }

    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>> {
        Box::pin(async move {
            let call = self.0.call(&self.0.scripts.look, operation);
            let found: Option<Vec<Bytes>> = self.0.ask(operation, &call, Repeat::Once).await?;
            let Some(fields) = found else { return Ok(None) };
            let told = Told::read(operation, &fields)?;
            let corrupt = StoreError::Corrupt { operation, what: "its state has no name".into() };
            Ok(Some(Record {
                scope: told.scope,
                request: told.request,
                epoch: told.epoch,
                first_at: told.first_at,
                standing: told.standing.ok_or(corrupt)?,
            }))
        })
    }

    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let call = self.0.call(&self.0.scripts.erase, operation);
            self.0.ask(operation, &call, Repeat::Never).await
        })
    }

    /// Redis removes expired keys by itself. The sweep removes their entries in the sets, and finds expired leases:
    /// each by one script, so that a sweep of many blocks nobody.
    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>> {
        Box::pin(async move {
            let mut call = self.0.scripts.due.key(self.0.due());
            call.arg(records_max);
            let due: Vec<String> = self.0.line.ask(&call, Repeat::Once).await?;
            let mut swept = Swept::default();
            for operation in due.iter().filter_map(|id| OperationId::parse(id)) {
                match self.0.sweep(operation, keep).await {
                    Ok(more) => swept.add(more),
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::error!(%error, "a damaged record is left where it is");
                    }
                    Err(error) if swept == Swept::default() => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "a sweep broke off");
                        break;
                    }
                }
            }
            Ok(swept)
        })
    }

    /// Skips operations that expired and were not swept yet.
    fn unknown(&self, limit: u32) -> Pending<'_, Result<Vec<(OperationId, Record)>, StoreError>> {
        Box::pin(async move {
            let (mut unknown, mut passed) = (Vec::new(), 0);
            while unknown.len() < limit as usize {
                let left = limit as usize - unknown.len();
                let mut call = self.0.scripts.unknown.key(self.0.unknown());
                call.arg(passed).arg(left);
                let found: Vec<String> = self.0.line.ask(&call, Repeat::Once).await?;
                for operation in found.iter().filter_map(|id| OperationId::parse(id)) {
                    match self.look(operation).await {
                        Ok(Some(record)) if matches!(record.standing, Standing::Unknown { .. }) => {
                            unknown.push((operation, record));
                        }
                        Ok(Some(_) | None) => {}
                        Err(error @ StoreError::Corrupt { .. }) => {
                            tracing::error!(%error, "left out of a list");
                        }
                        Err(error) => return Err(error),
                    }
                }
                if found.len() < left {
                    break;
                }
                passed += found.len();
            }
            Ok(unknown)
        })
    }

    fn changed(&self, operation: OperationId) -> Pending<'static, ()> {
        self.0.bells.heard(operation)
    }

    fn begin<'a>(
        &'a self,
        _: OperationId,
        _: Grant,
        _: &'a mut Extensions,
    ) -> Pending<'a, Result<Option<Box<dyn Transaction>>, StoreError>> {
        Box::pin(ready(Ok(None)))
    }

    fn shares_transactions(&self) -> bool {
        false
    }
}

/// The scripts' result for a record.
struct Told {
    scope: ScopeTag,
    request: RequestTag,
    epoch: Epoch,
    first_at: Timestamp,
    taken_over: bool,
    /// This claim found the expired lease.
    lapsed: bool,
    /// `None`: it is granted.
    standing: Option<Standing>,
}

impl Told {
    fn read(operation: OperationId, fields: &[Bytes]) -> Result<Self, StoreError> {
        let corrupt = |what: &'static str| StoreError::Corrupt { operation, what: what.into() };
        let field = |n: usize| fields.get(n).ok_or_else(|| corrupt("a field is missing"));
        let number = |n: usize| {
            let text = std::str::from_utf8(field(n)?).ok();
            text.and_then(|text| text.parse::<i64>().ok()).ok_or_else(|| corrupt("a field is not a number"))
        };
        let at = |n: usize| {
            Timestamp::from_microsecond(number(n)?).map_err(|_| corrupt("an instant is out of range"))
        };
        let standing = match &field(0)?[..] {
            b"granted" => None,
            b"running" => {
                let left = number(6)?.try_into().map_err(|_| corrupt("the lease is negative"))?;
                Some(Standing::Running { lease_left: Duration::from_micros(left) })
            }
            b"unknown" | b"lapsed" => Some(Standing::Unknown { at: at(6)?, expires_at: at(7)? }),
            b"completed" => {
                Some(Standing::Completed { at: at(6)?, expires_at: at(7)?, answer: field(8)?.clone() })
            }
            b"expired" => Some(Standing::Expired { at: at(6)? }),
            _ => return Err(corrupt("its state has no name")),
        };
        let scope: Result<[u8; 16], _> = field(4)?[..].try_into();
        let request: Result<[u8; 32], _> = field(5)?[..].try_into();
        Ok(Self {
            scope: ScopeTag(scope.map_err(|_| corrupt("its scope is not of 16 bytes"))?),
            request: RequestTag(request.map_err(|_| corrupt("its request is not of 32 bytes"))?),
            epoch: Epoch(number(1)?.cast_unsigned()),
            first_at: at(2)?,
            taken_over: &field(3)?[..] == b"1",
            lapsed: &field(0)?[..] == b"lapsed",
            standing,
        })
    }
}
