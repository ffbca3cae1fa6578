//! Items out of a store that speaks S3, and results into it.

#[path = "items_data/moto.rs"]
mod moto;
#[path = "items_data/scene.rs"]
mod scene;

use moto::Moto;
use perdura_engine::Status;
use perdura_engine::asl::json::Value;
use perdura_tasks::items::ItemSettings;
use scene::{child, get, json, list, put, reader, stores, take, writer};
use std::io::Write;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn zstd(text: &str) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
}

fn numbers(range: std::ops::Range<i64>) -> Vec<Value> {
    range.map(Value::from).collect()
}

#[tokio::test]
async fn objects_are_read_in_every_format() {
    let moto = Moto::start(None);
    let stores = stores(&moto.settings());
    let csv = r#"{"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}"#;
    moto.put("data", "").await;
    let headers = moto.put("data/in/a.csv", "id,name\n1,Ann\n").await;
    moto.put("data/in/a.csv.gz", gzip("id,name\n2,Bo\n")).await;
    moto.put("data/in/a.json.zst", zstd(r#"{"in": [1, 9007199254740993]}"#)).await;
    moto.put("data/in/empty.jsonl", "").await;

    let plain = get(&stores, "data", "in/a.csv", csv).await;
    let source = plain.source.clone().expect("a source");
    assert_eq!(&*source.name, "S3://data/in/a.csv");
    assert_eq!(source.version.as_bytes(), headers["etag"].as_bytes());
    assert_eq!(plain.whole(), [json(r#"{"id": "1", "name": "Ann"}"#)]);
    assert_eq!(
        get(&stores, "data", "in/a.csv.gz", csv).await.whole(),
        [json(r#"{"id": "2", "name": "Bo"}"#)]
    );
    let pointed = r#"{"InputType": "JSON", "ItemsPointer": "/in"}"#;
    assert_eq!(
        get(&stores, "data", "in/a.json.zst", pointed).await.whole(),
        [Value::from(1), Value::from(9_007_199_254_740_993_i64)]
    );
    assert_eq!(get(&stores, "data", "in/empty.jsonl", r#"{"InputType": "JSONL"}"#).await.whole(), []);

    // More than two of the blocks that an object is fetched in.
    let lines = (0..1_300_000).map(|index| index.to_string()).collect::<Vec<_>>().join("\n");
    assert!(lines.len() > 8 * 1024 * 1024, "{}", lines.len());
    moto.put("data/in/long.jsonl", lines).await;
    let long = get(&stores, "data", "in/long.jsonl", r#"{"InputType": "JSONL"}"#).await;
    assert!(long.batches.iter().all(|count| *count <= 1_000));
    assert_eq!(long.whole(), numbers(0..1_300_000));
}

#[tokio::test]
async fn buckets_are_listed_whole_and_manifests_followed() {
    let moto = Moto::start(None);
    let stores = stores(&moto.settings());
    moto.put("many", "").await;
    for index in 0..1_001 {
        moto.put(&format!("many/n/{index:04}"), "x").await;
    }
    let headers = moto.put("many/odd/a%20b%2Bc%26%C3%BC%25", "odd").await;
    moto.put("many/odd/folder/", "").await;
    assert_eq!(list(&stores, "many", "n/", "{}").await.whole().len(), 1_001);
    assert_eq!(list(&stores, "many", "none", "{}").await.whole(), []);
    let order = reader("listObjectsV2", r#"{"Bucket": "many"}"#, "{}", Some(1_000));
    assert_eq!(take(&stores, order).await.whole().len(), 1_000);
    let odd = list(&stores, "many", "odd", "{}").await;
    assert_eq!(&*odd.source.clone().expect("a source").name, "S3://many");
    let version = odd.version();
    let odd = odd.whole();
    let keys: Vec<_> = odd.iter().map(|item| item.get("Key").and_then(Value::as_str)).collect();
    assert_eq!(keys, [Some("odd/a b+c&ü%"), Some("odd/folder/")]);
    let names: Vec<_> = odd[0].as_object().expect("an object").keys().map(|key| &**key).collect();
    assert_eq!(names, ["Etag", "Key", "LastModified", "Size", "StorageClass"]);
    assert_eq!(odd[0].get("Etag"), Some(&Value::from(headers["etag"].to_str().expect("text"))));
    assert_eq!(odd[0].get("Size"), Some(&Value::from(3)));
    assert_eq!(odd[0].get("StorageClass"), Some(&Value::from("STANDARD")));
    assert_eq!(list(&stores, "many", "odd", "{}").await.version(), version);
    moto.put("many/odd/z", "").await;
    assert_ne!(list(&stores, "many", "odd", "{}").await.version(), version);

    moto.put("files", "").await;
    moto.put("files/in/", "").await;
    moto.put("files/in/1.jsonl", "0\n1\n").await;
    moto.put("files/in/2.jsonl.gz", gzip("2\n")).await;
    let load = r#"{"InputType": "JSONL", "Transformation": "LOAD_AND_FLATTEN"}"#;
    assert_eq!(list(&stores, "files", "in/", load).await.whole(), numbers(0..3));

    let manifest = r#"{"sourceBucket": "many", "destinationBucket": "arn:aws:s3:::files", "fileFormat": "CSV",
        "fileSchema": "Bucket, Key, Size", "files": [{"key": "inv/1.csv.gz", "size": 1, "MD5checksum": ""}]}"#;
    moto.put("files/inv/manifest.json", manifest).await;
    moto.put("files/inv/1.csv.gz", gzip("\"many\",\"n/0001\",\"1\"\n")).await;
    let inventory = get(&stores, "files", "inv/manifest.json", r#"{"InputType": "MANIFEST"}"#).await;
    assert_eq!(inventory.whole(), [json(r#"{"Bucket": "many", "Key": "n/0001", "Size": "1"}"#)]);

    moto.put("files/athena.csv", "s3://files/in/2.jsonl.gz\ns3://files/in/1.jsonl\n").await;
    let athena = r#"{"ManifestType": "ATHENA_DATA", "InputType": "JSONL"}"#;
    let rows = get(&stores, "files", "athena.csv", athena).await.whole();
    assert_eq!(rows, [Value::from(2), Value::from(0), Value::from(1)]);
}

#[tokio::test]
async fn a_version_of_an_object_can_be_read() {
    let moto = Moto::start(None);
    let stores = stores(&moto.settings());
    moto.put("kept", "").await;
    let versioned = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    moto.put("kept?versioning", versioned).await;
    let first = moto.put("kept/a.jsonl", "1\n").await;
    moto.put("kept/a.jsonl", "2\n").await;
    let id = first["x-amz-version-id"].to_str().expect("text");
    let arguments = format!(r#"{{"Bucket": "kept", "Key": "a.jsonl", "VersionId": "{id}"}}"#);
    let config = r#"{"InputType": "JSONL"}"#;
    let old = take(&stores, reader("getObject", &arguments, config, None)).await;
    assert_eq!(old.whole(), [Value::from(1)]);
    assert_eq!(get(&stores, "kept", "a.jsonl", config).await.whole(), [Value::from(2)]);
}

#[tokio::test]
async fn what_a_store_refuses_is_told_with_a_remedy() {
    let moto = Moto::start(Some(4));
    let stores = stores(&moto.settings());
    let config = r#"{"InputType": "JSONL"}"#;
    moto.put("shut", "").await;
    let missing = [
        get(&stores, "shut", "none.jsonl", config).await.cause(),
        get(&stores, "nowhere", "a.jsonl", config).await.cause(),
        list(&stores, "nowhere", "", "{}").await.cause(),
    ];
    for cause in missing {
        assert!(cause.contains("does not exist, or its bucket does not"), "{cause}");
    }
    let denied = [
        get(&stores, "shut", "a.jsonl", config).await.cause(),
        list(&stores, "shut", "", "{}").await.cause(),
    ];
    for cause in denied {
        assert!(cause.contains("S3://shut/") && cause.contains("access was denied"), "{cause}");
        assert!(!cause.contains("hidden-secret"), "{cause}");
    }
    let order = writer(r#"{"Bucket": "shut"}"#, "{}");
    let fault = put(&stores, order, std::iter::empty()).await.expect_err("no access");
    assert_eq!(fault.error.as_deref(), Some("States.ResultWriterFailed"));
    assert!(fault.cause.as_deref().is_some_and(|cause| cause.contains("access was denied")), "{fault:?}");
    for key in ["/a.jsonl", "in//a.jsonl", "in/../a.jsonl", "in/"] {
        let cause = get(&stores, "shut", key, config).await.cause();
        assert!(cause.contains("rename the object"), "{cause}");
    }
    let cause = get(&stores, "a/b", "a.jsonl", config).await.cause();
    assert!(cause.contains("is not the name of a bucket"), "{cause}");
}

#[tokio::test]
async fn results_are_written_with_a_manifest_and_the_same_again() {
    let moto = Moto::start(None);
    let stores = stores(&ItemSettings { result_file_bytes_max: 20_000_000, ..moto.settings() });
    moto.put("out", "").await;
    // Larger than a part of an upload, and than one file.
    let output = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000_000));
    let results = || {
        let output = output.clone();
        (0..30).map(move |index| match index {
            7 => child(index, Status::Failed, None),
            _ => child(index, Status::Succeeded, Some(&output)),
        })
    };
    let order = || writer(r#"{"Bucket": "out", "Prefix": "done/"}"#, r#"{"OutputType": "JSON"}"#);
    let folder = "done/ad9b5f27-090b-3ac6-9beb-243cd77144a7";
    let result = put(&stores, order(), results()).await.expect("it is written");
    let details = format!(r#"{{"Bucket": "out", "Key": "{folder}/manifest.json"}}"#);
    assert_eq!(result.get("ResultWriterDetails"), Some(&json(&details)));
    assert_eq!(result.get("MapRunArn").and_then(Value::as_str), Some(scene::MAP_RUN));

    let names = ["FAILED_0.json", "SUCCEEDED_0.json", "SUCCEEDED_1.json", "manifest.json"];
    let mut first = Vec::new();
    for name in names {
        first.push(moto.get(&format!("out/{folder}/{name}")).await);
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let manifest = json(&text(&first[3]));
    let file = |name: &str, size: usize| format!(r#"{{"Key": "{folder}/{name}", "Size": {size}}}"#);
    let wanted = format!(
        r#"{{"DestinationBucket": "out", "MapRunArn": "{}", "ResultFiles":
            {{"FAILED": [{}], "PENDING": [], "SUCCEEDED": [{}, {}]}}}}"#,
        scene::MAP_RUN,
        file(names[0], first[0].len()),
        file(names[1], first[1].len()),
        file(names[2], first[2].len())
    );
    assert_eq!(manifest, json(&wanted));
    assert!(first[1].len() > 10_000_000 && first[1].len() <= 20_000_000);
    let count: usize =
        first[1..3].iter().map(|file| json(&text(file)).as_array().expect("an array").len()).sum();
    assert_eq!(count, 29);

    put(&stores, order(), results()).await.expect("it is written again");
    for (name, before) in names.iter().zip(&first) {
        assert!(moto.get(&format!("out/{folder}/{name}")).await == *before, "{name} is the same");
    }
}
