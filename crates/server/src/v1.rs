//! `/v1`: the API of our own, for what AWS has no words for.
//!
//! [`table`] lists the operations, and everything else follows from it: the router here, the OpenAPI document, the page of
//! the API. An operation is carried out by a verb of [`crate::handle`] on a thread for its purpose, or waits without a
//! thread. The same router answers on TCP and on the control socket; the commands are clients of it.

mod asked;
mod client;
mod conditions;
mod events;
mod executions;
mod house;
mod machines;
pub mod openapi;
pub mod page;
mod problem;
mod raw;
mod rule;
mod shape;
mod shapes;
pub mod table;
mod theirs;
mod wire;

pub use client::{Bell, Connection, Rang, connect};
pub use problem::{Code, Problem};
pub use rule::{Memory, StoredAnswers};
pub use wire::{Outgoing, heard};

use crate::control::{Kind, Request as Verb};
use crate::data::Served;
use crate::handle;
use crate::http::told;
use crate::names::root_key;
use crate::places::Pool;
use crate::sfn::{Api, is_large};
use crate::who::Caller;
use crate::who::token::Known;
use asked::Asked;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use perdura_idempotency::{IDEMPOTENCY_KEY, IdempotencyLayer, IdempotencyService, StartError};
use perdura_runtime::InputError;
use perdura_store::audit::{self, DoorKind, Entry, Origin, Subject};
use rule::{Handler, OnSocket};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use table::{Answers, Does, Method, Mode, OPERATIONS, Operation, Reads};
use tower::{Layer, ServiceExt};

/// The largest body. Whoever serves may allow less.
const BODY_MAX: usize = 128 << 20;
const CLIENTS_MAX: usize = 1_024;
/// How long the record of keys may take to write before the server is not ready.
const WRITES_WITHIN: Duration = Duration::from_secs(3);

/// An operation that waits without a thread.
type Waits = for<'a> fn(&'a Desk, Asked) -> Pin<Box<dyn Future<Output = Result<Told, Problem>> + Send + 'a>>;

/// What the operations work with.
struct Desk {
    data: Served,
    api: Api,
    threads: Arc<Threads>,
}

/// Blocking threads, by purpose. A stop, which makes room, must not wait behind a start, and a read must not wait behind
/// either.
struct Threads {
    parsing: Pool,
    reading: Pool,
    changing: Pool,
}

impl Default for Threads {
    fn default() -> Self {
        let pool = |what, threads| Pool::new(what, threads, CLIENTS_MAX);
        Self {
            parsing: pool("large bodies", 2),
            reading: pool("questions", 32),
            changing: pool("changes", 16),
        }
    }
}

impl Desk {
    /// The same for one who asks: what is changed through it is on the audit.
    fn by(&self, origin: Origin) -> Self {
        let data = self.data.by(Arc::new(origin.clone()));
        Self { data, api: self.api.by(origin), threads: self.threads.clone() }
    }

    /// What the audit says of a request.
    fn origin(&self, operation: &Operation, request: &Request) -> Result<Origin, Problem> {
        let extensions = request.extensions();
        let caller = extensions.get::<Caller>().ok_or_else(nobody)?;
        let door = if extensions.get::<OnSocket>().is_some() { DoorKind::Socket } else { DoorKind::V1 };
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        let key = request.headers().get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
        Ok(Origin {
            from: peer.map(|ConnectInfo(peer)| told(*peer).into()),
            key: key.map(|key| root_key(key).unwrap_or_else(|_| key.into())),
            ..caller.origin(door, operation.name, self.api.moment().now)
        })
    }

    /// Whoever asks may not: that is on the audit before they are told.
    async fn refused(&self, origin: Origin, problem: Problem) -> Problem {
        let why = problem.detail.clone();
        let entry = Entry::refused(&Arc::new(origin), audit::Verb::Try, Subject::Installation, why);
        match self.data.door().witness(entry).await {
            Ok(()) => problem,
            Err(unavailable) => crate::Refusal::from(InputError::Unavailable(unavailable)).into(),
        }
    }

