//! Items out of files: what each format means, what is refused, and where a key must not lead.

#[path = "items_data/scene.rs"]
mod scene;

use perdura_engine::asl::json::Value;
use perdura_runtime::{Feed, ReadOrder};
use perdura_sigv4::Secret;
use perdura_tasks::items::{BucketSettings, ITEM_BYTES_MAX, ItemSettings, ItemStores, read};
use scene::{Taken, client, feed, folder, get, json, list, local, reader, stores, take};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

fn packed(how: &str, text: &[u8]) -> Vec<u8> {
    how.split(' ')
        .flat_map(|way| match way {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(text).expect("memory takes it");
                encoder.finish().expect("memory takes it")
            }
            "zstd" => ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest),
            other => panic!("nobody packs with {other}"),
        })
        .collect()
}

fn content(case: &Value) -> Vec<u8> {
    let word = |name| case.get(name).and_then(Value::as_str);
    let plain = match (word("text"), word("hex")) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(hex)) => hex
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
            .collect(),
        _ => panic!("a case has text or hex: {case}"),
    };
    let mut bytes = word("pack").map_or(plain.clone(), |how| packed(how, &plain));
    let cut = case.get("cut").and_then(Value::as_i64).unwrap_or(0);
    bytes.truncate(bytes.len() - usize::try_from(cut).expect("a count"));
    bytes
}

