//! Placement of the example's tree.

#[path = "../../../examples/adapt-a-tree/adapter.rs"]
mod adapter;
mod background;
#[path = "../../../examples/adapt-a-tree/bucket_trie.rs"]
mod bucket_trie;
mod mechanisms;
mod moves;
mod policies;
mod strain;
mod support;
