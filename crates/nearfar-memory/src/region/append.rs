//! Near memory that is written at its end while its beginning is read.
//!
//! Rows that are written one by one are put behind those that are there. Who reads knows how many
//! bytes there were when it began, and these never change.

use std::fmt;
use std::ops::Range;
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_buffer::Buffer;
use parking_lot::Mutex;

use super::Region;
use crate::placement::Placement;
use crate::tier::TierBytes;

/// Bytes of a region that are written one after the other, and not changed as long as somebody may read them. Made
/// by [`Shelf::areas`](super::Shelf::areas), or of a whole region.
///
/// ```text
///  range.start                     range.end
///  │ written, never changed │ free │
///  └────────────────────────┴──────┘
///                           len_bytes
/// ```
pub struct AppendArea {
    /// Shared with others, whose bytes may be being written: nobody may make a slice of it.
    region: Arc<Region>,
    range: Range<usize>,
    /// Stored with release order behind the bytes, and loaded with acquire order before they are read.
    len_bytes: AtomicUsize,
    /// Held by the one who appends.
    appending: Mutex<()>,
}

// A writer that panics leaves its bytes unwritten, and nothing else is behind the lock.
impl RefUnwindSafe for AppendArea {}

impl fmt::Debug for AppendArea {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AppendArea")
            .field("bytes", &self.len())
            .finish_non_exhaustive()
    }
}

impl AppendArea {
    /// An area of all bytes of a region.
    #[must_use]
    pub fn whole(region: Region) -> Self {
        let bytes = region.len();
        Self::new(Arc::new(region), 0..bytes)
    }

    /// An area of bytes that nobody else has been given.
    pub(super) fn new(region: Arc<Region>, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= region.len(),
            "an area lies within its region"
        );
        Self {
            region,
            range,
            len_bytes: AtomicUsize::new(0),
            appending: Mutex::new(()),
        }
    }

    fn at(&self, byte: usize) -> NonNull<u8> {
        // SAFETY: `new` has made sure that the range lies within the region's bytes, and callers that `byte`
        // is at most its length.
        unsafe { self.region.map.base().add(self.range.start + byte) }
    }

    /// Number of bytes that were written.
    #[must_use]
    pub fn len(&self) -> usize {
        // Pairs with the store in `append`.
        self.len_bytes.load(Ordering::Acquire)
    }

    /// Whether none was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes that still fit.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.range.len() - self.len()
    }

    /// Bytes that fit.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.range.len()
    }

    /// Writes `bytes` behind those that are there, and returns where they begin; nothing where they don't
    /// fit.
    pub fn append(&self, bytes: &[u8]) -> Option<usize> {
        self.append_with(bytes.len(), |to| to.copy_from_slice(bytes))
    }

    /// Has `fill` write `bytes` bytes behind those that are there, and returns where they begin; nothing where
    /// they don't fit. What it is given has any values at first. If it panics, they count as not written.
    pub fn append_with(&self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Option<usize> {
        let _alone = self.appending.lock();
        let start = self.len_bytes.load(Ordering::Relaxed);
        let end = start.checked_add(bytes)?;
        if end > self.range.len() {
            return None;
        }
        // SAFETY: the bytes lie within the area (see above), are initialised as all of a region, and behind
        // `len_bytes`, so that no slice or buffer reaches them (see `slice`); no other writer is here, since the
        // lock is held as long as the slice lives.
        fill(unsafe { std::slice::from_raw_parts_mut(self.at(start).as_ptr(), bytes) });
        // Pairs with the load in `len`.
        self.len_bytes.store(end, Ordering::Release);
        Some(start)
    }

    /// Forgets what was written, of which nobody has a buffer then.
    pub fn clear(&mut self) {
        *self.len_bytes.get_mut() = 0;
    }

    /// Bytes that were written.
    ///
    /// # Panics
    /// When `range` reaches beyond [`Self::len`].
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> &[u8] {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "{range:?} was not written yet"
        );
        // SAFETY: these bytes are initialised, and not written while the slice lives: `append_with` writes behind
        // `len_bytes` only, which falls in `clear` alone, for which nobody else has the area. The region is held as
        // long as `self` is.
        unsafe { std::slice::from_raw_parts(self.at(range.start).as_ptr(), range.len()) }
    }

    /// The first `bytes` bytes, for as long as they are needed.
    ///
    /// # Panics
    /// When so many were not written yet.
    #[must_use]
    pub fn prefix(self: &Arc<Self>, bytes: usize) -> AppendedBytes {
        assert!(bytes <= self.len(), "{bytes} bytes were not written yet");
        AppendedBytes {
            area: Arc::clone(self),
            len: bytes,
        }
    }
}

/// The first bytes of an [`AppendArea`]. Cloned cheaply; never changed.
#[derive(Debug, Clone)]
pub struct AppendedBytes {
    area: Arc<AppendArea>,
    len: usize,
}

