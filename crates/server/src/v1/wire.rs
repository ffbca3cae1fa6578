//! Verbs on the wire: how a command's [`Request`] becomes an HTTP request, and how its [`Answer`] is written and read.
//!
//! Documents, such as an execution's input, stand in bodies and answers as JSON, and not as JSON in a text.

use super::asked::{cursor, encode};
use super::problem::Problem;
use super::raw;
use super::shapes::OLDEST;
use crate::Refusal;
use crate::control::{
    Answer, AuditQuestion, LedgerQuestion, ListQuestion, Order, Request, Resolving, ledger_word,
};
use axum::http::Method;
use perdura_engine::Certainty;
use perdura_engine::asl::hex;
use perdura_engine::asl::machine::MachineType;
use serde_json::Value as Json;

/// A request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub method: Method,
    /// With its query.
    pub path: String,
    /// JSON.
    pub body: Option<String>,
}

/// What certainly is JSON.
fn plain(value: &impl serde::Serialize) -> Json {
    serde_json::to_value(value).expect("it is plain data")
}

/// The members of a body.
#[derive(Default)]
struct Body(Vec<String>);

impl Body {
    fn raw(mut self, name: &str, json: Option<&str>) -> Self {
        self.0.extend(json.map(|json| format!("\"{name}\":{json}")));
        self
    }

    fn text(self, name: &str, text: Option<&str>) -> Self {
        let text = text.map(|text| Json::from(text).to_string());
        self.raw(name, text.as_deref())
    }

    fn object(self) -> String {
        format!("{{{}}}", self.0.join(","))
    }
}

/// The words of [`Certainty`].
pub(super) const CERTAINTIES: [(&str, Certainty); 3] =
    [("refused", Certainty::Refused), ("notSent", Certainty::NotSent), ("ambiguous", Certainty::Ambiguous)];

/// The words of [`MachineType`].
pub(super) fn type_word(kind: MachineType) -> &'static str {
    match kind {
        MachineType::Standard => "STANDARD",
        MachineType::Express => "EXPRESS",
    }
}