    /// Does it for as long as the token counts that the request was admitted by. Work under a key goes on, with nobody to tell.
    async fn while_it_counts<T>(
        &self,
        showing: Option<Showing>,
        work: impl Future<Output = T>,
    ) -> Result<T, Problem> {
        let Some((known, headers)) = showing else { return Ok(work.await) };
        tokio::select! {
            biased;
            denied = known.ended(&headers, || self.api.moment().now) => {
                tracing::debug!(%denied, "a request waits no more");
                Err(no_more())
            }
            done = work => Ok(done),
        }
    }

    async fn reads<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Served) -> Result<T, crate::Refusal> + Send + 'static,
    ) -> Result<T, Problem> {
        let mut data = self.data.clone();
        Ok(self.threads.reading.run(move || work(&mut data)).await??)
    }

    /// Carries out a verb.
    async fn verb(&self, request: Verb) -> Result<crate::control::Answer, Problem> {
        let mut data = self.data.clone();
        let pool = match request.kind() {
            Kind::Looks => &self.threads.reading,
            Kind::Keeps | Kind::Starts | Kind::Changes => &self.threads.changing,
        };
        Ok(pool.run(move || handle(&mut data, request)).await??)
    }

    /// Parses so many bytes: on this thread if they are few.
    async fn parsed<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        if is_large(bytes) { self.threads.parsing.run(work).await? } else { work() }
    }

    async fn answer(&self, operation: &'static Operation, request: Request) -> Result<Response, Problem> {
        let origin = self.origin(operation, &request)?;
        let (mut head, body) = request.into_parts();
        let body = to_bytes(body, BODY_MAX).await;
        let body = body.map_err(|_| Problem::new(Code::TooLarge, "the body is too large, or was cut off"))?;
        check_kind(operation, &head.headers, &body)?;
        let asked = Asked::new(operation, &head.uri, head.headers, body)?
            .under(head.extensions.remove())
            .holding(head.extensions.remove())
            .admitted_by(head.extensions.remove());
        let desk = self.by(origin);
        let told = match operation.does {
            Does::Waits(waits) | Does::Starts(waits) => waits(&desk, asked).await?,
            Does::Verb(read) => {
                let request = desk.parsed(asked.body.len(), move || read(&asked)).await?;
                Told::new(wire::told(&desk.verb(request).await?))
            }
        };
        Ok(told.into_response(operation))
    }
}

/// Refuses a caller whose role is too small. That is asked before each stored answer too.
fn admit(operation: &Operation, request: &Request) -> Result<Caller, Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.ok_or_else(nobody)?;
    if caller.has(operation.role) {
        return Ok(caller);
    }
    let (has, needs) = (caller.role.name(), operation.role.name());
    Err(Problem::new(Code::Forbidden, format!("this needs the role {needs}, and the caller has {has}")))
}

fn nobody() -> Problem {
    Problem::new(Code::NotAuthenticated, "nobody says who asks")
}

fn no_more() -> Problem {
    Problem::new(Code::NotAuthenticated, "the token does not count any more")
}

/// What a request was admitted by, where it is to be asked again: the tokens, and the headers that show one.
type Showing = (Arc<Known>, HeaderMap);

/// `None`: it came by the control socket, or without a token while there were none. Its own change may make the first one.
fn showing(request: &Request) -> Option<Showing> {
    let known = request.extensions().get::<Arc<Known>>()?.clone();
    let shown = request.headers().get_all(header::AUTHORIZATION).iter();
    let shown: HeaderMap = shown.map(|value| (header::AUTHORIZATION, value.clone())).collect();
    (!shown.is_empty()).then_some((known, shown))
}

/// A body is JSON, and is there only where it is read.
fn check_kind(operation: &Operation, headers: &axum::http::HeaderMap, body: &Bytes) -> Result<(), Problem> {
    if matches!(operation.reads, Reads::Nothing) {
        let is_empty = body.is_empty();
        return if is_empty { Ok(()) } else { Err(Problem::invalid("this operation takes no body")) };
    }
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    let is_json = kind.is_none_or(|kind| {
        let mut parts = kind.split(';').map(|part| part.trim().to_ascii_lowercase());
        let kind = parts.next().unwrap_or_default();
        // JSON is UTF-8; to read another charset as if it were that would be to read something else.
        let is_utf_8 = parts.all(|part| {
            part.strip_prefix("charset=").is_none_or(|charset| charset.trim_matches('"') == "utf-8")
        });
        is_utf_8 && (kind == "application/json" || kind.ends_with("+json"))
    });
    // A page in a browser can send a form to anybody without being asked, and so no form is taken.
    match (body.is_empty(), kind) {
        (true, _) => Ok(()),
        (false, Some(_)) if is_json => Ok(()),
        (false, Some(kind)) => Err(Problem::new(Code::NotJson, format!("the content type is {kind:?}"))
            .but("send application/json, in UTF-8")),
        (false, None) => {
            Err(Problem::new(Code::NotJson, "the content type is missing").but("send application/json"))
        }
    }
}

