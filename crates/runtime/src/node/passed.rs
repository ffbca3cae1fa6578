//! What other nodes hold, and what they ask for here.

use super::Node;
use super::start::Definition;
use crate::message::{Reply, StartError, Started, Unavailable};
use crate::naming::Start;
use crate::peers::{Asked, Request, Response, Stray};
use perdura_engine::{ExecutionId, Moment};
use perdura_store::{Failure, Shard};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Node {
    /// This belongs to another node.
    pub(super) fn stray(&mut self, execution: ExecutionId, asked: Asked) {
        let shard = Shard::of(execution, self.shard_count);
        self.strays.push(Stray { execution, shard, asked });
    }

    /// What belongs to other nodes, since this was last asked.
    pub(crate) fn strays(&mut self) -> Vec<Stray> {
        std::mem::take(&mut self.strays)
    }

    /// Who holds which Shard, by the store.
    pub(crate) fn holders(&mut self) -> Result<BTreeMap<Shard, Arc<str>>, Failure> {
        self.reader.holders()
    }

    /// Another node asks for something on a Shard that it takes for ours. It is not passed on once more: whoever was asked
    /// first looks again.
    pub(super) fn take_passed(&mut self, request: Request, reply: Reply<Response>, moment: &Moment) {
        if let Err(why) = self.held(request.execution()) {
            return reply.send(request.refusal(why));
        }
        match request {
            Request::Start { execution, start } => {
                self.start_as(execution, &start, reply.of(Response::Started), moment);
            }
            Request::Input { execution, input } => {
                self.take_input(execution, input, reply.of(Response::Taken), moment);
            }
            Request::Watch { execution } => self.watch(execution, reply.of(Response::Ended)),
        }
    }

    /// Begins an execution under the id that its name is reserved for, unless it has begun. A request that comes after all
    /// of that is over finds the name free, or another's, and begins nothing.
    fn start_as(
        &mut self,
        id: ExecutionId,
        start: &Start,
        reply: Reply<Result<Started, StartError>>,
        moment: &Moment,
    ) {
        let definition = match self.definition(start.revision) {
            Ok(definition) => definition,
            Err(error) => return reply.send(Err(error)),
        };
        match self.may_begin(id, start, &definition) {
            Ok(true) => self.begin_start(id, start, definition, reply, moment),
            Ok(false) => self.start_again(id, start, reply),
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Whether an execution that is asked for by its id is to begin; `false`: it has begun.
    fn may_begin(
        &mut self,
        id: ExecutionId,
        start: &Start,
        definition: &Definition,
    ) -> Result<bool, StartError> {
        let unread =
            |failure: Failure| StartError::Unavailable(Unavailable::Store(failure.to_string().into()));
        if self.has_begun(id).map_err(unread)? {
            return Ok(false);
        }
        let elsewhere = Unavailable::Elsewhere(Shard::of(id, self.shard_count));
        let whose = match start.own_name() {
            Some(name) => self.reader.reserved(definition.0.machine, name).map_err(unread)?,
            None => None,
        };
        if whose != Some(id) {
            return Err(StartError::Unavailable(elsewhere));
        }
        if !self.has_room() {
            return Err(StartError::Unavailable(Unavailable::Full));
        }
        self.may_run_one_more().map_err(StartError::TooMany)?;
        Ok(true)
    }
}
