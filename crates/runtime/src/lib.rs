//! Turns on Shards: what arrives is decided, committed in groups, and performed after that.

pub mod audit;
pub mod card;
mod clock;
mod committer;
mod core;
mod door;
mod fetch;
mod fold;
mod follow;
mod items;
mod librarian;
mod library;
mod marks;
mod message;
mod naming;
mod node;
mod pause;
mod peers;
mod running;
mod runtime;
mod seldom;
mod steps;
mod threads;
mod timers;
mod watch;
mod world;

pub use clock::RealClock;
pub use committer::{Committed, Committer, Item, MapRunNews, Prepared, Turned};
pub use core::{Chore, Core, Done, Event, Next};
pub use door::{Activities, Door};
pub use fetch::{Fetch, FetchKind, Fetched, Ticket, bring_results, recall};
pub use fold::{Folded, Unreadable, fold, fold_stored};
pub use follow::Follower;
pub use items::{ChildResult, Fed, Feed, ReadOrder, Source, Unwanted, WriteOrder};
pub use librarian::{Finding, Librarian, Question};
pub use library::read_definition;
pub use message::{
    ActivityTask, AdjustError, Ending, InputError, MapRunChange, Message, Reply, Slice, StartError, Started,
    Taken, TokenError, Unavailable, Underway, View, Young,
};
pub use naming::{Start, Via};
pub use node::{Anchor, Bounds, Deed, Erasing, Live, LiveCall, Node, Opened, Opening, Wish};
pub use pause::{ALL, Pause};
pub use peers::{Pass, PassNumber, Request, Response};
pub use runtime::{Opener, Options, Runtime};
pub use seldom::Seldom;
pub use steps::{Nowhere, Performer, RealWorld, StepCall, StepError, StepFuture, Steps};
pub use watch::{BUCKETS, Gauges, Reading, bucket_end_us};
pub use world::{Answer, Order, World};
