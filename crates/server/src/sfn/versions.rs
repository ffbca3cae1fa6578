//! Versions, which never change, and aliases, which lead to them.

use super::catalog::{Change, Entry};
use super::error::{ApiError, Code};
use super::list::Pages;
use super::locate::{MachineArn, wrong_resource};
use super::machines::deleting;
use super::requested::Requested;
use super::{Api, seconds};
use perdura_engine::asl::json::Value;
use perdura_engine::asl::{members, object};
use perdura_runtime::card::{AliasChange, Card, Route, Version};
use std::sync::Arc;

pub(super) async fn publish(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn: Arc<str> = request.required("stateMachineArn").into();
    let name: Arc<str> = MachineArn::plain(&api.0.arns, &arn)?.into();
    let wanted = request.text("revisionId").map(str::to_owned);
    let description = request.text("description").map(str::to_owned);
    let (now, most) = (api.now(), api.most());
    let entry = api
        .changing(move |api| {
            api.change(&name, |seen| {
                let entry = there(seen, || ApiError::no_machine(&arn), &arn)?;
                let mut card = entry.card.clone();
                let id = entry.revision_id(entry.head.revision);
                let new = (description.clone(), now);
                card.publish((entry.head.revision, id.as_deref()), wanted.as_deref(), new, most)?;
                Ok((card != entry.card).then(|| Change::card(card)))
            })
        })
        .await?
        .ok_or_else(gone)?;
    let of_it = |version: &&Version| version.revision == entry.head.revision;
    let version = entry.card.versions.iter().rev().find(of_it).ok_or_else(gone)?;
    Ok(object! {
        "creationDate" => seconds(version.created_at),
        "stateMachineVersionArn" => api.0.arns.version(&entry.head.name, version.number),
    })
}

pub(super) async fn delete_version(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("stateMachineVersionArn");
    let MachineArn::Version { name, number } = MachineArn::read(&api.0.arns, arn)? else {
        return Err(wrong_resource(arn));
    };
    change_card(api, name.into(), move |card| Ok(card.delete_version(number)?)).await?;
    Ok(Value::empty_object())
}

pub(super) async fn list_versions(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("stateMachineArn");
    let name = MachineArn::plain(&api.0.arns, arn)?;
    let pages = Pages::of(api, request, "ListStateMachineVersions");
    let before = pages.after(|place| place.parse::<u32>().ok())?;
    let entry = api.machine(&name).await?;
    let versions = entry.iter().flat_map(|entry| entry.card.versions.iter().rev());
    let versions = versions.filter(|version| before.is_none_or(|before| version.number < before));
    let versions = versions.take(pages.most() as usize + 1).cloned().collect();
    let (versions, next) = pages.cut(versions, |version| version.number.to_string());
    let shown = versions.into_iter().map(|version| {
        object! {
            "stateMachineVersionArn" => api.0.arns.version(&name, version.number),
            "creationDate" => seconds(version.created_at),
        }
    });
    Ok(pages.answer("stateMachineVersions", shown.collect(), next))
}

pub(super) async fn create_alias(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let alias = request.required("name").to_owned();
    let (name, routes) = routing(api, request.list("routingConfiguration").unwrap_or_default())?;
    let change =
        AliasChange { description: request.text("description").map(str::to_owned), routes: Some(routes) };
    let (name, now, most): (Arc<str>, _, _) = (name.into(), api.now(), api.most());
    let (machine, made) = (name.clone(), alias.clone());
    let entry = api
        .changing(move |api| {
            api.change(&machine, |seen| {
                let arn = api.0.arns.machine(&machine);
                let entry = there(seen, ApiError::no_alias, &arn)?;
                let mut card = entry.card.clone();
                card.create_alias(&made, change.clone(), now, most)?;
                Ok((card != entry.card).then(|| Change::card(card)))
            })
        })
        .await?
        .ok_or_else(gone)?;
    let known = entry.card.aliases.get(&alias).ok_or_else(gone)?;
    Ok(object! {
        "stateMachineAliasArn" => api.0.arns.alias(&name, &alias),
        "creationDate" => seconds(known.created_at),
    })
}

