//! Reading documents into a program's own types.

use serde::de::DeserializeOwned;

/// Reads a document that perdura has taken. That bounds its depth, so there is no other bound here: serde_json's usual
/// one is lower, and what was taken could not be read.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let read = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(read)
}
