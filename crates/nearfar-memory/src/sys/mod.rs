//! The thin layer over the kernel's calls for memory, and for threads and processes that use it.
//!
//! Every function states what must hold before and what holds after it, and names the kernel
//! document that says so. Nothing here knows of tiers, budgets or placements. Errors keep the
//! `errno` and name the call ([`SysError`]).
//!
//! Under Miri, which has no `mmap`, a [`Mapping`] is backed by the standard allocator, policies are
//! accepted and forgotten, and page queries answer "not supported", so that the logic above this
//! layer can be interpreted.

mod cache_lines;
mod error;
mod mapped_files;
mod mapping;
mod nodes;
mod numa_maps;
mod pages;
mod policy;
mod processes;
mod shared;
mod shared_file;
mod space;
mod threads;

pub use cache_lines::{drop_lines, write_back_lines};
pub use error::SysError;
pub use mapped_files::{MappedFile, mapped_files};
pub use mapping::{
    Advice, BASE_PAGE_BYTES, HUGE_PAGE_BYTES, Mapping, MappingKind, base_page_bytes,
};
pub use nodes::NodeSet;
pub use numa_maps::bytes_by_node;
pub use pages::{PageLocation, huge_bytes, move_pages, query_pages};
pub use policy::{Policy, bind_range, interleave_weight};
pub use processes::{Ending, end_group, end_with_thread, place_thread};
pub use shared::{Durability, SharedMapping};
pub use shared_file::{NO_FOLLOW, SharedFile, SharedKind};
pub use space::free_bytes;
pub use threads::{ThreadPlaces, allowed_cpus, pin_thread, yield_to_others};
