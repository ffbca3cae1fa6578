use super::*;

fn published(profile: Profile) -> Published {
    let promise = Promise::Protected {
        mode: "at_most_once",
        fingerprint: "raw",
        answer_for: Duration::from_hours(24),
        tombstone_for: Duration::ZERO,
        wait_for_max: Duration::from_millis(2_500),
        body_bytes_max: 1_048_576,
        answer_bytes_max: 65_536,
    };
    let route = |method: Method, template: &str, promise: &Promise| PublishedRoute {
        method,
        template: template.to_owned(),
        promise: promise.clone(),
    };
    Published {
        profile,
        key_versions: vec![4, 7],
        opaque_keys: false,
        stale_keys_refused: true,
        budgets: Budgets::default(),
        routes: vec![
            route(Method::POST, "/payments", &promise),
            route(Method::POST, "/search", &Promise::Exempt),
        ],
        undeclared: Some(promise),
    }
}

#[test]
fn the_policy_tells_keys_routes_budgets_and_each_reason_with_its_status() {
    for (profile, name, conflict) in [(Profile::Perdura, "perdura", 409), (Profile::Ietf, "ietf", 422)] {
        let policy = published(profile).policy();
        assert_eq!(policy["profile"], name);
        assert_eq!(policy["key"]["versions"], json!([4, 7]));
        assert_eq!(policy["key"]["stale_keys_refused"], true);
        assert_eq!(policy["routes"][0]["method"], "POST");
        assert_eq!(policy["routes"][0]["path"], "/payments");
        assert_eq!(policy["routes"][0]["retention_seconds"], 86_400);
        assert_eq!(policy["routes"][0]["wait_seconds_max"], 2.5);
        assert_eq!(policy["routes"][1], json!({ "method": "POST", "path": "/search", "mode": "exempt" }));
        assert_eq!(policy["undeclared_routes"]["mode"], "at_most_once");
        assert_eq!(policy["budgets_per_caller"]["window_seconds"], 60.0);
        let told: Vec<_> = policy["reasons"].as_array().unwrap().iter().collect();
        assert_eq!(told.len(), Reason::ALL.len());
        for (told, reason) in told.iter().zip(Reason::ALL) {
            assert_eq!(told["reason"], reason.name());
            assert_eq!(told["status"], reason.status(profile).as_u16());
            assert_eq!(told["next"], reason.next().name());
        }
        let of_conflict = told.iter().find(|told| told["reason"] == Reason::Conflict.name()).unwrap();
        assert_eq!(of_conflict["status"], conflict);
    }
}

#[test]
fn keys_of_any_form_are_published_as_such() {
    let published = Published { opaque_keys: true, ..published(Profile::Perdura) };
    assert_eq!(published.policy()["key"]["format"], "any");
    let schema = &published.openapi()["components"]["parameters"]["IdempotencyKey"]["schema"];
    assert_eq!(schema["maxLength"], 255);
    assert!(schema["pattern"].as_str().is_some_and(|pattern| !pattern.contains("{8}")), "{schema}");
}

#[test]
fn what_is_published_is_what_is_answered() {
    for profile in [Profile::Perdura, Profile::Ietf] {
        let published = published(profile);
        for reason in Reason::ALL {
            let answered = crate::problem::Problem::new(reason).into_response(profile);
            assert_eq!(answered.status(), reason.status(profile));
            let body = bytes_of(answered.into_body());
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), published.problem(reason));
        }
    }
}

/// The bytes of a complete body.
fn bytes_of(body: impl Into<axum::body::Body>) -> bytes::Bytes {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(axum::body::to_bytes(body.into(), 100_000)).unwrap()
}

