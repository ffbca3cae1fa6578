//! Runs seeds, as many as wanted: `--seeds 0..1000000`, or one with its trace: `--seed 317 --trace`.

use perdura_sim::{Setting, Verdict, judge};
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: seeds [--seeds FROM..TO | --seed N] [--trace] [--without-faults] [--sabotage NAME] [--trouble NAME] [--failures-max N]";

struct Arguments {
    seeds: Range<u64>,
    setting: Setting,
    failures_max: usize,
}

fn main() -> ExitCode {
    let Some(arguments) = read_arguments(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if run(&arguments) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_arguments(mut given: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { seeds: 0..500, setting: Setting::default(), failures_max: 10 };
    while let Some(name) = given.next() {
        match name.as_str() {
            "--seeds" => {
                let value = given.next()?;
                let (from, to) = value.split_once("..")?;
                arguments.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            "--seed" => {
                let seed: u64 = given.next()?.parse().ok()?;
                arguments.seeds = seed..seed + 1;
            }
            "--without-faults" => arguments.setting.without_faults = true,
            "--trace" => arguments.setting.traces = true,
            "--sabotage" => arguments.setting.sabotage = Some(given.next()?.parse().ok()?),
            "--trouble" => arguments.setting.trouble = Some(given.next()?.parse().ok()?),
            "--failures-max" => arguments.failures_max = given.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some(arguments)
}

/// How many seeds failed.
fn run(arguments: &Arguments) -> usize {
    let began = Instant::now();
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut failed = 0;
    let mut done = 0_u64;
    let mut said_at = began;
    for seed in arguments.seeds.clone() {
        let verdict = judge(seed, arguments.setting);
        done += 1;
        for (what, times) in &verdict.counts {
            *counts.entry(what).or_default() += times;
        }
        for line in &verdict.trace {
            println!("{line}");
        }
        if !verdict.is_good() {
            failed += 1;
            tell(&verdict, arguments);
            if failed >= arguments.failures_max {
                break;
            }
        }
        if said_at.elapsed().as_secs() >= 10 {
            said_at = Instant::now();
            eprintln!("{done} seeds, {failed} failed, {:.0} a second", rate(done, began));
        }
    }
    println!(
        "{done} seeds in {:.1} s, {:.0} a second, {failed} failed",
        began.elapsed().as_secs_f64(),
        rate(done, began)
    );
    for (what, times) in counts {
        println!("{times:>10}  {what}");
    }
    failed
}

fn rate(done: u64, began: Instant) -> f64 {
    done as f64 / began.elapsed().as_secs_f64()
}

fn tell(verdict: &Verdict, arguments: &Arguments) {
    println!("{}", verdict.report(arguments.setting));
}
