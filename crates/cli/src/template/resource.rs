//! The names of resources in our account: the values of `Ref` and `Fn::GetAtt`.
//!
//! A resource without a name of its own gets its logical id, where CloudFormation would add random letters.

use super::Problem;
use super::resolve::{Resolved, Resolver};
use perdura_asl::json::Value;

/// A type of resource. In the texts `{p}`, `{r}`, `{a}` and `{u}` are partition, region, account and the services'
/// domain, and `{n}` is the resource's name.
struct Type {
    of: &'static str,
    /// The property that names it.
    name: &'static str,
    reference: &'static str,
    attributes: &'static [(&'static str, &'static str)],
}

const fn of(
    of: &'static str,
    name: &'static str,
    reference: &'static str,
    attributes: &'static [(&'static str, &'static str)],
) -> Type {
    Type { of, name, reference, attributes }
}

const NAME: &str = "{n}";
const FUNCTION: &str = "arn:{p}:lambda:{r}:{a}:function:{n}";
const QUEUE: &str = "https://sqs.{r}.{u}/{a}/{n}";
const TOPIC: &str = "arn:{p}:sns:{r}:{a}:{n}";
const TABLE: &str = "arn:{p}:dynamodb:{r}:{a}:table/{n}";
const MACHINE: &str = "arn:{p}:states:{r}:{a}:stateMachine:{n}";
const ACTIVITY: &str = "arn:{p}:states:{r}:{a}:activity:{n}";
const SECRET: &str = "arn:{p}:secretsmanager:{r}:{a}:secret:{n}";
const JOB_QUEUE: &str = "arn:{p}:batch:{r}:{a}:job-queue/{n}";
const JOB: &str = "arn:{p}:batch:{r}:{a}:job-definition/{n}";
const ROLE: &str = "arn:{p}:iam::{a}:role/{n}";
const TASK: &str = "arn:{p}:ecs:{r}:{a}:task-definition/{n}";

/// The types that definitions refer to.
const TYPES: &[Type] = &[
    of("AWS::Lambda::Function", "FunctionName", NAME, &[("Arn", FUNCTION)]),
    of("AWS::Serverless::Function", "FunctionName", NAME, &[("Arn", FUNCTION)]),
    of("AWS::IAM::Role", "RoleName", NAME, &[("Arn", ROLE), ("RoleId", NAME)]),
    of(
        "AWS::SQS::Queue",
        "QueueName",
        QUEUE,
        &[("Arn", "arn:{p}:sqs:{r}:{a}:{n}"), ("QueueName", NAME), ("QueueUrl", QUEUE)],
    ),
    of("AWS::SNS::Topic", "TopicName", TOPIC, &[("TopicArn", TOPIC), ("TopicName", NAME)]),
    of("AWS::DynamoDB::Table", "TableName", NAME, &[("Arn", TABLE)]),
    of("AWS::DynamoDB::GlobalTable", "TableName", NAME, &[("Arn", TABLE)]),
    of("AWS::Serverless::SimpleTable", "TableName", NAME, &[("Arn", TABLE)]),
    of("AWS::StepFunctions::StateMachine", "StateMachineName", MACHINE, &[("Arn", MACHINE), ("Name", NAME)]),
    of("AWS::Serverless::StateMachine", "Name", MACHINE, &[("Arn", MACHINE), ("Name", NAME)]),
    of("AWS::StepFunctions::Activity", "Name", ACTIVITY, &[("Arn", ACTIVITY), ("Name", NAME)]),
    of(
        "AWS::S3::Bucket",
        "BucketName",
        NAME,
        &[
            ("Arn", "arn:{p}:s3:::{n}"),
            ("DomainName", "{n}.s3.{u}"),
            ("RegionalDomainName", "{n}.s3.{r}.{u}"),
        ],
    ),
    of(
        "AWS::Events::EventBus",
        "Name",
        NAME,
        &[("Arn", "arn:{p}:events:{r}:{a}:event-bus/{n}"), ("Name", NAME)],
    ),
    of("AWS::Events::Connection", "Name", NAME, &[("Arn", "arn:{p}:events:{r}:{a}:connection/{n}")]),
    of("AWS::SecretsManager::Secret", "Name", SECRET, &[("Id", SECRET)]),
    of("AWS::ECS::Cluster", "ClusterName", NAME, &[("Arn", "arn:{p}:ecs:{r}:{a}:cluster/{n}")]),
    of("AWS::ECS::TaskDefinition", "Family", TASK, &[("TaskDefinitionArn", TASK)]),
    of("AWS::Batch::JobQueue", "JobQueueName", JOB_QUEUE, &[("JobQueueArn", JOB_QUEUE)]),
    of("AWS::Batch::JobDefinition", "JobDefinitionName", JOB, &[("JobDefinitionArn", JOB)]),
    of("AWS::Glue::Job", "Name", NAME, &[]),
    of("AWS::CodeBuild::Project", "Name", NAME, &[("Arn", "arn:{p}:codebuild:{r}:{a}:project/{n}")]),
    of("AWS::Kinesis::Stream", "Name", NAME, &[("Arn", "arn:{p}:kinesis:{r}:{a}:stream/{n}")]),
    of("AWS::Logs::LogGroup", "LogGroupName", NAME, &[("Arn", "arn:{p}:logs:{r}:{a}:log-group:{n}:*")]),
    of("AWS::KMS::Key", "", NAME, &[("Arn", "arn:{p}:kms:{r}:{a}:key/{n}"), ("KeyId", NAME)]),
];

