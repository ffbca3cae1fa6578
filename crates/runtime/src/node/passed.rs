//! What other nodes hold, and what they ask for here.

use super::start::Starting;
use super::{Node, ReplyTo};
use crate::librarian::Ask;
use crate::message::Reply;
use crate::peers::{Asked, Patience, Request, Response, Stray};
use perdura_engine::{ExecutionId, Moment};
use perdura_store::Shard;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Node {
    /// This belongs to another node.
    pub(super) fn stray(&mut self, execution: ExecutionId, asked: Asked, patience: Option<Patience>) {
        let shard = Shard::of(execution, self.shard_count);
        self.strays.push(Stray { execution, shard, asked, patience });
    }

    /// What belongs to other nodes, since this was last asked.
    pub(crate) fn strays(&mut self) -> Vec<Stray> {
        std::mem::take(&mut self.strays)
    }

    /// Asks who holds which Shard.
    pub(crate) fn look_for_holders(&mut self) {
        self.asked.ask(Ask::Holders, None);
    }

    /// Who holds which Shard, if that was just read.
    pub(crate) fn holders(&mut self) -> Option<BTreeMap<Shard, Arc<str>>> {
        self.holders.take()
    }

    /// Another node asks for something on a Shard that it takes for ours. It is not passed on once more: whoever was asked
    /// first looks again.
    pub(super) fn take_passed(&mut self, request: Request, reply: Reply<Response>, moment: &Moment) {
        if let Err(why) = self.held(request.execution()) {
            return reply.send(request.refusal(why));
        }
        match request {
            Request::Start { execution, start, by } => {
                let (reply, under) = (reply.of(Response::Started).by(by), Some(execution));
                let starting = Starting { start, reply, ending: None, under, patience: None };
                self.start(Box::new(starting), &None, moment);
            }
            Request::Input { execution, input, by } => {
                self.queue(execution, input, ReplyTo::Taken(reply.of(Response::Taken).by(by)), moment);
            }
            Request::Watch { execution } => self.watch(execution, reply.of(Response::Ended), &None),
        }
    }
}
