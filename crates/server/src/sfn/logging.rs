//! `loggingConfiguration`: which events of an execution its machine wants in CloudWatch Logs, and in which form.
//!
//! An execution is logged when it has ended, out of its history: so a log tells nothing that a crash could take back, and a
//! running execution pays nothing for it. Whoever has the address of CloudWatch Logs sends the records.

use super::Api;
use super::error::ApiError;
use super::history::{Cursor, Reading};
use super::settings::Settings;
use perdura_engine::asl::json::{Map, Value};
use perdura_engine::asl::object;
use perdura_engine::{ExecutionId, Timestamp};

/// How many events are read at once.
const PAGE: usize = 1_000;

/// Some of what is to be written of one execution.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPage {
    /// The name of the machine.
    pub machine: String,
    /// The name of the group.
    pub group: String,
    pub stream: String,
    /// In the order of the history.
    pub records: Vec<LogRecord>,
    /// Where to go on; `None`: that was all.
    pub next: Option<LogPlace>,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    pub at: Timestamp,
    pub message: String,
}

/// A place in a history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogPlace {
    cursor: Cursor,
    redrives: u64,
}

/// What a logging configuration asks for.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    level: Level,
    with_data: bool,
    group: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    All,
    Error,
    Fatal,
}

impl Wanted {
    /// `None`: nothing.
    fn of(logging: &Value) -> Option<Self> {
        let level = match logging.get("level")?.as_str()? {
            "ALL" => Level::All,
            "ERROR" => Level::Error,
            "FATAL" => Level::Fatal,
            _ => return None,
        };
        let destination = logging.get("destinations")?.as_array()?.first()?;
        let arn = destination.get("cloudWatchLogsLogGroup")?.get("logGroupArn")?.as_str()?;
        let group = arn.split_once(":log-group:").map_or(arn, |(_, name)| name);
        let with_data = logging.get("includeExecutionData").and_then(Value::as_bool).unwrap_or(false);
        Some(Self { level, with_data, group: group.trim_end_matches(":*").to_owned() })
    }
}

impl Level {
    fn has(self, event: &str) -> bool {
        let is_bad = event == "FailStateEntered"
            || ["Failed", "TimedOut", "Aborted"].iter().any(|end| event.ends_with(end));
        match self {
            Self::All => true,
            Self::Error => is_bad,
            Self::Fatal => is_bad && event.starts_with("Execution"),
        }
    }
}

impl Api {
    /// What the machine of an execution wants logged of it, page by page. `None`: nothing.
    pub async fn log_page(
        &self,
        id: ExecutionId,
        from: Option<LogPlace>,
    ) -> Result<Option<LogPage>, ApiError> {
        let Some(begun) = self.begun(id).await? else { return Ok(None) };
        let revision = begun.revision;
        let Some(record) = self.read(move |reader| reader.revision(revision)).await? else { return Ok(None) };
        let Some(wanted) = Wanted::of(&Settings::kept(&record)?.logging()) else { return Ok(None) };
        let arn = begun.identity.arn.clone();
        let reading = Reading {
            id,
            identity: begun.identity,
            most: PAGE,
            is_reverse: false,
            with_data: wanted.with_data,
        };
        let mut redrives = from.map_or(0, |place| place.redrives);
        let (events, next) =
            self.reading(move |api| reading.page(api, from.map(|place| place.cursor))).await?;
        let mut records = Vec::new();
        for event in &events {
            let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
            redrives += u64::from(name == "ExecutionRedriven");
            if wanted.level.has(name) {
                records.push(record_of(event, &arn, redrives));
            }
        }
        let stream = format!("states/{}/{id}", record.name);
        let next = next.map(|cursor| LogPlace { cursor, redrives });
        let machine = record.name.to_string();
        Ok(Some(LogPage { machine, group: wanted.group, stream, records, next }))
    }
}

/// An event as Step Functions writes it into a log: numbers are texts there.
fn record_of(event: &Value, execution_arn: &str, redrives: u64) -> LogRecord {
    let number = |name: &str| event.get(name).and_then(Value::as_i64).unwrap_or_default().to_string();
    let seconds = event.get("timestamp").and_then(Value::as_f64).unwrap_or_default();
    let at = Timestamp((seconds * 1000.0).round() as i64);
    let members = event.as_object().into_iter().flat_map(Map::iter);
    let details = members.into_iter().find(|(name, _)| name.ends_with("EventDetails"));
    let message = object! {
        "id" => number("id"),
        "type" => event.get("type").cloned().unwrap_or_default(),
        "details" => details.map_or_else(Value::empty_object, |(_, details)| details.clone()),
        "previous_event_id" => number("previousEventId"),
        "event_timestamp" => at.0.to_string(),
        "execution_arn" => execution_arn,
        "redrive_count" => redrives.to_string(),
    };
    LogRecord { at, message: message.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::parse;

    #[test]
    fn a_level_names_its_events() {
        for (event, error, fatal) in [
            ("ExecutionStarted", false, false),
            ("TaskSucceeded", false, false),
            ("TaskFailed", true, false),
            ("LambdaFunctionTimedOut", true, false),
            ("MapIterationAborted", true, false),
            ("FailStateEntered", true, false),
            ("ExecutionFailed", true, true),
            ("ExecutionTimedOut", true, true),
            ("ExecutionAborted", true, true),
        ] {
            let levels = [Level::All, Level::Error, Level::Fatal].map(|level| level.has(event));
            assert_eq!(levels, [true, error, fatal], "{event}");
        }
    }

    #[test]
    fn a_configuration_that_is_off_or_has_no_group_wants_nothing() {
        let of = |text: &str| Wanted::of(&parse(text).unwrap());
        let to = r#""destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": "arn:aws:logs:r:1:log-group:g/x:*"}}]"#;
        assert_eq!(of(r#"{"level": "OFF"}"#), None);
        assert_eq!(of(&format!(r#"{{"level": "OFF", {to}}}"#)), None);
        assert_eq!(of(r#"{"level": "ALL"}"#), None);
        let wanted = Wanted { level: Level::Error, with_data: true, group: "g/x".into() };
        assert_eq!(of(&format!(r#"{{"level": "ERROR", "includeExecutionData": true, {to}}}"#)), Some(wanted));
    }

    #[test]
    fn a_record_has_numbers_as_texts() {
        let event = r#"{"timestamp": 1.5, "type": "PassStateExited", "id": 3, "previousEventId": 2,
            "stateExitedEventDetails": {"name": "A", "output": "{}"}}"#;
        let record = record_of(&parse(event).unwrap(), "arn", 2);
        assert_eq!(record.at, Timestamp(1500));
        assert_eq!(
            record.message,
            r#"{"id":"3","type":"PassStateExited","details":{"name":"A","output":"{}"},"previous_event_id":"2","event_timestamp":"1500","execution_arn":"arn","redrive_count":"2"}"#
        );
        let bare =
            record_of(&parse(r#"{"timestamp": 1, "type": "MapStateFailed", "id": 1}"#).unwrap(), "a", 0);
        assert!(bare.message.contains(r#""details":{}"#), "{}", bare.message);
    }
}
