//! Plans over the tables of the cluster: leaves, who runs them, and how they travel.

mod codec;
mod in_place;
mod leaf;
mod router;
mod sink;
mod stages;

pub use codec::{ClusterCodec, decoded};
pub use router::Router;
pub use stages::check;
