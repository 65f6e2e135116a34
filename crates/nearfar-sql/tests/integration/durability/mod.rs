//! Data directories: what is committed is there when the directory is opened again.

mod damage;
mod definitions;
mod given_up;
mod lost_files;
mod preload;
mod reopen;

use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_sql::error::EngineError;
use std::path::Path;
use std::sync::Arc;

use super::support::options;

/// An engine with a data directory, or why there is none.
fn try_open(data: DataOptions) -> Result<Arc<Engine>, EngineError> {
    Engine::new(EngineOptions {
        data: Some(data),
        ..options()
    })
}

/// An engine with the defaults of a data directory.
fn open(directory: &Path) -> Arc<Engine> {
    try_open(DataOptions::new(directory)).expect("a data directory")
}
