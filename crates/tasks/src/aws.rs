//! Services of AWS, and servers with the same APIs, at configured addresses: `sqs:sendMessage`,
//! `aws-sdk:dynamodb:query`.
//!
//! A call takes four pure steps and one effect. `shape` spells the arguments as on the wire, and `token` adds the key
//! where the service looks for one; the service's protocol builds a request; the request is signed and sent; the
//! protocol parses the answer; and `outcome` turns it into an outcome in the words of Step Functions. The differences
//! between services are data, in `service`.

mod faults;
mod json;
mod lambda;
mod outcome;
mod own;
mod query;
mod request;
mod s3;
mod service;
mod settings;
mod shape;
mod token;
mod xml;

pub use own::{OwnAnswer, OwnApi, OwnRefusal, OwnRequest};
pub use settings::{AwsSettings, AwsTable};

pub(crate) use request::{Bounds, Request, Signer, credentials, push_pair};
pub(crate) use xml::{Element, read as read_xml};

use crate::client::Incoming;
use crate::destination::Destination;
use crate::functions::Line;
use crate::sign::{self, TRACEPARENT};
use outcome::{refused, succeeded, unanswered, unreadable, unusable};
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::{Map, Value};
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Call, ExecutionId, Fault, Outcome};
use service::{Operation, Protocol};
use std::time::Duration;

/// The limit of a call whose own timeout is longer, or missing: as long as Lambda lets a function run.
const TIMEOUT: Duration = Duration::from_mins(15);

/// Whether a resource is a call of a supported service.
pub(crate) fn speaks(resource: &Resource) -> bool {
    service::operation(resource).is_some()
}

/// A call, with the settings of its destination.
#[derive(Clone, Copy)]
pub(crate) struct AwsCall<'a> {
    pub(crate) execution: ExecutionId,
    pub(crate) call: &'a Call,
    pub(crate) destination: &'a Destination,
    pub(crate) answer_bytes_max: usize,
}

/// Makes a call. `None`: it is not a call of a supported service.
pub(crate) async fn invoke(
    line: Line<'_>,
    settings: &AwsSettings,
    own: Option<&OwnApi>,
    call: AwsCall<'_>,
) -> Option<Outcome> {
    let operation = service::operation(&call.call.resource)?;
    Some(perform(line, settings, own, call, &operation).await)
}

async fn perform(
    line: Line<'_>,
    settings: &AwsSettings,
    own: Option<&OwnApi>,
    call: AwsCall<'_>,
    operation: &Operation<'_>,
) -> Outcome {
    let AwsCall { execution, call, destination, answer_bytes_max } = call;
    let arguments = match call.input.value() {
        Value::Object(members) => Map::clone(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return unusable(&call.input, "The parameters must be an OBJECT");
        }
    };
    let key = call.key.wire().to_string();
    let arguments = token::with_token(operation, arguments, &key);
    let arguments = shape::to_wire(operation, &arguments);
    let name = operation.service.name;
    if let (Some(own), "sfn", None) = (own, name, settings.own_endpoint(name)) {
        return own::ask(own, operation, arguments, &call.key).await;
    }
    let Some(endpoint) = settings.endpoint(name) else { return nowhere(&call.resource, name) };
    let request = match request_of(operation, arguments, &key, &settings.signer.region) {
        Ok(request) => request,
        Err(what) => return unusable(&call.input, &what),
    };
    let timeout = call.timeout_seconds.map_or(TIMEOUT, |own| Duration::from_secs(own).min(TIMEOUT));
    let mut outgoing = request.at(endpoint, Bounds { timeout, answer_bytes_max });
    outgoing.headers.insert(destination.header.clone(), sign::key(&call.key));
    outgoing.headers.insert(TRACEPARENT, sign::trace(execution, &call.key));
    settings.signer.sign(&mut outgoing, operation.service.signs_as);
    match line.send(&format!("aws {name}"), outgoing).await {
        Err(error) => unanswered(operation, &error, call.resource.whose()),
        Ok(answer) if (200..300).contains(&answer.status) => {
            let (result, request_id) = match read(operation, &answer) {
                Ok(read) => read,
                Err(what) => return unreadable(operation, what),
            };
            succeeded(operation, &answer, shape::from_wire(operation, &result), request_id.as_deref())
        }
        Ok(answer) => {
            let refusal = match operation.service.protocol {
                Protocol::Json { .. } | Protocol::Lambda => json::refusal(&answer),
                Protocol::Query { .. } => query::refusal(&answer),
                Protocol::S3 => s3::refusal(operation.action, &answer),
            };
            refused(operation, &answer, &refusal, &destination.statuses)
        }
    }
}

/// The request of a call, or the mistake in its arguments.
fn request_of(operation: &Operation<'_>, arguments: Map, key: &str, region: &str) -> Result<Request, String> {
    match operation.service.protocol {
        Protocol::Json { version, target, case: _ } => {
            Ok(json::request(operation, version, target, arguments))
        }
        Protocol::Query { version } => Ok(query::request(operation, version, &arguments)),
        Protocol::Lambda => lambda::request(operation.action, arguments, key),
        Protocol::S3 => s3::request(operation.action, arguments, region),
    }
}

/// The content of an answer, and the request id if it is in the body.
fn read(operation: &Operation<'_>, answer: &Incoming) -> Result<(Value, Option<String>), String> {
    match operation.service.protocol {
        Protocol::Json { .. } => Ok((json::read(&answer.body)?, None)),
        Protocol::Query { .. } => query::read(&answer.body),
        Protocol::Lambda => Ok((lambda::read(operation.action, answer)?, None)),
        Protocol::S3 => Ok((s3::read(operation.action, answer)?, None)),
    }
}

/// The service has no address. Nothing catches this error: a machine without its services is not ready to run.
fn nowhere(resource: &Resource, name: &str) -> Outcome {
    let cause = format!(
        "{} has no address: write [aws] with endpoint = \"http://…\", or [aws.endpoints] with {name} = \"http://…\", \
         into perdura.toml",
        resource.arn
    );
    Outcome::NotStarted { fault: Fault::new(RUNTIME, cause), scheduled: false }
}
