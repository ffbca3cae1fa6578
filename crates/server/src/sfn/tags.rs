//! Tags of machines and activities.

use super::Api;
use super::activities::Activity;
use super::error::ApiError;
use super::locate::{MachineArn, parse};
use super::machines::tags;
use super::requested::Requested;
use super::versions::change_card;
use perdura_engine::Named;
use perdura_engine::asl::json::Value;
use perdura_engine::asl::object;
use perdura_runtime::card::Tags;

/// What can have tags.
enum Tagged {
    Machine(String),
    Activity(String),
}

/// Sets tags; the ARN is for the error.
pub(super) fn put(
    tags: &mut Tags,
    given: impl IntoIterator<Item = (String, String)>,
    arn: &str,
) -> Result<(), ApiError> {
    tags.put(given).map_err(|error| ApiError::from(error).with("resourceName", arn))
}

/// The resource of an ARN. Versions, aliases and executions have no tags.
fn read(api: &Api, arn: &str) -> Result<Tagged, ApiError> {
    let named = parse(arn)?.named;
    if !api.is_ours(arn) {
        return Err(ApiError::no_resource(arn));
    }
    if let Named::Activity { name } = named {
        return Ok(Tagged::Activity(name.to_owned()));
    }
    match MachineArn::read(&api.0.arns, arn)? {
        MachineArn::Plain { name } => Ok(Tagged::Machine(name)),
        MachineArn::Version { .. } | MachineArn::Alias { .. } | MachineArn::Labelled { .. } => {
            Err(ApiError::no_resource(arn))
        }
    }
}

pub(super) async fn tag(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let given = tags(request);
    let arn = request.required("resourceArn").to_owned();
    change(api, request, move |tags| put(tags, given.iter().cloned(), &arn)).await
}

pub(super) async fn untag(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let keys = request.list("tagKeys").unwrap_or_default().iter().filter_map(Value::as_str);
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    change(api, request, move |tags| {
        tags.0.retain(|key, _| !keys.contains(key));
        Ok(())
    })
    .await
}

async fn change(
    api: &Api,
    request: Requested<'_>,
    change: impl Fn(&mut Tags) -> Result<(), ApiError> + Send + 'static,
) -> Result<Value, ApiError> {
    let arn = request.required("resourceArn");
    let found = match read(api, arn)? {
        Tagged::Machine(name) => {
            change_card(api, name.into(), move |card| change(&mut card.tags)).await?.is_some()
        }
        Tagged::Activity(name) => {
            api.changing(move |api| api.change_activity(&name, |activity| change(&mut activity.tags))).await?
        }
    };
    if found { Ok(Value::empty_object()) } else { Err(ApiError::no_resource(arn)) }
}

pub(super) async fn list(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("resourceArn");
    let tags = match read(api, arn)? {
        Tagged::Machine(name) => api.machine(&name).await?.map(|entry| entry.card.tags.clone()),
        Tagged::Activity(name) => api.activity(name).await?.map(|(_, Activity { tags, .. })| tags),
    };
    let tags = tags.ok_or_else(|| ApiError::no_resource(arn))?;
    let shown = tags.0.into_iter().map(|(key, value)| object! {"key" => key, "value" => value});
    Ok(object! {"tags" => shown.collect::<Vec<Value>>()})
}
