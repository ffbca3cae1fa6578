//! All that is logged while the tests of this program run, by the crate and by the handlers.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The lines so far, of all tests.
static LINES: Mutex<String> = Mutex::new(String::new());
/// The spans so far; the first has the number 1.
static SPANS: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// The spans that this thread is in.
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

/// Logs are kept from now on, at every level. Every test begins with this, before anything is logged: what is logged at
/// the moment in which somebody begins to listen may be missed for ever.
pub(crate) fn capture() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| tracing::subscriber::set_global_default(Keeper).expect("nobody else listens"));
}

/// What was logged so far.
pub(crate) fn text() -> String {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Keeper;

/// Writes each field into the line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("writing to a string");
    }
}

impl Line {
    fn end(self) {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_str(&self.0);
        lines.push('\n');
    }
}

fn span(id: &Id) -> String {
    let at = usize::try_from(id.into_u64()).expect("it counts spans") - 1;
    SPANS.lock().unwrap_or_else(PoisonError::into_inner)[at].clone()
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["perdura_idempotency", "door"].iter().any(|name| metadata.target().starts_with(name))
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        let mut spans = SPANS.lock().unwrap_or_else(PoisonError::into_inner);
        spans.push(line.0.clone());
        line.end();
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        line.end();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    /// The line ends with the spans that it stands in, the innermost last.
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        for id in ENTERED.with_borrow(Clone::clone) {
            write!(line.0, " in {}", span(&id)).expect("writing to a string");
        }
        line.end();
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.clone()));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            let at = entered.iter().rposition(|inner| inner == id).expect("it was entered");
            entered.remove(at);
        });
    }
}
