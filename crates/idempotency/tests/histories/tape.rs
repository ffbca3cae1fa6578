//! What was asked and answered, and when: each call is an interval between two numbers that only grow.

use std::fmt;
use std::sync::Mutex;

/// One call of one client.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Which key; `None`: the clock, which all keys share.
    pub(crate) key: Option<usize>,
    pub(crate) call: Call,
    pub(crate) invoked: u64,
    /// `None`: the client was gone before it heard; it may have been done, or not.
    pub(crate) returned: Option<(u64, Reply)>,
}

/// What is asked of one key. Instants and durations are seconds.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Claim {
        claimant: u64,
        request: u8,
        takes_over: bool,
        lease_for: i64,
        kept: Kept,
    },
    Renew {
        epoch: u64,
        lease_for: i64,
    },
    /// `None`: what came of it is unknown.
    Complete {
        epoch: u64,
        answer: Option<u32>,
        kept: Kept,
    },
    Release {
        epoch: u64,
    },
    Look,
    Erase,
    /// As far as this key is concerned.
    Sweep {
        kept: Kept,
    },
    Jump {
        by: i64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) answer_for: i64,
    pub(crate) tombstone_for: i64,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Granted {
        epoch: u64,
        taken_over: bool,
    },
    Found(Option<Seen>),
    Held(bool),
    Erased(bool),
    /// Whether its lease was found to have run out.
    Lapsed(bool),
    Jumped,
}

/// A record as it was told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) request: u8,
    pub(crate) epoch: u64,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Running { lapsed: bool },
    Unknown,
    Answered(u32),
    Expired,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.map_or("clock".to_owned(), |key| format!("key {key}"));
        match &self.returned {
            Some((at, reply)) => write!(f, "[{}, {at}] {key}: {:?} -> {reply:?}", self.invoked, self.call),
            None => write!(f, "[{}, ...] {key}: {:?}", self.invoked, self.call),
        }
    }
}

/// Where the calls of one history are written down.
#[derive(Default)]
pub(crate) struct Tape(Mutex<(u64, Vec<Entry>)>);

impl Tape {
    /// The call is about to be made.
    pub(crate) fn invoke(&self, key: Option<usize>, call: Call) -> usize {
        let mut tape = self.0.lock().expect("nobody panics here");
        tape.0 += 1;
        let invoked = tape.0;
        tape.1.push(Entry { key, call, invoked, returned: None });
        tape.1.len() - 1
    }

    /// The answer has come.
    pub(crate) fn returned(&self, entry: usize, reply: Reply) {
        let mut tape = self.0.lock().expect("nobody panics here");
        tape.0 += 1;
        let at = tape.0;
        tape.1[entry].returned = Some((at, reply));
    }

    /// Time goes on, as one step that no call begins or ends in.
    pub(crate) fn jump(&self, by: i64, jump: impl FnOnce()) {
        let mut tape = self.0.lock().expect("nobody panics here");
        jump();
        let invoked = tape.0 + 1;
        tape.0 += 2;
        let returned = Some((tape.0, Reply::Jumped));
        tape.1.push(Entry { key: None, call: Call::Jump { by }, invoked, returned });
    }

    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.0.lock().expect("nobody panics here").1)
    }
}

/// What there is in histories, to know that they are about something.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) overlapping: u32,
    pub(crate) pending: u32,
    pub(crate) granted: u32,
    pub(crate) taken_over: u32,
    pub(crate) replayed: u32,
    pub(crate) unknown: u32,
    pub(crate) held: u32,
    pub(crate) lost: u32,
    pub(crate) swept: u32,
}

impl Counts {
    pub(crate) fn add(&mut self, entries: &[Entry]) {
        for (n, entry) in entries.iter().enumerate() {
            let overlaps = |earlier: &Entry| {
                earlier.key == entry.key
                    && earlier.returned.as_ref().is_some_and(|(at, _)| *at > entry.invoked)
            };
            self.overlapping += u32::from(entries[..n].iter().any(overlaps));
            match &entry.returned {
                None => self.pending += 1,
                Some((_, Reply::Granted { taken_over, .. })) => {
                    self.granted += 1;
                    self.taken_over += u32::from(*taken_over);
                }
                Some((_, Reply::Found(Some(seen)))) => match seen.place {
                    Place::Answered(_) => self.replayed += 1,
                    Place::Unknown => self.unknown += 1,
                    Place::Running { .. } | Place::Expired => {}
                },
                Some((_, Reply::Held(true))) => self.held += 1,
                Some((_, Reply::Held(false))) => self.lost += 1,
                Some((_, Reply::Lapsed(lapsed))) => self.swept += u32::from(*lapsed),
                Some((_, Reply::Found(None) | Reply::Erased(_) | Reply::Jumped)) => {}
            }
        }
    }

    /// So many calls are of each kind.
    pub(crate) fn assert_each_at_least(&self, least: u32) {
        let Self { overlapping, pending, granted, taken_over, replayed, unknown, held, lost, swept } = *self;
        for (what, count) in [
            ("overlapping", overlapping),
            ("pending", pending),
            ("granted", granted),
            ("taken over", taken_over),
            ("replayed", replayed),
            ("unknown", unknown),
            ("held", held),
            ("lost", lost),
            ("swept", swept),
        ] {
            assert!(count >= least, "only {count} calls are {what}");
        }
    }
}
