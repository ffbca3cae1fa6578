//! The operations of `/v1`: one table that is the router, the OpenAPI document and the page of the API.

use super::asked::{Asked, Members, STATUSES};
use super::problem::Problem;
use super::shape::{Field, Is, Shape, may};
use super::shapes::{
    ACTIVITY, ALIAS, AUDIT_VERBS, AUDITED, BACK_UP, BACKED_UP, CLEANUP, COMPLETE, CONNECTION, CREATE_TOKEN,
    DEPLOYED, ENTRY, ERASE_KEY, ERASED, EXECUTION, FAIL, FAULT, HEARTBEAT, LEDGER, LEFT, LISTED, MACHINE,
    NOTHING, OLDEST, PAUSE, PAUSES, POLL, PUBLISH, PUT_ALIAS, PUT_CONNECTION, RESOLVE, ROOM, SERVER, SETTING,
    SORTS, START, STARTED, STARTED_MANY, STARTS, STATS, SWEPT, TAKEN, TASK, TOKEN, TRACED, TYPES, VALIDATED,
    VERSION,
};
use super::wire::CERTAINTIES;
use super::{events, executions, house, machines};
use crate::control::{AuditQuestion, LedgerQuestion, ListQuestion, NewToken, Order, Request, Resolving};
use crate::who::Role;
use perdura_engine::asl::hex;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{Certainty, LedgerStatus};
use perdura_store::audit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Put,
    Post,
    Delete,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// The body that an operation reads.
#[derive(Clone, Copy, Debug)]
pub enum Reads {
    Nothing,
    Members(&'static Shape),
    /// A definition, as it is.
    Definition,
}

/// What it answers when it is carried out.
#[derive(Clone, Copy, Debug)]
pub enum Answers {
    /// 204.
    Nothing,
    /// 200.
    A(&'static Shape),
    /// 201.
    Made(&'static Shape),
    /// 200, or 204 where there is none.
    Perhaps(&'static Shape),
    /// A page: `items`, and `cursor` where there is more.
    PageOf(&'static Shape),
    /// A page of documents that are described elsewhere.
    PageOfDocuments,
    /// JSON that is described elsewhere.
    Document,
    /// Server-sent events; 204 where there will be none.
    Events,
}

/// What an `Idempotency-Key` promises there, where a request may change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It reads, polls or tells that somebody lives: it takes no key.
    Exempt,
    /// After a crash nobody knows whether it was done, the caller is told so, and it is not done again.
    AtMostOnce,
    /// After a crash the same request is attached to what was begun.
    Durable,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::AtMostOnce => "at_most_once",
            Self::Durable => "durable",
        }
    }
}

/// Which machine an operation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// None: whoever may do it may do it with a token for some machines too.
    Nothing,
    /// The one that its path names.
    Machine,
    /// That of the execution that its path names.
    Execution,
    /// Those that name the activity of its path.
    Activity,
    /// The one that its body names.
    Start,
    /// Those that its body names.
    Starts,
    /// That of the task whose token its body has.
    Task,
    /// That of the key in its body.
    Call,
    /// That of the key in its path.
    Traced,
    /// That of each item of a list.
    Listed,
    /// All machines: nothing for a token that is for some.
    All,
}

/// How it is carried out.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// By a verb.
    Verb(fn(&Asked) -> Result<Request, Problem>),
    /// Without a thread that waits.
    Waits(super::Waits),
    /// The same; the caller may wait for the end of what it starts.
    Starts(super::Waits),
}

/// One row.
pub struct Operation {
    /// The `operationId`.
    pub name: &'static str,
    pub method: Method,
    pub path: &'static str,
    pub role: Role,
    /// Each POST has one; PUT and DELETE are the same when they are repeated, and GET only reads.
    pub mode: Option<Mode>,
    pub of: Of,
    pub query: &'static [Field],
    pub reads: Reads,
    pub answers: Answers,
    pub summary: &'static str,
    pub(super) does: Does,
}

const CURSOR: Field = may("cursor", Is::Text, "of the page before");
const LIMIT: Field = may("limit", Is::Whole, "the most items");
const TYPE: Field = may("type", Is::OneOf(TYPES), "STANDARD without it");
const NONE: &[Field] = &[];
const PAGES: &[Field] = &[CURSOR];
const LISTS: &[Field] = &[LIMIT, CURSOR];

