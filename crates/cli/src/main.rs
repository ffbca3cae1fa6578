//! The `perdura` command: what was asked for, and the exit code that says how it went.

mod arguments;
mod bench;
mod definition;
mod document;
mod duration;
mod run;
mod terminal;
mod validate;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::io::{self, Write};
use std::process::ExitCode;

/// The command line, a definition, an input or a configuration is wrong.
const REFUSED: u8 = 2;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Validate(arguments) => validate::validate(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "perdura", &mut script);
            terminal::print(&script).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        // Nobody is left to tell if stderr is gone too.
        let _ = writeln!(io::stderr(), "{} {error:#}", terminal::stderr_paint().bold_red("error:"));
        ExitCode::from(REFUSED)
    })
}
