use super::*;
use crate::arguments::Arguments;
use clap::CommandFactory;
use std::collections::BTreeMap;
use std::path::Path;

fn settings(flags: Flags, variables: &[(&str, &str)], text: &str) -> Settings {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let file = File::read(Path::new("/etc/perdura.toml"), text).unwrap();
    Settings { flags, environment: Box::new(move |name| variables.get(name).cloned()), file: Some(file) }
}

#[test]
fn a_flag_counts_before_a_variable_before_the_file_before_the_default() {
    let (variable, text) = ([("PERDURA_LISTEN", "127.0.0.1:2")], "[serve]\nlisten = '127.0.0.1:3'\n");
    let flag = || vec![(&LISTEN, "127.0.0.1:1".to_owned())];
    for (flags, variables, text, port, origin) in [
        (flag(), &variable[..], text, 1, "--listen"),
        (Vec::new(), &variable[..], text, 2, "PERDURA_LISTEN"),
        (Vec::new(), &[], text, 3, "/etc/perdura.toml:2"),
        (Vec::new(), &[], "", 8083, "default"),
    ] {
        let settings = settings(flags, variables, text);
        assert_eq!(settings.listen().unwrap().port(), port, "{origin}");
        assert!(settings.decide(&LISTEN).origin.to_string().ends_with(origin), "{origin}");
    }
}

#[test]
fn a_path_in_the_file_belongs_to_its_folder() {
    let settings = settings(Vec::new(), &[], "data = 'd'");
    assert_eq!(settings.data(), Path::new("/etc/d"));
}

#[test]
fn retention_has_its_units() {
    let text = "[retention]\nended_days = 7\nledger_hours = 0.5\nbytes_max = 1000\naudit_days = 800";
    let keep = settings(Vec::new(), &[], text).keep().unwrap();
    let expected = Keep {
        ended_for: Duration::from_hours(7 * 24),
        ledger_for: Duration::from_mins(30),
        bytes_max: Some(1000),
        audit_for: Duration::from_hours(800 * 24),
    };
    assert_eq!(keep, expected);
    assert_eq!(settings(Vec::new(), &[], "").keep().unwrap(), Keep::default());
}

#[test]
fn a_name_that_means_nothing_is_refused_with_its_line_and_the_nearest() {
    for (text, expected) in [
        ("\n[server]\nlisten = '1'", "line 2: there is no setting \"server\"; did you mean \"serve\"?"),
        (
            "[serve]\n\nlisen = '1'",
            "line 3: there is no setting \"serve.lisen\"; did you mean \"serve.listen\"?",
        ),
        ("listen = '1'", "line 1: there is no setting \"listen\"; did you mean \"serve.listen\"?"),
        ("[function.a]", "line 1: there is no setting \"function\"; did you mean \"functions\"?"),
        ("xyz = 1", "line 1: there is no setting \"xyz\""),
        ("[connections]\nkey = 'secret'", "line 2: there is no setting \"connections.key\""),
        ("[data]\na = 1", "line 1: data is to be one value"),
        ("serve = 1", "line 1: there is no setting \"serve\""),
        ("[serve", "TOML parse error at line 1"),
    ] {
        let error = format!("{:#}", check_names(text).unwrap_err());
        assert!(error.contains(expected), "{text}: {error}");
    }
    check_names("data = 'x'\n[functions.a]\ncommand = ['a']\n[[destinations]]\nhost = 'b'").unwrap();
}

#[test]
fn a_wrong_value_is_refused_with_the_place_it_came_from() {
    let variables = [("PERDURA_GRACE", "10"), ("PERDURA_RETENTION_ENDED_DAYS", "-1")];
    let settings = settings(Vec::new(), &variables, "[serve]\nlisten = 'here'\nlog_format = 'xml'");
    for (error, expected) in [
        (settings.grace().unwrap_err(), "PERDURA_GRACE is \"10\""),
        (settings.listen().unwrap_err(), "/etc/perdura.toml:2 is \"here\""),
        (
            settings.log_format().map(drop).unwrap_err(),
            "/etc/perdura.toml:3 is \"xml\", and is to be: text or json",
        ),
        (settings.keep().unwrap_err(), "PERDURA_RETENTION_ENDED_DAYS is \"-1\""),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn headers_are_read_as_opentelemetry_writes_them_and_never_repeated() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20c2VjcmV0, x=a=b"),
    ];
    let telemetry = settings(Vec::new(), &variables, "").telemetry().unwrap().unwrap();
    assert_eq!((&*telemetry.endpoint, &*telemetry.service), ("http://127.0.0.1:4318", "perdura"));
    let expected = [("authorization", "Basic c2VjcmV0"), ("x", "a=b")];
    assert_eq!(telemetry.headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let wrong = [variables[0], ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")];
    let error = settings(Vec::new(), &wrong, "").telemetry().map(drop).unwrap_err();
    assert!(!format!("{error:#}").contains("hunter2"));
}

#[test]
fn every_flag_of_the_table_is_one_of_config_and_says_its_default() {
    let command = Arguments::command();
    let config = command.find_subcommand("config").unwrap();
    let flags: Vec<String> =
        config.get_arguments().filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect();
    for setting in TABLE.iter().filter(|setting| setting.flag.is_some()) {
        let flag = setting.flag.unwrap();
        assert!(flags.iter().any(|known| known == flag), "{flag}");
        let argument =
            config.get_arguments().find(|argument| argument.get_long() == Some(&flag[2..])).unwrap();
        let help = argument.get_help().unwrap().to_string();
        let is_said = setting.default.is_none_or(|default| default == "false" || help.contains(default));
        assert!(is_said, "{flag}: {help}");
    }
    let known = |flag: &String| flag == "--json" || TABLE.iter().any(|setting| setting.flag == Some(&**flag));
    assert!(flags.iter().all(known), "{flags:?}");
}

#[test]
fn the_docs_list_every_setting_with_all_its_names() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let docs = std::fs::read_to_string(path).unwrap();
    for setting in TABLE {
        let row = docs.lines().find(|line| line.starts_with(&format!("| `{}` |", setting.name)));
        let row = row.unwrap_or_else(|| panic!("docs/configuration.md has no row for {}", setting.name));
        let expected = [Some(setting.variable), setting.flag, setting.default, Some(setting.help)];
        for part in expected.into_iter().flatten() {
            assert!(row.contains(part), "{}: {part} is not in {row}", setting.name);
        }
    }
    let section = docs.split("## The settings").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let unknown: Vec<&str> =
        names.filter(|name| !TABLE.iter().any(|setting| setting.name == *name)).collect();
    assert!(unknown.is_empty(), "docs/configuration.md has rows for what is no setting: {unknown:?}");
}
