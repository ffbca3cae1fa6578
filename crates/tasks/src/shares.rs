//! Places for calls under way: a limit for all, and a share for each receiver.
//!
//! A receiver that hangs keeps its places for as long as its calls may take. So no receiver gets more than its share,
//! or more than are still free, so that several that hang leave some places too. Calls of one receiver queue in order,
//! and receivers with queues take turns.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// How many calls may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// In all.
    pub roof: usize,
    /// To one receiver.
    pub each: usize,
}

impl Share {
    /// A quarter of all for each receiver; up to half if there are few.
    pub(crate) fn of(roof: usize) -> Self {
        Self { roof, each: (roof / 4).max(roof.min(8).div_ceil(2)) }
    }
}

/// All places of one kind. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Shares(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    share: Share,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Receivers that have a place or wait for one.
    receivers: HashMap<Arc<str>, Receiver>,
    /// Receivers with waiting calls, each once, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct Receiver {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Held>>,
}

/// A place for one call. Dropped, it goes to the next waiting call.
#[derive(Debug)]
pub(crate) struct Held {
    places: Shares,
    receiver: Arc<str>,
}

impl State {
    /// Whether one more call of this receiver may be under way.
    fn admits(&self, share: Share, receiver: &str) -> bool {
        let taken = self.receivers.get(receiver).map_or(0, |receiver| receiver.taken);
        let free = share.roof.saturating_sub(self.taken);
        // A share as large as the limit means that one receiver may take all.
        let leaves_some = taken < free || share.each == share.roof;
        free > 0 && taken < share.each && leaves_some
    }

    fn take(&mut self, receiver: &Arc<str>) {
        self.taken += 1;
        self.receivers.entry(receiver.clone()).or_default().taken += 1;
    }

    /// The next waiting call, if there is a place for it.
    fn next(&mut self, share: Share) -> Option<(Arc<str>, oneshot::Sender<Held>)> {
        let at = self.turns.iter().position(|receiver| self.admits(share, receiver))?;
        let name = self.turns.remove(at)?;
        let receiver = self.receivers.get_mut(&name)?;
        let first = receiver.waiting.pop_front();
        if !receiver.waiting.is_empty() {
            self.turns.push_back(name.clone());
        }
        let first = first?;
        self.take(&name);
        Some((name, first))
    }
}

impl Shares {
    pub(crate) fn new(share: Share) -> Self {
        Self(Arc::new(Inner { share, state: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for a call of this receiver.
    pub(crate) async fn enter(&self, receiver: &str) -> Held {
        let receiver: Arc<str> = receiver.into();
        let waiting = {
            let mut state = self.lock();
            let waits = state.receivers.get(&receiver).is_some_and(|receiver| !receiver.waiting.is_empty());
            if !waits && state.admits(self.0.share, &receiver) {
                state.take(&receiver);
                return Held { places: self.clone(), receiver };
            }
            let (sender, waiting) = oneshot::channel();
            let line = &mut state.receivers.entry(receiver.clone()).or_default().waiting;
            line.push_back(sender);
            if line.len().is_power_of_two() {
                // Each time the queue has doubled, cancelled calls are removed from it.
                line.retain(|waiting| !waiting.is_closed());
            }
            if !waits {
                state.turns.push_back(receiver);
            }
            waiting
        };
        waiting.await.expect("whoever waits is handed a place, never forgotten")
    }

    /// Returns a place, and hands out all free places. A cancelled call passes its place on when it is dropped, so that
    /// nothing is handed out under the lock.
    fn leave(&self, receiver: &Arc<str>) {
        let mut state = self.lock();
        state.taken -= 1;
        if let Some(left) = state.receivers.get_mut(receiver) {
            left.taken -= 1;
            if left.taken == 0 && left.waiting.is_empty() {
                state.receivers.remove(receiver);
            }
        }
        let mut handed = Vec::new();
        while let Some(next) = state.next(self.0.share) {
            handed.push(next);
        }
        drop(state);
        for (receiver, waiting) in handed {
            // If the call was cancelled, the place comes back and is dropped.
            let _ = waiting.send(Held { places: self.clone(), receiver });
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.places.leave(&self.receiver);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    type Entering<'a> = Pin<Box<dyn Future<Output = Held> + 'a>>;

    fn polled<F: Future<Output = Held> + ?Sized>(entering: Pin<&mut F>) -> Option<Held> {
        match entering.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    fn now(places: &Shares, receiver: &str) -> Option<Held> {
        polled(pin!(places.enter(receiver)))
    }

    fn all_now(places: &Shares, receiver: &str) -> Vec<Held> {
        std::iter::from_fn(|| now(places, receiver)).collect()
    }

    #[test]
    fn a_receiver_gets_its_share_and_leaves_places_for_all_others() {
        let places = Shares::new(Share::of(32));
        let hung: Vec<Vec<Held>> = ["a", "b", "c", "d", "e"].map(|name| all_now(&places, name)).into();
        let counts: Vec<usize> = hung.iter().map(Vec::len).collect();
        assert_eq!(counts, [8, 8, 8, 4, 2], "none more than a quarter, none more than are free");
        assert!(now(&places, "f").is_some());
        drop(hung);
        assert_eq!(places.lock().taken, 0);
        assert!(places.lock().receivers.is_empty(), "nothing is kept of who is gone");
    }

    #[test]
    fn where_there_are_few_places_each_receiver_has_one() {
        for (roof, count) in [(1, 1), (2, 1), (3, 2), (4, 2), (8, 4), (16, 4), (32, 8), (4_096, 1_024)] {
            let places = Shares::new(Share::of(roof));
            assert_eq!(all_now(&places, "a").len(), count, "{roof}");
        }
        assert_eq!(all_now(&Shares::new(Share { roof: 10, each: 9 }), "a").len(), 5);
        assert_eq!(all_now(&Shares::new(Share { roof: 10, each: 10 }), "a").len(), 10);
    }

    #[test]
    fn those_who_wait_are_served_in_order_and_receivers_take_turns() {
        let places = Shares::new(Share { roof: 1, each: 1 });
        let mut held = now(&places, "a").expect("a place is free");
        let mut waiting: Vec<(&str, Entering<'_>)> = ["a1", "a2", "a3", "b1", "b2", "c1"]
            .map(|name| (name, Box::pin(places.enter(&name[..1])) as Entering<'_>))
            .into();
        for (_, entering) in &mut waiting {
            assert!(polled(entering.as_mut()).is_none());
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(held);
            let mut found = None;
            for (at, (name, entering)) in waiting.iter_mut().enumerate() {
                if let Some(place) = polled(entering.as_mut()) {
                    found = Some((at, *name, place));
                    break;
                }
            }
            let (at, name, place) = found.expect("somebody is next");
            order.push(name);
            held = place;
            drop(waiting.remove(at));
        }
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        drop(held);
        assert_eq!(places.lock().taken, 0);
    }

    #[test]
    fn one_who_no_longer_waits_hands_the_place_on() {
        let places = Shares::new(Share { roof: 1, each: 1 });
        let held = now(&places, "a");
        let mut gone = Box::pin(places.enter("a"));
        let mut handed = Box::pin(places.enter("a"));
        let mut next = Box::pin(places.enter("b"));
        for entering in [&mut gone, &mut handed, &mut next] {
            assert!(polled(entering.as_mut()).is_none());
        }
        drop(gone);
        drop(held);
        drop(handed);
        assert!(polled(next.as_mut()).is_some());
        drop(next);
        assert_eq!(places.lock().taken, 0);
        assert!(places.lock().receivers.is_empty() && places.lock().turns.is_empty());
    }
}
