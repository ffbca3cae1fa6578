//! Requests and answers of S3.

use super::*;
use perdura_engine::asl::json::parse;

fn asked(action: &str, arguments: &str) -> Result<Request, String> {
    request(action, parse(arguments).unwrap().as_object().unwrap().clone(), "us-east-1")
}

#[test]
fn members_go_into_path_query_headers_and_body() {
    for (action, arguments, line, headers, body) in [
        (
            "getObject",
            r#"{"Bucket":"b","Key":"a b/c+d","VersionId":"v","Range":"bytes=0-1"}"#,
            "GET /b/a%20b/c%2Bd?versionId=v",
            vec![("range", "bytes=0-1")],
            "",
        ),
        (
            "putObject",
            r#"{"Bucket":"b","Key":"k","Body":"text data","Metadata":{"Color":"red"},"SsekmsKeyId":"id"}"#,
            "PUT /b/k?",
            vec![
                ("content-type", "text/plain; charset=UTF-8"),
                ("x-amz-checksum-crc32", "KUmHvQ=="),
                ("x-amz-meta-color", "red"),
                ("x-amz-sdk-checksum-algorithm", "CRC32"),
                ("x-amz-server-side-encryption-aws-kms-key-id", "id"),
            ],
            "\"text data\"",
        ),
        (
            "putObject",
            r#"{"Bucket":"b","Key":"k","Body":{"Dict":"Value"},"ChecksumSHA256":"x","ContentType":"application/json"}"#,
            "PUT /b/k?",
            vec![("content-type", "application/json"), ("x-amz-checksum-sha256", "x")],
            r#"{"Dict":"Value"}"#,
        ),
        (
            "putObject",
            r#"{"Bucket":"b","Key":"k","Body":false}"#,
            "PUT /b/k?",
            vec![
                ("content-type", "text/plain; charset=UTF-8"),
                ("x-amz-checksum-crc32", "K81oMA=="),
                ("x-amz-sdk-checksum-algorithm", "CRC32"),
            ],
            "false",
        ),
        (
            "listObjectsV2",
            r#"{"Bucket":"b","Prefix":"a/","MaxKeys":2,"FetchOwner":true}"#,
            "GET /b?list-type=2&prefix=a%2F&max-keys=2&fetch-owner=true",
            vec![],
            "",
        ),
        (
            "copyObject",
            r#"{"Bucket":"b","Key":"k","CopySource":"a/x"}"#,
            "PUT /b/k?",
            vec![("x-amz-copy-source", "a/x")],
            "",
        ),
        ("listBuckets", "{}", "GET /?", vec![], ""),
        ("headBucket", r#"{"Bucket":"b"}"#, "HEAD /b?", vec![], ""),
    ] {
        let request = asked(action, arguments).unwrap();
        let found = format!("{} {}?{}", request.method, request.path, request.query);
        assert_eq!((found.as_str(), &request.body[..]), (line.trim_end_matches(' '), body.as_bytes()));
        let mut found: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        found.sort_unstable();
        assert_eq!(found, headers, "{arguments}");
    }
    let made = request("createBucket", Map::from_iter([("Bucket", "b")]), "eu-west-1").unwrap();
    assert!(std::str::from_utf8(&made.body).unwrap().contains(">eu-west-1<"), "{:?}", made.body);
}

#[test]
fn arguments_that_cannot_be_asked_for_are_named() {
    for (action, arguments, expected) in [
        ("getObject", r#"{"Bucket":"b"}"#, "'Key' is required"),
        ("getObject", r#"{"Bucket":"b","Key":""}"#, "'Key' is required"),
        ("getObject", r#"{"Bucket":"b","Key":"a/../b"}"#, "cannot stand in an address"),
        ("getObject", r#"{"Bucket":"a/b","Key":"k"}"#, "cannot stand in an address"),
        ("getObject", r#"{"Bucket":"b","Key":"k","Body":"x"}"#, "'Body' is not supported"),
        ("getObject", r#"{"Bucket":"b","Key":"k","Range":[1]}"#, "'Range' must be a STRING"),
        ("putObject", r#"{"Bucket":"b","Key":"k","Metadata":{"a b":"c"}}"#, "cannot be the name of a header"),
        ("putObject", r#"{"Bucket":"b","Key":"k","Metadata":{"a":"c\n"}}"#, "write plain text"),
        ("putObject", r#"{"Bucket":"b","Key":"k","Metadata":[]}"#, "must be an OBJECT"),
    ] {
        let error = asked(action, arguments).expect_err(arguments);
        assert!(error.contains(expected), "{error}");
    }
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> Incoming {
    let headers =
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    Incoming { status, headers: headers.collect(), body: Bytes::from_static(body.as_bytes()) }
}

#[test]
fn an_answer_is_read_from_headers_and_xml() {
    let headers = [
        ("accept-ranges", "bytes"),
        ("content-length", "9"),
        ("content-type", "binary/octet-stream"),
        ("etag", "\"e\""),
        ("last-modified", "Wed, 21 Oct 2015 07:28:00 GMT"),
        ("x-amz-meta-color", "red"),
        ("x-amz-server-side-encryption", "AES256"),
        ("server", "x"),
    ];
    let shown = r#"{"AcceptRanges":"bytes","ETag":"\"e\"","ServerSideEncryption":"AES256","ContentLength":9,"ContentType":"binary/octet-stream","LastModified":"2015-10-21T07:28:00Z","Metadata":{"color":"red"}"#;
    let list = "<ListBucketResult xmlns='x'><Name>b</Name><KeyCount>2</KeyCount><IsTruncated>false</IsTruncated>\
                <Contents><Key>a</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified><Size>1</Size>\
                <Owner><ID>o</ID></Owner></Contents><Contents><Key>b</Key><Size>2</Size></Contents>\
                <CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes></ListBucketResult>";
    let copy = "<CopyObjectResult><ETag>\"e\"</ETag><LastModified>2015-10-21T07:28:00Z</LastModified></CopyObjectResult>";
    for (action, answer, expected) in [
        ("getObject", answer(200, &headers, "text data"), format!("{shown},\"Body\":\"text data\"}}")),
        ("headObject", answer(200, &headers, ""), format!("{shown}}}")),
        (
            "putObject",
            answer(200, &[headers[3], headers[4], ("content-length", "0"), ("content-type", "text/html")], ""),
            r#"{"ETag":"\"e\""}"#.to_owned(),
        ),
        (
            "deleteObject",
            answer(204, &[("x-amz-delete-marker", "true"), ("x-amz-version-id", "v")], ""),
            r#"{"DeleteMarker":true,"VersionId":"v"}"#.to_owned(),
        ),
        (
            "listObjectsV2",
            answer(200, &[], list),
            r#"{"Name":"b","KeyCount":2,"IsTruncated":false,"Contents":[{"Key":"a","LastModified":"2015-10-21T07:28:00Z","Size":1,"Owner":{"ID":"o"}},{"Key":"b","Size":2}],"CommonPrefixes":[{"Prefix":"c/"}]}"#.to_owned(),
        ),
        (
            "listBuckets",
            answer(200, &[], "<R><Buckets><Bucket><Name>b</Name></Bucket></Buckets></R>"),
            r#"{"Buckets":[{"Name":"b"}]}"#.to_owned(),
        ),
        (
            "copyObject",
            answer(200, &[], copy),
            r#"{"CopyObjectResult":{"ETag":"\"e\"","LastModified":"2015-10-21T07:28:00Z"}}"#.to_owned(),
        ),
    ] {
        assert_eq!(read(action, &answer).unwrap().to_string(), expected, "{action}");
    }
    let binary = Incoming { body: Bytes::from_static(b"\xff"), ..answer(200, &[], "") };
    assert!(read("getObject", &binary).unwrap_err().contains("not UTF-8"));
}

#[test]
fn an_error_is_read_from_xml_or_from_the_status() {
    let xml = "<Error><Code>NoSuchBucket</Code><Message>gone</Message></Error>";
    for (action, answer, code, message) in [
        ("listObjects", answer(404, &[], xml), Some("NoSuchBucket"), Some("gone")),
        ("headObject", answer(404, &[], ""), Some("NoSuchKey"), None),
        ("headBucket", answer(404, &[], ""), Some("NoSuchBucket"), None),
        ("headBucket", answer(403, &[], ""), None, None),
    ] {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let expected = Refusal { code: owned(code), old_code: None, message: owned(message) };
        assert_eq!(refusal(action, &answer), expected);
    }
}
