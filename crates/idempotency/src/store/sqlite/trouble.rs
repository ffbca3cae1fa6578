//! Errors of the file, sorted by the caller's next action.

use crate::record::OperationId;
use crate::store::StoreError;
use rusqlite::{Error, ErrorCode};
use std::sync::Arc;

/// Why a verb failed.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// An error of SQLite. Several callers of one group get the same.
    Sqlite(Arc<Error>),
    /// A record is damaged or foreign.
    Corrupt(OperationId, &'static str),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl Trouble {
    /// SQLite's error as a store error.
    pub(super) fn told(error: Error) -> StoreError {
        Self::from(error).into()
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Corrupt(operation, what) => Self::Corrupt { operation, what: what.into() },
            Trouble::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Unfit(format!(
                    "the file is damaged or no SQLite database, restore it from a backup: {error}"
                )),
                // Full, read-only, locked, out of memory, no permission: nothing was done, and it may pass.
                Some(_) | None => Self::Unavailable(Box::new(error)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Trouble;
    use crate::store::StoreError;
    use rusqlite::{Error, ffi};

    #[test]
    fn what_may_pass_is_unavailable_and_what_is_spoilt_is_unfit() {
        for (code, passes) in [
            (ffi::SQLITE_BUSY, true),
            (ffi::SQLITE_LOCKED, true),
            (ffi::SQLITE_READONLY, true),
            (ffi::SQLITE_READONLY_DBMOVED, true),
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_IOERR_FSYNC, true),
            (ffi::SQLITE_CANTOPEN, true),
            (ffi::SQLITE_PERM, true),
            (ffi::SQLITE_NOMEM, true),
            (ffi::SQLITE_CORRUPT, false),
            (ffi::SQLITE_CORRUPT_INDEX, false),
            (ffi::SQLITE_NOTADB, false),
        ] {
            let told = Trouble::told(Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!(matches!(told, StoreError::Unavailable(_)), passes, "{code}: {told}");
            assert_eq!(matches!(told, StoreError::Unfit(_)), !passes, "{code}: {told}");
        }
    }
}
