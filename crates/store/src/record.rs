//! The record format, version 1: Turns, histories and states as bytes. docs/storage.md describes it.
//!
//! Every blob is *sealed*: a version, a method, a checksum, then the content, compressed where that helps. So damage by
//! a disk is found when the blob is read. Inside are bodies in JSON; the golden files of the engine pin their shape, so
//! every later version can read the records of today.

pub(crate) mod erase;
mod json;

use crate::group::{ChildOf, MachineId, Nesting, RevisionId, Totals};
use crate::store::StoredTurn;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress, get_maximum_output_size};
use perdura_engine::{EffectKey, ExecutionId, Identity, Turn};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use uuid::Uuid;

/// The version of the format to write.
const VERSION: u8 = 1;
/// Not compressed, because that would not help.
const PLAIN: u8 = 0;
/// LZ4 block, after its uncompressed size in four bytes, the lowest first.
const LZ4: u8 = 1;
/// Version, method, checksum.
const HEADER: usize = 6;
/// Shorter content is not worth compressing.
const WORTH_COMPRESSING: usize = 64;
/// LZ4 never compresses by more than this factor: a size beyond it is damage.
const RATIO_MAX: usize = 256;
/// How many bytes of its compression buffer a thread keeps.
const ROOM_KEPT: usize = 1 << 20;
/// The largest size of a journal row's totals.
const TOTALS_BYTES_MAX: usize = 10 * (1 + Totals::NAMES.len());

/// Bytes that differ from the bytes that were written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub String);

fn damage<T>(what: impl Into<String>) -> Result<T, Damage> {
    Err(Damage(what.into()))
}

/// The buffers of compression. A thread keeps them: allocating them anew for each record would take a third as long as
/// compressing.
#[derive(Default)]
struct Room {
    bytes: Vec<u8>,
    tables: Option<Tables>,
}

/// Where LZ4 remembers what it has seen: with numbers of two bytes, which are enough for most, and of four.
struct Tables {
    small: CompressTable,
    large: CompressTable,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

pub fn seal(content: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    if content.len() >= WORTH_COMPRESSING {
        ROOM.with_borrow_mut(|room| compress(content, room, &mut sealed));
    }
    if sealed.is_empty() {
        sealed.reserve_exact(HEADER + content.len());
        sealed.extend_from_slice(&[VERSION, PLAIN, 0, 0, 0, 0]);
        sealed.extend_from_slice(content);
    }
    let checksum = checksum(VERSION, sealed[1], &sealed[HEADER..]);
    sealed[2..HEADER].copy_from_slice(&checksum.to_le_bytes());
    sealed
}

/// Seals content compressed, without a checksum yet, if that makes it smaller.
fn compress(content: &[u8], room: &mut Room, sealed: &mut Vec<u8>) {
    let Room { bytes: room, tables } = room;
    let most = get_maximum_output_size(content.len());
    if room.len() < most {
        room.resize(most, 0);
    }
    let new = || Tables { small: CompressTable::small(), large: CompressTable::large() };
    let Tables { small, large } = tables.get_or_insert_with(new);
    let table = if content.len() < usize::from(u16::MAX) { small } else { large };
    let written = compress_into_with_table(content, room, table)
        .expect("the room is as large as the format can ask for");
    if written + 4 < content.len() {
        sealed.reserve_exact(HEADER + 4 + written);
        sealed.extend_from_slice(&[VERSION, LZ4, 0, 0, 0, 0]);
        sealed.extend_from_slice(&(content.len() as u32).to_le_bytes());
        sealed.extend_from_slice(&room[..written]);
    }
    if most > ROOM_KEPT {
        room.truncate(ROOM_KEPT);
        room.shrink_to_fit();
    }
}

fn checksum(version: u8, method: u8, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[version, method]);
    hasher.update(content);
    hasher.finalize()
}

