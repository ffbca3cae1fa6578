//! What it costs to tell whether two requests are the same, by size and by how the content is compared.
//!
//! `cargo bench -p perdura-idempotency --bench fingerprint`; with `-- --test` each runs once.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use perdura_idempotency::fingerprint::{Asked, Hashing, fingerprint};
use std::fmt::Write;

const SIZES: [usize; 4] = [1 << 10, 16 << 10, 64 << 10, 1 << 20];

fn main() {
    divan::main();
}

/// An order of about so many bytes: short names, amounts, some text; names out of order.
fn order(bytes: usize) -> String {
    let mut text = r#"{"order":"8e03978e-40d5-43e8-bc93-6894a57f9324","currency":"EUR","lines":["#.to_owned();
    for at in 0.. {
        let comma = if at == 0 { "" } else { "," };
        let line = format!(
            r#"{comma}{{"sku":"SKU-{at:06}","quantity":{},"price":{}.{:02},"note":"left at the door, r\u00e9f. {at}","gift":false}}"#,
            at % 7 + 1,
            at * 31 % 900,
            at % 100
        );
        if text.len() + line.len() + 2 > bytes {
            break;
        }
        text.push_str(&line);
    }
    text.push_str("]}");
    text
}

/// What is dearest to put in order: objects within objects, as deep as is read, each of them out of order.
fn nested(bytes: usize) -> String {
    let around = 120;
    let text = "x".repeat(bytes.saturating_sub(around * 14));
    format!("{}\"{text}\"{}", "{\"b\":".repeat(around), ",\"a\":0}".repeat(around))
}

/// A form with one file of about so many bytes, and a few fields.
fn form(bytes: usize) -> String {
    let mut text = String::new();
    for name in ["name", "street", "town"] {
        write!(text, "--boundary\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\nsomething\r\n")
            .expect("a String takes all");
    }
    let file = "a line of a file\r\n".repeat(bytes / 18);
    text + "--boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\
        Content-Type: text/plain\r\n\r\n"
        + &file
        + "\r\n--boundary--\r\n"
}

fn bench(bencher: Bencher<'_, '_>, content_type: &str, body: &str, hashing: Hashing) {
    let asked = Asked {
        params: &[("id", "8e03978e")],
        query: None,
        content_type: Some(content_type),
        content_encoding: None,
        body: body.as_bytes(),
        body_bytes_max: 2 << 20,
    };
    bencher
        .counter(BytesCount::of_str(body))
        .bench(|| fingerprint(black_box(&asked), hashing).expect("the content is well formed"));
}

#[divan::bench(args = SIZES)]
fn raw(bencher: Bencher<'_, '_>, bytes: usize) {
    bench(bencher, "application/json", &order(bytes), Hashing::Raw);
}

#[divan::bench(args = SIZES)]
fn canonical_json(bencher: Bencher<'_, '_>, bytes: usize) {
    bench(bencher, "application/json", &order(bytes), Hashing::CanonicalJson);
}

#[divan::bench(args = SIZES)]
fn canonical_json_at_worst(bencher: Bencher<'_, '_>, bytes: usize) {
    bench(bencher, "application/json", &nested(bytes), Hashing::CanonicalJson);
}

#[divan::bench(args = SIZES)]
fn multipart(bencher: Bencher<'_, '_>, bytes: usize) {
    bench(bencher, "multipart/form-data; boundary=boundary", &form(bytes), Hashing::Raw);
}
