//! What a worker does with a row, and what that promises: the author of a handler chooses by the function that makes it.
//!
//! A plain closure is no handler, so the choice cannot be forgotten:
//!
//! | made by | the effect happens |
//! |---|---|
//! | `store::sqlite::transactional`, `store::postgres::transactional` | exactly once: its writes and DONE are one commit |
//! | [`keyed`] | once, where the receiver honours the key that it is handed |
//! | [`at_least_once`] | again after a crash |

use crate::row::{Held, Holding, Message};
use crate::store::{Pending, Store, StoreError};
use std::fmt;
use std::future::Future;

/// The attempt failed.
#[derive(Debug)]
pub struct Failed {
    pub(crate) error: String,
    pub(crate) for_good: bool,
}

impl Failed {
    /// Another attempt may succeed.
    pub fn again(error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), for_good: false }
    }

    /// No attempt will: the row is DEAD at once.
    pub fn dead(error: impl fmt::Display) -> Self {
        Self { error: error.to_string(), for_good: true }
    }
}

/// With `?`, any error is one after which it is tried again.
impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::again(error)
    }
}

/// The result of a handler's work.
#[derive(Debug)]
pub enum Worked {
    /// It was done, and the row is still DOING: the worker ends it.
    Done,
    /// It was done and ended in one commit, or not at all where the claim was lost.
    Ended(Holding),
    Failed(Failed),
}

/// How a worker works a row. Made by `transactional`, [`keyed`] or [`at_least_once`].
pub trait Handler<S: ?Sized>: Send + Sync + 'static {
    /// Works the row. An error is one of the store: it is not known what came of the work, and the row is returned when
    /// its lease runs out. The future may be dropped at any point, which happens when the lease cannot be renewed.
    fn work<'a>(
        &'a self,
        store: &'a S,
        message: Message,
        held: &'a Held,
    ) -> Pending<'a, Result<Worked, StoreError>>;
}

/// The same in every attempt at a message, and no other message's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// As a header or a column takes it: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A handler that hands the key on to a service that honours keys, so that what is sent again after a crash is done once there.
pub fn keyed<S, F, W>(work: F) -> impl Handler<S>
where
    S: Store + ?Sized,
    F: Fn(Message, Key) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Failed>> + Send + 'static,
{
    Plain(move |message: Message| {
        let key = Key(message.key());
        work(message, key)
    })
}

/// A handler whose effect may happen again after a crash, or where an answer is lost: one for which that does no harm.
pub fn at_least_once<S, F, W>(work: F) -> impl Handler<S>
where
    S: Store + ?Sized,
    F: Fn(Message) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Failed>> + Send + 'static,
{
    Plain(work)
}

struct Plain<F>(F);

impl<S, F, W> Handler<S> for Plain<F>
where
    S: Store + ?Sized,
    F: Fn(Message) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Failed>> + Send + 'static,
{
    fn work<'a>(
        &'a self,
        _: &'a S,
        message: Message,
        _: &'a Held,
    ) -> Pending<'a, Result<Worked, StoreError>> {
        let work = (self.0)(message);
        Box::pin(async move {
            Ok(match work.await {
                Ok(()) => Worked::Done,
                Err(failed) => Worked::Failed(failed),
            })
        })
    }
}
