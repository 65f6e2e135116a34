//! What is written to a modelled tier takes as long as that tier does.

use nearfar_memory::{TierBytes, TierId};
use nearfar_model::PacedTier;
use std::sync::Arc;

/// The modelled tier of a machine, for those who put segments there.
#[derive(Debug, Clone)]
pub struct PacedSegments {
    tier: TierId,
    pacer: Arc<PacedTier>,
}

impl PacedSegments {
    /// Of the tier that `pacer` models.
    pub fn new(tier: TierId, pacer: Arc<PacedTier>) -> Self {
        Self { tier, pacer }
    }

    /// Holds the caller back for what it has read of the tier and written to it, one after the other.
    pub fn pass(&self, read: TierBytes, written: TierBytes) {
        let (read, written) = (read[self.tier], written[self.tier]);
        if read + written == 0 {
            return;
        }
        let mut stream = self.pacer.open_stream();
        stream.read(read);
        stream.write(written);
    }
}
