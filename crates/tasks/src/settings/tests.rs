//! The meaning of tables, and the messages for mistakes.

use super::*;
use crate::functions::Program;
use std::sync::Arc;
use std::time::Duration;

fn check(text: &str) -> Result<Settings, String> {
    let tables: Tables = toml::from_str(text).map_err(|error| error.to_string())?;
    Settings::check(tables, Path::new("/here")).map_err(|error| error.to_string())
}

#[test]
fn a_function_is_a_command_a_url_or_a_name_at_the_endpoint() {
    let settings = check(
        r#"
        [functions.charge]
        command = ["./charge", "-v"]
        timeout_seconds = 1.5
        [functions."ship it"]
        command = ["python3"]
        [functions.bill]
        url = "https://bill.example/run"
        [functions.mail]
        lambda = "mailing:live"
        [lambda]
        endpoint = "http://127.0.0.1:9001"
        [commands]
        at_once = 4
        [http]
        allow = ["169.254.169.254"]
        at_once = 100
        at_once_each = 10
        "#,
    )
    .unwrap();
    let program = |path: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Means::Command(Arc::new(Program {
            path: path.into(),
            arguments,
            folder: "/here".into(),
            ..Program::default()
        }))
    };
    let short = Some(Duration::from_millis(1500));
    for (name, means, timeout) in [
        ("charge", program("/here/./charge", &["-v"]), short),
        ("ship it", program("python3", &[]), None),
        ("bill", Means::Url(Url::parse("https://bill.example/run").unwrap()), None),
        ("mail", Means::Lambda(Qualified { name: "mailing".into(), qualifier: Some("live".into()) }), None),
    ] {
        assert_eq!(settings.functions[name], Function { means, timeout }, "{name}");
    }
    assert_eq!(settings.commands, Share { roof: 4, each: 2 });
    assert_eq!(settings.calls, Share { roof: 100, each: 10 });
    assert!(settings.guard.judge([169, 254, 169, 254].into()).is_ok());
    assert!(settings.has_function("anything"), "the endpoint is asked for it");
    assert!(check("[functions.a]\ncommand = ['a']").unwrap().has_function("arn:aws:lambda:r:1:function:a:7"));
    assert!(!check("[functions.a]\ncommand = ['a']").unwrap().has_function("b"));
}

#[test]
fn lambda_is_at_its_own_address_or_at_that_of_all_services() {
    let endpoint = |text: &str| check(text).unwrap().lambda_endpoint.map(|url| url.to_string());
    let all = "[aws]\nendpoint = 'http://all'";
    for (text, expected) in [
        ("", None),
        (all, Some("http://all/")),
        (&format!("{all}\n[aws.endpoints]\nlambda = 'http://one'"), Some("http://one/")),
        (&format!("{all}\n[lambda]\nendpoint = 'http://own'"), Some("http://own/")),
        ("[aws.endpoints]\nsqs = 'http://sqs'", None),
    ] {
        assert_eq!(endpoint(text).as_deref(), expected, "{text}");
    }
    assert!(check(&format!("{all}\n[functions.a]\nlambda = 'b'")).unwrap().has_function("a"));
}

#[test]
fn mistakes_are_named_with_their_table() {
    for (text, expected) in [
        ("[functions.a]", "functions.a: it is nothing yet: write command"),
        ("[functions.a]\ncommand = []", "functions.a: command is empty"),
        ("[functions.a]\ncommand = ['']", "functions.a: command is empty"),
        ("[functions.a]\ncommand = 'sh'", "expected a sequence"),
        ("[functions.a]\ncommand = ['sh']\nurl = 'http://a'", "functions.a: command, url and lambda exclude"),
        ("[functions.a]\ncommand = ['sh']\ntimeout = 5", "unknown field `timeout`"),
        ("[functions.a]\ncommand = ['sh']\ntimeout_seconds = 0", "functions.a: timeout_seconds is 0"),
        ("[functions.a]\ncommand = ['sh']\ntimeout_seconds = nan", "timeout_seconds is NaN"),
        ("[functions.a]\ncommand = ['sh']\nuncertain = 'guess'", "expected `retry` or `hold`"),
        ("[functions.a]\ncommand = ['sh']\nkey_memory = 24", "expected a string"),
        (
            "[functions.a]\ncommand = ['sh']\nkey_memory = '1y'",
            "functions.a: key_memory: write a number and a unit",
        ),
        ("[functions.a]\nurl = 'a.example/run'", "functions.a: url \"a.example/run\" is no URL"),
        ("[functions.a]\nurl = 'ftp://a.example'", "is no address of http or https"),
        (
            "[functions.a]\nurl = 'http://me:secret@a.example'",
            "url at a.example has a user or a password in it",
        ),
        ("[functions.a]\nlambda = 'b'", "functions.a: lambda needs an endpoint"),
        ("[functions.a]\nlambda = ''\n[lambda]\nendpoint = 'http://a'", "functions.a: lambda is empty"),
        ("[lambda]\nendpoint = 'a'", "lambda: endpoint \"a\" is no URL"),
        ("[lambda]\nregion = 'a'", "unknown field `region`"),
        ("[aws]\nendpoint = 'a'", "aws: endpoint \"a\" is no URL"),
        ("[aws]\nendpoints = 'a'", "invalid type: string"),
        ("[commands]\nat_once = 0", "commands: at_once is 0, and is to be 1 to 256"),
        ("[commands]\nat_once = 4\nat_once_each = 5", "commands: at_once_each is 5, and is to be 1 to 4"),
        ("[http]\nat_once = 100000", "http: at_once is 100000, and is to be 1 to 65536"),
        (
            "[commands]\nenv_pass = ['PERDURA_CONNECTION_KEY']",
            "commands: PERDURA_CONNECTION_KEY is not for commands",
        ),
        ("[functions.a]\ncommand = ['sh']\nenv = {'A=B' = 'secret'}", "functions.a: \"A=B\" is no name"),
        (
            "[functions.a]\nurl = 'http://a'\nenv = {A = 'secret'}",
            "functions.a: env and env_pass are for commands",
        ),
        ("[http]\nallow = ['1.2.3']", "http: allow: `1.2.3` is neither a host"),
    ] {
        let error = check(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
