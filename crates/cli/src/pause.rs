//! `perdura pause`, `perdura resume` and `perdura drain`: machines are held, and go on.

use crate::arguments::{DrainArguments, MeantArguments, PauseArguments, ResumeArguments};
use crate::data::Data;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_server::control::{Answer, Paused, Pauses, Request};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked what is under way, and how often that is told.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How many calls are named.
const NAMED: usize = 5;

/// Holds a machine, or all of them.
pub(crate) fn pause(arguments: &PauseArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    let MeantArguments { machine, .. } = &arguments.meant;
    data.ask(Request::Pause { machine: machine.clone(), now: arguments.now })?;
    let what = if arguments.now { "stops at its next state" } else { "goes on" };
    let said = format!("{} paused: starts wait, and what runs {what}\n", subject(machine.as_deref()));
    tell(&mut data, arguments.data.json, &said)
}

/// Lets it go on.
pub(crate) fn resume(arguments: &ResumeArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    let MeantArguments { machine, .. } = &arguments.meant;
    data.ask(Request::Resume { machine: machine.clone() })?;
    let verb = if machine.is_some() { "goes on" } else { "go on" };
    let said = subject(machine.as_deref());
    let said = format!("{} {verb}\n", said.trim_end_matches(" is").trim_end_matches(" are"));
    let told = tell(&mut data, arguments.data.json, &said)?;
    note(&mut data, arguments.data.json);
    Ok(told)
}

/// Holds everything, and waits until nothing is under way.
pub(crate) fn drain(arguments: &DrainArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    data.ask(Request::Pause { machine: None, now: true })?;
    let until = arguments.timeout.map(|timeout| Instant::now() + timeout);
    let mut tells_at = Instant::now() + LOOK_EVERY;
    let pauses = loop {
        let pauses = pauses(&mut data)?;
        let now = Instant::now();
        if pauses.drained || until.is_some_and(|until| now >= until) {
            break pauses;
        }
        if now >= tells_at {
            tells_at = now + TELL_EVERY;
            terminal::tell(&waits_for(&pauses));
        }
        thread::sleep(LOOK_EVERY);
    };
    if arguments.data.json {
        table::print_json(&pauses)?;
    } else if pauses.drained {
        let next = "end the server, and let everything go on with `perdura resume --all`";
        terminal::print(format!("nothing is under way: {next}\n").as_bytes())?;
    }
    if pauses.drained {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::complain(&format!("not drained: {}; everything stays paused", waits_for(&pauses)));
    Ok(ExitCode::FAILURE)
}

fn subject(machine: Option<&str>) -> String {
    machine.map_or_else(|| "all machines are".to_owned(), |name| format!("{name} is"))
}

fn pauses(data: &mut Data) -> Result<Pauses> {
    match data.ask(Request::Pauses)? {
        Answer::Pauses(pauses) => Ok(*pauses),
        _ => bail!("the answer is none to this question"),
    }
}

fn tell(data: &mut Data, json: bool, said: &str) -> Result<ExitCode> {
    if json {
        table::print_json(&pauses(data)?)?;
    } else {
        terminal::print(said.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The calls and executions that a drain waits for, as text.
fn waits_for(pauses: &Pauses) -> String {
    let Pauses { calls, moving, waits_for, .. } = pauses;
    if *calls == 0 {
        return format!("waits for {moving} executions that move");
    }
    let named: Vec<&str> = waits_for.iter().take(NAMED).map(|call| &*call.key).collect();
    let more = if *calls > named.len() as u64 { ", and others" } else { "" };
    let calls = if *calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
    format!("waits for {calls}: {}{more}", named.join(", "))
}

/// Says what is paused, for whoever wonders why nothing moves.
pub(crate) fn note(data: &mut Data, json: bool) {
    // AWS has no pauses, and a token for some machines is not told of all.
    if json || data.is_elsewhere() {
        return;
    }
    let Ok(Answer::Pauses(pauses)) = data.ask(Request::Pauses) else { return };
    for paused in &pauses.items {
        terminal::tell(&noted(paused));
    }
}

fn noted(paused: &Paused) -> String {
    let Paused { machine, now, since, held } = paused;
    let (is, name) = (subject(machine.as_deref()), machine.as_deref().unwrap_or("--all"));
    let waiting = held.map_or_else(String::new, |held| format!(", {held} wait"));
    let now = if *now { ", with all that runs" } else { "" };
    format!("{is} paused since {since}{now}{waiting}: `perdura resume {name}`")
}
