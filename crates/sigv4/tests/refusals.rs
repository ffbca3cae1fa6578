//! What is not taken, and what is said about it.

use perdura_sigv4::{
    Credentials, Presented, Principal, Refusal, SKEW_SECONDS, Scope, Secret, Signable, admit, sha256, sign,
    verify,
};

const AT: u64 = 1_772_600_767;
const SCOPE: Scope<'static> = Scope { region: "us-east-1", service: "states" };

/// A signed request that a test changes before it is presented.
struct Story {
    method: &'static str,
    path: &'static str,
    query: &'static str,
    headers: Vec<(String, String)>,
    body: &'static [u8],
    now: u64,
    scope: Scope<'static>,
}

impl Story {
    fn signed(more: &[(&str, &str)]) -> Self {
        let headers = [&[("host", "h"), ("x-amz-target", "AWSStepFunctions.StartExecution")], more].concat();
        let request = Signable { method: "POST", path: "/", query: "a=1", headers: &headers, body: b"{}" };
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: Secret::new("secret"),
            session_token: None,
        };
        let added = sign(&request, &credentials, SCOPE, AT);
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut all: Vec<(String, String)> = headers.into_iter().map(owned).collect();
        all.extend(added.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Self { method: "POST", path: "/", query: "a=1", headers: all, body: b"{}", now: AT, scope: SCOPE }
    }

    fn set(mut self, name: &str, change: impl Fn(&str) -> String) -> Self {
        for (_, value) in self.headers.iter_mut().filter(|(given, _)| given == name) {
            *value = change(value);
        }
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(given, _)| given != name);
        self
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn verified(&self) -> Result<Principal, Refusal> {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = Presented {
            method: self.method,
            path: self.path,
            query: self.query,
            headers: &headers,
            body_sha256: &sha256(self.body),
        };
        let known = |id: &str| (id == "AKIDEXAMPLE").then(|| Secret::new("secret"));
        let verified = verify(&request, self.scope, self.now, SKEW_SECONDS, known);
        let admitted = admit(&headers, self.scope, self.now, SKEW_SECONDS, known);
        match &verified {
            Ok(_) | Err(Refusal::BodyMismatch) => assert_eq!(admitted, Ok(()), "it takes the body to tell"),
            // Signed names without headers are seen at once, a wrong signature only with the body.
            Err(Refusal::Mismatch) => assert!(admitted.is_ok() || admitted == Err(Refusal::Mismatch)),
            Err(refusal) => assert_eq!(admitted.as_ref(), Err(refusal), "it is refused without the body too"),
        }
        verified
    }
}

fn replaced(from: &'static str, to: &'static str) -> impl Fn(&str) -> String {
    move |text| {
        assert!(text.contains(from), "{text} has no {from}");
        text.replace(from, to)
    }
}

#[test]
fn a_request_as_it_was_signed_is_taken() {
    let principal = Principal { access_key_id: "AKIDEXAMPLE".into() };
    let plain = || Story::signed(&[]);
    let body = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    for (story, what) in [
        (plain(), "unchanged"),
        (Story { now: AT + SKEW_SECONDS, ..plain() }, "as old as may be"),
        (Story { now: AT - SKEW_SECONDS, ..plain() }, "as new as may be"),
        (plain().with("traceparent", "00-1-1-01"), "a header that is not signed and need not be"),
        (plain().set("authorization", |text| text.replace(", ", ",")), "without spaces"),
        (Story::signed(&[("x-amz-content-sha256", body)]), "with the hash of its body"),
    ] {
        assert_eq!(story.verified(), Ok(principal.clone()), "{what}");
    }
}

