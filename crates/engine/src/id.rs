//! Ids, instants, counts and keys.

use perdura_asl::json::Payload;
use perdura_asl::timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// The namespace of all wire keys and derived ids (RFC 9562, version 5).
const NAMESPACE: Uuid = Uuid::from_u128(0x7065_7264_7572_6100_8000_6b65_7973_0001);

/// Milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This long after; durations are milliseconds and never overflow.
    pub fn after_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This many seconds after.
    pub fn after_seconds(self, seconds: u64) -> Self {
        self.after_ms(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&timestamp::format_ms(self.0))
    }
}

/// The instant of a Turn: the only time and the only randomness that the engine sees.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Now, by the wall clock: for events and expressions, where an execution never sees time go back, and for a Wait
    /// until a timestamp.
    pub now: Timestamp,
    /// Now, by a clock that is never stepped while the process runs: for all durations. It equals `now` unless the wall
    /// clock was stepped.
    pub steady: Timestamp,
    /// Unguessable bits, fresh for each Turn; ids and random numbers are derived from them by counter.
    pub entropy: u128,
}

impl Moment {
    /// For a place with only one clock.
    pub fn at(now: Timestamp, entropy: u128) -> Self {
        Self { now, steady: now, entropy }
    }
}

/// When an execution must be woken, by each of the two clocks: whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// By the steady clock: pauses, timeouts, silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Timestamp>,
    /// By the wall clock: a Wait until a timestamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Timestamp>,
}

impl Wake {
    /// The earlier of both, for a place with only one clock.
    pub fn earliest(self) -> Option<Timestamp> {
        earlier(self.steady, self.wall)
    }

    /// Whether one of the clocks has reached its time.
    pub fn is_due(self, moment: &Moment) -> bool {
        self.steady.is_some_and(|at| at <= moment.steady) || self.wall.is_some_and(|at| at <= moment.now)
    }

    /// The earlier of two, by each clock.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { steady: earlier(self.steady, other.steady), wall: earlier(self.wall, other.wall) }
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A fixed slice of all executions. An id has it in its last 16 bits, so an id, a token or a key shows which node takes
/// the Turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard(pub u16);

impl Shard {
    /// The Shard of an execution, in an installation with this many Shards.
    pub fn of(execution: ExecutionId, shards: u16) -> Self {
        Self(last_bits(execution.0) % shards.max(1))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "shard {}", self.0)
    }
}

fn last_bits(id: Uuid) -> u16 {
    id.as_u128() as u16
}

/// The id of an execution: time, randomness and a Shard, never a name or a counter, because names are reused and a
/// restored backup would count again from an earlier number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutionId(Uuid);

