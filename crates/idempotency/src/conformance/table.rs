//! The rule as a table: a store must give the result of each cell, and leave the record in its state.
//!
//! The table is the one in the docs of [`rule`](crate::rule). A store cannot be put into a state directly; `WAYS` has
//! the steps that lead there, and each way is used once for each line of the table.

use super::{
    ANSWER_FOR, Bench, Desk, LEASE_FOR, NEAR, TOMBSTONE_FOR, answered, assert_apart, claim, operation,
    request, take, unknown,
};
use crate::record::{Claim, Claimed, Completion, Epoch, Grant, Holding, Keep, OperationId, Record, Standing};
use std::time::Duration;

/// One cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// The verb.
    pub(crate) verb: &'static str,
    /// The state of the record before.
    pub(crate) place: &'static str,
    pub(crate) told: &'static str,
    /// The state of the record afterwards. `None`: unchanged.
    pub(crate) left: Option<&'static str>,
}

/// All cells, line by line.
pub(crate) fn cells() -> Vec<Cell> {
    let table = include_str!("../rule/table.md").lines().filter(|line| line.starts_with('|'));
    let mut lines = table.map(|line| line.trim_matches('|').split('|').map(str::trim));
    let places: Vec<_> = lines.next().expect("the table has a head").skip(1).collect();
    let mut cells = Vec::new();
    for mut line in lines.skip(1) {
        let verb = line.next().expect("a line says what is asked");
        cells.extend(places.iter().zip(line).map(|(place, cell)| {
            let (told, left) = cell.split_once(" → ").map_or((cell, None), |(told, left)| (told, Some(left)));
            Cell { verb, place, told, left }
        }));
    }
    cells
}

/// The table's word for the state of a record.
pub(crate) fn place(record: Option<&Record>) -> &'static str {
    match record.map(|record| &record.standing) {
        None => "nothing",
        Some(standing @ Standing::Running { .. }) if standing.is_running() => "running",
        Some(Standing::Running { .. }) => "lapsed",
        Some(Standing::Unknown { .. }) => "unknown",
        Some(Standing::Completed { .. }) => "answered",
        Some(Standing::Expired { .. }) => "expired",
    }
}

/// The ways to each state.
const WAYS: &[(&str, &[&str])] = &[
    ("nothing", &[]),
    ("nothing", &["claimed", "released"]),
    ("nothing", &["claimed", "lapses", "swept", "released"]),
    ("nothing", &["claimed", "unknown", "expires", "goes"]),
    ("nothing", &["claimed", "answered", "expires", "goes"]),
    ("nothing", &["claimed", "answered", "expires", "swept", "goes", "swept"]),
    ("running", &["claimed"]),
    ("running", &["claimed", "lapses", "renewed"]),
    ("running", &["claimed", "lapses", "taken over"]),
    ("running", &["claimed", "unknown", "taken over"]),
    ("running", &["claimed", "answered", "expires", "goes", "claimed"]),
    ("lapsed", &["claimed", "lapses"]),
    ("lapsed", &["claimed", "lapses", "renewed", "lapses"]),
    ("lapsed", &["claimed", "lapses", "swept", "taken over", "lapses"]),
    ("unknown", &["claimed", "unknown"]),
    ("unknown", &["claimed", "lapses", "noticed"]),
    ("unknown", &["claimed", "lapses", "swept"]),
    ("unknown", &["claimed", "lapses", "taken over", "lapses", "swept"]),
    ("unknown", &["claimed", "unknown", "expires"]),
    ("unknown", &["claimed", "unknown", "expires", "swept"]),
    ("answered", &["claimed", "answered"]),
    ("answered", &["claimed", "lapses", "answered"]),
    ("answered", &["claimed", "lapses", "swept", "answered"]),
    ("answered", &["claimed", "lapses", "taken over", "answered"]),
    ("expired", &["claimed", "answered", "erased"]),
    ("expired", &["claimed", "answered", "expires"]),
    ("expired", &["claimed", "answered", "expires", "swept"]),
    ("expired", &["claimed", "answered", "erased", "expires", "swept"]),
];

const KEEP: Keep = Keep { answer_for: ANSWER_FOR, tombstone_for: TOMBSTONE_FOR };

/// An operation on its way.
struct Case {
    operation: OperationId,
    /// The newest grant.
    grant: Option<Grant>,
    /// Epochs of earlier grants.
    past: Vec<Epoch>,
    claimant: u64,
    /// How long ago it began first.
    age: Duration,
}

impl Case {
    fn epoch(&self) -> Epoch {
        self.grant.map_or(Epoch(1), |grant| grant.epoch)
    }

