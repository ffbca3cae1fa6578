//! Items from a web server: with ranges and without, broken off, changed, and refused.

#[path = "items_data/scene.rs"]
mod scene;

use perdura_engine::asl::json::Value;
use perdura_tasks::items::{BucketSettings, ItemSettings, ItemStores};
use scene::{get, list, stores};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

const CONFIG: &str = r#"{"InputType": "JSONL"}"#;

/// How the server behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Gives ranges.
    Ranges,
    /// Gives ranges, and breaks off in the middle of every other answer.
    Breaks,
    /// Gives ranges, of another file each time.
    Changes,
    /// Always gives the whole file.
    Whole,
    /// Gives ranges, and nothing after the first.
    Dries,
}

/// Serves these bytes at `/base/a b.jsonl`; counts requests.
async fn serve(body: Vec<u8>, manner: Manner) -> (ItemStores, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/base/", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let (asked, body) = (count.clone(), Arc::new(body));
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let number = asked.fetch_add(1, Ordering::SeqCst);
            let mut lines = BufReader::new(&mut socket).lines();
            let mut head = Vec::new();
            while let Some(line) = lines.next_line().await.expect("text") {
                if line.is_empty() {
                    break;
                }
                head.push(line);
            }
            let answer = answer(&head, &body, manner, number);
            // A client that had enough closes first.
            drop(socket.write_all(&answer).await);
        }
    });
    let bucket = BucketSettings { url: Some(url), ..BucketSettings::default() };
    let settings = ItemSettings {
        allow_http: true,
        buckets: [("web".to_owned(), bucket)].into(),
        ..ItemSettings::default()
    };
    (stores(&settings), count)
}

fn answer(head: &[String], body: &[u8], manner: Manner, number: usize) -> Vec<u8> {
    let path = head[0].split(' ').nth(1).expect("a path");
    if path == "/base/moved" {
        return b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
            .to_vec();
    }
    if path != "/base/a%20b.jsonl" {
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
    }
    let tag = if manner == Manner::Changes { number } else { 0 };
    let header = |name: &str| {
        let line = head.iter().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned())
    };
    if header("if-match").is_some_and(|wanted| wanted != format!("\"{tag}\"")) {
        return b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n".to_vec();
    }
    let range = header("range").filter(|_| manner != Manner::Whole);
    let Some((from, to)) = range.as_deref().map(bounds) else {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        return [head.as_bytes(), body].concat();
    };
    let to = (to + 1).min(body.len());
    let part = if manner == Manner::Dries && number > 0 { &[] } else { &body[from..to] };
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\nETag: \"{tag}\"\r\n\
         Connection: close\r\n\r\n",
        to - 1,
        body.len(),
        part.len()
    );
    let part =
        if manner == Manner::Breaks && number.is_multiple_of(2) { &part[..part.len() / 2] } else { part };
    [head.as_bytes(), part].concat()
}

/// From `bytes=0-9`.
fn bounds(range: &str) -> (usize, usize) {
    let (from, to) = range.trim_start_matches("bytes=").split_once('-').expect("a range");
    (from.parse().expect("a number"), to.parse().expect("a number"))
}

/// More than two of the blocks that a file is fetched in.
fn long() -> (Vec<u8>, usize) {
    let line = format!("\"{}\"\n", "x".repeat(9_998));
    (line.repeat(900).into_bytes(), 900)
}

#[tokio::test]
async fn a_file_is_fetched_in_ranges_where_there_are_any() {
    let (body, wanted) = long();
    for (manner, requests) in [(Manner::Ranges, 3), (Manner::Whole, 1)] {
        let (stores, count) = serve(body.clone(), manner).await;
        let taken = get(&stores, "web", "a b.jsonl", CONFIG).await;
        assert_eq!(&*taken.source.clone().expect("a source").name, "S3://web/a b.jsonl");
        assert_eq!(taken.whole().len(), wanted);
        assert_eq!(count.load(Ordering::SeqCst), requests);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_taken_up_where_it_was() {
    let (body, wanted) = long();
    let (stores, count) = serve(body, Manner::Breaks).await;
    let items = get(&stores, "web", "a b.jsonl", CONFIG).await.whole();
    assert_eq!(items.len(), wanted);
    assert!(items.iter().all(|item| item.as_str().is_some_and(|text| text.len() == 9_998)));
    assert!(count.load(Ordering::SeqCst) > 3);
}

#[tokio::test]
async fn a_server_that_gives_nothing_more_is_not_asked_for_ever() {
    let (body, _) = long();
    let (stores, count) = serve(body, Manner::Dries).await;
    let cause = get(&stores, "web", "a b.jsonl", CONFIG).await.cause();
    assert!(cause.contains("nothing came after byte 4194304 of"), "{cause}");
    assert_eq!(count.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn a_file_that_changes_on_the_way_is_not_mixed() {
    let (body, _) = long();
    let (stores, _) = serve(body, Manner::Changes).await;
    let cause = get(&stores, "web", "a b.jsonl", CONFIG).await.cause();
    assert!(cause.contains("it changed while it was read"), "{cause}");
}

#[tokio::test]
async fn what_a_web_server_cannot_do_is_told() {
    let (stores, _) = serve(b"1\n".to_vec(), Manner::Ranges).await;
    assert_eq!(get(&stores, "web", "a b.jsonl", CONFIG).await.whole(), [Value::from(1)]);
    let table = [
        ("none.jsonl", "does not exist"),
        ("moved", "redirects are not followed"),
        ("../a b.jsonl", "cannot follow a URL"),
        ("a//b", "cannot follow a URL"),
    ];
    for (key, wanted) in table {
        let cause = get(&stores, "web", key, CONFIG).await.cause();
        assert!(cause.contains(wanted), "{key}: {cause}");
    }
    let cause = list(&stores, "web", "", "{}").await.cause();
    assert!(cause.contains("cannot be listed"), "{cause}");
}
