//! Effects on the world, as data. Each leaves only after its Turn is committed.

use crate::arn;
use crate::execution::Status;
use crate::id::{Attempt, EffectKey, StrandId, TaskToken, Timestamp, Wake};
use crate::input::By;
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::{FlowIx, MachineType, StateIx};
use perdura_asl::resource::Resource;
use perdura_asl::scope::Dice;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Call a task.
    CallTask(Call),
    /// Wait again for a call that is on record already, whose process is gone: for a worker to take an activity, or for
    /// the end of a job that was handed over. The call is not repeated.
    AwaitTask(Call),
    /// Cancel this call: its token is void, and the call is stopped where possible.
    CancelTask {
        /// The strand that called.
        strand: StrandId,
        key: EffectKey,
        /// It is a job whose end was waited for, and the job must be stopped.
        stops_job: bool,
    },
    /// Send [`crate::Input::Timer`] when either clock reaches its time. It replaces every earlier timer; without times
    /// it cancels it.
    SetTimer { wake: Wake },
    /// Start the children of a Distributed Map.
    StartMapRun(Box<MapRunOrder>),
    /// End the children of a Distributed Map.
    StopMapRun {
        /// The strand that waits for it.
        strand: StrandId,
        /// Under which key it runs.
        key: EffectKey,
    },
    /// Send [`crate::Input::Continue`] soon: the Turn reached its bound.
    Continue,
    /// Notify listeners that the status changed.
    Publish {
        /// The new status.
        status: Status,
    },
}

/// A complete call: its performer needs nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The calling strand.
    pub strand: StrandId,
    /// Its key. The same key always comes with the same input.
    pub key: EffectKey,
    /// The attempt under this key.
    pub attempt: Attempt,
    /// The resource to call.
    pub resource: Resource,
    pub input: Payload,
    /// The token to hand over, if the answer comes by token.
    pub token: Option<TaskToken>,
    /// `Credentials`, evaluated.
    pub credentials: Option<Payload>,
    /// Its time limit.
    pub timeout_seconds: Option<u64>,
    /// Its heartbeat timeout.
    pub heartbeat_seconds: Option<u64>,
    /// An earlier attempt under the key is known to have begun a child or a job.
    pub submitted: bool,
}

impl Call {
    /// Addresses this attempt.
    pub fn by(&self) -> By {
        By::Key { strand: self.strand, key: self.key.clone(), attempt: Some(self.attempt) }
    }
}

/// The order for a Distributed Map: its children, and how many at once.
#[derive(Clone, Debug, PartialEq)]
pub struct MapRunOrder {
    /// The waiting strand.
    pub strand: StrandId,
    /// Children's ids follow from this key and their index.
    pub key: EffectKey,
    pub arn: Arc<str>,
    /// When it began.
    pub began_at: Timestamp,
    /// The Map state, for its selector, batcher and writer.
    pub state: StateIx,
    /// Where each child starts.
    pub flow: FlowIx,
    /// Standard or Express children.
    pub execution_type: MachineType,
    /// When the run was taken up again, if it was: only children that did not succeed run, each once since then.
    pub redriven_at: Option<Timestamp>,
    /// How often it was taken up again, according to its history.
    pub redrives: u32,
    /// The state's input, after `InputPath`.
    pub input: Payload,
    /// The context object, for the selector.
    pub context: Value,
    /// The variables that the selector sees.
    pub variables: BTreeMap<Arc<str>, Payload>,
    /// The work limit of the selector for one item.
    pub item_work_max: u64,
    /// The items, a list or an object, unless a reader reads them.
    pub items: Option<Payload>,
    /// `ItemReader`, evaluated: resource, arguments, configuration, and the most items.
    pub reader: Option<ReaderOrder>,
    /// `BatchInput`, evaluated, and the bounds of a batch.
    pub batcher: Option<BatcherOrder>,
    /// `ResultWriter`, evaluated.
    pub writer: Option<WriterOrder>,
    /// How many children at once; 0 is as many as allowed.
    pub max_concurrency: u64,
    /// How many items may fail.
    pub tolerated_count: Option<u64>,
    /// The percentage of items that may fail.
    pub tolerated_percentage: Option<f64>,
}

impl MapRunOrder {
    /// The time, the randomness and the work limit of its selector for one item: the same whenever this run is taken
    /// up.
    pub fn dice(&self, item: u64) -> Dice {
        // Other random numbers than those of the order itself.
        let bits = (!arn::map_run_bits(&self.arn)).wrapping_add(u128::from(item));
        let dice = Dice::new(self.began_at.0, bits);
        dice.allow(self.item_work_max);
        dice
    }

    /// The run's own id, which is part of its ARN.
    pub fn id(&self) -> Uuid {
        Uuid::from_u128(arn::map_run_bits(&self.arn))
    }
}

/// `ItemReader`, evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct ReaderOrder {
    /// The resource that reads.
    pub resource: Resource,
    pub arguments: Payload,
    /// `ReaderConfig` as written.
    pub config: Value,
    /// The most items; 0 is all.
    pub max_items: Option<i64>,
}

/// `ItemBatcher`, evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct BatcherOrder {
    /// The most items in a batch.
    pub max_items: Option<u64>,
    /// The most bytes in a batch.
    pub max_bytes: Option<u64>,
    /// The input that every batch has.
    pub input: Option<Payload>,
}

/// `ResultWriter`, evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct WriterOrder {
    /// The resource that writes; `None`: the results are only transformed.
    pub resource: Option<Resource>,
    pub arguments: Payload,
    /// `WriterConfig` as written.
    pub config: Value,
}
