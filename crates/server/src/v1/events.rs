//! Events as they happen, as server-sent events: pushed by the loop's commits, and not looked for.
//!
//! An event's `id` has the place of the page that it was read from and its number, so a client that comes again with
//! `Last-Event-ID` goes on behind it without reading what was before. A stream has a page at a time in memory; a client
//! that does not read is cut off by its connection. Each stream ends after a while, so that whoever comes again is asked
//! for its rights again; a client that is told 204 has heard everything.

use super::asked::Asked;
use super::problem::Problem;
use super::{Desk, Threads, Told};
use crate::Refusal;
use crate::commands::{find, history};
use crate::control::Answer;
use crate::data::{Data, Served};
use axum::body::{Body, Bytes};
use axum::http::HeaderName;
use perdura_engine::ExecutionId;
use perdura_engine::asl::json::{Payload, Value};
use perdura_runtime::Follower;
use perdura_store::audit::Subject;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a stream may be silent.
const SILENT_FOR: Duration = Duration::from_secs(15);
/// How long a stream lasts.
const LASTS_FOR: Duration = Duration::from_mins(10);
/// How long a client may leave unread what was written for it.
const READ_FOR: Duration = Duration::from_secs(30);
/// How many parts of a stream may wait for its client.
const PARTS: usize = 4;
/// The bytes of a part, about.
const PART_BYTES: usize = 64 << 10;
const LAST: HeaderName = HeaderName::from_static("last-event-id");
const NONE_OF_IT: &str = "Last-Event-ID is none of this stream";
const AS_GIVEN: &str = "give it back as it was given, or leave it out to hear everything";
/// Keeps a stream open.
const STILL_HERE: &str = ": \n\n";

/// How far a client has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    /// The Turn from which the page was read.
    from: u64,
    /// The last event of it that it was told.
    event: i64,
    has_ended: bool,
}

impl Place {
    fn read(text: Option<&str>) -> Result<Self, Problem> {
        let Some(text) = text else { return Ok(Self { from: 1, ..Self::default() }) };
        let place = text.split_once('-').and_then(|(from, event)| {
            Some(Self { from: from.parse().ok()?, event: event.parse().ok()?, has_ended: false })
        });
        place
            .filter(|place| place.from > 0 && place.event >= 0)
            .ok_or_else(|| Problem::invalid(NONE_OF_IT).but(AS_GIVEN))
    }

    /// Refuses a place that this stream has never told: a client there would wait for events that it has missed. With 0 for
    /// the event it is the place behind a Turn.
    fn check(&self, data: &mut Served, execution: ExecutionId) -> Result<(), Refusal> {
        let from = if self.event == 0 { self.from - 1 } else { self.from };
        if from == 0 {
            return Ok(());
        }
        let Answer::History(page) = history::events(data, execution, from)? else {
            unreachable!("a question about a history is answered with one")
        };
        let number = |event: &Payload| event.value().get("id").and_then(Value::as_i64);
        let is_there = match self.event {
            0 => page.next.is_some(),
            told => page.items.iter().any(|event| number(event) == Some(told)),
        };
        if is_there { Ok(()) } else { Err(Refusal::invalid(NONE_OF_IT).but(AS_GIVEN)) }
    }

    /// The next page as parts of the stream; `None`: there are no more Turns by now.
    fn next(&mut self, data: &mut Served, execution: ExecutionId) -> Result<Option<Vec<String>>, Refusal> {
        let Answer::History(page) = history::events(data, execution, self.from)? else {
            unreachable!("a question about a history is answered with one")
        };
        let Some(next) = page.next else { return Ok(None) };
        let mut parts = vec![String::new()];
        for event in &page.items {
            let number = event.value().get("id").and_then(Value::as_i64).unwrap_or_default();
            let kind = event.value().get("type").and_then(Value::as_str).unwrap_or_default();
            self.has_ended = history::ends(kind).unwrap_or(self.has_ended);
            if number <= self.event {
                continue;
            }
            if parts.last().is_none_or(|part| part.len() > PART_BYTES) {
                parts.push(String::new());
            }
            let part = parts.last_mut().expect("there is one");
            write!(part, "id: {}-{number}\nevent: {kind}\n", self.from).expect("a text takes all");
            for line in event.text().lines() {
                part.push_str(&["data: ", line, "\n"].concat());
            }
            part.push('\n');
            self.event = number;
        }
        self.from = next;
        parts.retain(|part| !part.is_empty());
        Ok(Some(parts))
    }
}

