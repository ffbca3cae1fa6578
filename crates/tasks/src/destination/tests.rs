//! Which call matches which destination, as a table.

use super::*;
use crate::settings::{Settings, Tables};
use std::path::Path;
use std::sync::Arc;

fn destinations(text: &str) -> Result<Destinations, String> {
    let tables: Tables = toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Settings::check(tables, Path::new("/"))
        .map(|settings| settings.destinations)
        .map_err(|error| error.to_string())
}

const FILE: &str = r#"
    [functions.pay]
    url = "https://pay.bank.example/v2/pay"
    [functions.held]
    url = "https://api.bank.example/v1/held"
    uncertain = "hold"
    refused = [403, "NoSuchAccount"]
    [functions.local]
    command = ["local"]
    refused = ["CardDeclined"]
    key_memory = "2h"

    [[destinations]]
    resource = "arn:aws:lambda:us-east-1:123456789012:function:exact"
    header = "X-Exact"
    [[destinations]]
    resource = "mailer"
    header = "X-Mailer"
    [[destinations]]
    host = "api.bank.example"
    path = "/v1/"
    header = "X-V1"
    refused = [402, "CardDeclined"]
    done = [409]
    ambiguous = [400]
    [[destinations]]
    host = "API.bank.example"
    header = "X-Api"
    [[destinations]]
    host = "*.bank.example"
    header = "X-Bank"
    [[destinations]]
    host = "127.0.0.1:8080"
    header = "X-Port"
    [[destinations]]
    host = "[::1]"
    header = "X-Six"
    [[destinations]]
    resource = "arn:aws:states:us-east-1:123456789012:activity:approve"
    uncertain = "hold"
    key_memory = "90m"
    header = "X-Activity"
    [[destinations]]
    resource = "arn:aws:states:::lambda:invoke"
    header = "X-Invoke"
"#;

#[test]
fn the_first_that_matches_in_the_order_of_the_file_counts() {
    let found = destinations(FILE).unwrap();
    let http = |endpoint: &str| {
        ("arn:aws:states:::http:invoke".to_owned(), format!(r#"{{"ApiEndpoint": "{endpoint}"}}"#))
    };
    let bare =
        |name: &str| (format!("arn:aws:lambda:us-east-1:123456789012:function:{name}"), "{}".to_owned());
    let invoke = |name: &str| {
        ("arn:aws:states:::lambda:invoke".to_owned(), format!(r#"{{"FunctionName": "{name}"}}"#))
    };
    for ((arn, input), header) in [
        (http("https://api.bank.example/v1/pay"), "x-v1"),
        (http("https://API.BANK.example/v1/pay?x=1"), "x-v1"),
        (http("https://api.bank.example/v2/../v1/pay"), "x-v1"),
        (http("https://api.bank.example/v10/pay"), "x-api"),
        (http("https://api.bank.example"), "x-api"),
        (http("https://deep.api.bank.example/v1/pay"), "x-bank"),
        (http("https://bank.example/"), "idempotency-key"),
        (http("https://notbank.example/"), "idempotency-key"),
        (http("http://127.0.0.1:8080/x"), "x-port"),
        (http("http://127.0.0.1:8081/x"), "idempotency-key"),
        (http("http://[::1]:9/x"), "x-six"),
        (http("no address"), "idempotency-key"),
        (("arn:aws:states:::http:invoke".into(), "5".into()), "idempotency-key"),
        (bare("exact"), "x-exact"),
        (bare("exact:live"), "x-exact"),
        (bare("exactly"), "idempotency-key"),
        (invoke("exact"), "x-invoke"),
        (bare("mailer:7"), "x-mailer"),
        (invoke("mailer"), "x-mailer"),
        (invoke("pay"), "x-bank"),
        (bare("pay"), "x-bank"),
        (bare("held"), "x-v1"),
        (bare("local"), "idempotency-key"),
        (("arn:aws:states:us-east-1:123456789012:activity:approve".into(), "{}".into()), "x-activity"),
        (("arn:aws:states:us-east-1:123456789012:activity:other".into(), "{}".into()), "idempotency-key"),
        (("arn:perdura:step:::mailer".into(), "{}".into()), "idempotency-key"),
    ] {
        let resource = Resource::parse(&arn).unwrap();
        let input = Payload::from_text(input).unwrap();
        assert_eq!(found.find(&resource, &input).header.as_str(), header, "{arn} {input}");
    }
}

#[test]
fn a_destination_says_what_holds_there_and_a_function_says_more_for_itself() {
    use perdura_engine::Uncertain::{Hold, Retry};
    let found = destinations(FILE).unwrap();
    let day = 86_400_000;
    let statuses: BTreeMap<_, _> =
        [(400, Verdict::Ambiguous), (402, Verdict::Refused), (403, Verdict::Refused), (409, Verdict::Done)]
            .into();
    let both = &["CardDeclined", "NoSuchAccount"][..];
    for (arn, uncertain, key_memory_ms, refused, statuses) in [
        ("arn:aws:lambda:r:1:function:pay", Retry, day, &[][..], BTreeMap::new()),
        ("arn:aws:lambda:r:1:function:held", Hold, day, both, statuses),
        ("arn:aws:lambda:r:1:function:local", Retry, 7_200_000, &both[..1], BTreeMap::new()),
        ("arn:aws:states:us-east-1:123456789012:activity:approve", Hold, 5_400_000, &[], BTreeMap::new()),
        ("arn:aws:states:::sqs:sendMessage", Retry, day, &[], BTreeMap::new()),
    ] {
        let refused = refused.iter().map(|name| Arc::from(*name)).collect();
        let found = found.find(&Resource::parse(arn).unwrap(), &Payload::default());
        assert_eq!(
            (&found.policy, &found.statuses),
            (&Policy { uncertain, key_memory_ms, refused }, &statuses),
            "{arn}"
        );
    }
}

#[test]
fn mistakes_are_named_with_what_to_write() {
    for (entry, expected) in [
        ("", "destinations, number 1 in the file: nobody is named: write host ="),
        ("path = '/v1/'", "path needs a host"),
        ("host = 'a'\npath = 'v1'", "path is \"v1\", and is to begin with a slash"),
        ("host = 'a'\nresource = 'b'", "resource goes without host and path"),
        ("resource = ''", "resource is empty"),
        ("host = 'https://a.example'", "host \"https://a.example\" is more than a host"),
        ("host = 'a.example/v1'", "has a path"),
        ("host = 'a.*.example'", "has a star that is not its beginning"),
        ("host = 'a b'", "host \"a b\" is none"),
        ("host = 'a'\nheader = 'no header'", "header \"no header\" is no name of a header"),
        ("host = 'a'\nkey_memory = '24'", "key_memory: write a number and a unit"),
        ("host = 'a'\nrefused = [200]", "200 cannot be given a meaning"),
        ("host = 'a'\nrefused = ['']", "refused has \"\", which is no name of an error"),
        ("host = 'a'\nrefused = ['States.Timeout']", "refused has States.Timeout, which is no refusal"),
        ("host = 'a'\nrefused = ['Runtime.ExitError']", "List errors that the receiver names itself"),
        ("host = 'a'\nrefused = [409]\ndone = [409]", "409 is in two of refused, done and ambiguous"),
    ] {
        let found = destinations(&format!("[[destinations]]\n{entry}")).expect_err(entry);
        assert!(found.contains(expected), "{entry}: {found}");
    }
    let second = "[[destinations]]\nhost = 'a'\n[[destinations]]\npath = '/'";
    assert!(destinations(second).unwrap_err().starts_with("destinations, number 2 in the file"));
}