impl AppendedBytes {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.area.slice(0..self.len)
    }

    /// Some of the bytes as an Arrow buffer that keeps the area.
    ///
    /// # Panics
    /// When `range` lies outside of them, as a slice would.
    #[must_use]
    pub fn buffer(&self, range: Range<usize>) -> Buffer {
        let slice = &self.as_slice()[range];
        let owner = Arc::clone(&self.area);
        // SAFETY: the bytes of `slice` are initialised, don't change any more, and stay mapped as long as
        // the buffer holds `owner`.
        unsafe { Buffer::from_custom_allocation(NonNull::from(slice).cast(), slice.len(), owner) }
    }

    /// Where the bytes lie.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.area.region.placement()
    }

    /// The bytes of `range` on each tier.
    ///
    /// # Panics
    /// When `range` lies outside of the region.
    #[must_use]
    pub fn tier_bytes(&self, range: Range<usize>) -> TierBytes {
        let first = self.area.range.start;
        self.area
            .region
            .tier_bytes(first + range.start..first + range.end)
    }
}

#[cfg(test)]
mod tests {
    use nearfar_topology::TierKind;

    use super::*;
    use crate::{Budgets, MemorySystem, RegionOptions, Shelf, TierId, TierSpec};

    fn system(bytes: u64) -> Arc<MemorySystem> {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], bytes);
        MemorySystem::from_specs(vec![near], &Budgets::new()).unwrap()
    }

    fn areas(system: &Arc<MemorySystem>, sizes: &[usize]) -> Vec<Arc<AppendArea>> {
        let areas = Shelf::default().areas(system, RegionOptions::default(), sizes);
        areas.unwrap().into_iter().map(Arc::new).collect()
    }

    #[test]
    fn areas_of_one_region_are_filled_apart_from_each_other() {
        let system = system(1 << 20);
        let used = || system.usage(TierId::NEAR).region_bytes as usize;
        let areas = areas(&system, &[3, 100, 0]);
        assert_eq!(areas[0].append(b"ab"), Some(0));
        assert_eq!(areas[1].append(&[7; 100]), Some(0));
        assert_eq!(areas[0].append(b"cd"), None, "one byte is free");
        assert_eq!(areas[0].append(b"c"), Some(2));
        assert_eq!((areas[0].free_bytes(), areas[2].append(b"x")), (0, None));
        assert_eq!(areas[0].slice(0..3), b"abc");
        assert_eq!(areas[1].slice(0..100), [7; 100]);
        let first = areas[0].prefix(2);
        assert_eq!((first.as_slice(), first.len()), (&b"ab"[..], 2));
        assert_eq!(first.tier_bytes(0..2)[TierId::NEAR], 2);
        let kept = first.buffer(1..2);
        drop((areas, first));
        assert!(used() > 0);
        assert_eq!(kept.as_slice(), b"b");
        drop(kept);
        assert_eq!(used(), 0);
    }

    #[test]
    fn large_areas_have_a_region_of_their_own() {
        let system = system(1 << 20);
        let areas = areas(&system, &[Shelf::BLOCK_BYTES_MAX, 1]);
        assert!(system.usage(TierId::NEAR).region_bytes as usize > Shelf::BLOCK_BYTES_MAX);
        assert_eq!(areas[1].append(b"z"), Some(0));
        assert!(areas[0].is_empty());
    }

    #[test]
    fn whole_regions_are_filled_again_when_nobody_reads_them() {
        let near = crate::Placement::Bind(TierId::NEAR);
        let region = Region::allocate(&system(1 << 20), 100, &near, RegionOptions::default());
        let mut area = Arc::new(AppendArea::whole(region.unwrap()));
        assert_eq!(area.append_with(60, |to| to.fill(1)), Some(0));
        assert_eq!(area.append_with(41, |_| unreachable!()), None);
        let kept = area.prefix(60).buffer(50..60);
        assert!(Arc::get_mut(&mut area).is_none(), "a buffer is kept");
        assert_eq!(kept.as_slice(), [1; 10]);
        drop(kept);
        let alone = Arc::get_mut(&mut area).unwrap();
        alone.clear();
        assert_eq!((alone.len(), alone.free_bytes()), (0, 100));
        assert_eq!(area.append(&[2; 100]), Some(0));
        assert_eq!(area.slice(98..100), [2, 2]);
    }

    #[test]
    fn a_writer_that_panics_has_written_nothing() {
        let areas = areas(&system(1 << 20), &[10]);
        let area = &areas[0];
        let fails = || area.append_with(4, |to| panic!("{}", to.len()));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails)).is_err());
        assert!(area.is_empty());
        assert_eq!(area.append(b"abc"), Some(0));
    }

    #[test]
    #[should_panic(expected = "not written yet")]
    fn what_was_not_written_is_not_read() {
        let areas = areas(&system(1 << 20), &[10]);
        areas[0].append(b"ab");
        let _ = areas[0].slice(0..3);
    }

    #[test]
    fn readers_see_whole_records_while_one_writes() {
        const RECORDS: usize = if cfg!(miri) { 20 } else { 2000 };
        let system = system(1 << 20);
        let area = &areas(&system, &[RECORDS * 4])[0];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for record in 0..RECORDS as u32 {
                    area.append(&record.to_le_bytes());
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while area.len() < RECORDS * 4 {
                        let bytes = area.prefix(area.len());
                        let buffer = bytes.buffer(0..bytes.len());
                        let (records, rest) = buffer.as_chunks::<4>();
                        assert!(rest.is_empty());
                        let records = records.iter().copied().map(u32::from_le_bytes);
                        assert!(records.eq(0..bytes.len() as u32 / 4));
                    }
                });
            }
        });
    }
}
