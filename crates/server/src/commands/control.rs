//! What commands ask and are answered, and the socket between them and a server: [`crate::v1`] over HTTP/1.1.
//!
//! The socket is in the data directory. Only the user that runs the server can open it, so a request needs no
//! credentials.

mod answer;
mod listen;
mod request;
mod traced;

pub use crate::v1::{Bell, Connection, Rang, connect};
pub use answer::{
    ActivityListed, Answer, AuditEntry, AuditPlace, Call, Cursor, Deployed, Doubt, Erased, FreeRoom,
    LedgerEntry, LedgerPlace, LeftTurn, Listed, Page, Paused, Pauses, SealedConnection, Shown, Standing,
    Starting, StatsAnswer, Swept, Table, Taken, Task,
};
pub use listen::{Listener, SOCKET};
pub use perdura_store::Order;
pub use request::{AuditQuestion, Kind, LedgerQuestion, ListQuestion, NewToken, Request, Resolving};
pub use traced::{TraceBy, Traced, TracedEvent, TracedExecution, TracedStart, TracedStep};

use perdura_engine::LedgerStatus;

/// A ledger status in one word.
pub fn ledger_word(status: LedgerStatus) -> &'static str {
    match status {
        LedgerStatus::Pending => "pending",
        LedgerStatus::Completed => "completed",
        LedgerStatus::Failed => "failed",
        LedgerStatus::Uncertain => "uncertain",
    }
}

/// The same on the wire and in `--json`.
pub(crate) mod word {
    use super::{LedgerStatus, ledger_word};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    const ALL: [LedgerStatus; 4] =
        [LedgerStatus::Pending, LedgerStatus::Completed, LedgerStatus::Failed, LedgerStatus::Uncertain];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    pub(crate) fn serialize<S: Serializer>(status: &LedgerStatus, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(ledger_word(*status))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LedgerStatus, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = ALL.into_iter().find(|status| ledger_word(*status) == word);
        found.ok_or_else(|| D::Error::custom(format!("{word} is no status of the ledger")))
    }
}

/// Bytes as text on the wire.
pub(crate) mod hex {
    use perdura_engine::asl::hex;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex::decode(&text).ok_or_else(|| D::Error::custom("these are no bytes in hexadecimal"))
    }
}

/// Instants as text on the wire and in `--json`.
pub(crate) mod iso {
    use perdura_engine::Timestamp;
    use perdura_engine::asl::timestamp::parse_ms;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(at)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_ms(&text).map(Timestamp).ok_or_else(|| D::Error::custom(format!("{text} is no instant")))
    }

    pub(crate) mod maybe {
        use super::{Deserialize, Deserializer, Error, Serializer, Timestamp, parse_ms};

        #[expect(clippy::ref_option, reason = "serde hands over a reference")]
        pub(crate) fn serialize<S: Serializer>(
            at: &Option<Timestamp>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match at {
                Some(at) => serializer.collect_str(at),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Timestamp>, D::Error> {
            let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
            let at = parse_ms(&text).map(Timestamp);
            at.map(Some).ok_or_else(|| D::Error::custom(format!("{text} is no instant")))
        }
    }
}
