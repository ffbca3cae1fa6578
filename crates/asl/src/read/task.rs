//! Task: the resource, its arguments, and its time limits.

use super::Reader;
use super::at::{At, quoted};
use super::paths::PathKind;
use super::state::Fields;
use super::template::{Sight, is_expression};
use super::value::Range;
use crate::machine::{Kind, MachineType, QueryLanguage, Scalar, Task, Template};
use crate::node::{Member, Node, find};
use crate::resource::{Pattern, Resource, Target, TaskKind};

/// The longest that a task may take.
const SECONDS: Range = Range::integer(1, Range::LONGEST);

impl<'n> Reader<'n> {
    pub(super) fn task(&mut self, fields: &Fields<'n, '_>) -> Option<Kind> {
        let at = fields.at;
        self.require(&["Resource"], fields.members, at);
        let resource =
            fields.get("Resource").and_then(|member| Some((self.resource(member, at)?, member.value.span)));
        let arguments = self.arguments(fields);
        let credentials = fields.get("Credentials").and_then(|member| self.credentials(member, at));
        let timeout = self.scalar(
            ["TimeoutSeconds", "TimeoutSecondsPath"],
            fields.members,
            at,
            SECONDS,
            PathKind::Reference,
        );
        let heartbeat = self.scalar(
            ["HeartbeatSeconds", "HeartbeatSecondsPath"],
            fields.members,
            at,
            SECONDS,
            PathKind::Reference,
        );
        self.check_heartbeat(fields, timeout.as_ref(), heartbeat.as_ref());
        let after = self.after(fields);
        let (resource, resource_span) = resource?;
        self.check_call(&resource, fields);
        Some(Kind::Task(Box::new(Task {
            resource,
            resource_span,
            arguments,
            credentials,
            timeout,
            heartbeat,
            after: after?,
        })))
    }

    fn resource(&mut self, member: &'n Member, at: &At<'_>) -> Option<Resource> {
        let (node, place) = (&member.value, at.member(member));
        let arn = self.string(node, &place)?;
        if !arn.starts_with("arn:") {
            let hint = if is_expression(arn) {
                "this field takes no expression"
            } else if arn.contains("${") {
                "this is a template's placeholder; what it stands for belongs here"
            } else {
                "an ARN begins with `arn:`"
            };
            self.findings.shape(&place, node.span, "Value is not a valid resource ARN").hint(hint);
            return None;
        }
        let resource = Resource::parse(arn).filter(Resource::is_recognized);
        let Some(resource) = resource else {
            self.unrecognized(node, arn, &place);
            return None;
        };
        if self.outline.flow(self.here()).machine_type == MachineType::Express {
            self.check_express(&resource, node, &place);
        }
        Some(resource)
    }

    fn unrecognized(&mut self, node: &Node, arn: &str, at: &At<'_>) {
        let message = format!(
            "The resource provided {} is not recognized. The value is not a valid resource ARN, or the resource is \
             not available in this region.",
            quoted(arn)
        );
        // If there is no optimized integration, the SDK integration may exist.
        let sdk = arn.split_once(":states:::").and_then(|(partition, rest)| {
            let sdk = format!("{partition}:states:::aws-sdk:{rest}");
            Resource::parse(&sdk).filter(Resource::is_recognized).map(|_| sdk)
        });
        let hint = match sdk {
            Some(sdk) if !arn.contains(":aws-sdk:") => Some(format!("the SDK integration is `{sdk}`")),
            _ if arn.contains(":stateMachine:") => {
                Some("to run another machine, call `arn:aws:states:::states:startExecution`".to_owned())
            }
            _ if arn.contains(":aws-sdk:") => {
                Some("SDK actions are written in camel case, without `.sync`".to_owned())
            }
            _ => None,
        };
        self.findings.shape(at, node.span, message).hint = hint;
    }

    fn check_express(&mut self, resource: &Resource, node: &Node, at: &At<'_>) {
        let message = match resource.pattern {
            Pattern::Worker => "Express state machine does not support Activity ARN",
            Pattern::Sync => "Express state machine does not support '.sync' service integration",
            // The space at the end is AWS's.
            Pattern::Callback => {
                "Express state machine does not support '.waitForTaskToken' service integration "
            }
            Pattern::RequestResponse => return,
        };
        self.findings.shape(at, node.span, message);
    }

    /// Checks the required arguments of a service.
    fn check_call(&mut self, resource: &Resource, fields: &Fields<'n, '_>) {
        let at = fields.at;
        if resource.kind == TaskKind::Activity
            && let Some(member) = fields.get("Credentials")
        {
            let message = "The field 'Credentials' is not supported for activities";
            self.findings.shape(&at.member(member), member.key_span, message);
        }
        let Target::Service { .. } = &resource.target else { return };
        let name = match self.language {
            QueryLanguage::JsonPath => "Parameters",
            QueryLanguage::Jsonata => "Arguments",
        };
        let Some(member) = fields.get(name) else {
            let message = format!("{name} field is required for resource ARN: {}", resource.arn);
            self.findings.shape(at, at.span, message);
            return;
        };
        let Some(members) = member.value.as_object() else { return };
        for wanted in resource.required_arguments() {
            let path = format!("{wanted}.$");
            let is_there = find(members, wanted).is_some()
                || self.language == QueryLanguage::JsonPath && find(members, &path).is_some();
            if !is_there {
                let message = format!("The field '{wanted}' is required but was missing");
                self.findings.shape(&at.member(member), member.key_span, message);
            }
        }
    }

    fn credentials(&mut self, member: &'n Member, at: &At<'_>) -> Option<Template> {
        let place = at.member(member);
        let members = self.object(&member.value, &place)?;
        let is_there = find(members, "RoleArn").is_some()
            || self.language == QueryLanguage::JsonPath && find(members, "RoleArn.$").is_some();
        if !is_there {
            self.findings.shape(&place, place.span, "The field 'RoleArn' is required but was missing");
            return None;
        }
        Some(self.template(&member.value, &place, Sight::Input))
    }

    fn check_heartbeat(
        &mut self,
        fields: &Fields<'n, '_>,
        timeout: Option<&Scalar>,
        heartbeat: Option<&Scalar>,
    ) {
        let (Some(Scalar::Literal(timeout)), Some(Scalar::Literal(heartbeat))) = (timeout, heartbeat) else {
            return;
        };
        if heartbeat.as_i64() < timeout.as_i64() {
            return;
        }
        if let Some(member) = fields.get("HeartbeatSeconds") {
            let message = "HeartbeatSeconds must be smaller than TimeoutSeconds";
            self.findings.shape(&fields.at.member(member), member.value.span, message);
        }
    }
}