    fn claim(&self, claimant: u64) -> Claim {
        Claim { keep: KEEP, ..claim(self.operation, claimant) }
    }

    fn take(&self, claimant: u64) -> Claim {
        Claim { keep: KEEP, ..take(self.operation, claimant) }
    }

    fn answered(&self, answer: &'static str) -> Completion {
        Completion { keep: KEEP, ..answered(self.operation, self.epoch(), answer) }
    }

    fn unknown(&self) -> Completion {
        Completion { keep: KEEP, ..unknown(self.operation, self.epoch()) }
    }

    /// One step of its way, except time and sweeps, which all cases share.
    async fn go(&mut self, desk: &Desk, step: &str) {
        let holding = match step {
            "claimed" | "taken over" => {
                self.claimant += 1;
                let is_new = step == "claimed";
                let wish = if is_new { self.claim(self.claimant) } else { self.take(self.claimant) };
                let grant = desk.granted(&wish).await;
                assert_eq!(grant.taken_over, !is_new);
                if is_new {
                    self.age = Duration::ZERO;
                }
                self.past.extend(self.grant.replace(grant).map(|last| last.epoch));
                return;
            }
            "noticed" => {
                desk.lapsed(&self.claim(self.claimant + 1)).await;
                return;
            }
            "erased" => {
                assert!(desk.erase(self.operation).await, "there was an answer");
                return;
            }
            "renewed" => desk.renew(self.operation, self.epoch()).await,
            "answered" => desk.complete(&self.answered("first")).await,
            "unknown" => desk.complete(&self.unknown()).await,
            "released" => desk.release(self.operation, self.epoch()).await,
            other => panic!("no such step: {other}"),
        };
        assert_eq!(holding, Holding::Held, "{step}");
    }

    /// Runs the verb of the line, and returns the result in the words of the table.
    async fn ask(&self, desk: &Desk, verb: &str, before: Option<&Record>) -> &'static str {
        let (operation, epoch, stranger) = (self.operation, self.epoch(), self.claimant + 1);
        let holding = match verb {
            "claim" => return self.offer(desk, &self.claim(stranger), before).await,
            "claim, may take over" => return self.offer(desk, &self.take(stranger), before).await,
            "the same claim again" => return self.offer(desk, &self.claim(self.claimant), before).await,
            "the same claim again, may take over" => {
                return self.offer(desk, &self.take(self.claimant), before).await;
            }
            "claim for another request" => return self.ask_for_another(desk, before).await,
            "renew" => desk.renew(operation, epoch).await,
            "tell an answer" => desk.complete(&self.answered("told")).await,
            "tell that it is unknown" => desk.complete(&self.unknown()).await,
            "release" => desk.release(operation, epoch).await,
            "any of these four under another epoch" => self.show_other_epochs(desk).await,
            "erase" => return if desk.erase(operation).await { "yes" } else { "no" },
            "sweep" => {
                let swept = desk.0.sweep(1_000, KEEP).await.expect("sweeping");
                return if swept.lapsed.contains(&operation) { "noticed" } else { "no" };
            }
            other => panic!("no such line: {other}"),
        };
        match holding {
            Holding::Held => "held",
            Holding::Lost => "lost",
        }
    }

    async fn offer(&self, desk: &Desk, wish: &Claim, before: Option<&Record>) -> &'static str {
        match (desk.claim(wish).await, before) {
            (Claimed::Granted(grant), None) => {
                assert!(!grant.taken_over && self.grant.is_none_or(|last| last.epoch < grant.epoch));
                "new"
            }
            (Claimed::Granted(grant), Some(before)) if grant.epoch == before.epoch => {
                assert_eq!(Some(grant), self.grant, "told as it was granted");
                "same"
            }
            (Claimed::Granted(grant), Some(before)) => {
                assert!(grant.taken_over && grant.epoch > before.epoch);
                assert_eq!(grant.first_at, before.first_at);
                "taken"
            }
            (Claimed::Found(record), before) => {
                assert_unchanged(before, Some(&record));
                "found"
            }
            (Claimed::Lapsed(record), _) => {
                assert_eq!(place(Some(&record)), "unknown");
                "noticed"
            }
        }
    }

    /// Another request gets the same answer, whether it may take over or not, even from the same claimant.
    async fn ask_for_another(&self, desk: &Desk, before: Option<&Record>) -> &'static str {
        let mut wishes = vec![self.take(self.claimant + 1)];
        if before.is_some() {
            let more = [self.claim(self.claimant + 1), self.take(self.claimant), self.claim(self.claimant)];
            wishes.extend(more);
        }
        let mut told = Vec::new();
        for wish in wishes {
            told.push(self.offer(desk, &Claim { request: request(2), ..wish }, before).await);
        }
        assert!(told.iter().all(|word| *word == told[0]), "{told:?}");
        told[0]
    }

    /// Checks that other epochs are `Lost`.
    async fn show_other_epochs(&self, desk: &Desk) -> Holding {
        let Epoch(newest) = self.epoch();
        let made_up = [newest + 1, newest - 1, 0, 4_000_000_000].map(Epoch);
        for epoch in self.past.iter().copied().chain(made_up) {
            let verbs = [
                desk.renew(self.operation, epoch).await,
                desk.complete(&Completion { epoch, ..self.answered("late") }).await,
                desk.complete(&Completion { epoch, ..self.unknown() }).await,
                desk.release(self.operation, epoch).await,
            ];
            if verbs != [Holding::Lost; 4] {
                return Holding::Held;
            }
        }
        Holding::Lost
    }

    /// Checks the new record against the earlier one.
    fn assert_follows(&self, told: &str, before: Option<&Record>, after: &Record) {
        if let Some(before) = before {
            assert_eq!(
                (after.scope, after.request, after.first_at),
                (before.scope, before.request, before.first_at)
            );
            assert_eq!(after.epoch > before.epoch, told == "taken", "only who takes over gets a new epoch");
        }
        let ended = |at, expires_at| {
            assert_apart(after.first_at, at, self.age);
            assert_apart(at, expires_at, ANSWER_FOR);
        };
        match &after.standing {
            Standing::Running { lease_left } => {
                assert!(*lease_left <= LEASE_FOR && *lease_left + NEAR > LEASE_FOR, "{lease_left:?}");
            }
            Standing::Unknown { at, expires_at } => ended(*at, *expires_at),
            Standing::Completed { at, expires_at, answer } => {
                assert_eq!(answer, "told");
                ended(*at, *expires_at);
            }
            Standing::Expired { at } => {
                let before = before.map(|before| &before.standing);
                assert!(matches!(before, Some(Standing::Completed { at: then, .. }) if then == at));
            }
        }
    }
}

