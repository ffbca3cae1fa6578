//! The one table of all settings.

/// A setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its name, and its place in `perdura.toml` unless it is not allowed there.
    pub(crate) name: &'static str,
    pub(crate) in_file: bool,
    pub(crate) flag: Option<&'static str>,
    pub(crate) variable: &'static str,
    pub(crate) default: Option<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

/// The kind of a value, for displaying and resolving it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// In the file, it is relative to the file's folder.
    Path,
    /// Never shown.
    Secret,
}

const USUAL: Setting =
    Setting { name: "", in_file: true, flag: None, variable: "", default: None, kind: Kind::Text, help: "" };

pub(crate) static CONFIG: Setting = Setting {
    name: "config",
    in_file: false,
    flag: Some("--config"),
    variable: "PERDURA_CONFIG",
    kind: Kind::Path,
    help: "the configuration file; without it perdura.toml beside the definition (`run`) or in the current folder",
    ..USUAL
};

pub(crate) static DATA: Setting = Setting {
    name: "data",
    flag: Some("--data"),
    variable: "PERDURA_DATA",
    default: Some("./perdura-data"),
    kind: Kind::Path,
    help: "the data directory; `run` keeps nothing unless the flag is given",
    ..USUAL
};

pub(crate) static ENDPOINT: Setting = Setting {
    name: "endpoint",
    // The file is the server's own, and does not configure other servers for commands.
    in_file: false,
    flag: Some("--endpoint"),
    variable: "PERDURA_ENDPOINT",
    help: "a server with the Step Functions API that commands ask in the place of a data directory",
    ..USUAL
};

pub(crate) static SERVER: Setting = Setting {
    name: "server",
    in_file: false,
    flag: Some("--server"),
    variable: "PERDURA_SERVER",
    help: "a perdura server that commands ask in the place of a data directory",
    ..USUAL
};

pub(crate) static TOKEN_FILE: Setting = Setting {
    name: "token_file",
    in_file: false,
    flag: Some("--token-file"),
    variable: "PERDURA_TOKEN_FILE",
    kind: Kind::Path,
    help: "a file with the token for that server",
    ..USUAL
};

pub(crate) static STRICT: Setting = Setting {
    name: "strict",
    flag: Some("--strict"),
    variable: "PERDURA_STRICT",
    default: Some("false"),
    help: "whether AWS's limits and rules hold: true or false",
    ..USUAL
};

pub(crate) static LAMBDA_ENDPOINT: Setting = Setting {
    name: "lambda.endpoint",
    flag: Some("--lambda-endpoint"),
    variable: "PERDURA_LAMBDA_ENDPOINT",
    help: "a Lambda-compatible service, asked for every function that is not configured otherwise",
    ..USUAL
};

pub(crate) static LISTEN: Setting = Setting {
    name: "serve.listen",
    flag: Some("--listen"),
    variable: "PERDURA_LISTEN",
    default: Some("127.0.0.1:8083"),
    help: "where the server listens; other addresses than this machine's need access keys",
    ..USUAL
};

pub(crate) static ACCESS_KEY_FILE: Setting = Setting {
    name: "serve.access_key_file",
    flag: Some("--access-key-file"),
    variable: "PERDURA_ACCESS_KEY_FILE",
    kind: Kind::Path,
    help: "the file with the access keys that clients sign with: an id, a secret and perhaps a role on each line",
    ..USUAL
};

pub(crate) static ACCESS_KEYS: Setting = Setting {
    name: "serve.access_keys",
    in_file: false,
    variable: "PERDURA_ACCESS_KEYS",
    kind: Kind::Secret,
    help: "those keys themselves, where there is no file: ID:SECRET or ID:SECRET:ROLE, with commas between",
    ..USUAL
};

pub(crate) static HOSTS: Setting = Setting {
    name: "serve.hosts",
    variable: "PERDURA_HOSTS",
    help: "names beside localhost under which clients reach the server, with commas between",
    ..USUAL
};

pub(crate) static TRUSTED_PROXIES: Setting = Setting {
    name: "serve.trusted_proxies",
    variable: "PERDURA_TRUSTED_PROXIES",
    help: "addresses and networks of proxies whose X-Forwarded-For says who asks, with commas between",
    ..USUAL
};

pub(crate) static BACKUP_FOLDER: Setting = Setting {
    name: "serve.backup_folder",
    variable: "PERDURA_BACKUP_FOLDER",
    kind: Kind::Path,
    help: "the folder that /v1/backup writes to; without it, it writes nothing",
    ..USUAL
};

