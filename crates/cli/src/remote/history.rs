//! The events of an execution, page by page, and from any event on.
//!
//! The API continues with a token, and gives none at the end of the current events. To continue later, this module
//! reads from the newest event backwards until a known one, so that watching a long execution does not read it again
//! and again.

use super::{Api, Remote, fields, read};
use anyhow::Result;
use perdura_asl::json::{Map, Payload, Value};
use perdura_server::control::Page;

/// The page size: the API's maximum.
const PAGE_MAX: i64 = 1_000;
/// The page size for new events, which are usually few.
const NEWS_MAX: i64 = 100;

/// The end of a page: the token that continues with this event.
pub(super) struct Bookmark {
    execution: String,
    from: u64,
    token: String,
}

impl<A: Api> Remote<A> {
    /// Events from this one on, counted from 1. The page says where the next one begins.
    pub(super) fn history(&mut self, which: &str, from: u64) -> Result<Page<Payload, u64>> {
        let arn = self.find(which)?;
        let token = self.bookmark.take().filter(|mark| mark.execution == arn && mark.from == from);
        let is_new = token.is_none() && from > 1;
        let mut items = if is_new { self.since(&arn, from)? } else { Vec::new() };
        if !is_new {
            let token = token.map(|mark| mark.token);
            let (page, next) = self.events(&arn, token.as_deref(), false)?;
            items = page;
            if let (Some(token), Some(last)) = (next, items.last()) {
                self.bookmark = Some(Bookmark { execution: arn, from: number(last) + 1, token });
            }
        }
        let next = items.last().map(|last| number(last) + 1);
        let items = items.iter().map(|event| Ok(with_its_time(event)?.into())).collect::<Result<_>>()?;
        Ok(Page { items, next })
    }

    /// Newer events, read from the end.
    fn since(&mut self, arn: &str, from: u64) -> Result<Vec<Value>> {
        let (mut newest, mut token) = (Vec::new(), None);
        loop {
            let (page, next) = self.events(arn, token.as_deref(), true)?;
            let before = newest.len();
            newest.extend(page.iter().filter(|event| number(event) >= from).cloned());
            let is_known = newest.len() - before < page.len();
            if is_known || next.is_none() {
                newest.sort_by_key(number);
                return Ok(newest);
            }
            token = next;
        }
    }

    fn events(
        &mut self,
        arn: &str,
        token: Option<&str>,
        newest_first: bool,
    ) -> Result<(Vec<Value>, Option<String>)> {
        let body = fields([("executionArn", Some(arn.to_owned())), ("nextToken", token.map(str::to_owned))]);
        let mut body = body.as_object().cloned().unwrap_or_else(Map::new);
        body.insert("maxResults", if newest_first { NEWS_MAX } else { PAGE_MAX });
        if newest_first {
            body.insert("reverseOrder", true);
        }
        let answer = self.api.call("GetExecutionHistory", body.into())?;
        let (events, next) = read::page(&answer, "events")?;
        Ok((events.to_vec(), next))
    }
}

/// The event with its time in the form of our own API.
fn with_its_time(event: &Value) -> Result<Value> {
    let at = read::instant(event, "timestamp")?;
    let mut event = event.as_object().cloned().unwrap_or_else(Map::new);
    if let Some(time) = event.get_mut("timestamp") {
        *time = at.to_string().into();
    }
    Ok(event.into())
}

fn number(event: &Value) -> u64 {
    event.get("id").and_then(Value::as_i64).and_then(|id| u64::try_from(id).ok()).unwrap_or(0)
}