pub(super) async fn update_alias(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let (name, alias) = alias_of(api, request)?;
    let routes = match request.list("routingConfiguration") {
        Some(list) => Some(same_machine(&name, routing(api, list)?)?),
        None => None,
    };
    let change = AliasChange { description: request.text("description").map(str::to_owned), routes };
    if change.routes.is_none() && change.description.is_none() {
        return Err(ApiError::invalid(
            "At least one of the description or the routingConfiguration must be specified",
        )
        .with("reason", "MISSING_REQUIRED_PARAMETER"));
    }
    let (name, now): (Arc<str>, _) = (name.into(), api.now());
    api.changing(move |api| {
        api.change(&name, |seen| {
            let entry = there(seen, ApiError::no_alias, &api.0.arns.machine(&name))?;
            let mut card = entry.card.clone();
            card.update_alias(&alias, change.clone(), now)?;
            Ok((card != entry.card).then(|| Change::card(card)))
        })
    })
    .await?;
    Ok(object! {"updateDate" => seconds(now)})
}

pub(super) async fn delete_alias(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let (name, alias) = alias_of(api, request)?;
    let delete = move |card: &mut Card| {
        card.aliases.remove(&alias);
        Ok(())
    };
    change_card(api, name.into(), delete).await?;
    Ok(Value::empty_object())
}

pub(super) async fn describe_alias(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let (name, alias) = alias_of(api, request)?;
    let entry = api.machine(&name).await?.ok_or_else(ApiError::no_alias)?;
    let known = entry.card.aliases.get(&alias).ok_or_else(ApiError::no_alias)?;
    let routes = known.routes.iter().map(|route| {
        object! {
            "stateMachineVersionArn" => api.0.arns.version(&name, route.version),
            "weight" => u64::from(route.weight),
        }
    });
    let mut shown = members! {
        "stateMachineAliasArn" => api.0.arns.alias(&name, &alias),
        "name" => alias.as_str(),
        "routingConfiguration" => routes.collect::<Vec<Value>>(),
        "creationDate" => seconds(known.created_at),
        "updateDate" => seconds(known.updated_at),
    };
    if let Some(description) = &known.description {
        shown.insert("description", description.as_str());
    }
    Ok(shown.into())
}

/// Aliases of a machine, or of one version of it.
pub(super) async fn list_aliases(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("stateMachineArn");
    let found = MachineArn::read(&api.0.arns, arn)?;
    let only = match &found {
        MachineArn::Version { number, .. } => Some(*number),
        MachineArn::Plain { .. } => None,
        MachineArn::Alias { .. } | MachineArn::Labelled { .. } => {
            return Err(wrong_resource(arn));
        }
    };
    let pages = Pages::of(api, request, "ListStateMachineAliases");
    let after = pages.after_name()?;
    let entry = api.machine(found.name()).await?.ok_or_else(|| ApiError::no_machine(arn))?;
    if entry.card.deleting {
        return Err(deleting(arn));
    }
    let aliases = entry.card.aliases.iter().filter(|(name, alias)| {
        let leads_there = |number: u32| alias.routes.iter().any(|route| route.version == number);
        only.is_none_or(leads_there) && after.as_ref().is_none_or(|after| name.as_str() > after.as_str())
    });
    let aliases = aliases.take(pages.most() as usize + 1).collect();
    let (aliases, next) = pages.cut(aliases, |(name, _)| (*name).clone());
    let shown = aliases.into_iter().map(|(name, alias)| {
        object! {
            "stateMachineAliasArn" => api.0.arns.alias(found.name(), name),
            "creationDate" => seconds(alias.created_at),
        }
    });
    Ok(pages.answer("stateMachineAliases", shown.collect(), next))
}