impl Outgoing {
    fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None }
    }

    fn post(path: impl Into<String>, body: Body) -> Self {
        Self { method: Method::POST, path: path.into(), body: Some(body.object()) }
    }

    /// With a query of what is there.
    fn asking(mut self, query: &[(&str, Option<String>)]) -> Self {
        let mut sign = '?';
        for (name, value) in query {
            if let Some(value) = value {
                self.path.push(sign);
                self.path.push_str(&[name, "=", &encode(value)].concat());
                sign = '&';
            }
        }
        self
    }

    /// The HTTP request of a command.
    pub fn of(request: &Request) -> Self {
        let of = |execution: &str, rest: &str| format!("/v1/executions/{}{rest}", encode(execution));
        let page = |execution: &str, rest: &str, from: u64| {
            Self::get(of(execution, rest)).asking(&[("cursor", (from > 1).then(|| cursor(&from.into())))])
        };
        let none = Body::default;
        match request {
            Request::Who => Self::get("/v1/server"),
            Request::Deploy { machine, kind, definition, role } => Self {
                method: Method::PUT,
                path: format!("/v1/machines/{}", encode(machine)),
                body: Some(definition.clone()),
            }
            .asking(&[("type", Some(type_word(*kind).into())), ("role", role.clone())]),
            Request::Start { machine, name, input, strict, labels, key } => {
                let body = none().text("machine", Some(machine)).text("name", name.as_deref());
                let labels = (!labels.is_empty()).then(|| plain(labels).to_string());
                let body = body.raw("input", Some(input.text())).raw("strict", strict.then_some("true"));
                let body = body.raw("labels", labels.as_deref()).text("rootKey", key.as_deref());
                Self::post("/v1/executions", body)
            }
            Request::List(question) => {
                let ListQuestion { machine, status, label, name_prefix, error, .. } = question;
                let ListQuestion { since, until, sort, after, most, .. } = question;
                let after = after.map(|place| cursor(&plain(&place)));
                Self::get("/v1/executions").asking(&[
                    ("machine", machine.clone()),
                    ("status", status.map(|status| status.name().to_owned())),
                    ("label", label.clone()),
                    ("namePrefix", name_prefix.clone()),
                    ("error", error.clone()),
                    ("since", since.map(|since| since.to_string())),
                    ("until", until.map(|until| until.to_string())),
                    ("sort", (*sort == Order::End).then(|| "end".to_owned())),
                    ("limit", Some(most.to_string())),
                    ("cursor", after),
                ])
            }
            Request::Show { execution } => Self::get(of(execution, "")),
            Request::History { execution, from } => page(execution, "/history", *from),
            Request::Turns { execution, from } => page(execution, "/turns", *from),
            Request::Left { execution, from } => page(execution, "/left", *from),
            Request::Trace { key } => Self::get(format!("/v1/trace/{}", encode(key))),
            Request::Ledger(LedgerQuestion { status, stuck, execution, key, after, most }) => {
                Self::get("/v1/ledger").asking(&[
                    ("status", status.map(|status| ledger_word(status).to_owned())),
                    ("stuck", stuck.then(|| "true".to_owned())),
                    ("execution", execution.clone()),
                    ("key", key.clone()),
                    ("limit", Some(most.to_string())),
                    ("cursor", after.as_ref().map(|place| cursor(&plain(place)))),
                ])
            }
            Request::Audit(question) => {
                let AuditQuestion { since, until, who, verb, execution, machine, key, .. } = question;
                let AuditQuestion { oldest_first, after, most, .. } = question;
                Self::get("/v1/audit").asking(&[
                    ("since", since.map(|since| since.to_string())),
                    ("until", until.map(|until| until.to_string())),
                    ("who", who.clone()),
                    ("verb", verb.map(|verb| verb.name().to_owned())),
                    ("execution", execution.clone()),
                    ("machine", machine.clone()),
                    ("key", key.clone()),
                    ("order", oldest_first.then(|| OLDEST.to_owned())),
                    ("limit", Some(most.to_string())),
                    ("cursor", after.map(|place| cursor(&plain(&place)))),
                ])
            }
            Request::Resolve(Resolving { key, completed, failed, again, reason }) => {
                let failed = failed.as_ref().map(|(error, cause)| {
                    none().text("error", Some(error)).text("cause", cause.as_deref()).object()
                });
                let body = none().text("key", Some(key)).text("reason", Some(reason));
                let body = body.raw("completed", completed.as_ref().map(|output| &**output.text()));
                let body = body.raw("failed", failed.as_deref()).raw("again", again.then_some("true"));
                Self::post("/v1/ledger/resolve", body)
            }
            Request::Activities => Self::get("/v1/activities"),
            Request::PutActivity { name } => {
                Self { method: Method::PUT, path: format!("/v1/activities/{}", encode(name)), body: None }
            }
            Request::Poll { activity, worker } => {
                let body = none().text("worker", worker.as_deref());
                Self::post(format!("/v1/activities/{}/poll", encode(activity)), body)
            }
            Request::Succeed { token, output } => {
                let body = none().text("token", Some(token)).raw("output", Some(output.text()));
                Self::post("/v1/tasks/complete", body)
            }
            Request::Fail { token, error, cause, certainty } => {
                let word = CERTAINTIES.iter().find(|(_, known)| known == certainty).map(|(word, _)| *word);
                let body = none().text("token", Some(token)).text("error", error.as_deref());
                Self::post("/v1/tasks/fail", body.text("cause", cause.as_deref()).text("certainty", word))
            }
            Request::Heartbeat { token } => {
                Self::post("/v1/tasks/heartbeat", none().text("token", Some(token)))
            }
            Request::PutConnection { name, sealed } => Self {
                method: Method::PUT,
                path: format!("/v1/connections/{}", encode(name)),
                body: Some(none().text("sealed", Some(&hex::encode(sealed))).object()),
            },
            Request::Connections => Self::get("/v1/connections"),
            Request::DeleteConnection { name } => {
                Self { method: Method::DELETE, path: format!("/v1/connections/{}", encode(name)), body: None }
            }
            Request::CreateToken(new) => {
                let ends_in_ms = new.ends_in_ms.map(|ms| ms.to_string());
                let body = none().text("id", Some(&new.id)).text("hash", Some(&new.hash));
                let body = body.text("name", Some(&new.name)).text("role", Some(new.role.name()));
                let body = body.text("tenant", Some(&new.tenant)).text("machines", new.machines.as_deref());
                Self::post("/v1/tokens", body.raw("endsInMs", ends_in_ms.as_deref()))
            }
            Request::Tokens => Self::get("/v1/tokens"),
            Request::RevokeToken { id } => {
                Self { method: Method::DELETE, path: format!("/v1/tokens/{}", encode(id)), body: None }
            }
            Request::Pause { machine, now } => {
                let body = Some(none().raw("now", now.then_some("true")).object());
                Self { method: Method::PUT, path: pause(machine.as_deref()), body }
            }
            Request::Resume { machine } => {
                Self { method: Method::DELETE, path: pause(machine.as_deref()), body: None }
            }
            Request::Pauses => Self::get("/v1/pause"),
            Request::Stats => Self::get("/v1/stats"),
            Request::Stop { execution, error, cause } => {
                let body = none().text("error", error.as_deref()).text("cause", cause.as_deref());
                Self::post(of(execution, "/stop"), body)
            }
            Request::Redrive { execution } => Self::post(of(execution, "/redrive"), none()),
            Request::GiveUp { execution } => {
                Self { method: Method::DELETE, path: of(execution, ""), body: None }
            }
            Request::Erase { execution } => Self::post(of(execution, "/erase"), none()),
            Request::EraseKey { key } => Self::post("/v1/erase", none().text("key", Some(key))),
            Request::Compact => Self::post("/v1/compact", none()),
            Request::Cleanup { ended_for_ms, ledger_for_ms, bytes_max, dry_run } => {
                let bytes_max = bytes_max.map(|bytes| bytes.to_string());
                let body = none().raw("endedForMs", Some(&ended_for_ms.to_string()));
                let body = body.raw("ledgerForMs", Some(&ledger_for_ms.to_string()));
                let body =
                    body.raw("bytesMax", bytes_max.as_deref()).raw("dryRun", dry_run.then_some("true"));
                Self::post("/v1/cleanup", body)
            }
        }
    }
}

