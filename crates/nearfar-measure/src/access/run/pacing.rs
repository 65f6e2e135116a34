//! Holding threads back where they access a modelled tier.

use std::sync::Arc;

use nearfar_model::{PacedTier, Stamp, Stream};

use super::memory::Tiers;
use crate::access::kernels::{Accesses, LINE_BYTES, Pattern};

/// The modelled tier as one thread uses it.
pub(super) struct Pacer<'a> {
    tier: &'a Arc<PacedTier>,
    stream: Stream,
    tiers: &'a Tiers<'a>,
}

impl<'a> Pacer<'a> {
    pub(super) fn new(tier: &'a Arc<PacedTier>, tiers: &'a Tiers<'a>) -> Self {
        Self {
            tier,
            stream: tier.open_stream(),
            tiers,
        }
    }

    /// Waits as long as the tier would have taken for these accesses, as far as they lie on it.
    pub(super) fn accessed(
        &mut self,
        region: usize,
        region_bytes: usize,
        accesses: &Accesses,
        writes: bool,
    ) {
        let bytes = match accesses.pattern {
            Pattern::Sequential => {
                let first = accesses.first_bytes;
                let end = first + accesses.count * accesses.access_bytes;
                self.tiers.modelled_bytes(region, first, end)
            }
            Pattern::Random => {
                let lines = accesses.access_bytes.max(LINE_BYTES) * accesses.count;
                (lines as f64 * self.tiers.modelled_share(region, region_bytes)).round() as u64
            }
        };
        if writes {
            self.stream.write(bytes);
        } else {
            self.stream.read(bytes);
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
