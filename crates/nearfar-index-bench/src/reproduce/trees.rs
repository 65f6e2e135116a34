//! The B+tree experiments of weisgut-2025, sections 5.4 and 5.5.
//!
//! The published tree is BTreeOLC, which searches nodes by bisection; ours searches them by samples.
//! Either can be run, see [`Search`]. Sizes of nodes, requests, threads and placements are the paper's.
//! A tree of fewer keys runs on a machine whose caches are smaller by the same factor, and popularity is
//! that of the published number of keys.

use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use nearfar_index::BPlusTree;
use nearfar_measure::reproduce::{TreeModel, TreeRun, TreeWorkload};
use nearfar_memory::{MemorySystem, TierId};
use nearfar_model::simulation::{Machine, SlotShares, TierName};

use crate::map::{Bisected, Contestant, MapError, PlacedMap, TreeMap, WORD_BYTES};
use crate::modelled::{Counted, InPlace, Measured};
use crate::placed::{PlacedError, Policy, PolicyMemory, Scale, stand_in_system, store_all};
use crate::workload::{Integers, KeySpace, Workload};

/// Keys of the published trees (section 5.4).
const KEYS_PUBLISHED: u64 = 100_000_000;

/// How nodes are laid out and searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Search {
    /// As in the published tree.
    #[default]
    Bisection,
    /// As in [`BPlusTree`].
    Samples,
}

/// B+trees. Every run has one of its own, so that none meets the keys that others have inserted: a run that
/// writes most of the time adds a seventh to two million keys.
pub struct BPlusTrees {
    search: Search,
    keys: Rc<Integers>,
    system: Option<(Arc<MemorySystem>, TierId)>,
    /// The tree that was loaded last, and the size of its nodes: copied for each run.
    loaded: Option<(usize, Bisected)>,
}

impl BPlusTrees {
    /// Keys of trees by default: a fiftieth of the published ones.
    pub const KEYS: u64 = 2_000_000;

    /// Trees of so many keys.
    #[must_use]
    pub fn new(search: Search, keys: u64) -> Self {
        Self {
            search,
            keys: Rc::new(Integers::new(keys)),
            system: None,
            loaded: None,
        }
    }

    fn bisected(&mut self, node_bytes: usize) -> Result<Bisected, MapError> {
        if let Some((_, tree)) = self
            .loaded
            .as_ref()
            .filter(|(bytes, _)| *bytes == node_bytes)
        {
            return Ok(tree.clone());
        }
        let tree = Bisected::new(node_bytes);
        store_all::<Integers, _>(&tree, &self.keys, |_| ())?;
        Ok(self.loaded.insert((node_bytes, tree)).1.clone())
    }

    fn sampled(&mut self, node_bytes: usize) -> Result<TreeMap<BPlusTree<u64>>, PlacedError> {
        let (system, far) = match self.system.take() {
            Some(system) => system,
            None => stand_in_system()?,
        };
        let near = PolicyMemory::new((&system, far), Policy::AllNear, 100);
        let tree = TreeMap::<BPlusTree<u64>>::btree(&near, node_bytes, WORD_BYTES)?;
        self.system = Some((system, far));
        let contestant = Contestant::BPlusTree { node_bytes };
        let failed = |error: MapError| PlacedError::Map { contestant, error };
        store_all::<Integers, _>(&tree, &self.keys, |_| ()).map_err(failed)?;
        Ok(tree)
    }

    /// Instructions of a tree's operations.
    fn counted(&self, node_bytes: usize) -> Result<Counted, PlacedError> {
        Ok(match self.search {
            Search::Bisection => Counted::bisected(),
            Search::Samples => Counted::of(Contestant::BPlusTree { node_bytes })?,
        })
    }

    fn run(&mut self, run: &TreeRun, machine: &Machine) -> Result<Measured, PlacedError> {
        let name = match run.workload {
            TreeWorkload::Read95 => "read-heavy",
            TreeWorkload::Write95 => "write-heavy",
        };
        let workload = Workload::named(name).map_err(|error| PlacedError::Options {
            field: "workload",
            reason: error.to_string(),
        })?;
        let node_bytes = run.node_bytes;
        let contestant = Contestant::BPlusTree { node_bytes };
        let in_place = InPlace {
            contestant,
            counted: self.counted(run.node_bytes)?,
            workload: &workload,
            tier: match run.devices {
                0 => (TierName::Near, 1),
                devices => (TierName::Far, devices),
            },
            threads: run.threads,
            machine,
            scale: Scale {
                factor: (KEYS_PUBLISHED as f64 / self.keys.count() as f64).max(1.0),
            },
            fresh: self.keys.count(),
            seed: 1,
        };
        match self.search {
            Search::Bisection => {
                let failed = |error| PlacedError::Map { contestant, error };
                let tree = Rc::new(self.bisected(node_bytes).map_err(failed)?);
                in_place.run((&tree, Bisected::addresses()), &self.keys)
            }
            Search::Samples => {
                let tree = Rc::new(self.sampled(node_bytes)?);
                let heap = PlacedMap::<u64>::tree(&*tree)
                    .memory()
                    .addresses(TierId::NEAR);
                in_place.run((&tree, heap.unwrap_or_default()), &self.keys)
            }
        }
    }
}

impl Default for BPlusTrees {
    fn default() -> Self {
        Self::new(Search::default(), Self::KEYS)
    }
}

impl TreeModel for BPlusTrees {
    fn mops(
        &mut self,
        run: &TreeRun,
        machine: &Machine,
    ) -> Result<f64, Box<dyn Error + Send + Sync>> {
        Ok(self.run(run, machine)?.operations_per_s * 1e-6)
    }

    fn slot_shares(
        &mut self,
        run: &TreeRun,
        machine: &Machine,
    ) -> Result<SlotShares, Box<dyn Error + Send + Sync>> {
        let instructions_ns = self.counted(run.node_bytes)?.access_instructions_ns();
        let measured = self.run(run, &machine.counting_slots(instructions_ns))?;
        Ok(measured.slot_times.shares())
    }
}
