//! The display of a running execution: nothing, lines, or lines with a picture below them.

use super::lines::Lines;
use super::screen::{Screen, Size};
use super::story::{At, ExecutionNo, Story};
use super::tree::{Tone, Twig, tree};
use crate::duration::say_whole;
use crate::terminal::{Out, Paint, harmless};
use jiff::tz::TimeZone;
use perdura_engine::{Timestamp, Turn};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often the picture is drawn.
const EVERY: Duration = Duration::from_millis(100);
/// The most lines between two pictures; of more, the first and the last are shown.
const LINES_AT_ONCE: usize = 40;
/// How many lines are buffered without a picture.
const BUFFER_BYTES: usize = 64 * 1024;

/// The display.
#[derive(Debug)]
pub(crate) enum Progress {
    Nothing,
    Told(Box<Telling>),
}

#[derive(Debug)]
pub(crate) struct Telling {
    story: Story,
    lines: Lines,
    out: Out,
    paint: Paint,
    /// The reader of the output is gone.
    is_unread: bool,
    /// Lines that are not written yet.
    waiting: Vec<String>,
    waiting_bytes: usize,
    hinted: BTreeSet<String>,
    picture: Option<Picture>,
}

#[derive(Debug)]
struct Picture {
    screen: Screen,
    began_at: Timestamp,
    next: Instant,
}

impl Progress {
    /// The right display for stderr; the execution began now.
    pub(crate) fn new(quiet: bool, began_at: Timestamp) -> Self {
        if quiet { Self::Nothing } else { Self::on(Out::Stderr, began_at) }
    }

    /// The right display for this output; the execution began then.
    pub(crate) fn on(out: Out, began_at: Timestamp) -> Self {
        let paint = out.paint();
        let picture = out.is_lively().then(|| Picture {
            screen: Screen::default(),
            began_at,
            next: Instant::now() + EVERY,
        });
        Self::Told(Box::new(Telling {
            story: Story::default(),
            lines: Lines::new(TimeZone::system(), paint),
            out,
            paint,
            is_unread: false,
            waiting: Vec::new(),
            waiting_bytes: 0,
            hinted: BTreeSet::new(),
            picture,
        }))
    }

    /// Shows a Turn.
    pub(crate) fn tell(&mut self, number: ExecutionNo, turn: &Turn, now: Timestamp) {
        let Self::Told(telling) = self else { return };
        for told in telling.story.take(number, turn, now) {
            let line = telling.lines.line(&told);
            telling.push(line);
        }
    }

    /// A child of a Distributed Map begins.
    pub(crate) fn begin_child(&mut self, child: ExecutionNo, parent: At, index: u32, items: u32) {
        if let Self::Told(telling) = self {
            telling.story.begin_child(child, parent, index, items);
        }
    }

    /// A child was stopped.
    pub(crate) fn drop_child(&mut self, child: ExecutionNo) {
        if let Self::Told(telling) = self {
            telling.story.drop_execution(child);
        }
    }

    /// Shows a hint, once.
    pub(crate) fn hint(&mut self, text: &str) {
        if let Self::Told(telling) = self
            && telling.hinted.insert(text.to_owned())
        {
            let line = format!("{} {}\n", telling.paint.bold("hint:"), harmless(text));
            telling.push(line);
        }
    }

    /// Whether the output still has a reader; a closed pipe is noticed at the next line.
    pub(crate) fn is_read(&self) -> bool {
        match self {
            Self::Told(telling) => !telling.is_unread,
            Self::Nothing => true,
        }
    }

    /// The time of the next drawing.
    pub(crate) fn next_draw(&self) -> Option<Instant> {
        match self {
            Self::Told(telling) => telling.picture.as_ref().map(|picture| picture.next),
            Self::Nothing => None,
        }
    }

    /// Draws, if it is time.
    pub(crate) fn draw_if_due(&mut self, now: Timestamp) {
        if self.next_draw().is_some_and(|at| at <= Instant::now()) {
            self.draw(now);
        }
    }

    /// Shows everything before a wait.
    pub(crate) fn draw(&mut self, now: Timestamp) {
        if let Self::Told(telling) = self {
            telling.draw(now);
        }
    }

    /// Writes the last lines, and removes the picture.
    pub(crate) fn finish(&mut self, now: Timestamp) {
        if let Self::Told(telling) = self {
            telling.story = Story::default();
            telling.draw(now);
        }
    }
}

impl Telling {
    fn push(&mut self, line: String) {
        self.waiting_bytes += line.len();
        self.waiting.push(line);
        if self.waiting_bytes > BUFFER_BYTES {
            match self.picture {
                Some(_) => self.waiting = shorten(std::mem::take(&mut self.waiting)),
                None => self.flush(),
            }
            self.waiting_bytes = self.waiting.iter().map(String::len).sum();
        }
    }

    fn flush(&mut self) {
        self.is_unread |= self.out.write(self.waiting.concat().as_bytes()).is_err();
        self.waiting.clear();
    }

    fn draw(&mut self, now: Timestamp) {
        let Some(picture) = &mut self.picture else { return self.flush() };
        let size = Size::of(self.out);
        let twigs = tree(&self.story, now, size.rows.saturating_sub(3).min(20));
        let mut below: Vec<String> = twigs.iter().map(|twig| show(twig, self.paint)).collect();
        if !below.is_empty() {
            let passed = say_whole(now.0.saturating_sub(picture.began_at.0));
            below.insert(0, self.paint.dim(&format!("running for {passed}")));
        }
        let above = shorten(std::mem::take(&mut self.waiting)).concat();
        self.waiting_bytes = 0;
        picture.screen.draw(self.out, &above, &below, size.columns);
        picture.next = Instant::now() + EVERY;
    }
}

/// Too many lines at once are unreadable.
fn shorten(mut lines: Vec<String>) -> Vec<String> {
    let half = LINES_AT_ONCE / 2;
    if lines.len() > LINES_AT_ONCE {
        let left_out = lines.len() - LINES_AT_ONCE;
        lines.splice(half..half + left_out, [format!("… {left_out} more lines\n")]);
    }
    lines
}

fn show(twig: &Twig, paint: Paint) -> String {
    let indent = "  ".repeat(twig.depth);
    let doing = match twig.tone {
        Tone::Running => twig.doing.clone(),
        Tone::Waiting => paint.dim(&twig.doing),
        Tone::Troubled => paint.yellow(&twig.doing),
    };
    format!("  {indent}{}  {doing}", paint.bold(&harmless(&twig.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_lines_the_first_and_the_last_are_shown() {
        let lines = |count: usize| (0..count).map(|line| format!("{line}\n")).collect::<Vec<_>>();
        assert_eq!(shorten(lines(40)), lines(40));
        let shown = shorten(lines(1000));
        assert_eq!(shown.len(), 41);
        assert_eq!((&*shown[19], &*shown[20], &*shown[21]), ("19\n", "… 960 more lines\n", "980\n"));
    }
}