impl ExecutionId {
    /// From 128 random bits. Ids derived from it are not on its Shard.
    pub fn from_random(bits: u128) -> Self {
        Self(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// An execution that begins now: its time in milliseconds, 58 random bits, its Shard (RFC 9562, version 8). Ids of
    /// one time are close together in an index, so that a store with a million executions is as fast as an empty one.
    pub fn beginning(at: Timestamp, shard: Shard, bits: u64) -> Self {
        let id = u128::from(at.0.unsigned_abs()) << 80 | u128::from(bits) << 16 | u128::from(shard.0);
        Self(uuid::Builder::from_custom_bytes(id.to_be_bytes()).into_uuid())
    }

    /// The child that a step starts for one item: the same key and index always give the same child.
    pub fn of_child(parent: &EffectKey, index: u64) -> Self {
        let name = Uuid::new_v5(&NAMESPACE, format!("{}:{index}", parent.readable()).as_bytes());
        match parent.execution() {
            Some(parent) if parent.carries_its_shard() => Self(parent.on_its_shard(name)),
            // It began before ids carried Shards, and must find its existing children.
            _ => Self(name),
        }
    }

    /// The id of another thing of this execution, from 128 random bits.
    pub(crate) fn own(self, bits: u128) -> Uuid {
        let id = Self::from_random(bits).0;
        if self.carries_its_shard() { self.on_its_shard(id) } else { id }
    }

    fn carries_its_shard(self) -> bool {
        self.0.get_version_num() == 8
    }

    fn on_its_shard(self, id: Uuid) -> Uuid {
        let bits = id.as_u128() & !0xffff | u128::from(last_bits(self.0));
        uuid::Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid()
    }

    /// From its stored form.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Its UUID.
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The number of an Event in its History, from 1; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seq(pub u64);

impl Seq {
    /// The one after.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// One line of control in an execution: the machine itself, a branch, an iteration. Ids are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StrandId(pub u32);

impl StrandId {
    /// The machine's own strand.
    pub const TOP: Self = Self(0);

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    pub(crate) fn is_top(&self) -> bool {
        *self == Self::TOP
    }
}

/// The key generation of a Step. A retry after an ambiguous failure keeps it; a definite refusal moves it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Round(pub u32);

impl Round {
    /// Every Step begins here.
    pub const FIRST: Self = Self(1);

    /// After a refusal.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The attempt in a round. An answer belongs to one attempt; one key may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt(pub u32);

impl Attempt {
    /// Every round begins here.
    pub const FIRST: Self = Self(1);

    /// The next in the same round.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Default for Attempt {
    fn default() -> Self {
        Self::FIRST
    }
}

/// A digest of bytes that are too many to keep; other bytes have another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(Uuid);

impl Digest {
    pub(crate) fn of(payload: &Payload) -> Self {
        Self(Uuid::new_v5(&NAMESPACE, payload.text().as_bytes()))
    }
}

/// The key of an Effect: `{execution}:{step}:{round}`. There is no second way to make one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>")]
pub struct EffectKey(Arc<str>);

/// From its stored form; any other text is refused.
impl TryFrom<Arc<str>> for EffectKey {
    type Error = String;

    fn try_from(text: Arc<str>) -> Result<Self, Self::Error> {
        let parts = text.split_once(':').and_then(|(_, rest)| rest.rsplit_once(':'));
        match parts.map(|(_, round)| round.parse::<u32>()) {
            Some(Ok(_)) => Ok(Self(text)),
            Some(Err(_)) | None => Err(format!("{text:?} is no key: it has no execution, step and round")),
        }
    }
}

impl EffectKey {
    /// The key of one round of one visit to a state at its place in Map and Parallel.
    pub fn new(execution: ExecutionId, place: &StepPlace<'_>, round: Round) -> Self {
        // Written by hand: every Turn makes some, and `format!` would take most of the time.
        let mut key = String::with_capacity(64 + place.state.len() + place.place.len());
        key.push_str(execution.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        key.push(':');
        place.write(&mut key);
        key.push(':');
        push_number(&mut key, round.0);
        Self(key.into())
    }

    /// For people: `…:SendToGov#17:1`.
    pub fn readable(&self) -> &str {
        &self.0
    }

    /// The execution in it; `None`: it does not contain a valid one.
    pub fn execution(&self) -> Option<ExecutionId> {
        let (execution, _) = self.0.split_once(':')?;
        Uuid::parse_str(execution).ok().map(ExecutionId)
    }

    /// The step in it: `SendToGov#17`.
    pub fn step(&self) -> &str {
        let parts = self.0.split_once(':').and_then(|(_, rest)| rest.rsplit_once(':'));
        parts.expect("a key has an execution, a step and a round").0
    }

    /// The name of the state in it: `SendToGov`.
    pub fn state(&self) -> String {
        let name = self.step().split(['[', '#']).next().unwrap_or_default();
        MARKS.iter().rev().fold(name.to_owned(), |name, (mark, written)| name.replace(written, mark))
    }

    /// The round in it.
    pub fn round(&self) -> Round {
        let round = self.0.rsplit_once(':').and_then(|(_, round)| round.parse().ok());
        Round(round.expect("a key ends with its round"))
    }

    /// For the wire: a name-based UUID of the readable form, sent as `Idempotency-Key`.
    pub fn wire(&self) -> Uuid {
        Uuid::new_v5(&NAMESPACE, self.0.as_bytes())
    }
}

impl fmt::Debug for EffectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Escapes for the marks of keys inside a state's name. The others contain the first one, so it is escaped first and
/// unescaped last.
const MARKS: [(&str, &str); 5] = [("%", "%25"), ("[", "%5B"), ("]", "%5D"), ("#", "%23"), (":", "%3A")];

/// The place of a Step: `SendToGov#17`, `Notify[3]#1`.
#[derive(Clone, Copy, Debug)]
pub struct StepPlace<'a> {
    /// The state's name.
    pub state: &'a str,
    /// The strand's place, such as `[3]`; empty at the top.
    pub place: &'a str,
    /// The number of the strand's visit to this state, from 1.
    pub visit: u32,
}

impl StepPlace<'_> {
    /// Writes its form in keys.
    pub(crate) fn write(&self, text: &mut String) {
        // A name with one of these marks in it must not look like another step's place.
        let mut rest = self.state;
        while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'%' | b'[' | b']' | b'#' | b':')) {
            text.push_str(&rest[..at]);
            let written = MARKS.iter().find(|(mark, _)| rest[at..].starts_with(mark));
            text.push_str(written.expect("each mark is in the table").1);
            rest = &rest[at + 1..];
        }
        text.push_str(rest);
        text.push_str(self.place);
        text.push('#');
        push_number(text, self.visit);
    }
}

fn push_number(text: &mut String, number: u32) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// The token that a callback or an activity worker returns to end its task: the waiting strand, and a secret that
/// proves it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskToken {
    /// The execution that waits.
    pub execution: ExecutionId,
    pub strand: StrandId,
    /// Unguessable; changes with each round, and for an activity with each attempt.
    pub secret: Secret,
}

/// The secret of a token. It stays out of logs. Its last 16 bits distinguish the attempts of one round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Secret(pub u128);

impl Secret {
    const OF_THE_ATTEMPT: u128 = 0xffff;

