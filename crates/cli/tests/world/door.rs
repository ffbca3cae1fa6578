//! Asking a server that is killed now and then, through its control socket, as the commands do.

use perdura_server::Refusal;
use perdura_server::control::{Answer, Connection, Request, connect};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a server may be away before a test gives up.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where servers, one after the other, can be reached.
pub(crate) struct Door {
    data: PathBuf,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// How many servers there were.
    opened: u32,
    /// There will be no more.
    is_over: bool,
}

/// Ends all waiting when it goes.
pub(crate) struct Closing<'d>(&'d Door);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.moved.notify_all();
    }
}

impl Door {
    pub(crate) fn new(data: PathBuf) -> Self {
        Self { data, state: Mutex::default(), moved: Condvar::new() }
    }

    /// Another server is there.
    pub(crate) fn open(&self) {
        self.state().opened += 1;
        self.moved.notify_all();
    }

    /// Whoever waits is let go when this value goes.
    pub(crate) fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller { door: self, server: 0, line: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a server after this one; none: there will be none.
    fn after(&self, server: u32) -> Option<u32> {
        let mut state = self.state();
        while state.opened <= server && !state.is_over {
            let (again, waited) =
                self.moved.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = again;
            assert!(!waited.timed_out(), "server {server} cannot be reached, and no other follows");
        }
        (!state.is_over).then_some(state.opened)
    }
}

/// Somebody who asks again after a kill.
pub(crate) struct Caller<'d> {
    door: &'d Door,
    server: u32,
    line: Option<Connection>,
}

impl Caller<'_> {
    /// Asks until a server answers; none: there are no more servers.
    pub(crate) fn try_ask(&mut self, request: &Request) -> Option<Result<Answer, Refusal>> {
        loop {
            match self.line.as_mut().map(|line| line.ask(request)) {
                Some(Ok(told)) => return Some(told),
                // It was killed, before or after it did what it was asked; or the line was idle for too long.
                Some(Err(_)) => self.line = None,
                None if self.reach() => {}
                None => self.server = self.door.after(self.server)?,
            }
        }
    }

    fn reach(&mut self) -> bool {
        self.line = connect(&self.door.data).ok().flatten();
        self.line.is_some()
    }

    /// The same, where there is a server and it does not refuse.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: &Request) -> Answer {
        let told = self.try_ask(request).expect("there is a server");
        told.unwrap_or_else(|refusal| panic!("{request:?}: {refusal}"))
    }
}
