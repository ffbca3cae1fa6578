//! Deduplication tokens: the members by which a service recognises a repeated call.
//!
//! A call that may have arrived is repeated under its key. If the service has a token member and the definition leaves
//! it open, the key goes there, so that the service itself deduplicates the repeat. A definition that sets the member
//! keeps its value.

use super::service::Operation;
use perdura_engine::asl::json::{Map, Value};

/// Adds the key to the arguments, if the service has a member for it.
pub(super) fn with_token(operation: &Operation<'_>, mut arguments: Map, key: &str) -> Map {
    let tokens = operation.service.tokens;
    if let Some((_, member)) = tokens.iter().find(|(action, _)| *action == operation.action) {
        set(&mut arguments, member, key);
    }
    match (operation.service.name, operation.action) {
        ("sqs", "sendMessage") if is_fifo(&arguments, &["QueueUrl"]) => {
            set(&mut arguments, "MessageDeduplicationId", key);
        }
        ("sns", "publish") if is_fifo(&arguments, &["TopicArn", "TargetArn"]) => {
            set(&mut arguments, "MessageDeduplicationId", key);
        }
        ("sqs", "sendMessageBatch") if is_fifo(&arguments, &["QueueUrl"]) => {
            set_in_each(&mut arguments, "Entries", key);
        }
        ("sns", "publishBatch") if is_fifo(&arguments, &["TopicArn"]) => {
            set_in_each(&mut arguments, "PublishBatchRequestEntries", key);
        }
        _ => {}
    }
    arguments
}

/// Only queues and topics with this suffix support deduplication; others refuse it.
fn is_fifo(arguments: &Map, members: &[&str]) -> bool {
    let mut named = members.iter().filter_map(|member| arguments.get(member)?.as_str());
    named.any(|name| name.rsplit_once('.').is_some_and(|(_, end)| end == "fifo"))
}

fn set(arguments: &mut Map, member: &str, key: &str) {
    if arguments.get(member).is_none_or(Value::is_null) {
        arguments.insert(member, key);
    }
}

/// Each message of a batch has its own token.
fn set_in_each(arguments: &mut Map, entries: &str, key: &str) {
    let Some(Value::Array(items)) = arguments.get(entries) else { return };
    let items = items.iter().enumerate().map(|(at, item)| match item {
        Value::Object(members) => {
            let mut members = Map::clone(members);
            set(&mut members, "MessageDeduplicationId", &format!("{key}-{at}"));
            members.into()
        }
        other => other.clone(),
    });
    let items: Value = items.collect();
    arguments.insert(entries, items);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::service::operation;
    use perdura_engine::asl::json::parse;
    use perdura_engine::asl::resource::Resource;

    #[test]
    fn the_key_goes_where_a_service_looks_for_it_and_where_nobody_wrote_one() {
        for (resource, given, expected) in [
            ("sqs:sendMessage", r#"{"QueueUrl":"http://q/a"}"#, r#"{"QueueUrl":"http://q/a"}"#),
            (
                "sqs:sendMessage.waitForTaskToken",
                r#"{"QueueUrl":"http://q/a.fifo"}"#,
                r#"{"QueueUrl":"http://q/a.fifo","MessageDeduplicationId":"K"}"#,
            ),
            (
                "aws-sdk:sqs:sendMessage",
                r#"{"QueueUrl":"a.fifo","MessageDeduplicationId":"own"}"#,
                r#"{"QueueUrl":"a.fifo","MessageDeduplicationId":"own"}"#,
            ),
            (
                "aws-sdk:sqs:sendMessageBatch",
                r#"{"QueueUrl":"a.fifo","Entries":[{"Id":"1"},{"MessageDeduplicationId":"own"},5]}"#,
                r#"{"QueueUrl":"a.fifo","Entries":[{"Id":"1","MessageDeduplicationId":"K-0"},{"MessageDeduplicationId":"own"},5]}"#,
            ),
            (
                "sns:publish",
                r#"{"TopicArn":"arn:t.fifo","MessageDeduplicationId":null}"#,
                r#"{"TopicArn":"arn:t.fifo","MessageDeduplicationId":"K"}"#,
            ),
            ("sns:publish", r#"{"PhoneNumber":"1"}"#, r#"{"PhoneNumber":"1"}"#),
            (
                "aws-sdk:dynamodb:transactWriteItems",
                r#"{"TransactItems":[]}"#,
                r#"{"TransactItems":[],"ClientRequestToken":"K"}"#,
            ),
            ("aws-sdk:secretsmanager:createSecret", "{}", r#"{"ClientRequestToken":"K"}"#),
            ("aws-sdk:secretsmanager:getSecretValue", "{}", "{}"),
            ("aws-sdk:ecs:runTask", "{}", r#"{"ClientToken":"K"}"#),
            ("aws-sdk:sfn:startExecution", "{}", "{}"),
            ("dynamodb:putItem", "{}", "{}"),
        ] {
            let resource = Resource::parse(&format!("arn:aws:states:::{resource}")).unwrap();
            let given = parse(given).unwrap();
            let with = with_token(&operation(&resource).unwrap(), given.as_object().unwrap().clone(), "K");
            assert_eq!(Value::from(with).to_string(), expected, "{}", resource.arn);
        }
    }
}
