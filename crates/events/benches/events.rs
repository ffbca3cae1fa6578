//! What it costs to name a message, and to find the patterns that it matches.
//!
//! `cargo bench -p perdura-events --bench events`; with `-- --test` each runs once.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use perdura_events::{Event, Identity, Limits, Pattern, Patterns, Rule, Without, decode};

const SIZES: [usize; 4] = [1 << 10, 16 << 10, 64 << 10, 1 << 20];
const PATTERNS: [usize; 3] = [1, 100, 10_000];

fn main() {
    divan::main();
}

/// An order of about so many bytes: short names, amounts, some text; names out of order.
fn order(bytes: usize) -> String {
    let mut text = r#"{"order":"8e03978e-40d5-43e8-bc93-6894a57f9324","currency":"EUR","lines":["#.to_owned();
    for at in 0.. {
        let comma = if at == 0 { "" } else { "," };
        let line = format!(
            r#"{comma}{{"sku":"SKU-{at:06}","quantity":{},"price":{}.{:02},"note":"left at the door, r\u00e9f. {at}","gift":false}}"#,
            at % 7 + 1,
            at * 31 % 900,
            at % 100
        );
        if text.len() + line.len() + 2 > bytes {
            break;
        }
        text.push_str(&line);
    }
    text.push_str("]}");
    text
}

fn event(json: &str) -> Event {
    let mut event = Event::new("order.placed", "/shop").expect("valid");
    event.set_json(json);
    event
}

mod fingerprint {
    use super::{Bencher, BytesCount, Identity, Rule, SIZES, Without, black_box, event, order};

    #[divan::bench(args = SIZES)]
    fn ours(bencher: Bencher<'_, '_>, bytes: usize) {
        let (text, rule) = (order(bytes), Rule { canonical_bytes_max: 2 << 20, ..Rule::default() });
        let event = event(&text);
        bencher
            .counter(BytesCount::of_str(&text))
            .bench(|| Identity::of(black_box(&event), &rule).expect("something is left"));
    }

    #[divan::bench(args = SIZES)]
    fn ours_without_a_field(bencher: Bencher<'_, '_>, bytes: usize) {
        let without = Without::new(["/lines/*/note"]).expect("valid");
        let (text, rule) = (order(bytes), Rule { canonical_bytes_max: 2 << 20, without });
        let event = event(&text);
        bencher
            .counter(BytesCount::of_str(&text))
            .bench(|| Identity::of(black_box(&event), &rule).expect("something is left"));
    }

    /// As RFC 8785 has it: into a tree of values, from there into canonical text, and the hash of that.
    #[divan::bench(args = SIZES)]
    fn serde_json_and_canonicalizer(bencher: Bencher<'_, '_>, bytes: usize) {
        use perdura_canonical::Parts;
        let text = order(bytes);
        bencher.counter(BytesCount::of_str(&text)).bench(|| {
            let value: serde_json::Value = serde_json::from_str(black_box(&text)).expect("JSON");
            let canonical = serde_json_canonicalizer::to_vec(&value).expect("a value");
            let mut parts = Parts::new(b"version");
            parts.add(&canonical);
            parts.finish()
        });
    }

    /// SHA-256 alone, which nothing can be faster than.
    #[divan::bench(args = SIZES)]
    fn bytes_as_they_are(bencher: Bencher<'_, '_>, bytes: usize) {
        let (text, rule) = (order(bytes), Rule { canonical_bytes_max: 0, ..Rule::default() });
        let event = event(&text);
        bencher
            .counter(BytesCount::of_str(&text))
            .bench(|| Identity::of(black_box(&event), &rule).expect("something is left"));
    }
}

/// A structured CloudEvent into a message.
#[divan::bench(args = SIZES)]
fn reading(bencher: Bencher<'_, '_>, bytes: usize) {
    let text = format!(
        r#"{{"specversion":"1.0","type":"order.placed","source":"/shop","id":"1","data":{}}}"#,
        order(bytes)
    );
    let headers = [("content-type", "application/cloudevents+json")];
    let limits = Limits { bytes_max: 2 << 20, ..Limits::default() };
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| decode(&headers, black_box(text.as_bytes()), &limits).expect("a CloudEvent"));
}

mod patterns {
    use super::{Bencher, ItemsCount, PATTERNS, Pattern, Patterns, black_box, event};

    fn bench(bencher: Bencher<'_, '_>, patterns: usize, pattern: impl Fn(usize) -> String, matching: usize) {
        let set = Patterns::new((0..patterns).map(|at| (at, Pattern::parse(&pattern(at)).expect("valid"))))
            .expect("few");
        let event = event(
            r#"{"order":"8e03978e","tenant":"tenant-0","total":12.5,"path":"in/tenant-0/a.csv","state":"running",
                "lines":[{"sku":"SKU-1","quantity":2},{"sku":"SKU-2","quantity":3}],"note":"left at the door"}"#,
        );
        assert_eq!(set.matching(&event).count(), matching);
        bencher.counter(ItemsCount::new(1_usize)).bench(|| set.matching(black_box(&event)).count());
    }

    /// All ask for one source and one state, and each for a tenant of its own.
    #[divan::bench(args = PATTERNS)]
    fn exact(bencher: Bencher<'_, '_>, patterns: usize) {
        let pattern = |at| {
            format!(r#"{{"source":["/shop"],"detail":{{"state":["running"],"tenant":["tenant-{at}"]}}}}"#)
        };
        bench(bencher, patterns, pattern, 1);
    }

    /// Each operator in its turn, none of the later ones matching.
    #[divan::bench(args = PATTERNS)]
    fn mixed(bencher: Bencher<'_, '_>, patterns: usize) {
        let pattern = |at: usize| {
            let test = match at % 6 {
                0 => format!(r#""tenant":[{{"prefix":"tenant-{at}"}}]"#),
                1 => format!(r#""tenant":[{{"suffix":"-x{at}"}}]"#),
                2 => format!(r#""path":[{{"wildcard":"in/tenant-{at}/*.csv"}}]"#),
                3 => format!(r#""total":[{{"numeric":[">",{at}00]}}]"#),
                4 => format!(r#""tenant":[{{"equals-ignore-case":"TENANT-{at}"}}]"#),
                _ => format!(r#""lines":{{"sku":["SKU-1"],"quantity":[{at}]}}"#),
            };
            format!(r#"{{"source":["/shop"],"detail":{{{test}}}}}"#)
        };
        bench(bencher, patterns, pattern, 1);
    }

    /// A hundred patterns of those that there are match.
    #[divan::bench(args = [100, 10_000])]
    fn a_hundred_match(bencher: Bencher<'_, '_>, patterns: usize) {
        let pattern =
            |at| format!(r#"{{"detail":{{"state":["running"],"tenant":["tenant-{}"]}}}}"#, at / 100);
        bench(bencher, patterns, pattern, 100);
    }

    /// Reading the patterns, and putting them together.
    #[divan::bench(args = PATTERNS, sample_count = 10)]
    fn building(bencher: Bencher<'_, '_>, patterns: usize) {
        let texts: Vec<String> = (0..patterns)
            .map(|at| {
                format!(r#"{{"source":["/shop"],"detail":{{"state":["running"],"tenant":["tenant-{at}"]}}}}"#)
            })
            .collect();
        let read = |text: &String| Pattern::parse(text).expect("valid");
        bencher
            .counter(ItemsCount::new(patterns))
            .bench(|| Patterns::new(texts.iter().map(|text| ((), read(text)))).expect("few"));
    }
}
