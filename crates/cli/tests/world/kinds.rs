//! Machines that call a receiver in every way there is, and how the ways are configured.

use serde_json::{Value, json};
use std::net::SocketAddr;

/// How many items a Map has.
const ITEMS: usize = 5;

/// Which receiver is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// The one that honours keys.
    A,
    /// The one that does not, where what is uncertain is held.
    B,
}

impl To {
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// A way to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function that is a URL.
    Url,
    /// An HTTP Task.
    Http,
    /// A function that is a local command.
    Command,
    /// An activity.
    Activity,
    /// A child execution, waited for.
    Child,
    /// A Distributed Map.
    Map,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Url, Self::Http, Self::Command, Self::Activity, Self::Child, Self::Map];

    fn word(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Http => "http",
            Self::Command => "command",
            Self::Activity => "activity",
            Self::Child => "child",
            Self::Map => "map",
        }
    }

    /// How many of 200 executions are of this kind. Processes are slow to start, so there are few commands.
    pub(crate) fn share(self, to: To) -> usize {
        match (self, to) {
            (Self::Url, To::A) => 60,
            (Self::Http, To::A) => 50,
            (Self::Url | Self::Http, To::B) => 20,
            (Self::Activity, To::A) => 16,
            (Self::Activity, To::B) | (Self::Child, To::A) => 8,
            (Self::Command, To::A) | (Self::Child, To::B) | (Self::Map, _) => 4,
            (Self::Command, To::B) => 2,
        }
    }

    /// The machine, which is also the name of its function or activity.
    pub(crate) fn machine(self, to: To) -> String {
        format!("{}-{}", self.word(), to.letter())
    }

    /// The definition, for a receiver at this address.
    pub(crate) fn definition(self, to: To, at: SocketAddr) -> String {
        let call = self.task(to, at);
        json!({ "StartAt": "Call", "States": { "Call": call } }).to_string()
    }

    fn task(self, to: To, at: SocketAddr) -> Value {
        let function = |name: &str| format!("arn:aws:lambda:us-east-1:123456789012:function:{name}");
        let states = |name: &str| format!("arn:aws:states:us-east-1:123456789012:{name}");
        let mut task = match self {
            Self::Url => json!({ "Resource": function(&self.machine(to)), "TimeoutSeconds": 2 }),
            Self::Http => json!({
                "Resource": "arn:aws:states:::http:invoke",
                "Parameters":
                    { "ApiEndpoint": format!("http://{at}/"), "Method": "POST", "RequestBody.$": "$" },
                "TimeoutSeconds": 2,
            }),
            Self::Command => json!({ "Resource": function(&self.machine(to)), "TimeoutSeconds": 5 }),
            Self::Activity => json!({
                "Resource": states(&format!("activity:{}", self.machine(to))), "TimeoutSeconds": 3,
                "HeartbeatSeconds": 1,
            }),
            Self::Child => json!({
                "Resource": "arn:aws:states:::states:startExecution.sync:2",
                "Parameters":
                    { "StateMachineArn": states(&format!("stateMachine:{}", Self::Url.machine(to))), "Input.$": "$" },
            }),
            Self::Map => {
                return json!({
                    "Type": "Map",
                    "ItemsPath": "$.items",
                    "ItemProcessor": {
                        "ProcessorConfig": { "Mode": "DISTRIBUTED", "ExecutionType": "STANDARD" },
                        "StartAt": "CallOne",
                        "States": { "CallOne": Self::Url.task(to, at) },
                    },
                    "End": true,
                });
            }
        };
        task["Type"] = "Task".into();
        task["End"] = true.into();
        // In the end everything succeeds: what fails is tried again, within a second.
        task["Retry"] = json!([{ "ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "BackoffRate": 1.0,
            "JitterStrategy": "FULL", "MaxAttempts": 1000 }]);
        task
    }
}

/// The functions, and that nothing is repeated at the second receiver of which nobody knows whether it was done.
pub(crate) fn config(a: SocketAddr, b: SocketAddr) -> String {
    let of = |to: To, at: SocketAddr| {
        let [url, command] = [Kind::Url, Kind::Command].map(|kind| kind.machine(to));
        let port = at.port();
        format!(
            "[functions.{url}]\nurl = 'http://{at}/'\n\
             [functions.{command}]\ncommand = ['bash', 'call.sh', '{port}']\nrefused = ['Declined']\n"
        )
    };
    let hold =
        |field: &str, value: &str| format!("[[destinations]]\n{field} = '{value}'\nuncertain = 'hold'\n");
    let activity =
        format!("arn:aws:states:us-east-1:123456789012:activity:{}", Kind::Activity.machine(To::B));
    [
        of(To::A, a),
        of(To::B, b),
        hold("host", &b.to_string()),
        hold("resource", &Kind::Command.machine(To::B)),
        hold("resource", &activity),
    ]
    .concat()
}

/// The command: it posts its input to a port and says by name that it was refused. Where nobody knows, it ends with an
/// exit code or dies. It has no input if the server was killed between starting it and handing the input over.
pub(crate) const CALL: &str = r#"
read -r body
[ -n "$body" ] || exit 1
exec 3<> "/dev/tcp/127.0.0.1/$1" || exit 1
printf 'POST / HTTP/1.1\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s' \
    "$PERDURA_IDEMPOTENCY_KEY" "${#body}" "$body" >&3
read -r _ status _ <&3
while read -r line <&3 && [ "$line" != $'\r' ]; do :; done
read -r -d '}' answer <&3 && case $status in
    200) printf '%s}' "$answer"; exit 0 ;;
    400) echo '{"errorType": "Declined"}'; exit 1 ;;
    303 | 500) echo 'nobody knows' >&2; exit 3 ;;
esac
kill -9 $$
"#;

/// An execution to be started.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) to: To,
    pub(crate) machine: String,
    pub(crate) name: String,
    pub(crate) input: Value,
    /// What is to be done, once each.
    pub(crate) deeds: Vec<String>,
}

impl Wanted {
    pub(crate) fn new(kind: Kind, to: To, number: usize) -> Self {
        let machine = kind.machine(to);
        let name = format!("{machine}-{number}");
        let deeds: Vec<String> = match kind {
            Kind::Map => (0..ITEMS).map(|item| format!("{name}.{item}")).collect(),
            Kind::Url | Kind::Http | Kind::Command | Kind::Activity | Kind::Child => vec![name.clone()],
        };
        let mut inputs: Vec<Value> = deeds.iter().map(|deed| json!({ "deed": deed })).collect();
        let input = match kind {
            Kind::Map => json!({ "items": inputs }),
            Kind::Url | Kind::Http | Kind::Command | Kind::Activity | Kind::Child => inputs.remove(0),
        };
        Self { to, machine, name, input, deeds }
    }

    /// As it is asked for.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.machine, self.name)
    }
}
