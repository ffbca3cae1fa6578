//! The operations of `/v1`: one table that is the router, the OpenAPI document and the page of the API.

use super::asked::{Asked, Members, STATUSES};
use super::problem::Problem;
use super::shape::{Field, Is, Shape, may, need};
use super::wire::CERTAINTIES;
use super::{events, executions, machines};
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

macro_rules! shapes {
    ($($id:ident $name:literal { $($kind:ident $field:literal $is:expr, $about:literal;)* })*) => {
        $(pub(super) static $id: Shape = Shape { name: $name, fields: &[$($kind($field, $is, $about)),*] };)*
    };
}

shapes! {
    SERVER "Server" {
        need "pid" Is::Whole, "its process"; need "version" Is::Text, "of perdura";
    }
    MACHINE "Machine" {
        need "name" Is::Text, "its name"; need "arn" Is::Text, "its ARN"; need "type" Is::OneOf(TYPES), "how it runs on AWS";
        need "status" Is::OneOf(&["ACTIVE", "DELETING"]), "whether it takes executions";
        need "createdAt" Is::Instant, "when it was made"; need "revision" Is::Whole, "its newest definition";
        may "definition" Is::Document, "absent in lists";
        may "role" Is::Text, "the ARN of its role on AWS";
    }
    DEPLOYED "Deployed" {
        need "machine" Is::Text, "its name"; need "arn" Is::Text, "its ARN"; need "kind" Is::OneOf(TYPES), "how it runs on AWS";
        may "revision" Is::Whole, "the number of this definition";
        need "createdAt" Is::Instant, "when this definition was first stored";
        may "warnings" Is::ListOf(&DOUBT), "what of it this server cannot run";
    }
    DOUBT "Doubt" {
        need "code" Is::Text, "a code of docs/diagnostics.md"; need "message" Is::Text, "what is wrong";
        need "location" Is::Text, "where in the definition"; may "hint" Is::Text, "what to do";
    }
    VALIDATED "Validated" {
        need "result" Is::OneOf(&["OK", "FAIL"]), "whether it could be deployed";
        need "diagnostics" Is::ListOf(&DIAGNOSTIC), "in the order of the text";
    }
    DIAGNOSTIC "Diagnostic" {
        need "severity" Is::OneOf(&["ERROR", "WARNING"]), "an error keeps it from being deployed";
        need "code" Is::Text, "a code of docs/diagnostics.md"; need "message" Is::Text, "what is wrong";
        may "location" Is::Text, "where in the definition"; may "line" Is::Whole, "from 1"; may "column" Is::Whole, "from 1";
        may "endLine" Is::Whole, "where it ends"; may "endColumn" Is::Whole, "where it ends"; may "hint" Is::Text, "what to do";
    }
    VERSION "Version" {
        need "arn" Is::Text, "its ARN"; need "version" Is::Whole, "its number"; need "createdAt" Is::Instant, "when it was published";
    }
    PUBLISH "Publish" { may "description" Is::Text, "for people"; }
    ALIAS "Alias" {
        need "name" Is::Text, "its name"; need "arn" Is::Text, "its ARN"; may "description" Is::Text, "for people";
        may "routes" Is::ListOf(&ROUTE), "where it leads; absent in lists"; need "createdAt" Is::Instant, "when it was made";
    }
    PUT_ALIAS "PutAlias" {
        need "routes" Is::ListOf(&ROUTE), "one or two, whose weights are 100 together"; may "description" Is::Text, "for people";
    }
    ROUTE "Route" { need "version" Is::Whole, "of the machine"; need "weight" Is::Whole, "percent of the starts"; }
    START "Start" {
        need "machine" Is::Text, "name or ARN; `name:3` is a version, `name:live` an alias";
        may "name" Is::Text, "its id without it";
        may "input" Is::Document, "an empty object without it"; may "strict" Is::Flag, "AWS's limits hold";
        may "labels" Is::Pairs, "what it is found by: at most 16";
        may "rootKey" Is::Text, "the key of the request that led to it; the `Idempotency-Key` without it";
    }
    STARTS "StartMany" { need "executions" Is::ListOf(&START), "at most 100"; }
    STARTED "Started" {
        need "id" Is::Text, "its id"; need "arn" Is::Text, "its ARN"; need "name" Is::Text, "its name";
        need "machine" Is::Text, "its machine"; need "status" Is::OneOf(STATUSES), "how it stands";
        need "startedAt" Is::Instant, "when it began"; may "labels" Is::Pairs, "those of this request"; may "fresh" Is::Flag, "whether this request began it";
        need "performs" Is::Flag, "whether a server performs its calls now";
        may "endedAt" Is::Instant, "after `Prefer: wait`"; may "output" Is::Document, "after `Prefer: wait`";
        may "error" Is::Text, "after `Prefer: wait`"; may "cause" Is::Text, "after `Prefer: wait`";
    }
    STARTED_MANY "StartedMany" { need "items" Is::ListOf(&STARTED_ONE), "in the order of the request"; }
    STARTED_ONE "StartedOne" {
        need "status" Is::Whole, "201, or the status of the problem"; may "execution" Is::A(&STARTED), "what was started";
        may "problem" Is::A(&PROBLEM), "why it was not";
    }
    PROBLEM "Problem" {
        need "type" Is::Text, "a URN of the code"; need "title" Is::Text, "the code in words"; need "status" Is::Whole, "of HTTP";
        need "code" Is::Text, "for programs"; may "detail" Is::Text, "what is wrong here"; may "remedy" Is::Text, "what to do";
        may "reason" Is::Text, "about the `Idempotency-Key`: see docs/idempotency.md"; may "next" Is::OneOf(&["same_key", "new_key", "stop"]), "what to do about it";
        may "operation" Is::Text, "the id of the request that came first"; may "state" Is::Text, "how that one stands";
    }
    LISTED "Listed" {
        need "id" Is::Text, "its id"; need "name" Is::Text, "its name, or its id"; need "machine" Is::Text, "its machine";
        need "status" Is::OneOf(STATUSES), "how it stands"; need "startedAt" Is::Instant, "when it began";
        may "endedAt" Is::Instant, "when it ended"; need "redrives" Is::Whole, "how often it was redriven";
        may "labels" Is::Pairs, "what it was started with"; may "error" Is::Text, "why it failed";
        may "erasedAt" Is::Instant, "when its data was erased";
    }
    EXECUTION "Execution" {
        need "id" Is::Text, "its id"; need "arn" Is::Text, "its ARN"; need "name" Is::Text, "its name, or its id";
        need "machine" Is::Text, "its machine"; need "status" Is::OneOf(STATUSES), "how it stands";
        need "startedAt" Is::Instant, "when it began"; may "endedAt" Is::Instant, "when it ended";
        need "redrives" Is::Whole, "how often it was redriven"; may "labels" Is::Pairs, "what it was started with";
        may "rootKey" Is::Text, "the client's key that it began with, at first or second hand"; may "turns" Is::Whole, "how many";
        may "events" Is::Whole, "how many"; need "input" Is::Document, "what it was given"; may "output" Is::Document, "if it succeeded";
        may "error" Is::Text, "why it failed"; may "cause" Is::Text, "why it failed";
        need "standing" Is::ListOf(&STANDING), "where each line of control stands"; may "wakesAt" Is::Instant, "its next timer";
        may "parked" Is::Text, "why it was set aside"; may "erasedAt" Is::Instant, "when its data was erased";
    }
    STANDING "Standing" {
        need "state" Is::Text, "with its index in Map and Parallel"; need "doing" Is::OneOf(&["calling", "waiting", "retrying", "held", "running", "ready"]), "what it does there";
        need "since" Is::Instant, "when it entered the state"; may "until" Is::Instant, "when it goes on, or times out";
        may "key" Is::Text, "of its call"; need "live" Is::Flag, "whether this process makes the call"; need "retries" Is::Whole, "so far";
    }
    LEFT "LeftTurn" { need "turn" Is::Whole, "its number"; need "body" Is::Text, "as stored"; }
    FAULT "Fault" { may "error" Is::Text, "a name"; may "cause" Is::Text, "for people"; }
    NOTHING "Nothing" {}
    TAKEN "Taken" {
        need "id" Is::Text, "the execution"; may "ignored" Is::Text, "why it changed nothing";
        need "status" Is::OneOf(STATUSES), "how it stands now"; need "performs" Is::Flag, "whether a server performs its calls now";
    }
    ACTIVITY "Activity" { need "name" Is::Text, "its name"; need "machines" Is::Texts, "whose newest definition names it"; }
    POLL "Poll" { may "worker" Is::Text, "who asks, for the history"; }
    TASK "Task" {
        need "token" Is::Text, "to be given back with the answer"; need "key" Is::Text, "of its effect";
        need "wireKey" Is::Text, "the same as a UUID, for the receiver"; need "input" Is::Document, "of the step";
    }
    COMPLETE "Complete" { need "token" Is::Text, "of the task"; need "output" Is::Document, "its result"; }
    FAIL "Fail" {
        need "token" Is::Text, "of the task"; may "error" Is::Text, "a name that Retry and Catch match"; may "cause" Is::Text, "for people";
        may "certainty" Is::OneOf(&["refused", "notSent", "ambiguous"]), "whether it may have been performed: ambiguous without it";
    }
    HEARTBEAT "Heartbeat" { need "token" Is::Text, "of the task"; }
    ENTRY "LedgerEntry" {
        need "key" Is::Text, "as people read it"; need "wireKey" Is::Text, "as it was sent"; need "execution" Is::Text, "whose it is";
        need "step" Is::Text, "of the execution"; need "round" Is::Whole, "of the step";
        need "status" Is::OneOf(LEDGER), "what is known"; need "startedAt" Is::Instant, "when it was first sent";
        may "completedAt" Is::Instant, "when it was settled"; may "result" Is::Text, "JSON"; may "error" Is::Text, "error and cause";
    }
    AUDITED "AuditEntry" {
        need "chain" Is::Text, "`shard-0`, or `catalog`"; need "number" Is::Whole, "in its chain, from 1";
        need "at" Is::Instant, "when it was asked for"; need "principal" Is::Text, "a token's name, an access key's id, `owner`, or `perdura` for the server itself";
        need "tenant" Is::Text, "the token's"; need "role" Is::Text, "that the caller has";
        need "door" Is::OneOf(&["aws", "v1", "socket", "command", "task", "chore", "program"]), "by which way it came in";
        may "from" Is::Text, "the address of the peer"; need "operation" Is::Text, "as the door calls it";
        may "key" Is::Text, "the client's key of the request"; need "verb" Is::OneOf(AUDIT_VERBS), "what was done";
        need "what" Is::OneOf(&["execution", "executions", "map-run", "machine", "registered", "key", "audit", "installation"]), "to what; the members that follow name it";
        may "execution" Is::Text, "its id"; may "executions" Is::Texts, "their ids"; may "mapRun" Is::Text, "its id"; may "machine" Is::Text, "its name";
        may "kind" Is::Text, "`connection`, `activity`, `token`"; may "name" Is::Text, "of what is registered";
        may "before" Is::Document, "how it stood"; may "after" Is::Document, "how it stands"; may "turn" Is::Whole, "the execution's Turn that did it";
        need "result" Is::OneOf(&["done", "unchanged", "refused"]), "what came of it"; may "why" Is::Text, "if it was not done";
    }
    RESOLVE "Resolve" {
        need "key" Is::Text, "as people read it"; may "completed" Is::Document, "it was performed, with this result";
        may "failed" Is::A(&FAULT), "it was certainly not performed"; may "again" Is::Flag, "it is to be called again";
        need "reason" Is::Text, "how the person knows";
    }
    TRACED "Traced" {
        need "by" Is::OneOf(&["key", "wireKey", "token", "traceParent", "execution", "rootKey"]), "the form of the key";
        need "execution" Is::Document, "whose key it is"; need "steps" Is::Document, "its calls, and what happened to each";
        may "began" Is::ListOf(&TRACED_START), "all that the same request began, at first and second hand, the oldest first";
        need "more" Is::Flag, "whether there are more steps";
    }
    TRACED_START "TracedStart" {
        need "id" Is::Text, "its id"; need "name" Is::Text, "its name, or its id"; need "machine" Is::Text, "its machine";
        need "status" Is::OneOf(STATUSES), "how it stands"; need "startedAt" Is::Instant, "when it began";
    }
    STATS "Stats" {
        need "executions" Is::Counts, "by status"; need "ledger" Is::Counts, "by status"; need "totals" Is::Counts, "since the data was made";
        may "oldestPending" Is::Instant, "the oldest call without an answer"; need "repeatedShare" Is::Number, "of attempts";
        need "tables" Is::ListOf(&TABLE), "of the store"; need "bytes" Is::Whole, "on disk"; need "freeBytes" Is::Whole, "inside the file";
    }
    TABLE "Table" { need "name" Is::Text, "its name"; need "rows" Is::Whole, "how many"; need "bytes" Is::Whole, "how large"; }
    CONNECTION "Connection" {
        need "name" Is::Text, "its name"; need "createdAt" Is::Instant, "when it was stored"; need "sealed" Is::Text, "encrypted, in hexadecimal";
    }
    PUT_CONNECTION "PutConnection" { need "sealed" Is::Text, "encrypted, in hexadecimal"; }
    TOKEN "Token" {
        need "id" Is::Text, "its id"; need "name" Is::Text, "for people"; need "role" Is::OneOf(ROLES), "what its holder may do";
        need "tenant" Is::Text, "whose keys are its holder's"; need "principal" Is::Text, "its holder";
        may "machines" Is::Text, "only machines whose names begin so"; need "createdAt" Is::Instant, "when it was made";
        may "endsAt" Is::Instant, "when it ends"; may "revokedAt" Is::Instant, "when it was revoked";
        may "lastUsedAt" Is::Instant, "when it was used last, to the minute";
        need "hash" Is::Text, "the SHA-256 of the secret, in hexadecimal";
    }
    CREATE_TOKEN "CreateToken" {
        need "id" Is::Text, "made by the caller"; need "hash" Is::Text, "the SHA-256 of the secret, in hexadecimal";
        need "name" Is::Text, "for people"; need "role" Is::OneOf(ROLES), "what its holder may do"; need "tenant" Is::Text, "whose keys are its holder's";
        may "machines" Is::Text, "only machines whose names begin so"; may "endsInMs" Is::Whole, "without it, it has no end";
    }
    CLEANUP "Cleanup" {
        need "endedForMs" Is::Whole, "executions that ended longer ago go"; need "ledgerForMs" Is::Whole, "and so do their ledger rows";
        may "bytesMax" Is::Whole, "the most bytes of the data"; may "dryRun" Is::Flag, "only count";
    }
    SWEPT "Swept" { need "executions" Is::Whole, "that went"; need "ledger" Is::Whole, "rows that went"; need "more" Is::Flag, "ask again"; }
    ERASE_KEY "EraseKey" { need "key" Is::Text, "the `Idempotency-Key` or `rootKey` that all of it began with"; }
    ERASED "Erased" {
        need "executions" Is::Whole, "that had data until now"; need "of" Is::Whole, "that belong together; the others were erased before";
        need "ledger" Is::Whole, "rows that had a result or an error"; need "answers" Is::Whole, "stored answers to requests with a key";
        need "more" Is::Flag, "a reader still looks at what was there, so that the log has some of it: ask again";
        need "rewrite" Is::Flag, "a file is too large to be written anew beside a server: parts may lie in unused places of it until `perdura compact` runs without one";
    }
    ROOM "Room" { need "freeBytes" Is::Whole, "inside the file"; need "more" Is::Flag, "ask again"; }
}

const ROLES: &[&str] = &["read", "run", "operate", "admin"];
const TYPES: &[&str] = &["STANDARD", "EXPRESS"];
const SORTS: &[&str] = &["start", "end"];
const LEDGER: &[&str] = &["pending", "completed", "failed", "uncertain"];

/// The word for the old end of the audit.
pub(super) const OLDEST: &str = "oldest";
/// The words of [`perdura_store::audit::Verb`].
const AUDIT_VERBS: &[&str] = &[
    "start", "stop", "redrive", "resolve", "answer", "adjust", "give-up", "change", "put", "delete", "sweep",
    "cut", "read", "try",
];
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
    readStats Get "/v1/stats" Read (NONE, Reads::Nothing) => A(&STATS), Verb(|_| Ok(Request::Stats)), "Counts and sizes.";

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
