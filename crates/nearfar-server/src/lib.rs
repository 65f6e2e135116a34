//! Nearfar as a server: the PostgreSQL wire protocol, health and metrics over the tables of
//! `nearfar-sql`.
//!
//! A [`Server`] is bound to addresses ([`Server::bind`]) and then serves until it is told to stop
//! ([`Server::serve`]). Each connection has a session of the engine, which ends with it. Clients
//! are served on threads of the server's own; statements are read and planned on threads of their own, and what
//! their operators do runs on further runtimes ([`Lanes`](nearfar_sql::engine::Lanes)), so that cancel
//! requests, health and new connections are heard while statements keep all threads busy.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod admission;
mod attention;
mod auth;
mod cancel;
mod catalog;
mod client;
mod columns;
mod error;
mod halt;
mod http;
mod metrics;
mod options;
mod regulation;
mod server;
mod shared;
mod state;
mod threads;
mod tls;
mod wire;

pub use auth::{Role, User, UserError, Users};
pub use error::ServerError;
pub use http::{ADMIN_HEADER, COMMAND_HEADER};
pub use options::{AdminOptions, ServerOptions, TlsOptions, Token};
pub use server::{Server, ServerHandle, Stopped};
pub use state::{ServerState, StateHandle};

/// The stack of a thread that runs statements: deep expressions are planned by recursion.
pub const WORKER_STACK_BYTES: usize = 64 << 20;
