//! `perdura check`: whether journal, rows and histories agree.

use crate::arguments::CheckArguments;
use crate::data::Data;
use crate::definition::plural;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_server::control::{Answer, Checked, Request};
use std::process::ExitCode;

/// Reads everything.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let mut data = Data::reach(&arguments.data.data)?;
    let mut all = Checked::default();
    let mut after = None;
    loop {
        let Answer::Checked(mut slice) = data.ask(Request::Check { after })? else {
            bail!("the answer is none to this question");
        };
        all.executions += slice.executions;
        all.turns += slice.turns;
        all.events += slice.events;
        if !arguments.data.json {
            slice.findings.iter().for_each(|finding| terminal::complain(finding));
        }
        all.findings.append(&mut slice.findings);
        after = slice.next;
        if after.is_none() {
            break;
        }
    }
    if arguments.data.json {
        table::print_json(&all)?;
    } else {
        let verdict = match all.findings.len() {
            0 => "everything agrees".to_owned(),
            count => format!("{} wrong", plural(count, "thing")),
        };
        let Checked { executions, turns, events, .. } = &all;
        let read = format!("{executions} executions, {turns} turns, {events} events read: {verdict}\n");
        terminal::print(read.as_bytes())?;
    }
    Ok(if all.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
