//! What other nodes hold, and what they ask for here.

use super::start::Starting;
use super::{Node, ReplyTo};
use crate::librarian::Ask;
use crate::message::Reply;
use crate::peers::{Request, Response};
use perdura_engine::Moment;

impl Node {
    /// Asks who holds which Shard.
    pub(crate) fn look_for_holders(&mut self) {
        self.errands.ask(Ask::Holders, None);
    }

    /// Another node asks for something on a Shard that it takes for ours. It is not passed on once more: whoever was asked
    /// first looks again.
    pub(super) fn take_passed(&mut self, request: Request, reply: Reply<Response>, moment: &Moment) {
        if let Err(why) = self.shards.hold(request.execution()) {
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
