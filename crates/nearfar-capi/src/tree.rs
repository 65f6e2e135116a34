//! Ordered maps whose nodes lie on tiers.

use std::ffi::c_void;
use std::ops::ControlFlow;

use nearfar_index::BPlusTree;
use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, Tracking};
use nearfar_memory::{HeapOptions, TierHeap};

use crate::failure::{Failure, Status, array, guarded, result, results, text};
use crate::handles::{Handle, Handles};
use crate::system::{Budget, SYSTEMS, tier_of};

static TREES: Handles<BPlusTree<u64>> = Handles::new("tree");

/// Is called with each key and value of a scan, and with what the caller gave; the scan ends where it gives
/// false. It must not end by an exception or `longjmp`.
pub type TreeVisitor =
    Option<unsafe extern "C" fn(key: u64, value: u64, context: *mut c_void) -> bool>;

/// An empty map from 64-bit keys to 64-bit values, a B+tree. `tiers` says on which tiers its nodes lie, near to
/// far, with the bytes that they may take of each; upper nodes are near as far as they fit. Where there are
/// none, it may be null, `system` may be 0, and the nodes lie in the process's ordinary memory.
///
/// # Safety
/// `tiers` points to `tier_count` tiers whose names end with a zero byte, and `tree` to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tree_create(
    system: Handle,
    tiers: *const Budget,
    tier_count: usize,
    tree: *mut Handle,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (tree, tiers) = unsafe { (result(tree, "tree")?, array(tiers, tier_count, "tiers")?) };
        if tiers.is_empty() {
            *tree = TREES.add(BPlusTree::new());
            return Ok(());
        }
        let system = SYSTEMS.get(system)?;
        let heaps = tiers.iter().map(|tier| {
            // SAFETY: the caller says so.
            let id = tier_of(&system, unsafe { text(tier.tier, "a tree's tier") }?)?;
            let heap = TierHeap::new(&system.memory, id, HeapOptions::default());
            Ok((heap.map_err(Failure::of(Status::Memory))?, tier.bytes))
        });
        let heaps = heaps.collect::<Result<Vec<_>, Failure>>()?;
        if heaps.len() > nearfar_memory::MAX_TIERS {
            return Err(Failure::new(
                Status::Argument,
                "a tree has not so many tiers",
            ));
        }
        let memory = NodeMemory::on_heaps(heaps);
        let frontend = Frontend::new(Allocation::Layered, Tracking::Off, memory.farthest());
        let made = BPlusTree::with_memory(memory, frontend);
        *tree = TREES.add(made.map_err(Failure::of(Status::Memory))?);
        Ok(())
    })
}

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_tree_insert(tree: Handle, key: u64, value: u64) -> Status {
    guarded(|| {
        let inserted = TREES.get(tree)?.insert(key, value);
        inserted.map(drop).map_err(Failure::of(Status::Memory))
    })
}

/// Sets the values of many keys. Where there is no memory for all, the first ones are set.
///
/// # Safety
/// `keys` and `values` point to `count` numbers each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tree_insert_batch(
    tree: Handle,
    keys: *const u64,
    values: *const u64,
    count: usize,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (keys, values) =
            unsafe { (array(keys, count, "keys")?, array(values, count, "values")?) };
        let tree = TREES.get(tree)?;
        for (key, value) in keys.iter().zip(values) {
            tree.insert(*key, *value)
                .map_err(Failure::of(Status::Memory))?;
        }
        Ok(())
    })
}

/// The value of a key; `NotFound` where there is none.
///
/// # Safety
/// `value` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tree_get(tree: Handle, key: u64, value: *mut u64) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let value = unsafe { result(value, "value") }?;
        *value = TREES.get(tree)?.get(key).ok_or_else(|| not_found(key))?;
        Ok(())
    })
}

/// Looks many keys up together: their values, 0 where there is none, and whether there is one.
///
/// # Safety
/// `keys`, `values` and `are_found` point to `count` elements each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tree_get_batch(
    tree: Handle,
    keys: *const u64,
    count: usize,
    values: *mut u64,
    are_found: *mut bool,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let keys = unsafe { array(keys, count, "keys") }?;
        // SAFETY: the caller says so.
        let values = unsafe { results(values, count, "values") }?;
        // SAFETY: the caller says so.
        let are_found = unsafe { results(are_found, count, "are_found") }?;
        let mut found = Vec::with_capacity(count);
        TREES.get(tree)?.get_batch(keys, &mut found);
        for ((value, is_found), found) in values.iter_mut().zip(are_found).zip(found) {
            *value = found.unwrap_or_default();
            *is_found = found.is_some();
        }
        Ok(())
    })
}

/// Removes a key; `NotFound` where it is not there.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_tree_remove(tree: Handle, key: u64) -> Status {
    guarded(|| {
        let removed = TREES.get(tree)?.remove(key);
        removed.map(drop).ok_or_else(|| not_found(key))
    })
}

fn not_found(key: u64) -> Failure {
    Failure::new(Status::NotFound, format!("there is no key {key}"))
}

/// How many keys there are.
///
/// # Safety
/// `length` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tree_length(tree: Handle, length: *mut usize) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let length = unsafe { result(length, "length") }?;
        *length = TREES.get(tree)?.len();
        Ok(())
    })
}

/// Visits the keys from `from` on, ascending.
///
/// # Safety
/// `visit` may be called with `context`, on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tree_scan(
    tree: Handle,
    from: u64,
    visit: TreeVisitor,
    context: *mut c_void,
) -> Status {
    guarded(|| {
        let null = || Failure::new(Status::NullPointer, "visit is null");
        let visit = visit.ok_or_else(null)?;
        TREES.get(tree)?.scan(from, |key, value| {
            // SAFETY: the caller says so.
            match unsafe { visit(key, value, context) } {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        Ok(())
    })
}

/// Ends a tree.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_tree_free(tree: Handle) -> Status {
    guarded(|| TREES.remove(tree))
}