/// Opens a sealed blob.
pub fn open(sealed: &[u8]) -> Result<Vec<u8>, Damage> {
    let [version, method, c0, c1, c2, c3, rest @ ..] = sealed else { return damage("the record is cut off") };
    if *version != VERSION {
        return damage(format!("the record has format {version}, and this perdura reads {VERSION}"));
    }
    if checksum(*version, *method, rest) != u32::from_le_bytes([*c0, *c1, *c2, *c3]) {
        return damage("the record's checksum is wrong");
    }
    match *method {
        PLAIN => Ok(rest.to_vec()),
        LZ4 => {
            let [l0, l1, l2, l3, block @ ..] = rest else { return damage("the record is cut off") };
            let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
            if length / RATIO_MAX > block.len() {
                return damage("the record claims an impossible size");
            }
            decompress(block, length).map_err(|error| Damage(format!("the record: {error}")))
        }
        other => damage(format!("the record is compressed by the unknown method {other}")),
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Result<u64, Damage> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let Some((first, rest)) = bytes.split_first() else { return damage("a number is cut off") };
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    damage("a number is too long")
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Result<&'b [u8], Damage> {
    let Some((taken, rest)) = bytes.split_at_checked(length) else { return damage("an entry is cut off") };
    *bytes = rest;
    Ok(taken)
}

/// Builds a journal row: the totals after it, then its Turns.
#[derive(Debug)]
pub struct JournalWriter {
    totals: Totals,
    /// The Turns, after space for the totals.
    turns: Vec<u8>,
}

impl Default for JournalWriter {
    fn default() -> Self {
        Self::new(&Totals::default())
    }
}

impl JournalWriter {
    pub fn new(totals: &Totals) -> Self {
        Self { totals: *totals, turns: vec![0; TOTALS_BYTES_MAX] }
    }

    /// An empty row with space for so many bytes of Turns.
    pub fn with_room(bytes: usize) -> Self {
        let mut journal = Self::default();
        journal.turns.reserve(bytes);
        journal
    }

    /// Adds a Turn.
    pub fn push(&mut self, execution: ExecutionId, number: u64, body: &[u8]) {
        self.turns.extend_from_slice(execution.uuid().as_bytes());
        put_number(&mut self.turns, number);
        put_number(&mut self.turns, body.len() as u64);
        self.turns.extend_from_slice(body);
    }

    /// Sets the totals, with these Turns counted.
    pub fn set_totals(&mut self, totals: &Totals) {
        self.totals = *totals;
    }

    /// The row's bytes.
    pub fn seal(mut self) -> Vec<u8> {
        let values = self.totals.values();
        let mut totals = Vec::with_capacity(TOTALS_BYTES_MAX);
        put_number(&mut totals, values.len() as u64);
        for value in values {
            put_number(&mut totals, value);
        }
        let from = TOTALS_BYTES_MAX - totals.len();
        self.turns[from..TOTALS_BYTES_MAX].copy_from_slice(&totals);
        seal(&self.turns[from..])
    }
}

/// Reads a journal row: the totals after it, and its Turns in order.
pub fn read_journal(sealed: &[u8]) -> Result<(Totals, Vec<(ExecutionId, StoredTurn)>), Damage> {
    let content = open(sealed)?;
    let mut rest = content.as_slice();
    let count = take_number(&mut rest)?;
    let values = (0..count.min(1024)).map(|_| take_number(&mut rest)).collect::<Result<Vec<_>, _>>()?;
    let mut turns = Vec::new();
    while !rest.is_empty() {
        let id = Uuid::from_slice(take(&mut rest, 16)?).expect("16 bytes are a UUID");
        let number = take_number(&mut rest)?;
        let length = take_number(&mut rest)? as usize;
        let body = take(&mut rest, length)?.to_vec();
        turns.push((ExecutionId::from_uuid(id), StoredTurn { number, body }));
    }
    Ok((Totals::from_values(&values), turns))
}

/// Adds a Turn to a history that is not sealed yet.
pub fn push_turn(history: &mut Vec<u8>, body: &[u8]) {
    put_number(history, body.len() as u64);
    history.extend_from_slice(body);
}

/// The Turns of a sealed history; the first one has this number.
pub fn read_history(sealed: &[u8], first: u64) -> Result<Vec<StoredTurn>, Damage> {
    let content = open(sealed)?;
    let mut rest = content.as_slice();
    let mut turns = Vec::new();
    while !rest.is_empty() {
        let length = take_number(&mut rest)? as usize;
        let body = take(&mut rest, length)?.to_vec();
        turns.push(StoredTurn { number: first + turns.len() as u64, body });
    }
    Ok(turns)
}

/// A stored Turn, in JSON. The first Turn of an execution also has its identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnBody {
    /// The identity, in the first Turn only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
    pub turn: Turn,
}

/// The content of the first Turn beside its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    pub machine: MachineId,
    pub revision: RevisionId,
    /// Its name was given; otherwise its id is its name.
    pub named: bool,
    /// The step of another execution that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<EffectKey>,
    /// That step waits for its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaited: bool,
    /// Its place in a line of children without places, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nesting: Option<Nesting>,
    pub identity: Identity,
    /// Its place in a Map Run, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildOf>,
}

