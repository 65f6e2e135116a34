//! `nearfar memory`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use nearfar_memory::PlacementSpec;

use super::FigureArgs;
use crate::human::{ByteSize, NamedAddress};

/// Memory for other hosts, over RDMA.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// What is done.
    #[command(subcommand)]
    pub action: MemoryAction,
}

/// What can be done with memory of other hosts.
#[derive(Debug, Subcommand)]
pub enum MemoryAction {
    Serve(MemoryServeArgs),
    Check(MemoryCheckArgs),
}

/// Offer memory of this host to others, over RDMA.
///
/// Clients must know the secret, which is never sent; what they read and write is not encrypted. Memory of a client
/// that is not heard of for a lease is taken back. Ends with Ctrl-C or SIGTERM, and with it what clients have here.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  head -c 32 /dev/urandom | base64 > secret; chmod 600 secret
  nearfar memory serve --size 64GiB --secret-file secret --listen 10.0.0.1:7475
  nearfar memory serve --size 1TiB --placement far --secret-file secret --listen 10.0.0.1:7475")]
pub struct MemoryServeArgs {
    /// How much is offered, to all clients together.
    #[arg(long, value_name = "BYTES")]
    pub size: ByteSize,
    /// A file whose first line is the secret, of 16 bytes at least.
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,
    /// Where clients connect. The RDMA device that has this address comes first.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7475")]
    pub listen: SocketAddr,
    /// Seconds within which a client must be heard of.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds, default_value = "10")]
    pub lease: Duration,
    /// The RDMA device [default: the one with the address, or else any].
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Where in this host's memory it lies: `near`, `far`, a tier, or another placement (docs/placements.md).
    #[arg(long, value_name = "PLACEMENT", default_value = "near")]
    pub placement: PlacementSpec,
    /// Concurrent clients.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_clients: usize,
}

/// Try the memory that a host offers: write, read, and compare.
///
/// Takes memory there, writes to it, reads it back, sums it over chunks that copiers fetch, and gives it back. It says
/// what works, and measures nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nearfar memory check 10.0.0.1:7475 --secret-file secret
  nearfar memory check 10.0.0.1:7475 --secret-file secret --size 1GiB --format json")]
pub struct MemoryCheckArgs {
    /// Where the host listens.
    #[arg(value_name = "ADDRESS:PORT")]
    pub address: SocketAddr,
    /// A file whose first line is the secret.
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,
    /// How much is written.
    #[arg(long, value_name = "BYTES", default_value = "16MiB")]
    pub size: ByteSize,
    /// The RDMA device of this machine [default: the one with the address that the host is reached from, or else any].
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    #[command(flatten)]
    pub figures: FigureArgs,
}

/// Memory of other hosts as tablespaces.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Memory of other hosts")]
pub struct MemoryHostArgs {
    /// Use the memory that a host offers here (`nearfar memory serve`) as tablespace NAME [default: remote]; may be
    /// given several times. `CREATE TABLE t TABLESPACE NAME AS SELECT …` puts rows there (docs/rdma.md).
    #[arg(
        long = "memory-host",
        value_name = "[NAME=]ADDRESS:PORT",
        requires = "memory_secret_file"
    )]
    pub memory_hosts: Vec<NamedAddress>,
    /// A file whose first line is the secret of these hosts.
    #[arg(long, value_name = "FILE", requires = "memory_hosts")]
    pub memory_secret_file: Option<PathBuf>,
    /// The RDMA device of this machine [default: the one with the address that a host is reached from, or else any].
    #[arg(long, value_name = "NAME", requires = "memory_hosts")]
    pub memory_device: Option<String>,
    /// Keep so much near of what queries fetch from these hosts [default: 256MiB].
    #[arg(long, value_name = "BYTES", requires = "memory_hosts")]
    pub memory_cache: Option<ByteSize>,
}
