//! `perdura config`: every setting, its value, and where it came from.

use crate::arguments::ConfigArguments;
use crate::run::config::Config;
use crate::settings::{Decided, Kind, Origin, Settings, TABLE};
use crate::table;
use anyhow::Result;
use std::process::ExitCode;

/// What stands for a secret.
const MASK: &str = "********";

/// Shows the settings. A value that would be refused is refused here too, so that this is a check before a start.
pub(crate) fn config(arguments: &ConfigArguments) -> Result<ExitCode> {
    let settings = Settings::load(arguments.flags(), None)?;
    Config::of(&settings)?;
    settings.check()?;
    let decided: Vec<Decided> = TABLE.iter().map(|setting| settings.decide(setting)).collect();
    let elsewhere: Vec<(String, Origin)> = settings
        .file()
        .into_iter()
        .flat_map(|file| {
            file.elsewhere()
                .map(|(name, line)| (name.to_owned(), Origin::File { file: file.name.clone(), line }))
        })
        .collect();
    if arguments.json {
        let listed = decided.iter().map(json).chain(
            elsewhere
                .iter()
                .map(|(name, origin)| serde_json::json!({ "name": name, "from": origin.to_string() })),
        );
        table::print_json(&listed.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = decided.iter().map(|decided| {
        vec![
            decided.setting.name.to_owned(),
            shown(decided).unwrap_or("-").to_owned(),
            decided.origin.to_string(),
            decided.setting.help.to_owned(),
        ]
    });
    let elsewhere =
        elsewhere.into_iter().map(|(name, origin)| vec![name, "…".into(), origin.to_string(), String::new()]);
    table::print(&["SETTING", "VALUE", "FROM", "WHAT"], &rows.chain(elsewhere).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

fn shown(decided: &Decided) -> Option<&str> {
    match decided.setting.kind {
        Kind::Text | Kind::Path => decided.value.as_deref(),
        Kind::Secret => decided.value.as_ref().map(|_| MASK),
    }
}

fn json(decided: &Decided) -> serde_json::Value {
    let setting = decided.setting;
    serde_json::json!({
        "name": setting.name,
        "value": shown(decided),
        "from": decided.origin.to_string(),
        "flag": setting.flag,
        "variable": setting.variable,
        "inFile": setting.in_file,
        "default": setting.default,
        "help": setting.help,
    })
}