pub(super) async fn of_execution(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let mut place = Place::read(asked.header(&LAST))?;
    let which = asked.first();
    let execution = desk.reads(move |data| find(data, &which)).await?;
    desk.reads(move |data| data.gives_out(Subject::execution(execution))).await?;
    let follower = desk.data.door().follow(execution);
    // The first page tells whether there is such an execution, and whether there will be more of it.
    let (first, place) = desk
        .reads(move |data| {
            place.check(data, execution)?;
            let mut first = Vec::new();
            while first.is_empty() {
                match place.next(data, execution)? {
                    Some(parts) => first = parts,
                    None => break,
                }
            }
            Ok((first, place))
        })
        .await?;
    if first.is_empty() && place.has_ended {
        return Ok(Told::nothing());
    }
    let (sender, body) = mpsc::channel(PARTS);
    let reads = (desk.data.clone(), desk.threads.clone());
    tokio::spawn(stream(reads, execution, (first, place), follower, sender));
    Ok(Told::stream(Body::new(Parts(body))))
}

/// Writes what happens, until the end of the execution or of the stream.
async fn stream(
    (data, threads): (Served, Arc<Threads>),
    execution: ExecutionId,
    (mut parts, mut place): (Vec<String>, Place),
    mut follower: Follower,
    sender: mpsc::Sender<String>,
) {
    let until = Instant::now() + LASTS_FOR;
    while Instant::now() < until {
        for part in parts.drain(..) {
            let Ok(Ok(())) = timeout(READ_FOR, sender.send(part)).await else { return };
        }
        let mut data = data.clone();
        let read = threads.reading.run(move || {
            let read = place.next(&mut data, execution);
            (read, place)
        });
        // Whoever is one too many comes again.
        let Ok((read, after)) = read.await else { return };
        place = after;
        match read {
            Ok(Some(next)) => parts = next,
            Ok(None) if place.has_ended => return,
            Ok(None) => match timeout_at(until.min(Instant::now() + SILENT_FOR), follower.moved()).await {
                Ok(()) => {}
                Err(_elapsed) => parts.push(STILL_HERE.into()),
            },
            Err(error) => {
                tracing::debug!(%execution, %error, "a stream of events ended early");
                return;
            }
        }
        if sender.is_closed() {
            return;
        }
    }
}

/// The word that executions moved, without saying which: what a list shows has to be read again.
pub(super) fn of_all(desk: &Desk) -> Told {
    let mut follower = desk.data.door().follow_all();
    let (sender, body) = mpsc::channel::<String>(PARTS);
    tokio::spawn(async move {
        let until = Instant::now() + LASTS_FOR;
        let mut part = "event: open\ndata: {}\n\n".to_owned();
        while Instant::now() < until {
            let Ok(Ok(())) = timeout(READ_FOR, sender.send(part)).await else { return };
            part = tokio::select! {
                biased;
                () = sender.closed() => return,
                moved = timeout(SILENT_FOR, follower.moved()) => match moved {
                    Ok(()) => "event: moved\ndata: {}\n\n".into(),
                    Err(_elapsed) => STILL_HERE.into(),
                },
            };
        }
    });
    Told::stream(Body::new(Parts(body)))
}

/// A body of what is sent.
struct Parts(mpsc::Receiver<String>);

impl hyper::body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| Some(Ok(hyper::body::Frame::data(part?.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::Code;
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_given() {
        let place = |from, event| Place { from, event, has_ended: false };
        assert_eq!(Place::read(None), Ok(place(1, 0)));
        assert_eq!(Place::read(Some("12-7")), Ok(place(12, 7)));
        for bad in ["", "7", "0-1", "a-1", "1-", "-1", "1--7"] {
            let refused = Place::read(Some(bad)).map_err(|problem| problem.code);
            assert_eq!(refused, Err(Code::Invalid), "{bad}");
        }
    }
}
