//! The published policy, for programs: the settings of the layer, and components for an OpenAPI description.
//!
//! Both are generated from the settings and from the table of reasons, which the layer itself uses, so they cannot
//! differ from its behaviour.

use crate::budget::Budgets;
use crate::operations::State;
use crate::problem::{Next, Profile, Reason};
use http::Method;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// The settings that callers may know.
#[derive(Clone, Debug)]
pub struct Published {
    /// Which profile refusals follow.
    pub profile: Profile,
    /// The UUID versions that a key may have.
    pub key_versions: Vec<u8>,
    /// Whether keys of any other form are accepted too.
    pub opaque_keys: bool,
    /// Whether a key that is older than all records are kept is refused.
    pub stale_keys_refused: bool,
    /// The budgets of one caller on one instance.
    pub budgets: Budgets,
    /// The declared routes.
    pub routes: Vec<PublishedRoute>,
    /// The promise of a POST or PATCH route without a declaration. `None`: it is not protected.
    pub undeclared: Option<Promise>,
}

/// A route with its promise.
#[derive(Clone, Debug)]
pub struct PublishedRoute {
    pub method: Method,
    /// Its path template.
    pub template: String,
    pub promise: Promise,
}

/// The promise of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing: no key is needed, and nothing is stored.
    Exempt,
    /// The requests with one key run once.
    Protected {
        /// The meaning of a crash between the effect and its record.
        mode: &'static str,
        /// How two requests are compared.
        fingerprint: &'static str,
        /// How long an answer is kept, counted from completion.
        answer_for: Duration,
        /// How long after that a late retry is refused.
        tombstone_for: Duration,
        /// How long a second request waits for the first.
        wait_for_max: Duration,
        /// The largest request.
        body_bytes_max: u64,
        /// The largest answer that is kept.
        answer_bytes_max: u64,
    },
}

/// The headers of answers: name, component name, schema, and description.
fn response_headers() -> [(&'static str, &'static str, Value, &'static str); 6] {
    let digest = json!({ "type": "string", "pattern": "^sha-256=:[A-Za-z0-9+/]{43}=:$" });
    [
        ("Idempotency-Key", "IdempotencyKey", json!({ "type": "string" }), "The key, as it was received."),
        (
            "Idempotency-Fingerprint",
            "IdempotencyFingerprint",
            digest.clone(),
            "A SHA-256 over path parameters, query, media type and content of the request. Under one key it stays the \
             same, or the request is refused.",
        ),
        (
            "Idempotency-Replayed",
            "IdempotencyReplayed",
            json!({ "type": "string", "const": "true" }),
            "There when the answer was made by an earlier request with this key, and nothing was done now.",
        ),
        (
            "Content-Digest",
            "ContentDigest",
            digest,
            "A SHA-256 of the content of this very answer (RFC 9530).",
        ),
        (
            "Last-Modified",
            "LastModified",
            json!({ "type": "string" }),
            "On an answer that is given again: when the first request was run, to the second.",
        ),
        (
            "Retry-After",
            "RetryAfter",
            json!({ "type": "integer", "minimum": 1 }),
            "After how many seconds to send the same request with the same key again.",
        ),
    ]
}

const fn profile_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Perdura => "perdura",
        Profile::Ietf => "ietf",
    }
}

impl Promise {
    fn members(&self) -> Map<String, Value> {
        let members = match self {
            Self::Exempt => vec![("mode", Value::from("exempt"))],
            Self::Protected {
                mode,
                fingerprint,
                answer_for,
                tombstone_for,
                wait_for_max,
                body_bytes_max,
                answer_bytes_max,
            } => vec![
                ("mode", Value::from(*mode)),
                ("fingerprint", (*fingerprint).into()),
                ("retention_seconds", answer_for.as_secs().into()),
                ("tombstone_seconds", tombstone_for.as_secs().into()),
                ("wait_seconds_max", wait_for_max.as_secs_f64().into()),
                ("content_bytes_max", (*body_bytes_max).into()),
                ("answer_bytes_max", (*answer_bytes_max).into()),
            ],
        };
        named(members)
    }
}

