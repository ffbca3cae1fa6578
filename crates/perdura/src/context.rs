//! The context of a step with an effect: the execution and the key of its call.

use perdura_engine::{EffectKey, ExecutionId};
use perdura_runtime::StepCall;
use std::fmt;

/// The execution that calls a step, and the key of the call.
///
/// A step that takes it as its first argument has an effect outside of this process. A step that does not take it
/// promises to have none.
///
/// ```
/// use perdura::{Context, StepError};
///
/// async fn greet(context: Context, name: String) -> Result<String, StepError> {
///     Ok(format!("{name} is greeted under {}", context.key()))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let said = greet(Context::for_tests("key-1"), "Ana".into()).await.unwrap();
/// assert_eq!(said, "Ana is greeted under key-1");
/// # });
/// ```
#[derive(Clone)]
pub struct Context {
    execution: ExecutionId,
    key: String,
    readable_key: String,
    step: String,
}

impl Context {
    pub(crate) fn of(call: &StepCall) -> Self {
        let key: &EffectKey = &call.key;
        Self {
            execution: call.execution,
            key: key.wire().to_string(),
            readable_key: key.readable().to_owned(),
            step: key.step().to_owned(),
        }
    }

    /// A context for a test that calls a step as a plain function.
    ///
    /// ```
    /// let context = perdura::Context::for_tests("key-1");
    /// assert_eq!(context.key(), "key-1");
    /// ```
    pub fn for_tests(key: &str) -> Self {
        Self {
            execution: ExecutionId::from_random(0),
            key: key.to_owned(),
            readable_key: key.to_owned(),
            step: "test#1".to_owned(),
        }
    }

    /// The key to send along: a UUID. It is on disk before the step is called, and every repetition of the call has the
    /// same key, in this process or in the next.
    ///
    /// ```
    /// # use perdura::Context;
    /// async fn pay(context: Context, cents: u64) -> Result<String, std::io::Error> {
    ///     Ok(format!("POST /payments {cents} Idempotency-Key: {}", context.key()))
    /// }
    /// ```
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The same key for people and logs: execution, step and round.
    ///
    /// ```
    /// # use perdura::Context;
    /// fn log(context: &Context) {
    ///     eprintln!("{} sends as {}", context.readable_key(), context.key());
    /// }
    /// # log(&Context::for_tests("key-1"));
    /// ```
    pub fn readable_key(&self) -> &str {
        &self.readable_key
    }

    /// The execution that calls.
    ///
    /// ```
    /// # use perdura::Context;
    /// let context = Context::for_tests("key-1");
    /// assert_eq!(context.execution(), Context::for_tests("key-2").execution());
    /// ```
    pub fn execution(&self) -> ExecutionId {
        self.execution
    }

    /// The step and its visit: `send_email#1`.
    ///
    /// ```
    /// assert_eq!(perdura::Context::for_tests("key-1").step(), "test#1");
    /// ```
    pub fn step(&self) -> &str {
        &self.step
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Context({})", self.readable_key)
    }
}
