//! What the command line asks, and who answers it.
//!
//! [`control`] has the questions, the answers and the socket between them. [`data`] is the data as a server, a command
//! that holds it, or a command that only looks at it can be asked. [`handle`] leads from one to the other: what each
//! command does stands in a file named after its noun, and is the same whoever has the data.

pub(crate) mod activities;
pub mod control;
pub mod data;
mod executions;
mod find;
pub mod fold;
mod history;
mod ledger;
mod machines;
mod refusal;
mod registry;
mod trace;
mod upkeep;

pub use refusal::{Refusal, RefusalKind};
pub(crate) use trace::resource;

use control::{Answer, Request};
use data::Data;
use perdura_engine::{Fault, Outcome};

/// The most rows of a list.
const PAGE_MAX: u32 = 1_000;

/// Answers a request. It waits for the disk.
pub fn handle<D: Data>(data: &mut D, request: Request) -> Result<Answer, Refusal> {
    match request {
        Request::Who => {
            Ok(Answer::Who { pid: std::process::id(), version: env!("CARGO_PKG_VERSION").to_owned() })
        }
        Request::Deploy { machine, kind, definition, role } => {
            machines::deploy(data, &machine, kind, definition, role.as_deref())
        }
        Request::Start { machine, name, input, strict } => {
            executions::start(data, &executions::Starts { machine, name, input, strict })
        }
        Request::List { machine, status, after, most } => {
            executions::list(data, machine.as_deref(), status, after, most.clamp(1, PAGE_MAX))
        }
        Request::Show { execution } => executions::show(data, &execution),
        Request::History { execution, from } => history::history(data, &execution, from.max(1)),
        Request::Turns { execution, from } => history::turns(data, &execution, from.max(1)),
        Request::Trace { key } => trace::trace(data, &key),
        Request::Ledger(question) => ledger::ledger(data, &question),
        Request::Resolve(resolving) => ledger::resolve(data, resolving),
        Request::Activities => activities::list(data),
        Request::PutActivity { name } => activities::put(data, &name),
        // A server answers it before it comes here: see `control::listen`.
        Request::Poll { .. } => Err(activities::no_server()),
        Request::Succeed { token, output } => activities::answer(data, &token, Outcome::Succeeded { output }),
        Request::Fail { token, error, cause, certainty } => {
            let fault = Fault { error: error.map(Into::into), cause: cause.map(Into::into) };
            activities::answer(data, &token, Outcome::Failed { fault, certainty })
        }
        Request::Heartbeat { token } => activities::heartbeat(data, &token),
        Request::PutConnection { name, sealed } => registry::put(data, &name, sealed),
        Request::Connections => registry::list(data),
        Request::DeleteConnection { name } => registry::delete(data, &name),
        Request::Stats => upkeep::stats(data),
        Request::Stop { execution, error, cause } => executions::stop(data, &execution, error, cause),
        Request::Redrive { execution } => executions::redrive(data, &execution),
        Request::Left { execution, from } => executions::left(data, &execution, from),
        Request::GiveUp { execution } => executions::give_up(data, &execution),
        Request::Compact => upkeep::compact(data),
        Request::Cleanup { ended_for_ms, ledger_for_ms, bytes_max, dry_run } => {
            let kept = upkeep::Kept { ended_for_ms, ledger_for_ms, bytes_max };
            upkeep::cleanup(data, kept, dry_run)
        }
    }
}
