//! The HTTP Task, `arn:aws:states:::http:invoke`.
//!
//! One small effect between two pure parts: `plan` turns the arguments into a request, `outcome` turns the answer into
//! an outcome. The request carries the call's key, in the header that the destination names. A redirect is an answer
//! like any other and is not followed: it would give the key and the credentials to another receiver.

mod arguments;
mod form;
mod mask;
mod outcome;
mod plan;
mod seen;

use crate::client::{Client, Outgoing};
use crate::connection::{Connections, Kept, Token};
use arguments::Arguments;
use http::HeaderName;
use outcome::{of_answer, of_connection, of_error, of_token};
use perdura_engine::asl::json::Value;
use perdura_engine::{Call, Certainty, ExecutionId, Outcome};
use plan::Allowance;
pub use seen::Onlooker;
use serde::Deserialize;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// A destination's meaning of a status, where it differs from the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The receiver says that it did nothing.
    Refused,
    /// Performed: the answer is a success, whatever its status.
    Done,
    /// Perhaps performed.
    Ambiguous,
}

/// A call of an HTTP Task, with the settings of its destination.
#[derive(Clone, Copy)]
pub struct HttpCall<'a> {
    pub call: &'a Call,
    /// The execution, which names the trace.
    pub execution: ExecutionId,
    /// As on AWS: https with a connection, 60 seconds, 256 KiB.
    pub strict: bool,
    /// The region that `User-Agent` names under `strict`.
    pub region: &'a str,
    /// The header that carries the key.
    pub header: &'a HeaderName,
    /// The meanings of statuses at this destination.
    pub statuses: &'a BTreeMap<u16, Verdict>,
    /// Records the exchange for a state under test.
    pub onlooker: Option<&'a Onlooker>,
}

/// Makes the call. If a token is refused with 401, it is renewed once, and the call repeated under the same key: a
/// receiver that does not know the caller has done nothing.
pub async fn invoke(client: &Client, connections: &Connections, call: HttpCall<'_>) -> Outcome {
    let arguments = match Arguments::read(call.call.input.value()) {
        Ok(arguments) => arguments,
        Err(fault) => return Outcome::Failed { fault, certainty: Certainty::NotSent },
    };
    let kept = match arguments.connection.map(|written| connections.get(written)).transpose() {
        Ok(kept) => kept,
        Err(error) => return of_connection(&error),
    };
    if let Some(Err(error)) = kept.as_ref().map(|kept| kept.judge(&arguments.endpoint)) {
        return of_connection(&error);
    }
    let allowance = Allowance::of(&call);
    let until = Instant::now() + allowance.lasts_for;
    let exchange = Exchange { client, call, arguments, kept: kept.as_deref(), until };
    let token = match exchange.token().await {
        Ok(token) => token,
        Err(outcome) => return outcome,
    };
    let first = exchange.send(token.as_ref()).await;
    match (first, token) {
        (Answer::Unknown(outcome), Some(refused)) => match exchange.renewed(&refused).await {
            Ok(Some(token)) => exchange.send(Some(&token)).await.outcome(),
            Ok(None) => outcome,
            Err(outcome) => outcome,
        },
        (first, _) => first.outcome(),
    }
}

/// The result of one request.
enum Answer {
    /// 401: the receiver does not know the caller.
    Unknown(Outcome),
    Other(Outcome),
}

impl Answer {
    fn outcome(self) -> Outcome {
        match self {
            Self::Unknown(outcome) | Self::Other(outcome) => outcome,
        }
    }
}

struct Exchange<'a> {
    client: &'a Client,
    call: HttpCall<'a>,
    arguments: Arguments<'a>,
    kept: Option<&'a Kept>,
    until: Instant,
}

impl Exchange<'_> {
    async fn token(&self) -> Result<Option<Token>, Outcome> {
        let Some(kept) = self.kept else { return Ok(None) };
        kept.token(self.client, self.until).await.map_err(|error| of_token(&kept.name, &error))
    }

    async fn renewed(&self, refused: &Token) -> Result<Option<Token>, Outcome> {
        let Some(kept) = self.kept else { return Ok(None) };
        kept.renewed(self.client, refused, self.until).await.map_err(|error| of_token(&kept.name, &error))
    }

    /// The request in the form that the onlooker may see.
    fn shown(&self, onlooker: &Onlooker, outgoing: &Outgoing, token: Option<&Token>) -> Value {
        let Some(kept) = self.kept.filter(|_| !onlooker.reveals()) else {
            return onlooker.request(outgoing, &[]);
        };
        let masked = kept.connection.masked();
        let secrets = kept.connection.secrets(token);
        match plan::plan(&self.call, &self.arguments, Some((&masked, token))) {
            Ok(masked) => onlooker.request(&masked, &secrets),
            Err(_) => onlooker.request(outgoing, &secrets),
        }
    }

    async fn send(&self, token: Option<&Token>) -> Answer {
        let credentials = self.kept.map(|kept| (&kept.connection, token));
        let mut outgoing = match plan::plan(&self.call, &self.arguments, credentials) {
            Ok(outgoing) => outgoing,
            Err(fault) => return Answer::Other(Outcome::Failed { fault, certainty: Certainty::NotSent }),
        };
        outgoing.timeout = self.until.saturating_duration_since(Instant::now());
        let secrets = || self.kept.map_or_else(Vec::new, |kept| kept.connection.secrets(token));
        let watched = self.call.onlooker.map(|onlooker| {
            let scheme = outgoing.url.scheme().to_owned();
            (onlooker, scheme, self.shown(onlooker, &outgoing, token))
        });
        match self.client.send(outgoing).await {
            Err(error) => Answer::Other(of_error(&error, Allowance::of(&self.call))),
            Ok(answer) => {
                let secrets = secrets();
                if let Some((onlooker, scheme, request)) = watched {
                    onlooker.saw(request, &scheme, &answer, &secrets);
                }
                let outcome = of_answer(&answer, self.call.statuses, &secrets);
                let is_refused = outcome::verdict(answer.status, self.call.statuses) == Verdict::Refused;
                if answer.status == 401 && is_refused {
                    Answer::Unknown(outcome)
                } else {
                    Answer::Other(outcome)
                }
            }
        }
    }
}
