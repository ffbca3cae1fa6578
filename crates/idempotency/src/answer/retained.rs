//! Which headers of an answer are given again.
//!
//! Those that describe the answer are, by an allow-list; those that the configuration adds are, unless they must not
//! be told twice: cookies and credentials, what belongs to one connection, one moment or one trace, and what is made
//! anew for each replay.

use http::{HeaderMap, HeaderName, header};

/// The headers of an answer that a replay gives again: the allow-list and `extra`, never what [`is_never_retained`] or
/// what the answer's own `Connection` names.
pub(crate) fn retained_headers(headers: &HeaderMap, extra: &[HeaderName]) -> HeaderMap {
    let of_connection: Vec<&[u8]> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    let is_kept = |name: &HeaderName| {
        (ALLOWED.contains(name) || extra.contains(name))
            && !is_never_retained(name)
            && !of_connection.iter().any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    headers
        .iter()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// What describes the answer itself, and so is true at every replay.
static ALLOWED: [HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_ENCODING,
    header::CONTENT_LOCATION,
    header::LOCATION,
    header::ETAG,
    header::LINK,
    header::VARY,
];

/// Names that no configuration can have kept.
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
    // Credentials, and what asks for them.
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
    // Of one request in somebody's trace.
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

/// Families of names that no configuration can have kept: budgets of a moment, traces, and what this layer sets.
const NEVER_PREFIXES: [&str; 6] =
    ["ratelimit", "x-ratelimit", "x-rate-limit", "x-b3-", "idempotency-", "idempotent-"];

/// Whether a header is never given again, not even when the configuration names it.
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
            ("X-Order", false, true),
            ("Cache-Control", false, true),
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
            assert_eq!(retained_headers(&sent, &[]).contains_key(&name), *by_default, "{name} by default");
            assert_eq!(
                retained_headers(&sent, std::slice::from_ref(&name)).contains_key(&name),
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
        let kept = retained_headers(&sent, &[HeaderName::from_static("x-order")]);
        assert_eq!(kept, headers(&[("location", "/o/1")]));
    }

    #[test]
    fn all_lines_of_a_kept_header_are_kept_in_order() {
        let sent = headers(&[("link", "</a>"), ("set-cookie", "s=1"), ("link", "</b>")]);
        assert_eq!(retained_headers(&sent, &[]), headers(&[("link", "</a>"), ("link", "</b>")]));
    }
}