#[test]
fn each_reason_status_and_header_is_in_the_description() {
    for profile in [Profile::Perdura, Profile::Ietf] {
        let components = &published(profile).openapi()["components"];
        for reason in Reason::ALL {
            let (name, status) = (reason.name(), reason.status(profile).as_u16());
            let problems = |response: &str| {
                components["responses"][response]["content"]["application/problem+json"]["examples"].clone()
            };
            let by_status = format!("Idempotency{status}");
            assert!(problems(&by_status)[name].is_object(), "{name} is in {by_status}");
            assert_eq!(problems(name).as_object().unwrap().len(), 1, "{name}");
            assert_eq!(components["examples"][name]["value"]["status"], status);
            let says_when = components["responses"][name]["headers"]["Retry-After"].is_object();
            assert_eq!(says_when, reason.tells_when(), "{name}");
            let known =
                components["schemas"]["IdempotencyProblem"]["properties"]["reason"]["enum"].as_array();
            assert!(known.unwrap().contains(&Value::from(name)));
        }
        let described = response_headers().map(|(name, ..)| name.to_ascii_lowercase());
        for exposed in crate::EXPOSED_HEADERS {
            assert!(described.contains(&exposed.to_string()), "{exposed}");
        }
        for (name, component, _, _) in response_headers() {
            assert!(components["headers"][component]["schema"].is_object(), "{name}");
        }
    }
}

#[test]
fn the_key_pattern_names_exactly_the_versions_that_are_accepted() {
    let parameter = published(Profile::Perdura).key_parameter();
    let pattern = parameter["schema"]["pattern"].as_str().unwrap();
    assert!(
        pattern.starts_with("^(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[47][0-9a-fA-F]{3}-[89abAB]"),
        "{pattern}"
    );
    assert!(pattern.contains("|\"[0-9a-fA-F]{8}-") && pattern.ends_with("{12}\")$"), "{pattern}");
    let example = uuid::Uuid::try_parse(parameter["example"].as_str().unwrap()).unwrap();
    assert!([4, 7].contains(&example.get_version_num()));
}

/// The required and the optional members of each kind of OpenAPI 3.1 object that is used here.
fn allowed(kind: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        "document" => (&["openapi", "info"], &["paths", "components", "webhooks", "servers", "tags"]),
        "info" => (&["title", "version"], &["summary", "description", "license", "contact"]),
        "components" => (
            &[],
            &[
                "schemas",
                "responses",
                "parameters",
                "examples",
                "requestBodies",
                "headers",
                "pathItems",
                "links",
            ],
        ),
        "parameters" => (&["name", "in", "schema"], &["description", "required", "deprecated", "example"]),
        "headers" => (&["schema"], &["description", "required", "deprecated", "example"]),
        "examples" => (&[], &["summary", "description", "value", "externalValue"]),
        "responses" => (&["description"], &["headers", "content", "links"]),
        "media" => (&[], &["schema", "example", "examples", "encoding"]),
        "pathItems" => (&[], &["summary", "description", "get", "parameters"]),
        "operation" => (&["responses"], &["summary", "description", "parameters", "operationId", "tags"]),
        "schemas" => (
            &[],
            &[
                "type",
                "description",
                "required",
                "properties",
                "format",
                "enum",
                "const",
                "pattern",
                "minimum",
                "maximum",
            ],
        ),
        other => panic!("{other} is not used here"),
    }
}

