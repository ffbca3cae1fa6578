//! What is to be done to the world, as data. Each leaves only after its Turn is committed.

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

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Call a task.
    CallTask(Call),
    /// This is on record already, and whoever waited for it is gone: wait again, for a worker to take an activity, for
    /// the end of a job that was handed over. Nothing is made again.
    AwaitTask(Call),
    /// Nobody waits for this call any more: its token is void, and what can be stopped should be.
    CancelTask {
        /// The strand that called.
        strand: StrandId,
        key: EffectKey,
        /// It is a job whose end was waited for, and the job is to be stopped.
        stops_job: bool,
    },
    /// Send [`crate::Input::Timer`] when either clock comes to its time. It replaces every earlier one; one without
    /// a time takes it back.
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
    /// Tell those who listen that the status changed.
    Publish {
        /// The new status.
        status: Status,
    },
}

/// A call, complete: whoever performs it needs nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Who calls.
    pub strand: StrandId,
    /// Under which key. The same key always comes with the same input.
    pub key: EffectKey,
    /// Which attempt under this key.
    pub attempt: Attempt,
    /// What is called.
    pub resource: Resource,
    pub input: Payload,
    /// To be handed over where the answer comes by token.
    pub token: Option<TaskToken>,
    /// `Credentials`, evaluated.
    pub credentials: Option<Payload>,
    /// How long it may take.
    pub timeout_seconds: Option<u64>,
    /// How long it may be silent.
    pub heartbeat_seconds: Option<u64>,
    /// An earlier attempt under the key is known to have begun a child or a job.
    pub submitted: bool,
}

impl Call {
    /// Who answers this very attempt.
    pub fn by(&self) -> By {
        By::Key { strand: self.strand, key: self.key.clone(), attempt: Some(self.attempt) }
    }
}

/// A Distributed Map to be run: what its children are and how many at once.
#[derive(Clone, Debug, PartialEq)]
pub struct MapRunOrder {
    /// Who waits for it.
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
    /// How often it was taken up again, as its history says.
    pub redrives: u32,
    /// The state's input, after `InputPath`.
    pub input: Payload,
    /// The context object, for the selector.
    pub context: Value,
    /// The variables that the selector sees.
    pub variables: BTreeMap<Arc<str>, Payload>,
    /// How much work the selector may take for one item.
    pub item_work_max: u64,
    /// The items, a list or an object, unless they are to be read from elsewhere.
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
    /// What share of items may fail, in percent.
    pub tolerated_percentage: Option<f64>,
}

impl MapRunOrder {
    /// The time and the chance that its selector sees for one item, and the work it may take: the same whenever this
    /// run is taken up.
    pub fn dice(&self, item: u64) -> Dice {
        // Other throws than those of the order itself.
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
    /// What reads.
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
    /// What every batch carries along.
    pub input: Option<Payload>,
}

/// `ResultWriter`, evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct WriterOrder {
    /// What writes; none: the results are only transformed.
    pub resource: Option<Resource>,
    pub arguments: Payload,
    /// `WriterConfig` as written.
    pub config: Value,
}
