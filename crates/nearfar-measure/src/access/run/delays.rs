//! Delaying threads where they access an emulated tier.

use nearfar_model::{Direction, EmulatedTier, Pattern as Charged, Stamp};

use super::memory::Tiers;
use crate::access::kernels::{Accesses, LINE_BYTES, Pattern};

/// The emulated tier as one thread uses it.
pub(super) struct Delays<'a> {
    tier: &'a EmulatedTier,
    tiers: &'a Tiers<'a>,
}

impl<'a> Delays<'a> {
    pub(super) fn new(tier: &'a EmulatedTier, tiers: &'a Tiers<'a>) -> Self {
        Self { tier, tiers }
    }

    /// Waits as long as the tier would have taken for these accesses, as far as they lie on it.
    pub(super) fn accessed(
        &self,
        region: usize,
        region_bytes: usize,
        accesses: &Accesses,
        direction: Direction,
    ) {
        let transfer = |pattern, bytes| self.tier.transfer(direction, pattern, bytes);
        match accesses.pattern {
            Pattern::Sequential => {
                let first = accesses.first_bytes;
                let end = first + accesses.count * accesses.access_bytes;
                let bytes = self.tiers.modelled_bytes(region, first, end);
                transfer(Charged::Next, bytes);
            }
            Pattern::Random => {
                let share = self.tiers.modelled_share(region, region_bytes);
                let modelled = |bytes: usize| (bytes as f64 * share).round() as u64;
                // Prefetching finds the lines of an access behind its first.
                let behind_bytes = accesses.access_bytes.saturating_sub(LINE_BYTES);
                transfer(Charged::Random, modelled(LINE_BYTES * accesses.count));
                transfer(Charged::Next, modelled(behind_bytes * accesses.count));
            }
        }
    }

    /// The moment at which the first read of a chain begins.
    pub(super) fn now(&self) -> Stamp {
        self.tier.now()
    }

    /// Waits until a dependent read at `offset` that began at `started` would have returned.
    pub(super) fn hop(&self, region: usize, offset: usize, started: Stamp) -> Stamp {
        if self.tiers.modelled_bytes(region, offset, offset + 8) == 0 {
            return self.tier.now();
        }
        self.tier.dependent_read(started)
    }
}
