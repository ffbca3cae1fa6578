//! `perdura connection`: credentials, stored encrypted.
//!
//! They are encrypted and decrypted in this process, with the key of the installation. Only encrypted data goes through
//! the socket and into the data, so neither a log nor a backup can contain a secret.

use crate::arguments::{
    ConnectionArguments, ConnectionCommand, ConnectionDeleteArguments, ConnectionListArguments,
    ConnectionPutArguments, ConnectionShowArguments, KeyArguments,
};
use crate::data::Data;
use crate::settings::{CONNECTION_KEY_FILE, Settings};
use crate::{document, table, terminal};
use anyhow::{Context, Result, anyhow, bail};
use perdura_server::Refusal;
use perdura_server::control::{Answer, Request, SealedConnection};
use perdura_tasks::connection::{Connection, Description, SealingKey, open, seal};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;

/// The longest file.
const BYTES_MAX: usize = 64 * 1024;

/// Runs the subcommand.
pub(crate) fn connection(arguments: &ConnectionArguments) -> Result<ExitCode> {
    match &arguments.command {
        ConnectionCommand::Put(arguments) => put(arguments),
        ConnectionCommand::List(arguments) => list(arguments),
        ConnectionCommand::Show(arguments) => show(arguments),
        ConnectionCommand::Delete(arguments) => delete(arguments),
    }
}

/// The key, if one is given.
fn key(arguments: &KeyArguments) -> Result<Option<SealingKey>> {
    let file = arguments.connection_key_file.clone();
    let flags = file.map(|file| (&CONNECTION_KEY_FILE, file)).into_iter().collect();
    Settings::load(flags, None)?.sealing_key()
}

/// The key; an error without one.
fn needed_key(arguments: &KeyArguments) -> Result<SealingKey> {
    key(arguments)?.ok_or_else(|| {
        anyhow!(
            "there is no key for connections: make one with `openssl rand -base64 32 > key`, and name the file with \
             --connection-key-file or PERDURA_CONNECTION_KEY_FILE, here and for `perdura serve`"
        )
    })
}

fn put(arguments: &ConnectionPutArguments) -> Result<ExitCode> {
    let key = needed_key(&arguments.key)?;
    let source = document::read_text(&arguments.file, BYTES_MAX)?;
    let connection =
        Connection::from_json(&source.text).with_context(|| format!("{} is no connection", source.name))?;
    let sealed = seal(&key, &arguments.name, &connection);
    let request = Request::PutConnection { name: arguments.name.clone(), sealed };
    let Answer::Done = arguments.data.reach()?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    told(&arguments.name, "is kept", arguments.data.json)
}

fn delete(arguments: &ConnectionDeleteArguments) -> Result<ExitCode> {
    let request = Request::DeleteConnection { name: arguments.name.clone() };
    let Answer::Done = arguments.data.reach()?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    told(&arguments.name, "is forgotten", arguments.data.json)
}

fn told(name: &str, what: &str, json: bool) -> Result<ExitCode> {
    if json {
        table::print_json(&serde_json::json!({ "name": name }))?;
    } else {
        terminal::print(format!("{} {what}\n", terminal::harmless(name)).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The visible part of a connection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: Arc<str>,
    created_at: String,
    /// Absent: there is no key to decrypt it, or not the right one.
    #[serde(flatten)]
    description: Option<Description>,
}

fn kept(mut data: Data) -> Result<Vec<SealedConnection>> {
    match data.ask(Request::Connections)? {
        Answer::Connections(kept) => Ok(kept),
        _ => bail!("the answer is none to this question"),
    }
}

fn list(arguments: &ConnectionListArguments) -> Result<ExitCode> {
    let key = key(&arguments.key)?;
    let mut shown = Vec::new();
    for one in kept(arguments.data.reach()?)? {
        let description = match &key {
            None => None,
            Some(key) => match open(key, &one.name, &one.sealed) {
                Ok(connection) => Some(connection.describe()),
                Err(error) => {
                    terminal::tell(&error.to_string());
                    None
                }
            },
        };
        shown.push(Shown { name: one.name, created_at: one.created_at.to_string(), description });
    }
    if arguments.data.json {
        table::print_json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|one| {
            let kind = one.description.as_ref().map_or("-", |description| description.kind);
            vec![one.name.to_string(), kind.to_owned(), one.created_at.clone()]
        })
        .collect();
    table::print(&["CONNECTION", "KIND", "PUT"], &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn show(arguments: &ConnectionShowArguments) -> Result<ExitCode> {
    let key = needed_key(&arguments.key)?;
    let kept = kept(arguments.data.reach()?)?;
    let Some(one) = kept.into_iter().find(|one| *one.name == *arguments.name) else {
        let refusal = Refusal::not_found(format!("there is no connection {:?}", arguments.name));
        return Err(refusal.but("`perdura connection list` lists them").into());
    };
    let description = open(&key, &one.name, &one.sealed)?.describe();
    let shown =
        Shown { name: one.name, created_at: one.created_at.to_string(), description: Some(description) };
    if arguments.data.json {
        table::print_json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    table::print_pairs(&pairs(&shown))?;
    Ok(ExitCode::SUCCESS)
}

fn pairs(shown: &Shown) -> Vec<(&'static str, String)> {
    let mut pairs = vec![("name", shown.name.to_string()), ("put", shown.created_at.clone())];
    let Some(description) = &shown.description else { return pairs };
    pairs.push(("kind", description.kind.to_owned()));
    let parts = [
        ("user", &description.user),
        ("header", &description.header),
        ("endpoint", &description.endpoint),
        ("client id", &description.client_id),
        ("scope", &description.scope),
    ];
    pairs.extend(parts.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    let lists = [
        ("hosts", &description.hosts),
        ("headers", &description.headers),
        ("query", &description.query),
        ("body", &description.body),
    ];
    pairs.extend(
        lists
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| (what, names.join(", "))),
    );
    pairs
}
