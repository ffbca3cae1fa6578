//! State machines: created, updated, described, listed, deleted.

mod definition;
mod delete;

pub(super) use definition::validate;
pub(super) use delete::delete;

use super::catalog::{Change, Entry};
use super::error::{ApiError, Code};
use super::list::Pages;
use super::locate::MachineArn;
use super::requested::Requested;
use super::settings::Settings;
use super::tags::put;
use super::{Api, seconds};
use definition::{definition, kept, kind, type_name};
use perdura_engine::asl::json::{Map, Value};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::{members, object};
use perdura_engine::is_name;
use perdura_runtime::card::{Card, Most, Version};
use perdura_store::{MachineRecord, NewRevision};
use std::sync::Arc;

pub(super) async fn create(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let name: Arc<str> = request.required("name").into();
    if !is_name(&name) {
        return Err(ApiError::invalid_name(&name));
    }
    let kind = kind(request);
    let text = request.shared("definition").unwrap_or_default();
    let (definition, machine) = definition(api, text, kind).await?;
    let settings = Settings::default().and(request)?;
    api.0.keys.check(settings.key())?;
    let role: Arc<str> = role(request.required("roleArn"))?.into();
    let given = tags(request);
    let (publish, description) = publishing(request);
    if description.is_some() && !publish {
        return Err(ApiError::invalid("Version description can only be set when publish is true"));
    }
    let (now, most, quota) = (api.now(), api.most(), api.0.quotas.state_machines);
    let arn = api.0.arns.machine(&name);
    let entry = api
        .changing(move |api| {
            let _alone = api.door().making();
            api.change(&name, |seen| {
                if let Some(entry) = seen {
                    return again(entry, &arn, &definition, kind, &settings).map(|()| None);
                }
                if api.door().read(|reader| reader.machine_count())? >= quota {
                    let message = format!("The maximum number of state machines is {quota}");
                    return Err(ApiError::new(Code::StateMachineLimitExceeded, message));
                }
                let mut card = Card::default();
                put(&mut card.tags, given.iter().cloned(), &arn)?;
                let (description, publish) = (description.clone(), publish);
                let revision = NewRevision {
                    kind,
                    definition: definition.clone(),
                    role_arn: Some(role.clone()),
                    settings: settings.to_keep(),
                    at: now,
                };
                Ok(Some(Change {
                    revision: Some((revision, machine.clone())),
                    card: Box::new(move |revision| {
                        let mut card = card.clone();
                        card.first = Some(revision);
                        if publish {
                            let new = (description.clone(), now);
                            card.publish((revision, None), None, new, most).expect("the first finds room");
                        }
                        Some(card)
                    }),
                }))
            })
        })
        .await?
        .ok_or_else(|| ApiError::unavailable("the machine was deleted while it was created"))?;
    let mut answer = members! {
        "stateMachineArn" => api.0.arns.machine(&entry.head.name),
        "creationDate" => seconds(entry.head.created_at),
    };
    if publish {
        insert_version(api, &mut answer, &entry);
    }
    Ok(answer.into())
}

/// Creating a machine again is no error if it is the same.
fn again(
    entry: &Entry,
    arn: &str,
    definition: &str,
    kind: MachineType,
    settings: &Settings,
) -> Result<(), ApiError> {
    if entry.card.deleting {
        return Err(deleting(arn));
    }
    let is_same = *entry.record.definition == *definition
        && entry.record.kind == kind
        && entry.settings()? == *settings;
    if is_same {
        return Ok(());
    }
    let message = format!("State Machine Already Exists: '{arn}'");
    Err(ApiError::new(Code::StateMachineAlreadyExists, message))
}

pub(super) fn deleting(arn: &str) -> ApiError {
    ApiError::new(Code::StateMachineDeleting, format!("State Machine is deleting: '{arn}'"))
}

