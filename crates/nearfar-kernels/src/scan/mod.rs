//! The filtering integer scan of weisgut-2025, section 5.2: one less-than predicate on a column of
//! unsigned 4-byte integers; the positions of the matches are written out.
//!
//! The column is taken in blocks of 4 KiB. A variant per instruction set ([`portable`], [`avx2`],
//! [`avx512`]) filters one block; the driver here is the same for all, tells the probe, and decides
//! whether positions go straight to their place or through [`output::Staged`], which writes whole
//! lines past the caches. [`within`] finds ranges in encoded columns.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod cancellable;
mod output;
mod partitioned;
mod portable;
mod within;

use nearfar_model::Probe;

use self::output::Staged;
pub use self::partitioned::Part;
pub use self::within::{Lane, Matches, SignedLane};
use crate::cancel::Cancelled;
use crate::isa::{Isa, UnsupportedIsa};

/// Values of a block: 4 KiB, so that a block never spans two pages of an aligned column.
const BLOCK_VALUES: usize = 1024;

/// From this many bytes of column on, [`Stores::Auto`] writes past the caches: less is likely to be
/// read again while it is still cached.
const STREAM_FROM_BYTES: usize = 8 << 20;

/// How positions are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stores {
    /// Past the caches for columns of 8 MiB and more, else through them.
    #[default]
    Auto,
    /// Ordinary stores: each line is fetched before it is written, and stays in the caches.
    Cached,
    /// Non-temporal stores of whole lines: no line is fetched, and none stays. Where the machine
    /// has no such stores, as [`Stores::Cached`].
    Streaming,
}

/// Why a scan was not begun, or not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// All values of the column might match.
    #[error(
        "a scan of {values} values needs room for as many positions, not {positions}: pass a \
         longer slice"
    )]
    PositionsTooShort {
        /// Values of the column.
        values: usize,
        /// Room for positions.
        positions: usize,
    },
    /// A position would not fit in four bytes.
    #[error(
        "the last of {values} values from position {first_position} on has a position above \
         {}: scan the column in parts",
        u32::MAX
    )]
    PositionTooLarge {
        /// Values of the column.
        values: usize,
        /// Position of the first one.
        first_position: u32,
    },
    /// The caller has cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// A filtering scan: which instructions it uses and how it stores positions.
///
/// ```
/// use nearfar_kernels::Scan;
/// use nearfar_model::Native;
///
/// let column = [5, 1, 9, 3];
/// let mut positions = [0; 4];
/// let count = Scan::new().less_than(&column, 5, 100, &mut positions, &Native)?;
/// assert_eq!(positions[..count], [101, 103]);
/// # Ok::<(), nearfar_kernels::ScanError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// Found on this machine: the constructors see to it.
    isa: Isa,
    stores: Stores,
}

impl Default for Scan {
    fn default() -> Self {
        Self::new()
    }
}

impl Scan {
    /// With the widest instructions of the machine.
    pub fn new() -> Self {
        Self {
            isa: Isa::widest(),
            stores: Stores::Auto,
        }
    }

    /// With these instructions.
    ///
    /// # Errors
    /// [`UnsupportedIsa`] where the machine lacks them.
    pub fn with_isa(self, isa: Isa) -> Result<Self, UnsupportedIsa> {
        if isa.is_available() {
            Ok(Self { isa, ..self })
        } else {
            Err(UnsupportedIsa { isa })
        }
    }

    /// With positions stored in this way.
    #[must_use]
    pub fn with_stores(self, stores: Stores) -> Self {
        Self { stores, ..self }
    }

    /// The instructions in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Writes the positions of all values below `bound` to the front of `positions`, in order, and
    /// returns their number. The first value has position `first_position`. What lies behind the
    /// matches in `positions` afterwards is unspecified.
    ///
    /// # Errors
    /// [`ScanError`] where `positions` is shorter than `column` or a position needs more than four
    /// bytes; nothing was written.
    pub fn less_than<P: Probe>(
        &self,
        column: &[u32],
        bound: u32,
        first_position: u32,
        positions: &mut [u32],
        probe: &P,
    ) -> Result<usize, ScanError> {
        check(column.len(), first_position, positions.len())?;
        let positions = &mut positions[..column.len()];
        Ok(if self.writes_past_caches(size_of_val(column)) {
            self.run_streaming(column, bound, first_position, positions, probe)
        } else {
            self.run_cached(column, bound, first_position, positions, probe)
        })
    }

    /// Whether the positions of a column of so many bytes go past the caches.
    pub fn writes_past_caches(&self, column_bytes: usize) -> bool {
        let streams = match self.stores {
            Stores::Auto => column_bytes >= STREAM_FROM_BYTES,
            Stores::Cached => false,
            Stores::Streaming => true,
        };
        streams && output::CAN_STREAM
    }

    fn run_cached<P: Probe>(
        &self,
        column: &[u32],
        bound: u32,
        first_position: u32,
        positions: &mut [u32],
        probe: &P,
    ) -> usize {
        let mut count = 0;
        for (first, block) in blocks(column, first_position) {
            tell!(probe.stream(block.as_ptr().addr(), size_of_val(block)));
            // At most as many matches as values came before: what is left is long enough.
            let out = &mut positions[count..][..block.len()];
            let matches = self.filter(block, bound, first, out);
            tell!(probe.write(out.as_ptr().addr(), matches * size_of::<u32>()));
            count += matches;
        }
        count
    }

    fn run_streaming<P: Probe>(
        &self,
        column: &[u32],
        bound: u32,
        first_position: u32,
        positions: &mut [u32],
        probe: &P,
    ) -> usize {
        let mut staged = Staged::new(positions);
        for (first, block) in blocks(column, first_position) {
            tell!(probe.stream(block.as_ptr().addr(), size_of_val(block)));
            let matches = self.filter(block, bound, first, staged.room());
            staged.push(matches, probe);
        }
        staged.finish(probe)
    }

    /// Filters one block into `out`, which is as long as the block at least.
    #[inline]
    #[allow(unsafe_code)]
    fn filter(&self, block: &[u32], bound: u32, first: u32, out: &mut [u32]) -> usize {
        match self.isa {
            // SAFETY: an `Isa` of a scan was found on this machine.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512::filter(block, bound, first, out) },
            // SAFETY: an `Isa` of a scan was found on this machine.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::filter(block, bound, first, out) },
            _ => portable::filter(block, bound, first, out),
        }
    }
}

/// The blocks of `column` with the position of the first value of each.
fn blocks(column: &[u32], first_position: u32) -> impl Iterator<Item = (u32, &[u32])> {
    let firsts = (first_position..=u32::MAX).step_by(BLOCK_VALUES);
    firsts.zip(column.chunks(BLOCK_VALUES))
}

fn check(values: usize, first_position: u32, positions: usize) -> Result<(), ScanError> {
    if positions < values {
        return Err(ScanError::PositionsTooShort { values, positions });
    }
    let last = (first_position as usize).checked_add(values.saturating_sub(1));
    if last.is_none_or(|last| last > u32::MAX as usize) {
        return Err(ScanError::PositionTooLarge {
            values,
            first_position,
        });
    }
    Ok(())
}
