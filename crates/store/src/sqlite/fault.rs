//! Failures of the file, and what a person can do about them.

use crate::record::Damage;
use crate::store::{Failure, FailureKind};
use rusqlite::ffi::ErrorCode;
use std::path::{Path, PathBuf};

/// The paths of the data.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) folder: PathBuf,
    pub(super) db: PathBuf,
}

/// An error while reading or writing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// SQLite reports an error.
    Sqlite(rusqlite::Error),
    /// The stored bytes are damaged.
    Damage(Damage),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Damage> for Trouble {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl Trouble {
    /// Another connection writes at this moment.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if matches!(error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)))
    }

    /// There is no room for it on the disk.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if kind(error) == FailureKind::DiskFull)
    }

    /// A name that is taken, or a journal row that exists already.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Sqlite(error)
            if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation))
    }

    /// A part of the file is damaged; other parts may still be readable.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damage(_) => true,
            Self::Sqlite(error) => kind(error) == FailureKind::Corrupt,
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(error) => error.fmt(formatter),
            Self::Damage(damage) => damage.fmt(formatter),
        }
    }
}

impl Files {
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), db: folder.join("perdura.db") }
    }

    pub(super) fn wal(&self) -> PathBuf {
        let mut name = self.db.as_os_str().to_owned();
        name.push("-wal");
        name.into()
    }

    pub(super) fn what(&self, doing: &str) -> String {
        format!("{doing} {}", self.db.display())
    }

    pub(super) fn failure(&self, doing: &str, trouble: Trouble) -> Failure {
        let (kind, why) = match trouble {
            Trouble::Damage(damage) => (FailureKind::Corrupt, damage.0),
            Trouble::Sqlite(error) => (kind(&error), error.to_string()),
        };
        Failure { what: self.what(doing), why: format!("{why}; {}", remedy(kind)), kind }
    }

    /// A refusal for a reason that SQLite does not know.
    pub(super) fn refusal(&self, why: &str) -> Failure {
        Failure { what: self.what("opening"), why: why.to_owned(), kind: FailureKind::Corrupt }
    }
}

/// An error of the system on a file or folder.
pub(super) fn io(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let kind = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => FailureKind::DiskFull,
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => FailureKind::ReadOnly,
        _ => FailureKind::Io,
    };
    Failure { what: format!("{doing} {}", path.display()), why: format!("{error}; {}", remedy(kind)), kind }
}

/// The kind of an SQLite error, by its remedy.
pub(super) fn kind(error: &rusqlite::Error) -> FailureKind {
    use rusqlite::Error;
    match error {
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..)
        | Error::QueryReturnedNoRows => return FailureKind::Corrupt,
        _ => {}
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => FailureKind::DiskFull,
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            FailureKind::ReadOnly
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation) => {
            FailureKind::Corrupt
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => FailureKind::Held,
        _ => FailureKind::Io,
    }
}

fn remedy(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::DiskFull => "make room on the disk, or raise the bound that was set",
        FailureKind::ReadOnly => "make the data directory writable for this user, and see that its disk is",
        FailureKind::Corrupt => {
            "run `perdura check`, then restore a backup if more than single executions are hit"
        }
        FailureKind::Held => "stop the other program that writes to it",
        FailureKind::Newer => "use the version that made it",
        FailureKind::Io => "look into the system's log for this disk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn what_sqlite_says_is_sorted_by_what_can_be_done() {
        let cases = [
            (ffi::SQLITE_FULL, FailureKind::DiskFull),
            (ffi::SQLITE_READONLY, FailureKind::ReadOnly),
            (ffi::SQLITE_READONLY_DIRECTORY, FailureKind::ReadOnly),
            (ffi::SQLITE_CANTOPEN, FailureKind::ReadOnly),
            (ffi::SQLITE_CORRUPT, FailureKind::Corrupt),
            (ffi::SQLITE_NOTADB, FailureKind::Corrupt),
            (ffi::SQLITE_IOERR_FSYNC, FailureKind::Io),
            (ffi::SQLITE_IOERR, FailureKind::Io),
        ];
        for (code, expected) in cases {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(kind(&error), expected, "{code}");
            let failure = Files::of(Path::new("/data")).failure("writing", error.into());
            assert_eq!((failure.what.as_str(), failure.kind), ("writing /data/perdura.db", expected));
        }
    }

    #[test]
    fn errors_of_the_system_are_sorted_too() {
        use std::io::{Error, ErrorKind};
        let kind = |kind| io("opening", Path::new("/x"), &Error::from(kind)).kind;
        assert_eq!(kind(ErrorKind::StorageFull), FailureKind::DiskFull);
        assert_eq!(kind(ErrorKind::ReadOnlyFilesystem), FailureKind::ReadOnly);
        assert_eq!(kind(ErrorKind::PermissionDenied), FailureKind::ReadOnly);
        assert_eq!(kind(ErrorKind::TimedOut), FailureKind::Io);
    }
}
