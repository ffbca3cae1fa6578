//! Stories: text files that say what arrives and what follows, exactly.
//!
//! ```text
//! # Lines that begin with `#` are for readers.
//! machine:
//!   StartAt: Charge
//!   States: { … }                 YAML or JSON, indented
//! input: {"amount": 7}            `{}` where it is not given
//! limits: strict, events_max 20   generous ones where not given; `strict` are AWS's
//! destinations: charge hold, mail remembers 60s, bank refuses A+B    policies, by a part of the resource's ARN
//! abridge: 8                      of longer Turns only the first and last 4 records are shown
//!
//! > start
//!   1<-0 ExecutionStarted {"amount": 7}
//!   …                             events; `note` what else is recorded; `do` what is to be done
//! > +5s timer                     times are those since the start; without one, time stands still
//! > at the end, outcome A ok 1    it arrives at a process that is about to end
//! > restart                       the process dies and comes back: read from storage, then taken up
//! > the wall clock steps -3600s   from here on it stands so much from the steady one, whose times are given
//! ```
//!
//! `UPDATE=1 cargo test -p perdura-engine --test histories` writes anew what follows; a person reads the diff.

mod arrives;
mod show;

use crate::stage::{Decide, Policies, START, Stage, Taken, identity, machine};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{Limits, Moment, Policy, Timestamp, Uncertain, decide, decide_before_calls};
use std::path::{Path, PathBuf};

/// Plays `histories/{name}.txt` and compares what follows with what it says.
#[expect(clippy::disallowed_methods, reason = "stories are files, and are only read in tests")]
pub(crate) fn check(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let told = play(name, &text);
    if std::env::var_os("UPDATE").is_some() {
        if told != text {
            std::fs::write(&path, told).expect("a story can be written");
        }
        return;
    }
    let same = text.lines().zip(told.lines()).take_while(|(said, is)| said == is).count();
    if told != text {
        let around = |text: &str| {
            let from = same.saturating_sub(3);
            text.lines().skip(from).take(12).collect::<Vec<_>>().join("\n")
        };
        panic!(
            "{}:{}: the story goes\n{}\n\nbut what follows is\n{}\n\nUPDATE=1 writes it anew",
            path.display(),
            same + 1,
            around(&text),
            around(&told)
        );
    }
}

/// Where the stories are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

/// What stands before the first input.
struct Header {
    definition: String,
    input: String,
    limits: Limits,
    machine_type: MachineType,
    entropy: u128,
    abridge: usize,
    policies: Policies,
}

/// The story's own lines, with what follows put in anew.
fn play(name: &str, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| line.starts_with('>')).expect("a story has an input");
    let header = Header::read(&lines[..begin]);
    let machine = machine(&format!("{name}.yaml"), &header.definition, header.machine_type);
    let identity = identity(&machine, &header.input, header.limits);
    let mut stage = Stage::new(machine, identity).with_policies(header.policies);
    let mut told: Vec<String> = lines[..begin].iter().map(ToString::to_string).collect();
    let mut now = START;
    let mut stepped = 0;
    let mut turns = 0;
    for line in &lines[begin..] {
        if line.starts_with("  ") {
            continue; // What was said to follow.
        }
        told.push((*line).to_string());
        let Some(step) = line.strip_prefix("> ") else { continue };
        let step = match step.strip_prefix('+').and_then(|rest| rest.split_once(' ')) {
            Some((time, rest)) => {
                now = at(time);
                rest
            }
            None => step,
        };
        if let Some(by) = step.strip_prefix("the wall clock steps ") {
            stepped += ms(by);
            continue;
        }
        if step == "restart" {
            let moment = Moment { now: now.after_ms(stepped), steady: now, entropy: header.entropy + turns };
            let taken = stage.restart(&moment);
            told.extend(follows(&taken, moment.now, header.abridge));
            continue;
        }
        turns += 1;
        let wall = now.after_ms(stepped);
        let moment = Moment { now: wall, steady: now, entropy: header.entropy + turns };
        let (decide, step): (Decide, &str) = match step.strip_prefix("at the end, ") {
            Some(step) => (decide_before_calls, step),
            None => (decide, step),
        };
        let input = arrives::input(step, &stage);
        let taken = stage.take_by(decide, &input, &moment);
        told.extend(follows(&taken, wall, header.abridge));
    }
    stage.finish();
    told.join("\n") + "\n"
}

