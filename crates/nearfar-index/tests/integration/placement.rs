//! Placement of the example's tree.

#[path = "../../examples/adapt-a-tree/adapter.rs"]
mod adapter;
#[path = "../../examples/adapt-a-tree/bucket_trie.rs"]
mod bucket_trie;
