//! Nearfar for Python, and for whoever speaks ADBC: one shared object with two faces.
//!
//! `python` and `toolkit` are the module `nearfar._nearfar`, on which the Python files of the package stand;
//! `adbc` is the driver that `AdbcDriverInit` gives. Both run statements through a `client` of a
//! `database`, and give rows by Arrow's C stream, without a copy. A driver that is loaded in the process of
//! the module is the same object, and can be given a database that is open in the module.
//!
//! Waiting never holds the interpreter's lock. Whoever waits asks now and then whether it is to be given up:
//! Python by Ctrl-C, ADBC by its call to cancel.
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod adbc;
mod client;
mod database;
mod failure;
mod placeholders;
mod python;
mod rows;
mod toolkit;

use nearfar_memory::NearfarAllocator;

/// Memory of operators follows the tier of the thread. It is the allocator of this object only, not Python's.
#[global_allocator]
static ALLOCATOR: NearfarAllocator = NearfarAllocator;

/// The driver's entry for ADBC.
#[allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "the macro of adbc_ffi makes C functions of the safe driver, and checks their pointers"
)]
mod driver_entry {
    use crate::adbc::NearfarDriver;

    adbc_ffi::export_driver!(NearfarDriverInit, NearfarDriver);
}

/// The native part of the package `nearfar`.
#[pyo3::pymodule(gil_used = false)]
mod _nearfar {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::python::{PyDatabase, PyRows, PySession, PyStatement};
    #[pymodule_export]
    use crate::toolkit::{
        PyTree, builtin_profiles, calibrate, cheapest, measure, presets, profile, tiers,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::python::register_errors(module)
    }
}
