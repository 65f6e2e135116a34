//! `nearfar serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{DataArgs, MachineArgs, MemoryHostArgs, PoolArgs};

/// Serve tables over PostgreSQL's protocol, with health and metrics over HTTP.
///
/// Without a file of users, only clients of this machine may connect, and each may do everything but
/// use files. Ends with SIGTERM or Ctrl-C: statements that run get a grace period.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  nearfar serve --tpch 1                           psql -h 127.0.0.1 -U me finds TPC-H
  nearfar serve user add ann --file users          asks stdin for the password
  nearfar serve --users users --listen 0.0.0.0 --tls-cert c.pem --tls-key k.pem --tls-required
  curl http://127.0.0.1:9187/metrics

The exit code is 0 when all statements ended within the grace period, 130 when some were given up.")]
pub struct ServeArgs {
    #[command(subcommand)]
    pub action: Option<ServeAction>,
    /// Files and folders to load before clients are served.
    #[arg(value_name = "FILE|FOLDER")]
    pub files: Vec<PathBuf>,
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// The port to listen on; 0 for any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 5432)]
    pub port: u16,
    /// Where health and metrics are told.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9187")]
    pub http: SocketAddr,
    /// Tell neither health nor metrics.
    #[arg(long, conflicts_with = "http")]
    pub no_http: bool,
    /// Where a standby is told to take over, on this machine. By default any free port, which `nearfar
    /// serve promote` finds by asking for the health.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:0",
        help_heading = "Fail over"
    )]
    pub admin: SocketAddr,
    /// A file whose first line who tells it must know.
    #[arg(long, value_name = "FILE", help_heading = "Fail over")]
    pub admin_token: Option<PathBuf>,
    /// The file of users, made with `nearfar serve user add`.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub users: Option<PathBuf>,
    /// The certificate for encryption and those that vouch for it (PEM).
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        help_heading = "Access"
    )]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "Access"
    )]
    pub tls_key: Option<PathBuf>,
    /// Refuse connections that are not encrypted.
    #[arg(long, requires = "tls_cert", help_heading = "Access")]
    pub tls_required: bool,
    /// Let users that may write also read and write files of this machine.
    #[arg(long, help_heading = "Access")]
    pub allow_files: bool,
    /// Concurrent clients.
    #[arg(long, value_name = "N", default_value_t = 500, help_heading = "Limits")]
    pub max_connections: usize,
    /// Concurrent connections, beside these, that have not said who they are.
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Limits")]
    pub max_unauthenticated: usize,
    /// The longest statement.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "16MiB",
        help_heading = "Limits"
    )]
    pub max_statement: crate::human::ByteSize,
    /// What the operators of all queries of a connection may take together.
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    pub session_memory: Option<crate::human::ByteSize>,
    /// What a statement may take, in seconds; 0 for no end. Clients may set another.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "0", help_heading = "Limits")]
    pub statement_timeout: Duration,
    /// How long a client may be silent outside of a transaction; 0 for ever.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "0", help_heading = "Limits")]
    pub idle_timeout: Duration,
    /// How long a client may be silent within a transaction; 0 for ever.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "0", help_heading = "Limits")]
    pub idle_in_transaction_timeout: Duration,
    /// Within which a client must have said who it is.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "30", help_heading = "Limits")]
    pub authentication_timeout: Duration,
    /// Threads that clients are served on, and statements run on that are not planned again
    /// [default: as many as --threads]
    #[arg(long, value_name = "N")]
    pub client_threads: Option<std::num::NonZeroU16>,
    /// For how long a connection looks for the next message of its client before its thread sleeps, while no
    /// statement needs the processor; 0 for not at all.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "0.00005")]
    pub busy_poll: Duration,
    /// What scans, loads, merges, moves and spills may move to and from each tier that is not near, such as
    /// 2GB/s, where `SET far_bandwidth` says nothing else.
    #[arg(long, value_name = "BYTES/S", help_heading = "Limits")]
    pub far_bandwidth: Option<crate::human::Bandwidth>,
    /// Limit that further while near memory is more than so many times as slow as when the server was
    /// started, such as 1.2; watched by a thread that reads near memory.
    #[arg(long, value_name = "RATIO", value_parser = super::latency_max, help_heading = "Limits")]
    pub near_latency_max: Option<f64>,
    /// What running statements get to end by themselves when the server stops.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "30", help_heading = "Limits")]
    pub grace: Duration,
    /// Generate the eight tables of TPC-H at this scale factor.
    #[arg(long, value_name = "SF", allow_negative_numbers = true)]
    pub tpch: Option<f64>,
    /// Put tables that are loaded at the start here: `near`, `far`, a tier, or another placement
    /// (docs/placements.md), such as `interleave:2:1`.
    #[arg(long, value_name = "NAME")]
    pub tablespace: Option<String>,
    /// Add a modelled tier `far` after a built-in profile or a TOML file.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Machine")]
    pub profile: Option<String>,
    /// Wait until the owner of the pool is gone or `nearfar serve promote` says so, then take over.
    #[arg(long, requires = "pool", conflicts_with_all = ["files", "tpch"], help_heading = "Fail over")]
    pub standby: bool,
    /// After how many seconds of silence of this server others may take its pool.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "5", requires = "pool", help_heading = "Fail over")]
    pub lease: Duration,
    /// What to do about another owner of the pool: `now` and `when-lease-ends` take it over, `never`
    /// leaves it (a standby still obeys `promote`). Without it, a standby waits for the lease and a
    /// server leaves the owner alone.
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        requires = "pool",
        help_heading = "Fail over"
    )]
    pub take_over: Option<TakeOverArg>,
    /// Serve as a node of the cluster that this file describes.
    #[arg(
        long,
        value_name = "FILE",
        requires = "node",
        conflicts_with_all = ["files", "tpch", "standby"],
        help_heading = "Cluster"
    )]
    pub cluster: Option<PathBuf>,
    /// The same, where the node at this address tells what is in the file.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires_all = ["node", "certificates"],
        conflicts_with_all = ["cluster", "files", "tpch", "standby"],
        help_heading = "Cluster"
    )]
    pub join: Option<SocketAddr>,
    /// Where this node's `authority.pem`, `node.pem` and `node.key` are.
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "join",
        help_heading = "Cluster"
    )]
    pub certificates: Option<PathBuf>,
    /// Read replicated tables in the pool of another node, at this path here, in place of a copy of this node's own.
    #[arg(long, value_name = "PATH", requires = "node", help_heading = "Cluster")]
    pub shared_pool: Option<PathBuf>,
    /// The tier that the memory of that pool is part of here.
    #[arg(
        long,
        value_name = "TIER",
        default_value = "near",
        requires = "shared_pool",
        help_heading = "Cluster"
    )]
    pub shared_pool_tier: String,
    /// Which of the cluster's nodes this server is.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub node: Option<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub pool: PoolArgs,
    #[command(flatten)]
    pub hosts: MemoryHostArgs,
}

