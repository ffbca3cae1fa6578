//! Whose request it is. Two callers with the same key are two operations, and neither can learn of the other's.

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
pub type ScopeOf = Arc<dyn Fn(&Parts) -> Option<Scope> + Send + Sync>;
