//! Parsing documents into a program's own types.

use serde::de::DeserializeOwned;

/// Parses a document that perdura has accepted. perdura bounds its depth, so there is no second limit here:
/// serde_json's usual limit is lower, and would refuse accepted documents.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let read = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(read)
}
