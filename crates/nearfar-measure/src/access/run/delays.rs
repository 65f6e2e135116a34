//! Delaying threads where they access emulated tiers.

use nearfar_model::{Direction, Pattern as Charged, Stamp};

use super::memory::Emulated;
use crate::access::kernels::{Accesses, LINE_BYTES, Pattern};

/// The emulated tiers as one thread uses them.
pub(super) struct Delays<'a>(Vec<&'a Emulated<'a>>);

impl<'a> Delays<'a> {
    /// Those that have some of the regions with these numbers, if there are any.
    pub(super) fn of_regions(emulated: &'a [Emulated<'a>], regions: &[usize]) -> Option<Self> {
        let is_used = |tier: &&Emulated<'_>| regions.iter().any(|region| tier.has(*region));
        let used: Vec<_> = emulated.iter().filter(is_used).collect();
        (!used.is_empty()).then_some(Self(used))
    }

    /// Waits as long as the tiers would have taken for these accesses, as far as they lie on them.
    pub(super) fn accessed(
        &self,
        region: usize,
        region_bytes: usize,
        accesses: &Accesses,
        direction: Direction,
    ) {
        for tier in &self.0 {
            accessed(tier, region, region_bytes, accesses, direction);
        }
    }

    /// The moment at which the first read of a chain begins.
    pub(super) fn now(&self) -> Stamp {
        self.0[0].model.now()
    }

    /// Waits until a dependent read at `offset` that began at `started` would have returned.
    pub(super) fn hop(&self, region: usize, offset: usize, started: Stamp) -> Stamp {
        let mut tiers = self.0.iter();
        match tiers.find(|tier| tier.bytes(region, offset, offset + 8) > 0) {
            Some(tier) => tier.model.dependent_read(started),
            None => self.now(),
        }
    }
}

fn accessed(
    tier: &Emulated<'_>,
    region: usize,
    region_bytes: usize,
    accesses: &Accesses,
    direction: Direction,
) {
    let transfer = |pattern, bytes| tier.model.transfer(direction, pattern, bytes);
    match accesses.pattern {
        Pattern::Sequential => {
            let first = accesses.first_bytes;
            let end = first + accesses.count * accesses.access_bytes;
            transfer(Charged::Next, tier.bytes(region, first, end));
        }
        Pattern::Random => {
            let share = tier.share(region, region_bytes);
            let of_tier = |bytes: usize| (bytes as f64 * share).round() as u64;
            // Prefetching finds the lines of an access behind its first.
            let behind_bytes = accesses.access_bytes.saturating_sub(LINE_BYTES);
            transfer(Charged::Random, of_tier(LINE_BYTES * accesses.count));
            transfer(Charged::Next, of_tier(behind_bytes * accesses.count));
        }
    }
}