    /// The secret of the next attempt in the same round: a holder of this one cannot answer for that one.
    #[must_use]
    pub(crate) fn next_attempt(self) -> Self {
        let attempt = self.0.wrapping_add(1) & Self::OF_THE_ATTEMPT;
        Self(self.0 & !Self::OF_THE_ATTEMPT | attempt)
    }

    /// Whether it belongs to this attempt, whose secret the other one is, or to an earlier one of the same round.
    /// Attempts count from 1.
    pub(crate) fn is_of_an_attempt_until(self, newest: Self, attempt: Attempt) -> bool {
        let before = newest.0.wrapping_sub(self.0) & Self::OF_THE_ATTEMPT;
        self.is_of_the_round_of(newest) && before < u128::from(attempt.0.max(1))
    }

    /// Whether both belong to one round.
    pub fn is_of_the_round_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::OF_THE_ATTEMPT == 0
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> Self {
        format!("{:032x}", secret.0)
    }
}

impl TryFrom<String> for Secret {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u128::from_str_radix(&text, 16).map(Self)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

impl TaskToken {
    /// Parses a token. `None`: it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = (text.len() == 72 && text.is_ascii()).then_some(text)?;
        let part = |from: usize, to: usize| u128::from_str_radix(&bytes[from..to], 16).ok();
        let token = Self {
            execution: ExecutionId(Uuid::from_u128(part(0, 32)?)),
            strand: StrandId(u32::try_from(part(32, 40)?).ok()?),
            secret: Secret(part(40, 72)?),
        };
        // Numbers can be written in other ways.
        (token.to_string() == text).then_some(token)
    }
}

impl fmt::Display for TaskToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}{:08x}{:032x}", self.execution.0.as_u128(), self.strand.0, self.secret.0)
    }
}

