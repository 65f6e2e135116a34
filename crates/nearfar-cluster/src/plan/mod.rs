//! Plans over the tables of the cluster: leaves, who runs them, and how they travel.

mod codec;
mod coordinate;
mod definition;
mod in_place;
mod leaf;
mod pin;
mod router;
mod sink;
mod stages;

pub use codec::{ClusterCodec, decoded};
pub use definition::quoted;
pub use pin::QueryPin;
pub use router::Router;
pub use stages::check;
