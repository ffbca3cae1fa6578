//! Limits for a handler on the connection that all writes share.
//!
//! It may not end the transaction or change our tables: SQLite refuses such statements. A commit by a statement
//! that rolled the transaction back before is refused too, because its writes would be apart from their row. A handler that takes
//! too long is interrupted, because nobody else writes meanwhile.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many virtual instructions SQLite runs before it looks at the time.
const INSTRUCTIONS: i32 = 10_000;

/// The guard of one connection. It stands there always, because setting it makes SQLite prepare all statements anew, and lets everything
/// pass while no handler runs.
#[derive(Clone, Default)]
pub(super) struct Guard(Arc<Watch>);

#[derive(Default)]
struct Watch {
    is_on: AtomicBool,
    deadline: Mutex<Option<Instant>>,
}

impl Watch {
    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn is_late(&self) -> bool {
        let deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn set(&self, deadline: Option<Instant>) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        self.is_on.store(deadline.is_some(), Ordering::Relaxed);
    }
}

/// Off again, also after a panic.
struct Off<'w>(&'w Watch);

impl Drop for Off<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Guard {
    pub(super) fn stand_before(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let [late, commits, acts] = [(); 3].map(|()| self.0.clone());
        connection.progress_handler(INSTRUCTIONS, Some(move || late.is_late()))?;
        connection.commit_hook(Some(move || commits.is_on()))?;
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            let passes = !acts.is_on() || is_allowed(&context.action);
            if passes { Authorization::Allow } else { Authorization::Deny }
        }))
    }

    /// Runs what a handler brings.
    pub(super) fn around<T>(&self, transaction_for: Duration, work: impl FnOnce() -> T) -> T {
        self.0.set(Some(Instant::now() + transaction_for));
        let _off = Off(&self.0);
        work()
    }
}

fn is_ours(name: &str) -> bool {
    name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("inbox_"))
}

fn is_allowed(action: &AuthAction<'_>) -> bool {
    match *action {
        AuthAction::Transaction { .. }
        | AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { pragma_value: Some(_), .. } => false,
        AuthAction::Savepoint { savepoint_name, .. } => !is_ours(savepoint_name),
        AuthAction::Insert { table_name: name }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::Delete { table_name: name }
        | AuthAction::CreateTempTable { table_name: name }
        | AuthAction::CreateTempView { view_name: name }
        | AuthAction::AlterTable { table_name: name, .. }
        | AuthAction::DropTable { table_name: name }
        | AuthAction::CreateTrigger { table_name: name, .. }
        | AuthAction::CreateTempTrigger { table_name: name, .. } => !is_ours(name),
        _ => true,
    }
}
