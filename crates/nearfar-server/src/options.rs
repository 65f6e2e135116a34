//! What a server is started with.

use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::auth::Users;
use crate::error::ServerError;

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
    /// Where a standby is told to take over, if it can be told.
    pub admin: Option<AdminOptions>,
    /// Threads that clients are served on, and statements run on that are not planned again.
    pub client_threads: usize,
    /// Concurrent clients.
    pub max_connections: usize,
    /// Concurrent connections that have not said who they are, beside these.
    pub max_unauthenticated: usize,
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
    /// For how long a connection looks for its client's next message before its thread sleeps, where
    /// processors are free.
    pub busy_poll: Duration,
    /// How many times as slow as at the start near memory may be while the engine moves bytes to and from
    /// other tiers, above 1: more, and these are limited. Nothing is watched without.
    pub near_latency_max: Option<f64>,
    /// What running statements get to end by themselves when the server stops.
    pub grace: Duration,
}

/// Where a server takes commands of who runs it.
#[derive(Debug, Clone)]
pub struct AdminOptions {
    /// A loopback address.
    pub listen: SocketAddr,
    /// What they must know.
    pub token: Option<Token>,
}

/// A secret that is kept in a file.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The first line of a file.
    ///
    /// # Errors
    /// A file that can't be read, that everybody may read, or whose first line is empty.
    pub fn read(path: &Path) -> Result<Self, ServerError> {
        let failed = |reason: String| ServerError::Token {
            path: path.to_owned(),
            reason,
        };
        let is_open = is_open_to_all(path).map_err(|error| failed(error.to_string()))?;
        if is_open {
            return Err(failed(OPEN_TO_ALL.to_owned()));
        }
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        match text.lines().next().map(str::trim) {
            Some(token) if !token.is_empty() => Ok(Self(token.to_owned())),
            _ => Err(failed("its first line is empty".to_owned())),
        }
    }

    /// The secret.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Secrets stay out of logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

/// What is wrong with a secret that everybody may read, and what to do.
pub const OPEN_TO_ALL: &str = "everybody can read it: chmod it to 600";

/// Whether others than the owner and the group of a file may do anything with it.
pub fn is_open_to_all(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o007 != 0)
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

impl ServerOptions {
    /// For how long connections look for messages, where nothing else is said: about as long as a thread
    /// takes to be woken.
    pub const BUSY_POLL: Duration = Duration::from_micros(50);
}

/// Loopback only, no encryption, no users, no health.
impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            http: None,
            tls: None,
            users: None,
            may_use_files: false,
            admin: None,
            client_threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_connections: 500,
            max_unauthenticated: 256,
            max_message_bytes: 16 << 20,
            session_memory_bytes: None,
            statement_timeout: None,
            idle_session_timeout: None,
            idle_in_transaction_timeout: None,
            authentication_timeout: Duration::from_secs(30),
            busy_poll: Self::BUSY_POLL,
            near_latency_max: None,
            grace: Duration::from_secs(30),
        }
    }
}