/// Checks an object's members, follows references, and checks nested objects.
fn check(document: &Value, kind: &str, value: &Value, at: &str) {
    let members = value.as_object().unwrap_or_else(|| panic!("{at} is an object"));
    if let Some(reference) = members.get("$ref") {
        assert_eq!(members.len(), 1, "{at}: beside a reference stands nothing");
        let reference = reference.as_str().unwrap();
        assert!(
            reference.starts_with(&format!("#/components/{kind}/")),
            "{at}: {reference} is of the kind {kind}"
        );
        assert!(document.pointer(&reference[1..]).is_some(), "{at}: {reference} is there");
        return;
    }
    let (required, optional) = allowed(kind);
    for name in required {
        assert!(members.contains_key(*name), "{at} has a {name}");
    }
    for name in members.keys() {
        assert!(required.contains(&name.as_str()) || optional.contains(&name.as_str()), "{at} has no {name}");
    }
    let each = |name: &str, kind: &str| {
        for (key, value) in members.get(name).and_then(Value::as_object).into_iter().flatten() {
            check(document, kind, value, &format!("{at}/{name}/{key}"));
        }
    };
    match kind {
        "document" => check(document, "info", &value["info"], "/info"),
        "components" => {
            for (section, components) in members {
                for name in components.as_object().unwrap().keys() {
                    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
                    assert!(name.bytes().all(is_plain), "{name} is a component's name");
                }
                each(section, section);
            }
        }
        "parameters" | "headers" => check(document, "schemas", &value["schema"], &format!("{at}/schema")),
        "pathItems" => check(document, "operation", &value["get"], &format!("{at}/get")),
        "operation" => {
            for parameter in value["parameters"].as_array().unwrap() {
                check(document, "parameters", parameter, &format!("{at}/parameters"));
                assert!(
                    parameter["in"] != "path" || parameter["required"] == true,
                    "{at}: a path has all its parts"
                );
            }
            let is_status = |code: &String| code.parse().is_ok_and(|code: u16| (100..600).contains(&code));
            assert!(value["responses"].as_object().unwrap().keys().all(is_status), "{at}");
            each("responses", "responses");
        }
        "responses" => {
            each("headers", "headers");
            each("content", "media");
        }
        "media" => {
            check(document, "schemas", &value["schema"], &format!("{at}/schema"));
            each("examples", "examples");
        }
        "schemas" => each("properties", "schemas"),
        _ => {}
    }
}

#[test]
fn the_description_has_the_shape_that_openapi_asks_for_and_its_references_lead_somewhere() {
    for profile in [Profile::Perdura, Profile::Ietf] {
        let document = published(profile).openapi();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
        check(&document, "document", &document, "");
        check(&document, "components", &document["components"], "/components");
        assert_eq!(document["components"]["parameters"]["IdempotencyKey"]["in"], "header");
    }
}

#[test]
fn each_example_fits_the_schema_of_the_problem() {
    let document = published(Profile::Perdura).openapi();
    let schema = &document["components"]["schemas"]["IdempotencyProblem"];
    for (name, example) in document["components"]["examples"].as_object().unwrap() {
        let members = example["value"].as_object().unwrap();
        for required in schema["required"].as_array().unwrap() {
            assert!(members.contains_key(required.as_str().unwrap()), "{name} has {required}");
        }
        for (member, value) in members {
            let schema = &schema["properties"][member];
            let fits = match schema["type"].as_str().unwrap_or_else(|| panic!("{member} has a type")) {
                "string" => value.is_string(),
                "integer" => {
                    let range = schema["minimum"].as_u64().unwrap()..=schema["maximum"].as_u64().unwrap();
                    value.as_u64().is_some_and(|number| range.contains(&number))
                }
                other => panic!("{other} is not used here"),
            };
            let listed = schema["enum"].as_array().is_none_or(|listed| listed.contains(value));
            assert!(fits && listed, "{name}: {member} is {value}");
        }
    }
}

#[test]
#[should_panic(expected = "has no in")]
fn the_shape_check_objects_to_a_header_that_says_where_it_is() {
    let mut document = published(Profile::Perdura).openapi();
    document["components"]["headers"]["RetryAfter"]["in"] = "header".into();
    check(&document, "components", &document["components"], "/components");
}

/// The documentation has the status and the next action of each reason.
#[test]
fn every_reason_has_its_row_in_the_documentation() {
    let page = include_str!("../../../../docs/idempotency.md");
    for reason in Reason::ALL {
        let name = format!("`{}`", reason.name());
        let rows: Vec<_> =
            page.lines().filter(|line| line.starts_with("| ") && line.contains(&name)).collect();
        let row = rows
            .iter()
            .map(|row| row.split('|').map(str::trim).collect::<Vec<_>>())
            .find(|cells| cells.len() == 6 && cells[2].contains(&name));
        let cells = row.unwrap_or_else(|| panic!("{name} has no row: {rows:?}"));
        assert!(cells[1].starts_with(&reason.status(Profile::Perdura).as_u16().to_string()), "{cells:?}");
        assert!(cells[3].starts_with(&format!("`{}`", reason.next().name())), "{cells:?}");
    }
}
