//! TLS at the server's own door: which certificate it shows, and which versions of HTTP it speaks.

mod common;

use bytes::Bytes;
use common::Scene;
use common::server::{Server, wait_until};
use perdura_tasks::client::{Client, Outgoing};
use perdura_tasks::guard::Guard;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Makes a certificate for this name, puts it where the server looks, and returns it.
fn renew(scene: &Scene) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    for (name, text) in [("cert.pem", made.cert.pem()), ("key.pem", made.signing_key.serialize_pem())] {
        std::fs::write(scene.path("new.pem"), text).expect("it can be written");
        std::fs::rename(scene.path("new.pem"), scene.path(name)).expect("it can be moved");
    }
    made.cert.der().clone()
}

const CONFIG: &str = "[serve]\ntls_certificate_file = 'cert.pem'\ntls_key_file = 'key.pem'\n";

/// A connection of a client that trusts this certificate alone and offers this protocol.
fn connect(
    server: &Server,
    trusted: &CertificateDer<'static>,
    protocol: &[u8],
) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream = TcpStream::connect(&server.address)?;
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(client, stream))
}

fn get(server: &Server, trusted: &CertificateDer<'static>, path: &str) -> std::io::Result<String> {
    let mut stream = connect(server, trusted, b"http/1.1")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error),
        Ok(_) | Err(_) => Ok(answer),
    }
}

#[test]
fn with_a_certificate_nothing_is_answered_in_plain_text_and_all_over_tls() {
    let scene = Scene::new("tls-once").file("perdura.toml", CONFIG);
    let trusted = renew(&scene);
    let server = Server::start(&scene, &[]);
    assert!(server.ready.contains(" on https://127.0.0.1:"), "{}", server.ready);
    assert!(get(&server, &trusted, "/healthz").expect("it answers").starts_with("HTTP/1.1 200 "));
    assert!(get(&server, &trusted, "/v1/machines").expect("it answers").contains(r#"{"items":[]}"#));
    let mut plain = TcpStream::connect(&server.address).expect("it listens");
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it can be sent");
    let mut told = Vec::new();
    // The connection may be reset: what counts is that nothing was told.
    let _ = plain.read_to_end(&mut told);
    assert!(!told.starts_with(b"HTTP"), "{told:?}");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    assert!(get(&server, other.cert.der(), "/healthz").is_err(), "a certificate that nobody trusts");
}

#[test]
fn many_requests_at_once_are_answered_on_one_connection_of_http_2() {
    let scene = Scene::new("tls-h2").file("perdura.toml", CONFIG);
    let trusted = renew(&scene);
    let server = Server::start(&scene, &[]);
    let agreed = connect(&server, &trusted, b"h2").expect("a handshake");
    assert_eq!(agreed.conn.alpn_protocol(), Some(&b"h2"[..]));
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads");
    tokio.block_on(async {
        let client = Client::trusting(Guard::default(), [trusted]).expect("a client");
        let port = server.address.rsplit(':').next().expect("a port");
        let url = format!("https://localhost:{port}/v1/server").parse::<url::Url>().expect("a URL");
        let asked = |client: Client, url| async move {
            let (headers, timeout) = (http::HeaderMap::new(), std::time::Duration::from_secs(30));
            let method = http::Method::GET;
            let body = Bytes::new();
            let answer_bytes_max = 1 << 20;
            client.send(Outgoing { method, url, headers, body, timeout, answer_bytes_max }).await
        };
        // The first agrees on HTTP/2; the others share its connection.
        asked(client.clone(), url.clone()).await.expect("it is answered");
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..200 {
            all.spawn(asked(client.clone(), url.clone()));
        }
        while let Some(answer) = all.join_next().await {
            assert_eq!(answer.expect("no panic").expect("each is answered").status, 200);
        }
    });
}

#[test]
fn a_certificate_that_was_renewed_is_shown_without_a_restart() {
    let scene = Scene::new("tls-renewed").file("perdura.toml", CONFIG);
    let old = renew(&scene);
    let server = Server::start(&scene, &[]);
    assert!(get(&server, &old, "/healthz").is_ok());
    let new = renew(&scene);
    wait_until("the new one is shown", || {
        get(&server, &new, "/healthz").is_ok_and(|told| told.starts_with("HTTP/1.1 200 "))
    });
    assert!(get(&server, &old, "/healthz").is_err(), "the old one is not shown any more");
    std::fs::write(scene.path("cert.pem"), "spoilt").expect("it can be written");
    wait_until("the log tells of it", || {
        assert!(get(&server, &new, "/healthz").is_ok(), "the one in use stays");
        scene.lines("serve.log").iter().any(|line| line.contains("the certificate in use stays"))
    });
}

#[test]
fn a_certificate_that_cannot_be_used_is_told_at_the_start() {
    let scene = Scene::new("tls-wrong").file("perdura.toml", CONFIG);
    let serve = ["serve", "--data", "data", "--listen", "127.0.0.1:0"];
    scene.perdura(&serve).fails(2, &["TLS is not possible", "cert.pem cannot be read"]);
    renew(&scene);
    let half = scene.file("perdura.toml", "[serve]\ntls_certificate_file = 'cert.pem'\n");
    half.perdura(&serve).fails(2, &["its key is missing", "serve.tls_key_file"]);
}
