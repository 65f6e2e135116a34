//! Memory that runs out at every point.

use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::Frontend;
use nearfar_index::{BlockValue, Masstree, TreeError};

use super::{Oracle, assert_same, tier};

/// Keys that split leaves and inner nodes, need records, and grow layers.
fn keys() -> Vec<Vec<u8>> {
    let numbers = 0..if cfg!(miri) { 20 } else { 400_u64 };
    let mut keys: Vec<Vec<u8>> = numbers
        .map(|number| {
            let number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            number.to_be_bytes().to_vec()
        })
        .collect();
    for number in 0..10 {
        keys.push(format!("the same slices for a while, and then {number}").into_bytes());
        keys.push(format!("{number} has a rest of its own").into_bytes());
    }
    keys
}

/// Raises the budget word by word whenever a key does not go in: so each allocation of each
/// operation fails once for want of its last word, and before that for want of more.
#[test]
fn a_key_goes_in_or_leaves_the_tree_as_it_was() {
    let memory = NodeMemory::platform_with_budgets(&[0]);
    let tree = Masstree::with_memory(memory, Frontend::all_near());
    let (mut oracle, mut budget) = (Oracle::new(), 0);
    for (value, key) in (0..).zip(keys()) {
        let mut failures = 0;
        while let Err(error) = tree.insert(&key, value) {
            assert!(matches!(error, TreeError::OutOfMemory(_)), "{error}");
            assert_eq!(tree.get(&key), None);
            assert_eq!(tree.len(), oracle.len());
            if failures % 16 == 0 {
                assert_same(&tree, &oracle);
            }
            failures += 1;
            budget += 8;
            tree.memory().set_budget(tier(0), budget);
        }
        oracle.insert(key, value);
    }
    assert_same(&tree, &oracle);
    assert!(tree.memory().ledger(tier(0)).used_bytes() <= budget);
    for key in oracle.keys() {
        assert!(tree.remove(key).is_some());
    }
    tree.memory().quiesce();
    assert!(tree.memory().ledger(tier(0)).used_bytes() <= 256);
}

#[test]
fn a_value_without_room_leaves_the_old_one() {
    let memory = NodeMemory::platform_with_budgets(&[256 + 2 * 64]);
    let tree = Masstree::with_memory(memory, Frontend::all_near());
    let value = |byte: u8, bytes| BlockValue::new(vec![byte; bytes]).unwrap();
    tree.insert("a", value(1, 56)).unwrap();
    tree.insert("b", value(2, 56)).unwrap();
    assert!(tree.insert("a", value(3, 8)).is_err());
    assert!(tree.update("b", |_| value(4, 8)).is_err());
    assert!(tree.insert("c", value(5, 0)).is_err());
    assert_eq!(tree.get("a"), Some(value(1, 56)));
    assert_eq!(tree.get("b"), Some(value(2, 56)));
    assert_eq!(tree.len(), 2);
}
