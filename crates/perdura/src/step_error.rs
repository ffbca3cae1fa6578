//! The error of a step, and whether its effect may have happened.

use perdura_engine::{Certainty, Fault};
use std::error::Error;
use std::fmt;

/// The longest name of an error and the longest cause, in characters, as in Step Functions.
const NAME_MAX: usize = 256;
const CAUSE_MAX: usize = 32_768;

/// The name of an error without a name.
const UNNAMED: &str = "States.TaskFailed";

/// Why a step did not succeed.
///
/// The important part of a failure is whether the effect may have happened all the same, because that decides the key
/// of a retry.
///
/// | Made by | In a step with a [`Context`](crate::Context) | In a step without |
/// |---|---|---|
/// | [`StepError::refused`] | nothing was done; a retry gets a new key | the same |
/// | [`StepError::uncertain`] | it may be done; a retry has the same key | the same |
/// | `?` on any other error, [`StepError::other`] | it may be done; a retry has the same key | nothing was done |
/// | a panic, a timeout, a lost process | it may be done; a retry has the same key | the same; repeating is harmless |
///
/// `?` says nothing about the effect: the connection may have been lost before the request or before the answer. So
/// perdura concludes nothing from it. A step that knows better says so:
///
/// ```
/// use perdura::{Context, StepError};
///
/// # enum Answer { Accepted(String), Declined(String) }
/// # async fn call_bank(cents: u64, key: &str) -> Result<Answer, std::io::Error> {
/// #     Ok(if cents > 100 { Answer::Declined("limit".into()) } else { Answer::Accepted(key.into()) })
/// # }
/// async fn pay(context: Context, cents: u64) -> Result<String, StepError> {
///     match call_bank(cents, context.key()).await? {
///         Answer::Accepted(receipt) => Ok(receipt),
///         Answer::Declined(why) => Err(StepError::refused("Declined", why)),
///     }
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let error = pay(Context::for_tests("key-1"), 500).await.unwrap_err();
/// assert_eq!((error.name(), error.cause()), ("Declined", "limit"));
/// # });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    name: String,
    cause: String,
    said: Option<Certainty>,
}

impl StepError {
    /// The effect certainly did not happen: the receiver said no, or was never asked. A retry gets a new key.
    ///
    /// `Retry` and `Catch` of a definition match this name.
    ///
    /// ```
    /// let error = perdura::StepError::refused("Invalid", "a claim has an amount");
    /// assert_eq!(error.to_string(), "Invalid: a claim has an amount");
    /// ```
    pub fn refused(name: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(name.into(), cause.into(), Some(Certainty::Refused))
    }

    /// The effect may have happened. A retry repeats it under the same key; a step with
    /// [`hold`](crate::Step::hold) waits for a person.
    ///
    /// ```
    /// let error = perdura::StepError::uncertain("Gateway", "504 after the request was sent");
    /// assert_eq!(error.name(), "Gateway");
    /// ```
    pub fn uncertain(name: impl Into<String>, cause: impl Into<String>) -> Self {
        Self::new(name.into(), cause.into(), Some(Certainty::Ambiguous))
    }

    /// An error that `?` does not take, because it is no [`Error`]: a text, or the error of a crate with one type for
    /// all kinds. Like `?`, it says nothing about the effect.
    ///
    /// ```
    /// # use perdura::StepError;
    /// fn read(text: &str) -> Result<u8, StepError> {
    ///     text.parse().map_err(|_| StepError::other("the form has no number in it"))
    /// }
    /// assert_eq!(read("x").unwrap_err().cause(), "the form has no number in it");
    /// ```
    pub fn other(cause: impl fmt::Display) -> Self {
        Self::new(UNNAMED.to_owned(), format!("{cause:#}"), None)
    }

    fn new(mut name: String, mut cause: String, said: Option<Certainty>) -> Self {
        cut(&mut name, NAME_MAX);
        cut(&mut cause, CAUSE_MAX);
        Self { name, cause, said }
    }

    /// The error's name; `States.TaskFailed` if it came by `?`.
    ///
    /// ```
    /// # use perdura::StepError;
    /// let error = StepError::from("x".parse::<u8>().unwrap_err());
    /// assert_eq!(error.name(), "States.TaskFailed");
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The error's cause, for people: the text of the error and of its sources.
    ///
    /// ```
    /// # use perdura::StepError;
    /// let error = StepError::from("x".parse::<u8>().unwrap_err());
    /// assert_eq!(error.cause(), "invalid digit found in string");
    /// ```
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// The runtime's form. If the step did not say whether the effect happened, that depends on whether it has one.
    pub(crate) fn into_runtime(self, has_effect: bool) -> perdura_runtime::StepError {
        let unsaid = if has_effect { Certainty::Ambiguous } else { Certainty::Refused };
        perdura_runtime::StepError {
            fault: Fault::new(self.name, self.cause),
            certainty: self.said.unwrap_or(unsaid),
        }
    }
}

fn cut(text: &mut String, most: usize) {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name, self.cause)
    }
}

/// Makes `?` work in a step. `StepError` itself is not an [`Error`], because then this could not be.
impl<E: Error> From<E> for StepError {
    fn from(error: E) -> Self {
        let mut cause = error.to_string();
        let mut next = error.source();
        while let Some(source) = next.filter(|_| cause.len() < CAUSE_MAX) {
            cause.push_str(": ");
            cause.push_str(&source.to_string());
            next = source.source();
        }
        Self::new(UNNAMED.to_owned(), cause, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsaid() -> StepError {
        StepError::from(std::io::Error::other("reset"))
    }

    #[test]
    fn an_error_says_whether_the_effect_may_have_happened() {
        for (error, has_effect, expected) in [
            (StepError::refused("A", "b"), true, Certainty::Refused),
            (StepError::refused("A", "b"), false, Certainty::Refused),
            (StepError::uncertain("A", "b"), true, Certainty::Ambiguous),
            (StepError::uncertain("A", "b"), false, Certainty::Ambiguous),
            (unsaid(), true, Certainty::Ambiguous),
            (unsaid(), false, Certainty::Refused),
            (StepError::other("reset"), true, Certainty::Ambiguous),
            (StepError::other("reset"), false, Certainty::Refused),
        ] {
            assert_eq!(error.clone().into_runtime(has_effect).certainty, expected, "{error} {has_effect}");
        }
    }

    #[test]
    fn a_cause_names_its_sources_and_has_an_end() {
        let outer = std::io::Error::other(std::io::Error::other("reset"));
        assert_eq!(StepError::from(outer).cause(), "reset");
        let long = StepError::refused("n".repeat(300), "ü".repeat(40_000));
        assert_eq!((long.name().chars().count(), long.cause().chars().count()), (NAME_MAX, CAUSE_MAX));
    }
}
