//! Encryption: from files to what accepts encrypted connections.

use std::path::Path;
use std::sync::Arc;

use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::ServerConfig;
use pgwire::tokio::tokio_rustls::rustls::crypto::ring::default_provider;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServerError;
use crate::options::{OPEN_TO_ALL, TlsOptions, is_open_to_all};

/// The name under which clients that encrypt without asking first name the protocol.
pub const ALPN: &[u8] = b"postgresql";

/// What accepts encrypted connections.
///
/// # Errors
/// Files that are not there, are no PEM, or do not belong together; a key that everybody may read.
pub fn acceptor(options: &TlsOptions) -> Result<TlsAcceptor, ServerError> {
    let unusable = |path: &Path, reason: String| ServerError::Tls {
        path: path.to_owned(),
        reason,
    };
    let chain = CertificateDer::pem_file_iter(&options.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&options.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable(
            &options.certificate,
            "it holds no certificate".to_owned(),
        ));
    }
    let is_open = is_open_to_all(&options.key);
    if is_open.map_err(|error| unusable(&options.key, error.to_string()))? {
        return Err(unusable(&options.key, OPEN_TO_ALL.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&options.key)
        .map_err(|error| unusable(&options.key, error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| unusable(&options.key, error.to_string()))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
