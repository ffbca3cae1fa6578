//! A step: an async function over serde types, its name, and its policy for failures.

use crate::context::Context;
use crate::json;
use crate::step_error::StepError;
use perdura_engine::asl::json::Payload;
use perdura_engine::{Policy, Uncertain};
use perdura_runtime::StepCall;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Performed = Pin<Box<dyn Future<Output = Result<Payload, StepError>> + Send>>;
pub(crate) type Function = Arc<dyn Fn(StepCall) -> Performed + Send + Sync>;

/// A step's input does not fit its function: the data is from another version of the program.
const INPUT: &str = "Perdura.InputMismatch";
/// A step's output cannot be written as JSON.
const OUTPUT: &str = "Perdura.OutputMismatch";

/// Anything that can be a step of a [`Workflow`](crate::Workflow): a function, a closure, or a [`Step`] made of one.
///
/// | Function | Is for |
/// |---|---|
/// | `async fn(I) -> Result<O, E>` | work without an effect outside: it may be repeated freely |
/// | `async fn(Context, I) -> Result<O, E>` | one effect outside, made under [`Context::key`] |
///
/// `I` and `O` are serde types; `E` is a [`StepError`] or any error. `M` only tells the compiler which of these it is.
///
/// ```
/// use perdura::{IntoStep, StepError};
///
/// async fn double(number: u32) -> Result<u32, StepError> {
///     Ok(number * 2)
/// }
/// let step = double.into_step().named("Double");
/// # drop(step);
/// ```
#[diagnostic::on_unimplemented(
    message = "this step cannot come here: it is not an async function that takes `{I}`",
    label = "the step before it gives `{I}`",
    note = "a step is `async fn(I) -> Result<O, E>` or `async fn(Context, I) -> Result<O, E>`, with `I` and `O` serde types and `E` an error"
)]
pub trait IntoStep<I, M> {
    /// The type of the step's output.
    type Output;

    /// Makes it a step.
    ///
    /// ```
    /// # use perdura::IntoStep;
    /// async fn next(number: u32) -> Result<u32, std::io::Error> {
    ///     Ok(number + 1)
    /// }
    /// let step = next.into_step();
    /// # drop(step);
    /// ```
    fn into_step(self) -> Step<I, Self::Output>;
}

/// Marks a function of the input alone.
#[derive(Debug)]
pub enum Plain {}
/// Marks a function of context and input.
#[derive(Debug)]
pub enum WithContext {}
/// Marks a value that is a step already.
#[derive(Debug)]
pub enum Prepared {}