fn follows(taken: &Taken, wall: Timestamp, abridge: usize) -> impl Iterator<Item = String> {
    show::taken(taken, wall, abridge).into_iter().map(|line| format!("  {line}"))
}

/// `5s`, `1.5s`, `40ms` after the start.
fn at(text: &str) -> Timestamp {
    START.after_ms(ms(text))
}

fn ms(text: &str) -> i64 {
    let ms = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(ms), _) => ms.parse().ok(),
        (None, Some(seconds)) => seconds.parse::<f64>().ok().map(|seconds| (seconds * 1000.0).round() as i64),
        (None, None) => None,
    };
    ms.unwrap_or_else(|| panic!("`{text}` is not a time such as +5s or +40ms"))
}

impl Header {
    fn read(lines: &[&str]) -> Self {
        let mut header = Self {
            definition: String::new(),
            input: "{}".into(),
            limits: Limits::GENEROUS,
            machine_type: MachineType::Standard,
            entropy: 0,
            abridge: usize::MAX,
            policies: Policies::default(),
        };
        for line in lines {
            if let Some(definition) = line.strip_prefix("  ") {
                header.definition += definition;
                header.definition.push('\n');
                continue;
            }
            let Some((name, value)) = line.split_once(':') else {
                assert!(line.is_empty() || line.starts_with('#'), "not a line of a story: {line}");
                continue;
            };
            let value = value.trim();
            match name {
                "machine" => assert_eq!(value, "", "the definition stands below `machine:`, indented"),
                "input" => header.input = value.into(),
                "limits" => header.limits = limits(value, header.machine_type),
                "type" => {
                    assert_eq!(value, "express", "a machine is standard unless it is express");
                    header.machine_type = MachineType::Express;
                }
                "entropy" => header.entropy = value.parse().expect("entropy is a number"),
                "destinations" => header.policies = policies(value),
                "abridge" => header.abridge = value.parse().expect("abridge is a number"),
                _ => assert!(line.starts_with('#'), "not a line of a story: {line}"),
            }
        }
        header
    }
}

fn policies(text: &str) -> Policies {
    let policy = |text: &str| match text.split_once(' ') {
        None if text == "hold" => Policy { uncertain: Uncertain::Hold, ..Policy::default() },
        Some(("refuses", names)) => {
            Policy { refused: names.split('+').map(Into::into).collect(), ..Policy::default() }
        }
        Some(("remembers", time)) => Policy { key_memory_ms: ms(time), ..Policy::default() },
        _ => panic!("not a policy: {text}"),
    };
    let pair = |part: &str| {
        let (name, rest) = part.trim().split_once(' ').expect("a destination has a policy");
        (name.into(), policy(rest))
    };
    Policies(text.split(',').map(pair).collect())
}

fn limits(text: &str, machine_type: MachineType) -> Limits {
    let mut limits = Limits::GENEROUS;
    for part in text.split(',').map(str::trim) {
        if part == "strict" {
            limits = Limits::strict(machine_type);
            continue;
        }
        let number = |value: &str| value.parse::<usize>().expect("a limit is a number");
        match part.split_once(' ') {
            Some(("payload_bytes_max", most)) => limits.payload_bytes_max = number(most),
            Some(("variables_bytes_max", most)) => limits.variables_bytes_max = number(most),
            Some(("events_max", most)) => limits.events_max = Some(number(most) as u64),
            Some(("turn_states_max", most)) => limits.turn_states_max = number(most) as u32,
            Some(("turn_bytes_max", most)) => limits.turn_bytes_max = number(most),
            Some(("turn_work_max", most)) => limits.turn_work_max = number(most) as u64,
            Some(("kept_bytes_max", most)) => limits.kept_bytes_max = number(most),
            Some(("state_work_max", most)) => limits.state_work_max = number(most) as u64,
            _ => panic!("not a limit: {part}"),
        }
    }
    limits
}
