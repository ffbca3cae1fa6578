//! Durable workflows inside a Rust program.
//!
//! A workflow is a list of async functions. Before each call, the call with its input and its key is on disk; when it
//! has ended, so is its output. If the program is killed in the middle and started again, it continues where it was. A
//! step that has ended does not run again. A step that was under way is called again *under the same key*, so that a
//! receiver that knows keys does the work once.
//!
//! # A first workflow
//!
//! ```no_run
//! use perdura::{Context, Perdura, StepError, Workflow};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Claim {
//!     mail: String,
//!     cents: u64,
//! }
//!
//! #[derive(Serialize, Deserialize, Debug)]
//! struct Sent {
//!     receipt: String,
//! }
//!
//! // No effect outside: a plain function. It may run as often as it likes.
//! async fn validate(claim: Claim) -> Result<Claim, StepError> {
//!     if claim.cents == 0 {
//!         return Err(StepError::refused("Invalid", "a claim has an amount"));
//!     }
//!     Ok(claim)
//! }
//!
//! // One effect outside: it takes the context, and hands the key to the receiver.
//! async fn send_email(context: Context, claim: Claim) -> Result<Sent, StepError> {
//!     let receipt = mailer::send(&claim.mail, "Your claim is in.", context.key()).await?;
//!     Ok(Sent { receipt })
//! }
//!
//! # mod mailer {
//! #     pub async fn send(_: &str, _: &str, key: &str) -> std::io::Result<String> { Ok(key.to_owned()) }
//! # }
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let claims = Workflow::new("claim").step(validate).step(send_email);
//!     let perdura = Perdura::open("claims-data").workflow(&claims).await?;
//!
//!     let claim = Claim { mail: "ana@example.org".into(), cents: 12_000 };
//!     let run = perdura.start(&claims, "claim-17", claim).await?; // on disk from here on
//!     println!("{:?}", run.await?);
//!     Ok(())
//! }
//! ```
//!
//! Kill it wherever you like and run it again: `claim-17` is the same execution each time, however often it is started.
//!
//! # Its test needs no mock
//!
//! A step is a function, and a test calls it. There is no store to imitate, because the step knows of none.
//!
//! ```
//! # use perdura::{Context, StepError};
//! # #[derive(Debug)] struct Sent { receipt: String }
//! # struct Claim { mail: String }
//! # mod mailer {
//! #     pub async fn send(_: &str, _: &str, key: &str) -> std::io::Result<String> { Ok(format!("sent-{key}")) }
//! # }
//! # async fn send_email(context: Context, claim: Claim) -> Result<Sent, StepError> {
//! #     let receipt = mailer::send(&claim.mail, "Your claim is in.", context.key()).await?;
//! #     Ok(Sent { receipt })
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let claim = Claim { mail: "ana@example.org".into() };
//! let sent = send_email(Context::for_tests("key-1"), claim).await.unwrap();
//! assert_eq!(sent.receipt, "sent-key-1");
//! # });
//! ```
//!
//! A whole workflow is tested with [`Perdura::in_memory`], which is the same engine with nothing on disk.
//!
//! # A step that needs a client
//!
//! [`Step::with`] hands it over as the first argument:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use perdura::{Context, Perdura, Step, StepError, Workflow};
//! use std::sync::{Arc, Mutex};
//!
//! type Mailer = Arc<Mutex<Vec<(String, String)>>>; // of this example: mails with their keys
//!
//! async fn send_welcome(mailer: Mailer, context: Context, to: String) -> Result<(), StepError> {
//!     mailer.lock().unwrap().push((to, context.key().to_owned()));
//!     Ok(())
//! }
//!
//! let mailer = Mailer::default();
//! let welcome = Workflow::new("welcome").step(Step::with(mailer.clone(), send_welcome));
//! let perdura = Perdura::in_memory().workflow(&welcome).await?;
//! perdura.start(&welcome, "ana", "ana@example.org".into()).await?.await?;
//! assert_eq!(mailer.lock().unwrap()[0].0, "ana@example.org");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! A closure works too. It has no name of its own, so it is given one: `.named("SendWelcome", closure)`.
//!
//! # One step, one effect
//!
//! If a step with two effects is interrupted between them, it has done one, and nobody knows which. So make each effect
//! a step of its own, or make all of them one call to a receiver that takes them as a batch under one key. There are no
//! checkpoints inside of a step. `docs/effects.md` in the repository explains the reasons.
//!
//! # When a step fails
//!
//! | What happens | What follows |
//! |---|---|
//! | it returns [`StepError::refused`] | its effect did not happen; a [`Retry`] calls it under a new key |
//! | it returns another error, panics, or takes [too long](Step::timeout) | its effect may have happened; a [`Retry`] calls it under the same key, with the same input |
//! | the process ends | the same, when the data is opened next; this needs no [`Retry`] |
//! | it has [`Step::hold`], and its effect may have happened | it waits until a person [resolves](Run::resolve) it |
//! | it fails, and no [`Retry`] is left | the execution fails; [`Run::redrive`] goes on from that step |
//!
//! [`StepError`] says what `?` means in which kind of step.
//!
//! # More than a list
//!
//! Choices, loops, waits, parallel branches and maps are written in the States Language; see
//! [`Workflow::from_definition`]. A list becomes such a definition too, so `perdura show`, `perdura history` and the
//! other commands work on the data of a program like on any other, while the program is not running.
//!
//! # Where steps run
//!
//! Steps run on the tokio runtime in which the data was opened. Deciding and writing have threads of their own, so a
//! step that blocks delays only other steps. Put work that blocks for long into `tokio::task::spawn_blocking`.
//!
//! # Beside other crates that link SQLite
//!
//! A program can link SQLite once only. This crate takes rusqlite 0.39 to 0.41, and Cargo chooses the newest that suits
//! all crates of the program:
//!
//! | Beside | SQLite comes with |
//! |---|---|
//! | none | rusqlite 0.41 |
//! | diesel 2.3, deadpool-sqlite 0.14, r2d2_sqlite 0.35, tokio-rusqlite 0.8 | rusqlite 0.40 |
//! | sqlx 0.9, sea-orm 2.0, apalis-sqlite 1.0 | rusqlite 0.39 |
//!
//! The feature `bundled`, on by default, compiles SQLite into the program, also for those crates. Without it the program
//! links what is installed; data is opened only by SQLite 3.51.3 or newer, because earlier ones can spoil a file.
//!
//! # What is bounded
//!
//! Inputs and outputs have up to 64 MiB and nest up to a fixed depth; names have up to 80 characters. At most 4,096
//! starts wait for the disk, and those beyond wait in `start`. How many steps run at once is not bounded here: a step
//! that calls something scarce takes a permit of a `tokio::sync::Semaphore` that it carries along.

mod context;
mod errors;
mod json;
mod look;
mod open;
mod perdura;
mod run;
mod step;
mod step_error;
mod threads;
mod views;
mod workflow;

pub use crate::perdura::Perdura;
pub use context::Context;
pub use errors::{AskError, RunError, SetupError, StartError};
pub use open::Opening;
pub use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
pub use perdura_runtime::Performer;
pub use run::Run;
pub use step::{IntoStep, Retry, Step};
pub use step_error::StepError;
pub use views::{Entry, History, Listed, Query, Verdict};
pub use workflow::Workflow;