fn named(members: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Published {
    /// The policy: the form of keys, the promise of each route, and every reason for a refusal.
    pub fn policy(&self) -> Value {
        let routes = self.routes.iter().map(|route| {
            let mut members = Map::new();
            members.insert("method".to_owned(), route.method.as_str().into());
            members.insert("path".to_owned(), route.template.as_str().into());
            members.extend(route.promise.members());
            Value::Object(members)
        });
        let headers = response_headers().map(|(name, _, _, tells)| (name, Value::from(tells)));
        let Budgets {
            window,
            replays,
            conflicts,
            running,
            stored_bytes,
            stored_records,
            requests_per_key: _,
        } = self.budgets;
        json!({
            "profile": profile_name(self.profile),
            "key": {
                "header": "Idempotency-Key",
                "format": if self.opaque_keys { "any" } else { "uuid" },
                "versions": if self.opaque_keys { (1..=8).collect() } else { self.key_versions.clone() },
                "forms": ["bare", "quoted"],
                "stale_keys_refused": self.stale_keys_refused,
            },
            "routes": routes.collect::<Vec<_>>(),
            "undeclared_routes": self.undeclared.as_ref().map(Promise::members),
            "response_headers": named(headers),
            "budgets_per_caller": {
                "window_seconds": window.as_secs_f64(),
                "replays": replays,
                "conflicts": conflicts,
                "running": running,
                "stored_bytes": stored_bytes,
                "stored_records": stored_records,
            },
            "reasons": Reason::ALL.map(|reason| self.problem(reason)).as_slice(),
        })
    }

    /// An OpenAPI 3.1 description with only components, for other descriptions to refer to: the parameter of a request,
    /// the headers of answers, the problem, a response for each reason and each status, and the path of an operation.
    pub fn openapi(&self) -> Value {
        let headers = response_headers().map(|(_, component, schema, tells)| {
            (component, json!({ "description": tells, "schema": schema }))
        });
        let examples = Reason::ALL.map(|reason| {
            let example = json!({ "summary": reason.title(), "value": self.problem(reason) });
            (reason.name(), example)
        });
        json!({
            "openapi": "3.1.1",
            "info": {
                "title": "Idempotency-Key",
                "summary": "Components of an API whose requests are done once",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "components": {
                "parameters": {
                    "IdempotencyKey": self.key_parameter(),
                    "ContentDigest": {
                        "name": "Content-Digest",
                        "in": "header",
                        "description": "A digest of the content, by sha-256 or sha-512 (RFC 9530). It is verified.",
                        "schema": { "type": "string" },
                    },
                    "Prefer": {
                        "name": "Prefer",
                        "in": "header",
                        "description": "`wait=10`: how many seconds at most to wait for an earlier request (RFC 7240).",
                        "schema": { "type": "string" },
                    },
                },
                "headers": named(headers),
                "schemas": { "IdempotencyProblem": problem_schema(), "IdempotencyOperation": operation_schema() },
                "examples": named(examples),
                "responses": self.responses(),
                "pathItems": { "IdempotencyOperation": self.operation_path() },
            },
        })
    }

    fn key_parameter(&self) -> Value {
        let versions: String =
            self.key_versions.iter().filter_map(|version| char::from_digit((*version).into(), 16)).collect();
        let hex = "[0-9a-fA-F]";
        let uuid = format!("{hex}{{8}}-{hex}{{4}}-[{versions}]{hex}{{3}}-[89abAB]{hex}{{3}}-{hex}{{12}}");
        let schema = if self.opaque_keys {
            // In quotes as a structured field string, or bare without spaces, quotes and commas.
            let any = r#"^(?:[!#-+\-./0-~]+|"(?:[ !#-\[\]-~]|\\["\\])+")$"#;
            json!({ "type": "string", "pattern": any, "maxLength": 255 })
        } else {
            json!({ "type": "string", "pattern": format!("^(?:{uuid}|\"{uuid}\")$") })
        };
        json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": true,
            "description": "A UUID that the caller draws for each thing to be done, and sends again with each retry. Bare, \
                or quoted as a structured field string.",
            "schema": schema,
            "example": "0190a6e4-5f3c-7b1d-9c55-3e2b7a1f0d42",
        })
    }

    fn responses(&self) -> Map<String, Value> {
        let statuses: BTreeSet<u16> =
            Reason::ALL.iter().map(|reason| reason.status(self.profile).as_u16()).collect();
        let by_status = statuses.into_iter().map(|status| {
            let of_status = |reason: &Reason| reason.status(self.profile).as_u16() == status;
            let reasons: Vec<_> = Reason::ALL.into_iter().filter(of_status).collect();
            (format!("Idempotency{status}"), response(&reasons))
        });
        let by_reason = Reason::ALL.map(|reason| (reason.name().to_owned(), response(&[reason])));
        by_status.chain(by_reason).collect()
    }

    fn operation_path(&self) -> Value {
        let reasons = [
            Reason::ScopeMissing,
            Reason::NotAuthorised,
            Reason::OperationNotFound,
            Reason::StoreUnavailable,
            Reason::RecordDamaged,
        ];
        let refusals = reasons.map(|reason| {
            let response = json!({ "$ref": format!("#/components/responses/{}", reason.name()) });
            (reason.status(self.profile).as_str().to_owned(), response)
        });
        let found = json!({
            "description": "Where the operation stands.",
            "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/IdempotencyOperation" } },
            },
        });
        let responses: Map<_, _> = [("200".to_owned(), found)].into_iter().chain(refusals).collect();
        json!({
            "get": {
                "summary": "What came of an operation of the caller's own",
                "parameters": [{
                    "name": "operation",
                    "in": "path",
                    "required": true,
                    "description": "The `operation` of a problem.",
                    "schema": { "type": "string", "format": "uuid" },
                }],
                "responses": responses,
            },
        })
    }

    /// The problem for this reason, without the parts that depend on the request.
    fn problem(&self, reason: Reason) -> Value {
        json!({
            "type": reason.uri(),
            "title": reason.title(),
            "status": reason.status(self.profile).as_u16(),
            "code": reason.code(),
            "reason": reason.name(),
            "next": reason.next().name(),
        })
    }
}