/// The value of `Ref` for a resource.
pub(super) fn reference(resolver: &Resolver<'_>, logical: &str, path: &str) -> Resolved<String> {
    let unknown = |what: String| Err(Problem::unknown(path, what, logical));
    let Some(resource) = resolver.part("Resources", logical) else {
        return unknown(format!("there is no parameter and no resource {logical:?}"));
    };
    let kind = kind(resource);
    // A version of a function counts as the function.
    if matches!(kind, "AWS::Lambda::Version" | "AWS::Lambda::Alias") {
        return function_of(resolver, resource, path);
    }
    match TYPES.iter().find(|known| known.of == kind) {
        Some(known) => filled(resolver, known, logical, known.reference),
        None => unknown(format!("what Ref gives of {logical}, which is of type {kind}, is not known here")),
    }
}

/// The value of `Fn::GetAtt` for a resource.
pub(super) fn attribute(resolver: &Resolver<'_>, logical: &str, name: &str, path: &str) -> Resolved<String> {
    let kind = resolver.part("Resources", logical).map(kind);
    let known = kind.and_then(|kind| TYPES.iter().find(|known| known.of == kind));
    let text =
        known.and_then(|known| Some((known, known.attributes.iter().find(|(own, _)| *own == name)?.1)));
    match (text, kind) {
        (Some((known, text)), _) => filled(resolver, known, logical, text),
        (None, Some("AWS::Lambda::Version" | "AWS::Lambda::Alias"))
            if matches!(name, "FunctionArn" | "AliasArn") =>
        {
            reference(resolver, logical, path)
        }
        (None, found) => {
            let of =
                found.map_or("which the template does not have".to_owned(), |kind| format!("of type {kind}"));
            let what = format!("the attribute {name} of {logical}, {of}, is not known here");
            Err(Problem::unknown(path, what, &format!("{logical}.{name}")))
        }
    }
}

fn kind(resource: &Value) -> &str {
    resource.get("Type").and_then(Value::as_str).unwrap_or_default()
}

/// The function of a version or an alias, by its name or its ARN.
fn function_of(resolver: &Resolver<'_>, resource: &Value, path: &str) -> Resolved<String> {
    let function = resource.get("Properties").and_then(|properties| properties.get("FunctionName"));
    let function =
        function.ok_or_else(|| Problem::new(path, "it names no function", "give its FunctionName"))?;
    let name = resolver.text(function, path)?;
    Ok(if name.starts_with("arn:") { name } else { put(resolver, FUNCTION, &name) })
}

fn filled(resolver: &Resolver<'_>, known: &Type, logical: &str, text: &str) -> Resolved<String> {
    Ok(put(resolver, text, &name(resolver, known, logical)?))
}

/// The name of a resource.
fn name(resolver: &Resolver<'_>, known: &Type, logical: &str) -> Resolved<String> {
    let own = resolver.part("Resources", logical).and_then(|it| it.get("Properties")?.get(known.name));
    let own = match own {
        Some(own) => resolver.value(own, &format!("Resources/{logical}/Properties/{}", known.name))?,
        None => None,
    };
    Ok(match own {
        Some(own) => {
            super::resolve::as_text(Some(&own), &format!("Resources/{logical}/Properties/{}", known.name))?
        }
        // Names of buckets have no capitals.
        None if known.of == "AWS::S3::Bucket" => logical.to_lowercase(),
        None => logical.to_owned(),
    })
}

/// The name under which a machine or an activity is deployed.
pub(super) fn deployed_name(resolver: &Resolver<'_>, logical: &str) -> Resolved<String> {
    let kind = resolver.part("Resources", logical).map(kind);
    match TYPES.iter().find(|known| Some(known.of) == kind) {
        Some(known) => name(resolver, known, logical),
        None => Ok(logical.to_owned()),
    }
}

fn put(resolver: &Resolver<'_>, text: &str, name: &str) -> String {
    let arns = &resolver.given.arns;
    // The name is replaced last: it may contain braces.
    [("{p}", &*arns.partition), ("{r}", &arns.region), ("{a}", &arns.account), ("{u}", resolver.url_suffix())]
        .into_iter()
        .fold(text.to_owned(), |text, (sign, value)| text.replace(sign, value))
        .replace("{n}", name)
}
