//! What requests and answers of `/v1` are made of, and the words in them.

use super::asked::STATUSES;
use super::shape::{Is, Shape, may, need};

pub(super) const ROLES: &[&str] = &["read", "run", "operate", "admin"];
pub(super) const TYPES: &[&str] = &["STANDARD", "EXPRESS"];
pub(super) const SORTS: &[&str] = &["start", "end"];
pub(super) const LEDGER: &[&str] = &["pending", "completed", "failed", "uncertain"];

/// The word for the old end of the audit.
pub(super) const OLDEST: &str = "oldest";
/// The words of [`perdura_store::audit::Verb`].
pub(super) const AUDIT_VERBS: &[&str] = &[
    "start", "stop", "redrive", "resolve", "answer", "adjust", "give-up", "change", "put", "delete", "sweep",
    "cut", "erase", "read", "try",
];

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
        may "kind" Is::Text, "`connection`, `activity`, `token`, `pause`"; may "name" Is::Text, "of what is registered";
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
    PAUSE "Pause" { may "now" Is::Flag, "what runs stops at its next state; without it, it goes on"; }
    PAUSED "Paused" {
        may "machine" Is::Text, "its name; absent: all machines"; need "now" Is::Flag, "what runs stops at its next state";
        need "since" Is::Instant, "when it was paused so"; may "held" Is::Whole, "how many of its executions sleep because of it";
    }
    PAUSES "Pauses" {
        need "items" Is::ListOf(&PAUSED), "what is paused, all machines together first"; need "held" Is::Whole, "executions that sleep because their machine is paused";
        need "calls" Is::Whole, "that the server makes now"; need "moving" Is::Whole, "executions that move now";
        need "waitsFor" Is::ListOf(&CALL), "some of the calls"; need "drained" Is::Flag, "everything is to stand, and stands: the server can be ended without cutting anything off";
    }
    CALL "Call" { need "execution" Is::Text, "whose it is"; need "step" Is::Text, "of the execution"; need "key" Is::Text, "under which it is made"; }
    STATS "Stats" {
        need "executions" Is::Counts, "by status"; need "ledger" Is::Counts, "by status"; need "totals" Is::Counts, "since the data was made";
        may "oldestPending" Is::Instant, "the oldest call without an answer"; need "repeatedShare" Is::Number, "of attempts";
        need "tables" Is::ListOf(&TABLE), "of the store"; need "bytes" Is::Whole, "on disk"; need "freeBytes" Is::Whole, "inside the file";
        may "paused" Is::ListOf(&PAUSED), "what is paused"; need "held" Is::Whole, "executions that sleep because their machine is paused";
    }
    TABLE "Table" { need "name" Is::Text, "its name"; need "rows" Is::Whole, "how many"; need "bytes" Is::Whole, "how large"; }
    SETTING "Setting" {
        need "name" Is::Text, "as in perdura.toml"; may "value" Is::Text, "that counts; a secret is masked"; need "from" Is::Text, "who says so";
        may "default" Is::Text, "where nobody does"; need "help" Is::Text, "for people";
    }
    BACK_UP "BackUp" { may "name" Is::Text, "of the file, without its ending; the time without it"; }
    BACKED_UP "BackedUp" { need "file" Is::Text, "in the folder for backups"; need "bytes" Is::Whole, "how large"; }
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
        need "more" Is::Flag, "a reader still looks at what was there, so that the log has some of it: ask again, under another key";
        need "rewrite" Is::Flag, "a file is too large to be written anew beside a server: parts may lie in unused places of it until `perdura compact` runs without one";
    }
    ROOM "Room" { need "freeBytes" Is::Whole, "inside the file"; need "more" Is::Flag, "ask again"; }
}

#[cfg(test)]
mod tests {
    use super::AUDIT_VERBS;
    use perdura_store::audit::Verb;
    use std::collections::BTreeSet;

    #[test]
    fn each_verb_of_the_audit_can_be_asked_for() {
        let known: BTreeSet<&str> = Verb::ALL.into_iter().map(Verb::name).collect();
        assert_eq!(AUDIT_VERBS.iter().copied().collect::<BTreeSet<_>>(), known);
    }
}
