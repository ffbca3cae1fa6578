//! TLS: a certificate and its key from files, which are read again when they change.
//!
//! Whoever renews a certificate replaces two files, one after the other. So a pair that does not fit, or cannot be read,
//! changes nothing: the connections that come meanwhile get the pair before, and the files are looked at again.

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often the files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// HTTP/2 in the words of a handshake.
const H2: &[u8] = b"h2";

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} cannot be read: {error}", .file.display())]
    Unreadable { file: PathBuf, error: String },
    #[error("there is no certificate in {}", .0.display())]
    NoCertificate(PathBuf),
    #[error("the key in {} is not that of the certificate in {}", .key.display(), .certificate.display())]
    NotAPair { certificate: PathBuf, key: PathBuf },
    #[error("TLS cannot be set up: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The files, both in PEM.
#[derive(Clone, Debug)]
struct Files {
    /// The server's own certificate first, then those that lead to the authority.
    certificate: PathBuf,
    key: PathBuf,
}

/// What tells one content of a file from another without reading it.
type Mark = (u64, u64, u64, i64, i64);

fn mark(of: &Metadata) -> Mark {
    (of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec())
}

impl Files {
    fn marks(&self) -> io::Result<[Mark; 2]> {
        Ok([mark(&fs::metadata(&self.certificate)?), mark(&fs::metadata(&self.key)?)])
    }

    fn read(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
        let unreadable = |file: &Path, error: &dyn ToString| TlsError::Unreadable {
            file: file.to_owned(),
            error: error.to_string(),
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unreadable(&self.certificate, &error))?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate(self.certificate.clone()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unreadable(&self.key, &error))?;
        match CertifiedKey::from_der(chain, key, provider) {
            Ok(pair) => Ok(Arc::new(pair)),
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(TlsError::NotAPair { certificate: self.certificate.clone(), key: self.key.clone() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The pair that connections get.
#[derive(Debug)]
struct Pair {
    files: Files,
    provider: Arc<CryptoProvider>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pair: Arc<CertifiedKey>,
    /// Of the files when they were last read, whether that pair was used or not.
    marks: Option<[Mark; 2]>,
    looked_at: Instant,
}

impl Pair {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pair for a connection that comes now.
    fn current(&self, now: Instant) -> Arc<CertifiedKey> {
        let mut state = self.state();
        if now.saturating_duration_since(state.looked_at) < LOOK_EVERY {
            return state.pair.clone();
        }
        state.looked_at = now;
        let marks = self.files.marks().ok();
        if marks != state.marks {
            state.marks = marks;
            match self.files.read(&self.provider) {
                Ok(pair) => {
                    tracing::info!(certificate = %self.files.certificate.display(), "the certificate was read again");
                    state.pair = pair;
                }
                Err(error) => tracing::warn!(%error, "the certificate in use stays"),
            }
        }
        state.pair.clone()
    }
}

impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current(Instant::now()))
    }
}

/// What a server needs to speak TLS.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Reads a certificate and its key.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Before they are read: a change meanwhile is seen at the next look.
        let marks = files.marks().ok();
        let pair = files.read(&provider)?;
        let state = Mutex::new(State { pair, marks, looked_at: Instant::now() });
        let config =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let mut config =
            config.with_no_client_auth().with_cert_resolver(Arc::new(Pair { files, provider, state }));
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// The handshake; and whether HTTP/2 was agreed upon.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<(TlsStream<S>, bool)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.0.accept(stream).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Ok((stream, is_h2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder of this test.
    fn folder() -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("perdura-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn made() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn put(files: &Files, certificate: Option<&str>, key: Option<&str>) {
        for (file, text) in [(&files.certificate, certificate), (&files.key, key)] {
            let Some(text) = text else { continue };
            let new = file.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::rename(new, file).unwrap();
        }
    }

    #[test]
    fn a_pair_that_was_replaced_counts_as_soon_as_both_files_fit() {
        let folder = folder();
        let files = Files { certificate: folder.join("c.pem"), key: folder.join("k.pem") };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let ((first, first_key), (second, second_key)) = (made(), made());
        put(&files, Some(&first), Some(&first_key));
        let began = Instant::now();
        let state =
            State { pair: files.read(&provider).unwrap(), marks: files.marks().ok(), looked_at: began };
        let pair = Pair { files: files.clone(), provider, state: Mutex::new(state) };
        let old = pair.current(began).cert.clone();
        put(&files, Some(&second), None);
        assert_eq!(pair.current(began + LOOK_EVERY).cert, old, "its key is missing");
        fs::remove_file(&files.key).unwrap();
        assert_eq!(pair.current(began + 2 * LOOK_EVERY).cert, old, "there is no key at all");
        put(&files, None, Some(&second_key));
        assert_eq!(pair.current(began + 2 * LOOK_EVERY).cert, old, "it was looked at just now");
        assert_ne!(pair.current(began + 3 * LOOK_EVERY).cert, old);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_pair_is_refused_with_the_file_that_is_wrong() {
        let folder = folder();
        let files = Files { certificate: folder.join("c.pem"), key: folder.join("k.pem") };
        let ((certificate, key), (_, other)) = (made(), made());
        for (certificate, key, says) in [
            ("", &*key, "there is no certificate in"),
            ("no PEM", &*key, "there is no certificate in"),
            (&*certificate, "", "k.pem cannot be read"),
            (&*certificate, &*other, "is not that of the certificate"),
        ] {
            put(&files, Some(certificate), Some(key));
            let error = Tls::open(&files.certificate, &files.key).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
        }
        fs::remove_file(&files.certificate).unwrap();
        let error = Tls::open(&files.certificate, &files.key).err().unwrap().to_string();
        assert!(error.contains("c.pem cannot be read"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