macro_rules! operations {
    (@of) => { Of::All };
    (@of $of:ident) => { Of::$of };
    (@mode) => { None };
    (@mode $mode:ident) => { Some(Mode::$mode) };
    ($($name:ident $method:ident $([$mode:ident])? $(of $of:ident)? $path:literal $role:ident
        ($query:expr, $reads:expr) => $answers:expr, $does:expr, $summary:literal;)*) => {
        /// All of them.
        pub static OPERATIONS: &[Operation] = &[$(Operation {
            name: stringify!($name),
            method: Method::$method,
            path: $path,
            role: Role::$role,
            mode: operations!(@mode $($mode)?),
            of: operations!(@of $($of)?),
            query: $query,
            reads: $reads,
            answers: $answers,
            summary: $summary,
            does: $does,
        }),*];
    };
}

use Answers::{A, Document, Events, Made, Nothing, PageOf, PageOfDocuments, Perhaps};
use Does::{Starts, Verb, Waits};

operations! {
    describeServer Get of Nothing "/v1/server" Read (NONE, Reads::Nothing) => A(&SERVER),
        Verb(|_| Ok(Request::Who)), "Who answers.";
    listMachines Get of Listed "/v1/machines" Read (LISTS, Reads::Nothing) => PageOf(&MACHINE),
        Waits(|desk, asked| Box::pin(machines::list(desk, asked))), "Machines, by name.";
    validateMachine Post[Exempt] of Nothing "/v1/machines:validate" Read (&[TYPE], Reads::Definition) => A(&VALIDATED),
        Waits(|desk, asked| Box::pin(machines::validate(desk, asked))), "Everything that is wrong with a definition, with its place. Nothing is stored.";
    putMachine Put of Machine "/v1/machines/{machine}" Operate
        (&[TYPE, may("role", Is::Text, "the ARN of its role on AWS")], Reads::Definition) => A(&DEPLOYED),
        Waits(|desk, asked| Box::pin(machines::put(desk, asked))), "Deploy: store a definition, which counts from now on. `If-Match` with the machine's `ETag` refuses it if somebody else changed the machine.";
    describeMachine Get of Machine "/v1/machines/{machine}" Read (NONE, Reads::Nothing) => A(&MACHINE),
        Waits(|desk, asked| Box::pin(machines::describe(desk, asked))), "A machine with its definition.";
    deleteMachine Delete of Machine "/v1/machines/{machine}" Operate (NONE, Reads::Nothing) => Nothing,
        Waits(|desk, asked| Box::pin(machines::delete(desk, asked))), "Delete a machine; executions that run are stopped. `If-Match` as with PUT.";
    pauseMachine Put of Machine "/v1/machines/{machine}/pause" Operate (NONE, Reads::Members(&PAUSE)) => Nothing,
        Verb(|asked| pause(asked, Some(asked.first()))), "Pause a machine: starts are taken, and wait before their first state. What runs goes on, or with `now` stops at its next state.";
    resumeMachine Delete of Machine "/v1/machines/{machine}/pause" Operate (NONE, Reads::Nothing) => Nothing,
        Verb(|asked| Ok(Request::Resume { machine: Some(asked.first()) })), "Let a machine go on that was paused by itself.";
    listVersions Get of Machine "/v1/machines/{machine}/versions" Read (LISTS, Reads::Nothing) => PageOf(&VERSION),
        Waits(|desk, asked| Box::pin(machines::versions(desk, asked))), "Versions, the newest first.";
    publishVersion Post[AtMostOnce] of Machine "/v1/machines/{machine}/versions" Operate (NONE, Reads::Members(&PUBLISH)) => Made(&VERSION),
        Waits(|desk, asked| Box::pin(machines::publish(desk, asked))), "Publish the newest definition as a version, unless it is one.";
    deleteVersion Delete of Machine "/v1/machines/{machine}/versions/{version}" Operate (NONE, Reads::Nothing) => Nothing,
        Waits(|desk, asked| Box::pin(machines::delete_version(desk, asked))), "Delete a version that no alias leads to.";
    listAliases Get of Machine "/v1/machines/{machine}/aliases" Read (LISTS, Reads::Nothing) => PageOf(&ALIAS),
        Waits(|desk, asked| Box::pin(machines::aliases(desk, asked))), "Aliases, by name.";
    putAlias Put of Machine "/v1/machines/{machine}/aliases/{alias}" Operate (NONE, Reads::Members(&PUT_ALIAS)) => A(&ALIAS),
        Waits(|desk, asked| Box::pin(machines::put_alias(desk, asked))), "Make an alias, or let it lead elsewhere.";
    describeAlias Get of Machine "/v1/machines/{machine}/aliases/{alias}" Read (NONE, Reads::Nothing) => A(&ALIAS),
        Waits(|desk, asked| Box::pin(machines::describe_alias(desk, asked))), "Where an alias leads.";
    deleteAlias Delete of Machine "/v1/machines/{machine}/aliases/{alias}" Operate (NONE, Reads::Nothing) => Nothing,
        Waits(|desk, asked| Box::pin(machines::delete_alias(desk, asked))), "Delete an alias.";

    startExecution Post[Durable] of Start "/v1/executions" Run (NONE, Reads::Members(&START)) => Made(&STARTED),
        Starts(|desk, asked| Box::pin(executions::start(desk, asked))), "Start an execution. The same name and input again finds the one that runs; other labels are refused as another input is. `/v1/trace` finds all that followed by the `Idempotency-Key`. With `Prefer: wait=30` the answer comes when it has ended, or after 30 seconds.";
    startExecutions Post[Durable] of Starts "/v1/executions:batch" Run (NONE, Reads::Members(&STARTS)) => A(&STARTED_MANY),
        Waits(|desk, asked| Box::pin(executions::start_many(desk, asked))), "Start many executions. Each has a result of its own.";
    listExecutions Get of Listed "/v1/executions" Read
        (&[may("machine", Is::Text, "of this machine"), may("status", Is::OneOf(STATUSES), "with this status"),
          may("label", Is::Text, "with this label: `order:A-1042`"), may("namePrefix", Is::Text, "whose given name begins so"),
          may("error", Is::Text, "that ended with an error of this name"), may("since", Is::Instant, "not before this, by the time that is sorted by"),
          may("until", Is::Instant, "before this, by the same time"),
          may("sort", Is::OneOf(SORTS), "by the start without it; by the end, only those that have ended"), LIMIT, CURSOR], Reads::Nothing)
        => PageOf(&LISTED), Verb(list), "Executions, the newest first. All that is asked for holds together.";
    describeExecution Get of Execution "/v1/executions/{execution}" Read (NONE, Reads::Nothing) => A(&EXECUTION),
        Waits(|desk, asked| Box::pin(executions::describe(desk, asked))), "An execution, and where it stands. With `Prefer: wait=30` the answer comes when it has ended, or after 30 seconds.";
    deleteExecution Delete of Execution "/v1/executions/{execution}" Admin (NONE, Reads::Nothing) => Nothing,
        Verb(|asked| Ok(Request::GiveUp { execution: asked.first() })), "Delete an execution that cannot be read. One that can be read stays.";
    listHistory Get of Execution "/v1/executions/{execution}/history" Read (PAGES, Reads::Nothing) => PageOfDocuments,
        Verb(|asked| Ok(Request::History { execution: asked.first(), from: asked.cursor()?.unwrap_or(1) })), "Its events, as `GetExecutionHistory` gives them but for their times. The last page has a cursor too while there may be more.";
    followExecution Get of Execution "/v1/executions/{execution}/events" Read (NONE, Reads::Nothing) => Events,
        Waits(|desk, asked| Box::pin(events::of_execution(desk, asked))), "Its events as they happen, as server-sent events. `Last-Event-ID` goes on behind the one with that `id`. A stream ends with the execution, or after ten minutes; 204: there is no more to come.";
    followExecutions Get of Nothing "/v1/executions:events" Read (NONE, Reads::Nothing) => Events,
        Waits(|desk, _| Box::pin(async { Ok(events::of_all(desk)) })), "An event `moved` whenever executions have moved, as server-sent events: the list is to be read again. It does not tell which. A stream ends after ten minutes.";
    listTurns Get of Execution "/v1/executions/{execution}/turns" Read (PAGES, Reads::Nothing) => PageOfDocuments,
        Verb(|asked| Ok(Request::Turns { execution: asked.first(), from: asked.cursor()?.unwrap_or(1) })), "Its Turns, as they are recorded.";
    listLeft Get of Execution "/v1/executions/{execution}/left" Read (PAGES, Reads::Nothing) => PageOf(&LEFT),
        Verb(|asked| Ok(Request::Left { execution: asked.first(), from: asked.cursor()?.unwrap_or(1) })), "The stored Turns of an execution that cannot be read as a whole.";
    stopExecution Post[Durable] of Execution "/v1/executions/{execution}/stop" Operate (NONE, Reads::Members(&FAULT)) => A(&TAKEN),
        Verb(|asked| {
            let fault = asked.members(&FAULT)?;
            Ok(Request::Stop { execution: asked.first(), error: fault.text("error"), cause: fault.text("cause") })
        }), "Stop it.";
    redriveExecution Post[AtMostOnce] of Execution "/v1/executions/{execution}/redrive" Operate (NONE, Reads::Members(&NOTHING)) => A(&TAKEN),
        Verb(|asked| asked.members(&NOTHING).map(|_| Request::Redrive { execution: asked.first() })), "Run its unsuccessful part again.";

    listActivities Get of Listed "/v1/activities" Read (NONE, Reads::Nothing) => PageOf(&ACTIVITY),
        Verb(|_| Ok(Request::Activities)), "Activities that were made, and those that machines name.";
    putActivity Put of Activity "/v1/activities/{activity}" Operate (NONE, Reads::Nothing) => Nothing,
        Verb(|asked| Ok(Request::PutActivity { name: asked.first() })), "Make an activity; one that exists stays as it is.";
    pollActivity Post[Exempt] of Activity "/v1/activities/{activity}/poll" Run (NONE, Reads::Members(&POLL)) => Perhaps(&TASK),
        Waits(|desk, asked| Box::pin(executions::poll(desk, asked))), "Wait for a task, for a minute or as long as `Prefer: wait` says; 204: there was none.";
    completeTask Post[Durable] of Task "/v1/tasks/complete" Run (NONE, Reads::Members(&COMPLETE)) => Nothing,
        Verb(|asked| {
            let done = asked.members(&COMPLETE)?;
            Ok(Request::Succeed { token: done.needed("token"), output: done.document("output")?.unwrap_or_default() })
        }), "A task is done. The same answer twice is one.";
    failTask Post[Durable] of Task "/v1/tasks/fail" Run (NONE, Reads::Members(&FAIL)) => Nothing, Verb(fail), "A task failed. The same answer twice is one.";
    heartbeatTask Post[Exempt] of Task "/v1/tasks/heartbeat" Run (NONE, Reads::Members(&HEARTBEAT)) => Nothing,
        Verb(|asked| Ok(Request::Heartbeat { token: asked.members(&HEARTBEAT)?.needed("token") })), "A sign of life.";

    listLedger Get of Listed "/v1/ledger" Read
        (&[may("status", Is::OneOf(LEDGER), "with this status"), may("stuck", Is::Flag, "pending for long, and nobody tries it"),
          may("execution", Is::Text, "all of this execution, completed ones included"), may("key", Is::Text, "in either form"), LIMIT, CURSOR], Reads::Nothing)
        => PageOf(&ENTRY), Verb(ledger), "What was sent under which key, the oldest first.";
    resolveCall Post[AtMostOnce] of Call "/v1/ledger/resolve" Operate (NONE, Reads::Members(&RESOLVE)) => A(&TAKEN),
        Verb(resolve), "A person says how a call in doubt went: exactly one of `completed`, `failed`, `again`.";
    traceKey Get of Traced "/v1/trace/{key}" Read (NONE, Reads::Nothing) => A(&TRACED),
        Verb(|asked| Ok(Request::Trace { key: asked.first() })), "The story of a key in any form: the `Idempotency-Key` of a request, readable key, wire key, task token, `traceparent`, execution.";
    listAudit Get of All "/v1/audit" Admin
        (&[may("since", Is::Instant, "at or after this"), may("until", Is::Instant, "at or before this"),
          may("who", Is::Text, "the principal"), may("verb", Is::OneOf(AUDIT_VERBS), "what was done"),
          may("execution", Is::Text, "to this execution"), may("machine", Is::Text, "to this machine, and to its executions where the entry names it"),
          may("key", Is::Text, "the key of the request"), may("order", Is::OneOf(&[OLDEST, "newest"]), "which comes first; the newest, if it is not said"), LIMIT, CURSOR], Reads::Nothing)
        => PageOf(&AUDITED), Verb(listed_audit), "Who did what: see audit.md. A page may be empty and have a cursor: there is more to look through.";
    pauseAll Put "/v1/pause" Operate (NONE, Reads::Members(&PAUSE)) => Nothing,
        Verb(|asked| pause(asked, None)), "Pause all machines.";
    resumeAll Delete "/v1/pause" Operate (NONE, Reads::Nothing) => Nothing,
        Verb(|_| Ok(Request::Resume { machine: None })), "Let all machines go on but those that were paused by themselves.";
    listPauses Get "/v1/pause" Read (NONE, Reads::Nothing) => A(&PAUSES),
        Verb(|_| Ok(Request::Pauses)), "What is paused, and what is under way.";
    drain Post[Exempt] "/v1/drain" Operate (NONE, Reads::Members(&NOTHING)) => A(&PAUSES),
        Waits(|desk, asked| Box::pin(executions::drain(desk, asked))), "Pause all machines with `now`, and wait until nothing is under way, for as long as `Prefer: wait` says: `drained` tells whether it came to that. `DELETE /v1/pause` lets them go on.";
    readStats Get "/v1/stats" Read (NONE, Reads::Nothing) => A(&STATS), Verb(|_| Ok(Request::Stats)), "Counts and sizes.";

    listSettings Get "/v1/settings" Admin (&[may("prefix", Is::Text, "whose names begin so: `retention.`")], Reads::Nothing) => PageOf(&SETTING),
        Waits(|desk, asked| Box::pin(async move { Ok(house::settings(desk, &asked)) })), "What is configured, retention included, and where it is said. Secrets are masked.";
    createBackup Post[AtMostOnce] "/v1/backup" Admin (NONE, Reads::Members(&BACK_UP)) => Made(&BACKED_UP),
        Waits(|desk, asked| Box::pin(house::back_up(desk, asked))), "Copy one moment of everything into `serve.backup_folder`, while work goes on. The answer comes when it is complete and on disk.";
    listConnections Get "/v1/connections" Admin (NONE, Reads::Nothing) => PageOf(&CONNECTION),
        Verb(|_| Ok(Request::Connections)), "Connections, encrypted.";
    putConnection Put "/v1/connections/{connection}" Admin (NONE, Reads::Members(&PUT_CONNECTION)) => Nothing,
        Verb(put_connection), "Store a connection, or replace it.";
    deleteConnection Delete "/v1/connections/{connection}" Admin (NONE, Reads::Nothing) => Nothing,
        Verb(|asked| Ok(Request::DeleteConnection { name: asked.first() })), "Delete a connection.";
    listTokens Get "/v1/tokens" Admin (NONE, Reads::Nothing) => PageOf(&TOKEN),
        Verb(|_| Ok(Request::Tokens)), "Tokens, ended ones included; a secret is never kept.";
    createToken Post[Durable] "/v1/tokens" Admin (NONE, Reads::Members(&CREATE_TOKEN)) => A(&TOKEN),
        Verb(create_token), "Keep a token that the caller has made; `perdura token create` makes one.";
    revokeToken Delete "/v1/tokens/{token}" Admin (NONE, Reads::Nothing) => A(&TOKEN),
        Verb(|asked| Ok(Request::RevokeToken { id: asked.first() })), "Revoke a token.";
    eraseExecution Post[Durable] of Execution "/v1/executions/{execution}/erase" Admin (NONE, Reads::Members(&NOTHING)) => A(&ERASED),
        Verb(|asked| asked.members(&NOTHING).map(|_| Request::Erase { execution: asked.first() })), "Erase the data of an execution that has ended, and of all that it started. Ids, names, times and keys stay.";
    eraseKey Post[Durable] "/v1/erase" Admin (NONE, Reads::Members(&ERASE_KEY)) => A(&ERASED),
        Verb(|asked| Ok(Request::EraseKey { key: asked.members(&ERASE_KEY)?.needed("key") })), "The same of all that began with a client's key.";
    cleanUp Post[Durable] "/v1/cleanup" Admin (NONE, Reads::Members(&CLEANUP)) => A(&SWEPT),
        Verb(cleanup), "Delete what is too old, for two seconds; `more` says that there is more.";
    compact Post[Durable] "/v1/compact" Admin (NONE, Reads::Members(&NOTHING)) => A(&ROOM),
        Verb(|asked| asked.members(&NOTHING).map(|_| Request::Compact)), "Give free pages back to the disk, for two seconds; `more` says that there are more.";
    readOpenapi Get of Nothing "/openapi.json" Read (NONE, Reads::Nothing) => Document,
        Waits(|_, _| Box::pin(async { Ok(super::Told::json(super::openapi::document().to_string())) })), "This API as an OpenAPI document.";
}

