//! `perdura watch`: shows executions while they run.
//!
//! One execution is shown from its Turns, as `perdura run --data` shows its own, so both show the same. If a server
//! elsewhere has only events, they are shown instead; see [`events`]. All executions are shown by comparing their
//! states at intervals; see [`all`].

mod all;
mod events;

use crate::arguments::WatchArguments;
use crate::data::Data;
use crate::run::lines;
use crate::run::progress::Progress;
use crate::run::story::ExecutionNo;
use crate::run::{Ending, Manner, exit_code, report};
use crate::terminal::{self, Out};
use anyhow::{Result, bail};
use events::Events;
use jiff::tz::TimeZone;
use perdura_asl::json::{Payload, Value};
use perdura_engine::{EventKind, Timestamp, Turn};
use perdura_runtime::RealClock;
use perdura_server::control::{Answer, Request, Shown};
use perdura_server::ends;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// The pause between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// Shows one execution or all.
pub(crate) fn watch(arguments: &WatchArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    let Some(which) = &arguments.execution else {
        return all::watch(&mut data, arguments.machine.as_deref(), arguments.data.json);
    };
    let shown = show(&mut data, which)?;
    if shown.ended_at.is_none() && !data.is_served() {
        terminal::tell("no server holds this data: what follows is told when one is started");
    }
    let id = shown.execution.to_string();
    let is_read = if arguments.data.json {
        follow(&mut data, &id, |event| Some(format!("{event}\n")))?
    } else if data.is_elsewhere() {
        let mut lines = lines::Lines::new(TimeZone::system(), Out::Stdout.paint());
        let mut events = Events::default();
        follow(&mut data, &id, |event| events.take(event.value()).map(|told| lines.line(&told)))?
    } else {
        Picture::new(shown.started_at).follow(&mut data, &id)?
    };
    if !is_read {
        return Ok(ExitCode::SUCCESS);
    }
    let shown = show(&mut data, &id)?;
    if arguments.data.json {
        return Ok(exit_code(shown.status));
    }
    let took_ms = shown.ended_at.unwrap_or(shown.started_at).0.saturating_sub(shown.started_at.0);
    let ending =
        Ending { status: shown.status, output: shown.output, fault: shown.fault, took_ms, skipped_ms: 0 };
    report(&shown.execution, &ending, Manner { quiet: false, json: false })
}

fn show(data: &mut Data, which: &str) -> Result<Shown> {
    match data.look(&Request::Show { execution: which.to_owned() })? {
        Answer::Execution(shown) => Ok(*shown),
        _ => bail!("the answer is none to this question"),
    }
}

/// Prints a line for each event that has one, until the end, or until the output is closed: `false`.
fn follow(data: &mut Data, id: &str, mut line: impl FnMut(&Payload) -> Option<String>) -> Result<bool> {
    let (mut next, mut has_ended, mut idle, mut bell) = (1, false, 0, None);
    loop {
        let request = Request::History { execution: id.to_owned(), from: next };
        let Answer::History(page) = data.look(&request)? else {
            bail!("the answer is none to this question")
        };
        for event in &page.items {
            let kind = event.value().get("type").and_then(Value::as_str).unwrap_or_default();
            has_ended = ends(kind).unwrap_or(has_ended);
            if let Some(line) = line(event)
                && !terminal::print_while_read(line.as_bytes())?
            {
                return Ok(false);
            }
        }
        match page.next {
            Some(after) => (next, idle) = (after, 0),
            None if has_ended => return Ok(true),
            None if data.is_far() => {
                thread::sleep(data.pause(EVERY, idle));
                idle += 1;
            }
            None => while !data.wait(&mut bell, Some((id, next)), EVERY) {},
        }
    }
}

/// The progress, with a picture if there is room for one.
struct Picture {
    progress: Progress,
    clock: RealClock,
    next: u64,
    has_ended: bool,
    last_at: Timestamp,
}

impl Picture {
    fn new(began_at: Timestamp) -> Self {
        let progress = Progress::on(Out::Stdout, began_at);
        Self { progress, clock: RealClock::default(), next: 1, has_ended: false, last_at: began_at }
    }

    /// Until the end, or until the output is closed: `false`.
    fn follow(&mut self, data: &mut Data, id: &str) -> Result<bool> {
        let mut bell = None;
        loop {
            let request = Request::Turns { execution: id.to_owned(), from: self.next };
            let Answer::Turns(page) = data.look(&request)? else {
                bail!("the answer is none to this question")
            };
            page.items.iter().for_each(|turn| self.turn(turn));
            if let Some(next) = page.next {
                self.next = next;
                continue;
            }
            if self.has_ended {
                self.progress.finish(self.clock.moment().now);
                return Ok(self.progress.is_read());
            }
            loop {
                self.progress.draw(self.clock.moment().now);
                if !self.progress.is_read() {
                    return Ok(false);
                }
                if data.wait(&mut bell, Some((id, self.next)), EVERY) {
                    break;
                }
            }
        }
    }

    fn turn(&mut self, turn: &Turn) {
        self.last_at = turn.events().next().map_or(self.last_at, |event| event.at);
        self.progress.tell(ExecutionNo::TOP, turn, self.last_at);
        for event in turn.events() {
            self.has_ended = match &event.kind {
                EventKind::ExecutionSucceeded { .. }
                | EventKind::ExecutionFailed(_)
                | EventKind::ExecutionAborted(_)
                | EventKind::ExecutionTimedOut(_) => true,
                EventKind::ExecutionStarted { .. } | EventKind::ExecutionRedriven { .. } => false,
                _ => continue,
            };
        }
    }
}
