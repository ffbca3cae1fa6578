//! The scope of a request, and the hooks that check it. Two callers with the same key have two operations, and neither
//! can learn of the other's.

use crate::record::{Epoch, OperationId};
use crate::store::Pending;
use axum::body::Body;
use http::Response;
use http::request::Parts;
use std::sync::Arc;

/// Tenant and principal of a request, from authentication.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The organisation, account or workspace. Data keys are per tenant.
    pub tenant: String,
    /// The user, client or service within it.
    pub principal: String,
}

impl Scope {
    /// A principal of a tenant.
    pub fn new(tenant: impl Into<String>, principal: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), principal: principal.into() }
    }
}

/// Finds the scope of a request. `None`: the caller is not authenticated, and the request is refused.
pub(crate) type ScopeOf = Arc<dyn Fn(&Parts) -> Option<Scope> + Send + Sync>;

/// Checks permissions, before a request runs and before its stored answer is given again: rights that were revoked
/// since the first request count.
pub trait Authorise: Send + Sync + 'static {
    /// Whether this caller may make this request. `Err` is the answer otherwise.
    fn authorise<'a>(&'a self, request: &'a Parts, scope: &'a Scope) -> Pending<'a, Result<(), Denied>>;
}

/// The answer to a caller without the permission.
#[derive(Debug)]
pub enum Denied {
    /// The layer's own 403.
    Forbidden,
    /// This answer.
    Answer(Box<Response<Body>>),
}

impl<F: Fn(&Parts, &Scope) -> bool + Send + Sync + 'static> Authorise for F {
    fn authorise<'a>(&'a self, request: &'a Parts, scope: &'a Scope) -> Pending<'a, Result<(), Denied>> {
        let allowed = self(request, scope);
        Box::pin(async move { if allowed { Ok(()) } else { Err(Denied::Forbidden) } })
    }
}

/// A stored answer that is about to be sent.
#[derive(Clone, Debug)]
pub struct ResultRead {
    pub scope: Scope,
    /// The route: `POST /payments/{id}`.
    pub route: Arc<str>,
    pub operation: OperationId,
    /// The grant of the answer.
    pub epoch: Epoch,
}

/// Records which caller read which answer.
pub trait Audit: Send + Sync + 'static {
    /// Records it. On `Err` the answer is not sent, and the caller is told to retry.
    fn result_read<'a>(&'a self, read: &'a ResultRead) -> Pending<'a, Result<(), AuditFailed>>;
}

/// The reading could not be recorded.
#[derive(Debug, thiserror::Error)]
#[error("the read of a stored answer could not be audited: {0}")]
pub struct AuditFailed(#[source] pub Box<dyn std::error::Error + Send + Sync>);
