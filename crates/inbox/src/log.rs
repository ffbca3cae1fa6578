//! The log lines of a row, each with its inbox, tenant and id. Payloads are never logged.

use crate::row::{Address, Held, Message, Row, Status};

pub(crate) fn taken(message: &Message) {
    let Row { address: Address { inbox, tenant, id }, attempts, epoch, .. } = &message.row;
    tracing::info!(%inbox, %tenant, %id, attempts, %epoch, "taken");
}

pub(crate) fn skipped(address: &Address, why: &str) {
    let Address { inbox, tenant, id } = address;
    tracing::info!(%inbox, %tenant, %id, why, "skipped");
}

pub(crate) fn duplicate(row: &Row) {
    let Row { address: Address { inbox, tenant, id }, status, .. } = row;
    tracing::info!(%inbox, %tenant, %id, %status, "a duplicate");
}

pub(crate) fn conflict(row: &Row) {
    let Row { address: Address { inbox, tenant, id }, status, .. } = row;
    tracing::warn!(%inbox, %tenant, %id, %status, "another message came under a known id");
}

pub(crate) fn done(held: &Held) {
    let Held { address: Address { inbox, tenant, id }, epoch, .. } = held;
    tracing::info!(%inbox, %tenant, %id, %epoch, "done");
}

pub(crate) fn returned(held: &Held, error: &str) {
    let Held { address: Address { inbox, tenant, id }, epoch, .. } = held;
    tracing::warn!(%inbox, %tenant, %id, %epoch, error, "returned");
}

pub(crate) fn dead(held: &Held, error: &str) {
    let Held { address: Address { inbox, tenant, id }, epoch, .. } = held;
    tracing::error!(%inbox, %tenant, %id, %epoch, error, "dead");
}

/// The end came after the row was taken away, and changed nothing.
pub(crate) fn lost(held: &Held) {
    let Held { address: Address { inbox, tenant, id }, epoch, .. } = held;
    tracing::warn!(%inbox, %tenant, %id, %epoch, "lost: the row is no longer held by this claim");
}

/// A row was taken away from its worker.
pub(crate) fn lapsed(row: &Row) {
    let Row { address: Address { inbox, tenant, id }, epoch, attempts, .. } = row;
    let error = row.last_error.as_deref().unwrap_or_default();
    match row.status {
        Status::Dead => tracing::error!(%inbox, %tenant, %id, %epoch, attempts, error, "dead"),
        Status::Pending | Status::Doing | Status::Done => {
            tracing::warn!(%inbox, %tenant, %id, %epoch, attempts, error, "returned");
        }
    }
}

pub(crate) fn stuck(row: &Row) {
    let Row { address: Address { inbox, tenant, id }, epoch, .. } = row;
    let since = row.claimed_at.map(|at| at.to_string()).unwrap_or_default();
    let owner = row.owner.as_ref().map_or("", |owner| owner.as_str());
    tracing::warn!(%inbox, %tenant, %id, %epoch, since, owner, "stuck: it is DOING for long");
}
