//! The commands of the command line, and the data that they are answered from.
//!
//! [`control`] has the requests, the answers and the socket between them. [`data`] is the data as a server, a command
//! that holds it, or a command that only reads it can be asked. [`handle`] carries out a request on the data: each
//! command stands in a file named after its noun, and does the same whichever process has the data.

pub(crate) mod activities;
mod audit;
pub mod control;
pub mod data;
mod erase;
pub(crate) mod executions;
mod find;
pub mod fold;
pub(crate) mod history;
pub(crate) mod ledger;
mod list;
pub(crate) mod machines;
mod pauses;
mod refusal;
mod registry;
pub(crate) mod tokens;
mod trace;
mod upkeep;

pub(crate) use find::find;
pub use history::ends;
pub use refusal::{Refusal, RefusalKind};
pub(crate) use trace::resource;

use control::{Answer, Kind, Request};
use data::Data;

/// Makes two functions of the table below: [`Request::kind`] of its first column, [`handle`] of the others.
macro_rules! commands {
    ($data:ident: $($kind:ident $name:ident $({ $($members:tt)* })? $(($all:ident))? => $does:expr;)*) => {
        impl Request {
            /// What it does to the data.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$name { .. } => Kind::$kind,)*
                }
            }
        }

        impl Request {
            /// Its name, as the audit tells it of a command without a server.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }
        }

        /// Answers a request. It waits for the disk.
        pub fn handle<D: Data>($data: &mut D, request: Request) -> Result<Answer, Refusal> {
            match request {
                $(Request::$name $({ $($members)* })? $(($all))? => $does,)*
            }
        }
    };
}

// Kind, name and members of a request, and the function that carries it out.
commands! { data:
    Looks Who => Ok(upkeep::who());
    Keeps Deploy { machine: name, kind, definition, role } => {
        let given = machines::Given { name, kind, definition, role };
        machines::deploy(data, &given, |_| Ok::<(), Refusal>(())).map(|(deployed, _)| deployed)
    };
    Starts Start { machine, name, input, strict, labels, key } =>
        executions::start(data, &executions::Starts { machine, name, input, strict, labels, key });
    Looks List(question) => list::list(data, &question);
    Looks Show { execution } => executions::show(data, &execution);
    Looks History { execution, from } => history::history(data, &execution, from.max(1));
    Looks Turns { execution, from } => history::turns(data, &execution, from.max(1));
    Looks Trace { key } => trace::trace(data, &key);
    Looks Ledger(question) => ledger::ledger(data, &question);
    Changes Resolve(resolving) => ledger::resolve(data, resolving);
    Looks Activities => activities::list(data);
    Keeps PutActivity { name } => activities::put(data, &name);
    // A server answers this without a thread, in `v1`.
    Looks Poll { .. } => Err(activities::no_server());
    Changes Succeed { token, output } => activities::succeed(data, &token, output);
    Changes Fail { token, error, cause, certainty } => activities::fail(data, &token, error, cause, certainty);
    // Only a server takes heartbeats, so a command need not lock the data to send one.
    Looks Heartbeat { token } => activities::heartbeat(data, &token);
    Keeps PutConnection { name, sealed } => registry::put(data, &name, sealed);
    Looks Connections => registry::list(data);
    Changes DeleteConnection { name } => registry::delete(data, &name);
    Keeps CreateToken(new) => tokens::create(data, new);
    Looks Tokens => tokens::list(data);
    Changes RevokeToken { id } => tokens::revoke(data, &id);
    Looks Audit(question) => audit::audit(data, &question);
    Changes Pause { machine, now } => pauses::pause(data, machine.as_deref(), now);
    Changes Resume { machine } => pauses::resume(data, machine);
    Looks Pauses => pauses::list(data);
    Looks Stats => upkeep::stats(data);
    Changes Stop { execution, error, cause } => executions::stop(data, &execution, error, cause);
    Changes Redrive { execution } => executions::redrive(data, &execution);
    Looks Left { execution, from } => executions::left(data, &execution, from);
    Changes GiveUp { execution } => executions::give_up(data, &execution);
    Changes Erase { execution } => erase::execution(data, &execution);
    Changes EraseKey { key } => erase::key(data, &key);
    Changes Compact => upkeep::compact(data);
    Changes Cleanup { ended_for_ms, ledger_for_ms, bytes_max, dry_run } =>
        upkeep::cleanup(data, upkeep::Kept { ended_for_ms, ledger_for_ms, bytes_max }, dry_run);
}
