//! A client on a socket, for what a library would hide: what comes first, what comes behind, and hanging up.

use crate::shop::{PATIENCE, Shop};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection to the program.
pub(crate) struct Wire {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Wire {
    pub(crate) async fn to(shop: &Shop) -> Self {
        Self { stream: TcpStream::connect(shop.listen().await).await.expect("connecting"), heard: Vec::new() }
    }

    /// Sends the head of a payment under this key, with these further lines.
    pub(crate) async fn head(&mut self, key: &str, lines: &[&str]) {
        let mut head = format!(
            "POST /payments HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nAuthorization: Bearer acme/ann\r\n\
             Content-Type: application/json\r\nIdempotency-Key: {key}\r\n"
        );
        for line in lines {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        self.say(head.as_bytes()).await;
    }

    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("sending");
    }

    /// All that was heard so far, once this is part of it or nothing more comes.
    pub(crate) async fn hear(&mut self, awaited: &str) -> String {
        let hearing = async {
            while !self.text().contains(awaited) {
                let mut part = [0; 4096];
                match self.stream.read(&mut part).await {
                    // A server that answers before all was sent may reset the connection; what it said was heard.
                    Ok(0) | Err(_) => break,
                    Ok(read) => self.heard.extend(&part[..read]),
                }
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.expect("the server answers");
        self.text()
    }

    /// All that was heard once the server has hung up.
    pub(crate) async fn hear_all(&mut self) -> String {
        self.hear("\0never sent").await
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.heard).into_owned()
    }
}
