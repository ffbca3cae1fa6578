//! Known signatures: AWS's published examples, and what Amazon's own client for Python computes.

use perdura_sigv4::{
    Credentials, Presented, Principal, SKEW_SECONDS, Scope, Secret, Signable, sha256, sign, verify,
};

/// The key of AWS's published suite.
const SUITE_SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
/// 20150830T123600Z
const SUITE_AT: u64 = 1_440_938_160;

struct Vector {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    query: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static [u8],
    signed: &'static str,
    signature: &'static str,
}

const GET: Vector = Vector {
    what: "get-vanilla",
    method: "GET",
    path: "/",
    query: "",
    headers: &[("host", "example.amazonaws.com")],
    body: b"",
    signed: "host;x-amz-date",
    signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
};

const SUITE: &[Vector] = &[
    GET,
    Vector {
        what: "get-vanilla-query-order-key-case",
        query: "Param2=value2&Param1=value1",
        signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ..GET
    },
    Vector {
        what: "get-vanilla-query-unreserved",
        query: "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=\
                -._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        signature: "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
        ..GET
    },
    Vector {
        what: "get-header-key-duplicate",
        headers: &[
            ("Host", "example.amazonaws.com"),
            ("My-Header1", "value2"),
            ("My-Header1", "value2"),
            ("My-Header1", "value1"),
        ],
        signed: "host;my-header1;x-amz-date",
        signature: "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ..GET
    },
    Vector {
        what: "get-header-value-trim",
        headers: &[
            ("Host", "example.amazonaws.com"),
            ("My-Header1", " value1"),
            ("My-Header2", " \"a   b   c\""),
        ],
        signed: "host;my-header1;my-header2;x-amz-date",
        signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ..GET
    },
    Vector { what: "get-relative-relative", path: "/example1/example2/../..", ..GET },
    Vector {
        what: "post-vanilla",
        method: "POST",
        signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ..GET
    },
    Vector {
        what: "post-x-www-form-urlencoded",
        method: "POST",
        headers: &[("Host", "example.amazonaws.com"), ("Content-Type", "application/x-www-form-urlencoded")],
        body: b"Param1=value1",
        signed: "content-type;host;x-amz-date",
        signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ..GET
    },
];

fn credentials(access_key_id: &str, secret: &str, token: Option<&str>) -> Credentials {
    Credentials {
        access_key_id: access_key_id.into(),
        secret_access_key: Secret::new(secret),
        session_token: token.map(Secret::new),
    }
}

/// Signs, holds the answer against the expected one, and verifies it.
fn check(vector: &Vector, credentials: &Credentials, scope: Scope<'_>, at: u64) {
    let Vector { what, method, path, query, headers, body, signed, signature } = *vector;
    let added = sign(&Signable { method, path, query, headers, body }, credentials, scope, at);
    let authorization = &added.last().expect("it is signed").1;
    assert!(
        authorization.ends_with(&format!("SignedHeaders={signed}, Signature={signature}")),
        "{what}: {authorization}"
    );
    let lower: Vec<(String, &str)> =
        headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
    let mut arrived: Vec<(&str, &str)> = lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    arrived.extend(added.iter().map(|(name, value)| (*name, value.as_str())));
    let presented = Presented { method, path, query, headers: &arrived, body_sha256: &sha256(body) };
    let secret = credentials.secret_access_key.clone();
    let who = verify(&presented, scope, at, SKEW_SECONDS, |id| {
        (id == credentials.access_key_id).then(|| secret.clone())
    });
    assert_eq!(who, Ok(Principal { access_key_id: credentials.access_key_id.clone() }), "{what}");
}

#[test]
fn the_published_suite_is_signed_as_published_and_verified() {
    let scope = Scope { region: "us-east-1", service: "service" };
    for vector in SUITE {
        check(vector, &credentials("AKIDEXAMPLE", SUITE_SECRET, None), scope, SUITE_AT);
    }
}

