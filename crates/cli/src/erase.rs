//! `perdura erase`: removes the data of executions, and keeps their ids, names and statuses.

use crate::arguments::EraseArguments;
use crate::definition::plural;
use crate::{table, terminal};
use anyhow::{Context, Result, bail};
use perdura_server::control::{Answer, Erased, Request};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// Erases, after a confirmation.
pub(crate) fn erase(arguments: &EraseArguments) -> Result<ExitCode> {
    let (request, whose) = match (&arguments.execution, &arguments.key) {
        (Some(execution), _) => (
            Request::Erase { execution: execution.clone() },
            format!("{execution} and of all that it started"),
        ),
        (None, Some(key)) => {
            (Request::EraseKey { key: key.clone() }, format!("all that began with the key {key}"))
        }
        (None, None) => bail!("name an execution, or a key with --key"),
    };
    if !arguments.yes && !is_confirmed(&whose)? {
        bail!("nothing was erased");
    }
    let Answer::Erased(erased) = arguments.data.reach()?.ask(request)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&erased)?;
    } else {
        terminal::print(told(erased).as_bytes())?;
    }
    if erased.more {
        bail!(
            "it is erased, but a program still reads what was there, so that the log has some of it: run this again"
        );
    }
    if erased.rewrite {
        terminal::tell(
            "the data is larger than what is written anew beside a server: copies of small parts may lie in unused places of \
             its files until they are; stop the server and run `perdura compact`, which writes them anew",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks for a confirmation. A script uses `--yes`.
fn is_confirmed(whose: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("this cannot be undone: say --yes");
    }
    terminal::ask(&format!("erase the data of {whose}? This cannot be undone. [y/N] "));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn told(erased: Erased) -> String {
    let count = |count: u64, noun| plural(usize::try_from(count).unwrap_or(usize::MAX), noun);
    let before = match erased.of - erased.executions {
        0 => String::new(),
        before => format!(" ({before} erased before)"),
    };
    format!(
        "{}{before}, {} and {} erased\n",
        count(erased.executions, "execution"),
        count(erased.ledger, "ledger row"),
        count(erased.answers, "stored answer"),
    )
}
