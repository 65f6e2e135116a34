//! An ordered map from 64-bit keys to 64-bit values, whose nodes lie on tiers.

use std::ops::ControlFlow;
use std::sync::Arc;

use nearfar_index::BPlusTree;
use nearfar_index::memory::NodeMemory;
use nearfar_index::placement::{Allocation, Frontend, Tracking};
use nearfar_memory::{Budgets, HeapOptions, MemorySystem, TierHeap, TierId};
use nearfar_topology::Topology;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::wrong;
use crate::failure::Failure;
use crate::python::raised;

/// Keys and values are 8 bytes each, the least significant first.
const WORD_BYTES: usize = 8;
/// Keys that one look-up waits for together.
const BATCH: usize = 1024;

/// A B+tree. Its methods may be called by any number of threads.
#[pyclass(name = "Tree", module = "nearfar._nearfar", frozen)]
pub struct PyTree(Arc<BPlusTree<u64>>);

#[pymethods]
impl PyTree {
    /// An empty tree. With `tiers`, names and bytes from near to far, its upper nodes are near as far as
    /// they fit; without, it is in the process's ordinary memory.
    #[new]
    #[pyo3(signature = (tiers=None))]
    fn new(tiers: Option<Vec<(String, u64)>>) -> PyResult<Self> {
        let make = || -> Result<BPlusTree<u64>, Failure> {
            match tiers {
                None => Ok(BPlusTree::new()),
                Some(tiers) => on_tiers(&tiers),
            }
        };
        Ok(Self(Arc::new(make().map_err(raised)?)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The value of a key.
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key)
    }

    /// Sets the value of a key; the one that it had.
    fn insert(&self, key: u64, value: u64) -> PyResult<Option<u64>> {
        self.0
            .insert(key, value)
            .map_err(|error| raised(wrong(error)))
    }

    /// Removes a key; the value that it had.
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(key)
    }

    /// Sets many: keys and values, in bytes.
    fn insert_many(&self, py: Python<'_>, keys: &[u8], values: &[u8]) -> PyResult<()> {
        let insert = || -> Result<(), Failure> {
            if keys.len() != values.len() {
                return Err(wrong("there are not as many values as keys"));
            }
            for (key, value) in words(keys)?.zip(words(values)?) {
                self.0.insert(key, value).map_err(wrong)?;
            }
            Ok(())
        };
        py.detach(insert).map_err(raised)
    }

    /// Looks many keys up together: their values, and a byte for each that says whether it is there.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let get = || -> Result<(Vec<u8>, Vec<u8>), Failure> {
            let keys: Vec<u64> = words(keys)?.collect();
            let mut found = Vec::with_capacity(keys.len());
            for keys in keys.chunks(BATCH) {
                self.0.get_batch(keys, &mut found);
            }
            let is_there = found
                .iter()
                .map(|value| u8::from(value.is_some()))
                .collect();
            let values = found
                .iter()
                .flat_map(|value| value.unwrap_or_default().to_le_bytes());
            Ok((values.collect(), is_there))
        };
        let (values, is_there) = py.detach(get).map_err(raised)?;
        Ok((PyBytes::new(py, &values), PyBytes::new(py, &is_there)))
    }

    /// Keys from `from` on and below `to`, ascending, at most `limit`, with their values, in bytes.
    #[pyo3(signature = (from_key=0, to_key=None, limit=None))]
    fn range<'py>(
        &self,
        py: Python<'py>,
        from_key: u64,
        to_key: Option<u64>,
        limit: Option<usize>,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let (keys, values) = py.detach(|| {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            let limit_bytes = limit.map_or(usize::MAX, |limit| limit.saturating_mul(WORD_BYTES));
            self.0.scan(from_key, |key, value| {
                if to_key.is_some_and(|to| key >= to) || keys.len() >= limit_bytes {
                    return ControlFlow::Break(());
                }
                keys.extend_from_slice(&key.to_le_bytes());
                values.extend_from_slice(&value.to_le_bytes());
                ControlFlow::Continue(())
            });
            (keys, values)
        });
        (PyBytes::new(py, &keys), PyBytes::new(py, &values))
    }

    /// Bytes of its nodes on each of its tiers, near to far.
    fn tier_bytes(&self) -> Vec<u64> {
        let memory = self.0.memory();
        let tiers = (0..memory.tiers()).filter_map(TierId::from_index);
        tiers.map(|tier| memory.ledger(tier).used_bytes()).collect()
    }
}

fn on_tiers(tiers: &[(String, u64)]) -> Result<BPlusTree<u64>, Failure> {
    if tiers.is_empty() {
        return Err(wrong("a tree needs a tier"));
    }
    let topology = Topology::this_machine().map_err(wrong)?;
    let system = MemorySystem::new(&topology, &Budgets::new()).map_err(wrong)?;
    let heaps = tiers.iter().map(|(name, bytes)| {
        let tier = system.tier(name).map_err(wrong)?;
        let heap = TierHeap::new(&system, tier, HeapOptions::default()).map_err(wrong)?;
        Ok((heap, *bytes))
    });
    let heaps = heaps.collect::<Result<Vec<_>, Failure>>()?;
    let memory = NodeMemory::on_heaps(heaps);
    let frontend = Frontend::new(Allocation::Layered, Tracking::Off, memory.farthest());
    BPlusTree::with_memory(memory, frontend).map_err(wrong)
}

fn words(bytes: &[u8]) -> Result<impl Iterator<Item = u64>, Failure> {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    match rest.is_empty() {
        true => Ok(words.iter().map(|word| u64::from_le_bytes(*word))),
        false => Err(wrong("keys and values are 8 bytes each")),
    }
}
