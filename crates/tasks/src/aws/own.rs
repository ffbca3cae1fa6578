//! Our own Step Functions API, called by a machine of this server: `aws-sdk:sfn:…` without an address.
//!
//! A machine that starts another by the SDK integration means the server that it runs on. A call over HTTP to the
//! server itself would need an address and a key. So the server passes its API to this module instead.

use super::outcome::{Refusal, Told, failed, fault};
use super::service::Operation;
use super::shape::from_wire;
use perdura_engine::asl::json::{Map, Payload, Value};
use perdura_engine::{Certainty, EffectKey, Outcome};
use std::pin::Pin;
use std::sync::Arc;

/// A call of the Step Functions API.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnRequest {
    /// `StartExecution`.
    pub action: String,
    /// The input, as in the API's JSON.
    pub input: Payload,
    /// The key of the call. After a crash the same call is repeated under the same key.
    pub key: EffectKey,
}

/// The API refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRefusal {
    /// The error's name in the API, such as `StateMachineDoesNotExist`.
    pub name: String,
    pub message: String,
    /// The status of the error over HTTP.
    pub status: u16,
}

/// The future answer of a call.
pub type OwnAnswer = Pin<Box<dyn Future<Output = Result<Payload, OwnRefusal>> + Send>>;

/// Answers calls of the Step Functions API in this process, as in the API's JSON.
pub type OwnApi = Arc<dyn Fn(OwnRequest) -> OwnAnswer + Send + Sync>;

/// Calls the API; arguments are spelled as on the wire.
pub(super) async fn ask(api: &OwnApi, operation: &Operation<'_>, arguments: Map, key: &EffectKey) -> Outcome {
    let input = Value::from(arguments).into();
    let request = OwnRequest { action: operation.wire_action(), input, key: key.clone() };
    match api(request).await {
        Ok(answer) => Outcome::Succeeded { output: from_wire(operation, answer.value()).into() },
        Err(OwnRefusal { name, message, status }) => {
            let refusal = Refusal { code: Some(name), old_code: None, message: Some(message) };
            let id = key.wire().to_string();
            let told = Told { status, request_id: Some(&id), extended: None };
            failed(fault(operation, &refusal, told), Certainty::of_http(Some(status)))
        }
    }
}
