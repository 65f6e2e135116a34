//! The B+tree experiments of weisgut-2025, sections 5.4 and 5.5, with our B+tree.
//!
//! The published tree is another one, BTreeOLC: it searches nodes by bisection, and ours by samples.
//! Sizes of nodes, requests, threads and placements are the paper's. A tree of fewer keys runs on a
//! machine whose caches are smaller by the same factor, and popularity is that of the published
//! number of keys.

use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use nearfar_measure::reproduce::{TreeModel, TreeRun, TreeWorkload};
use nearfar_memory::MemorySystem;
use nearfar_model::simulation::{Machine, TierName};

use crate::map::{BPlusTreeMap, Contestant};
use crate::modelled::{InPlace, ModelledError, Scale, near_ground, stand_in_system, store_all};
use crate::workload::{Integers, KeySpace, Workload};

/// Keys of the published trees (section 5.4).
const KEYS_PUBLISHED: u64 = 100_000_000;
/// Numbers of keys between those that two runs insert.
const FRESH_STEP: u64 = 1 << 32;

/// B+trees by the size of their nodes, made when they are asked for first, and kept. A run leaves
/// the keys that it inserted, which are few.
pub struct BPlusTrees {
    keys: Rc<Integers>,
    system: Option<Arc<MemorySystem>>,
    trees: BTreeMap<usize, Rc<BPlusTreeMap>>,
    fresh: u64,
}

impl BPlusTrees {
    /// Keys of trees unless told: a twenty-fifth of the published ones.
    pub const KEYS: u64 = 4_000_000;

    /// Trees of so many keys.
    #[must_use]
    pub fn new(keys: u64) -> Self {
        Self {
            keys: Rc::new(Integers::new(keys)),
            system: None,
            trees: BTreeMap::new(),
            fresh: FRESH_STEP,
        }
    }

    fn tree(&mut self, node_bytes: usize) -> Result<Rc<BPlusTreeMap>, ModelledError> {
        if let Some(tree) = self.trees.get(&node_bytes) {
            return Ok(Rc::clone(tree));
        }
        let system = match self.system.take() {
            Some(system) => system,
            None => stand_in_system()?,
        };
        let ground = near_ground(&system);
        self.system = Some(system);
        let tree = Rc::new(BPlusTreeMap::new(&ground, node_bytes)?);
        let contestant = Contestant::BPlusTree { node_bytes };
        store_all::<Integers, _>(&*tree, &self.keys, |_| ())
            .map_err(|error| ModelledError::Map { contestant, error })?;
        self.trees.insert(node_bytes, Rc::clone(&tree));
        Ok(tree)
    }

    fn operations_per_s(&mut self, run: &TreeRun, machine: &Machine) -> Result<f64, ModelledError> {
        let tree = self.tree(run.node_bytes)?;
        let name = match run.workload {
            TreeWorkload::Read95 => "read-heavy",
            TreeWorkload::Write95 => "write-heavy",
        };
        let workload = Workload::named(name).map_err(|error| ModelledError::Options {
            field: "workload",
            reason: error.to_string(),
        })?;
        self.fresh += FRESH_STEP;
        let keys = self.keys.count();
        InPlace {
            contestant: Contestant::BPlusTree {
                node_bytes: run.node_bytes,
            },
            workload: &workload,
            tier: match run.devices {
                0 => (TierName::Near, 1),
                devices => (TierName::Far, devices),
            },
            threads: run.threads,
            machine,
            scale: Scale {
                factor: (KEYS_PUBLISHED as f64 / keys as f64).max(1.0),
            },
            fresh: self.fresh,
            seed: 1,
        }
        .operations_per_s(&tree, &self.keys)
    }
}

impl Default for BPlusTrees {
    fn default() -> Self {
        Self::new(Self::KEYS)
    }
}

impl TreeModel for BPlusTrees {
    fn mops(
        &mut self,
        run: &TreeRun,
        machine: &Machine,
    ) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.operations_per_s(run, machine)? * 1e-6)
    }
}
