//! Activities and task tokens: what workers ask for and answer.

use super::error::{ApiError, Code};
use super::list::Pages;
use super::locate::{parse, wrong_resource};
use super::machines::tags;
use super::requested::{Asked, Requested};
use super::settings::{check_encryption, key_of};
use super::tags::put;
use super::{Api, seconds};
use perdura_engine::asl::diagnostic::explain_in_a_sentence;
use perdura_engine::asl::json::{self, Payload, Value};
use perdura_engine::asl::object;
use perdura_engine::{Certainty, Fault, Named, Outcome, TaskToken, Timestamp, is_name};
use perdura_runtime::TokenError;
use perdura_runtime::card::Tags;
use perdura_store::{Registered, Registry};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long a worker waits for a task before it has to ask again.
const POLL_FOR: Duration = Duration::from_mins(1);

/// What is stored of an activity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Activity {
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub(super) tags: Tags,
    /// Its encryption configuration, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<String>,
}

impl Activity {
    fn read(entry: &Registered) -> Result<Self, ApiError> {
        // The command line creates activities with an empty body.
        if entry.body.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(&entry.body).map_err(|error| unreadable(&entry.name, &error))
    }

    fn entry(&self, name: &str, created_at: Timestamp) -> Registered {
        let body = serde_json::to_vec(self).expect("an activity is JSON");
        Registered { kind: Registry::Activity, name: name.into(), created_at, body }
    }

    fn encryption(&self, name: &str) -> Result<Option<Value>, ApiError> {
        let parse = |text| json::parse(text).map_err(|error| unreadable(name, &error));
        self.encryption.as_deref().map(parse).transpose()
    }
}

fn unreadable(name: &str, error: &dyn std::fmt::Display) -> ApiError {
    ApiError::unavailable(format!("the activity {name} cannot be read: {error}"))
}

pub(super) async fn create(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let name = request.required("name").to_owned();
    if !is_name(&name) {
        return Err(ApiError::invalid_name(&name));
    }
    let encryption = match request.value("encryptionConfiguration") {
        Some(given) => check_encryption(given)?,
        None => None,
    };
    api.0.keys.check(encryption.as_ref().and_then(key_of))?;
    let arn = api.0.arns.activity(&name);
    let mut activity =
        Activity { encryption: encryption.as_ref().map(Value::to_string), ..Activity::default() };
    put(&mut activity.tags, tags(request), &arn)?;
    let (now, quota) = (api.now(), api.0.quotas.activities);
    let created_at = api
        .changing(move |api| {
            let mut activities = api.door().activities();
            if let Some(known) = activities.find(&name)? {
                if Activity::read(&known)?.encryption == activity.encryption {
                    return Ok(known.created_at);
                }
                let message = format!("Activity Already Exists: '{}'", api.0.arns.activity(&name));
                return Err(ApiError::new(Code::ActivityAlreadyExists, message));
            }
            if !activities.put(&activity.entry(&name, now), quota)? {
                let message = format!("The maximum number of activities is {quota}");
                return Err(ApiError::new(Code::ActivityLimitExceeded, message));
            }
            Ok(now)
        })
        .await?;
    Ok(object! {"activityArn" => arn, "creationDate" => seconds(created_at)})
}

pub(super) async fn delete(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let name = name_of(api, request.required("activityArn"))?;
    api.changing(move |api| {
        api.door().activities().remove(&name)?;
        Ok(())
    })
    .await?;
    Ok(Value::empty_object())
}

pub(super) async fn describe(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("activityArn");
    let name = name_of(api, arn)?;
    let (created_at, activity) =
        api.activity(name.clone()).await?.ok_or_else(|| ApiError::no_activity(arn))?;
    let encryption = activity.encryption(&name)?.unwrap_or_else(|| object! {"type" => "AWS_OWNED_KEY"});
    Ok(object! {
        "activityArn" => arn,
        "name" => name,
        "creationDate" => seconds(created_at),
        "encryptionConfiguration" => encryption,
    })
}

pub(super) async fn list(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let pages = Pages::of(api, request, "ListActivities");
    let (after, most) = (pages.after_name()?, pages.most() + 1);
    let found = api.read(move |reader| reader.registered(Registry::Activity, after.as_deref(), most)).await?;
    let (found, next) = pages.cut(found, |activity| activity.name.to_string());
    let shown = found.into_iter().map(|activity| {
        object! {
            "activityArn" => api.0.arns.activity(&activity.name),
            "name" => activity.name.clone(),
            "creationDate" => seconds(activity.created_at),
        }
    });
    Ok(pages.answer("activities", shown.collect(), next))
}

