//! The server's settings for `/v1`, and the backups that it makes on request.

use crate::serve::requests;
use crate::settings::Settings;
use anyhow::Context;
use perdura_server::{BackedUp, Backups, House, Refusal, RefusalKind};
use perdura_store::sqlite;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of a server with these settings, on the data of this folder.
pub(crate) fn house(settings: &Settings, data: &Path) -> House {
    let backups = settings.backup_folder().map(|to| backups(data.to_owned(), to));
    House { settings: settings.shown().into(), backups }
}

fn backups(data: PathBuf, to: PathBuf) -> Backups {
    Arc::new(move |name| {
        let broken = |error: anyhow::Error| {
            Refusal::new(RefusalKind::Broken, format!("{error:#}")).but("see that the server may write there")
        };
        let made = fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()));
        made.map_err(broken)?;
        let name = format!("{name}.db");
        let file = to.join(&name);
        if file.exists() {
            return Err(Refusal::conflict(format!("there is a backup {name}")).but("choose another name"));
        }
        requests::backup(&data, &file).map_err(broken)?;
        sqlite::backup(&data, &file).map_err(|failure| {
            requests::forget_backup(&file);
            Refusal::from(failure)
        })?;
        let bytes = file.metadata().map_or(0, |about| about.len());
        Ok(BackedUp { file: name, bytes })
    })
}
