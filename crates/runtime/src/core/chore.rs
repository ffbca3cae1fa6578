//! Chores: what the loop has done in the store between two commits.
//!
//! A chore needs the store for itself, so the loop hands it over while no group is being written, and writes none until the
//! driver says what came of it.

use crate::message::{InputError, Reply, Slice, Unavailable};
use crate::node::Erasing;
use perdura_engine::ExecutionId;
use perdura_store::{CommitError, Lease, Renewal, Store, Swept};

/// Something to see to in the store while nothing is being written.
#[derive(Debug)]
pub enum Chore {
    /// Hold the Shards for longer.
    Renew(Lease, Renewal),
    /// Take away what has ended.
    Sweep(Slice, Reply<Result<Swept, Unavailable>>),
    /// Forget one that cannot be read.
    GiveUp(Lease, ExecutionId, Reply<Result<bool, InputError>>),
    /// Erase the data of what has ended.
    Erase(Lease, Erasing),
}

/// What came of a chore.
#[derive(Debug)]
pub enum Done {
    /// The lease as it is now.
    Renewed(Result<Lease, CommitError>),
    /// The caller has its answer.
    Swept,
    /// The caller has its answer.
    Erased,
    /// Nothing is left of it, or it could not be done; the caller is told when memory follows.
    GivenUp(ExecutionId, Result<bool, CommitError>, Reply<Result<bool, InputError>>),
}

impl Chore {
    /// Does it.
    pub fn see_to(self, store: &mut dyn Store) -> Done {
        match self {
            Self::Renew(mut lease, renewal) => Done::Renewed(match store.renew(&mut lease, renewal) {
                // Somebody else writes for a moment: there is time until the next try.
                Ok(()) | Err(CommitError::Busy) => Ok(lease),
                Err(error @ (CommitError::Fenced { .. } | CommitError::Lost(_))) => Err(error),
            }),
            Self::Sweep(Slice { going, ledger_before, ledger_most }, reply) => {
                let swept = store.sweep(&going, ledger_before, ledger_most, reply.origin());
                reply.send(swept.map_err(|error| Unavailable::Store(error.to_string().into())));
                Done::Swept
            }
            Self::GiveUp(lease, execution, reply) => {
                let given_up = store.give_up(&lease, execution, reply.origin());
                Done::GivenUp(execution, given_up, reply)
            }
            Self::Erase(lease, Erasing { ended, at, reply }) => {
                let erased = store.erase(&lease, &ended, at, reply.origin());
                let unavailable = |error: CommitError| Unavailable::Store(error.to_string().into());
                reply.send(erased.map_err(|error| InputError::Unavailable(unavailable(error))));
                Done::Erased
            }
        }
    }
}