pub(crate) static TLS_CERTIFICATE_FILE: Setting = Setting {
    name: "serve.tls_certificate_file",
    variable: "PERDURA_TLS_CERTIFICATE_FILE",
    kind: Kind::Path,
    help: "the server's certificate in PEM, and those that lead to its authority; with it connections are TLS only",
    ..USUAL
};

pub(crate) static TLS_KEY_FILE: Setting = Setting {
    name: "serve.tls_key_file",
    variable: "PERDURA_TLS_KEY_FILE",
    kind: Kind::Path,
    help: "the key of that certificate in PEM; both are read again when they change",
    ..USUAL
};

pub(crate) static REVEAL_SECRETS: Setting = Setting {
    name: "serve.reveal_secrets",
    variable: "PERDURA_REVEAL_SECRETS",
    default: Some("false"),
    help: "whether TestState may show the secrets of connections: true or false",
    ..USUAL
};

pub(crate) static ACCOUNT: Setting = Setting {
    name: "aws.account",
    flag: Some("--account"),
    variable: "PERDURA_ACCOUNT",
    default: Some("123456789012"),
    help: "the account in all ARNs: 12 digits",
    ..USUAL
};

pub(crate) static REGION: Setting = Setting {
    name: "aws.region",
    flag: Some("--region"),
    variable: "PERDURA_REGION",
    default: Some("us-east-1"),
    help: "the region in all ARNs and signatures",
    ..USUAL
};

pub(crate) static PARTITION: Setting = Setting {
    name: "aws.partition",
    variable: "PERDURA_PARTITION",
    default: Some("aws"),
    help: "the partition in all ARNs",
    ..USUAL
};

/// How many there may be of what.
macro_rules! quota {
    ($constant:ident, $name:literal, $variable:literal, $default:expr, $help:literal) => {
        pub(crate) static $constant: Setting =
            Setting { name: $name, variable: $variable, default: $default, help: $help, ..USUAL };
    };
}

quota!(
    QUOTA_MACHINES,
    "quotas.state_machines",
    "PERDURA_QUOTA_STATE_MACHINES",
    Some("100000"),
    "how many state machines there may be"
);
quota!(
    QUOTA_ACTIVITIES,
    "quotas.activities",
    "PERDURA_QUOTA_ACTIVITIES",
    Some("100000"),
    "how many activities there may be"
);
quota!(
    QUOTA_EXECUTIONS,
    "quotas.executions",
    "PERDURA_QUOTA_EXECUTIONS",
    None,
    "how many executions may run at once; without it as many as there is room for"
);
quota!(
    QUOTA_POLLERS,
    "quotas.pollers",
    "PERDURA_QUOTA_POLLERS",
    Some("100000"),
    "how many workers may wait for tasks of one activity"
);
quota!(
    QUOTA_VERSIONS,
    "quotas.versions",
    "PERDURA_QUOTA_VERSIONS",
    Some("1000"),
    "how many versions a state machine may have"
);
quota!(
    QUOTA_ALIASES,
    "quotas.aliases",
    "PERDURA_QUOTA_ALIASES",
    Some("100"),
    "how many aliases a state machine may have"
);

pub(crate) static GRACE: Setting = Setting {
    name: "serve.grace",
    flag: Some("--grace"),
    variable: "PERDURA_GRACE",
    default: Some("10s"),
    help: "how long calls under way are waited for at the end",
    ..USUAL
};

pub(crate) static LOG: Setting = Setting {
    name: "serve.log",
    flag: Some("--log"),
    variable: "PERDURA_LOG",
    default: Some("info"),
    help: "what is logged: error, warn, info, debug, trace, also by room, as in perdura_runtime=debug",
    ..USUAL
};

pub(crate) static LOG_FORMAT: Setting = Setting {
    name: "serve.log_format",
    flag: Some("--log-format"),
    variable: "PERDURA_LOG_FORMAT",
    default: Some("text"),
    help: "how it is logged: text or json",
    ..USUAL
};

pub(crate) static EXECUTION_LOGS: Setting = Setting {
    name: "serve.execution_logs",
    variable: "PERDURA_EXECUTION_LOGS",
    kind: Kind::Path,
    help: "a folder for what machines want logged of their executions, where CloudWatch Logs has no address",
    ..USUAL
};

