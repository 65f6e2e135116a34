//! The machine that data is placed on: shared by all commands that place any.

use std::num::NonZeroU32;

use clap::Args;

use crate::human::{ByteSize, TierBudget};

/// Arguments of commands that hold data in memory.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Machine")]
pub struct MachineArgs {
    /// Threads that run queries [default: the processors of this process].
    #[arg(long, value_name = "N", value_parser = super::threads)]
    pub threads: Option<NonZeroU32>,
    /// Give these threads all of the modelled device, not their share of it.
    ///
    /// A profile describes a device that all cores of a socket use. By default, N threads get N
    /// cores' share of its bandwidth, so that they feel what a loaded socket would.
    #[arg(long)]
    pub whole_device: bool,
    /// Most that may be placed on a tier; may be given several times.
    #[arg(long = "budget", value_name = "TIER=BYTES")]
    pub budgets: Vec<TierBudget>,
    /// Most memory that the joins, sorts and aggregates of queries may take together.
    #[arg(long, value_name = "BYTES")]
    pub memory_limit: Option<ByteSize>,
}
