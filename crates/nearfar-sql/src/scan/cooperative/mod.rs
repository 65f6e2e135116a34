//! Scans of far data that run concurrently, and read it once.
//!
//! A scan that reads all rows joins the other scans of its engine when it begins ([`CooperativeScans::join`]), with
//! the parts that it has to read. Whoever opens a part whose far columns others have yet to read, too, copies these to
//! near memory first, and reads them there, as do the others when they come to it. Of a scan whose rows may come in
//! any order ([`super::TableScan::in_any_order`]) the next part is one that is near already, else one that others have to
//! read as well: so scans that began at different times meet, and those that run side by side bring different
//! parts near for each other. Nobody waits for a scan that is slower; that of Zukowski et al., "Cooperative Scans"
//! (VLDB 2007), whose chunks come from disks, chooses by the same two questions.
//!
//! Only columns are copied of which a scan reads most ([`Density`]), and only a small part of the near tier's budget is taken
//! for copies: where there is no room the oldest ones go that nobody reads, and where the budget is used up by others, scans
//! read far memory as if they were alone. Who has read nothing for a second is not reckoned with. The last scan that
//! ends gives all of it back.

mod buffers;
mod copies;
mod density;
mod near;
mod parts;
mod reader;

use nearfar_memory::{MemorySystem, TierId};
use parking_lot::Mutex;
use std::sync::Arc;

use buffers::NearBuffers;
use parts::SharedParts;

pub use copies::is_far;
pub use density::Density;
pub use near::NearColumns;
pub use parts::{CopiedColumn, CopyEnds};
pub use reader::{CooperativeReader, Opening};

/// The part of the near tier's budget that copies take at most.
const BUDGET_PART: u64 = 32;

/// Bytes that they take at most, however large that is.
const NEAR_BYTES_MAX: u64 = 4 << 30;

/// Scans of fewer rows of a part are not worth a copy.
const ROWS_MIN: usize = 1 << 16;

/// The scans of an engine that read far data now.
#[derive(Debug)]
pub struct CooperativeScans {
    parts: Mutex<SharedParts>,
    buffers: NearBuffers,
}

impl CooperativeScans {
    /// Those of an engine with these tiers, of which there are none yet.
    pub fn new(system: &Arc<MemorySystem>) -> Arc<Self> {
        let budget_bytes = system.usage(TierId::NEAR).budget_bytes;
        let bytes_max = NEAR_BYTES_MAX.min(budget_bytes / BUDGET_PART);
        Arc::new(Self {
            parts: Mutex::default(),
            buffers: NearBuffers::new(system, bytes_max),
        })
    }
}
