//! Why a server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::auth::UserError;

/// Why a server does not start or can't go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// An address that can't be listened on.
    #[error("cannot listen on {address} for {purpose}: {source}; choose another address or port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Who is served there, or what.
        purpose: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// An address that others reach, without users.
    #[error(
        "{address} can be reached from other machines, and there are no users: give a file of users, \
         or listen on a loopback address"
    )]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// An address for commands that others reach.
    #[error("{address} can be reached from other machines: take commands on a loopback address")]
    AdminUnprotected {
        /// The address.
        address: SocketAddr,
    },
    /// A token that can't be used.
    #[error("the token in `{}` can't be used: {reason}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate or key that can't be used.
    #[error("`{}` can't be used for TLS: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Threads that can't be had.
    #[error("cannot start threads: {source}")]
    Threads {
        /// What the kernel says.
        source: io::Error,
    },
    /// Users that can't be read.
    #[error(transparent)]
    Users(#[from] UserError),
}
