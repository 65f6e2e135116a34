//! One device, and what is taken of it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::POOL_MAGIC;
use super::error::DaxError;
use super::extents::ExtentMap;
use crate::sys::{self, Advice, Durability, Mapping, SharedFile, SharedMapping, SysError};

/// The most kernel mappings for what is taken at a time: a process has 65,530 unless it was given more.
const MAPPINGS_MAX: usize = 4096;

/// A device that this process has opened and locked; dropping it unlocks it.
#[derive(Debug)]
pub(crate) struct DaxDevice {
    path: PathBuf,
    file: SharedFile,
    /// The alignment of the device: it is mapped in multiples of this.
    page_bytes: usize,
    extents: Mutex<ExtentMap>,
}

impl DaxDevice {
    /// Opens the device at `path` for this process alone.
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>, DaxError> {
        let cannot = |source| DaxError::Open {
            path: path.to_owned(),
            source,
        };
        let file = SharedFile::open(path).map_err(cannot)?;
        if !file.try_lock().map_err(cannot)? {
            return Err(DaxError::InUse {
                path: path.to_owned(),
                owner_pid: file.lock_owner(),
            });
        }
        let (device_bytes, page_bytes) = (
            file.bytes().map_err(cannot)?,
            file.align_bytes().map_err(cannot)?,
        );
        let pages = usize::try_from(device_bytes / page_bytes as u64).unwrap_or(usize::MAX);
        if pages == 0 {
            return Err(DaxError::TooSmall {
                path: path.to_owned(),
                device_bytes,
                page_bytes,
            });
        }
        let first = SharedMapping::open(path, page_bytes, Durability::Flush).map_err(cannot)?;
        let word = first.words()[0].load(std::sync::atomic::Ordering::Relaxed);
        if [POOL_MAGIC, POOL_MAGIC.swap_bytes()].contains(&word) {
            return Err(DaxError::HoldsPool {
                path: path.to_owned(),
            });
        }
        Ok(Arc::new(Self {
            path: path.to_owned(),
            file,
            page_bytes,
            extents: Mutex::new(ExtentMap::new(pages)),
        }))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The alignment of the device, which is the size of its pages.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Takes `bytes`, a multiple of the page size, with whatever is in them.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Result<DaxExtents, DaxError> {
        debug_assert!(bytes.is_multiple_of(self.page_bytes as u64));
        let pages = usize::try_from(bytes / self.page_bytes as u64).unwrap_or(usize::MAX);
        let mut extents = self.extents();
        let Some(taken) = extents.take(pages) else {
            return Err(DaxError::Full {
                path: self.path.clone(),
                requested_bytes: bytes,
                available_bytes: (extents.free_pages() * self.page_bytes) as u64,
                page_bytes: self.page_bytes,
            });
        };
        drop(extents);
        let taken = DaxExtents {
            device: Arc::clone(self),
            pages: taken,
        };
        for range in taken.ranges() {
            let reserved = self.file.reserve(range.clone());
            reserved.map_err(|source| self.cannot_map(&range, source))?;
        }
        Ok(taken)
    }

    fn extents(&self) -> MutexGuard<'_, ExtentMap> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cannot_map(&self, range: &Range<u64>, source: SysError) -> DaxError {
        DaxError::Map {
            path: self.path.clone(),
            offset: range.start,
            bytes: range.end - range.start,
            page_bytes: self.page_bytes,
            source,
        }
    }
}

/// Parts of a device that were taken; dropping them gives them back, and whoever has mapped them does
/// not touch them after that.
#[derive(Debug)]
pub(crate) struct DaxExtents {
    device: Arc<DaxDevice>,
    pages: Vec<Range<usize>>,
}

/// A part of a mapping that comes from a device.
struct Piece {
    place: Range<usize>,
    offset: u64,
}

impl Piece {
    /// The bytes of the device.
    fn source(&self) -> Range<u64> {
        self.offset..self.offset + self.place.len() as u64
    }
}

