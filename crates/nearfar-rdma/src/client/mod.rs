//! The client: a host's memory as a tier.

mod buffer;
mod check;
mod control;
mod fetch;
mod host;
mod links;
mod region;
mod state;
mod store;

pub use self::buffer::RemoteBuffer;
pub use self::check::HostCheck;
pub use self::fetch::{NearRing, RemoteFetch};
pub use self::host::{HostOptions, RemoteHost};
pub use self::region::RemoteRegion;
pub use self::store::{RemoteDraft, RemoteStore};
