//! Tests of tables and SQL as their users see them.

mod answers;
mod attached;
mod cancellation;
mod changes;
mod compiled_joins;
mod complexity;
mod constraints;
mod cooperative;
mod crashes;
mod cursors;
mod damaged_files;
mod defaults;
mod definitions;
mod durability;
mod errors;
mod examples;
mod files;
mod full_disks;
mod generic_plans;
mod grouping_sets;
mod heap;
mod index_tiers;
mod isolation;
mod joins;
mod key_joins;
mod keys;
mod leaks;
mod locks;
mod lookups;
mod memory;
mod merges;
mod merging;
mod outer_joins;
mod panics;
mod pools;
mod pools_with_data;
mod power;
mod remote;
mod rights;
mod scans;
mod sequences;
mod serializable;
mod settings;
mod shared;
mod slices;
mod statements;
mod support;
mod table_locks;
mod tablespaces;
mod temporary;
mod traffic;
mod transactions;
mod upserts;

/// As in the program: allocations follow the thread's tier once the heaps are installed.
#[global_allocator]
static ALLOCATOR: nearfar_memory::NearfarAllocator = nearfar_memory::NearfarAllocator;
