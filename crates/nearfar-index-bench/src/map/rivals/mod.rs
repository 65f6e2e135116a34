//! Maps of other crates, each used as it is fastest. Builds without the feature `rivals` have none.

#[cfg(feature = "rivals")]
mod bplustree;
#[cfg(feature = "rivals")]
mod congee;
#[cfg(feature = "rivals")]
mod ferntree;
#[cfg(feature = "rivals")]
mod masstree;
#[cfg(feature = "rivals")]
mod open;
#[cfg(feature = "rivals")]
mod scc;
#[cfg(feature = "rivals")]
mod skiplist;
#[cfg(not(feature = "rivals"))]
mod without;

#[cfg(feature = "rivals")]
pub(super) use open::{open_bytes, open_integers};
#[cfg(not(feature = "rivals"))]
pub(super) use without::{open_bytes, open_integers};
