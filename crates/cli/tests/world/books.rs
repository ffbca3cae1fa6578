//! What a receiver was asked, what it did, and whether that is what was promised.
//!
//! A *deed* is what an execution wants to have done, once. It is asked for under a key, and after a refusal under
//! another; so doubles are counted by deed, and what a receiver may be sent twice is judged by key. How a request
//! fares follows from a seed, the deed and how often it was asked for, so that a run can be repeated.

use std::collections::{BTreeMap, BTreeSet};

/// Of a hundred requests, so many fail.
const FAILURES: u64 = 30;
/// Of a hundred failures, in so many the receiver dies. All whom it has not answered fail with that one.
const DEATHS: u64 = 4;

/// How a request fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done, and the answer says so.
    Done,
    /// It is done, and the answer is 500.
    DoneBut500,
    /// It is done, and the connection ends without an answer.
    DoneButHungUp,
    /// It is done, and half of the answer comes.
    DoneButHalf,
    /// It is done, and the answer is 303: a redirect.
    DoneBut303,
    /// It is done, and nothing comes, for ever. A worker answers late.
    DoneButSilent,
    /// It is done, and then the receiver dies, with all that it has not answered. It is away for a while.
    DoneButDied,
    /// Nothing is done, and the answer is 500.
    Only500,
    /// Nothing is done, and the answer is 503.
    Only503,
    /// Nothing is done, and nothing comes, for ever. A worker answers late.
    OnlySilent,
    /// Nothing is done, and the receiver dies.
    OnlyDied,
    /// It is refused with 400: certainly not done.
    Refused,
}

impl Fate {
    const BAD: [Self; 9] = [
        Self::DoneBut500,
        Self::DoneButHungUp,
        Self::DoneButHalf,
        Self::DoneBut303,
        Self::DoneButSilent,
        Self::Only500,
        Self::Only503,
        Self::OnlySilent,
        Self::Refused,
    ];
    const DEADLY: [Self; 2] = [Self::DoneButDied, Self::OnlyDied];

    fn draw(seed: u64, deed: &str, time: u32) -> Self {
        let drawn =
            deed.bytes().fold(mix(seed ^ u64::from(time)), |drawn, byte| mix(drawn ^ u64::from(byte)));
        if drawn % 100 >= FAILURES {
            return Self::Done;
        }
        let of: &[Self] = if (drawn >> 40) % 100 < DEATHS { &Self::DEADLY } else { &Self::BAD };
        of[(drawn >> 32) as usize % of.len()]
    }

    fn does_it(self) -> bool {
        match self {
            Self::Done
            | Self::DoneBut500
            | Self::DoneButHungUp
            | Self::DoneButHalf
            | Self::DoneBut303
            | Self::DoneButSilent
            | Self::DoneButDied => true,
            Self::Only500 | Self::Only503 | Self::OnlySilent | Self::OnlyDied | Self::Refused => false,
        }
    }
}

/// A number that looks like chance (splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Whether a receiver honours keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// What was done under a key is not done again under it.
    Keys,
    /// Every request is a new one.
    None,
}

/// What came under one key.
#[derive(Debug, Default)]
struct Line {
    deed: String,
    body: String,
    requests: u32,
    effects: u32,
    /// The same key came with other bytes.
    is_changed: bool,
}

/// All that a receiver knows.
#[derive(Debug)]
pub(crate) struct Books {
    seed: u64,
    memory: Memory,
    asked: BTreeMap<String, u32>,
    done: BTreeSet<String>,
    keys: BTreeMap<String, Line>,
    /// Of these somebody was told that it was not done under them, so it never will be.
    void: BTreeSet<String>,
}

impl Books {
    pub(crate) fn new(seed: u64, memory: Memory) -> Self {
        let (asked, done, keys, void) = Default::default();
        Self { seed, memory, asked, done, keys, void }
    }

    /// A request arrives.
    pub(crate) fn take(&mut self, key: &str, deed: &str, body: &str) -> Fate {
        let time = self.asked.entry(deed.into()).or_default();
        *time += 1;
        let fate = Fate::draw(self.seed, deed, *time);
        self.enter(key, deed, body, fate)
    }

    fn enter(&mut self, key: &str, deed: &str, body: &str, fate: Fate) -> Fate {
        let line = self.keys.entry(key.into()).or_insert_with(|| Line {
            deed: deed.into(),
            body: body.into(),
            ..Line::default()
        });
        line.requests += 1;
        line.is_changed |= line.body != body;
        let is_known = self.memory == Memory::Keys && line.effects > 0;
        match fate {
            _ if self.void.contains(key) => return Fate::Refused,
            // What was done is not refused by who remembers it.
            Fate::Refused if is_known => return Fate::Done,
            _ => {}
        }
        if fate.does_it() && !is_known {
            line.effects += 1;
            self.done.insert(deed.into());
        }
        fate
    }

