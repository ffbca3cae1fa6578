//! Messages from other systems: how they are read and written, what makes two of them the same, and which patterns they
//! match.
//!
//! [`decode`] reads whatever an HTTP request brings (a CloudEvent in any of its three modes, plain JSON, EventBridge's
//! forms) into one [`Event`]; [`binary`], [`structured`] and [`batch`] write it as a CloudEvent. [`Identity`] says whether
//! two arrivals are one message, [`Patterns`] who is interested in it. Nothing here knows of HTTP libraries, stores or
//! executions, reads a clock or opens anything. Data stays the bytes that were sent: a number in it is never rounded.
//!
//! ```
//! use perdura_events::{Identity, Limits, Pattern, Patterns, Received, Rule, decode};
//!
//! let headers = [("content-type", "application/json")];
//! let body = br#"{"type": "order.placed", "source": "/shop", "data": {"total": 12.50}}"#;
//! let Ok(Received::One(event)) = decode(&headers, body, &Limits::default()) else { panic!("one event") };
//!
//! let identity = Identity::of(&event, &Rule::default()).unwrap();
//! assert_eq!(identity, Identity::of(&event, &Rule::default()).unwrap());
//! let large = Pattern::parse(r#"{"type": ["order.placed"], "data": {"total": [{"numeric": [">", 10]}]}}"#).unwrap();
//! let patterns = Patterns::new([("large orders", large)]).unwrap();
//! assert_eq!(patterns.matching(&event).collect::<Vec<_>>(), [&"large orders"]);
//! ```

mod aws;
mod decode;
mod encode;
mod event;
mod http;
mod identity;
mod json;
mod pattern;
mod time;

pub use decode::{DecodeError, Limits, Received, decode};
pub use encode::{EncodeError, Encoded, batch, binary, structured};
pub use event::{AttributeError, Event};
pub use identity::{Basis, Comparison, Hash, Identity, NothingLeft, Rule};
pub use pattern::{Pattern, PatternError, Patterns, TooComplex};
pub use perdura_canonical::{PathFault, Without};

/// The examples of docs/events.md are run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/events.md")]
struct Documentation;