/// Appends a Turn to the buffer, in the form of [`TurnBody`]. A debug build reads it back: a Turn that cannot be read
/// would be noticed only after the next start, when it is too late.
pub fn write_turn(buffer: &mut Vec<u8>, begun: Option<&Begun>, turn: &Turn) {
    #[derive(Serialize)]
    struct Borrowed<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        begun: Option<&'a Begun>,
        turn: &'a Turn,
    }
    let start = buffer.len();
    json::write(buffer, &Borrowed { begun, turn }).expect("what is recorded can be written");
    if cfg!(debug_assertions) {
        let read = TurnBody::read(&buffer[start..]).expect("what is recorded can be read back");
        assert_eq!((read.begun.as_ref(), &read.turn), (begun, turn), "a Turn is read back as it was decided");
    }
}

/// Whether a written Turn reads back the same: a committed Turn that cannot be read is lost. The error has the first
/// record that differs.
pub fn comes_back(body: &[u8], begun: Option<&Begun>, turn: &Turn) -> Result<(), Damage> {
    let read = TurnBody::read(body)?;
    if read.begun.as_ref() != begun {
        return damage("what its first Turn says of it comes back as something else");
    }
    let differs = |(read, written): &(_, _)| read != written;
    match read.turn.records.iter().zip(&turn.records).find(differs) {
        Some((read, written)) => damage(format!("{written:?} comes back as {read:?}")),
        None if read.turn.records.len() != turn.records.len() => damage("it comes back with other records"),
        None => Ok(()),
    }
}

impl TurnBody {
    /// As bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_turn(&mut bytes, self.begun.as_ref(), &self.turn);
        bytes
    }

    /// From bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, Damage> {
        serde_json::from_slice(bytes).map_err(|error| Damage(format!("a Turn cannot be read: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::{Note, Record};

    #[test]
    fn what_is_sealed_opens_to_the_same() {
        for content in [vec![], vec![7], vec![1; 63], vec![1; 64], b"abc".repeat(5000), (0..=255).collect()] {
            assert_eq!(open(&seal(&content)), Ok(content));
        }
    }

    #[test]
    fn a_single_wrong_bit_is_noticed() {
        let sealed = seal(&b"the same again and again ".repeat(40));
        for bit in 0..sealed.len() * 8 {
            let mut spoilt = sealed.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&spoilt).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(open(&sealed[..length]).is_err(), "cut off at {length}");
        }
    }

    #[test]
    fn a_journal_row_gives_back_its_totals_and_turns() {
        let totals = Totals { started: 3, turns: 70_000, outcomes_late: u64::MAX, ..Totals::default() };
        let mut writer = JournalWriter::new(&totals);
        let (one, two) = (ExecutionId::from_random(1), ExecutionId::from_random(2));
        writer.push(one, 1, b"{}");
        writer.push(two, 900, &[b'x'; 300]);
        let (read, turns) = read_journal(&writer.seal()).unwrap();
        assert_eq!(read, totals);
        let expected = [(one, 1, b"{}".to_vec()), (two, 900, vec![b'x'; 300])]
            .map(|(id, number, body)| (id, StoredTurn { number, body }));
        assert_eq!(turns, expected);
    }

    #[test]
    fn a_turn_that_would_not_come_back_is_told() {
        let note = |reason: &str| Record::Note(Note::Ignored { reason: reason.into() });
        let turn = Turn { records: vec![note("a"), note("b")] };
        let mut body = Vec::new();
        write_turn(&mut body, None, &turn);
        assert_eq!(comes_back(&body, None, &turn), Ok(()));
        let other = Turn { records: vec![note("a"), note("c")] };
        let told = comes_back(&body, None, &other).unwrap_err();
        assert!(told.0.contains("\"c\"") && told.0.contains("\"b\""), "{told}");
        assert!(comes_back(&body, None, &Turn { records: vec![note("a")] }).is_err());
        assert!(comes_back(&body[1..], None, &turn).is_err());
    }

    #[test]
    fn a_history_counts_its_turns_on() {
        let mut history = Vec::new();
        push_turn(&mut history, b"a");
        push_turn(&mut history, &[b'b'; 200]);
        let turns = read_history(&seal(&history), 41).unwrap();
        let numbers: Vec<u64> = turns.iter().map(|turn| turn.number).collect();
        assert_eq!(numbers, [41, 42]);
        assert_eq!(turns[1].body.len(), 200);
    }
}
