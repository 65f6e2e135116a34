//! What can go wrong, for clients and servers.

use std::io;
use std::net::SocketAddr;

use nearfar_kernels::copy::CopyError;
use nearfar_memory::RegionError;
use nearfar_memory::rdma::RdmaError;

use crate::protocol::{ChannelError, IntroductionError, Refusal};
use crate::secret::SecretError;

/// What goes wrong with memory of another host. Texts name the host and, where there is one, the region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Nobody answers there.
    #[error("host {host} cannot be reached")]
    Unreachable {
        /// The host.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server does not take this client's secret.
    #[error("host {host} refuses this secret")]
    WrongSecret {
        /// The host.
        host: String,
    },
    /// Whoever answers there does not know the secret.
    #[error("host {host} does not know the secret: it is not the server that it should be")]
    Impostor {
        /// The host.
        host: String,
    },
    /// The server speaks another version.
    #[error("host {host} speaks version {theirs} of the protocol, this program version {ours}")]
    Version {
        /// The host.
        host: String,
        /// The server's version.
        theirs: u16,
        /// This program's.
        ours: u16,
    },
    /// The server does not do what was asked for.
    #[error("host {host} refuses: {refusal}")]
    Refused {
        /// The host.
        host: String,
        /// Why.
        refusal: Refusal,
    },
    /// The host is gone, or has ended the lease: what is in its memory is lost to this client.
    #[error("host {host}{} is lost: {reason}", named(*region))]
    Lost {
        /// The host.
        host: String,
        /// The region that was needed.
        region: Option<u64>,
        /// What was noticed.
        reason: String,
    },
    /// The caller needs the bytes no more.
    #[error("a transfer with host {host} was cancelled")]
    Cancelled {
        /// The host.
        host: String,
    },
    /// Bytes came back that are not those that were written.
    #[error(
        "host {host}, region {region}: bytes {offset_bytes} to {end_bytes} have another checksum than when \
         they were written"
    )]
    Damaged {
        /// The host.
        host: String,
        /// The region.
        region: u64,
        /// Where the damaged block begins.
        offset_bytes: u64,
        /// Where it ends.
        end_bytes: u64,
    },
    /// Bytes of a column that are not whole blocks, which have checksums.
    #[error(
        "host {host}, region {region}: {bytes} bytes from {offset_bytes} on are no whole blocks of 4096 bytes: give \
         chunks of a multiple of that"
    )]
    Blocks {
        /// The host.
        host: String,
        /// The region.
        region: u64,
        /// The first byte.
        offset_bytes: u64,
        /// How many there are.
        bytes: u64,
    },
    /// A column of which not all was written.
    #[error(
        "host {host}, region {region}: bytes from {offset_bytes} on were not written, so it is no column"
    )]
    Unwritten {
        /// The host.
        host: String,
        /// The region.
        region: u64,
        /// The first byte that was not.
        offset_bytes: u64,
    },
    /// Bytes that the region does not have.
    #[error(
        "host {host}, region {region}: {bytes} bytes from {offset_bytes} on, of {len_bytes} bytes"
    )]
    OutOfRange {
        /// The host.
        host: String,
        /// The region.
        region: u64,
        /// The first byte asked for.
        offset_bytes: u64,
        /// How many were asked for.
        bytes: u64,
        /// How many there are.
        len_bytes: u64,
    },
    /// Its tier, or the device, does not allow it.
    #[error("host {host}: {source}")]
    Rdma {
        /// The host.
        host: String,
        /// Why.
        #[source]
        source: RdmaError,
    },
    /// A near buffer cannot be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// No thread that renews the lease can be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// This host's copiers cannot copy.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The secret is of no use.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// What came over the control connection is not what a server says.
    #[error("host {host} cannot be understood: {source}")]
    Channel {
        /// The host.
        host: String,
        /// Why.
        #[source]
        source: ChannelError,
    },
}

impl RemoteError {
    /// The error of whoever needed a region, where it does not say so yet.
    pub(crate) fn needing(self, number: u64) -> Self {
        match self {
            Self::Lost {
                host,
                region: None,
                reason,
            } => Self::Lost {
                host,
                region: Some(number),
                reason,
            },
            other => other,
        }
    }

    /// Why `host` and this client do not trust each other.
    pub(crate) fn of_introduction(host: &str, error: IntroductionError) -> Self {
        let host = host.to_owned();
        match error {
            IntroductionError::WrongSecret => Self::WrongSecret { host },
            IntroductionError::Full => {
                let refusal = Refusal::Full;
                Self::Refused { host, refusal }
            }
            IntroductionError::Impostor => Self::Impostor { host },
            IntroductionError::Version { theirs, ours } => Self::Version { host, theirs, ours },
            IntroductionError::Channel(source) => Self::Channel { host, source },
            IntroductionError::Secret(error) => Self::Secret(error),
        }
    }
}

fn named(region: Option<u64>) -> String {
    region.map_or_else(String::new, |region| format!(", region {region},"))
}

/// Why memory cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// This machine has no RDMA.
    #[error(transparent)]
    Rdma(#[from] RdmaError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A lease so short that it would end between two renewals.
    #[error("a lease of {lease_ms} ms: give 300 ms to one day")]
    Lease {
        /// What was asked for.
        lease_ms: u128,
    },
    /// No thread can be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}
