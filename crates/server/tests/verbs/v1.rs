//! `/v1` as plain HTTP, where no command asks: machines with their versions and aliases, conditions, many starts at once,
//! and what is refused before a verb is reached.

use crate::stage::{Mode, Stage, With, tokio};
use axum::http::Method;
use perdura_server::v1::table::{OPERATIONS, Reads};
use perdura_server::v1::{openapi, page};
use serde_json::{Value, json};

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

/// Asks, and returns status and body.
fn ask(stage: &Stage, line: &str, body: &str) -> (u16, Value) {
    let (method, path) = line.split_once(' ').expect("METHOD PATH");
    let method = method.parse::<Method>().expect("it is a method");
    let body = (!body.is_empty()).then(|| body.to_owned());
    let (status, body) = stage.http(method, path, body);
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[test]
fn a_machine_is_deployed_published_aliased_started_and_deleted() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    let route = r#"{"routes": [{"version": 1, "weight": 100}]}"#;
    for (line, body, status, expected) in [
        ("PUT /v1/machines/m", PASS, 200, json!({"machine": "m", "kind": "STANDARD"})),
        ("GET /v1/machines/m", "", 200, json!({"name": "m", "type": "STANDARD", "status": "ACTIVE"})),
        ("POST /v1/machines/m/versions", "{}", 201, json!({"version": 1})),
        ("PUT /v1/machines/m/aliases/live", route, 200, json!({"name": "live"})),
        ("PUT /v1/machines/m/aliases/live", route, 200, json!({"name": "live"})),
        ("GET /v1/machines/m/aliases/live", "", 200, json!({"routes": [{"version": 1, "weight": 100}]})),
        (
            "POST /v1/executions",
            r#"{"machine": "m:live", "name": "n", "input": {"a": 9007199254740993}}"#,
            201,
            json!({"name": "n", "machine": "m", "status": "RUNNING"}),
        ),
        ("DELETE /v1/machines/m/versions/1", "", 409, json!({"code": "conflict"})),
        ("DELETE /v1/machines/m/aliases/live", "", 204, Value::Null),
        ("DELETE /v1/machines/m/versions/1", "", 204, Value::Null),
        ("DELETE /v1/machines/m", "", 204, Value::Null),
        ("DELETE /v1/machines/none", "", 404, json!({"code": "notFound"})),
        ("GET /v1/machines/none/versions", "", 404, json!({"code": "notFound"})),
    ] {
        let (found, told) = ask(&stage, line, body);
        assert_eq!(found, status, "{line}: {told}");
        for (name, value) in expected.as_object().into_iter().flatten() {
            assert_eq!(&told[name], value, "{line}: {told}");
        }
    }
}

#[test]
fn many_starts_have_a_result_each_and_a_start_may_wait_for_its_end() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    ask(&stage, "PUT /v1/machines/m", PASS);
    let many = r#"{"executions": [{"machine": "m", "name": "a"}, {"machine": "none"}, {"machine": "m", "name": "b"}]}"#;
    let (status, told) = ask(&stage, "POST /v1/executions:batch", many);
    let results: Vec<_> =
        told["items"].as_array().into_iter().flatten().map(|one| one["status"].as_u64()).collect();
    assert_eq!((status, results), (200, vec![Some(201), Some(404), Some(201)]), "{told}");
    for path in ["/v1/executions/m/a", "/v1/executions/m%2Fa"] {
        assert_eq!(ask(&stage, &format!("GET {path}"), "").1["name"], "a", "{path}");
    }
    assert_eq!(
        ask(&stage, "GET /v1/executions?limit=1&machine=m", "").1["items"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn numbers_of_a_document_are_not_rounded() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    ask(&stage, "PUT /v1/machines/m", PASS);
    ask(
        &stage,
        "POST /v1/executions",
        r#"{"machine": "m", "name": "n", "input": {"a": 12345678901234567890123}}"#,
    );
    let (_, body) = stage.http(Method::GET, "/v1/executions/m/n", None);
    let text = String::from_utf8(body).expect("it is text");
    assert!(
        text.contains(r#""input":{"a": 12345678901234567890123}"#)
            || text.contains(r#""input":{"a":12345678901234567890123}"#),
        "{text}"
    );
}

#[test]
fn what_is_wrong_is_told_as_a_problem_with_a_code() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    for (line, body, status, code) in [
        ("GET /v1/nothing", "", 404, "notFound"),
        ("PATCH /v1/executions", "", 405, "wrongMethod"),
        ("GET /v1/executions?color=red", "", 400, "invalid"),
        ("GET /v1/executions?status=DONE", "", 400, "invalid"),
        ("GET /v1/executions?limit=1&limit=2", "", 400, "invalid"),
        ("GET /v1/executions?cursor=zzz", "", 400, "invalid"),
        ("GET /v1/executions", "{}", 400, "invalid"),
        ("POST /v1/executions", "{", 415, "notJson"),
        ("POST /v1/executions", "[]", 400, "invalid"),
        ("POST /v1/executions", "{}", 400, "invalid"),
        ("POST /v1/executions", r#"{"machine": 5}"#, 400, "invalid"),
        ("POST /v1/executions", r#"{"machine": "m", "colour": "red"}"#, 400, "invalid"),
        ("POST /v1/executions", r#"{"machine": "m"}"#, 404, "notFound"),
        ("GET /v1/executions/m/%ff", "", 400, "invalid"),
        ("GET /v1/executions/none", "", 404, "notFound"),
    ] {
        let (found, told) = ask(&stage, line, body);
        assert_eq!((found, &told["code"]), (status, &json!(code)), "{line} {body}: {told}");
    }
}

#[test]
fn every_operation_is_in_the_openapi_document_and_refuses_members_that_it_does_not_know() {
    let tokio = tokio();
    let stage = Stage::new(&tokio, With::default(), Mode::Served);
    let document = openapi::document();
    for operation in OPERATIONS {
        let method = operation.method.name();
        let told = &document["paths"][operation.path][method.to_ascii_lowercase()];
        assert_eq!(told["operationId"], operation.name);
        if let Reads::Members(_) = operation.reads {
            let path = operation.path.replace(['{', '}'], "");
            let (status, told) = ask(&stage, &format!("{method} {path}"), r#"{"no such": 1}"#);
            assert_eq!((status, &told["code"]), (400, &json!("invalid")), "{}: {told}", operation.name);
        }
    }
    assert_eq!(ask(&stage, "GET /openapi.json", "").1, document);
}

/// `UPDATE=1 cargo test -p perdura-server the_page_of_the_api` writes it anew; a person reads the diff.
#[test]
fn the_page_of_the_api_is_made_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
    let written = std::fs::read_to_string(path).expect("the page is there");
    let (own, _) = written.split_once("## Operations").expect("it has the lists");
    let made = format!("{own}{}", page::lists());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &made).expect("the page can be written");
    } else {
        assert!(written == made, "docs/api.md is not what the table says: UPDATE=1 writes it anew");
    }
}