/// The machine and the alias of an alias ARN.
fn alias_of(api: &Api, request: Requested<'_>) -> Result<(String, String), ApiError> {
    let arn = request.required("stateMachineAliasArn");
    match MachineArn::read(&api.0.arns, arn)? {
        MachineArn::Alias { name, alias } => Ok((name, alias)),
        MachineArn::Plain { .. } | MachineArn::Version { .. } | MachineArn::Labelled { .. } => {
            Err(wrong_resource(arn))
        }
    }
}

/// The machine and the routes of a routing configuration.
fn routing(api: &Api, list: &[Value]) -> Result<(String, Vec<Route>), ApiError> {
    let arn = |item: &Value| {
        item.get("stateMachineVersionArn").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let weight = |item: &Value| {
        item.get("weight").and_then(Value::as_i64).and_then(|weight| u32::try_from(weight).ok())
    };
    let arns: Vec<String> = list.iter().map(arn).collect();
    let weights: Vec<u32> = list.iter().filter_map(weight).collect();
    let wrong = |what: String| Err(ApiError::invalid(what).with("reason", "INVALID_ROUTING_CONFIGURATION"));
    let received = || format!("Received: [{}]", arns.join(", "));
    let mut routes = Vec::new();
    let mut machine: Option<String> = None;
    for (arn, weight) in arns.iter().zip(&weights) {
        let Ok(MachineArn::Version { name, number }) = MachineArn::read(&api.0.arns, arn) else {
            return wrong(format!(
                "Routing configuration must contain state machine version ARNs. {}",
                received()
            ));
        };
        if machine.get_or_insert_with(|| name.clone()) != &name {
            return wrong(format!(
                "Routing configuration must contain versions of the same state machine. {}",
                received()
            ));
        }
        routes.push(Route { version: number, weight: *weight });
    }
    if routes.len() == 2 && routes[0].version == routes[1].version {
        return wrong(format!(
            "Routing configuration must contain distinct state machine version ARNs. {}",
            received()
        ));
    }
    if weights.iter().sum::<u32>() != 100 {
        let weights: Vec<String> = weights.iter().map(u32::to_string).collect();
        return wrong(format!(
            "Sum of routing configuration weights must equal 100. Received: [{}]",
            weights.join(", ")
        ));
    }
    Ok((machine.unwrap_or_default(), routes))
}

/// Refuses routes to versions of another machine.
fn same_machine(name: &str, (machine, routes): (String, Vec<Route>)) -> Result<Vec<Route>, ApiError> {
    if machine == name {
        return Ok(routes);
    }
    let what = format!("Routing configuration must contain versions of the alias's state machine: {name}");
    Err(ApiError::invalid(what).with("reason", "INVALID_ROUTING_CONFIGURATION"))
}

/// Refuses a machine that does not exist or is being deleted.
fn there<'e>(
    seen: Option<&'e Entry>,
    missing: impl FnOnce() -> ApiError,
    arn: &str,
) -> Result<&'e Entry, ApiError> {
    match seen {
        Some(entry) if entry.card.deleting => Err(deleting(arn)),
        Some(entry) => Ok(entry),
        None => Err(missing()),
    }
}

/// Changes the card of a machine; `None`: there is no such machine.
pub(super) async fn change_card(
    api: &Api,
    name: Arc<str>,
    change: impl Fn(&mut Card) -> Result<(), ApiError> + Send + 'static,
) -> Result<Option<Entry>, ApiError> {
    api.changing(move |api| {
        api.change(&name, |seen| {
            let Some(entry) = seen else { return Ok(None) };
            let mut card = entry.card.clone();
            change(&mut card)?;
            Ok((card != entry.card).then(|| Change::card(card)))
        })
    })
    .await
}

fn gone() -> ApiError {
    ApiError::new(Code::ConflictException, "the state machine was deleted meanwhile")
}