/// Rows of a page where nobody says how many.
const USUAL: u32 = 100;

fn list(asked: &Asked) -> Result<Request, Problem> {
    let text = |name: &str| asked.query(name).map(str::to_owned);
    Ok(Request::List(ListQuestion {
        machine: text("machine"),
        status: asked.status(),
        label: text("label"),
        name_prefix: text("namePrefix"),
        error: text("error"),
        since: asked.instant("since"),
        until: asked.instant("until"),
        sort: if asked.query("sort") == Some("end") { Order::End } else { Order::Start },
        after: asked.cursor()?,
        most: asked.limit(USUAL)?,
    }))
}

fn pause(asked: &Asked, machine: Option<String>) -> Result<Request, Problem> {
    Ok(Request::Pause { machine, now: asked.members(&PAUSE)?.flag("now") })
}

fn fail(asked: &Asked) -> Result<Request, Problem> {
    let failed = asked.members(&FAIL)?;
    let word = failed.text("certainty");
    let certainty = CERTAINTIES.iter().find(|(known, _)| word.as_deref() == Some(*known));
    Ok(Request::Fail {
        token: failed.needed("token"),
        error: failed.text("error"),
        cause: failed.text("cause"),
        certainty: certainty.map_or(Certainty::Ambiguous, |(_, certainty)| *certainty),
    })
}

