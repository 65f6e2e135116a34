//! Memory of another host, read and written by one-sided RDMA verbs over reliable connections.
//!
//! This is what needs unsafe code and the library libibverbs, which is loaded when it is first needed: a program that
//! has this module starts on machines without it. Who offers memory to whom, and for how long, is in the crate
//! `nearfar-rdma`.
//!
//! - [`Domain`] is a device that was opened, with a protection domain: what is registered there can be reached over
//!   its own connections only.
//! - [`OfferedMemory`] is a region whose bytes belong to another host: nobody here reads or writes them.
//! - [`NearBuffer`] is a region of this host that a device may fill or send.
//! - [`Link`] is the connection of one thread at a time. Its calls return when the device is done with the bytes, so
//!   that a slice is never seen while a device writes to it: what was given up is stopped first, by destroying the
//!   queue pair.
//! - [`RemoteCharge`] is the account of what a tier of kind `rdma` is used for.

mod charge;
mod domain;
mod error;
mod ffi;
mod library;
mod link;
mod memory;
mod port;
mod queue_pair;

pub use charge::RemoteCharge;
pub use domain::{DeviceChoice, Domain};
pub use error::RdmaError;
pub use link::{Link, RemoteSpan, ServedLink, TransferLimits};
pub use memory::{NearBuffer, OfferedMemory};
pub use port::Endpoint;
