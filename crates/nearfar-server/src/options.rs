//! What a server is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::auth::Users;

/// What a [`Server`](crate::Server) is started with.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where PostgreSQL's protocol is spoken.
    pub listen: SocketAddr,
    /// Where health and metrics are told, if they are.
    pub http: Option<SocketAddr>,
    /// Encryption, if there is any.
    pub tls: Option<TlsOptions>,
    /// Who may connect. Without, everybody may who reaches a loopback address.
    pub users: Option<Users>,
    /// Whether users that may write may also read and write files of this machine.
    pub may_use_files: bool,
    /// Connections at once.
    pub max_connections: usize,
    /// The largest message of a client, and so the longest statement, in bytes.
    pub max_message_bytes: usize,
    /// What the operators of all queries of a connection may take together, where that is less than
    /// what the engine has.
    pub session_memory_bytes: Option<u64>,
    /// What a statement may take from its arrival to its last row, where a client sets nothing else.
    pub statement_timeout: Option<Duration>,
    /// How long a connection may be silent outside of a transaction, where it sets nothing else.
    pub idle_session_timeout: Option<Duration>,
    /// How long it may be silent within one.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// Within which a client must have said who it is.
    pub authentication_timeout: Duration,
    /// What running statements get to end by themselves when the server stops.
    pub grace: Duration,
}

/// A certificate and its key, both PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Whether clients that do not encrypt are refused.
    pub is_required: bool,
}

/// PostgreSQL's port.
const PORT: u16 = 5432;

/// Loopback only, no encryption, no users, no health.
impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            http: None,
            tls: None,
            users: None,
            may_use_files: false,
            max_connections: 500,
            max_message_bytes: 16 << 20,
            session_memory_bytes: None,
            statement_timeout: None,
            idle_session_timeout: None,
            idle_in_transaction_timeout: None,
            authentication_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}
