//! Arrow buffers over regions, without a copy.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;

use crate::region::Region;

impl Region {
    /// An Arrow buffer over `range`. The region lives as long as any buffer over it, or any slice
    /// of one; several buffers over one region are the usual case.
    ///
    /// Arrow wants the start of a buffer aligned to its element type; a region starts at a page.
    ///
    /// # Panics
    /// When `range` lies outside of the region, as a slice would.
    #[must_use]
    pub fn buffer(self: &Arc<Self>, range: Range<usize>) -> Buffer {
        let slice = &self.as_slice()[range];
        let start = NonNull::from(slice).cast::<u8>();
        let owner = Arc::clone(self);
        // SAFETY: `start` is the first of `slice.len()` initialised bytes of the region, which
        // lives as long as the buffer holds `owner`; they do not change, since a region behind an
        // `Arc` that has been shared hands out no mutable slice.
        unsafe { Buffer::from_custom_allocation(start, slice.len(), owner) }
    }
}

#[cfg(test)]
mod tests {
    use nearfar_topology::TierKind;

    use super::*;
    use crate::{Budgets, MemorySystem, OverBudget, Placement, RegionOptions, TierId, TierSpec};

    /// Small, for Miri, which knows nothing of nodes but checks every access.
    #[test]
    fn buffers_outlive_the_handle_and_migrations_keep_their_bytes() {
        let specs = vec![
            TierSpec::new("near", TierKind::LocalDram, [0], 1 << 20),
            TierSpec::new("far", TierKind::Modelled, [0], 1 << 20),
        ];
        let system = MemorySystem::from_specs(specs, &Budgets::new()).unwrap();
        let (near, far) = (TierId::NEAR, system.tier("far").unwrap());
        let both = Placement::Interleave(vec![near, far]);
        let mut region =
            Region::allocate(&system, 10_000, &both, RegionOptions::default()).unwrap();
        region.as_mut_slice()[9_999] = 9;
        let region = Arc::new(region);
        let (head, tail) = (region.buffer(0..4096), region.buffer(9_000..10_000));
        region
            .migrate(&Placement::Bind(far), OverBudget::Refuse)
            .unwrap();
        assert_eq!(system.usage(near).region_bytes, 0);
        drop((region, head));
        assert_eq!(tail.as_slice()[999], 9);
        assert_eq!(system.usage(far).region_bytes, 12_288);
        drop(tail);
        assert_eq!(system.usage(far).region_bytes, 0);
    }
}
