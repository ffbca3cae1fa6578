//! Machines, their versions and their aliases.
//!
//! Changing a machine's card is the Step Functions API's verb; it is asked here in its words, and answered in ours.

use super::asked::{Asked, cursor};
use super::conditions::Conditions;
use super::problem::{Code, Problem};
use super::shapes::{PUBLISH, PUT_ALIAS};
use super::table::kind;
use super::wire::type_word;
use super::{Desk, Told, wire};
use crate::commands::machines::{Given, deploy};
use crate::data::Data;
use crate::{Refusal, RefusalKind};
use axum::http::header;
use perdura_engine::Timestamp;
use perdura_engine::asl::json::Value;
use perdura_engine::asl::read::{BYTES_MAX, ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_runtime::card::is_deleting;
use perdura_store::{Head, MachineRecord};
use serde_json::{Value as Json, json};

/// Machines of a page, unless fewer are wanted.
const PAGE: u32 = 100;

fn shown(desk: &Desk, head: &Head) -> Json {
    json!({
        "name": head.name, "arn": desk.data.arns().machine(&head.name), "type": type_word(head.kind),
        "status": if is_deleting(head) { "DELETING" } else { "ACTIVE" },
        "createdAt": head.created_at.to_string(), "revision": head.revision.0,
    })
}

pub(super) async fn list(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let after: Option<String> = asked.cursor()?;
    let most = asked.limit(PAGE)?.clamp(1, PAGE);
    let heads = desk.reads(move |data| Ok(data.read(|reader| reader.heads(after.as_deref(), most))?)).await?;
    let next = heads.last().filter(|_| heads.len() == most as usize).map(|last| cursor(&(*last.name).into()));
    let items: Vec<Json> = heads.iter().map(|head| shown(desk, head)).collect();
    Ok(page(&items, next))
}

fn page(items: &[Json], next: Option<String>) -> Told {
    let mut page = json!({ "items": items });
    if let Some(next) = next {
        page["cursor"] = next.into();
    }
    Told::json(page.to_string())
}

fn unknown(name: &str) -> Refusal {
    Refusal::not_found(format!("there is no machine {name:?}")).but("GET /v1/machines lists them")
}

async fn found(desk: &Desk, name: String) -> Result<(Head, MachineRecord), Problem> {
    desk.reads(move |data| {
        let found = data.read(|reader| Ok((reader.head(&name)?, reader.machine(&name)?)))?;
        match found {
            (Some(head), Some(record)) => Ok((head, record)),
            (_, _) => Err(unknown(&name)),
        }
    })
    .await
}

fn tag(head: &Head) -> String {
    format!("\"{}-{}\"", head.machine.0, head.changed)
}

pub(super) async fn describe(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let (head, record) = found(desk, asked.first()).await?;
    let tag = tag(&head);
    if Conditions::of(&asked).has(&tag) {
        return Ok(Told::unchanged(tag));
    }
    let mut told = shown(desk, &head);
    if let Some(role) = &record.role_arn {
        told["role"] = (**role).into();
    }
    let told = told.to_string();
    let inner = told.strip_suffix('}').unwrap_or(&told);
    Ok(Told::json(format!("{inner},\"definition\":{}}}", record.definition)).with(header::ETAG, tag))
}

pub(super) async fn put(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let given = Given {
        name: asked.first(),
        kind: kind(&asked),
        definition: asked.text()?.to_owned(),
        role: asked.query("role").map(str::to_owned),
    };
    let (conditions, mut data) = (Conditions::of(&asked), desk.data.clone());
    let check = move |seen: Option<&Head>| conditions.check(seen.map(tag).as_deref());
    let (deployed, head) = desk.threads.changing.run(move || deploy(&mut data, &given, check)).await??;
    Ok(Told::new(wire::told(&deployed)).with(header::ETAG, tag(&head)))
}

pub(super) async fn delete(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let (conditions, name) = (Conditions::of(&asked), asked.first());
    let deleted = desk.api.delete_machine(name.as_str().into(), move |seen| {
        conditions.check(seen.map(tag).as_deref())?;
        seen.map(drop).ok_or_else(|| Problem::from(unknown(&name)))
    });
    deleted.await??;
    Ok(Told::nothing())
}

pub(super) async fn validate(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let text = asked.text()?.to_owned();
    if text.len() > BYTES_MAX {
        return Err(Problem::new(Code::TooLarge, format!("the most is {BYTES_MAX} bytes")));
    }
    let options = ReadOptions { machine_type: kind(&asked), strict: desk.api.is_strict() };
    // Even a short definition may take long to check.
    let data = desk.data.clone();
    let checked = desk.threads.parsing.run(move || {
        let source = Source::new("definition", text);
        let reading = read(&source, &options);
        let mut found = reading.diagnostics;
        found.extend(reading.machine.as_ref().and_then(|machine| data.doubts(machine)).into_iter().flatten());
        let result = if reading.machine.is_some() { "OK" } else { "FAIL" };
        let found: Vec<String> = found.iter().map(|one| diagnosed(&one.to_json(&source))).collect();
        format!("{{\"result\":\"{result}\",\"diagnostics\":[{}]}}", found.join(","))
    });
    Ok(Told::json(checked.await?))
}

/// What is wrong with a definition, in the words of this API: it has no file, and what is not known is absent.
fn diagnosed(one: &Value) -> String {
    let mut told: Json = serde_json::from_str(&one.to_string()).expect("a value is JSON");
    if let Some(members) = told.as_object_mut() {
        members.shift_remove("file");
        members.retain(|_, value| !value.is_null());
        if let Some(Json::String(severity)) = members.get_mut("severity") {
            severity.make_ascii_uppercase();
        }
    }
    told.to_string()
}

/// Asks the Step Functions API.
async fn call(desk: &Desk, action: &str, body: &Json) -> Result<Value, Problem> {
    Ok(desk.api.ask(action, body.to_string()).await?)
}

fn instant(value: Option<&Value>) -> String {
    let seconds = value.and_then(Value::as_f64).unwrap_or_default();
    Timestamp((seconds * 1000.0).round() as i64).to_string()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Versions and aliases of a machine that is there: AWS's lists are empty for one that is not.
async fn listed(desk: &Desk, asked: &Asked, action: &str) -> Result<Value, Problem> {
    let (head, _) = found(desk, asked.first()).await?;
    let mut body = json!({"stateMachineArn": desk.data.arns().machine(&head.name)});
    body["maxResults"] = asked.limit(PAGE)?.clamp(1, PAGE).into();
    if let Some(token) = asked.cursor::<String>()? {
        body["nextToken"] = token.into();
    }
    call(desk, action, &body).await
}

fn next(page: &Value) -> Option<String> {
    page.get("nextToken").and_then(Value::as_str).map(|token| cursor(&token.into()))
}

fn version(value: &Value) -> Json {
    let arn = text(value, "stateMachineVersionArn");
    let number: u64 = arn.rsplit(':').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    json!({"arn": arn, "version": number, "createdAt": instant(value.get("creationDate"))})
}

pub(super) async fn versions(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let told = listed(desk, &asked, "ListStateMachineVersions").await?;
    let items = told.get("stateMachineVersions").and_then(Value::as_array).unwrap_or_default();
    Ok(page(&items.iter().map(version).collect::<Vec<_>>(), next(&told)))
}

pub(super) async fn publish(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let mut body = json!({"stateMachineArn": desk.data.arns().machine(&asked.first())});
    if let Some(description) = asked.members(&PUBLISH)?.text("description") {
        body["description"] = description.into();
    }
    let told = call(desk, "PublishStateMachineVersion", &body).await?;
    Ok(Told::json(version(&told).to_string()))
}

pub(super) async fn delete_version(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let number: u32 = asked.second().parse().map_err(|_| Problem::invalid("a version is a number"))?;
    found(desk, asked.first()).await?;
    let arn = desk.data.arns().version(&asked.first(), number);
    call(desk, "DeleteStateMachineVersion", &json!({ "stateMachineVersionArn": arn })).await?;
    Ok(Told::nothing())
}

pub(super) async fn aliases(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let told = listed(desk, &asked, "ListStateMachineAliases").await?;
    let items = told.get("stateMachineAliases").and_then(Value::as_array).unwrap_or_default().iter();
    let items = items.map(|alias| {
        let arn = text(alias, "stateMachineAliasArn");
        let name = arn.rsplit(':').next().unwrap_or_default();
        json!({"name": name, "arn": arn, "createdAt": instant(alias.get("creationDate"))})
    });
    Ok(page(&items.collect::<Vec<_>>(), next(&told)))
}

async fn alias(desk: &Desk, asked: &Asked) -> Result<Json, Problem> {
    let arn = desk.data.arns().alias(&asked.first(), &asked.second());
    let told = call(desk, "DescribeStateMachineAlias", &json!({ "stateMachineAliasArn": arn })).await?;
    let routes = told.get("routingConfiguration").and_then(Value::as_array).unwrap_or_default().iter();
    let routes = routes.map(|route| {
        let number = text(route, "stateMachineVersionArn").rsplit(':').next().unwrap_or_default();
        let number: u64 = number.parse().unwrap_or_default();
        json!({"version": number, "weight": route.get("weight").and_then(Value::as_i64)})
    });
    let mut shown = json!({
        "name": text(&told, "name"), "arn": arn, "routes": routes.collect::<Vec<_>>(),
        "createdAt": instant(told.get("creationDate")),
    });
    if let Some(description) = told.get("description").and_then(Value::as_str) {
        shown["description"] = description.into();
    }
    Ok(shown)
}

pub(super) async fn describe_alias(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    Ok(Told::json(alias(desk, &asked).await?.to_string()))
}

pub(super) async fn put_alias(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let body = asked.members(&PUT_ALIAS)?;
    let (machine, name, arns) = (asked.first(), asked.second(), desk.data.arns());
    let routes = body.list("routes").iter().map(|route| {
        let number =
            route.get("version").and_then(Value::as_i64).and_then(|number| u32::try_from(number).ok());
        let arn = arns.version(&machine, number.unwrap_or_default());
        json!({"stateMachineVersionArn": arn, "weight": route.get("weight").and_then(Value::as_i64)})
    });
    let mut change = json!({ "routingConfiguration": routes.collect::<Vec<_>>() });
    if let Some(description) = body.text("description") {
        change["description"] = description.into();
    }
    match alias(desk, &asked).await {
        Ok(_) => {
            change["stateMachineAliasArn"] = arns.alias(&machine, &name).into();
            call(desk, "UpdateStateMachineAlias", &change).await?;
        }
        Err(problem) if problem.code.kind() == RefusalKind::NotFound => {
            change["name"] = name.into();
            call(desk, "CreateStateMachineAlias", &change).await?;
        }
        Err(problem) => return Err(problem),
    }
    describe_alias(desk, asked).await
}

pub(super) async fn delete_alias(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    alias(desk, &asked).await?;
    let arn = desk.data.arns().alias(&asked.first(), &asked.second());
    call(desk, "DeleteStateMachineAlias", &json!({ "stateMachineAliasArn": arn })).await?;
    Ok(Told::nothing())
}
