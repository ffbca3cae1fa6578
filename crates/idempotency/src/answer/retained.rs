//! Which headers of an answer a replay has.
//!
//! Headers that describe the answer are kept, by an allow-list; so are those that the configuration adds, unless they
//! must not be repeated: cookies and credentials, headers of one connection, one moment or one trace, and headers that
//! are made anew for each replay. A status that means nothing without its header keeps that one too: RFC 9110 has no
//! 401 without a challenge.

use http::{HeaderMap, HeaderName, StatusCode, header};

/// The headers of an answer that a replay has: the allow-list, `extra` and those that the status needs, never one that
/// [`is_never_retained`] or that the answer's own `Connection` names. The same applies to trailers.
pub(crate) fn retained_headers(status: StatusCode, headers: &HeaderMap, extra: &[HeaderName]) -> HeaderMap {
    let of_connection: Vec<&[u8]> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    let is_kept = |name: &HeaderName| {
        let is_described = (ALLOWED.contains(name) || extra.contains(name)) && !is_never_retained(name);
        (is_described || is_needed(status, name))
            && !of_connection.iter().any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    headers
        .iter()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The challenge says how to authenticate. It is not a credential, and with other statuses it belongs to one moment.
fn is_needed(status: StatusCode, name: &HeaderName) -> bool {
    match status {
        StatusCode::UNAUTHORIZED => *name == header::WWW_AUTHENTICATE,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => *name == header::PROXY_AUTHENTICATE,
        _ => false,
    }
}

/// Headers that describe the answer itself, or how to treat it, and so are true at every replay.
static ALLOWED: [HeaderName; 15] = [
    header::CONTENT_TYPE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_ENCODING,
    header::CONTENT_LOCATION,
    header::CONTENT_DISPOSITION,
    header::CONTENT_RANGE,
    header::LOCATION,
    header::ETAG,
    header::LINK,
    header::VARY,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_SECURITY_POLICY,
    header::X_CONTENT_TYPE_OPTIONS,
    HeaderName::from_static("preference-applied"),
];

/// Names that the configuration cannot add.
const NEVER: [&str; 40] = [
    // Of one connection.
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // Of one moment, or made anew.
    "age",
    "content-digest",
    "content-length",
    "date",
    "last-modified",
    "server-timing",
    // Credentials, and requests for them.
    "authentication-control",
    "authentication-info",
    "authorization",
    "clear-site-data",
    "cookie",
    "optional-www-authenticate",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
    // Of one request in a trace.
    "b3",
    "baggage",
    "cf-ray",
    "request-id",
    "traceparent",
    "traceresponse",
    "tracestate",
    "uber-trace-id",
    "x-amz-cf-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-request-id",
    "x-trace-id",
];

/// Prefixes of names that the configuration cannot add: budgets of a moment, traces, and headers of this layer.
const NEVER_PREFIXES: [&str; 6] =
    ["ratelimit", "x-ratelimit", "x-rate-limit", "x-b3-", "idempotency-", "idempotent-"];

/// Whether a header is never kept, even if the configuration names it.
pub(crate) fn is_never_retained(name: &HeaderName) -> bool {
    let name = name.as_str();
    NEVER.contains(&name) || NEVER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
            })
            .collect()
    }

    #[test]
    fn headers_are_kept_by_the_list() {
        // Whether a replay has it by default, and whether it has it when the configuration names it.
        let table: &[(&str, bool, bool)] = &[
            ("Content-Type", true, true),
            ("Content-Language", true, true),
            ("Content-Encoding", true, true),
            ("Content-Location", true, true),
            ("Location", true, true),
            ("ETag", true, true),
            ("Link", true, true),
            ("Vary", true, true),
            ("Content-Disposition", true, true),
            ("Content-Range", true, true),
            ("Allow", true, true),
            ("Cache-Control", true, true),
            ("Content-Security-Policy", true, true),
            ("X-Content-Type-Options", true, true),
            ("Preference-Applied", true, true),
            ("X-Order", false, true),
            ("Retry-After", false, true),
            ("Connection", false, false),
            ("Keep-Alive", false, false),
            ("Transfer-Encoding", false, false),
            ("Trailer", false, false),
            ("Upgrade", false, false),
            ("Date", false, false),
            ("Age", false, false),
            ("Set-Cookie", false, false),
            ("WWW-Authenticate", false, false),
            ("Proxy-Authenticate", false, false),
            ("Authentication-Info", false, false),
            ("Authorization", false, false),
            ("Server-Timing", false, false),
            ("RateLimit", false, false),
            ("RateLimit-Policy", false, false),
            ("X-RateLimit-Remaining", false, false),
            ("X-Rate-Limit-Reset", false, false),
            ("traceparent", false, false),
            ("tracestate", false, false),
            ("X-Request-Id", false, false),
            ("X-B3-TraceId", false, false),
            ("Content-Length", false, false),
            ("Content-Digest", false, false),
            ("Last-Modified", false, false),
            ("Idempotency-Key", false, false),
            ("Idempotency-Replayed", false, false),
        ];
        for (name, by_default, by_choice) in table {
            let sent = headers(&[(name, "x")]);
            let name: HeaderName = name.parse().expect("a name");
            assert_eq!(
                retained_headers(StatusCode::OK, &sent, &[]).contains_key(&name),
                *by_default,
                "{name} by default"
            );
            assert_eq!(
                retained_headers(StatusCode::OK, &sent, std::slice::from_ref(&name)).contains_key(&name),
                *by_choice,
                "{name} by choice"
            );
        }
    }

    #[test]
    fn what_connection_names_is_not_kept() {
        let sent = headers(&[
            ("connection", "close, X-Order"),
            ("connection", "ETAG"),
            ("x-order", "1"),
            ("etag", "\"1\""),
            ("location", "/o/1"),
        ]);
        let kept = retained_headers(StatusCode::OK, &sent, &[HeaderName::from_static("x-order")]);
        assert_eq!(kept, headers(&[("location", "/o/1")]));
    }

    #[test]
    fn all_lines_of_a_kept_header_are_kept_in_order() {
        let sent = headers(&[("link", "</a>"), ("set-cookie", "s=1"), ("link", "</b>")]);
        assert_eq!(
            retained_headers(StatusCode::OK, &sent, &[]),
            headers(&[("link", "</a>"), ("link", "</b>")])
        );
    }
}
