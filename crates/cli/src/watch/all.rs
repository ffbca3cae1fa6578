//! All running executions: their states, compared with the last look.
//!
//! Following each by its Turns would cost as much as running it. So the list is read now and then, and each shown
//! execution is asked for its state; the news are the changes between two looks. An execution that begins and ends
//! between two looks is shown with its end.

use crate::data::Data;
use crate::duration::{say, say_whole};
use crate::run::lines::Lines;
use crate::run::screen::{Screen, Size};
use crate::terminal::{Out, Paint, harmless};
use crate::{table, terminal};
use anyhow::{Result, bail};
use jiff::tz::TimeZone;
use perdura_engine::{Status, Timestamp};
use perdura_runtime::RealClock;
use perdura_server::control::{Answer, ListQuestion, Listed, Request, Shown};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The pause between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// How many running executions are asked for their state; the newest ones.
const SHOWN_MAX: u32 = 100;
/// How many of the newest are checked for a beginning and an end meanwhile.
const NEWEST_MAX: u32 = 200;
/// An older end is no news.
const NEWS_FOR_MS: i64 = 5_000;

/// The state of an execution.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    name: String,
    machine: String,
    status: Status,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    /// Each line of control: `Charge calling`.
    standing: Vec<String>,
}

/// The changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct News {
    at: String,
    execution: String,
    name: String,
    machine: String,
    status: &'static str,
    standing: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<i64>,
}

/// Executions by id, or by ARN if ids are not available.
type Look = BTreeMap<Arc<str>, Seen>;

