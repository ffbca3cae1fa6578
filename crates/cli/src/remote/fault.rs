//! The server's refusals, in its own words, with a remedy.

use perdura_server::{Refusal, RefusalKind};

const SIGNING: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN) to keys that the server \
                       knows, name its region with --region, and see that this machine's clock is right";
const BUSY: &str = "ask again in a moment";

/// Codes by the kind of refusal, with the remedy.
const TABLE: &[(&[&str], RefusalKind, Option<&str>)] = &[
    (&["ExecutionDoesNotExist"], RefusalKind::NotFound, Some("`perdura ps --endpoint URL` lists them")),
    (
        &["StateMachineDoesNotExist", "ResourceNotFound", "ActivityDoesNotExist"],
        RefusalKind::NotFound,
        Some("see what there is, and `perdura deploy FILE --endpoint URL` keeps another"),
    ),
    (&["ExecutionAlreadyExists"], RefusalKind::Conflict, Some("choose another name")),
    (
        &["ExecutionNotRedrivable"],
        RefusalKind::Conflict,
        Some(
            "only what failed, timed out or was stopped is redriven, and on AWS no later than after 14 days",
        ),
    ),
    (
        &["StateMachineAlreadyExists", "StateMachineDeleting"],
        RefusalKind::Conflict,
        Some("choose another --name"),
    ),
    (&["ConflictException"], RefusalKind::Conflict, Some(BUSY)),
    (
        &["AccessDeniedException", "AccessDenied"],
        RefusalKind::Invalid,
        Some(
            "allow it for these credentials; for a machine, name a role with --role that the service may assume \
             and that they may pass on",
        ),
    ),
    (
        &[
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "SignatureDoesNotMatch",
            "IncompleteSignature",
            "IncompleteSignatureException",
            "InvalidClientTokenId",
            "MissingAuthenticationToken",
            "MissingAuthenticationTokenException",
            "ExpiredTokenException",
            "RequestExpired",
        ],
        RefusalKind::Invalid,
        Some(SIGNING),
    ),
    (
        &["UnknownOperationException", "UnknownOperation", "InvalidAction"],
        RefusalKind::Invalid,
        Some("this server does not have the action; see that the URL is that of its Step Functions API"),
    ),
    (
        &[
            "ThrottlingException",
            "Throttling",
            "TooManyRequestsException",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "InternalFailure",
            "InternalServerError",
            "KmsThrottlingException",
        ],
        RefusalKind::Unavailable,
        Some(BUSY),
    ),
];

/// The refusal for a code and a message. An unknown code is passed on.
pub(super) fn refusal(code: &str, message: &str) -> Refusal {
    let known = TABLE.iter().find(|(codes, ..)| codes.contains(&code));
    let (kind, remedy) = known.map_or((RefusalKind::Invalid, None), |(_, kind, remedy)| (*kind, *remedy));
    let what = if message.is_empty() { code.to_owned() } else { format!("{code}: {message}") };
    Refusal { kind, what, remedy: remedy.map(str::to_owned) }
}

/// The plain code in `com.amazonaws.sfn#ExecutionDoesNotExist` or `Code:http://…`.
pub(super) fn code(written: &str) -> &str {
    let bare = written.rsplit_once('#').map_or(written, |(_, bare)| bare);
    bare.split_once(':').map_or(bare, |(bare, _)| bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_code_the_message_and_a_remedy() {
        for (code, kind, remedy) in [
            ("ExecutionDoesNotExist", RefusalKind::NotFound, "perdura ps"),
            ("ExecutionAlreadyExists", RefusalKind::Conflict, "another name"),
            ("AccessDeniedException", RefusalKind::Invalid, "--role"),
            ("InvalidSignatureException", RefusalKind::Invalid, "--region"),
            ("ThrottlingException", RefusalKind::Unavailable, "again"),
            ("InvalidDefinition", RefusalKind::Invalid, ""),
        ] {
            let refused = refusal(code, "because");
            assert_eq!((refused.kind, &*refused.what), (kind, &*format!("{code}: because")));
            assert!(refused.remedy.unwrap_or_default().contains(remedy), "{code}");
        }
        assert_eq!(refusal("SomethingNew", "").what, "SomethingNew");
    }

    #[test]
    fn a_code_is_known_however_it_is_written() {
        for written in
            ["InvalidArn", "com.amazonaws.sfn#InvalidArn", "InvalidArn:http://internal.amazon.com/"]
        {
            assert_eq!(code(written), "InvalidArn", "{written}");
        }
    }
}
