//! What must hold of all three trees alike, on memory that can be made to fail.

mod artefact;
mod bad_input;
mod endurance;
mod faults;
mod history;
mod linearizability;
mod memory;
mod scans;
mod subject;

/// A number that looks random (Steele et al., SplitMix, OOPSLA 2014).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Makes a test of each function, for each tree with values in its leaves and beside them.
macro_rules! for_each_tree {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        for_each_tree!(@ art, nearfar_index::Art<u64>, $($(#[$attribute])* $name),*);
        for_each_tree!(@ art_with_blocks, nearfar_index::Art<nearfar_index::BlockValue>, $($(#[$attribute])* $name),*);
        for_each_tree!(@ btree, nearfar_index::BPlusTree<u64>, $($(#[$attribute])* $name),*);
        for_each_tree!(@ btree_with_blocks, nearfar_index::BPlusTree<nearfar_index::BlockValue>, $($(#[$attribute])* $name),*);
        for_each_tree!(@ masstree, nearfar_index::Masstree<u64>, $($(#[$attribute])* $name),*);
        for_each_tree!(@ masstree_with_blocks, nearfar_index::Masstree<nearfar_index::BlockValue>, $($(#[$attribute])* $name),*);
    };
    (@ $tree:ident, $type:ty, $($(#[$attribute:meta])* $name:ident),*) => {
        mod $tree {
            $(
                #[test]
                $(#[$attribute])*
                fn $name() {
                    super::$name::<$type>();
                }
            )*
        }
    };
}
use for_each_tree;
