//! Where the nodes of indexes lie: their memory, what moves them, and who does.

mod home;
mod nodes;
mod policy;

pub use home::IndexHome;
pub use nodes::{IndexStatistics, IndexTier};
pub use policy::{IndexPlacement, IndexPolicy};

pub(super) use nodes::{MovedTree, Nodes};
