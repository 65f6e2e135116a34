//! What a load writes to a modelled tier.

use nearfar_memory::TierId;
use nearfar_model::Stream;
use std::sync::Arc;

use crate::engine::Engine;
use crate::table::Segment;

/// Holds a loading thread back for the segments that it has put on a modelled tier.
pub struct PacedWrites {
    paced: Option<(TierId, Stream)>,
    /// Segments that were charged.
    segments: usize,
}

impl PacedWrites {
    /// Nothing written so far, on the modelled tier of `engine` if it has one.
    pub fn of(engine: &Engine) -> Self {
        let pacer = engine.pacer().map(|pacer| pacer.open_stream());
        Self {
            paced: engine.far().zip(pacer),
            segments: 0,
        }
    }

    /// Charges those of `segments` that are new; they come in order.
    pub fn pass(&mut self, segments: &[Arc<Segment>]) {
        let Some((tier, stream)) = &mut self.paced else {
            return;
        };
        for segment in &segments[self.segments..] {
            let columns = segment.columns().iter();
            let bytes = columns.map(|column| column.tier_bytes()[*tier]);
            stream.write(bytes.sum());
        }
        self.segments = segments.len();
    }
}
