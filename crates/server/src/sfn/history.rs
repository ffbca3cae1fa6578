//! `GetExecutionHistory`: events in pages, from the beginning or from the end.

use super::Api;
use super::error::ApiError;
use super::list::Pages;
use super::requested::Requested;
use crate::fold::{PAGE_BYTES, broken};
use perdura_engine::asl::json::{Map, Value};
use perdura_engine::{ExecutionId, Identity};
use perdura_store::StoredTurn;
use perdura_store::record::TurnBody;

/// The most bytes of a page, roughly. AWS also cuts long pages short.
const BYTES_MAX: usize = 4 << 20;
/// Members of events that `includeExecutionData` leaves out.
const DATA: [&str; 3] = ["input", "output", "assignedVariables"];

/// The start of a page: a Turn, after so many of its events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cursor {
    turn: u64,
    skipped: usize,
}

impl Cursor {
    fn read(text: &str) -> Option<Self> {
        let (turn, skipped) = text.split_once(':')?;
        Some(Self { turn: turn.parse().ok()?, skipped: skipped.parse().ok()? })
    }
}

pub(super) async fn get(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("executionArn");
    let pages = Pages::of(api, request, "GetExecutionHistory");
    let place = pages.after(Cursor::read)?;
    let id = api.standard(arn).await?;
    let begun = api.begun(id).await?.ok_or_else(|| ApiError::no_execution(arn))?;
    let reading = Reading {
        id,
        identity: begun.identity,
        most: pages.most() as usize,
        is_reverse: request.flag("reverseOrder").unwrap_or(false),
        with_data: request.flag("includeExecutionData").unwrap_or(true),
    };
    api.gives_out(reading.id).await?;
    let (events, next) = api.reading(move |api| reading.page(api, place)).await?;
    Ok(pages.answer("events", events, next.map(|place| format!("{}:{}", place.turn, place.skipped))))
}

/// The parameters of a read.
pub(super) struct Reading {
    pub(super) id: ExecutionId,
    pub(super) identity: Identity,
    pub(super) most: usize,
    pub(super) is_reverse: bool,
    pub(super) with_data: bool,
}

impl Reading {
    /// The page that begins here, and where the next one begins.
    pub(super) fn page(
        &self,
        api: &Api,
        from: Option<Cursor>,
    ) -> Result<(Vec<Value>, Option<Cursor>), ApiError> {
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut at = from;
        loop {
            let turns = self.turns(api, at)?;
            if turns.is_empty() {
                return Ok((events, None));
            }
            for turn in &turns {
                let skipped = at.filter(|place| place.turn == turn.number).map_or(0, |place| place.skipped);
                let body = self.body(turn)?;
                let mut of_turn: Vec<_> = body.turn.events().collect();
                if self.is_reverse {
                    of_turn.reverse();
                }
                for (done, event) in of_turn.into_iter().enumerate().skip(skipped) {
                    if events.len() == self.most || bytes > BYTES_MAX {
                        return Ok((events, Some(Cursor { turn: turn.number, skipped: done })));
                    }
                    let shown = self.show(event.to_api(&self.identity));
                    bytes += shown.to_string().len();
                    events.push(shown);
                }
            }
            let last = turns.last().map_or(0, |turn| turn.number);
            let next =
                if self.is_reverse { last.checked_sub(1).filter(|turn| *turn > 0) } else { Some(last + 1) };
            let Some(turn) = next else { return Ok((events, None)) };
            at = Some(Cursor { turn, skipped: 0 });
        }
    }

    /// Turns from a cursor on, in reading order.
    fn turns(&self, api: &Api, from: Option<Cursor>) -> Result<Vec<StoredTurn>, ApiError> {
        let id = self.id;
        Ok(api.door().read(|reader| match (self.is_reverse, from) {
            (false, from) => reader.turns(id, from.map_or(1, |place| place.turn), PAGE_BYTES),
            (true, from) => reader.turns_before(id, from.map(|place| place.turn + 1), PAGE_BYTES),
        })?)
    }

    fn body(&self, turn: &StoredTurn) -> Result<TurnBody, ApiError> {
        TurnBody::read(&turn.body).map_err(|damage| ApiError::unavailable(broken(self.id, &damage)))
    }

    fn show(&self, event: Value) -> Value {
        if self.with_data {
            return event;
        }
        let Value::Object(event) = &event else { return event };
        let shown = event.iter().map(|(name, value)| {
            let value = match value {
                Value::Object(details) => {
                    let kept = details.iter().filter(|(name, _)| !DATA.contains(&&***name));
                    kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Map>().into()
                }
                other => other.clone(),
            };
            (name.clone(), value)
        });
        shown.collect::<Map>().into()
    }
}
