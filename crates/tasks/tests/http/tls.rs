//! Calls over TLS: whom the client trusts, and HTTP/2 where the receiver speaks it.

use crate::task::{Setting, failure, output};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use perdura_engine::Certainty;
use perdura_tasks::client::Client;
use perdura_tasks::connection::Connection;
use perdura_tasks::guard::Guard;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A receiver that speaks HTTP/2 alone, and answers with the headers that it got.
struct Receiver {
    url: String,
    certificate: CertificateDer<'static>,
    connections: Arc<AtomicUsize>,
}

impl Receiver {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a certificate and its key");
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://localhost:{}/", listener.local_addr().expect("bound").port());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), stream, counted.clone()));
            }
        });
        Self { url, certificate, connections }
    }

    fn arguments(&self) -> String {
        let url = &self.url;
        format!(
            r#"{{"ApiEndpoint": "{url}", "Method": "GET", "InvocationConfig": {{"ConnectionArn": "Bank"}}}}"#
        )
    }

    fn setting(&self) -> Setting {
        let client = Client::trusting(Guard::default(), [self.certificate.clone()]).expect("a client");
        let setting = Setting { client, strict: true, ..Setting::default() };
        let connection = r#"{"hosts": ["localhost"], "api_key": {"header": "x-key", "value": "marker"}}"#;
        setting.connections.replace(vec![("Bank".into(), Connection::from_json(connection).expect("valid"))]);
        setting
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, connections: Arc<AtomicUsize>) {
    let Ok(stream) = acceptor.accept(stream).await else { return }; // a client that does not trust us
    connections.fetch_add(1, Ordering::SeqCst);
    let answer = service_fn(|request: Request<Incoming>| async move {
        let told = format!("{:?} {:?}", request.version(), request.headers());
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(told))))
    });
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    serving.serve_connection(TokioIo::new(stream), answer).await.unwrap_or_default(); // ends when the client goes
}

#[tokio::test]
async fn many_calls_share_one_connection_where_the_receiver_speaks_http2() {
    let receiver = Receiver::start().await;
    let (setting, arguments) = (receiver.setting(), receiver.arguments());
    let first = setting.invoke(&arguments).await;
    for told in [
        "HTTP/2.0",
        r#"\"user-agent\": \"Amazon|StepFunctions|HttpInvoke|eu-west-1\""#,
        r#"\"range\": \"bytes=0-262144\""#,
        r#"\"idempotency-key\""#,
        r#"\"x-key\": \"…\""#,
    ] {
        assert!(output(&first).contains(told), "{told}: {first:?}");
    }
    tokio::join!(setting.invoke(&arguments), setting.invoke(&arguments), setting.invoke(&arguments));
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_receiver_that_is_not_trusted_is_not_called() {
    let receiver = Receiver::start().await;
    let setting = Setting { client: Setting::default().client, ..receiver.setting() };
    let outcome = setting.invoke(&receiver.arguments()).await;
    let (error, cause, certainty) = failure(&outcome);
    assert_eq!((error, certainty), ("States.Http.Socket", Certainty::NotSent));
    assert!(cause.contains("no connection to localhost: invalid peer certificate"), "{cause}");
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 0);
}
