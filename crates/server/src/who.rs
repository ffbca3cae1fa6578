//! Who asks, and what they may do.
//!
//! A caller is the owner of the data, or shows a token ([`token`]). Whether a token counts is decided by [`token::Known`]
//! from the request's head, the tokens on record and the time; nothing is read and nothing is written there. That a token
//! was used is written later ([`keep_uses`]).

pub mod token;

use crate::commands::tokens;
use crate::data::Served;
use perdura_engine::Timestamp;
use perdura_store::audit::{DoorKind, Origin};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use token::Known;

/// What a caller may do. Each role may also do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Looks.
    Read,
    /// Starts executions, and works on activities.
    Run,
    /// Stops, redrives, resolves, deploys.
    Operate,
    /// Does everything.
    Admin,
}

impl Role {
    /// From the smallest to the largest.
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Operate, Self::Admin];

    /// The role of that name.
    pub fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// Names in the audit and in the scope of keys that no token and no access key is given.
const OWNER: &str = "owner";
const SERVER: &str = "perdura";

/// Who is called so already, however it is written: a token or an access key of that name would be taken for them.
pub fn namesake(name: &str) -> Option<&'static str> {
    if name.eq_ignore_ascii_case(OWNER) {
        Some("the owner of the data")
    } else if name.eq_ignore_ascii_case(SERVER) {
        Some("the server itself")
    } else {
        None
    }
}

/// Whoever sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: String,
    pub principal: String,
    pub role: Role,
    /// Only machines whose names begin so.
    pub machines: Option<String>,
}

impl Caller {
    /// The owner of the data: whoever can open the control socket, or is on a laptop's loopback.
    pub fn owner() -> Self {
        Self { tenant: "default".into(), principal: OWNER.into(), role: Role::Admin, machines: None }
    }

    /// The server, by itself.
    pub(crate) fn server() -> Self {
        Self { principal: SERVER.into(), ..Self::owner() }
    }

    /// What the audit says of a request of this caller.
    pub fn origin(&self, door: DoorKind, operation: &str, at: Timestamp) -> Origin {
        Origin {
            at,
            principal: self.principal.as_str().into(),
            tenant: self.tenant.as_str().into(),
            role: self.role.name().into(),
            door,
            from: None,
            operation: operation.into(),
            key: None,
        }
    }

    /// Whether the caller may do what needs this role.
    pub fn has(&self, role: Role) -> bool {
        self.role >= role
    }

    /// Whether the caller may have to do with a machine of this name.
    pub fn may_see(&self, machine: &str) -> bool {
        self.machines.as_deref().is_none_or(|prefix| machine.starts_with(prefix))
    }
}

/// Writes when tokens were used, for as long as the server runs.
pub async fn keep_uses(served: Served, known: Arc<Known>) {
    loop {
        let uses = known.uses().await;
        let mut data = served.clone();
        let written = tokio::task::spawn_blocking(move || tokens::used(&mut data, &uses));
        if let Ok(Err(error)) = written.await {
            tracing::debug!(%error, "the last use of a token was not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_may_do_what_smaller_ones_may() {
        for (at, has) in Role::ALL.into_iter().enumerate() {
            let caller = Caller { role: has, ..Caller::owner() };
            for (needed, role) in Role::ALL.into_iter().enumerate() {
                assert_eq!(caller.has(role), at >= needed, "{} for {}", has.name(), role.name());
            }
            assert_eq!(Role::read(has.name()), Some(has));
        }
        assert_eq!(Role::read("Admin"), None);
    }

    #[test]
    fn the_owner_and_the_server_have_names_that_nobody_else_gets() {
        for caller in [Caller::owner(), Caller::server()] {
            assert!(namesake(&caller.principal).is_some(), "{}", caller.principal);
            assert!(namesake(&caller.principal.to_uppercase()).is_some());
        }
        assert_eq!(namesake("owners"), None);
    }

    #[test]
    fn machines_are_bound_by_the_beginning_of_their_names() {
        let bound = Caller { machines: Some("pay-".into()), ..Caller::owner() };
        assert!(bound.may_see("pay-card") && !bound.may_see("pay") && !bound.may_see("x-pay-"));
        assert!(Caller::owner().may_see("pay"));
    }
}