#[test]
fn each_thing_that_is_wrong_has_its_refusal() {
    let plain = || Story::signed(&[]);
    let authorization = |from, to| plain().set("authorization", replaced(from, to));
    let skewed = |now, written: &str, is_old| {
        let refusal = Refusal::Skewed {
            signed: "20260304T050607Z".into(),
            now: written.into(),
            skew_seconds: SKEW_SECONDS,
            is_old,
        };
        (Story { now, ..plain() }, refusal)
    };
    let wrong_body = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let cases = [
        (plain().without("authorization"), Refusal::Missing),
        (plain().set("authorization", |_| "Basic dTpw".into()), Refusal::Missing),
        (plain().set("authorization", |_| String::new()), Refusal::Missing),
        (authorization("Credential=", "Who="), Refusal::Incomplete("'Credential' parameter.")),
        (authorization("SignedHeaders=", "Headers="), Refusal::Incomplete("'SignedHeaders' parameter.")),
        (authorization("Signature=", "Sig="), Refusal::Incomplete("'Signature' parameter.")),
        (
            authorization("/aws4_request", ""),
            Refusal::Incomplete("'Credential' as KEY/DATE/REGION/SERVICE/aws4_request."),
        ),
        (
            plain().without("x-amz-date"),
            Refusal::Incomplete("existence of either a 'X-Amz-Date' or a 'Date' header"),
        ),
        (
            plain().set("x-amz-date", |_| "yesterday".into()),
            Refusal::Incomplete("a date in the form 20260304T050607Z ('X-Amz-Date')"),
        ),
        (authorization("AKIDEXAMPLE", "AKIDOTHER"), Refusal::UnknownKey),
        (
            authorization("/us-east-1/", "/eu-west-1/"),
            Refusal::WrongScope("the region 'us-east-1', not 'eu-west-1'.".into()),
        ),
        (authorization("/states/", "/sqs/"), Refusal::WrongScope("correct service: 'states'.".into())),
        (
            authorization("/20260304/", "/20260305/"),
            Refusal::WrongScope("the day of its date, not '20260305'.".into()),
        ),
        skewed(AT + SKEW_SECONDS + 1, "20260304T052108Z", true),
        skewed(AT - SKEW_SECONDS - 1, "20260304T045106Z", false),
        (Story::signed(&[("x-amz-content-sha256", wrong_body)]), Refusal::BodyMismatch),
        (plain().with("x-amz-security-token", "t"), Refusal::Unsigned("x-amz-security-token".into())),
        (authorization("host;", ""), Refusal::Unsigned("host".into())),
        (authorization("host;", "host;nothing;"), Refusal::Mismatch),
        (Story { body: b"{ }", ..plain() }, Refusal::Mismatch),
        (Story { method: "GET", ..plain() }, Refusal::Mismatch),
        (Story { path: "/other", ..plain() }, Refusal::Mismatch),
        (Story { query: "a=2", ..plain() }, Refusal::Mismatch),
        (plain().set("x-amz-target", replaced("Start", "Stop")), Refusal::Mismatch),
        (plain().with("x-amz-target", "AWSStepFunctions.StopExecution"), Refusal::Mismatch),
        (plain().set("authorization", |text| format!("{}0", &text[..text.len() - 1])), Refusal::Mismatch),
        (plain().set("authorization", |text| format!("{text}0")), Refusal::Mismatch),
    ];
    for (at, (story, refusal)) in cases.into_iter().enumerate() {
        assert_eq!(story.verified(), Err(refusal), "case {at}: {:?}", story.headers);
    }
}

#[test]
fn refusals_have_the_names_of_aws() {
    for (refusal, code) in [
        (Refusal::Missing, "MissingAuthenticationTokenException"),
        (Refusal::Incomplete("x"), "IncompleteSignatureException"),
        (Refusal::UnknownKey, "UnrecognizedClientException"),
        (Refusal::Mismatch, "InvalidSignatureException"),
        (Refusal::BodyMismatch, "InvalidSignatureException"),
        (Refusal::Unsigned("host".into()), "InvalidSignatureException"),
    ] {
        assert_eq!(refusal.code(), code);
    }
    let old = Story { now: AT + 10_000, ..Story::signed(&[]) }.verified().unwrap_err().to_string();
    assert_eq!(old, "Signature expired: 20260304T050607Z is not within 900 seconds of 20260304T075247Z");
}
