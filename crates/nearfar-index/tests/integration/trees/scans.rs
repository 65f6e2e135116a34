//! How scans count in placement.

use std::ops::ControlFlow;

use nearfar_index::placement::Tracking;

use super::for_each_tree;
use super::subject::{PLENTY, Subject};

const KEYS: u64 = if cfg!(miri) { 48 } else { 2000 };

/// The uses of all leaves, which begin at zero again: few are counted one by one.
fn take_uses<S: Subject>(tree: &S) -> u64 {
    let mut uses = 0;
    let _ = tree.visit_leaves(&mut |leaf| {
        uses += u64::from(leaf.counter.take());
        ControlFlow::Continue(())
    });
    uses
}

fn a_scan_counts_its_first_leaf_and_as_many_of_the_others_as_it_is_told<S: Subject>() {
    let (tree, _) = S::watched(&[PLENTY; 3]);
    for number in 0..KEYS {
        tree.insert(number, number).unwrap();
    }
    let leaves = tree.leaves().len() as u64;
    tree.frontend().set_tracking(Tracking::Leaf);
    for is_back in [false, true] {
        for (one_in, counted) in [(1, leaves..u64::MAX), (u32::MAX, 1..2)] {
            tree.frontend().set_passed_one_in(one_in);
            take_uses(&tree);
            assert_eq!(tree.scan(0..KEYS, is_back).len() as u64, KEYS);
            let found = take_uses(&tree);
            assert!(counted.contains(&found), "{found} of {leaves}, {is_back}");
        }
    }
}

for_each_tree!(a_scan_counts_its_first_leaf_and_as_many_of_the_others_as_it_is_told);