    /// Whether it was done under this key. If not, it never will be, however late the request arrives.
    pub(crate) fn settle(&mut self, key: &str) -> bool {
        let was_done = self.keys.get(key).is_some_and(|line| line.effects > 0);
        if !was_done {
            self.void.insert(key.into());
        }
        was_done
    }

    /// How many deeds were asked for.
    pub(crate) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// How many deeds were done.
    pub(crate) fn done(&self) -> usize {
        self.done.len()
    }

    /// How much there was of what.
    pub(crate) fn told(&self) -> String {
        let requests: u32 = self.keys.values().map(|line| line.requests).sum();
        format!(
            "{requests} requests under {} keys, {} of them repeated",
            self.keys.len(),
            self.repeated().len()
        )
    }

    /// Whether a request came under this key.
    pub(crate) fn has_seen(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Keys that came more than once.
    pub(crate) fn repeated(&self) -> Vec<&str> {
        let lines = self.keys.iter().filter(|(_, line)| line.requests > 1);
        lines.map(|(key, _)| &**key).collect()
    }

    /// What is wrong if each of these deeds, and nothing else, was to be done once.
    pub(crate) fn complaints(&self, deeds: &[String]) -> Vec<String> {
        let mut effects: BTreeMap<&str, u32> = deeds.iter().map(|deed| (&**deed, 0)).collect();
        let mut found = Vec::new();
        for (key, line) in &self.keys {
            match effects.get_mut(&*line.deed) {
                Some(count) => *count += line.effects,
                None => found.push(format!("nobody wanted {}", line.deed)),
            }
            if line.is_changed {
                found.push(format!("{}: other bytes came under the key {key}", line.deed));
            }
        }
        for (deed, count) in effects {
            match count {
                0 => found.push(format!("{deed} is lost")),
                1 => {}
                _ => found.push(format!("{deed} was done {count} times")),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{Books, Fate, Memory};

    fn deeds() -> Vec<String> {
        vec!["a".to_owned(), "b".to_owned()]
    }

    /// Requests as `key deed body`, all done; what is complained of, and which keys came twice.
    #[test]
    fn what_is_lost_doubled_or_changed_is_noticed() {
        for (memory, requests, complaints, repeated) in [
            (Memory::Keys, &["1 a x", "2 b x"][..], &[][..], &[][..]),
            (Memory::Keys, &["1 a x", "1 a x", "2 b x"], &[], &["1"]),
            (Memory::None, &["1 a x", "1 a x", "2 b x"], &["a was done 2 times"], &["1"]),
            (Memory::Keys, &["1 a x", "3 a x", "2 b x"], &["a was done 2 times"], &[]),
            (Memory::Keys, &["1 a x"], &["b is lost"], &[]),
            (Memory::Keys, &["1 a x", "2 b x", "2 b y"], &["b: other bytes came under the key 2"], &["2"]),
            (Memory::Keys, &["1 a x", "2 b x", "3 c x"], &["nobody wanted c"], &[]),
        ] {
            let mut books = Books::new(0, memory);
            for request in requests {
                let mut parts = request.split(' ');
                let mut part = || parts.next().expect("three parts");
                books.enter(part(), part(), part(), Fate::Done);
            }
            assert_eq!(books.complaints(&deeds()), complaints, "{requests:?}");
            assert_eq!(books.repeated(), repeated, "{requests:?}");
        }
    }

    #[test]
    fn a_refusal_does_nothing_and_an_answer_that_is_lost_does_not_undo() {
        let mut books = Books::new(0, Memory::Keys);
        assert_eq!(books.enter("1", "a", "x", Fate::Refused), Fate::Refused);
        assert_eq!(books.complaints(&deeds()), ["a is lost", "b is lost"]);
        books.enter("2", "a", "x", Fate::DoneButHungUp);
        assert_eq!(books.enter("2", "a", "x", Fate::Refused), Fate::Done);
        assert_eq!(books.complaints(&deeds()), ["b is lost"]);
        assert!(books.settle("2") && !books.settle("3"));
        assert_eq!(books.enter("3", "b", "x", Fate::Done), Fate::Refused);
        assert_eq!(books.complaints(&deeds()), ["b is lost"]);
    }

    #[test]
    fn three_of_ten_requests_fail_in_every_way_and_the_same_each_time() {
        let draw = |seed| -> Vec<Fate> { (0..10_000).map(|time| Fate::draw(seed, "deed", time)).collect() };
        let drawn = draw(7);
        let of = |fate: Fate| drawn.iter().filter(|drawn| **drawn == fate).count();
        assert!((2_800..3_200).contains(&(drawn.len() - of(Fate::Done))), "{}", of(Fate::Done));
        for fate in Fate::BAD {
            assert!((260..380).contains(&of(fate)), "{fate:?}: {}", of(fate));
        }
        for fate in Fate::DEADLY {
            assert!((40..80).contains(&of(fate)), "{fate:?}: {}", of(fate));
        }
        assert_eq!(drawn, draw(7));
        assert_ne!(drawn, draw(8));
    }
}
