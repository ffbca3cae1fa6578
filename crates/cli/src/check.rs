//! `perdura check`: whether the file, the journal, the rows and the histories agree.

use crate::arguments::CheckArguments;
use crate::definition::plural;
use crate::serve::requests;
use crate::{table, terminal};
use anyhow::Result;
use perdura_server::Refusal;
use perdura_store::sqlite::{self, Finding, News};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Reads everything, also while a server runs.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let json = arguments.data.json;
    let mut findings = Vec::new();
    let mut unreadable = BTreeSet::new();
    let mut tell = |news| match news {
        News::Found(Finding { table, execution, what }) => {
            let execution = execution.map(|id| id.to_string());
            unreadable.extend(execution.clone().filter(|_| table == "history"));
            if !json {
                let whose = execution.as_ref().map(|id| format!(" of {id}")).unwrap_or_default();
                terminal::complain(&format!("{table}{whose}: {what}"));
            }
            findings.push(serde_json::json!({ "table": table, "execution": execution, "what": what }));
        }
        News::Progress { .. } => {}
    };
    let folder = arguments.data.folder()?;
    let mut checked = sqlite::check(&folder, &mut tell).map_err(Refusal::from)?;
    let remembered = requests::check(&folder)?;
    for what in remembered.faults {
        checked.findings += 1;
        tell(News::Found(Finding { table: "idempotency", execution: None, what }));
    }
    if json {
        table::print_json(&serde_json::json!({
            "executions": checked.executions,
            "turns": checked.turns,
            "requests": remembered.records,
            "findings": findings,
        }))?;
    } else {
        let count = |count: u64, noun| plural(usize::try_from(count).unwrap_or(usize::MAX), noun);
        let verdict = match checked.findings {
            0 => "everything agrees".to_owned(),
            findings => format!("{} wrong", count(findings, "thing")),
        };
        let (executions, turns) = (count(checked.executions, "execution"), count(checked.turns, "turn"));
        terminal::print(format!("{executions} and {turns} read: {verdict}\n").as_bytes())?;
        for id in &unreadable {
            terminal::tell(&format!(
                "what is left of {id} is kept: a newer perdura may read it, a backup may have it, or give it up \
                 with `perdura give-up {id} --save FILE`"
            ));
        }
    }
    Ok(if checked.findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
