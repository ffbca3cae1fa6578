//! Whose request it is, and who has a say in it. Two callers with the same key are two operations, and neither can learn
//! of the other's.

use crate::record::{Epoch, OperationId};
use crate::store::Pending;
use axum::body::Body;
use http::Response;
use http::request::Parts;
use std::sync::Arc;

/// Tenant and principal of a request, as authentication found them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The organisation, account or workspace. Data keys are per tenant.
    pub tenant: String,
    /// The user, client or service within it.
    pub principal: String,
}

impl Scope {
    /// This principal of this tenant.
    pub fn new(tenant: impl Into<String>, principal: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), principal: principal.into() }
    }
}

/// Finds the scope of a request. `None`: nobody was authenticated, and the request is refused.
pub(crate) type ScopeOf = Arc<dyn Fn(&Parts) -> Option<Scope> + Send + Sync>;

/// Decides who may do what, before a request is run and before its stored answer is given again: rights that were taken
/// away since the first request count.
pub trait Authorise: Send + Sync + 'static {
    /// May this caller make this request? `Err` is what it is answered.
    fn authorise<'a>(&'a self, request: &'a Parts, scope: &'a Scope) -> Pending<'a, Result<(), Denied>>;
}

/// A caller may not do this.
#[derive(Debug)]
pub enum Denied {
    /// It is told so in the layer's words: 403.
    Forbidden,
    /// It is answered this.
    Answer(Box<Response<Body>>),
}

impl<F: Fn(&Parts, &Scope) -> bool + Send + Sync + 'static> Authorise for F {
    fn authorise<'a>(&'a self, request: &'a Parts, scope: &'a Scope) -> Pending<'a, Result<(), Denied>> {
        let allowed = self(request, scope);
        Box::pin(async move { if allowed { Ok(()) } else { Err(Denied::Forbidden) } })
    }
}

/// Somebody is about to be given a stored answer.
#[derive(Clone, Debug)]
pub struct ResultRead {
    pub scope: Scope,
    /// The route: `POST /payments/{id}`.
    pub route: Arc<str>,
    pub operation: OperationId,
    /// The grant under which the answer was made.
    pub epoch: Epoch,
}

/// Keeps a record of who read what.
pub trait Audit: Send + Sync + 'static {
    /// Records it. On `Err` the answer is not given, and the caller is told to come again.
    fn result_read<'a>(&'a self, read: &'a ResultRead) -> Pending<'a, Result<(), AuditFailed>>;
}

/// It could not be recorded who read what.
#[derive(Debug, thiserror::Error)]
#[error("the read of a stored answer could not be audited: {0}")]
pub struct AuditFailed(#[source] pub Box<dyn std::error::Error + Send + Sync>);