pub(super) async fn update(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("stateMachineArn");
    let (name, arn): (Arc<str>, Arc<str>) = (MachineArn::plain(&api.0.arns, arn)?.into(), arn.into());
    let changes = ["definition", "roleArn", "loggingConfiguration", "tracingConfiguration"];
    let (publish, description) = publishing(request);
    if changes.iter().all(|member| request.value(member).is_none())
        && request.value("encryptionConfiguration").is_none()
    {
        return Err(ApiError::new(
            Code::MissingRequiredParameter,
            "Either the definition, the role ARN, the LoggingConfiguration, or the TracingConfiguration must be \
             specified",
        ));
    }
    if description.is_some() && !publish {
        return Err(ApiError::invalid("Version description can only be set when publish is true"));
    }
    let entry = api.machine(&name).await?.ok_or_else(|| ApiError::no_machine(&arn))?;
    let kind = entry.head.kind;
    let given = match request.shared("definition") {
        Some(text) => Some(definition(api, text, kind).await?),
        None => None,
    };
    let role: Option<Arc<str>> = request.text("roleArn").map(role).transpose()?.map(Into::into);
    let (now, most) = (api.now(), api.most());
    let said: Value = request.members().clone().into();
    let (before, entry) = api
        .changing(move |api| {
            let before = std::cell::Cell::new(None);
            let entry = api.change(&name, |seen| {
                let entry = seen.ok_or_else(|| ApiError::no_machine(&arn))?;
                if entry.card.deleting {
                    return Err(deleting(&arn));
                }
                before.set(Some(entry.head.revision));
                let settings = entry.settings()?.and(Requested::new(&said)?)?;
                api.0.keys.check(settings.key())?;
                let record = &entry.record;
                let revision = NewRevision {
                    kind,
                    definition: given
                        .as_ref()
                        .map_or_else(|| record.definition.clone(), |given| given.0.clone()),
                    role_arn: role.clone().or_else(|| record.role_arn.clone()),
                    settings: settings.to_keep(),
                    at: now,
                };
                let is_new = revision.definition != record.definition
                    || revision.role_arn != record.role_arn
                    || revision.settings != record.settings;
                let machine = match &given {
                    Some((_, machine)) => machine.clone(),
                    None => kept(record)?,
                };
                if !is_new && !publish {
                    return Ok(None);
                }
                let (card, description) = (entry.card.clone(), description.clone());
                if publish {
                    // Whether there is room does not depend on the revision's number.
                    let some = if is_new { perdura_store::RevisionId(u64::MAX) } else { entry.head.revision };
                    card.clone().publish((some, None), None, (None, now), most)?;
                }
                Ok(Some(Change {
                    revision: is_new.then_some((revision, machine)),
                    card: Box::new(move |revision| {
                        let mut card = card.clone();
                        if publish {
                            let new = (description.clone(), now);
                            card.publish((revision, None), None, new, most).expect("room was found before");
                        }
                        Some(card)
                    }),
                }))
            })?;
            Ok((before.get(), entry))
        })
        .await?;
    let entry = entry.ok_or_else(|| ApiError::unavailable("the machine was deleted while it was changed"))?;
    let mut answer = members! {"updateDate" => seconds(now)};
    if let Some(id) = entry.revision_id(entry.head.revision).filter(|_| before.is_some()) {
        answer.insert("revisionId", id);
    }
    if publish {
        insert_version(api, &mut answer, &entry);
    }
    Ok(answer.into())
}

pub(super) async fn describe(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("stateMachineArn");
    let found = MachineArn::read(&api.0.arns, arn)?;
    let entry = api.machine(found.name()).await?.ok_or_else(|| ApiError::no_machine(arn))?;
    let mut shown = members! {"stateMachineArn" => arn, "name" => entry.head.name.clone()};
    let (record, created_at) = match &found {
        MachineArn::Plain { .. } | MachineArn::Labelled { .. } => {
            (entry.record.clone(), entry.head.created_at)
        }
        MachineArn::Version { number, .. } => {
            let version = entry.card.version(*number).ok_or_else(|| ApiError::no_machine(arn))?;
            let (revision, created_at) = (version.revision, version.created_at);
            if let Some(description) = &version.description {
                shown.insert("description", description.as_str());
            }
            let record = api.read(move |reader| reader.revision(revision)).await?;
            (record.ok_or_else(|| ApiError::no_machine(arn))?, created_at)
        }
        MachineArn::Alias { .. } => return Err(ApiError::no_machine(arn)),
    };
    if let MachineArn::Labelled { label, .. } = &found {
        shown.insert("label", label.as_str());
    }
    shown.insert("status", if entry.card.deleting { "DELETING" } else { "ACTIVE" });
    shown.insert("type", type_name(record.kind));
    shown.insert("creationDate", seconds(created_at));
    if let Some(id) = entry.revision_id(record.revision) {
        shown.insert("revisionId", id);
    }
    show_revision(api, &mut shown, &record, request.wants_data()).await?;
    Ok(shown.into())
}

