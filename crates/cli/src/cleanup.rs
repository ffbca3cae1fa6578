//! `perdura cleanup`: deletes old executions, a slice at a time.

use crate::arguments::CleanupArguments;
use crate::definition::plural;
use crate::{table, terminal};
use anyhow::{Result, bail};
use perdura_server::control::{Answer, Request, Swept};
use perdura_server::retention::{Keep, ms};
use std::process::ExitCode;

/// Deletes old executions.
pub(crate) fn cleanup(arguments: &CleanupArguments) -> Result<ExitCode> {
    let mut data = arguments.data.reach()?;
    let ledger_for =
        arguments.ledger_older_than.unwrap_or_else(|| Keep::default().ledger_for.min(arguments.older_than));
    let (mut executions, mut ledger) = (0, 0);
    loop {
        let request = Request::Cleanup {
            ended_for_ms: ms(arguments.older_than),
            ledger_for_ms: ms(ledger_for),
            bytes_max: arguments.bytes_max,
            dry_run: arguments.dry_run,
        };
        let Answer::Swept(Swept { executions: some, ledger: rows, more }) = data.ask(request)? else {
            bail!("the answer is none to this question");
        };
        executions += some;
        ledger += rows;
        if !more || arguments.dry_run || some + rows == 0 {
            break;
        }
    }
    if arguments.data.json {
        table::print_json(&Swept { executions, ledger, more: false })?;
        return Ok(ExitCode::SUCCESS);
    }
    let count = |count: u64, noun| plural(usize::try_from(count).unwrap_or(usize::MAX), noun);
    let (executions, ledger) = (count(executions, "execution"), count(ledger, "ledger row"));
    let verb = if arguments.dry_run { "would go" } else { "gone" };
    terminal::print(format!("{executions} and {ledger} {verb}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