/// Checks that the record is unchanged, except that a lease may be shorter as the clock runs.
fn assert_unchanged(before: Option<&Record>, after: Option<&Record>) {
    match (before, after) {
        (
            Some(Record { standing: Standing::Running { lease_left: before_left }, .. }),
            Some(after @ Record { standing: Standing::Running { lease_left }, .. }),
        ) => {
            assert!(lease_left <= before_left);
            let standing = Standing::Running { lease_left: *before_left };
            assert_eq!(before, Some(&Record { standing, ..after.clone() }));
        }
        (before, after) => assert_eq!(before, after),
    }
}

/// Every cell, by every way to its state, with the verb on one instance and the look on the other.
pub async fn the_table_is_followed(bench: &Bench) {
    let (here, there) = (Desk::of(bench), Desk(bench.another()));
    let cells = cells();
    let mut operations = (0..).map(operation);
    for (stands, way) in WAYS {
        // A sweep is the last line: it is not about one record only.
        let mut cases: Vec<(&Cell, Case)> = cells
            .iter()
            .filter(|cell| cell.place == *stands)
            .zip(&mut operations)
            .map(|(cell, operation)| {
                (cell, Case { operation, grant: None, past: Vec::new(), claimant: 0, age: Duration::ZERO })
            })
            .collect();
        for step in *way {
            let time = match *step {
                "lapses" => LEASE_FOR + NEAR,
                "expires" => ANSWER_FOR + NEAR,
                "goes" => TOMBSTONE_FOR,
                "swept" => {
                    here.0.sweep(1_000, KEEP).await.expect("sweeping");
                    continue;
                }
                step => {
                    for (_, case) in &mut cases {
                        case.go(&here, step).await;
                    }
                    continue;
                }
            };
            bench.pass(time).await;
            for (_, case) in &mut cases {
                case.age += time;
            }
        }
        for (cell, case) in cases {
            let before = there.look(case.operation).await;
            println!("{cell:?} of what is {way:?}: {before:?}");
            assert_eq!(place(before.as_ref()), *stands);
            let told = case.ask(&here, cell.verb, before.as_ref()).await;
            let after = there.look(case.operation).await;
            assert_eq!((told, place(after.as_ref())), (cell.told, cell.left.unwrap_or(cell.place)));
            match (cell.left, &after) {
                (None, after) => assert_unchanged(before.as_ref(), after.as_ref()),
                (Some(_), Some(after)) => case.assert_follows(told, before.as_ref(), after),
                (Some(_), None) => {}
            }
        }
    }
}