fn config(case: &Value) -> String {
    if let Some(csv) = case.get("csv") {
        let delimiter = case.get("delimiter").and_then(Value::as_str).unwrap_or("COMMA");
        let headers = match csv.as_array() {
            None => r#""CSVHeaderLocation": "FIRST_ROW""#.to_owned(),
            Some(_) => format!(r#""CSVHeaderLocation": "GIVEN", "CSVHeaders": {csv}"#),
        };
        return format!(r#"{{"InputType": "CSV", "CSVDelimiter": "{delimiter}", {headers}}}"#);
    }
    match case.get("pointer") {
        None => r#"{"InputType": "JSONL"}"#.into(),
        Some(Value::Null) => r#"{"InputType": "JSON"}"#.into(),
        Some(pointer) => format!(r#"{{"InputType": "JSON", "ItemsPointer": {pointer}}}"#),
    }
}

#[tokio::test]
async fn each_case_of_the_table_holds() {
    let cases = json(include_str!("items_data/cases.json"));
    let root = folder("cases");
    let stores = stores(&local(&root));
    for case in cases.as_array().expect("an array") {
        let name = case.get("name").and_then(Value::as_str).expect("a name");
        let key = case.get("key").and_then(Value::as_str).expect("a key");
        fs::write(root.join(key), content(case)).expect("a file");
        let taken = get(&stores, "local", key, &config(case)).await;
        assert_eq!(&*taken.source.as_ref().expect(name).name, format!("S3://local/{key}"), "{name}");
        if let Some(error) = case.get("error").and_then(Value::as_str) {
            let cause = taken.cause();
            let start = format!("The items in S3://local/{key} cannot be read: ");
            assert!(cause.starts_with(&start) && cause.contains(error), "{name}: {cause}");
            // What comes before a mistake may have been given already, and nothing else.
            let before = case.get("before").and_then(Value::as_array).unwrap_or_default();
            assert!(before.starts_with(&taken.items), "{name}: {:?}", taken.items);
        } else {
            let wanted = case.get("items").and_then(Value::as_array).expect(name);
            assert_eq!(taken.whole(), wanted, "{name}");
        }
    }
}

#[tokio::test]
async fn an_item_may_have_eight_megabytes_and_no_more() {
    let root = folder("large");
    let stores = stores(&local(&root));
    let text = |bytes: usize| "x".repeat(bytes);
    let fits = ITEM_BYTES_MAX - 2;
    let table = [
        ("fits.json", format!("[\"{}\"]", text(fits)), r#"{"InputType": "JSON"}"#, None),
        ("over.json", format!("[1, \"{}\"]", text(fits + 1)), r#"{"InputType": "JSON"}"#, Some("item 1")),
        ("endless.json", format!("[\"{}", text(fits + 9)), r#"{"InputType": "JSON"}"#, Some("item 0")),
        ("fits.jsonl", format!("\"{}\"\r\n1", text(fits)), r#"{"InputType": "JSONL"}"#, None),
        ("over.jsonl", format!("1\n\"{}\"\n", text(fits + 1)), r#"{"InputType": "JSONL"}"#, Some("line 2")),
        ("endless.jsonl", text(fits + 999), r#"{"InputType": "JSONL"}"#, Some("line 1")),
        (
            "over.csv",
            format!("a,b\n1,2\n{},2\n", text(ITEM_BYTES_MAX + 100_000)),
            r#"{"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}"#,
            Some("line 3"),
        ),
    ];
    for (key, text, config, wrong) in table {
        fs::write(root.join(key), text).expect("a file");
        let taken = get(&stores, "local", key, config).await;
        match wrong {
            None => assert!(!taken.whole().is_empty(), "{key}"),
            Some(spot) => {
                let cause = taken.cause();
                assert!(
                    cause.contains(spot) && cause.contains("is larger than 8388608 bytes"),
                    "{key}: {cause}"
                );
            }
        }
    }
}

#[tokio::test]
async fn max_items_reads_no_further() {
    let root = folder("max");
    let stores = stores(&local(&root));
    fs::write(root.join("a.jsonl"), "1\n2\nthis is never read").expect("a file");
    let arguments = r#"{"Bucket": "local", "Key": "a.jsonl"}"#;
    let taken = take(&stores, reader("getObject", arguments, r#"{"InputType": "JSONL"}"#, Some(2))).await;
    assert_eq!(taken.whole(), [Value::from(1), Value::from(2)]);
}

#[tokio::test]
async fn reading_ends_when_nobody_wants_more() {
    let root = folder("unwanted");
    fs::write(root.join("a.jsonl"), "1\n".repeat(100_000)).expect("a file");
    let stores = stores(&local(&root));
    let room = Arc::new(Semaphore::new(3));
    let (counted, closing) = (Arc::new(Semaphore::new(0)), room.clone());
    let given = counted.clone();
    let feed = Feed::new(room, move |fed| {
        if let perdura_runtime::Fed::Items(_) = fed {
            given.add_permits(1);
            if given.available_permits() == 3 {
                closing.close();
            }
        }
    });
    let arguments = r#"{"Bucket": "local", "Key": "a.jsonl"}"#;
    read(
        &stores,
        ReadOrder { reader: reader("getObject", arguments, r#"{"InputType": "JSONL"}"#, None), feed },
    )
    .await;
    assert_eq!(counted.available_permits(), 3);
}

#[tokio::test]
async fn batches_are_bounded_and_the_version_follows_the_content() {
    let root = folder("versions");
    let stores = stores(&local(&root));
    fs::write(root.join("a.jsonl"), "1\n".repeat(2_500)).expect("a file");
    let first = get(&stores, "local", "a.jsonl", r#"{"InputType": "JSONL"}"#).await;
    assert_eq!(first.batches, [1_000, 1_000, 500]);
    let again = get(&stores, "local", "a.jsonl", r#"{"InputType": "JSONL"}"#).await;
    assert_eq!(again.version(), first.version());
    fs::write(root.join("a.jsonl"), "1\n2\n").expect("a file");
    let other = get(&stores, "local", "a.jsonl", r#"{"InputType": "JSONL"}"#).await;
    assert_ne!(other.version(), first.version());
}

#[tokio::test]
async fn a_file_may_be_too_large_and_unpack_to_too_much() {
    let root = folder("bounds");
    let stores = stores(&ItemSettings { file_bytes_max: 1_000, ..local(&root) });
    fs::write(root.join("a.jsonl"), "1\n".repeat(501)).expect("a file");
    let cause = get(&stores, "local", "a.jsonl", r#"{"InputType": "JSONL"}"#).await.cause();
    assert!(cause.contains("it has 1002 bytes, and the most is 1000"), "{cause}");
    fs::write(root.join("a.jsonl.gz"), packed("gzip", " ".repeat(20_000).as_bytes())).expect("a file");
    let cause = get(&stores, "local", "a.jsonl.gz", r#"{"InputType": "JSONL"}"#).await.cause();
    assert!(cause.contains("it unpacks to more than 10000 bytes"), "{cause}");
}

#[tokio::test]
async fn a_key_does_not_lead_out_of_its_folder() {
    let root = folder("escape");
    let inside = root.join("inside");
    fs::create_dir_all(inside.join("sub")).expect("folders");
    fs::write(root.join("secret.jsonl"), "1").expect("a file");
    fs::write(inside.join("sub/open.jsonl"), "2").expect("a file");
    #[cfg(unix)]
    for (link, to) in [("out.jsonl", "../secret.jsonl"), ("up", ".."), ("in.jsonl", "sub/open.jsonl")] {
        std::os::unix::fs::symlink(to, inside.join(link)).expect("a link");
    }
    let stores = stores(&local(&inside));
    let config = r#"{"InputType": "JSONL"}"#;
    let absolute = root.join("secret.jsonl").display().to_string();
    let table = [
        ("../secret.jsonl", "plain names"),
        ("sub/../../secret.jsonl", "plain names"),
        ("./sub/open.jsonl", "plain names"),
        ("sub//open.jsonl", "plain names"),
        (absolute.as_str(), "plain names"),
        ("sub", "is not a file"),
        ("sub/none.jsonl", "does not exist"),
        ("sub/open.jsonl/more", "does not exist"),
        ("out.jsonl", "leads out of the folder"),
        ("up/secret.jsonl", "leads out of the folder"),
    ];
    for (key, wanted) in table {
        let cause = get(&stores, "local", key, config).await.cause();
        assert!(cause.contains(wanted), "{key}: {cause}");
    }
    assert_eq!(get(&stores, "local", "in.jsonl", config).await.whole(), [Value::from(2)]);
}

fn keys(taken: Taken) -> Vec<String> {
    let key = |item: &Value| item.get("Key").and_then(Value::as_str).expect("a key").to_owned();
    taken.whole().iter().map(key).collect()
}

#[tokio::test]
async fn a_folder_is_listed_in_the_order_of_keys() {
    let root = folder("listing");
    for key in ["a/b/2", "a/b/1", "a.b", "a0", "b", "a/b.c"] {
        let path = root.join(key);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, key).expect("a file");
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(".", root.join("circle")).expect("a link");
    let stores = stores(&local(&root));
    let all = list(&stores, "local", "", "{}").await;
    assert_eq!(&*all.source.as_ref().expect("a source").name, "S3://local");
    let version = all.version();
    let item = &all.items[0];
    assert_eq!(item.get("Size"), Some(&Value::from(3)));
    assert_eq!(item.get("StorageClass"), Some(&Value::from("STANDARD")));
    assert!(item.get("LastModified").and_then(Value::as_i64).expect("a number") > 1_600_000_000);
    assert!(item.get("Etag").and_then(Value::as_str).expect("a tag").starts_with('"'));
    assert_eq!(keys(all), ["a.b", "a/b.c", "a/b/1", "a/b/2", "a0", "b"]);
    assert_eq!(keys(list(&stores, "local", "a/b", "{}").await), ["a/b.c", "a/b/1", "a/b/2"]);
    assert_eq!(keys(list(&stores, "local", "a/b/", "{}").await), ["a/b/1", "a/b/2"]);
    assert_eq!(keys(list(&stores, "local", "none", "{}").await), [] as [&str; 0]);
    assert_eq!(list(&stores, "local", "", "{}").await.version(), version);
    fs::write(root.join("b"), "more").expect("a file");
    assert_ne!(list(&stores, "local", "", "{}").await.version(), version);
}

#[tokio::test]
async fn a_long_listing_is_whole_and_can_be_cut() {
    let root = folder("long");
    for index in 0..2_345 {
        fs::write(root.join(format!("{index:04}")), "").expect("a file");
    }
    let stores = stores(&local(&root));
    assert_eq!(list(&stores, "local", "", "{}").await.whole().len(), 2_345);
    for most in [1, 1_000, 1_001, 2_000] {
        let order = reader("listObjectsV2", r#"{"Bucket": "local"}"#, "{}", Some(most));
        assert_eq!(take(&stores, order).await.whole().len() as i64, most);
    }
}

#[tokio::test]
async fn listed_files_are_loaded_one_after_the_other() {
    let root = folder("flatten");
    fs::create_dir(root.join("in")).expect("a folder");
    for (key, text) in
        [("in/1.jsonl", "1\n2\n"), ("in/2.jsonl", ""), ("in/3.jsonl", "3\n4\n"), ("other", "{")]
    {
        fs::write(root.join(key), text).expect("a file");
    }
    let stores = stores(&local(&root));
    let config = r#"{"InputType": "JSONL", "Transformation": "LOAD_AND_FLATTEN"}"#;
    let numbers = |range: std::ops::RangeInclusive<i64>| range.map(Value::from).collect::<Vec<_>>();
    assert_eq!(list(&stores, "local", "in/", config).await.whole(), numbers(1..=4));
    let order = reader("listObjectsV2", r#"{"Bucket": "local", "Prefix": "in/"}"#, config, Some(3));
    assert_eq!(take(&stores, order).await.whole(), numbers(1..=3));
    let cause = list(&stores, "local", "", config).await.cause();
    assert!(cause.contains("S3://local/other"), "{cause}");
}

#[tokio::test]
async fn what_is_not_configured_says_how_to_configure_it() {
    let stores = stores(&ItemSettings::default());
    let cause = get(&stores, "orders", "a.json", r#"{"InputType": "JSON"}"#).await.cause();
    assert!(cause.contains("S3://orders/a.json") && cause.contains(r#"[items.buckets."orders"]"#), "{cause}");
    let cause = get(&stores, "orders", "a.parquet", r#"{"InputType": "PARQUET"}"#).await.cause();
    assert!(cause.contains("PARQUET cannot be read here"), "{cause}");
}

#[test]
fn settings_that_do_not_fit_are_refused_and_tell_no_secret() {
    let root = folder("settings");
    let bucket = |bucket: BucketSettings| ItemSettings {
        local: Some(root.clone()),
        buckets: [("b".to_owned(), bucket)].into(),
        ..ItemSettings::default()
    };
    let endpoint = |text: &str| ItemSettings { endpoint: Some(text.into()), ..ItemSettings::default() };
    let url = |text: &str| bucket(BucketSettings { url: Some(text.into()), ..BucketSettings::default() });
    let inside =
        |path: &str| bucket(BucketSettings { folder: Some(path.into()), ..BucketSettings::default() });
    let table = [
        (endpoint("s3.example.org"), "is not an http or https address"),
        (endpoint("ftp://s3.example.org"), "is not an http or https address"),
        (endpoint("http://s3.example.org"), "items.allow_http"),
        (endpoint("https://169.254.169.254"), "is a link-local address"),
        (url("https://[fd00:ec2::254]/"), "metadata service"),
        (endpoint("https://me:hidden@s3.example.org"), "is not an http or https address"),
        (url("http://example.org/"), "items.allow_http"),
        (inside(".."), "must be below items.local"),
        (inside("/"), "must be below items.local"),
        (inside("none"), "cannot be used"),
        (bucket(BucketSettings::default()), "one of `folder`, `url`"),
        (ItemSettings { local: None, ..inside(".") }, "must be below items.local"),
        (
            ItemSettings { access_key_id: Some("id".into()), ..endpoint("https://s3.example.org") },
            "belong together",
        ),
        (
            endpoint("https://s3.example.org").or_credentials(
                Some("id\n".into()),
                Some(Secret::new("hidden")),
                None,
            ),
            "holds a space, a line end or no plain text",
        ),
        (
            ItemSettings { region: Some("us east".into()), ..endpoint("https://s3.example.org") },
            "holds a space, a line end or no plain text",
        ),
        (ItemSettings { local: Some(Path::new("/nowhere/at/all").into()), ..inside(".") }, "items.local"),
    ];
    for (settings, wanted) in table {
        let refused = ItemStores::new(&settings, &client()).map(|_| ()).expect_err(wanted).to_string();
        assert!(refused.contains(wanted) && !refused.contains("hidden"), "{refused}");
    }
}

#[tokio::test]
async fn a_source_that_fails_is_ended_once() {
    let (feed, taken) = feed(|_| true);
    let stores = stores(&ItemSettings::default());
    read(&stores, ReadOrder { reader: reader("getObject", "{}", "{}", None), feed }).await;
    let taken = std::mem::take(&mut *taken.lock().expect("nobody panics"));
    assert!(taken.source.is_none());
    assert!(taken.cause().contains("`Bucket` is missing"));
}
