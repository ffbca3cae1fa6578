//! A picture of the current state: states with their branches and items, their activities and durations.

use super::story::{At, Doing, Story, Strand};
use crate::duration::{say, say_whole};
use perdura_engine::Timestamp;
use std::collections::BTreeMap;

/// How many branches or items of one state are shown.
const BRANCHES_SHOWN: usize = 5;

/// One line of the picture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Twig {
    pub(crate) depth: usize,
    pub(crate) name: String,
    pub(crate) doing: String,
    pub(crate) tone: Tone,
}

/// The kind of a line, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Running,
    Waiting,
    Troubled,
}

/// The picture, with at most so many lines.
pub(crate) fn tree(story: &Story, now: Timestamp, lines_max: usize) -> Vec<Twig> {
    let mut branches: BTreeMap<Option<At>, Vec<(u32, At)>> = BTreeMap::new();
    for (at, strand) in &story.strands {
        branches.entry(strand.parent).or_default().push((strand.index, *at));
    }
    for list in branches.values_mut() {
        list.sort_unstable();
    }
    let mut twigs = Vec::new();
    let mut open: Vec<Next> =
        branches.get(&None).into_iter().flatten().map(|(_, at)| Next::Strand(*at, 0)).collect();
    while let Some(next) = open.pop() {
        let (at, depth) = match next {
            Next::Strand(at, depth) => (at, depth),
            Next::More(count, depth) => {
                twigs.push(more(count, depth));
                continue;
            }
        };
        let Some(strand) = story.strands.get(&at) else { continue };
        twigs.push(twig(strand, depth, now));
        let below = branches.get(&Some(at)).map_or(&[][..], Vec::as_slice);
        if below.len() > BRANCHES_SHOWN {
            open.push(Next::More(below.len() - BRANCHES_SHOWN, depth + 1));
        }
        let shown = below.iter().take(BRANCHES_SHOWN).rev();
        open.extend(shown.map(|(_, at)| Next::Strand(*at, depth + 1)));
    }
    if twigs.len() > lines_max && lines_max > 0 {
        let hidden = twigs.len() - lines_max + 1;
        twigs.truncate(lines_max - 1);
        twigs.push(more(hidden, 0));
    }
    twigs.truncate(lines_max);
    twigs
}

enum Next {
    Strand(At, usize),
    More(usize, usize),
}

fn more(count: usize, depth: usize) -> Twig {
    Twig { depth, name: "…".into(), doing: format!("{count} more under way"), tone: Tone::Running }
}

fn twig(strand: &Strand, depth: usize, now: Timestamp) -> Twig {
    let left = |until: Timestamp| {
        // In a countdown, a part of a second counts as a second.
        say_whole(until.0.saturating_sub(now.0).saturating_add(999))
    };
    let fault = || match strand.fault.as_ref().and_then(|fault| fault.error.as_deref()) {
        Some(error) => format!(": {error}"),
        None => String::new(),
    };
    let (doing, tone) = match &strand.doing {
        Doing::Passing => (String::new(), Tone::Running),
        Doing::Calling { since } => {
            let tries = if strand.tries > 0 { format!(", retry {}", strand.tries) } else { String::new() };
            let passed = now.0.saturating_sub(since.0);
            let passed = if passed < 1000 { String::new() } else { format!(", {}", say_whole(passed)) };
            (format!("calling{passed}{tries}"), Tone::Running)
        }
        Doing::Waiting { until } => (format!("waits, {} left", left(*until)), Tone::Waiting),
        Doing::Retrying { until } => {
            (format!("retry {} in {}{}", strand.tries, left(*until), fault()), Tone::Troubled)
        }
        Doing::Fanning => {
            let failed =
                if strand.fan.failed > 0 { format!(", {} failed", strand.fan.failed) } else { String::new() };
            let tone = if strand.fan.failed > 0 { Tone::Troubled } else { Tone::Running };
            (format!("{} of {} done{failed}", strand.fan.done, strand.fan.total), tone)
        }
        Doing::Failed => (format!("failed{}", fault()), Tone::Troubled),
    };
    let name = match (&strand.state, strand.parent) {
        (Some(state), None) => state.to_string(),
        (Some(state), Some(_)) => format!("[{}] {state}", strand.index),
        (None, _) => format!("[{}]", strand.index),
    };
    Twig { depth, name, doing, tone }
}

/// The requested duration of a wait.
pub(crate) fn pause(from: Timestamp, until: Timestamp) -> String {
    say(until.0.saturating_sub(from.0))
}
