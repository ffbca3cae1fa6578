//! `TestState`: one state, tried out. The engine reads the state and decides the result; only the call that it makes
//! without a mock is made here.

use super::Api;
use super::error::{ApiError, Code};
use super::requested::Requested;
use perdura_engine::asl::error::{RUNTIME, TIMEOUT};
use perdura_engine::asl::json::Value;
use perdura_engine::{
    Call, Calling, Certainty, Exchange, ExecutionId, Fault, Outcome, Prepared, Refused, TestState,
};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The longest that a state may take.
const LONGEST: Duration = Duration::from_mins(5);
const NOT_REVEALED: &str = "revealSecrets is switched off here: whoever runs this server can allow it with \
                            serve.reveal_secrets = true";

/// Makes the call of a state under test.
pub type Tester =
    Arc<dyn Fn(Trying) -> Pin<Box<dyn Future<Output = (Outcome, Option<Exchange>)> + Send>> + Send + Sync>;

/// A call of a state under test.
#[derive(Clone, Debug)]
pub struct Trying {
    /// A made-up execution.
    pub execution: ExecutionId,
    pub call: Call,
    /// Whether credentials may be revealed.
    pub reveals: bool,
}

/// A state under test: it has its answer, or makes a call first.
enum Begun {
    Answered { shown: Value, after_ms: i64 },
    Calling(Box<Calling>),
}

pub(super) async fn test(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let reveals = request.flag("revealSecrets").unwrap_or(false);
    let is_denied = reveals && !api.0.reveals_secrets;
    let (moment, arns) = (api.moment(), api.0.arns.clone());
    let request: Value = request.members().clone().into();
    let begun = api.evaluating(move || {
        let state = TestState::read(&request).map_err(refused)?;
        if is_denied {
            return Err(ApiError::new(Code::AccessDeniedException, NOT_REVEALED));
        }
        Ok(match state.prepare(&arns, &moment).map_err(refused)? {
            Prepared::Answered { verdict, after_ms } => Begun::Answered { shown: verdict.to_api(), after_ms },
            Prepared::Call(calling) => Begun::Calling(calling),
        })
    });
    let calling = match begun.await? {
        Begun::Answered { shown, after_ms } => {
            // A Wait state waits, as on AWS.
            tokio::time::sleep(Duration::from_millis(after_ms.unsigned_abs())).await;
            return Ok(shown);
        }
        Begun::Calling(calling) => calling,
    };
    let call = calling.call().clone();
    let longest = call.timeout_seconds.map_or(LONGEST, |seconds| LONGEST.min(Duration::from_secs(seconds)));
    let (outcome, exchange) = if let Some(tester) = &api.0.tester {
        let execution = ExecutionId::from_random(moment.entropy);
        let trying = Trying { execution, call, reveals };
        let made = tokio::time::timeout(longest, tester(trying)).await;
        made.unwrap_or_else(|_elapsed| {
            let fault = Fault::named(TIMEOUT);
            (Outcome::Failed { fault, certainty: Certainty::Ambiguous }, None)
        })
    } else {
        let cause = format!("Nothing here performs {}.", call.resource.arn);
        (Outcome::NotStarted { fault: Fault::new(RUNTIME, cause), scheduled: false }, None)
    };
    let moment = api.moment();
    api.finishing(move || calling.finish(&outcome, exchange, &moment).to_api()).await
}

fn refused(refused: Refused) -> ApiError {
    let (code, message) = match refused {
        Refused::InvalidDefinition(message) => (Code::InvalidDefinition, message),
        Refused::ValidationException(message) => (Code::ValidationException, message),
        Refused::InvalidExecutionInput(message) => (Code::InvalidExecutionInput, message),
        Refused::InvalidArn(message) => (Code::InvalidArn, message),
    };
    ApiError::new(code, message)
}
