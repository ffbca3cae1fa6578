//! `perdura give-up`: a person decides to delete an execution that cannot be read.

use crate::arguments::GiveUpArguments;
use crate::data::Data;
use crate::definition::plural;
use crate::{table, terminal};
use anyhow::{Context, Result, bail};
use perdura_server::control::{Answer, Page, Request};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

/// Saves the remains of an execution, if requested, and deletes it.
pub(crate) fn give_up(arguments: &GiveUpArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    let which = &arguments.execution;
    let saved = arguments.save.as_ref().map(|file| save(&mut data, which, file)).transpose()?;
    data.ask(Request::GiveUp { execution: which.clone() })?;
    if arguments.data.json {
        table::print_json(&serde_json::json!({ "execution": which, "saved": saved }))?;
    } else {
        let saved = saved.map(|turns| format!("{} saved; ", plural(turns, "turn"))).unwrap_or_default();
        terminal::print(format!("{saved}nothing of {which} is kept\n").as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the remains, one Turn on each line; returns their number. Only the owner can read the file.
fn save(data: &mut Data, which: &str, file: &Path) -> Result<usize> {
    let name = || format!("cannot write {}", file.display());
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut writer = BufWriter::new(opened.with_context(name)?);
    let (mut from, mut turns) = (Some(1), 0);
    while let Some(next) = from {
        let request = Request::Left { execution: which.to_owned(), from: next };
        let Answer::Left(Page { items, next }) = data.ask(request)? else {
            bail!("the answer is none to this question");
        };
        for item in &items {
            serde_json::to_writer(&mut writer, item).with_context(name)?;
            writer.write_all(b"\n").with_context(name)?;
        }
        turns += items.len();
        from = next;
    }
    writer
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)
        .and_then(|file| file.sync_all())
        .with_context(name)?;
    Ok(turns)
}
