//! How long a commit takes under endless load, and whether it grows with what is stored.
//!
//! Each commit writes the Turns of a group, 700 bytes each, and the rows of the executions that ended in it, one for
//! ten Turns. Only the commit is timed, not the making of its bytes. The table shows the tail, because that is where
//! checkpoints would be felt.
//!
//! `cargo bench -p perdura-store -- --seconds 20 --stored 1000000`

use perdura_engine::{ExecutionId, Status, Timestamp, Wake};
use perdura_store::record::{JournalWriter, push_turn, seal};
use perdura_store::{
    Claim, Content, Group, Lease, MachineId, Position, RevisionId, Row, SqliteOptions, SqliteStore, Store,
    Totals,
};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const TURN_BYTES: usize = 700;
const TURNS_PER_EXECUTION: u64 = 10;

/// Numbers without a pattern, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A Turn as it might be: words that come back, and ids that do not.
    fn turn(&mut self) -> Vec<u8> {
        let mut text = String::with_capacity(TURN_BYTES + 80);
        while text.len() < TURN_BYTES {
            let (id, output) = (self.roll() % 1000, self.roll());
            write!(
                text,
                "{{\"Event\":{{\"id\":{id},\"kind\":\"TaskSucceeded\",\"output\":\"{output:016x}\"}}}},",
            )
            .expect("a String takes all text");
        }
        text.truncate(TURN_BYTES);
        text.into_bytes()
    }
}

struct Load {
    store: SqliteStore,
    lease: Lease,
    position: Position,
    dice: Dice,
    totals: Totals,
    now: i64,
}

impl Load {
    fn new(folder: &Path) -> Self {
        let mut store = SqliteStore::open(folder, SqliteOptions::default()).unwrap();
        let lease = store
            .acquire(&Claim {
                holder: "bench".into(),
                most: u16::MAX,
                now: Timestamp(0),
                expires_at: Timestamp(i64::MAX),
            })
            .unwrap();
        let position = Position::before(lease.incarnation());
        Self { store, lease, position, dice: Dice(42), totals: Totals::default(), now: 0 }
    }

    fn ended(&mut self) -> Row {
        let execution =
            ExecutionId::from_random(u128::from(self.dice.roll()) << 64 | u128::from(self.dice.roll()));
        let mut history = Vec::new();
        for _ in 0..TURNS_PER_EXECUTION {
            push_turn(&mut history, &self.dice.turn());
        }
        let content = Content {
            turns: TURNS_PER_EXECUTION,
            events: 40,
            state: None,
            tail_from: 1,
            tail: seal(&history),
        };
        Row {
            execution,
            machine: MachineId(1 + self.dice.roll() % 3),
            revision: RevisionId(1),
            name: None,
            status: Status::Succeeded,
            awake: false,
            started_at: Timestamp(self.now - 40),
            ended_at: Some(Timestamp(self.now)),
            wake: Wake::default(),
            waits: false,
            held: false,
            redrives: 0,
            redriven_at: None,
            version: None,
            alias: None,
            labels: perdura_engine::Labels::default(),
            root_key: None,
            error: None,
            child: None,
            content: Some(content),
        }
    }

    fn group(&mut self, turns: u64) -> Group {
        self.now += 1;
        self.position = self.position.next();
        let mut writer = JournalWriter::new(&self.totals);
        for number in 0..turns {
            let execution = ExecutionId::from_random(u128::from(self.dice.roll()));
            writer.push(execution, number, &self.dice.turn());
        }
        Group {
            position: Some(self.position),
            journal: writer.seal(),
            keep_from: Position { number: self.position.number.saturating_sub(20), ..self.position },
            rows: (0..=turns / TURNS_PER_EXECUTION).map(|_| self.ended()).collect(),
            ..Group::under(self.lease.clone())
        }
    }

    /// Stores this many ended executions, without being timed.
    fn fill(&mut self, rows: u64) {
        let mut stored = 0;
        while stored < rows {
            let mut group = self.group(1);
            let more: Vec<Row> = (0..2_000).map(|_| self.small()).collect();
            stored += more.len() as u64;
            group.rows.extend(more);
            self.store.commit(&group).unwrap();
        }
    }

    fn small(&mut self) -> Row {
        let mut row = self.ended();
        let mut history = Vec::new();
        push_turn(&mut history, &self.dice.turn());
        row.content = Some(Content { turns: 1, events: 4, state: None, tail_from: 1, tail: seal(&history) });
        row
    }

    fn run(&mut self, title: &str, turns: u64, time: Duration, folder: &Path) {
        let begun = Instant::now();
        let mut each = Vec::new();
        let mut log = 0;
        let mut cpu = 0;
        while begun.elapsed() < time {
            let group = self.group(turns);
            let (start, cpu_before) = (Instant::now(), cpu_nanoseconds());
            self.store.commit(&group).unwrap();
            each.push(start.elapsed());
            cpu += cpu_nanoseconds() - cpu_before;
            log = log.max(size(&folder.join("perdura.db-wal")));
        }
        each.sort_unstable();
        let ms = |part: f64| each[((each.len() - 1) as f64 * part) as usize].as_secs_f64() * 1_000.0;
        let committing: Duration = each.iter().sum();
        println!(
            "{title:<22} {turns:>5} {:>9.0} {:>9.0} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.0} {:>8} {:>8}",
            each.len() as f64 / committing.as_secs_f64(),
            each.len() as f64 * turns as f64 / committing.as_secs_f64(),
            ms(0.5),
            ms(0.99),
            ms(0.999),
            ms(1.0),
            cpu as f64 / 1_000.0 / each.len() as f64,
            log >> 20,
            size(&folder.join("perdura.db")) >> 20,
        );
    }
}

/// What this thread has used so far, told by Linux; 0 elsewhere. Unlike the time of a commit it says the same on a
/// machine that has other work to do.
fn cpu_nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(otherwise, |value| value.parse().unwrap())
    };
    // As a test it only has to run.
    let bench = arguments.iter().any(|argument| argument == "--bench");
    let seconds = number("--seconds", if bench { 10 } else { 0 });
    let stored = number("--stored", if bench { 200_000 } else { 0 });
    let time = if bench { Duration::from_secs(seconds) } else { Duration::from_millis(20) };
    let folder = std::env::temp_dir().join(format!("perdura-bench-{}", std::process::id()));
    let mut load = Load::new(&folder);
    println!(
        "{:<22} {:>5} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "",
        "Turns",
        "commits/s",
        "Turns/s",
        "p50 ms",
        "p99 ms",
        "p999 ms",
        "max ms",
        "CPU us",
        "log MiB",
        "file MiB"
    );
    for turns in [64, 128] {
        load.run("empty", turns, time, &folder);
    }
    load.fill(stored);
    for turns in [64, 128] {
        load.run(&format!("{stored} more stored"), turns, time, &folder);
    }
    drop(load);
    std::fs::remove_dir_all(&folder).unwrap();
}
