//! Connections, stored encrypted. The server side of a command has no key: the command line seals and opens them.

use crate::control::{Answer, SealedConnection};
use crate::data::Data;
use crate::{Refusal, names};
use perdura_store::{Registered, Registry};

const BYTES_MAX: usize = 256 * 1024;

pub(super) fn put<D: Data>(data: &mut D, name: &str, sealed: Vec<u8>) -> Result<Answer, Refusal> {
    names::check("a connection", name)?;
    if sealed.is_empty() {
        return Err(Refusal::invalid("an empty text is no sealed connection")
            .but("`perdura connection put` seals one"));
    }
    if sealed.len() > BYTES_MAX {
        return Err(Refusal::invalid(format!("the connection is too large: the most is {BYTES_MAX} bytes")));
    }
    let created_at = data.moment().now;
    let entry = Registered { kind: Registry::Connection, name: name.into(), created_at, body: sealed };
    data.register(&entry)?;
    tracing::info!(connection = name, "put");
    Ok(Answer::Done)
}

pub(super) fn list<D: Data>(data: &mut D) -> Result<Answer, Refusal> {
    let registered = data.read(|reader| reader.registered(Registry::Connection, None, u32::MAX))?;
    let listed = registered.into_iter().map(|entry| SealedConnection {
        name: entry.name,
        created_at: entry.created_at,
        sealed: entry.body,
    });
    Ok(Answer::Connections(listed.collect()))
}

pub(super) fn delete<D: Data>(data: &mut D, name: &str) -> Result<Answer, Refusal> {
    if !data.unregister(Registry::Connection, name)? {
        return Err(Refusal::not_found(format!("there is no connection {name:?}"))
            .but("`perdura connection list` lists them"));
    }
    tracing::info!(connection = name, "deleted");
    Ok(Answer::Done)
}
