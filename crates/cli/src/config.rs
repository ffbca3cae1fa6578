//! `perdura config`: every setting, its value, and where it came from.

use crate::arguments::ConfigArguments;
use crate::run::config::Config;
use crate::settings::{Decided, Origin, Settings, TABLE};
use crate::table;
use anyhow::Result;
use std::process::ExitCode;

/// Shows the settings. Refuses the values that a server would refuse, so that this is a check before a start.
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
            decided.shown().unwrap_or("-").to_owned(),
            decided.origin.to_string(),
            decided.setting.help.to_owned(),
        ]
    });
    let elsewhere =
        elsewhere.into_iter().map(|(name, origin)| vec![name, "…".into(), origin.to_string(), String::new()]);
    table::print(&["SETTING", "VALUE", "FROM", "WHAT"], &rows.chain(elsewhere).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

fn json(decided: &Decided) -> serde_json::Value {
    let setting = decided.setting;
    serde_json::json!({
        "name": setting.name,
        "value": decided.shown(),
        "from": decided.origin.to_string(),
        "flag": setting.flag,
        "variable": setting.variable,
        "inFile": setting.in_file,
        "default": setting.default,
        "help": setting.help,
    })
}
