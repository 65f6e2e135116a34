//! The pool that main storage is in.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_memory::FileAccess;

use crate::human::ByteSize;

/// Where main storage outlives the process.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pool")]
pub struct PoolArgs {
    /// Keep main storage in this file on tmpfs or on a DAX file system, or in this DAX device: the
    /// next process uses it where it lies.
    #[arg(long, value_name = "PATH")]
    pub pool: Option<PathBuf>,
    /// Make the pool, where there is none, of so many bytes: a multiple of 2 MiB.
    #[arg(long, value_name = "BYTES", requires = "pool")]
    pub pool_bytes: Option<ByteSize>,
    /// The tier that the pool's memory is part of.
    #[arg(long, value_name = "TIER", default_value = "near", requires = "pool")]
    pub pool_tier: String,
    /// Use again what this reader of the pool has used, a node of a cluster that is gone for good. May be given several
    /// times.
    #[arg(long, value_name = "NAME", requires = "pool")]
    pub pool_forget_reader: Vec<String>,
    /// When checksums are verified: `all` before anything is served, or in the `background` and
    /// before each first use.
    #[arg(long, value_enum, default_value_t, requires = "pool")]
    pub verify: VerifyArg,
}

/// When checksums are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum VerifyArg {
    /// All before anything is served.
    All,
    /// In the background, and each before its first use.
    #[default]
    Background,
}

impl PoolArgs {
    /// What they say, if there is a pool, which `access` may read where it is made.
    pub fn options(&self, access: FileAccess) -> Option<TablePoolOptions> {
        let mut options = TablePoolOptions::new(self.pool.as_ref()?);
        options.access = access;
        options.bytes = self.pool_bytes.map(|bytes| bytes.0);
        options.tier.clone_from(&self.pool_tier);
        let forgotten = &self.pool_forget_reader;
        options.claim.forget_readers.clone_from(forgotten);
        options.verify = match self.verify {
            VerifyArg::All => Verify::All,
            VerifyArg::Background => Verify::Background,
        };
        Some(options)
    }
}