impl<F, Fut, I, O, E> IntoStep<I, Plain> for F
where
    F: Fn(I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    E: Into<StepError>,
{
    type Output = O;

    fn into_step(self) -> Step<I, O> {
        let function = Arc::new(self);
        let performed = move |call: StepCall| -> Performed {
            let function = function.clone();
            Box::pin(async move { write(&function(read(&call)?).await.map_err(Into::into)?) })
        };
        // A step without an effect may be repeated at any time.
        let policy = Policy { key_memory_ms: i64::MAX, ..Policy::default() };
        Step::of(short_name::<F>(), Arc::new(performed), policy, false)
    }
}

impl<F, Fut, I, O, E> IntoStep<I, WithContext> for F
where
    F: Fn(Context, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + 'static,
    E: Into<StepError>,
{
    type Output = O;

    fn into_step(self) -> Step<I, O> {
        let function = Arc::new(self);
        let performed = move |call: StepCall| -> Performed {
            let function = function.clone();
            Box::pin(
                async move { write(&function(Context::of(&call), read(&call)?).await.map_err(Into::into)?) },
            )
        };
        Step::of(short_name::<F>(), Arc::new(performed), Policy::default(), true)
    }
}

impl<I, O> IntoStep<I, Prepared> for Step<I, O> {
    type Output = O;

    fn into_step(self) -> Self {
        self
    }
}

fn read<I: DeserializeOwned>(call: &StepCall) -> Result<I, StepError> {
    json::read(call.input.text()).map_err(|error| StepError::refused(INPUT, error.to_string()))
}

/// The step has done its work by now, so a failure here leaves the effect in doubt.
fn write<O: Serialize>(output: &O) -> Result<Payload, StepError> {
    let wrong = |error: &dyn fmt::Display| StepError::uncertain(OUTPUT, error.to_string());
    let text = serde_json::to_string(output).map_err(|error| wrong(&error))?;
    Payload::from_text(text).map_err(|error| wrong(&error))
}

/// The last part of a function's path; `None` for a closure, which has no name of its own.
fn short_name<F>() -> Option<String> {
    let path = std::any::type_name::<F>();
    let path = path.split_once('<').map_or(path, |(path, _)| path);
    let name = path.rsplit("::").next().unwrap_or(path);
    let is_word = |name: &str| name.chars().all(|char| char.is_alphanumeric() || char == '_');
    Some(name).filter(|name| is_word(name)).map(str::to_owned)
}

/// A function with a name and a policy for failures.
///
/// ```
/// use perdura::{Context, Retry, Step, StepError, Workflow};
/// use std::time::Duration;
///
/// async fn pay(context: Context, cents: u64) -> Result<String, StepError> {
///     Ok(context.key().to_owned())
/// }
///
/// let payment = Workflow::new("payment").step(
///     Step::new(pay)
///         .named("PayTheBill")
///         .retry(Retry::times(5).first_after(Duration::from_secs(2)))
///         .timeout(Duration::from_secs(30))
///         .hold(),
/// );
/// # assert!(payment.definition().contains("PayTheBill"));
/// ```
pub struct Step<I, O> {
    pub(crate) parts: Parts,
    types: PhantomData<fn(I) -> O>,
}

/// A step without its types.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) name: Option<String>,
    pub(crate) function: Function,
    pub(crate) policy: Policy,
    pub(crate) has_effect: bool,
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
}

impl<I, O> Step<I, O> {
    fn of(name: Option<String>, function: Function, policy: Policy, has_effect: bool) -> Self {
        let parts = Parts { name, function, policy, has_effect, retry: None, timeout: None };
        Self { parts, types: PhantomData }
    }

    /// A step of this function, named after it.
    ///
    /// ```
    /// # use perdura::Step;
    /// async fn double(number: u32) -> Result<u32, std::io::Error> {
    ///     Ok(number * 2)
    /// }
    /// let step: Step<u32, u32> = Step::new(double);
    /// # drop(step);
    /// ```
    pub fn new<M>(function: impl IntoStep<I, M, Output = O>) -> Self {
        function.into_step()
    }

    /// A step of a function whose first argument is a client or a pool of the program, which is cloned for each call.
    ///
    /// ```
    /// use perdura::{Context, Step, StepError, Workflow};
    /// # #[derive(Clone)]
    /// # struct Mailer;
    /// # impl Mailer {
    /// #     async fn send(&self, to: &str, key: &str) -> std::io::Result<String> { Ok(format!("{to} {key}")) }
    /// # }
    /// async fn send_email(mailer: Mailer, context: Context, to: String) -> Result<String, StepError> {
    ///     Ok(mailer.send(&to, context.key()).await?)
    /// }
    ///
    /// let mailer = Mailer;
    /// let workflow = Workflow::new("welcome").step(Step::with(mailer, send_email));
    /// # assert!(workflow.definition().contains("welcome.send_email"));
    /// ```
    pub fn with<C, F, Fut, E>(client: C, function: F) -> Self
    where
        C: Clone + Send + Sync + 'static,
        F: Fn(C, Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<StepError>,
    {
        let name = short_name::<F>();
        let call = move |context: Context, input: I| function(client.clone(), context, input);
        let mut step = call.into_step();
        step.parts.name = name;
        step
    }

    /// Sets another name. A closure needs one, and a step whose function was renamed keeps its recorded name by it.
    ///
    /// ```
    /// # use perdura::Step;
    /// let step = Step::new(|number: u32| async move { Ok::<_, std::io::Error>(number + 1) }).named("Next");
    /// # drop(step);
    /// ```
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.parts.name = Some(name.into());
        self
    }

    /// How often, and when, the step is retried after an error; without this, never, and the execution fails.
    ///
    /// ```
    /// # use perdura::{Retry, Step};
    /// # async fn pay(cents: u64) -> Result<u64, std::io::Error> { Ok(cents) }
    /// let step = Step::new(pay).retry(Retry::times(3));
    /// # drop(step);
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        self.parts.retry = Some(retry);
        self
    }

    /// How long an attempt may take, in whole seconds, rounded up. A longer attempt is dropped, and may have had its
    /// effect.
    ///
    /// ```
    /// # use perdura::Step;
    /// # async fn pay(cents: u64) -> Result<u64, std::io::Error> { Ok(cents) }
    /// let step = Step::new(pay).timeout(std::time::Duration::from_secs(30));
    /// # drop(step);
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.parts.timeout = Some(timeout);
        self
    }

    /// The receiver knows no keys: if it is unknown whether the effect happened, the call is not repeated, and the step
    /// waits until a person [resolves](crate::Run::resolve) it.
    ///
    /// ```
    /// # use perdura::Step;
    /// # async fn fax(number: String) -> Result<(), std::io::Error> { Ok(()) }
    /// let step = Step::new(fax).hold();
    /// # drop(step);
    /// ```
    pub fn hold(mut self) -> Self {
        self.parts.policy.uncertain = Uncertain::Hold;
        self.parts.has_effect = true;
        self
    }

    /// How long the receiver remembers a key; a day by default. A call is not repeated later than that: the step is
    /// held instead.
    ///
    /// ```
    /// # use perdura::{Context, Step};
    /// # async fn pay(_: Context, cents: u64) -> Result<u64, std::io::Error> { Ok(cents) }
    /// let step = Step::new(pay).key_memory(std::time::Duration::from_secs(7 * 24 * 60 * 60));
    /// # drop(step);
    /// ```
    pub fn key_memory(mut self, memory: Duration) -> Self {
        self.parts.policy.key_memory_ms = i64::try_from(memory.as_millis()).unwrap_or(i64::MAX);
        self.parts.has_effect = true;
        self
    }
}

