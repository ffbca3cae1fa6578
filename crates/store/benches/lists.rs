//! How long a page of a list takes beside a million executions, filter by filter.
//!
//! There are ten machines; three of a hundred executions failed; a third has labels, one of its own and one that it shares
//! with a fiftieth of them. Each figure is one page of 100, the median and the slowest of many, at places spread over the
//! list.
//!
//! `cargo bench -p perdura-store --bench lists -- --stored 1000000`

use perdura_engine::{ExecutionId, Labels, Status, Timestamp, Wake};
use perdura_store::record::{push_turn, seal};
use perdura_store::{
    Catalog, Claim, Content, Filter, Group, Lease, MachineId, Order, RevisionId, Row, SqliteOptions,
    SqliteStore, Store,
};
use std::time::Instant;

const PAGE: u32 = 100;
const PAGES: u32 = 60;

fn id(number: u64) -> ExecutionId {
    ExecutionId::from_random(
        u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number),
    )
}

fn row(number: u64) -> Row {
    let has_failed = number % 100 < 3;
    let error = match number {
        _ if !has_failed => None,
        number if number.is_multiple_of(10_000) => Some("Rare"),
        number if number % 100 == 1 => Some("Late"),
        _ => Some("Declined"),
    };
    let own = format!("A-{number}");
    let shared = format!("t{}", number / 3 % 50);
    let labels =
        if number.is_multiple_of(3) { vec![("order", &own), ("tenant", &shared)] } else { Vec::new() };
    let mut history = Vec::new();
    push_turn(
        &mut history,
        format!("{{\"turn\":{number},\"is\":\"{}\"}}", "as it might be ".repeat(20)).as_bytes(),
    );
    let content = Content { turns: 1, events: 4, state: None, tail_from: 1, tail: seal(&history) };
    Row {
        execution: id(number),
        machine: MachineId(1 + number % 10),
        revision: RevisionId(1),
        name: Some(format!("order-{number}").into()),
        status: if has_failed { Status::Failed } else { Status::Succeeded },
        awake: false,
        started_at: Timestamp(number as i64 * 10),
        ended_at: Some(Timestamp(number as i64 * 10 + (number % 1_000) as i64)),
        wake: Wake::default(),
        waits: false,
        held: false,
        redrives: 0,
        redriven_at: None,
        version: None,
        alias: None,
        labels: Labels::new(labels).unwrap(),
        root_key: number.is_multiple_of(10).then(|| format!("key-{}", number / 100).into()),
        error: error.map(Into::into),
        child: None,
        content: Some(content),
    }
}

fn fill(store: &mut SqliteStore, lease: &Lease, stored: u64) {
    let mut next = 0;
    while next < stored {
        let until = stored.min(next + 2_000);
        let group = Group { rows: (next..until).map(row).collect(), ..Group::under(lease.clone()) };
        store.commit(&group).unwrap();
        next = until;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == "--stored");
    let stored = at.and_then(|at| arguments.get(at + 1)).map(|value| value.parse().unwrap());
    // As a test it only has to run.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let stored: u64 = stored.unwrap_or(if is_bench { 1_000_000 } else { 2_000 });
    let folder = std::env::temp_dir().join(format!("perdura-bench-lists-{}", std::process::id()));
    let mut store = SqliteStore::open(&folder, SqliteOptions::default()).unwrap();
    let (now, expires_at) = (Timestamp(0), Timestamp(i64::MAX));
    let claim = Claim { holder: "bench".into(), most: u16::MAX, now, expires_at };
    let lease = store.acquire(&claim).unwrap();
    let began = Instant::now();
    fill(&mut store, &lease, stored);
    println!("{stored} stored in {:.0} s", began.elapsed().as_secs_f64());
    let mut reader = store.reader().unwrap();
    let any = Filter::default;
    let machine = Some(MachineId(4));
    let failed = Some(Status::Failed);
    let label = |key: &str, value: &str| Some((key.into(), value.into()));
    let middle = Some(Timestamp(stored as i64 * 5));
    let end = Order::End;
    let cases = [
        ("all", any()),
        ("machine", Filter { machine, ..any() }),
        ("status", Filter { status: failed, ..any() }),
        ("machine and status", Filter { machine, status: failed, ..any() }),
        ("label of one", Filter { label: label("order", "A-300"), ..any() }),
        ("label of many", Filter { label: label("tenant", "t7"), ..any() }),
        ("label of many and status", Filter { label: label("tenant", "t7"), status: failed, ..any() }),
        ("error", Filter { error: Some("Declined".into()), ..any() }),
        ("rare error", Filter { error: Some("Rare".into()), ..any() }),
        ("error and machine", Filter { error: Some("Declined".into()), machine, ..any() }),
        ("name prefix of few", Filter { name_prefix: Some("order-4242".into()), ..any() }),
        ("name prefix of many", Filter { name_prefix: Some("order-4".into()), ..any() }),
        ("name prefix of none", Filter { name_prefix: Some("nobody".into()), ..any() }),
        ("name prefix and machine", Filter { name_prefix: Some("order-42".into()), machine, ..any() }),
        ("root key", Filter { root_key: Some("key-7".into()), ..any() }),
        ("time range", Filter { since: middle, until: middle.map(|at| at.after_ms(3_000)), ..any() }),
        ("by end", Filter { order: end, ..any() }),
        ("by end, machine", Filter { order: end, machine, ..any() }),
        ("by end, status", Filter { order: end, status: failed, ..any() }),
        ("by end, label of many", Filter { order: end, label: label("tenant", "t7"), ..any() }),
        ("by end, rare error", Filter { order: end, error: Some("Rare".into()), ..any() }),
        ("by end, time range", Filter { order: end, since: middle, ..any() }),
    ];
    println!("{:<28} {:>8} {:>8} {:>8} {:>8}", "", "p50 ms", "max ms", "rows", "pages");
    for (title, filter) in cases {
        let (mut each, mut rows, mut after) = (Vec::new(), 0, None);
        for number in 0..PAGES {
            let begun = Instant::now();
            let page = reader.list(&filter, after, PAGE).unwrap();
            each.push(begun.elapsed());
            rows += page.rows.len();
            // Every third page begins somewhere else.
            let somewhere = Timestamp(stored as i64 * 10 / i64::from(PAGES) * i64::from(number));
            after = if number % 3 == 2 { Some((somewhere, id(0))) } else { page.next };
        }
        each.sort_unstable();
        let ms = |at: usize| each[at].as_secs_f64() * 1_000.0;
        println!(
            "{title:<28} {:>8.2} {:>8.2} {rows:>8} {:>8}",
            ms(each.len() / 2),
            ms(each.len() - 1),
            each.len()
        );
    }
    drop((reader, store));
    std::fs::remove_dir_all(&folder).unwrap();
}
