use super::*;
use crate::record::Epoch;
use crate::store::Swept;
use std::collections::BTreeSet;

const EPOCH: Epoch = Epoch(1);

fn tell(metrics: &Metrics, route: &str, what: What) {
    metrics.happened(&Happening { route: route.into(), operation: None, what });
}

/// A sample: its name, its labels in order, its value.
type Sample = (String, Vec<(String, String)>, f64);

/// Reads the text format strictly: each family is HELP, TYPE, then its samples, all together and once; each sample once;
/// names and labels of the right form; a line feed at the end.
fn parse(text: &str) -> Vec<Sample> {
    let (mut samples, mut families, mut seen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let (mut name, mut kind) = ("", "");
    let body = text.strip_suffix('\n').expect("the last line ends too");
    let mut lines = body.split('\n');
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (family, words) = help.split_once(' ').expect("a help has words");
            assert!(words.ends_with('.') && !words.contains('\\'), "{words}");
            let typed =
                lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("TYPE follows HELP");
            (name, kind) = typed.split_once(' ').expect("a type has a kind");
            assert_eq!(name, family);
            assert!(["counter", "histogram"].contains(&kind), "{kind}");
            assert!(families.insert(name), "{name} comes twice");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            continue;
        }
        let sample = sample(line);
        let of_family = match kind {
            "histogram" => {
                ["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).contains(&sample.0)
            }
            _ => sample.0 == name && name.ends_with("_total"),
        };
        assert!(of_family, "{line} is in the family {name}");
        assert!(seen.insert((sample.0.clone(), sample.1.clone())), "{line} comes twice");
        samples.push(sample);
    }
    samples
}

fn sample(line: &str) -> Sample {
    let (name, mut rest) = line.split_at(line.find(['{', ' ']).expect("a name ends"));
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value");
            assert!(label.bytes().all(|b| b.is_ascii_lowercase()), "{label}");
            let (value, after) = unquote(after);
            labels.push((label.to_owned(), value));
            match after.split_at(1) {
                (",", more) => rest = more,
                ("}", end) => {
                    rest = end;
                    break;
                }
                (other, _) => panic!("{other} after a label in {line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("one space before the value");
    (name.to_owned(), labels, value.parse().expect("a number"))
}

fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match chars.next().expect("an escape has a second half").1 {
                'n' => '\n',
                same @ ('\\' | '"') => same,
                other => panic!("\\{other} is no escape"),
            }),
            other => value.push(other),
        }
    }
    panic!("{text} has no end");
}

/// The value of the sample with this name (without what all begin with) and these labels.
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels: Vec<_> =
        labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
    let name = format!("perdura_idempotency_{name}");
    samples.iter().find(|sample| sample.0 == name && sample.1 == labels).map(|sample| sample.2)
}

#[test]
fn each_happening_raises_its_own_number() {
    let second = Duration::from_secs(1);
    let table: [(What, &[&str], &[&str]); 20] = [
        (What::Arrived, &["arrived"], &[]),
        (What::Claimed { epoch: EPOCH, taken_over: false }, &["claims"], &[]),
        (What::Claimed { epoch: EPOCH, taken_over: true }, &["claims", "takeovers"], &[]),
        (What::Renewing { epoch: EPOCH }, &["renewals"], &[]),
        (What::Saving { epoch: EPOCH, ran_for: second }, &[], &[]),
        (What::SaveFailed { epoch: EPOCH }, &["save_failures"], &[]),
        (What::Saved { epoch: EPOCH, status: 201, retained: true }, &[], &["completed"]),
        (What::Saved { epoch: EPOCH, status: 201, retained: false }, &[], &["completed_without_answer"]),
        (What::Released { epoch: EPOCH }, &[], &["released"]),
        (What::Unknown { epoch: EPOCH, panicked: false }, &["unknown_outcomes"], &["unknown"]),
        (What::Unknown { epoch: EPOCH, panicked: true }, &["unknown_outcomes", "panics"], &["unknown"]),
        (What::GoesOn { epoch: EPOCH }, &["still_running"], &[]),
        (What::LeaseLost { epoch: EPOCH }, &["lease_losses"], &[]),
        (What::Waiting, &["waits"], &[]),
        (What::Waited { waited_for: second }, &[], &[]),
        (What::Replayed { epoch: EPOCH }, &[], &["replayed"]),
        (What::Conflicted, &["conflicts"], &[]),
        (What::ReplayAnomaly { requests: 5 }, &["replay_anomalies"], &[]),
        (What::Refused { reason: "OUTCOME_UNKNOWN" }, &[], &["outcome_unknown"]),
        (What::Refused { reason: "NOT_OURS" }, &[], &["other"]),
    ];
    for (what, counts, outcomes) in table {
        let metrics = Metrics::new();
        tell(&metrics, "POST /payments", what.clone());
        let samples = parse(&metrics.render());
        for (_, count, _) in Count::ALL {
            let counted = value(&samples, &format!("{count}_total"), &[("route", "POST /payments")]);
            assert_eq!(counted, Some(f64::from(counts.contains(&count))), "{count} after {what:?}");
        }
        let raised =
            samples.iter().filter(|(name, _, value)| name.ends_with("_requests_total") && *value > 0.0);
        let raised: Vec<_> = raised.map(|(_, labels, _)| labels[1].1.as_str()).collect();
        assert_eq!(raised, outcomes, "after {what:?}");
    }
}

