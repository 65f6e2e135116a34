//! Tree experiments, which are run by whoever has trees: this crate knows none.

use std::error::Error;

use nearfar_model::simulation::{Machine, SlotShares};

/// Requests of a tree experiment (weisgut-2025, section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeWorkload {
    /// 95 % lookups, 5 % inserts.
    Read95,
    /// 5 % lookups, 95 % inserts.
    Write95,
}

/// What one tree experiment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeRun {
    /// What is asked.
    pub workload: TreeWorkload,
    /// CXL devices over which the pages of the tree are interleaved; 0 for CPU memory.
    pub devices: u32,
    /// Bytes of a node.
    pub node_bytes: usize,
    /// Threads.
    pub threads: usize,
}

/// Runs tree experiments in a machine's model.
pub trait TreeModel {
    /// Million operations per second.
    ///
    /// # Errors
    /// Whatever keeps the experiment from running.
    fn mops(
        &mut self,
        run: &TreeRun,
        machine: &Machine,
    ) -> Result<f64, Box<dyn Error + Send + Sync>>;

    /// What the issue slots of cores are used for.
    ///
    /// # Errors
    /// Whatever keeps the experiment from running.
    fn slot_shares(
        &mut self,
        run: &TreeRun,
        machine: &Machine,
    ) -> Result<SlotShares, Box<dyn Error + Send + Sync>>;
}
