//! Folders of the files that a benchmark makes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failed};

/// A folder of a benchmark's own, which is removed when this is dropped, also when Ctrl-C has left
/// behind what writes to it.
pub struct OwnFolder(PathBuf);

impl OwnFolder {
    /// Makes one below `parent`, or where temporary files go.
    pub fn below(parent: Option<&Path>) -> Result<Self, Failed> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let made = tempfile::Builder::new()
            .prefix("nearfar-bench-")
            .tempdir_in(&parent);
        made.map(|folder| Self(folder.keep())).map_err(|error| {
            let message = format!("cannot write below {}: {error}", parent.display());
            Failed::new(Exit::Output, message)
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        /// Files may still be made in it.
        const TRIES: usize = 10;
        // One that stays behind is in the system's folder for temporary files, or where the user asked.
        let _ = (0..TRIES).find(|_| fs::remove_dir_all(&self.0).is_ok());
    }
}
