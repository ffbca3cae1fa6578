//! Rows as PostgreSQL tells them.

use crate::row::{Address, Epoch, Fingerprint, Message, Name, Row, Status};
use crate::store::StoreError;
use bytes::Bytes;
use jiff::Timestamp;

pub(super) const COLUMNS: &str = "number, inbox, tenant, id, status, received_at, claimed_at, processed_at, attempts, not_before, \
    ordering_key, head, lease_until, owner, epoch, fingerprint, last_error";

/// The columns of a row that a function returns beside something else.
pub(super) fn of_composite() -> String {
    COLUMNS.split(", ").map(|column| format!("(at).{}", column.trim())).collect::<Vec<_>>().join(", ")
}

/// The one row that a function returns.
pub(super) fn only(told: &[tokio_postgres::Row]) -> Result<&tokio_postgres::Row, StoreError> {
    told.first().ok_or_else(|| StoreError::Unavailable("PostgreSQL gave no row".into()))
}

pub(super) fn row(told: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let number = told.get::<_, i64>("number").cast_unsigned();
    let corrupt = |what| StoreError::Corrupt { number, what };
    let name = |column: &str| -> Result<Option<Name>, StoreError> {
        let text: Option<&str> = told.get(column);
        text.map(Name::new).transpose().map_err(|_| corrupt("a name is none"))
    };
    let there = |column: &str| name(column)?.ok_or_else(|| corrupt("a name is missing"));
    let fingerprint: &[u8] = told.get("fingerprint");
    let at = |column: &str| {
        told.try_get::<_, Option<Timestamp>>(column).map_err(|_| corrupt("an instant is beyond all times"))
    };
    Ok(Row {
        number,
        address: Address { inbox: there("inbox")?, tenant: there("tenant")?, id: there("id")? },
        status: Status::parse(told.get("status")).ok_or_else(|| corrupt("the status is none"))?,
        received_at: at("received_at")?.ok_or_else(|| corrupt("an instant is missing"))?,
        claimed_at: at("claimed_at")?,
        processed_at: at("processed_at")?,
        attempts: u32::try_from(told.get::<_, i32>("attempts"))
            .map_err(|_| corrupt("attempts are negative"))?,
        not_before: at("not_before")?.ok_or_else(|| corrupt("an instant is missing"))?,
        ordering_key: name("ordering_key")?,
        head: told.get("head"),
        lease_until: at("lease_until")?,
        owner: name("owner")?,
        epoch: Epoch(told.get::<_, i64>("epoch").cast_unsigned()),
        fingerprint: Fingerprint(
            fingerprint.try_into().map_err(|_| corrupt("the fingerprint has another length"))?,
        ),
        last_error: told.get("last_error"),
    })
}

pub(super) fn rows(told: &[tokio_postgres::Row]) -> Result<Vec<Row>, StoreError> {
    told.iter().map(row).collect()
}

pub(super) fn message(told: &tokio_postgres::Row) -> Result<Message, StoreError> {
    Ok(Message { row: row(told)?, payload: Bytes::copy_from_slice(told.get("payload")) })
}
