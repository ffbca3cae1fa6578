//! The patterns of docs/events.md match the data that stands beside them.

use perdura_events::{Event, Pattern, Patterns};

const DOCUMENTATION: &str = include_str!("../../../docs/events.md");

/// A row of the table of operators: name, pattern, data that matches, data that does not.
fn rows() -> Vec<[&'static str; 4]> {
    DOCUMENTATION
        .lines()
        .skip_while(|line| !line.starts_with("| Operator |"))
        .skip(2)
        .take_while(|line| line.starts_with("| "))
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [name, pattern, yes, no] = cells.try_into().unwrap_or_else(|_| panic!("four cells: {line}"));
            [name, pattern.trim_matches('`'), yes.trim_matches('`'), no.trim_matches('`')]
        })
        .collect()
}

#[test]
fn each_example_does_what_the_table_says() {
    let rows = rows();
    for operator in [
        "exact",
        "prefix",
        "suffix",
        "equals-ignore-case",
        "wildcard",
        "anything-but",
        "numeric",
        "exists",
        "cidr",
        "$or",
    ] {
        assert!(
            rows.iter().any(|[name, ..]| name.contains(&format!("`{operator}`"))),
            "{operator} has an example"
        );
    }
    for [name, pattern, yes, no] in rows {
        let pattern = Pattern::parse(pattern).unwrap_or_else(|error| panic!("{name}: {error}"));
        let patterns = Patterns::new([(name, pattern)]).expect("one pattern");
        for (data, wanted) in [(yes, 1), (no, 0)] {
            let mut event = Event::new("t", "s").expect("valid");
            event.set_json(data);
            serde_json::from_str::<serde_json::Value>(data).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(patterns.matching(&event).count(), wanted, "{name}: {data}");
        }
    }
}
