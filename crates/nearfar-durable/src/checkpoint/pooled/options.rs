//! Which pool tables are in, and which data directory goes on where it ends.

use std::path::PathBuf;

use nearfar_memory::FileAccess;
use nearfar_memory::pool::{Claim, Pool};

use crate::checkpoint::directory;

/// When the bytes of a pool are checked against their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// All of them before anything is served.
    All,
    /// In the background, and each column segment before it is first read.
    #[default]
    Background,
}

/// The pool that an engine has its main storage in.
#[derive(Debug, Clone)]
pub struct TablePoolOptions {
    /// A file on tmpfs or on a DAX file system, or a DAX device.
    pub path: PathBuf,
    /// The pool, where it is attached already: [`Self::path`] is not opened, but its name only.
    pub attached: Option<Pool>,
    /// Bytes of the pool, where there is none yet: a multiple of 2 MiB.
    pub bytes: Option<u64>,
    /// The tier that its memory is part of.
    pub tier: String,
    /// When its bytes are checked.
    pub verify: Verify,
    /// How it is taken from whoever has it.
    pub claim: Claim,
    /// Who may read its file, where one is made.
    pub access: FileAccess,
}

/// The data directory whose log goes on where what is published in a pool ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataLink {
    /// Which data directory it is.
    pub identity: u64,
    /// The folder of its checkpoints.
    pub checkpoints: PathBuf,
}

impl DataLink {
    /// The folder of the files of segments.
    pub(super) fn segments(&self) -> PathBuf {
        directory::segments(&self.checkpoints)
    }
}

impl TablePoolOptions {
    /// A pool of near memory that is there, or is made when [`Self::bytes`] says how large.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            attached: None,
            bytes: None,
            tier: "near".to_owned(),
            verify: Verify::default(),
            claim: Claim::of_this_process(),
            access: FileAccess::Owner,
        }
    }
}

/// The pool of another process, in which this one reads tables.
#[derive(Debug, Clone)]
pub struct SharedPoolOptions {
    /// A file on tmpfs or on a DAX file system, or a DAX device.
    pub path: PathBuf,
    /// The tier that its memory is part of, here.
    pub tier: String,
    /// What this reader is called, which no other is at the same time.
    pub reader: String,
}
