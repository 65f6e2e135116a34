//! `libnearfar`: what ADBC has no words for, for C and C++.
//!
//! Tiers of the machine, regions with a placement and its verification, heaps on tiers, probes, access benchmarks,
//! code in virtual time and trees. Queries are not here: the shared object of `nearfar-python` is a driver of ADBC.
//!
//! - Every function gives a [`Status`]; the message of the last failure of a thread is
//!   [`nearfar_last_error`]. No panic leaves a function: it is [`Status::Panicked`].
//! - Objects are numbers ([`Handle`]) that are never given out again, so that one that was freed, one of
//!   another kind and 0 are refused, and not followed.
//! - Pointers may be null only where a function says so; null elsewhere is refused. Any function may be called on
//!   any thread.
//!
//! The header `include/nearfar.h` is made of this crate by cbindgen, and a test compares them.
#![deny(missing_docs)]
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod failure;
mod handles;
#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod heap;
#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod measure;
#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod model;
#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod probe;
#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod region;
#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod system;
mod texts;
#[allow(unsafe_code, reason = "C's pointers, which callers answer for")]
mod tree;

pub use failure::{Status, nearfar_last_error, nearfar_status_name, nearfar_version};
pub use handles::Handle;
pub use heap::{
    HeapOptions, nearfar_heap_allocate, nearfar_heap_create, nearfar_heap_deallocate,
    nearfar_heap_free, nearfar_heap_trim,
};
pub use measure::{
    Figure, FigureKind, MeasureOptions, MeasureProgress, Setting, UNIT_BYTES, nearfar_figure_text,
    nearfar_figures_free, nearfar_figures_get, nearfar_measure,
};
pub use model::{
    ACCESS_BYTES_MAX, ModelBuffer, ModelInfo, ModelOutcome, ModelProgram, ModelTraffic,
    SECTION_LINES_MAX, nearfar_model_close, nearfar_model_compute, nearfar_model_critical_section,
    nearfar_model_depends, nearfar_model_describe, nearfar_model_lock, nearfar_model_open,
    nearfar_model_prefetch, nearfar_model_read, nearfar_model_run, nearfar_model_unlock,
    nearfar_model_validate, nearfar_model_wait, nearfar_model_write,
    nearfar_model_write_non_temporal, nearfar_profile_count, nearfar_profile_name,
};
pub use probe::{ProbeFigures, nearfar_probe};
pub use region::{
    PageSize, Placed, nearfar_region_allocate, nearfar_region_data, nearfar_region_free,
    nearfar_region_migrate, nearfar_region_tier_bytes, nearfar_region_verify,
};
pub use system::{
    Budget, NAME_BYTES, Tier, nearfar_system_close, nearfar_system_open, nearfar_tier,
    nearfar_tier_count,
};
pub use tree::{
    TreeVisitor, nearfar_tree_create, nearfar_tree_free, nearfar_tree_get, nearfar_tree_get_batch,
    nearfar_tree_insert, nearfar_tree_insert_batch, nearfar_tree_length, nearfar_tree_remove,
    nearfar_tree_scan,
};