impl DaxExtents {
    /// The bytes of the device, in the order in which they are given out.
    fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let at = |page: usize| (page * self.device.page_bytes) as u64;
        self.pages
            .iter()
            .map(move |pages| at(pages.start)..at(pages.end))
    }

    /// Puts these bytes, all zero, in place of the ranges `places` of `map`, one after another.
    ///
    /// Before: the ranges are aligned as the device is, have as many bytes together, and nobody refers
    /// into them.
    pub(crate) fn map_zeroed(
        &self,
        map: &Mapping,
        places: &[Range<usize>],
    ) -> Result<(), DaxError> {
        let pieces = self.pieces(places);
        if pieces.len() > MAPPINGS_MAX {
            return Err(DaxError::TooManyMappings {
                path: self.device.path.clone(),
                mappings: pieces.len(),
                mappings_max: MAPPINGS_MAX,
            });
        }
        for piece in pieces {
            self.map_piece(map, &piece)
                .map_err(|source| self.device.cannot_map(&piece.source(), source))?;
        }
        Ok(())
    }

    fn map_piece(&self, map: &Mapping, piece: &Piece) -> Result<(), SysError> {
        map.map_file(piece.place.clone(), &self.device.file, piece.offset)?;
        // A child would go on having what is given to others here later.
        map.advise(piece.place.clone(), Advice::KeepFromChildren)?;
        match map.advise(piece.place.clone(), Advice::PopulateWrite) {
            // Some kernels do not populate mappings of devices: zeroing them does.
            Err(error) if error.errno != libc::EINVAL => return Err(error),
            _ => map.zero(piece.place.clone()),
        }
        Ok(())
    }

    /// Asks the kernel whether the ranges `places` of `map` are what [`Self::map_zeroed`] has put there.
    /// The inner error is that of asking.
    pub(crate) fn check(
        &self,
        map: &Mapping,
        places: &[Range<usize>],
    ) -> Result<Result<(), SysError>, DaxError> {
        let start = map.addresses().start;
        let found = match sys::mapped_files(map.addresses()) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let inode = match self.device.file.inode() {
            Ok(inode) => inode,
            Err(error) => return Ok(Err(error)),
        };
        for piece in self.pieces(places) {
            let first = start + piece.place.start;
            let is_there = found.iter().any(|file| {
                file.inode == inode
                    && file.addresses.start <= first
                    && file.addresses.end >= start + piece.place.end
                    && file.offset + (first - file.addresses.start) as u64 == piece.offset
            });
            if !is_there {
                return Err(DaxError::NotMapped {
                    path: self.device.path.clone(),
                    offset: piece.offset,
                    bytes: piece.place.len() as u64,
                });
            }
        }
        Ok(Ok(()))
    }

    fn pieces(&self, places: &[Range<usize>]) -> Vec<Piece> {
        let mut sources = self.ranges();
        let mut source = 0..0;
        let mut pieces = Vec::new();
        for place in places {
            let mut at = place.start;
            while at < place.end {
                if source.is_empty() {
                    let Some(next) = sources.next() else {
                        unreachable!("places have as many bytes as were taken for them")
                    };
                    source = next;
                }
                let bytes = (place.end - at).min((source.end - source.start) as usize);
                pieces.push(Piece {
                    place: at..at + bytes,
                    offset: source.start,
                });
                at += bytes;
                source.start += bytes as u64;
            }
        }
        pieces
    }
}

impl Drop for DaxExtents {
    fn drop(&mut self) {
        for range in self.ranges() {
            // A file that stands for a device has pages of its own.
            if let Err(error) = self.device.file.release(range) {
                tracing::debug!(%error, "pages of a free extent stay");
            }
        }
        let mut extents = self.device.extents();
        for pages in self.pages.drain(..) {
            extents.release(pages);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::sys::{HUGE_PAGE_BYTES, MappingKind};

    const PAGE: usize = HUGE_PAGE_BYTES;

    fn device(pages: usize) -> (tempfile::NamedTempFile, Arc<DaxDevice>) {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len((pages * PAGE) as u64).unwrap();
        let device = DaxDevice::open(file.path()).unwrap();
        (file, device)
    }

    /// The first byte of each page of `map`.
    fn first_bytes(map: &Mapping) -> Vec<u8> {
        let pages = (0..map.len()).step_by(PAGE);
        // SAFETY: all pages are mapped and readable.
        pages
            .map(|at| unsafe { map.base().as_ptr().add(at).read() })
            .collect()
    }

    #[test]
    fn what_is_taken_in_pieces_is_mapped_where_it_should_be_and_zero() {
        let (_file, device) = device(4);
        let take = |pages: usize| device.take((pages * PAGE) as u64);
        let [first, second, third] = [1, 1, 1].map(|pages| take(pages).unwrap());
        let map = |pages| Mapping::new(pages * PAGE, PAGE, MappingKind::Anonymous).unwrap();
        let here = map(3);
        let (front, middle) = (0..PAGE, PAGE..2 * PAGE);
        let [front, middle] = [&front, &middle].map(std::slice::from_ref);
        first.map_zeroed(&here, middle).unwrap();
        // SAFETY: the page is mapped and writable, and nobody else refers to it.
        unsafe { here.base().as_ptr().add(PAGE).write_bytes(7, PAGE) };
        assert_eq!(first_bytes(&here), [0, 7, 0]);
        assert_eq!(first.check(&here, middle), Ok(Ok(())));
        assert!(first.check(&here, front).is_err(), "not mapped there");
        assert!(second.check(&here, middle).is_err(), "another page");
        drop((here, first, third));

        let three = take(3).unwrap();
        assert_eq!(three.pages, [0..1, 2..4], "no gap is long enough");
        let again = map(3);
        three
            .map_zeroed(&again, &[0..PAGE, PAGE..3 * PAGE])
            .unwrap();
        assert_eq!(first_bytes(&again), [0, 0, 0]);
        assert_eq!(three.check(&again, &[0..PAGE, PAGE..3 * PAGE]), Ok(Ok(())));
        assert_eq!(
            take(1).unwrap_err(),
            DaxError::Full {
                path: device.path().to_owned(),
                requested_bytes: PAGE as u64,
                available_bytes: 0,
                page_bytes: PAGE,
            }
        );
    }

    #[test]
    fn too_many_mappings_are_refused() {
        let pages = MAPPINGS_MAX + 1;
        let (_file, device) = device(1);
        let places: Vec<Range<usize>> = (0..pages).map(|page| page..page + 1).collect();
        // Of bytes, since that many pages would take memory for no reason.
        let extents = device.take(PAGE as u64).unwrap();
        let map = Mapping::new(PAGE, PAGE, MappingKind::Anonymous).unwrap();
        let refused = extents.map_zeroed(&map, &places).unwrap_err();
        assert!(
            matches!(refused, DaxError::TooManyMappings { mappings, .. } if mappings == pages),
            "{refused}"
        );
    }
}