impl<I, O> fmt::Debug for Step<I, O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Step({})", self.parts.name.as_deref().unwrap_or("without a name"))
    }
}

/// When to retry a step: after any error, a number of times, with growing pauses.
///
/// By default the first pause is a second and each next one twice as long. It becomes the `Retry` of the step's state,
/// so the pauses are durable: if the process ends meanwhile, the next one waits for the rest.
///
/// ```
/// use perdura::Retry;
/// use std::time::Duration;
///
/// let retry = Retry::times(5).first_after(Duration::from_secs(5)).growing(3.0).at_most(Duration::from_mins(1));
/// # drop(retry);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    pub(crate) times: u32,
    pub(crate) first: Duration,
    pub(crate) rate: f64,
    pub(crate) most: Option<Duration>,
}

impl Retry {
    /// This many retries after the first attempt.
    ///
    /// ```
    /// let three_attempts = perdura::Retry::times(2);
    /// # drop(three_attempts);
    /// ```
    pub fn times(times: u32) -> Self {
        Self { times, first: Duration::from_secs(1), rate: 2.0, most: None }
    }

    /// The first pause; in whole seconds, rounded up.
    ///
    /// ```
    /// # use perdura::Retry;
    /// let retry = Retry::times(3).first_after(std::time::Duration::from_secs(10));
    /// # drop(retry);
    /// ```
    pub fn first_after(mut self, pause: Duration) -> Self {
        self.first = pause;
        self
    }

    /// The factor between one pause and the next; 1 keeps them equal.
    ///
    /// ```
    /// # use perdura::Retry;
    /// let retry = Retry::times(3).growing(1.0);
    /// # drop(retry);
    /// ```
    pub fn growing(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// The longest pause; in whole seconds, rounded up.
    ///
    /// ```
    /// # use perdura::Retry;
    /// let retry = Retry::times(20).at_most(std::time::Duration::from_secs(300));
    /// # drop(retry);
    /// ```
    pub fn at_most(mut self, pause: Duration) -> Self {
        self.most = Some(pause);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn named(number: u32) -> Result<u32, StepError> {
        Ok(number)
    }

    async fn generic<T: Send>(input: T) -> Result<T, StepError> {
        Ok(input)
    }

    #[test]
    fn a_step_is_named_after_its_function_and_a_closure_has_no_name() {
        assert_eq!(Step::new(named).parts.name.as_deref(), Some("named"));
        assert_eq!(Step::new(generic::<Vec<String>>).parts.name.as_deref(), Some("generic"));
        let closure = |number: u32| async move { Ok::<_, StepError>(number) };
        assert_eq!(Step::new(closure).parts.name, None);
    }

    #[test]
    fn only_what_takes_the_context_or_is_held_has_an_effect() {
        let plain = Step::new(named).parts;
        assert!(!plain.has_effect && plain.policy.key_memory_ms == i64::MAX, "it may be repeated for ever");
        assert!(Step::new(named).hold().parts.has_effect);
        let with_context = |_: Context, number: u32| async move { Ok::<_, StepError>(number) };
        let with_context = Step::new(with_context).parts;
        assert!(with_context.has_effect && with_context.policy == Policy::default());
    }
}
