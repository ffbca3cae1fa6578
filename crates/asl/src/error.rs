//! Error names for Retry and Catch, and the pauses of retries.

use crate::machine::Retrier;

/// Matches every error but the two that must be named or cannot be handled.
pub const ALL: &str = "States.ALL";
/// A task ran too long.
pub const TIMEOUT: &str = "States.Timeout";
/// A missed heartbeat.
pub const HEARTBEAT_TIMEOUT: &str = "States.HeartbeatTimeout";
/// Matches every error but a timeout.
pub const TASK_FAILED: &str = "States.TaskFailed";
/// The definition and the data do not fit; never retried, never caught.
pub const RUNTIME: &str = "States.Runtime";
/// A payload is too large. If it is not a task's own result, only this name matches it.
pub const DATA_LIMIT_EXCEEDED: &str = "States.DataLimitExceeded";
/// A JSONata expression failed.
pub const QUERY_EVALUATION: &str = "States.QueryEvaluationError";
/// No rule of a Choice is true, and it has no default; from the language. Step Functions reports [`RUNTIME`].
pub const NO_CHOICE_MATCHED: &str = "States.NoChoiceMatched";
/// `ResultPath` cannot be applied.
pub const RESULT_PATH_MATCH: &str = "States.ResultPathMatchFailure";
/// An intrinsic function failed.
pub const INTRINSIC: &str = "States.IntrinsicFailure";
/// Too many items of a Map failed.
pub const TOLERANCE_EXCEEDED: &str = "States.ExceedToleratedFailureThreshold";
/// An item source could not be read.
pub const ITEM_READER: &str = "States.ItemReaderFailed";
/// Results could not be written.
pub const RESULT_WRITER: &str = "States.ResultWriterFailed";

/// Every reserved name; a definition may use no other name that begins with `States.`, except `States.Http.*`.
pub const RESERVED: [&str; 16] = [
    ALL,
    HEARTBEAT_TIMEOUT,
    TIMEOUT,
    TASK_FAILED,
    "States.Permissions",
    RESULT_PATH_MATCH,
    "States.ParameterPathFailure",
    QUERY_EVALUATION,
    "States.BranchFailed",
    NO_CHOICE_MATCHED,
    INTRINSIC,
    TOLERANCE_EXCEEDED,
    ITEM_READER,
    RESULT_WRITER,
    DATA_LIMIT_EXCEEDED,
    RUNTIME,
];

/// The failed part: the task, or the state's processing of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The task; its failures include a result that is too large.
    Task,
    /// Everything else.
    State,
}

/// Whether an `ErrorEquals` names this error. A failure without a name is matched by the wildcards alone.
pub fn matches<N: AsRef<str>>(error_equals: &[N], error: Option<&str>, whose: Whose) -> bool {
    let error = error.unwrap_or_default();
    if error == RUNTIME {
        return false;
    }
    let timeout = error == TIMEOUT || error == HEARTBEAT_TIMEOUT;
    let wild = error != DATA_LIMIT_EXCEEDED || whose == Whose::Task;
    error_equals.iter().map(AsRef::as_ref).any(|name| match name {
        ALL => wild,
        TASK_FAILED => !timeout && wild,
        TIMEOUT => timeout,
        exact => exact == error,
    })
}

impl Retrier {
    /// How long to wait before the retry after `retries` earlier ones, in milliseconds. `None`: no more retries.
    /// `fraction` in 0..1 is the chance for full jitter.
    pub fn delay_ms(&self, retries: u64, fraction: f64) -> Option<i64> {
        const LONGEST_MS: f64 = 1e15;
        if retries >= self.max_attempts {
            return None;
        }
        let power = i32::try_from(retries).unwrap_or(i32::MAX);
        let grown = self.interval_seconds as f64 * 1000.0 * self.backoff_rate.powi(power);
        let capped = self.max_delay_seconds.map_or(grown, |most| grown.min(most as f64 * 1000.0));
        let delay = if self.full_jitter { capped * fraction } else { capped };
        Some(delay.min(LONGEST_MS) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_what_the_language_says() {
        for (names, error, expected) in [
            (vec![ALL], "Custom", true),
            (vec![ALL], TIMEOUT, true),
            (vec![ALL], RUNTIME, false),
            (vec![RUNTIME], RUNTIME, false),
            (vec![ALL], DATA_LIMIT_EXCEEDED, false),
            (vec![DATA_LIMIT_EXCEEDED], DATA_LIMIT_EXCEEDED, true),
            (vec![TASK_FAILED], "Custom", true),
            (vec![TASK_FAILED], TIMEOUT, false),
            (vec![TASK_FAILED], HEARTBEAT_TIMEOUT, false),
            (vec![TIMEOUT], HEARTBEAT_TIMEOUT, true),
            (vec![HEARTBEAT_TIMEOUT], TIMEOUT, false),
            (vec!["custom"], "Custom", false),
            (vec!["A", "B"], "B", true),
        ] {
            assert_eq!(matches(&names, Some(error), Whose::State), expected, "{names:?} {error}");
        }
        assert!(matches(&[ALL], Some(DATA_LIMIT_EXCEEDED), Whose::Task), "a task's own result");
        assert!(matches(&[ALL], None, Whose::Task));
        assert!(!matches(&["Custom"], None, Whose::Task));
    }

    #[test]
    fn delays_grow_are_capped_and_end() {
        let retrier = Retrier {
            errors: vec![],
            interval_seconds: 5,
            max_attempts: 3,
            backoff_rate: 3.0,
            max_delay_seconds: None,
            full_jitter: false,
        };
        let delays: Vec<_> = (0..4).map(|retries| retrier.delay_ms(retries, 0.5)).collect();
        assert_eq!(delays, [Some(5_000), Some(15_000), Some(45_000), None]);
        let capped = Retrier { max_delay_seconds: Some(20), full_jitter: true, ..retrier };
        assert_eq!(capped.delay_ms(2, 0.5), Some(10_000));
    }
}