impl fmt::Debug for TaskToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "token of {} strand {}", self.execution, self.strand.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(state: &str, place: &str, visit: u32, round: u32) -> EffectKey {
        let execution = ExecutionId::from_random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        EffectKey::new(execution, &StepPlace { state, place, visit }, Round(round))
    }

    /// The table in docs/keys.md, which this test reads.
    #[test]
    fn keys_are_those_of_the_documented_vectors() {
        let docs = include_str!("../../../docs/keys.md");
        for (state, place, visit, round) in [
            ("SendToGov", "", 17, 1),
            ("SendToGov", "", 17, 2),
            ("Notify", "[3]", 1, 1),
            ("Notify", "[2:3][0]", 1, 1),
            ("Naïve [draft]: 50%", "", 1, 1),
        ] {
            let key = key(state, place, visit, round);
            let row = format!("| `{}` | `{}` |", key.readable(), key.wire());
            assert!(docs.contains(&row), "docs/keys.md lacks this row:\n{row}");
        }
        let batch = StepPlace { state: "Batch", place: "", visit: 1 };
        let carrying = ExecutionId::beginning(Timestamp(1_700_000_000_000), Shard(41), 0x0123_4567_89ab_cdef);
        for parent in [EffectKey::new(carrying, &batch, Round::FIRST), key("Batch", "", 1, 1)] {
            let child = ExecutionId::of_child(&parent, 41);
            let row = format!("| `{}:41` | `{child}` |", parent.readable());
            assert!(docs.contains(&row), "docs/keys.md lacks this row:\n{row}");
        }
    }

    #[test]
    fn a_child_and_what_follows_from_it_stay_on_the_shard_of_the_parent() {
        for shard in [0, 1, 63, u16::MAX].map(Shard) {
            let parent = ExecutionId::beginning(Timestamp(1_700_000_000_000), shard, 7);
            let key = |of| EffectKey::new(of, &StepPlace { state: "A", place: "", visit: 1 }, Round::FIRST);
            let child = ExecutionId::of_child(&key(parent), 3);
            let grandchild = ExecutionId::of_child(&key(child), 0);
            let run = ExecutionId(parent.own(u128::MAX));
            for id in [parent, child, grandchild, run] {
                assert_eq!(Shard::of(id, u16::MAX), Shard(shard.0 % u16::MAX), "{id}");
                assert_eq!((id.0.get_version_num(), id.0.get_variant()), (8, uuid::Variant::RFC4122), "{id}");
            }
            assert!(
                parent != child && child != grandchild && ExecutionId::of_child(&key(parent), 4) != child
            );
        }
    }

    #[test]
    fn ids_of_a_later_time_come_later_and_no_two_are_the_same() {
        let ids = [(1_000, 9, 7), (1_000, 9, 8), (1_001, 0, 0)]
            .map(|(ms, shard, bits)| ExecutionId::beginning(Timestamp(ms), Shard(shard), bits));
        assert!(ids[0] < ids[2] && ids[1] < ids[2] && ids[0] != ids[1], "{ids:?}");
    }

    #[test]
    fn every_mark_in_a_name_is_escaped_and_numbers_are_written_in_full() {
        let key = key("a%b[c]d#e:f", "[10]", u32::MAX, 100);
        let id = ExecutionId::from_random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(key.readable(), format!("{id}:a%25b%5Bc%5Dd%23e%3Af[10]#4294967295:100"));
        assert_eq!(key.state(), "a%b[c]d#e:f");
    }

    #[test]
    fn a_key_tells_its_step_and_its_round() {
        let key = key("Naïve [draft]: 50%", "[2:3][0]", 4, 12);
        assert_eq!((key.step(), key.round()), ("Naïve %5Bdraft%5D%3A 50%25[2:3][0]#4", Round(12)));
    }

    #[test]
    fn only_what_has_three_parts_is_read_as_a_key() {
        let key = key("Notify", "[2:3]", 1, 7);
        let stored = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<EffectKey>(&stored).unwrap(), key);
        for wrong in ["", "a", "a:b", "a:1", "a:b:c", "a:b:-1"] {
            let error = serde_json::from_value::<EffectKey>(wrong.into()).unwrap_err().to_string();
            assert!(error.contains("is no key"), "{wrong}: {error}");
        }
    }

    #[test]
    fn names_with_marks_never_share_a_key() {
        assert_ne!(key("Notify[3]", "", 1, 1), key("Notify", "[3]", 1, 1));
        assert_ne!(key("A#1:1", "", 1, 1).readable(), key("A", "", 1, 1).readable());
    }

    #[test]
    fn a_secret_is_of_an_attempt_that_was_made_and_of_no_other() {
        let first = Secret(0x7_ffff);
        let third = first.next_attempt().next_attempt();
        for (attempt, is_made) in [(1, [false, false, true]), (2, [false, true, true]), (3, [true; 3])] {
            let found = [first, first.next_attempt(), third]
                .map(|secret| secret.is_of_an_attempt_until(third, Attempt(attempt)));
            assert_eq!(found, is_made, "{attempt}");
        }
        for other in [third.next_attempt(), Secret(first.0 - 1), Secret(first.0 ^ 1 << 16)] {
            assert!(!other.is_of_an_attempt_until(third, Attempt(3)), "{:x}", other.0);
        }
    }

    #[test]
    fn tokens_come_back_as_they_left_and_hide_their_secret() {
        let token =
            TaskToken { execution: ExecutionId::from_random(5), strand: StrandId(7), secret: Secret(9) };
        assert_eq!(TaskToken::parse(&token.to_string()), Some(token));
        let text = TaskToken { secret: Secret(0xab), ..token }.to_string();
        let plus = format!("{}+{}", &text[..32], &text[33..]);
        for wrong in ["nonsense", &text.to_uppercase(), &plus] {
            assert_eq!(TaskToken::parse(wrong), None, "{wrong}");
        }
        assert!(!format!("{token:?}").contains("0009"));
    }
}
