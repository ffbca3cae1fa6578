//! `perdura compact`: gives free space back to the disk.

use crate::arguments::CompactArguments;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_server::control::{Answer, FreeRoom, Request};
use std::process::ExitCode;

/// Gives free space back, until there is none.
pub(crate) fn compact(arguments: &CompactArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    let room = loop {
        let Answer::Room(room) = data.ask(Request::Compact)? else {
            bail!("the answer is none to this question");
        };
        if !room.more {
            break room;
        }
    };
    if arguments.data.json {
        table::print_json(&room)?;
    } else {
        let FreeRoom { free_bytes, .. } = room;
        terminal::print(format!("done: {free_bytes} bytes inside the file are free\n").as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
