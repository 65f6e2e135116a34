//! `ferntree`: a B+tree with optimistic locks.

use ferntree::Tree;
use nearfar_model::Probe;

use crate::map::{MapError, OrderedMap, Session};

/// The tree of the crate `ferntree`.
pub struct FerntreeCrate(Tree<u64, u64>);

impl Default for FerntreeCrate {
    fn default() -> Self {
        Self(Tree::new())
    }
}

impl OrderedMap<u64> for FerntreeCrate {
    fn session<'s, P: Probe>(&'s self, _probe: &'s P) -> impl Session<u64> + 's {
        self
    }
}

impl Session<u64> for &FerntreeCrate {
    #[inline]
    fn insert(&mut self, key: &u64, value: u64) -> Result<(), MapError> {
        self.0.insert(*key, value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &u64) -> Option<u64> {
        self.0.get_optimistic(key)
    }

    #[inline]
    fn update(&mut self, key: &u64, value: u64) -> Result<bool, MapError> {
        Ok(self.0.insert(*key, value).is_some())
    }

    fn scan(&mut self, from: &u64, count: usize) -> (usize, u64) {
        let mut entries = self.0.raw_iter();
        entries.seek(from);
        let (mut seen, mut sum) = (0, 0_u64);
        while seen < count
            && let Some((_, value)) = entries.next()
        {
            seen += 1;
            sum = sum.wrapping_add(*value);
        }
        (seen, sum)
    }

    #[inline]
    fn remove(&mut self, key: &u64) -> bool {
        self.0.remove(key).is_some()
    }
}
