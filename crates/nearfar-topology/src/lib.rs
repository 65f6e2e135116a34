//! The memory of a machine as **tiers**, ordered from near to far, and
//! **profiles** of machines one does not own.
//!
//! A [`Tier`] is a set of memory with one performance class: local DRAM, a remote
//! socket, one or several CXL devices, a node without CPUs, a DAX device that
//! is mapped, since the kernel does not allocate on it. [`Topology::discover`] reads them from a sysfs
//! (nodes, distances, HMAT access classes, the kernel's memory tiers, the CXL and
//! DAX buses), whose root is a parameter, so that a [captured](capture) machine
//! is as good as the one this runs on. A [`Profile`] describes far memory that
//! was published; [`Topology::with_profile`] adds it as a modelled tier.
//!
//! # What is declared is not what is measured
//!
//! Latency and bandwidth in a [`Topology`] are what firmware, devices or papers
//! say. What a machine does not say is [`Known::Unavailable`] with the reason,
//! never zero. This crate allocates no memory on any tier and measures nothing.
//!
//! # Example
//!
//! A machine with DRAM and one node without CPUs, here written down by hand in
//! the text form of a [capture]; on a real one, use [`Topology::this_machine`].
//!
//! ```
//! use nearfar_topology::capture::Capture;
//! use nearfar_topology::{Known, Profile, TierKind, Topology};
//!
//! let sysfs = tempfile::tempdir()?;
//! Capture::parse(
//!     "
//! devices/system/node/node0/cpulist = 0-3
//! devices/system/node/node0/distance = 10 20
//! devices/system/node/node0/meminfo =
//! \tNode 0 MemTotal: 8388608 kB
//! \tNode 0 MemFree: 4194304 kB
//! devices/system/node/node1/distance = 20 10
//! devices/system/node/node1/meminfo =
//! \tNode 1 MemTotal: 16777216 kB
//! \tNode 1 MemFree: 16777216 kB
//! devices/system/node/node1/access0/initiators/node0 -> ../../../node0
//! devices/system/node/node1/access0/initiators/read_latency = 250
//! ",
//! )?
//! .unpack(sysfs.path())?;
//!
//! let topology = Topology::discover(sysfs.path())?;
//! assert_eq!(topology.tier("near")?.kind, TierKind::LocalDram);
//! let far = topology.tier("far")?;
//! assert_eq!(far.kind, TierKind::CpulessNode);
//! assert_eq!(far.capacity_bytes, Known::Value(16 << 30));
//! assert_eq!(far.declared.read_latency_ns, Known::Value(250.0));
//! assert!(far.declared.write_latency_ns.reason().is_some());
//!
//! // On any machine: the far memory of a published one, modelled.
//! let profile = Profile::builtin("cxl-blades-4")?;
//! let topology = topology.with_profile(&profile);
//! let far = topology.tier("far")?;
//! assert_eq!(far.kind, TierKind::Modelled);
//! assert_eq!(far.declared.read_latency_ns, Known::Value(507.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod capture;
mod discover;
mod error;
mod id_list;
mod known;
mod modelled;
pub mod names;
pub mod perf;
mod profile;
mod render;
mod sysfs;
mod topology;
pub mod units;

pub use error::DiscoverError;
pub use id_list::{IdList, NodeId};
pub use known::Known;
pub use names::{FAR, NEAR, UnknownTier};
pub use profile::{
    Profile, ProfileError, ProfileProblem, SimulatedCores, SimulatedTier, SimulationProfile,
    TierProfile,
};
pub use topology::{
    Device, DeviceKind, Performance, Socket, Tier, TierKind, Topology, Unavailable,
};
