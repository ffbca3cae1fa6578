//! The exporter's transport for traces, over the shared HTTP client.

use crate::settings::Telemetry;
use anyhow::{Context, Result};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use perdura_server::telemetry::{Ended, Exporter, Undelivered, channel};
use perdura_tasks::client::{Client, Incoming, Outgoing};
use perdura_tasks::guard::Guard;
use std::time::Duration;
use url::Url;

/// The time limit of a collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer of a collector.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The queue of ended executions, and their exporter.
pub(super) fn exporter(telemetry: &Telemetry) -> Result<(Ended, Exporter)> {
    let url: Url = format!("{}/v1/traces", telemetry.endpoint)
        .parse()
        .with_context(|| format!("telemetry.endpoint is {:?}, which is no URL", telemetry.endpoint))?;
    let headers = headers(&telemetry.headers)?;
    let client = Client::new(Guard::default()).context("HTTPS cannot be spoken")?;
    let post = move |body: Vec<u8>| {
        let outgoing = Outgoing {
            method: Method::POST,
            url: url.clone(),
            headers: headers.clone(),
            body: body.into(),
            timeout: TIMEOUT,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let client = client.clone();
        let posting = async move {
            match client.send(outgoing).await {
                Ok(answer) => judge(&answer),
                Err(error) => Err(Undelivered::NotNow { why: error.to_string(), after: None }),
            }
        };
        Box::pin(posting) as _
    };
    Ok(channel(telemetry.service.clone(), Box::new(post)))
}

fn headers(written: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in written {
        let header = HeaderName::from_bytes(name.as_bytes())
            .with_context(|| format!("telemetry.headers: {name:?} is no name of a header"))?;
        // The value is secret, so the message does not repeat it.
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            anyhow::anyhow!("telemetry.headers: the value of {name} cannot stand in a header")
        })?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// The protocol's rule: these four statuses are retried, all others are not.
fn judge(answer: &Incoming) -> Result<(), Undelivered> {
    let why = || format!("the collector answers with status {}", answer.status);
    match answer.status {
        200..=299 => Ok(()),
        429 | 502 | 503 | 504 => {
            let after = answer.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
            Err(Undelivered::NotNow { why: why(), after: after.map(Duration::from_secs) })
        }
        _ => Err(Undelivered::Refused(why())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_answers_decides_whether_it_is_asked_again() {
        let answer = |status: u16, after: Option<&'static str>| {
            let headers = after.map(|after| (RETRY_AFTER, HeaderValue::from_static(after)));
            judge(&Incoming { status, headers: headers.into_iter().collect(), body: Vec::new().into() })
        };
        assert_eq!(answer(200, None), Ok(()));
        for (status, after, expected) in
            [(503, Some("7"), Some(7)), (429, Some("soon"), None), (502, None, None)]
        {
            let Err(Undelivered::NotNow { after, .. }) = answer(status, after) else { panic!("{status}") };
            assert_eq!(after, expected.map(Duration::from_secs), "{status}");
        }
        for status in [400, 401, 404, 500] {
            assert!(matches!(answer(status, None), Err(Undelivered::Refused(_))), "{status}");
        }
    }

    #[test]
    fn a_wrong_header_is_named_and_its_value_is_not() {
        let error = headers(&[("x".into(), "hunter2\n".into())]).unwrap_err().to_string();
        assert!(error.contains("the value of x") && !error.contains("hunter2"), "{error}");
        assert!(headers(&[("a b".into(), "1".into())]).is_err());
    }
}