#[test]
fn each_reason_is_an_outcome() {
    let metrics = Metrics::new();
    for reason in Reason::ALL {
        tell(&metrics, "POST /", What::Refused { reason: reason.name() });
    }
    let samples = parse(&metrics.render());
    for reason in Reason::ALL {
        let outcome = reason.name().to_ascii_lowercase();
        let labels = [("route", "POST /"), ("outcome", outcome.as_str())];
        assert_eq!(value(&samples, "requests_total", &labels), Some(1.0), "{outcome}");
    }
}

#[test]
fn a_histogram_is_cumulative_its_bounds_are_inclusive_and_its_count_is_the_last_bucket() {
    let metrics = Metrics::new();
    for micros in [0, 1_000, 1_001, 60_000_000, 60_000_001, 3_600_000_000] {
        let ran_for = Duration::from_micros(micros);
        tell(&metrics, "POST /", What::Saving { epoch: EPOCH, ran_for });
    }
    let samples = parse(&metrics.render());
    let bucket = |le| value(&samples, "handler_seconds_bucket", &[("route", "POST /"), ("le", le)]);
    let table = [("0.001", 2.0), ("0.002", 3.0), ("1", 3.0), ("60", 4.0), ("+Inf", 6.0)];
    for (le, count) in table {
        assert_eq!(bucket(le), Some(count), "le {le}");
    }
    let bounds: Vec<f64> = samples
        .iter()
        .filter(|(name, _, _)| name.ends_with("handler_seconds_bucket"))
        .map(|(_, labels, _)| labels[1].1.parse().unwrap())
        .collect();
    assert!(bounds.is_sorted() && bounds.len() == BUCKETS.len() + 1, "{bounds:?}");
    assert_eq!(value(&samples, "handler_seconds_count", &[("route", "POST /")]), Some(6.0));
    let sum = value(&samples, "handler_seconds_sum", &[("route", "POST /")]).unwrap();
    assert!((sum - 3_720.002_002).abs() < 1e-6, "{sum}");
    assert_eq!(value(&samples, "wait_seconds_count", &[("route", "POST /")]), Some(0.0));
}

#[test]
fn labels_are_escaped() {
    let metrics = Metrics::new();
    let odd = "POST /a\"b\\c\nd/{ü},x=\"y\"} 7";
    tell(&metrics, odd, What::Arrived);
    assert_eq!(value(&parse(&metrics.render()), "arrived_total", &[("route", odd)]), Some(1.0));
}

#[test]
fn routes_beyond_the_bound_are_counted_together_and_long_names_are_cut() {
    let metrics = Metrics::new();
    for number in 0..10_000 {
        tell(&metrics, &format!("POST /{number}"), What::Arrived);
    }
    tell(&metrics, "POST /7", What::Arrived);
    let text = metrics.render();
    let samples = parse(&text);
    let routes = samples.iter().filter(|(name, _, _)| name.ends_with("arrived_total")).count();
    assert_eq!(routes, ROUTES_MAX + 1);
    assert_eq!(value(&samples, "arrived_total", &[("route", "POST /7")]), Some(2.0), "known ones go on");
    let other = value(&samples, "arrived_total", &[("route", OTHER)]);
    assert_eq!(other, Some((10_000 - ROUTES_MAX) as f64), "nothing is lost");

    let metrics = Metrics::new();
    tell(&metrics, &"ü".repeat(ROUTE_BYTES_MAX), What::Arrived);
    let cut = "ü".repeat(ROUTE_BYTES_MAX / 2);
    assert_eq!(value(&parse(&metrics.render()), "arrived_total", &[("route", &cut)]), Some(1.0));
}

#[test]
fn clones_count_together_and_sweeping_is_counted() {
    let metrics = Metrics::new();
    tell(&metrics.clone(), "", What::Swept(Swept { answers: 3, records: 5, lapsed: Vec::new() }));
    tell(&metrics, "", What::Swept(Swept { answers: 1, ..Swept::default() }));
    let samples = parse(&metrics.render());
    assert_eq!(value(&samples, "swept_answers_total", &[]), Some(4.0));
    assert_eq!(value(&samples, "swept_records_total", &[]), Some(5.0));
}

#[test]
fn a_lapse_is_counted_by_who_found_out_and_names_no_route() {
    let metrics = Metrics::new();
    for (by, route) in [(FoundBy::Sweep, ""), (FoundBy::Claim, "POST /payments"), (FoundBy::Sweep, "")] {
        tell(&metrics, route, What::Lapsed { by });
    }
    let samples = parse(&metrics.render());
    for (by, count) in [("sweep", 2.0), ("claim", 1.0)] {
        assert_eq!(value(&samples, "lease_expiries_total", &[("by", by)]), Some(count), "{by}");
    }
    let routes = samples.iter().filter(|(_, labels, _)| labels.iter().any(|(label, _)| label == "route"));
    assert_eq!(routes.count(), 0, "there is no route without a request");
}
