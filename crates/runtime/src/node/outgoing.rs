//! What a node has for others, until they ask for it.

use super::Node;
use crate::audit::Witnessed;
use crate::committer::Item;
use crate::librarian::Question;
use crate::message::{InputError, Reply, Slice, Unavailable};
use crate::peers::{Asked, Patience, Stray};
use perdura_engine::{ExecutionId, Timestamp};
use perdura_store::{Erased, Shard, Swept};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Outgoing {
    /// Executions for the next group.
    pub(super) items: Vec<Item>,
    /// Those that pin old journal rows: their rows are written at the next occasion.
    pub(super) stale: Vec<ExecutionId>,
    /// Entries of the audit that stand for themselves.
    pub(super) witnessed: Vec<Witnessed>,
    pub(super) wishes: Vec<Wish>,
    /// Messages for executions that other nodes hold.
    pub(super) strays: Vec<Stray>,
    /// Who holds which Shard, as was just read.
    pub(super) holders: Option<BTreeMap<Shard, Arc<str>>>,
}

/// Something that the store is to be asked to do, between two commits.
#[derive(Debug)]
pub enum Wish {
    /// Take away what has ended.
    Sweep(Slice, Reply<Result<Swept, Unavailable>>),
    /// Forget one that cannot be read.
    GiveUp(ExecutionId, Reply<Result<bool, InputError>>),
    /// Erase the data of what has ended.
    Erase(Erasing),
}

/// Executions that are to lose their data.
#[derive(Debug)]
pub struct Erasing {
    /// Each with the end that was seen of it.
    pub(crate) ended: Vec<(ExecutionId, Timestamp)>,
    /// When that is.
    pub(crate) at: Timestamp,
    pub(crate) reply: Reply<Result<Erased, InputError>>,
}

impl Wish {
    pub(crate) fn refuse(self, why: &Unavailable) {
        match self {
            Self::Sweep(_, reply) => reply.send(Err(why.clone())),
            Self::GiveUp(_, reply) => reply.send(Err(InputError::Unavailable(why.clone()))),
            Self::Erase(erasing) => erasing.reply.send(Err(InputError::Unavailable(why.clone()))),
        }
    }
}

impl Node {
    /// This belongs to another node.
    pub(super) fn stray(&mut self, execution: ExecutionId, asked: Asked, patience: Option<Patience>) {
        let shard = self.shards.of(execution);
        self.outgoing.strays.push(Stray { execution, shard, asked, patience });
    }

    /// What is to be written although nothing was decided.
    pub(crate) fn gathered(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.outgoing.items)
    }

    /// What is to be on the audit by itself.
    pub(crate) fn witnessed(&mut self) -> Vec<Witnessed> {
        std::mem::take(&mut self.outgoing.witnessed)
    }

    /// What the store is to be asked to do.
    pub fn wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.outgoing.wishes)
    }

    /// What belongs to other nodes, since this was last asked.
    pub(crate) fn strays(&mut self) -> Vec<Stray> {
        std::mem::take(&mut self.outgoing.strays)
    }

    /// Who holds which Shard, if that was just read.
    pub(crate) fn holders(&mut self) -> Option<BTreeMap<Shard, Arc<str>>> {
        self.outgoing.holders.take()
    }

    /// What is to be read for it.
    pub fn questions(&mut self) -> Vec<Question> {
        self.errands.asked.questions()
    }

    /// Something is to be read for it.
    pub(crate) fn has_questions(&self) -> bool {
        self.errands.asked.has_questions()
    }

    /// Somebody waits for something that is being read.
    pub(crate) fn is_asking(&self) -> bool {
        self.errands.asked.has_errands()
    }
}
