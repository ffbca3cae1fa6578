//! The `perdura` command: runs the subcommand, and returns its exit code.

mod activity;
mod arguments;
mod audit;
mod backup;
mod check;
mod cleanup;
mod compact;
mod config;
mod connection;
mod data;
mod definition;
mod deploy;
mod document;
mod duration;
mod erase;
mod far;
mod give_up;
mod history;
mod ledger;
mod memory;
mod pause;
mod proxy;
mod ps;
mod remote;
mod run;
mod serve;
mod settings;
mod show;
mod start;
mod stats;
mod stop;
mod table;
mod template;
mod terminal;
mod token;
mod trace;
mod unique;
mod validate;
mod watch;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use perdura_server::Refusal;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit code for a wrong command line, definition, input or configuration.
const REFUSED: u8 = 2;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Validate(arguments) => validate::validate(&arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Bench(arguments) => perdura_bench::bench(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Deploy(arguments) => deploy::deploy(&arguments),
        Command::Start(arguments) => start::start(&arguments),
        Command::Ps(arguments) => ps::ps(&arguments),
        Command::Show(arguments) => show::show(&arguments),
        Command::History(arguments) => history::history(&arguments),
        Command::Watch(arguments) => watch::watch(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::Ledger(arguments) => ledger::ledger(&arguments),
        Command::Stats(arguments) => stats::stats(&arguments),
        Command::Pause(arguments) => pause::pause(&arguments),
        Command::Resume(arguments) => pause::resume(&arguments),
        Command::Drain(arguments) => pause::drain(&arguments),
        Command::Stop(arguments) => stop::stop(&arguments),
        Command::Redrive(arguments) => stop::redrive(&arguments),
        Command::Erase(arguments) => erase::erase(&arguments),
        Command::GiveUp(arguments) => give_up::give_up(&arguments),
        Command::Compact(arguments) => compact::compact(&arguments),
        Command::Cleanup(arguments) => cleanup::cleanup(&arguments),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Audit(arguments) => audit::audit(&arguments),
        Command::Activity(arguments) => activity::activity(&arguments),
        Command::Connection(arguments) => connection::connection(&arguments),
        Command::Proxy(arguments) => proxy::proxy(&arguments),
        Command::Token(arguments) => token::token(&arguments),
        Command::Config(arguments) => config::config(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "perdura", &mut script);
            terminal::print(&script).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        let paint = terminal::stderr_paint();
        // If stderr is gone too, there is no place for the message.
        let _ = writeln!(io::stderr(), "{} {error:#}", paint.bold_red("error:"));
        let Some(refusal) = error.downcast_ref::<Refusal>() else { return ExitCode::from(REFUSED) };
        if let Some(remedy) = &refusal.remedy {
            let _ = writeln!(io::stderr(), "{} {remedy}", paint.bold("hint:"));
        }
        ExitCode::FAILURE
    })
}