/// Waits for a task, a minute at most. If the worker hangs up, the next one gets the task.
pub(super) async fn get_task(api: &Api, asked: Asked) -> Result<Value, ApiError> {
    let request = asked.requested();
    let arn = request.required("activityArn");
    let name = name_of(api, arn)?;
    let (_, activity) = api.activity(name.clone()).await?.ok_or_else(|| ApiError::no_activity(arn))?;
    api.0.keys.check(activity.encryption(&name)?.as_ref().and_then(key_of))?;
    let name: Arc<str> = name.into();
    let _poller = Poller::take(api, &name)?;
    let worker = request.text("workerName").map(Arc::from);
    drop(asked);
    let polling = api.door().poll(name, worker);
    match tokio::time::timeout(POLL_FOR, polling).await {
        Ok(task) => {
            let task = task?;
            Ok(object! {"taskToken" => task.token.to_string(), "input" => task.input.text().clone()})
        }
        Err(_elapsed) => Ok(Value::empty_object()),
    }
}

/// A polling worker. It counts in the quota until this is dropped.
struct Poller<'a> {
    api: &'a Api,
    activity: Arc<str>,
}

impl<'a> Poller<'a> {
    fn take(api: &'a Api, activity: &Arc<str>) -> Result<Self, ApiError> {
        let mut pollers = api.0.pollers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = pollers.entry(activity.clone()).or_default();
        if *count >= api.0.quotas.pollers {
            let message = format!("Activity Worker Limit Exceeded: '{}'", api.0.arns.activity(activity));
            return Err(ApiError::new(Code::ActivityWorkerLimitExceeded, message));
        }
        *count += 1;
        drop(pollers);
        Ok(Self { api, activity: activity.clone() })
    }
}

impl Drop for Poller<'_> {
    fn drop(&mut self) {
        let mut pollers = self.api.0.pollers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = pollers.get_mut(&self.activity) {
            *count -= 1;
            if *count == 0 {
                pollers.remove(&self.activity);
            }
        }
    }
}

pub(super) async fn succeed(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let token = token(request)?;
    let text = request.shared("output").unwrap_or_default();
    let output = api.computing(text.len(), move || {
        Payload::from_text(text.clone()).map_err(|error| {
            let why = explain_in_a_sentence(&text, &error, "Invalid execution output.");
            ApiError::new(Code::InvalidOutput, format!("Invalid Output: '{why}'"))
        })
    });
    let output = output.await?;
    answer(api, token, Outcome::Succeeded { output }).await
}

pub(super) async fn fail(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let token = token(request)?;
    let text = |name: &str| request.text(name).map(Arc::from);
    let fault = Fault { error: text("error"), cause: text("cause") };
    // The worker may have acted before it failed. Errors that are refusals are listed at the destination.
    answer(api, token, Outcome::Failed { fault, certainty: Certainty::Ambiguous }).await
}

async fn answer(api: &Api, token: TaskToken, outcome: Outcome) -> Result<Value, ApiError> {
    api.door().answer(token, outcome).await.map_err(not_taken)?;
    Ok(Value::empty_object())
}

pub(super) async fn heartbeat(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    api.door().heartbeat(token(request)?).await.map_err(not_taken)?;
    Ok(Value::empty_object())
}

fn token(request: Requested<'_>) -> Result<TaskToken, ApiError> {
    TaskToken::parse(request.required("taskToken")).ok_or_else(ApiError::invalid_token)
}

fn not_taken(error: TokenError) -> ApiError {
    match error {
        TokenError::Unknown => {
            ApiError::new(Code::TaskDoesNotExist, "Task does not exist: 'No task has the provided token'")
        }
        TokenError::TimedOut => {
            ApiError::new(Code::TaskTimedOut, "Task Timed Out: 'Provided task does not exist anymore'")
        }
        TokenError::NotTaken(error) => error.into(),
    }
}

/// The name of the activity that an ARN names.
fn name_of(api: &Api, arn: &str) -> Result<String, ApiError> {
    match parse(arn)?.named {
        Named::Activity { name } if api.is_ours(arn) => Ok(name.to_owned()),
        Named::Activity { .. } => Err(ApiError::no_activity(arn)),
        _ => Err(wrong_resource(arn)),
    }
}

impl Api {
    /// An activity, and when it was created.
    pub(super) async fn activity(&self, name: String) -> Result<Option<(Timestamp, Activity)>, ApiError> {
        self.reading(move |api| {
            let found = api.door().read(|reader| reader.registered_one(Registry::Activity, &name))?;
            found.map(|entry| Ok((entry.created_at, Activity::read(&entry)?))).transpose()
        })
        .await
    }

    /// Changes an activity; `false`: there is none of this name.
    pub(super) fn change_activity(
        &self,
        name: &str,
        change: impl FnOnce(&mut Activity) -> Result<(), ApiError>,
    ) -> Result<bool, ApiError> {
        let mut activities = self.door().activities();
        let Some(entry) = activities.find(name)? else { return Ok(false) };
        let mut activity = Activity::read(&entry)?;
        change(&mut activity)?;
        Ok(activities.put(&activity.entry(name, entry.created_at), self.0.quotas.activities)?)
    }
}
