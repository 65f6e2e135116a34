//! Folders of the files that a benchmark makes.

use std::path::Path;

use nearfar_sql::scratch::ScratchFolder;

use crate::exit::{Exit, Failed};

/// A folder of a benchmark's own, which is removed when this is dropped, also when Ctrl-C has left
/// behind what writes to it, or else by the next benchmark there.
pub struct OwnFolder(ScratchFolder);

impl OwnFolder {
    /// Makes one below `parent`, or where temporary files go.
    pub fn below(parent: Option<&Path>) -> Result<Self, Failed> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let made = ScratchFolder::make(&parent, "bench");
        made.map(Self).map_err(|error| {
            let message = format!("cannot write below {}: {error}", parent.display());
            Failed::new(Exit::Output, message)
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
