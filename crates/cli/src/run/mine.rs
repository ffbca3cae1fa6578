//! Performs for one execution and its children, and leaves the calls of all others as they are: this process may not
//! know how to make them, and they are made by the next one that does.

use perdura_asl::json::Payload;
use perdura_asl::resource::Resource;
use perdura_engine::{EffectKey, ExecutionId, Policy, StrandId};
use perdura_runtime::{Door, Order, Performer, ReadOrder, WriteOrder};
use perdura_store::record::TurnBody;
use perdura_store::{Failure, FailureKind, Reader};
use perdura_tasks::Tasks;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;

/// Cloning shares.
#[derive(Clone)]
pub(super) struct Mine(Arc<Inner>);

struct Inner {
    tasks: Tasks,
    handle: Handle,
    orders: Mutex<Orders>,
}

#[derive(Default)]
struct Orders {
    /// Whose calls are made: the one that is meant and, as they turn up, its children.
    family: BTreeSet<ExecutionId>,
    /// Where lineages are looked up, once somebody is meant.
    door: Option<Door>,
    left: Vec<Order>,
}

impl Mine {
    pub(super) fn new(tasks: Tasks, handle: Handle) -> Self {
        Self(Arc::new(Inner { tasks, handle, orders: Mutex::default() }))
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This one is meant; what it and its children have asked for already is done now.
    pub(super) fn choose(&self, id: ExecutionId, door: &Door) {
        let mut orders = self.orders();
        orders.door = Some(door.clone());
        let left: BTreeSet<ExecutionId> = orders.left.iter().map(|order| order.answer.execution()).collect();
        drop(orders);
        self.belongs(id);
        for other in left.into_iter().filter(|other| *other != id) {
            self.look_up(other, door.clone());
        }
    }

    /// Makes the calls of one of the family.
    fn belongs(&self, id: ExecutionId) {
        let mut orders = self.orders();
        orders.family.insert(id);
        let mine = orders.left.extract_if(.., |order| order.answer.execution() == id).collect::<Vec<_>>();
        drop(orders);
        for order in mine {
            self.0.tasks.perform(order);
        }
    }

    /// Whether it is a child, of whichever degree, is read off the thread that decides.
    fn look_up(&self, id: ExecutionId, door: Door) {
        let mine = self.clone();
        self.0.handle.spawn_blocking(move || {
            let mut ancestor = id;
            loop {
                if mine.orders().family.contains(&ancestor) {
                    return mine.belongs(id);
                }
                match door.read(|reader| parent_of(reader, ancestor)) {
                    Ok(Some(parent)) => ancestor = parent,
                    Ok(None) => return,
                    Err(error) => {
                        return tracing::error!(execution = %id, %error, "whose child it is cannot be read");
                    }
                }
            }
        });
    }

    /// Nobody is answered any more.
    pub(super) fn forget(&self) {
        self.orders().left.clear();
    }
}

/// The execution whose step or Map Run started this one.
fn parent_of(reader: &mut dyn Reader, id: ExecutionId) -> Result<Option<ExecutionId>, Failure> {
    let Some(first) = reader.turns(id, 1, 1)?.into_iter().next() else { return Ok(None) };
    let body = TurnBody::read(&first.body).map_err(|damage| Failure {
        what: format!("reading the first Turn of {id}"),
        why: damage.to_string(),
        kind: FailureKind::Corrupt,
    })?;
    let Some(begun) = body.begun else { return Ok(None) };
    if let Some(key) = begun.parent {
        return Ok(key.execution());
    }
    match begun.child {
        Some(child) => Ok(reader.map_run(child.run)?.map(|run| run.execution)),
        None => Ok(None),
    }
}

impl Performer for Mine {
    fn perform(&self, order: Order) {
        let id = order.answer.execution();
        let mut orders = self.orders();
        if orders.family.contains(&id) {
            drop(orders);
            return self.0.tasks.perform(order);
        }
        orders.left.push(order);
        let door = orders.door.clone();
        drop(orders);
        if let Some(door) = door {
            self.look_up(id, door);
        }
    }

    fn cancel(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey) {
        let is_meant = |order: &mut Order| {
            order.answer.execution() == execution && order.call.strand == strand && order.call.key == *key
        };
        self.orders().left.extract_if(.., is_meant).for_each(|order| order.answer.withdraw());
        self.0.tasks.cancel(execution, strand, key);
    }

    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        self.0.tasks.policy(resource, input)
    }

    fn read(&self, order: ReadOrder) {
        self.0.tasks.read(order);
    }

    fn write(&self, order: WriteOrder) {
        self.0.tasks.write(order);
    }
}