/// What else there is to do for a server.
#[derive(Debug, Subcommand)]
pub enum ServeAction {
    /// Keep a file of users.
    User(UserArgs),
    /// Have a standby of this machine take over.
    Promote(PromoteArgs),
}

/// Keep a file of users.
#[derive(Debug, Args)]
pub struct UserArgs {
    #[command(subcommand)]
    pub action: UserAction,
}

/// Have a standby of this machine take over, also from a server that lives.
#[derive(Debug, Args)]
pub struct PromoteArgs {
    /// Where the standby tells health and metrics.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9187")]
    pub http: SocketAddr,
    /// Where it is told to take over, if it tells no health.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "http")]
    pub admin: Option<SocketAddr>,
    /// The file of the token that the standby was started with.
    #[arg(long, value_name = "FILE")]
    pub admin_token: Option<PathBuf>,
}

/// When a pool is taken from its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TakeOverArg {
    /// Immediately.
    Now,
    /// When it has been silent for its lease.
    WhenLeaseEnds,
    /// Never.
    Never,
}

/// What can be done with users.
#[derive(Debug, Subcommand)]
pub enum UserAction {
    /// Add a user, whose password is read from stdin. The file keeps a verifier of it only.
    Add {
        /// The user's name.
        name: String,
        /// The file of users, which is made if there is none.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        /// What the user may do.
        #[arg(long, value_enum, default_value_t = UserRole::ReadWrite)]
        role: UserRole,
    },
}

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UserRole {
    /// Everything.
    ReadWrite,
    /// Nothing that creates, changes or moves tables.
    ReadOnly,
}
