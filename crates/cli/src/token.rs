//! `perdura token`: creates, lists and revokes tokens.
//!
//! A token is created in this process and printed once. Only the hash of its secret goes through the socket and into
//! the data.

use crate::arguments::{
    TokenArguments, TokenCommand, TokenCreateArguments, TokenListArguments, TokenRevokeArguments,
};
use crate::{table, terminal};
use anyhow::{Context, Result, anyhow, bail};
use perdura_server::control::{Answer, NewToken, Request};
use perdura_server::retention;
use perdura_server::who::Role;
use perdura_server::who::token::{Token, make};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Runs the subcommand.
pub(crate) fn token(arguments: &TokenArguments) -> Result<ExitCode> {
    match &arguments.command {
        TokenCommand::Create(arguments) => create(arguments),
        TokenCommand::List(arguments) => list(arguments),
        TokenCommand::Revoke(arguments) => revoke(arguments),
    }
}

fn create(arguments: &TokenCreateArguments) -> Result<ExitCode> {
    let (mut id, mut secret) = ([0; 6], [0; 32]);
    getrandom::fill(&mut id).context("this system gives no random numbers")?;
    getrandom::fill(&mut secret).context("this system gives no random numbers")?;
    let made = make(id, &secret);
    let request = Request::CreateToken(NewToken {
        id: made.id,
        hash: made.hash,
        name: arguments.name.clone(),
        role: Role::read(&arguments.role).ok_or_else(|| anyhow!("there is no role {:?}", arguments.role))?,
        tenant: arguments.tenant.clone(),
        machines: arguments.machines.clone(),
        ends_in_ms: arguments.ends.map(retention::ms),
    });
    let token = told(arguments.data.reach()?.ask(request)?)?;
    if arguments.data.json {
        let mut shown = shown(&token);
        shown["token"] = made.text.reveal().into();
        table::print_json(&shown)?;
    } else {
        terminal::print(format!("{}\n", made.text.reveal()).as_bytes())?;
        terminal::tell(&format!("this is shown once; `perdura token revoke {}` ends it", token.id));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(arguments: &TokenListArguments) -> Result<ExitCode> {
    let Answer::Tokens(tokens) = arguments.data.reach()?.ask(Request::Tokens)? else {
        bail!("the answer is none to this question");
    };
    if arguments.data.json {
        table::print_json(&tokens.iter().map(shown).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |token: &Token| {
        let end = match (token.revoked_at, token.ends_at) {
            (Some(at), _) => format!("revoked {at}"),
            (None, Some(at)) => at.to_string(),
            (None, None) => "-".to_owned(),
        };
        vec![
            token.id.clone(),
            token.name.clone(),
            token.role.name().to_owned(),
            token.machines.as_ref().map_or("-".to_owned(), |prefix| format!("{prefix}*")),
            token.tenant.clone(),
            token.created_at.to_string(),
            end,
            token.last_used_at.map_or("-".to_owned(), |at| at.to_string()),
        ]
    };
    let rows: Vec<Vec<String>> = tokens.iter().map(row).collect();
    table::print(&["TOKEN", "NAME", "ROLE", "MACHINES", "TENANT", "CREATED", "ENDS", "LAST USED"], &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn revoke(arguments: &TokenRevokeArguments) -> Result<ExitCode> {
    let request = Request::RevokeToken { id: arguments.id.clone() };
    let token = told(arguments.data.reach()?.ask(request)?)?;
    if arguments.data.json {
        table::print_json(&shown(&token))?;
    } else {
        let name = terminal::harmless(&token.name);
        terminal::print(format!("{} ({name}) is revoked\n", token.id).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn told(answer: Answer) -> Result<Token> {
    match answer {
        Answer::Token(token) => Ok(*token),
        _ => bail!("the answer is none to this question"),
    }
}

/// The visible part of a token: everything except the hash.
fn shown(token: &Token) -> Value {
    let mut shown = json!(token);
    if let Value::Object(members) = &mut shown {
        members.remove("hash");
    }
    shown
}
