//! Maps of other crates, each used as it is fastest.

mod bplustree;
mod congee;
mod ferntree;
mod masstree;
mod scc;
mod skiplist;
mod std_map;

pub(super) use bplustree::BPlusTreeCrate;
pub(super) use congee::CongeeCrate;
pub(super) use ferntree::FerntreeCrate;
pub(super) use masstree::MasstreeCrate;
pub(super) use scc::SccCrate;
pub(super) use skiplist::SkiplistCrate;
pub(super) use std_map::LockedMap;
