//! The resource of a Task, parsed from its `Resource`.

mod integration;
mod kind;

pub use kind::{Doer, TaskKind};

use std::sync::Arc;

/// A parsed `Resource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The ARN as written.
    pub arn: Arc<str>,
    pub target: Target,
    pub kind: TaskKind,
    /// How its end is awaited.
    pub pattern: Pattern,
}

/// The kinds of targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `arn:aws:lambda:…:function:NAME`: a function, the old short form with a history family of its own.
    Function {
        /// The function's name, without version or alias.
        name: Arc<str>,
    },
    /// `arn:aws:states:…:activity:NAME`
    Activity {
        /// The activity's name.
        name: Arc<str>,
    },
    /// `arn:aws:states:::SERVICE:ACTION[.PATTERN]`
    Service {
        /// `lambda`, `states`, `http`, `aws-sdk:dynamodb`, …: the history's `resourceType`.
        service: Arc<str>,
        /// `invoke`, `startExecution.sync:2`, …: the history's `resource`.
        action: Arc<str>,
    },
    /// `arn:perdura:step:::NAME`: a function of the program that embeds us.
    Step {
        /// The registered name.
        name: Arc<str>,
    },
}

/// How the end of a task is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The answer is the result.
    RequestResponse,
    /// `.sync` and `.sync:2`: until the job is done.
    Sync,
    /// `.waitForTaskToken`: until a holder returns the token.
    Callback,
    /// Until the worker that took it answers: an activity.
    Worker,
}

impl Pattern {
    /// Whether an answer needs a token.
    pub fn has_token(self) -> bool {
        match self {
            Self::Sync | Self::Callback | Self::Worker => true,
            Self::RequestResponse => false,
        }
    }

    /// Whether it is handed over first, and ends later.
    pub fn is_handed_over(self) -> bool {
        match self {
            Self::Sync | Self::Callback => true,
            Self::RequestResponse | Self::Worker => false,
        }
    }
}

impl Resource {
    /// The target's name in Step Functions' error about data that is too large: a service by its name, any other by its
    /// ARN.
    pub fn whose(&self) -> &str {
        match &self.target {
            Target::Service { service, .. } => service,
            Target::Function { .. } | Target::Activity { .. } | Target::Step { .. } => &self.arn,
        }
    }

    /// Reads an ARN. `None`: not a resource that the States Language knows.
    pub fn parse(arn: &str) -> Option<Self> {
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let &["arn", partition, service, _region, _account, rest] = parts.as_slice() else { return None };
        let (kind, target, pattern) = match TaskKind::of_own(partition, service, rest) {
            Some(own) => own,
            None if service == "states" => called(rest)?,
            None => return None,
        };
        (!target.name().is_empty()).then(|| Self { arn: arn.into(), target, kind, pattern })
    }

    /// Whether AWS knows it: a function, an activity, an optimized integration with an existing pattern, or an SDK
    /// call. A step of our own counts too; whether it exists is checked when it is called.
    pub fn is_recognized(&self) -> bool {
        match &self.target {
            Target::Function { .. } | Target::Activity { .. } | Target::Step { .. } => true,
            Target::Service { service, action, .. } => integration::is_known(service, action),
        }
    }

    /// The arguments that AWS requires for a call of this service; empty if they are unknown.
    pub fn required_arguments(&self) -> &'static [&'static str] {
        match &self.target {
            Target::Function { .. } | Target::Activity { .. } | Target::Step { .. } => &[],
            Target::Service { service, action, .. } => integration::required_arguments(service, action),
        }
    }
}

impl Target {
    /// The name of the target, without a version or alias.
    fn name(&self) -> &str {
        match self {
            Self::Function { name } | Self::Activity { name } | Self::Step { name } => name,
            Self::Service { action, .. } => action,
        }
    }
}

/// Parses `SERVICE:ACTION`.
fn called(rest: &str) -> Option<(TaskKind, Target, Pattern)> {
    let of_api = rest.strip_prefix("aws-sdk:").unwrap_or(rest);
    let (_, action) = of_api.split_once(':')?;
    let service = &rest[..rest.len() - action.len() - 1];
    let pattern = match action.split_once('.').map(|(_, pattern)| pattern) {
        None => Pattern::RequestResponse,
        Some("sync" | "sync:2") => Pattern::Sync,
        Some("waitForTaskToken") => Pattern::Callback,
        Some(_) => return None,
    };
    let kind = TaskKind::of_call(service, action, pattern);
    let target = Target::Service { service: service.into(), action: action.into() };
    (!service.is_empty()).then_some((kind, target, pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_tells_service_action_and_pattern() {
        let read = |arn| Resource::parse(arn).map(|resource| (resource.target, resource.pattern));
        let target = |arn| read(arn).map(|(target, _)| target);
        let service = |service: &str, action: &str, pattern| {
            Some((Target::Service { service: service.into(), action: action.into() }, pattern))
        };
        assert_eq!(
            read("arn:aws:states:::lambda:invoke"),
            service("lambda", "invoke", Pattern::RequestResponse)
        );
        assert_eq!(
            read("arn:aws:states:::states:startExecution.sync:2"),
            service("states", "startExecution.sync:2", Pattern::Sync)
        );
        assert_eq!(
            read("arn:aws:states:::aws-sdk:sfn:startExecution"),
            service("aws-sdk:sfn", "startExecution", Pattern::RequestResponse)
        );
        assert_eq!(
            read("arn:aws:states:::sqs:sendMessage.waitForTaskToken"),
            service("sqs", "sendMessage.waitForTaskToken", Pattern::Callback)
        );
        assert_eq!(
            target("arn:aws:lambda:us-east-1:123456789012:function:charge:live"),
            Some(Target::Function { name: "charge".into() })
        );
        assert_eq!(target("arn:perdura:step:::charge"), Some(Target::Step { name: "charge".into() }));
        for bad in [
            "",
            "charge",
            "arn:aws:s3:::bucket",
            "arn:aws:states:::sqs:sendMessage.later",
            "arn:aws:states:::sqs",
        ] {
            assert_eq!(target(bad), None, "{bad}");
        }
    }
}
