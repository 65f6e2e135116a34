//! Plans over the tables of the cluster: leaves, who runs them, and how they travel.

mod codec;
mod coordinate;
mod definition;
mod everywhere;
mod in_place;
mod leaf;
mod pin;
mod router;
mod sink;
mod stages;
mod windows;

pub use codec::{ClusterCodec, decoded};
pub use router::Router;
pub use stages::check;