pub(super) async fn describe_for_execution(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let arn = request.required("executionArn");
    let id = api.standard(arn).await?;
    let begun = api.begun(id).await?.ok_or_else(|| ApiError::no_execution(arn))?;
    let (revision, run) = (begun.revision, begun.child.map(|child| child.run));
    let (record, run) = api
        .read(move |reader| {
            let run = run.map(|run| reader.map_run(run)).transpose()?.flatten();
            Ok((reader.revision(revision)?, run))
        })
        .await?;
    let record = record.ok_or_else(|| ApiError::no_execution(arn))?;
    let identity = begun.identity;
    let entry = api.machine(&record.name).await?;
    let name = identity.machine_arn.rsplit(':').next().unwrap_or_default();
    let mut shown = members! {
        "stateMachineArn" => identity.machine_arn.clone(),
        "name" => record.name.clone(),
        "updateDate" => seconds(record.created_at),
    };
    if let Some((_, label)) = name.split_once('/') {
        shown.insert("label", label);
    }
    if let Some(run) = run {
        shown.insert("mapRunArn", run.arn);
    }
    if let Some(id) = entry.and_then(|entry| entry.revision_id(record.revision)) {
        shown.insert("revisionId", id);
    }
    show_revision(api, &mut shown, &record, request.wants_data()).await?;
    shown.insert("roleArn", identity.role_arn);
    Ok(shown.into())
}

/// Shows a revision, without its definition where only metadata is wanted.
async fn show_revision(
    api: &Api,
    shown: &mut Map,
    record: &MachineRecord,
    wants_data: bool,
) -> Result<(), ApiError> {
    let settings = Settings::kept(record)?;
    if wants_data {
        api.0.keys.check(settings.key())?;
        shown.insert("definition", record.definition.clone());
        let record = record.clone();
        let references = api.computing(record.definition.len(), move || {
            let machine = kept(&record)?;
            let references = machine.variable_references().into_iter();
            let named = references.map(|(state, names)| {
                (state.clone(), names.iter().cloned().map(Value::from).collect::<Value>())
            });
            Ok(named.collect::<Map>())
        });
        let references = references.await?;
        if !references.is_empty() {
            shown.insert("variableReferences", references);
        }
    } else {
        shown.insert("definition", "");
    }
    shown.insert("roleArn", record.role_arn.clone().unwrap_or_else(|| api.0.arns.default_role().into()));
    shown.insert("loggingConfiguration", settings.logging());
    shown.insert("tracingConfiguration", settings.tracing());
    shown.insert("encryptionConfiguration", settings.encryption());
    Ok(())
}

pub(super) async fn list(api: &Api, request: Requested<'_>) -> Result<Value, ApiError> {
    let pages = Pages::of(api, request, "ListStateMachines");
    let after = pages.after_name()?;
    let most = pages.most();
    let heads = api.read(move |reader| reader.heads(after.as_deref(), most + 1)).await?;
    let (heads, next) = pages.cut(heads, |head| head.name.to_string());
    let shown = heads.into_iter().map(|head| {
        object! {
            "stateMachineArn" => api.0.arns.machine(&head.name),
            "name" => head.name.clone(),
            "type" => type_name(head.kind),
            "creationDate" => seconds(head.created_at),
        }
    });
    Ok(pages.answer("stateMachines", shown.collect(), next))
}

impl Api {
    pub(super) fn most(&self) -> Most {
        Most { versions: self.0.quotas.versions, aliases: self.0.quotas.aliases }
    }
}

/// Checks that a role is an ARN. Roles are not used here.
fn role(arn: &str) -> Result<&str, ApiError> {
    if arn.starts_with("arn:") && arn.split(':').count() >= 6 {
        return Ok(arn);
    }
    Err(ApiError::invalid_arn(format!("Invalid Role Arn: '{arn}'")))
}

fn publishing(request: Requested<'_>) -> (bool, Option<String>) {
    (request.flag("publish").unwrap_or(false), request.text("versionDescription").map(str::to_owned))
}

/// `tags` as pairs.
pub(super) fn tags(request: Requested<'_>) -> Vec<(String, String)> {
    let text = |tag: &Value, name: &str| tag.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let tags = request.list("tags").unwrap_or_default();
    tags.iter().map(|tag| (text(tag, "key"), text(tag, "value"))).collect()
}

/// `stateMachineVersionArn` of the current revision.
fn insert_version(api: &Api, answer: &mut Map, entry: &Entry) {
    let of_it = |version: &&Version| version.revision == entry.head.revision;
    if let Some(version) = entry.card.versions.iter().rev().find(of_it) {
        answer.insert("stateMachineVersionArn", api.0.arns.version(&entry.head.name, version.number));
    }
}