/// The examples of the documentation of IAM and S3.
#[test]
fn the_documented_examples_are_signed_as_documented() {
    let list_users = Vector {
        what: "iam ListUsers",
        query: "Action=ListUsers&Version=2010-05-08",
        headers: &[
            ("host", "iam.amazonaws.com"),
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        ],
        signed: "content-type;host;x-amz-date",
        signature: "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        ..GET
    };
    let iam = Scope { region: "us-east-1", service: "iam" };
    check(&list_users, &credentials("AKIDEXAMPLE", SUITE_SECRET, None), iam, SUITE_AT);

    let ours = credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None);
    let s3 = Scope { region: "us-east-1", service: "s3" };
    let at = 1_369_353_600; // 20130524T000000Z
    let get = Vector {
        what: "s3 GET object",
        path: "/test.txt",
        headers: &[("host", "examplebucket.s3.amazonaws.com"), ("range", "bytes=0-9")],
        signed: "host;range;x-amz-content-sha256;x-amz-date",
        signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ..GET
    };
    let put = Vector {
        what: "s3 PUT object",
        method: "PUT",
        path: "/test%24file.text",
        headers: &[
            ("host", "examplebucket.s3.amazonaws.com"),
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        body: b"Welcome to Amazon S3.",
        signed: "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ..GET
    };
    let list = Vector {
        what: "s3 list objects",
        query: "max-keys=2&prefix=J",
        headers: &[("host", "examplebucket.s3.amazonaws.com")],
        signed: "host;x-amz-content-sha256;x-amz-date",
        signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ..GET
    };
    for vector in [get, put, list] {
        check(&vector, &ours, s3, at);
    }
}

/// Computed with botocore for these requests, at 20260304T050607Z.
#[test]
fn amazons_client_for_python_signs_the_same() {
    let at = 1_772_600_767;
    let states = Vector {
        what: "states",
        method: "POST",
        headers: &[
            ("Content-Type", "application/x-amz-json-1.0"),
            ("X-Amz-Target", "AWSStepFunctions.ListStateMachines"),
            ("Host", "127.0.0.1:8083"),
        ],
        body: b"{}",
        signed: "content-type;host;x-amz-date;x-amz-target",
        signature: "2faceb57beec8461ac124620e1d9196db71af25913c0602abae9636d80c50ca0",
        ..GET
    };
    let sqs = Vector {
        what: "sqs, with a session token",
        method: "POST",
        headers: &[
            ("Content-Type", "application/x-amz-json-1.0"),
            ("X-Amz-Target", "AmazonSQS.SendMessage"),
            ("Host", "sqs.eu-west-1.amazonaws.com"),
        ],
        body: "{\"MessageBody\":\"é\"}".as_bytes(),
        signed: "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
        signature: "e673c03ae31f3ebaa40fc3a26b2c311d0dc8efa1e0f5ca548fce4b1aa2d68d20",
        ..GET
    };
    let lambda = Vector {
        what: "lambda, with an escaped path and query",
        path: "/2015-03-31/functions/a%3Ab/configuration",
        query: "Qualifier=%24LATEST&A=%20x",
        headers: &[("Host", "lambda.us-east-1.amazonaws.com")],
        signature: "b3a6fb621dad4240956f05c372487e9a3a9ddc3ee896ffd58094c822106d388a",
        ..GET
    };
    let put = Vector {
        what: "s3 PUT, with an escaped key",
        method: "PUT",
        path: "/bucket/a%20b/c%2Bd~e%C3%A9",
        headers: &[
            ("X-Amz-Meta-Color", " deep   blue "),
            ("Content-Type", "text/plain"),
            ("Host", "127.0.0.1:5000"),
        ],
        body: b"hello",
        signed: "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-color",
        signature: "5fccdb76e76287760b44e4b1f98d5cbacc136108b9870d808090734a0a2248ff",
        ..GET
    };
    let list = Vector {
        what: "s3 list",
        path: "/bucket",
        query: "prefix=a%2Fb&list-type=2&delimiter=",
        headers: &[("Host", "127.0.0.1:5000")],
        signed: "host;x-amz-content-sha256;x-amz-date",
        signature: "490895ce6d47f6798afcb27be4f5f37671f7b2ac2187bce38d82a0f21a0d6060",
        ..GET
    };
    for (vector, region, service, token) in [
        (states, "us-east-1", "states", None),
        (sqs, "eu-west-1", "sqs", Some("a/session+token==")),
        (lambda, "us-east-1", "lambda", None),
        (put, "us-east-1", "s3", None),
        (list, "us-east-1", "s3", None),
    ] {
        let credentials = credentials("AKIDEXAMPLE", SUITE_SECRET, token);
        check(&vector, &credentials, Scope { region, service }, at);
    }
}
