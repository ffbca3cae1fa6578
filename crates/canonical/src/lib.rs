//! Comparing two contents by their meaning and not by their bytes.
//!
//! A sender repeats itself, but not byte for byte: it may write `1.0` where it wrote `1`, or the members of an object in
//! another order. Here is the one form that all spellings of a JSON value have, what a media type says about comparing
//! content, and a hash over parts from which no byte can move into the next. Two crates build fingerprints on it:
//! `perdura-idempotency` for requests, `perdura-events` for messages. What goes into a fingerprint is theirs to say.

mod form;
mod media;
mod number;
mod parts;
mod scan;
mod without;

pub use form::{Form, form, form_without};
pub use media::MediaType;
pub use number::write_number;
pub use parts::Parts;
pub use scan::{Fault, Kind, Scanner};
pub use without::{PathFault, Without};