/// Where a machine is paused, or all of them.
fn pause(machine: Option<&str>) -> String {
    machine.map_or_else(|| "/v1/pause".to_owned(), |name| format!("/v1/machines/{}/pause", encode(name)))
}

/// The variant of [`Answer`] that answers a request, as serde names it.
fn tag(request: &Request) -> &'static str {
    match request {
        Request::Who => "who",
        Request::Deploy { .. } => "deployed",
        Request::Start { .. } => "started",
        Request::List(_) => "executions",
        Request::Show { .. } => "execution",
        Request::History { .. } => "history",
        Request::Turns { .. } => "turns",
        Request::Left { .. } => "left",
        Request::Trace { .. } => "trace",
        Request::Ledger(_) => "ledger",
        Request::Audit(_) => "audit",
        Request::Resolve(_) | Request::Stop { .. } | Request::Redrive { .. } => "taken",
        Request::Activities => "activities",
        Request::Poll { .. } => "task",
        Request::Connections => "connections",
        Request::CreateToken(_) | Request::RevokeToken { .. } => "token",
        Request::Tokens => "tokens",
        Request::Pauses => "pauses",
        Request::Stats => "stats",
        Request::Compact => "room",
        Request::Cleanup { .. } => "swept",
        Request::Erase { .. } | Request::EraseKey { .. } => "erased",
        Request::PutActivity { .. }
        | Request::Succeed { .. }
        | Request::Fail { .. }
        | Request::Heartbeat { .. }
        | Request::PutConnection { .. }
        | Request::DeleteConnection { .. }
        | Request::Pause { .. }
        | Request::Resume { .. }
        | Request::GiveUp { .. } => "done",
    }
}