/// The response for one of these reasons.
fn response(reasons: &[Reason]) -> Value {
    let headers = response_headers().into_iter().filter(|(name, ..)| match *name {
        "Idempotency-Replayed" | "Last-Modified" => false,
        "Retry-After" => reasons.iter().any(|reason| reason.tells_when()),
        _ => true,
    });
    let headers = headers.map(|(name, component, _, _)| {
        (name, json!({ "$ref": format!("#/components/headers/{component}") }))
    });
    let examples = reasons.iter().map(|reason| {
        let name = reason.name();
        (name, json!({ "$ref": format!("#/components/examples/{name}") }))
    });
    let titles: Vec<_> = reasons.iter().map(|reason| format!("{}.", reason.title())).collect();
    json!({
        "description": titles.join(" "),
        "headers": named(headers),
        "content": {
            "application/problem+json": {
                "schema": { "$ref": "#/components/schemas/IdempotencyProblem" },
                "examples": named(examples),
            },
        },
    })
}

fn problem_schema() -> Value {
    let codes: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    let nexts = [Next::SameKey, Next::NewKey, Next::Stop].map(Next::name);
    json!({
        "type": "object",
        "description": "Problem details (RFC 9457).",
        "required": ["type", "title", "status", "code", "reason", "next"],
        "properties": {
            "type": { "type": "string", "format": "uri-reference" },
            "title": { "type": "string" },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string", "description": "What is wrong with this very request." },
            "code": { "type": "string", "enum": codes },
            "reason": { "type": "string", "enum": Reason::ALL.map(Reason::name).as_slice() },
            "next": {
                "type": "string",
                "enum": nexts,
                "description": "`same_key`: send the same request with the same key again. `new_key`: correct it, and send \
                    it with a new key. `stop`: do not send it again, ask what came of it.",
            },
            "operation": {
                "type": "string",
                "format": "uuid",
                "description": "The operation, by which its state can be asked for.",
            },
            "state": {
                "type": "string",
                "enum": State::ALL.map(State::name),
                "description": "Where the operation stands, as far as the reason tells.",
            },
            "instance": {
                "type": "string",
                "format": "uri-reference",
                "description": "Where the operation can be looked at.",
            },
        },
    })
}

fn operation_schema() -> Value {
    let at = |tells: &str| json!({ "type": ["string", "null"], "format": "date-time", "description": tells });
    json!({
        "type": "object",
        "required": ["operation", "state", "epoch", "first_at", "ended_at", "expires_at", "result_retained"],
        "properties": {
            "operation": { "type": "string", "format": "uuid" },
            "state": { "type": "string", "enum": State::ALL.map(State::name) },
            "epoch": { "type": "integer", "minimum": 0, "description": "The number of the newest grant." },
            "first_at": { "type": "string", "format": "date-time", "description": "When it began first." },
            "ended_at": at("When it ended, or was found to have an unknown outcome."),
            "expires_at": at("When the record expires."),
            "result_retained": {
                "type": "boolean",
                "description": "Whether the request, sent again with its key, would be given its answer.",
            },
        },
    })
}

#[cfg(test)]
mod tests;
