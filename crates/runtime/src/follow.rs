//! Following executions: whoever follows one is woken when a Turn of it is on disk.
//!
//! Nothing is handed over but the word that something moved; what moved is read. A follower is entered before it reads, and
//! told after the commit, so that no Turn falls between the two. However much happens between two looks, it is one word, so
//! a slow follower costs nothing.

use perdura_engine::ExecutionId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Who is followed.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// How many follow, so that a commit that nobody follows costs one look.
    followers: AtomicUsize,
    one: Mutex<HashMap<ExecutionId, watch::Sender<()>>>,
    all: watch::Sender<()>,
}

impl Followed {
    fn one(&self) -> MutexGuard<'_, HashMap<ExecutionId, watch::Sender<()>>> {
        self.one.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.followers.load(Ordering::Acquire) == 0
    }

    /// Turns of these are on disk.
    pub(crate) fn moved(&self, executions: &[ExecutionId]) {
        let one = self.one();
        for followed in executions.iter().filter_map(|execution| one.get(execution)) {
            followed.send_replace(());
        }
        drop(one);
        self.all.send_replace(());
    }
}

/// Follows one execution, or all, until it is dropped.
#[derive(Debug)]
pub struct Follower {
    followed: Arc<Followed>,
    execution: Option<ExecutionId>,
    moves: watch::Receiver<()>,
}

impl Follower {
    pub(crate) fn new(followed: Arc<Followed>, execution: Option<ExecutionId>) -> Self {
        followed.followers.fetch_add(1, Ordering::AcqRel);
        let moves = match execution {
            Some(execution) => followed.one().entry(execution).or_default().subscribe(),
            None => followed.all.subscribe(),
        };
        Self { followed, execution, moves }
    }

    /// Waits until something has moved since this was made, or since the last time that this was said.
    pub async fn moved(&mut self) {
        // The sender lives as long as this does.
        let _ = self.moves.changed().await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(execution) = self.execution {
            let mut one = self.followed.one();
            // This is the last one.
            if one.get(&execution).is_some_and(|followed| followed.receiver_count() <= 1) {
                one.remove(&execution);
            }
        }
        self.followed.followers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[tokio::test]
    async fn a_follower_is_told_of_what_moved_since_it_was_made_and_leaves_nothing_behind() {
        let followed = Arc::<Followed>::default();
        let id = |number| ExecutionId::from_uuid(Uuid::from_u128(number));
        let (mut first, mut all) =
            (Follower::new(followed.clone(), Some(id(1))), Follower::new(followed.clone(), None));
        let second = Follower::new(followed.clone(), Some(id(1)));
        followed.moved(&[id(2)]);
        followed.moved(&[id(1), id(3)]);
        followed.moved(&[id(1)]);
        first.moved().await;
        all.moved().await;
        assert!(!first.moves.has_changed().expect("it is followed"), "many moves are one word");
        drop(second);
        assert_eq!(followed.one().len(), 1);
        drop((first, all));
        assert!(followed.one().is_empty() && followed.is_empty());
    }
}
