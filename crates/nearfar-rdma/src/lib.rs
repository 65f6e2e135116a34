//! Memory of other hosts over RDMA.
//!
//! - [`Server`] offers memory of this host: to whoever knows a [`Secret`], up to a size, and as long as a client renews
//!   its lease.
//! - [`RemoteHost`] is a client's connection to such a server, and [`RemoteRegion`] memory there: a tier of kind `rdma`,
//!   with a budget and an account as any other. It is read and written by one-sided verbs, never by loads and stores.
//! - [`RemoteBuffer`] is a column there: bytes that do not change, with checksums of theirs kept near.
//! - [`RemoteFetch`] is how the copiers of [`nearfar_kernels::copy`] read such columns into near memory, while operators
//!   work on what is there already.
//! - [`RemoteStore`] is the other direction: how they write such columns behind a producer, as for
//!   [`RemoteBuffer::put_streamed`].
//!
//! ```no_run
//! use nearfar_memory::{Budgets, MemorySystem, TierKind, TierSpec};
//! use nearfar_rdma::{HostOptions, RemoteBuffer, RemoteHost, Secret};
//!
//! let near = TierSpec::new("near", TierKind::LocalDram, [0], 8 << 30);
//! let remote = TierSpec::rdma("remote", "10.0.0.1:7475", 64 << 30);
//! let system = MemorySystem::from_specs(vec![near, remote], &Budgets::new())?;
//! let (tier, address) = (system.tier("remote")?, "10.0.0.1:7475".parse()?);
//! let secret = Secret::read("secret".as_ref())?;
//! let host = RemoteHost::connect(&system, tier, address, &secret, HostOptions::default())?;
//! let column = RemoteBuffer::put(&host, &[7; 100_000])?;
//! let mut found = [0; 100];
//! column.read(5000, &mut found)?;
//! assert_eq!(found, [7; 100]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Hosts agree over a TCP connection, in small messages of one version ([`protocol`] has them) that are authenticated
//! in both directions; bytes of regions go over reliable connections of the device and are not encrypted. A host that
//! is gone makes those fail who need it, by its name, and nobody else: a transfer goes on for [`HostOptions::timeout`]
//! at most without progress, and a request is answered within ten seconds, or, where it is for much memory,
//! within as long as that takes to be made.
//!
//! The device is reached through [`nearfar_memory::rdma`], which has the unsafe code and loads the library. Without it,
//! or without a device, RDMA is *unavailable* with the reason.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod client;
mod error;
pub mod protocol;
mod secret;
mod server;

pub use client::{
    HostCheck, HostOptions, NearRing, RemoteBuffer, RemoteDraft, RemoteFetch, RemoteHost,
    RemoteRegion, RemoteStore,
};
pub use error::{RemoteError, ServeError};
pub use secret::{Secret, SecretError};
pub use server::{Server, ServerOptions, ServerUsage};

/// The root of the kernel's files.
const SYSFS: &str = "/sys";

/// The port that servers listen on by default.
pub const DEFAULT_PORT: u16 = 7475;