fn ledger(asked: &Asked) -> Result<Request, Problem> {
    let status = asked.query("status").and_then(|word| match word {
        "pending" => Some(LedgerStatus::Pending),
        "completed" => Some(LedgerStatus::Completed),
        "failed" => Some(LedgerStatus::Failed),
        "uncertain" => Some(LedgerStatus::Uncertain),
        _ => None,
    });
    Ok(Request::Ledger(LedgerQuestion {
        status,
        stuck: asked.flag("stuck"),
        execution: asked.query("execution").map(str::to_owned),
        key: asked.query("key").map(str::to_owned),
        after: asked.cursor()?,
        most: asked.limit(USUAL)?,
    }))
}

fn listed_audit(asked: &Asked) -> Result<Request, Problem> {
    let text = |name: &str| asked.query(name).map(str::to_owned);
    let verb = |word| audit::Verb::ALL.into_iter().find(|verb| verb.name() == word);
    Ok(Request::Audit(AuditQuestion {
        since: asked.instant("since"),
        until: asked.instant("until"),
        who: text("who"),
        verb: asked.query("verb").and_then(verb),
        execution: text("execution"),
        machine: text("machine"),
        key: text("key"),
        oldest_first: asked.query("order") == Some(OLDEST),
        after: asked.cursor()?,
        most: asked.limit(USUAL)?,
    }))
}

