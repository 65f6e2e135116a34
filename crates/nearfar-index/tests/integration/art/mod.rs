//! The adaptive radix tree. What needs a look inside is tested beside its code.

mod artefact;
mod concurrent;

use nearfar_index::Art;
use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, Tracking};
use nearfar_memory::TierId;

fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

/// A tree over three tiers of a GiB, of which only the upper levels begin near.
fn tiered<V: nearfar_index::TreeValue>() -> Art<V> {
    let memory = NodeMemory::platform_with_budgets(&[1 << 30; 3]);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, memory.farthest());
    frontend.set_boundary(TierId::NEAR, 2);
    Art::with_memory(memory, frontend)
}

/// A number that looks random (the finalizer of splitmix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
