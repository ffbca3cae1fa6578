//! The bounds of a Map Run that is under way.

mod stage;

use perdura_engine::asl::json::Payload;
use perdura_engine::{Policy, Status};
use perdura_runtime::{AdjustError, Door, MapRunChange, Runtime, Started, Steps};
use perdura_store::MapRunRow;
use stage::Stage;
use std::sync::Arc;
use tokio::sync::Semaphore;
use uuid::Uuid;

const ONE_AT_ONCE: &str = r#"{"StartAt": "Each", "States": {"Each": {"Type": "Map", "MaxConcurrency": 1, "End": true,
    "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Do",
    "States": {"Do": {"Type": "Task", "Resource": "arn:perdura:step:::work", "End": true}}}}}}"#;

/// Steps that tell that they began, and wait until they may end.
#[derive(Clone)]
struct Gate {
    began: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        let closed = || Arc::new(Semaphore::new(0));
        Self { began: closed(), may_end: closed() }
    }

    fn steps(&self) -> Steps {
        let gate = self.clone();
        Steps::default().with("work", Policy::default(), move |call| {
            let gate = gate.clone();
            async move {
                gate.began.add_permits(1);
                gate.may_end.acquire().await.expect("a gate is not closed for good").forget();
                Ok::<Payload, _>(call.input)
            }
        })
    }

    async fn have_begun(&self, count: u32) {
        self.began.acquire_many(count).await.expect("a gate is not closed for good").forget();
    }
}

fn begin(stage: &Stage, runtime: &Runtime) -> Started {
    let revision = Stage::deploy(runtime, ONE_AT_ONCE);
    stage.begin(runtime.door(), revision, "[0,1,2,3,4]")
}

fn run_of(door: &Door, started: &Started) -> Uuid {
    door.read(|reader| reader.map_runs(started.execution)).unwrap()[0].id
}

async fn standing(door: &Door, run: Uuid) -> MapRunRow {
    door.map_run(run).await.unwrap().expect("there is such a run")
}

#[test]
fn a_change_counts_at_once_and_after_a_restart() {
    let (stage, gate) = (Stage::new(), Gate::new());
    let runtime = stage.open(gate.steps());
    let started = begin(&stage, &runtime);
    stage.tokio.block_on(gate.have_begun(1));
    let door = runtime.door().clone();
    let run = run_of(&door, &started);
    stage.tokio.block_on(async {
        assert_eq!(standing(&door, run).await.counts.items.running, 1);
        let change = MapRunChange {
            max_concurrency: Some(3),
            tolerated_percentage: Some(20.0),
            ..MapRunChange::default()
        };
        door.adjust_map_run(run, change).await.unwrap();
        gate.have_begun(2).await;
        let now = standing(&door, run).await;
        assert_eq!(
            (now.counts.items.running, now.counts.items.pending()),
            (3, 2),
            "as it stands, not as it stood"
        );
        assert_eq!((now.bounds.max_concurrency, now.bounds.tolerated_percentage), (3, Some(20.0)));
    });
    let stored = door.read(|reader| reader.map_run(run)).unwrap().unwrap();
    assert_eq!(stored.bounds.max_concurrency, 3, "it was answered when it was on disk");
    drop((door, runtime));

    let gate = Gate::new();
    let runtime = stage.open(gate.steps());
    let door = runtime.door().clone();
    stage.tokio.block_on(async {
        gate.have_begun(3).await;
        assert_eq!(standing(&door, run).await.bounds.max_concurrency, 3);
        gate.may_end.add_permits(5);
        assert_eq!(door.ending(started.execution).await.unwrap().status, Status::Succeeded);
        let ended = standing(&door, run).await;
        assert_eq!((ended.status, ended.counts.items.succeeded), (Status::Succeeded, 5));
        let late = door.adjust_map_run(run, MapRunChange::default()).await;
        assert_eq!(late, Err(AdjustError::Ended));
        let nobodys = Uuid::from_u128(7);
        assert_eq!(door.adjust_map_run(nobodys, MapRunChange::default()).await, Err(AdjustError::Unknown));
        assert_eq!(door.map_run(nobodys).await.unwrap(), None);
    });
}