fn resolve(asked: &Asked) -> Result<Request, Problem> {
    let said = asked.members(&RESOLVE)?;
    let failed = said.inner("failed").map(|fault: Members| (fault.needed("error"), fault.text("cause")));
    Ok(Request::Resolve(Resolving {
        key: said.needed("key"),
        completed: said.document("completed")?,
        failed,
        again: said.flag("again"),
        reason: said.needed("reason"),
    }))
}

fn put_connection(asked: &Asked) -> Result<Request, Problem> {
    let sealed = hex::decode(&asked.members(&PUT_CONNECTION)?.needed("sealed"));
    let sealed = sealed.ok_or_else(|| Problem::invalid("sealed is to be bytes in hexadecimal"))?;
    Ok(Request::PutConnection { name: asked.first(), sealed })
}

fn create_token(asked: &Asked) -> Result<Request, Problem> {
    let new = asked.members(&CREATE_TOKEN)?;
    let role = Role::read(&new.needed("role"));
    Ok(Request::CreateToken(NewToken {
        id: new.needed("id"),
        hash: new.needed("hash"),
        name: new.needed("name"),
        role: role.ok_or_else(|| Problem::invalid("there is no such role"))?,
        tenant: new.needed("tenant"),
        machines: new.text("machines"),
        ends_in_ms: new.whole("endsInMs"),
    }))
}

fn cleanup(asked: &Asked) -> Result<Request, Problem> {
    let kept = asked.members(&CLEANUP)?;
    let bytes_max = kept.whole("bytesMax").map(u64::try_from).transpose();
    Ok(Request::Cleanup {
        ended_for_ms: kept.whole("endedForMs").unwrap_or_default(),
        ledger_for_ms: kept.whole("ledgerForMs").unwrap_or_default(),
        bytes_max: bytes_max.map_err(|_| Problem::invalid("bytesMax cannot be negative"))?,
        dry_run: kept.flag("dryRun"),
    })
}

/// The type that a query names.
pub(super) fn kind(asked: &Asked) -> MachineType {
    if asked.query("type") == Some("EXPRESS") { MachineType::Express } else { MachineType::Standard }
}
