//! The kinds of tasks: how each is recognised, how its end is awaited, its name, and its performer.
//!
//! Code that depends on the kind of a task gets it from its [`Resource`](super::Resource), which finds its kind here.
//! So a new kind is a row of this table, and then the match arms that the compiler asks for.

use super::{Pattern, Target};

/// A kind of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// A function, by its ARN or by `lambda:invoke`.
    Function,
    /// `http:invoke`
    Http,
    /// Every other call of a service.
    Service,
    /// An activity.
    Activity,
    /// Another execution: `states:startExecution`.
    Child,
    /// A function of the program that embeds us.
    Step,
}

/// The performer of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doer {
    /// A called receiver.
    Callee,
    /// A worker that asks for it.
    Worker,
    /// The engine itself.
    Engine,
    /// The program that embeds us.
    Program,
}

struct Row {
    kind: TaskKind,
    name: &'static str,
    doer: Doer,
    forms: &'static [Form],
}

/// The form of a `Resource`.
enum Form {
    /// `arn:PARTITION:SERVICE:…:PREFIX…`; in any partition if none is given. The text after the prefix is the target.
    Own {
        partition: Option<&'static str>,
        service: &'static str,
        prefix: &'static str,
        target: fn(&str) -> Target,
        pattern: Pattern,
    },
    /// `arn:aws:states:::SERVICE:ACTION`, awaited in one of these ways.
    Call { service: &'static str, action: &'static str, patterns: &'static [Pattern] },
}

use Pattern::{Callback, RequestResponse, Sync};

/// In the order of lists.
const KINDS: [Row; 6] = [
    Row {
        kind: TaskKind::Function,
        name: "functions",
        doer: Doer::Callee,
        forms: &[
            Form::Own {
                partition: None,
                service: "lambda",
                prefix: "function:",
                // The text after the name is a version or an alias.
                target: |rest| Target::Function { name: rest.split(':').next().unwrap_or(rest).into() },
                pattern: RequestResponse,
            },
            Form::Call { service: "lambda", action: "invoke", patterns: &[RequestResponse, Callback] },
        ],
    },
    Row {
        kind: TaskKind::Http,
        name: "http:invoke",
        doer: Doer::Callee,
        forms: &[Form::Call { service: "http", action: "invoke", patterns: &[RequestResponse] }],
    },
    // Every call of no other kind.
    Row { kind: TaskKind::Service, name: "some services of AWS", doer: Doer::Callee, forms: &[] },
    Row {
        kind: TaskKind::Activity,
        name: "activities",
        doer: Doer::Worker,
        forms: &[Form::Own {
            partition: None,
            service: "states",
            prefix: "activity:",
            target: |name| Target::Activity { name: name.into() },
            pattern: Pattern::Worker,
        }],
    },
    Row {
        kind: TaskKind::Child,
        name: "child executions",
        doer: Doer::Engine,
        forms: &[Form::Call {
            service: "states",
            action: "startExecution",
            patterns: &[RequestResponse, Sync, Callback],
        }],
    },
    Row {
        kind: TaskKind::Step,
        name: "steps of this program",
        doer: Doer::Program,
        forms: &[Form::Own {
            partition: Some("perdura"),
            service: "step",
            prefix: "",
            target: |name| Target::Step { name: name.into() },
            pattern: RequestResponse,
        }],
    },
];

impl TaskKind {
    /// All kinds, in the order of lists.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|row| row.kind)
    }

    /// The name of this kind of tasks.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its performer.
    pub fn doer(self) -> Doer {
        self.row().doer
    }

    fn row(self) -> &'static Row {
        KINDS.iter().find(|row| row.kind == self).expect("the table has all kinds")
    }

    /// The kind of a call of a service.
    pub(super) fn of_call(service: &str, action: &str, pattern: Pattern) -> Self {
        let name = action.split('.').next().unwrap_or(action);
        let is_it = |form: &Form| match form {
            Form::Call { service: known, action, patterns } => {
                (*known, *action) == (service, name) && patterns.contains(&pattern)
            }
            Form::Own { .. } => false,
        };
        KINDS.iter().find(|row| row.forms.iter().any(is_it)).map_or(Self::Service, |row| row.kind)
    }

    /// The kind, the target and the pattern of a resource with a form of its own.
    pub(super) fn of_own(partition: &str, service: &str, rest: &str) -> Option<(Self, Target, Pattern)> {
        KINDS.iter().find_map(|row| {
            row.forms.iter().find_map(|form| match form {
                Form::Own { partition: own, service: known, prefix, target, pattern }
                    if *known == service && own.is_none_or(|own| own == partition) =>
                {
                    let rest = rest.strip_prefix(prefix)?;
                    Some((row.kind, target(rest), *pattern))
                }
                Form::Own { .. } | Form::Call { .. } => None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Resource;
    use super::*;

    #[test]
    fn each_resource_is_of_one_kind_and_somebody_does_it() {
        for (arn, kind, doer) in [
            ("arn:aws:lambda:us-east-1:123456789012:function:f:live", TaskKind::Function, Doer::Callee),
            ("arn:aws:states:::lambda:invoke", TaskKind::Function, Doer::Callee),
            ("arn:aws:states:::lambda:invoke.waitForTaskToken", TaskKind::Function, Doer::Callee),
            ("arn:aws:states:::lambda:invoke.sync", TaskKind::Service, Doer::Callee),
            ("arn:aws:states:::aws-sdk:lambda:invoke", TaskKind::Service, Doer::Callee),
            ("arn:aws:states:::http:invoke", TaskKind::Http, Doer::Callee),
            ("arn:aws:states:::http:invoke.waitForTaskToken", TaskKind::Service, Doer::Callee),
            ("arn:aws:states:::sqs:sendMessage", TaskKind::Service, Doer::Callee),
            ("arn:aws:states:us-east-1:123456789012:activity:a", TaskKind::Activity, Doer::Worker),
            ("arn:aws:states:::states:startExecution", TaskKind::Child, Doer::Engine),
            ("arn:aws:states:::states:startExecution.sync:2", TaskKind::Child, Doer::Engine),
            ("arn:aws:states:::states:startExecution.waitForTaskToken", TaskKind::Child, Doer::Engine),
            ("arn:aws:states:::aws-sdk:sfn:startExecution", TaskKind::Service, Doer::Callee),
            ("arn:perdura:step:::charge", TaskKind::Step, Doer::Program),
        ] {
            let found = Resource::parse(arn).unwrap_or_else(|| panic!("{arn}")).kind;
            assert_eq!((found, found.doer()), (kind, doer), "{arn}");
        }
        for wrong in ["arn:aws:step:::charge", "arn:aws:lambda:::layer:l", "arn:aws:lambda:::function:"] {
            assert_eq!(Resource::parse(wrong), None, "{wrong}");
        }
        assert_eq!(TaskKind::all().count(), KINDS.len());
    }
}