/// Members of an answer that are documents.
fn documents(tag: &str) -> &'static [&'static str] {
    match tag {
        "execution" | "task" => &["input", "output"],
        _ => &[],
    }
}

/// The body of an answer; `None`: there is nothing to say.
pub(super) fn told(answer: &Answer) -> Option<String> {
    let (tag, inner) = match serde_json::to_value(answer).expect("answers are plain data") {
        Json::Object(members) => members.into_iter().next()?,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => return None,
    };
    let mut members = match inner {
        Json::Object(members) => members,
        Json::Array(items) => return Some(serde_json::json!({ "items": items }).to_string()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => return None,
    };
    if let Some(next) = members.shift_remove("next").filter(|next| !next.is_null()) {
        members.insert("cursor".into(), cursor(&next).into());
    }
    if tag == "history" {
        return Some(events(&members));
    }
    let raw = |(name, value): (&String, &Json)| match value {
        Json::String(document) if documents(&tag).contains(&&**name) => format!("\"{name}\":{document}"),
        value => format!("\"{name}\":{value}"),
    };
    Some(format!("{{{}}}", members.iter().map(raw).collect::<Vec<_>>().join(",")))
}

/// A page of events, each of which is a document.
fn events(members: &serde_json::Map<String, Json>) -> String {
    let items = members.get("items").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let items: Vec<&str> = items.iter().filter_map(Json::as_str).collect();
    let cursor = members.get("cursor").map(|cursor| format!(",\"cursor\":{cursor}"));
    format!("{{\"items\":[{}]{}}}", items.join(","), cursor.unwrap_or_default())
}

/// Reads what a server answered to a request.
pub fn heard(
    request: &Request,
    status: u16,
    body: &[u8],
) -> Result<Result<Answer, Refusal>, serde_json::Error> {
    if !(200..300).contains(&status) {
        return Ok(Err(Problem::read(status, body)));
    }
    let tag = tag(request);
    let inner = match tag {
        "done" => return Ok(Ok(Answer::Done)),
        "task" if body.is_empty() => Json::Null,
        "execution" | "task" | "history" => with_documents(tag, body)?,
        _ => serde_json::from_slice(body)?,
    };
    let inner = match (tag, inner) {
        ("activities" | "connections" | "tokens", mut list) => list["items"].take(),
        ("pauses", pauses) => pauses,
        (_, mut page) if page.get("items").is_some() => {
            page["next"] = page.get("cursor").map(place).transpose()?.unwrap_or_default();
            page
        }
        (_, other) => other,
    };
    Ok(Ok(serde_json::from_value(serde_json::json!({ tag: inner }))?))
}

/// The place that a cursor stands for.
fn place(cursor: &Json) -> Result<Json, serde_json::Error> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(cursor.as_str().unwrap_or_default());
    serde_json::from_slice(&bytes.unwrap_or_default())
}

/// Reads an answer whose documents are to be texts again, as they are written.
fn with_documents(tag: &str, body: &[u8]) -> Result<Json, serde_json::Error> {
    // It is JSON as a whole, or refused here.
    let mut read: Json = serde_json::from_slice(body)?;
    let text = std::str::from_utf8(body).unwrap_or_default();
    for (name, part) in raw::parts(text) {
        let name = name.unwrap_or_default();
        if tag == "history" && name == "items" {
            read[name] = raw::parts(part).into_iter().map(|(_, event)| Json::from(event)).collect();
        } else if documents(tag).contains(&&*name) {
            read[name] = part.into();
        }
    }
    Ok(read)
}
