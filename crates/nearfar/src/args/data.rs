//! The data directory.

use std::path::PathBuf;

use clap::Args;
use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_memory::FileAccess;

use crate::human::ByteSize;

/// Where tables are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Data directory")]
pub struct DataArgs {
    /// Keep tables in this folder, which is made where there is none; without it everything is in
    /// memory only.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// When commits are on disk: `on` (before they are acknowledged), `off`, or so often, such as
    /// `200ms`.
    #[arg(long, value_name = "WHEN", default_value_t, requires = "data")]
    pub log_sync: LogSync,
    /// Write a checkpoint when the log has grown by so much.
    #[arg(
        long,
        alias = "savepoint-bytes",
        value_name = "BYTES",
        requires = "data"
    )]
    pub checkpoint_bytes: Option<ByteSize>,
    /// Go on with what was committed before the damage, where the log is damaged. The rest of the
    /// log is kept beside it.
    #[arg(long, requires = "data")]
    pub recover_until_damage: bool,
    /// Let the group read the data directory and the pool, where they are made. Without it, only their
    /// owner can.
    #[arg(long)]
    pub group_access: bool,
}

impl DataArgs {
    /// What they say, if there is a data directory.
    pub fn options(&self) -> Option<DataOptions> {
        let mut options = DataOptions::new(self.data.as_ref()?);
        options.sync = self.log_sync;
        options.recover_until_damage = self.recover_until_damage;
        options.access = self.access();
        if let Some(bytes) = self.checkpoint_bytes {
            options.checkpoint_bytes = bytes.0;
        }
        Some(options)
    }

    /// Who may read what is made.
    pub fn access(&self) -> FileAccess {
        match self.group_access {
            true => FileAccess::Group,
            false => FileAccess::Owner,
        }
    }
}