pub(crate) static RETENTION_ENDED: Setting = Setting {
    name: "retention.ended_days",
    variable: "PERDURA_RETENTION_ENDED_DAYS",
    default: Some("90"),
    help: "for how many days executions are kept after they ended",
    ..USUAL
};

pub(crate) static RETENTION_LEDGER: Setting = Setting {
    name: "retention.ledger_hours",
    variable: "PERDURA_RETENTION_LEDGER_HOURS",
    default: Some("24"),
    help: "for how many hours ledger rows are kept after their execution ended",
    ..USUAL
};

pub(crate) static RETENTION_BYTES: Setting = Setting {
    name: "retention.bytes_max",
    variable: "PERDURA_RETENTION_BYTES_MAX",
    help: "above so many bytes of data, the executions that ended first go",
    ..USUAL
};

pub(crate) static RETENTION_AUDIT: Setting = Setting {
    name: "retention.audit_days",
    variable: "PERDURA_RETENTION_AUDIT_DAYS",
    default: Some("400"),
    help: "for how many days entries of the audit are kept",
    ..USUAL
};

pub(crate) static AUDIT_READS: Setting = Setting {
    name: "audit.reads",
    variable: "PERDURA_AUDIT_READS",
    default: Some("true"),
    help: "whether the audit also says who was given stored inputs, results and histories",
    ..USUAL
};

pub(crate) static MEMORY_BYTES: Setting = Setting {
    name: "memory.bytes_max",
    variable: "PERDURA_MEMORY_BYTES_MAX",
    help: "above so many bytes of executions in memory, starts wait; without it a quarter of the memory that there is",
    ..USUAL
};

pub(crate) static CONNECTION_KEY_FILE: Setting = Setting {
    name: "connections.key_file",
    flag: Some("--connection-key-file"),
    variable: "PERDURA_CONNECTION_KEY_FILE",
    kind: Kind::Path,
    help: "the file with the key that connections are sealed with",
    ..USUAL
};

pub(crate) static CONNECTION_KEY: Setting = Setting {
    name: "connections.key",
    in_file: false,
    variable: "PERDURA_CONNECTION_KEY",
    kind: Kind::Secret,
    help: "that key itself, where there is no file",
    ..USUAL
};

pub(crate) static TELEMETRY_ENDPOINT: Setting = Setting {
    name: "telemetry.endpoint",
    variable: "OTEL_EXPORTER_OTLP_ENDPOINT",
    help: "where traces go, as OTLP over HTTP in JSON; without it nowhere",
    ..USUAL
};

pub(crate) static TELEMETRY_HEADERS: Setting = Setting {
    name: "telemetry.headers",
    variable: "OTEL_EXPORTER_OTLP_HEADERS",
    kind: Kind::Secret,
    help: "headers that go with them, as name=value with commas between",
    ..USUAL
};

pub(crate) static TELEMETRY_SERVICE: Setting = Setting {
    name: "telemetry.service_name",
    variable: "OTEL_SERVICE_NAME",
    default: Some("perdura"),
    help: "the service that traces name",
    ..USUAL
};

pub(crate) static TABLE: &[&Setting] = &[
    &CONFIG,
    &DATA,
    &ENDPOINT,
    &SERVER,
    &TOKEN_FILE,
    &STRICT,
    &LAMBDA_ENDPOINT,
    &LISTEN,
    &ACCESS_KEY_FILE,
    &ACCESS_KEYS,
    &HOSTS,
    &TRUSTED_PROXIES,
    &BACKUP_FOLDER,
    &TLS_CERTIFICATE_FILE,
    &TLS_KEY_FILE,
    &REVEAL_SECRETS,
    &GRACE,
    &LOG,
    &LOG_FORMAT,
    &EXECUTION_LOGS,
    &RETENTION_ENDED,
    &RETENTION_LEDGER,
    &RETENTION_BYTES,
    &RETENTION_AUDIT,
    &AUDIT_READS,
    &MEMORY_BYTES,
    &CONNECTION_KEY_FILE,
    &CONNECTION_KEY,
    &ACCOUNT,
    &REGION,
    &PARTITION,
    &QUOTA_MACHINES,
    &QUOTA_ACTIVITIES,
    &QUOTA_EXECUTIONS,
    &QUOTA_POLLERS,
    &QUOTA_VERSIONS,
    &QUOTA_ALIASES,
    &TELEMETRY_ENDPOINT,
    &TELEMETRY_HEADERS,
    &TELEMETRY_SERVICE,
];
