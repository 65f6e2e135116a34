//! `congee`: an adaptive radix tree over keys of 8 bytes.

use congee::Congee;
use crossbeam_epoch::Guard;
use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session};

/// The tree of the crate `congee`.
#[derive(Default)]
pub struct CongeeCrate(Congee<usize, usize>);

/// A pinned epoch, and room for the results of a range.
struct CongeeSession<'s> {
    tree: &'s Congee<usize, usize>,
    guard: Guard,
    found: Vec<(usize, usize)>,
}

impl OrderedMap<u64> for CongeeCrate {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<u64> + 's {
        CongeeSession {
            tree: &self.0,
            guard: self.0.pin(),
            found: Vec::new(),
        }
    }
}

impl Session<u64> for CongeeSession<'_> {
    #[inline]
    fn insert(&mut self, key: &u64, value: u64) -> Result<(), MapError> {
        let inserted = self.tree.insert(*key as usize, value as usize, &self.guard);
        inserted.map(drop).map_err(|_| MapError::OutOfMemory)
    }

    #[inline]
    fn get(&mut self, key: &u64) -> Option<u64> {
        let value = self.tree.get(&(*key as usize), &self.guard);
        value.map(|value| value as u64)
    }

    #[inline]
    fn update(&mut self, key: &u64, value: u64) -> Result<bool, MapError> {
        let key = *key as usize;
        let changed = |_| Some(value as usize);
        let old = self.tree.compute_if_present(&key, changed, &self.guard);
        Ok(old.is_some())
    }

    fn scan(&mut self, from: &u64, count: usize) -> (usize, u64) {
        self.found.resize(count, (0, 0));
        let (from, end) = (*from as usize, usize::MAX);
        let seen = self.tree.range(&from, &end, &mut self.found, &self.guard);
        let values = self.found[..seen].iter();
        let sum = values.fold(0_u64, |sum, (_, value)| sum.wrapping_add(*value as u64));
        (seen, sum)
    }

    #[inline]
    fn remove(&mut self, key: &u64) -> bool {
        self.tree.remove(&(*key as usize), &self.guard).is_some()
    }
}
