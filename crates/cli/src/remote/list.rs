//! Executions, the newest first, although the API lists only those of one machine.
//!
//! Each machine's list is read page by page, and the newest entry of all is taken, until there are enough. So a page is
//! only read if its entries are shown, except for the first page of each machine.

use super::{Api, Remote, read};
use anyhow::Result;
use perdura_asl::json::{Map, Value};
use perdura_engine::Status;
use perdura_server::control::Listed;
use std::collections::VecDeque;

/// The API's largest page.
const PAGE_MAX: usize = 1_000;

/// The list of one machine, as far as it was read.
struct Reading {
    machine: String,
    ahead: VecDeque<Listed>,
    goes_on: GoesOn,
}

enum GoesOn {
    FromTheStart,
    At(String),
    NoMore,
}

impl<A: Api> Remote<A> {
    pub(super) fn list(
        &mut self,
        machine: Option<&str>,
        status: Option<Status>,
        most: usize,
    ) -> Result<Vec<Listed>> {
        let mut readings = Vec::new();
        if let Some(machine) = machine {
            readings.push(Reading::of(self.machine_arn(machine)?));
        } else {
            let mut machines = self.machines()?;
            while let Some(machine) = machines.next(&mut self.api)? {
                // Express executions are only in logs.
                if !machine.is_express {
                    readings.push(Reading::of(machine.arn));
                }
            }
        }
        let mut rows = Vec::new();
        while rows.len() < most {
            for reading in &mut readings {
                reading.fill(&mut self.api, status, most - rows.len())?;
            }
            let newest = readings
                .iter_mut()
                .filter(|reading| !reading.ahead.is_empty())
                .max_by_key(|reading| reading.ahead.front().map(|row| row.started_at));
            let Some(row) = newest.and_then(|reading| reading.ahead.pop_front()) else { break };
            rows.push(row);
        }
        Ok(rows)
    }
}

impl Reading {
    fn of(machine: String) -> Self {
        Self { machine, ahead: VecDeque::new(), goes_on: GoesOn::FromTheStart }
    }

    /// Reads on until there is a row or the list ends.
    fn fill(&mut self, api: &mut impl Api, status: Option<Status>, most: usize) -> Result<()> {
        while self.ahead.is_empty() {
            let token = match &self.goes_on {
                GoesOn::FromTheStart => None,
                GoesOn::At(token) => Some(token.clone()),
                GoesOn::NoMore => return Ok(()),
            };
            let mut body = Map::new();
            body.insert("stateMachineArn", self.machine.as_str());
            body.insert("maxResults", most.min(PAGE_MAX) as i64);
            if let Some(status) = status {
                body.insert("statusFilter", status.name());
            }
            if let Some(token) = token {
                body.insert("nextToken", token);
            }
            let answer = api.call("ListExecutions", Value::from(body))?;
            let (rows, next) = read::page(&answer, "executions")?;
            self.ahead = rows.iter().map(read::listed).collect::<Result<_>>()?;
            self.goes_on = next.map_or(GoesOn::NoMore, GoesOn::At);
        }
        Ok(())
    }
}