/// What an operation answers.
struct Told {
    /// `None`: there is nothing to say.
    body: Option<String>,
    /// In its place.
    stream: Option<Body>,
    headers: Vec<(HeaderName, String)>,
    status: Option<StatusCode>,
}

impl Told {
    fn new(body: Option<String>) -> Self {
        Self { body, stream: None, headers: Vec::new(), status: None }
    }

    /// Server-sent events.
    fn stream(body: Body) -> Self {
        Self { stream: Some(body), ..Self::nothing() }
    }

    fn json(body: String) -> Self {
        Self::new(Some(body))
    }

    fn nothing() -> Self {
        Self::new(None)
    }

    fn unchanged(tag: String) -> Self {
        Self::nothing().with(header::ETAG, tag).status(StatusCode::NOT_MODIFIED)
    }

    fn with(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    fn status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    fn into_response(self, operation: &Operation) -> Response {
        let is_stream = self.stream.is_some();
        let is_empty = self.body.is_none() && !is_stream;
        let whole = self.body.map_or_else(Body::empty, Body::from);
        let mut response = Response::new(self.stream.unwrap_or(whole));
        let usual = match operation.answers {
            _ if is_empty => StatusCode::NO_CONTENT,
            Answers::Made(_) => StatusCode::CREATED,
            Answers::Nothing
            | Answers::A(_)
            | Answers::Perhaps(_)
            | Answers::PageOf(_)
            | Answers::PageOfDocuments
            | Answers::Document
            | Answers::Events => StatusCode::OK,
        };
        *response.status_mut() = self.status.unwrap_or(usual);
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if !is_empty {
            let kind = if is_stream { "text/event-stream" } else { "application/json" };
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        for (name, value) in self.headers {
            headers.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
        }
        response
    }
}

/// The operations as a service. Cloning shares.
#[derive(Clone)]
pub struct V1 {
    router: Router,
    rule: IdempotencyLayer,
}

impl V1 {
    /// Why requests under a key are refused at the moment: their record cannot be written.
    pub(crate) async fn trouble(&self) -> Option<Arc<str>> {
        let operations = self.rule.operations();
        match tokio::time::timeout(WRITES_WITHIN, operations.check_writes()).await {
            Ok(checked) => checked.err().map(|error| error.to_string().into()),
            Err(_elapsed) => Some(format!("nothing was written for {} s", WRITES_WITHIN.as_secs()).into()),
        }
    }

    /// Within a tokio runtime.
    pub async fn new(data: Served, api: Api, memory: Memory) -> Result<Self, StartError> {
        let rule = memory.layer().await?;
        let data = data.with_answers(StoredAnswers::of(&rule));
        let desk = Arc::new(Desk { data, api, threads: Arc::default() });
        let mut router = Router::new();
        for operation in OPERATIONS {
            let filter = match operation.method {
                Method::Get => MethodFilter::GET,
                Method::Put => MethodFilter::PUT,
                Method::Post => MethodFilter::POST,
                Method::Delete => MethodFilter::DELETE,
            };
            let bare = Handler { desk: desk.clone(), operation };
            let guarded = rule.layer(bare.clone());
            let handler = move |request: Request| {
                let (bare, guarded) = (bare.clone(), guarded.clone());
                async move {
                    answer(operation, request, bare, guarded).await.unwrap_or_else(Problem::into_response)
                }
            };
            router = router.route(operation.path, on(filter, handler));
            tracing::debug!(
                route = format!("{} {}", operation.method.name(), operation.path),
                role = operation.role.name(),
                mode = operation.mode.map(Mode::name),
                "serves"
            );
        }
        let router = router
            .fallback(|uri: Uri| async move {
                Problem::new(Code::NotFound, format!("there is no {}", uri.path()))
                    .but("see /openapi.json")
                    .into_response()
            })
            .method_not_allowed_fallback(|| async {
                Problem::new(Code::WrongMethod, "this path has other methods")
                    .but("see /openapi.json")
                    .into_response()
            });
        Ok(Self { router, rule })
    }

    /// Ends when the end of everything that was begun is recorded.
    pub async fn drain(&self) {
        self.rule.drain().await;
    }

    /// Answers a request that came by the control socket: whoever can open it owns the data.
    pub async fn answer_on_socket(&self, mut request: Request) -> Response {
        request.extensions_mut().insert(OnSocket);
        self.answer(request, Caller::owner()).await
    }

    /// Answers a request of this caller.
    pub async fn answer(&self, mut request: Request, caller: Caller) -> Response {
        if let Some(uri) = normal(request.uri()) {
            *request.uri_mut() = uri;
        }
        request.extensions_mut().insert(caller);
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Answers a request, under the rule where it is to be.
async fn answer(
    operation: &'static Operation,
    request: Request,
    bare: Handler,
    guarded: IdempotencyService<Handler>,
) -> Result<Response, Problem> {
    let desk = bare.desk.clone();
    let origin = desk.origin(operation, &request)?;
    let caller = match admit(operation, &request) {
        Ok(caller) => caller,
        Err(problem) => return Err(desk.refused(origin, problem).await),
    };
    let request = match caller.machines {
        Some(_) => match theirs::admit(&desk, operation, &caller, request).await {
            Ok(request) => request,
            Err(problem) => return Err(desk.refused(origin, problem).await),
        },
        None => request,
    };
    let wait = asked::wait(request.headers());
    let showing = showing(&request);
    let answered = if rule::is_guarded(operation, &request) {
        desk.while_it_counts(showing.clone(), guarded.oneshot(request)).await?
    } else {
        bare.oneshot(request).await
    };
    let response = match answered {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let response = match caller.machines {
        Some(_) => theirs::told(&desk, operation, &caller, response).await?,
        None => response,
    };
    match (operation.does, wait) {
        // A repetition waits for the end as the first request does, so what is remembered is the start alone.
        (Does::Starts(_), Some(wait)) if response.status() == StatusCode::CREATED => {
            let desk = desk.by(origin);
            desk.while_it_counts(showing, executions::ended(&desk, response, wait)).await?
        }
        (Does::Starts(_) | Does::Waits(_) | Does::Verb(_), _) => Ok(response),
    }
}

/// Whether a path is of this API.
pub(crate) fn is_ours(path: &str) -> bool {
    path == "/openapi.json" || path == "/v1" || path.starts_with("/v1/")
}

/// What may follow an execution in a path.
const PARTS: [&str; 7] = ["history", "turns", "left", "stop", "redrive", "erase", "events"];

/// The path with an execution's `machine/name` as one part. `None`: it is as it should be.
fn normal(uri: &Uri) -> Option<Uri> {
    let rest = uri.path().strip_prefix("/v1/executions/")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let named = match parts[..] {
        [machine, name] if !PARTS.contains(&name) => format!("{machine}%2F{name}"),
        [machine, name, part] => format!("{machine}%2F{name}/{part}"),
        _ => return None,
    };
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("/v1/executions/{named}{query}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_may_be_two_parts_of_a_path() {
        for (given, expected) in [
            ("/v1/executions/m/n", Some("/v1/executions/m%2Fn")),
            ("/v1/executions/m/n/history?cursor=a", Some("/v1/executions/m%2Fn/history?cursor=a")),
            ("/v1/executions/n/history", None),
            ("/v1/executions/m%2Fn/history", None),
            ("/v1/executions/m/history/stop", Some("/v1/executions/m%2Fhistory/stop")),
            ("/v1/executions", None),
            ("/v1/machines/m/versions", None),
        ] {
            let uri = given.parse::<Uri>().unwrap();
            assert_eq!(normal(&uri).map(|uri| uri.to_string()).as_deref(), expected, "{given}");
        }
    }
}