/// Watches until the output is closed.
pub(super) fn watch(data: &mut Data, machine: Option<&str>, json: bool) -> Result<ExitCode> {
    let clock = RealClock::default();
    let began_at = clock.moment().now;
    let (mut before, mut view, mut idle, mut bell) = (Look::new(), View::new(json), 0, None);
    loop {
        let now = clock.moment().now;
        let after = look(data, machine, (began_at, now), &before)?;
        let news = news(&before, &after, now);
        if !view.show(&news, &after, now)? {
            return Ok(ExitCode::SUCCESS);
        }
        before = remember(after, now);
        // However much happens, there are only so many looks.
        thread::sleep(data.pause(EVERY, idle));
        idle = if news.is_empty() { idle + 1 } else { 0 };
        while !data.is_far() && !data.wait(&mut bell, None, EVERY) {
            if !view.show(&[], &before, clock.moment().now)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// The states of all executions that run, ran at the last look, or began meanwhile.
fn look(
    data: &mut Data,
    machine: Option<&str>,
    (began_at, now): (Timestamp, Timestamp),
    before: &Look,
) -> Result<Look> {
    let running = list(data, machine, Some(Status::Running), SHOWN_MAX)?;
    let newest = list(data, machine, None, NEWEST_MAX)?;
    let mut after: Look =
        running.iter().chain(&newest).map(|listed| (listed.execution.clone(), seen(listed))).collect();
    let gone = before.iter().filter(|(id, seen)| seen.ended_at.is_none() && !after.contains_key(*id));
    let gone: Vec<Arc<str>> = gone.map(|(id, _)| id.clone()).collect();
    // A server elsewhere does not have these states, so running executions need not be asked.
    let running = if data.is_elsewhere() { &[] } else { &running[..] };
    let wanted = running.iter().map(|listed| listed.execution.clone()).chain(gone).collect::<Vec<_>>();
    for id in wanted {
        // Retention may have deleted it meanwhile.
        if let Some(shown) = show(data, &id)? {
            after.insert(id, seen_in_full(&shown));
        }
    }
    let is_news = |seen: &Seen| seen.started_at >= began_at && !has_ended(seen, now.after_ms(-NEWS_FOR_MS));
    after.retain(|id, seen| seen.ended_at.is_none() || before.contains_key(id) || is_news(seen));
    Ok(after)
}

fn list(data: &mut Data, machine: Option<&str>, status: Option<Status>, most: u32) -> Result<Vec<Listed>> {
    let machine = machine.map(str::to_owned);
    let request = Request::List(ListQuestion { machine, status, most, ..ListQuestion::default() });
    match data.look(&request)? {
        Answer::Executions(page) => Ok(page.items),
        _ => bail!("the answer is none to this question"),
    }
}

fn show(data: &mut Data, id: &str) -> Result<Option<Shown>> {
    use perdura_server::{Refusal, RefusalKind};
    match data.look(&Request::Show { execution: id.to_string() }) {
        Ok(Answer::Execution(shown)) => Ok(Some(*shown)),
        Ok(_) => bail!("the answer is none to this question"),
        Err(error) => match error.downcast_ref::<Refusal>() {
            Some(Refusal { kind: RefusalKind::NotFound, .. }) => Ok(None),
            Some(_) | None => Err(error),
        },
    }
}

fn seen(listed: &Listed) -> Seen {
    Seen {
        name: listed.name.to_string(),
        machine: listed.machine.to_string(),
        status: listed.status,
        started_at: listed.started_at,
        ended_at: listed.ended_at,
        standing: Vec::new(),
    }
}

fn seen_in_full(shown: &Shown) -> Seen {
    let standing = shown.standing.iter().map(|standing| format!("{} {}", standing.state, standing.doing));
    Seen {
        name: shown.name.to_string(),
        machine: shown.machine.to_string(),
        status: shown.status,
        started_at: shown.started_at,
        ended_at: shown.ended_at,
        standing: standing.collect(),
    }
}

/// The changes between two looks.
fn news(before: &Look, after: &Look, now: Timestamp) -> Vec<News> {
    let changed = after.iter().filter(|(id, seen)| before.get(*id) != Some(seen));
    changed
        .map(|(id, seen)| News {
            at: seen.ended_at.unwrap_or(now).to_string(),
            execution: id.to_string(),
            name: seen.name.clone(),
            machine: seen.machine.clone(),
            status: seen.status.name(),
            standing: seen.standing.clone(),
            took_ms: seen.ended_at.map(|ended_at| ended_at.0.saturating_sub(seen.started_at.0)),
        })
        .collect()
}

/// Ended executions are remembered until their end is no longer news.
fn remember(mut look: Look, now: Timestamp) -> Look {
    look.retain(|_, seen| !has_ended(seen, now.after_ms(-2 * NEWS_FOR_MS)));
    look
}

fn has_ended(seen: &Seen, before: Timestamp) -> bool {
    seen.ended_at.is_some_and(|at| at < before)
}

/// The output.
struct View {
    json: bool,
    lines: Lines,
    paint: Paint,
    screen: Option<Screen>,
}

impl View {
    fn new(json: bool) -> Self {
        let paint = Out::Stdout.paint();
        let screen = (!json && Out::Stdout.is_lively()).then(Screen::default);
        Self { json, lines: Lines::new(TimeZone::system(), paint), paint, screen }
    }

    /// Shows the news, and the states of all; `false`: the output is closed.
    fn show(&mut self, news: &[News], all: &Look, now: Timestamp) -> Result<bool> {
        if self.json {
            let is_unread = |news: &News| Ok(!terminal::print_while_read(&table::json_line(news)?)?);
            return Ok(!news.iter().map(is_unread).collect::<Result<Vec<bool>>>()?.contains(&true));
        }
        let above: String = news.iter().map(|news| self.line(news, now)).collect();
        let Some(screen) = &mut self.screen else {
            return if above.is_empty() { Ok(true) } else { terminal::print_while_read(above.as_bytes()) };
        };
        let size = Size::of(Out::Stdout);
        screen.draw(Out::Stdout, &above, &picture(all, now, self.paint, size.rows), size.columns);
        Ok(true)
    }

    fn line(&mut self, news: &News, now: Timestamp) -> String {
        let whose = self.paint.bold(&harmless(&format!("{}/{}", news.machine, news.name)));
        let what = match (news.status, news.took_ms) {
            ("SUCCEEDED", Some(took)) => self.paint.green(&format!("SUCCEEDED after {}", say(took))),
            (status, Some(took)) => self.paint.red(&format!("{status} after {}", say(took))),
            (status, None) if news.standing.is_empty() => status.to_owned(),
            (_, None) => harmless(&news.standing.join(", ")),
        };
        self.lines.at(now, &format!("{whose}  {what}"))
    }
}

/// One line for each running execution, the oldest first, as many as fit.
fn picture(all: &Look, now: Timestamp, paint: Paint, rows: usize) -> Vec<String> {
    let mut running: Vec<&Seen> = all.values().filter(|seen| seen.ended_at.is_none()).collect();
    running.sort_by_key(|seen| seen.started_at);
    let room = rows.saturating_sub(3).max(1);
    let mut lines = vec![paint.dim(&format!("{} running", running.len()))];
    lines.extend(running.iter().take(room).map(|seen| {
        let whose = paint.bold(&harmless(&format!("{}/{}", seen.machine, seen.name)));
        let passed = say_whole(now.0.saturating_sub(seen.started_at.0));
        format!("  {whose}  {passed}  {}", harmless(&seen.standing.join(", ")))
    }));
    if running.len() > room {
        lines.push(format!("  … {} more", running.len() - room));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(standing: &[&str], ended_at: Option<i64>) -> Seen {
        Seen {
            name: "A-1".into(),
            machine: "order".into(),
            status: if ended_at.is_some() { Status::Failed } else { Status::Running },
            started_at: Timestamp(1_000),
            ended_at: ended_at.map(Timestamp),
            standing: standing.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn only_what_changed_is_news() {
        let id: Arc<str> = "1".into();
        let look = |seen: Option<Seen>| seen.into_iter().map(|seen| (id.clone(), seen)).collect::<Look>();
        let (calling, waiting, ended) =
            (one(&["A calling"], None), one(&["B waiting"], None), one(&[], Some(3_000)));
        for (before, after, expected) in [
            (None, &calling, Some((vec!["A calling"], None))),
            (Some(&calling), &calling, None),
            (Some(&calling), &waiting, Some((vec!["B waiting"], None))),
            (Some(&waiting), &ended, Some((vec![], Some(2_000)))),
            (Some(&ended), &ended, None),
        ] {
            let told = news(&look(before.cloned()), &look(Some(after.clone())), Timestamp(9_000));
            let told: Vec<_> = told.iter().map(|news| (news.standing.clone(), news.took_ms)).collect();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(standing, took)| (standing.iter().map(ToString::to_string).collect::<Vec<_>>(), took))
                .collect();
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn what_has_ended_is_told_once_and_forgotten_when_it_cannot_come_back() {
        let look = Look::from([("1".into(), one(&[], Some(3_000)))]);
        assert_eq!(remember(look.clone(), Timestamp(12_000)).len(), 1);
        assert_eq!(remember(look, Timestamp(13_001)).len(), 0);
    }

    #[test]
    fn the_picture_has_the_oldest_and_counts_the_rest() {
        let all: Look = (1..=10).map(|at| (at.to_string().into(), one(&["A calling"], None))).collect();
        let lines = picture(&all, Timestamp(61_000), Paint(false), 6);
        assert_eq!(lines[0], "10 running");
        assert_eq!(lines[1], "  order/A-1  1 min  A calling");
        assert_eq!((lines.len(), &*lines[4]), (5, "  … 7 more"));
    }
}
