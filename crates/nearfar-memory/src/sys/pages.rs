//! Where pages are, and moving them (move_pages(2), Documentation/mm/page_migration.rst).

use std::ops::Range;

use super::{Mapping, SysError};

/// Pages asked about or moved per call: the arrays stay within the second-level cache.
const PAGES_PER_CALL: usize = 4096;

/// What the kernel said of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageLocation {
    /// It lies on this node.
    Node(u32),
    /// It is not in memory, or (after a move) could not be handled, with this `errno`.
    Error(i32),
}

impl PageLocation {
    #[cfg(not(miri))]
    fn from_status(status: libc::c_int) -> Self {
        match u32::try_from(status) {
            Ok(node) => Self::Node(node),
            Err(_) => Self::Error(-status),
        }
    }
}

/// Tells `each` where every page of `range` is, `stride` bytes apart, in order, as
/// `(byte offset, location)`.
///
/// Before: `range` lies inside `map`; `stride` is a multiple of the base page size. After: nothing
/// has moved. Arrays are bounded, so that memory use does not grow with the range.
///
/// # Errors
/// `EPERM` or `ENOSYS` where a sandbox forbids the call.
pub fn query_pages(
    map: &Mapping,
    range: Range<usize>,
    stride: usize,
    mut each: impl FnMut(usize, PageLocation),
) -> Result<(), SysError> {
    in_chunks(map, range.step_by(stride), None, |offset, location| {
        each(offset, location)
    })
}

/// Moves the pages at `targets`, given as `(byte offset, node)`, and tells `each` where they are
/// afterwards, in order.
///
/// Before: every offset is a page of `map`. After: readers and writers of the pages went on and
/// lost nothing; a page that could not move is told with its `errno` (`EBUSY`, `ENOMEM`). A
/// transparent huge page moves as a whole when its first page is named.
///
/// # Errors
/// As [`query_pages`], `ENODEV` when a node does not exist.
pub fn move_pages(
    map: &Mapping,
    targets: impl Iterator<Item = (usize, u32)>,
    each: impl FnMut(usize, PageLocation),
) -> Result<(), SysError> {
    let mut nodes = Vec::with_capacity(PAGES_PER_CALL);
    let mut targets = targets.peekable();
    let mut each = each;
    while targets.peek().is_some() {
        nodes.clear();
        let mut offsets = Vec::with_capacity(PAGES_PER_CALL);
        for (offset, node) in targets.by_ref().take(PAGES_PER_CALL) {
            offsets.push(offset);
            nodes.push(node as libc::c_int);
        }
        in_chunks(map, offsets.into_iter(), Some(&nodes), &mut each)?;
    }
    Ok(())
}

#[cfg(not(miri))]
fn in_chunks(
    map: &Mapping,
    mut offsets: impl Iterator<Item = usize>,
    nodes: Option<&[libc::c_int]>,
    mut each: impl FnMut(usize, PageLocation),
) -> Result<(), SysError> {
    const MPOL_MF_MOVE: libc::c_int = 2;
    let call = if nodes.is_some() {
        "move_pages"
    } else {
        "move_pages (query)"
    };
    let mut pages: Vec<*mut libc::c_void> = Vec::with_capacity(PAGES_PER_CALL);
    let mut status: Vec<libc::c_int> = Vec::with_capacity(PAGES_PER_CALL);
    let base = map.base().as_ptr();
    loop {
        pages.clear();
        for offset in offsets.by_ref().take(PAGES_PER_CALL) {
            assert!(offset < map.len(), "offset {offset} is outside");
            pages.push(base.wrapping_add(offset).cast());
        }
        if pages.is_empty() {
            return Ok(());
        }
        status.clear();
        status.resize(pages.len(), -libc::ENOENT);
        let targets = nodes.map_or(std::ptr::null(), |nodes| nodes.as_ptr());
        // SAFETY: all arrays have `pages.len()` elements (a move comes with at most one chunk) and
        // live through the call, which writes only `status`.
        let code = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0 as libc::c_int,
                pages.len(),
                pages.as_ptr(),
                targets,
                status.as_mut_ptr(),
                if nodes.is_some() { MPOL_MF_MOVE } else { 0 },
            )
        };
        // A positive result counts pages that did not move; their status says why.
        if code < 0 {
            return Err(SysError::last(call));
        }
        for (page, status) in pages.iter().zip(&status) {
            each(
                *page as usize - base as usize,
                PageLocation::from_status(*status),
            );
        }
    }
}

#[cfg(miri)]
fn in_chunks(
    _map: &Mapping,
    _offsets: impl Iterator<Item = usize>,
    _nodes: Option<&[libc::c_int]>,
    _each: impl FnMut(usize, PageLocation),
) -> Result<(), SysError> {
    let _ = (
        PAGES_PER_CALL,
        PageLocation::Node(0),
        PageLocation::Error(0),
    );
    Err(SysError {
        call: "move_pages",
        errno: libc::ENOSYS,
    })
}

/// Bytes of `map` that lie in transparent huge pages now.
///
/// Uses the page map scan of Linux 6.7 (Documentation/admin-guide/mm/pagemap.rst).
///
/// # Errors
/// `ENOTTY` before Linux 6.7, or the error of opening `/proc/self/pagemap`.
#[cfg(not(miri))]
pub fn huge_bytes(map: &Mapping) -> Result<usize, SysError> {
    use std::os::fd::AsRawFd;

    const PAGE_IS_HUGE: u64 = 1 << 6;
    const VECTORS: usize = 64;
    /// `_IOWR('f', 16, struct pm_scan_arg)`.
    const PAGEMAP_SCAN: libc::c_ulong = 0xC060_6610;

    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct PageRegion {
        start: u64,
        end: u64,
        categories: u64,
    }

    #[repr(C)]
    #[derive(Default)]
    struct ScanArguments {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        vec: u64,
        vec_len: u64,
        max_pages: u64,
        category_inverted: u64,
        category_mask: u64,
        category_anyof_mask: u64,
        return_mask: u64,
    }

    let call = "ioctl(PAGEMAP_SCAN)";
    let file = std::fs::File::open("/proc/self/pagemap").map_err(|error| SysError {
        call: "open of /proc/self/pagemap",
        errno: error.raw_os_error().unwrap_or(0),
    })?;
    let addresses = map.addresses();
    let (mut start, end) = (addresses.start as u64, addresses.end as u64);
    let mut found = [PageRegion::default(); VECTORS];
    let mut bytes = 0;
    while start < end {
        let mut arguments = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            start,
            end,
            vec: found.as_mut_ptr() as u64,
            vec_len: VECTORS as u64,
            category_mask: PAGE_IS_HUGE,
            return_mask: PAGE_IS_HUGE,
            ..ScanArguments::default()
        };
        // SAFETY: the argument and the vector it points to are live, writable and of the sizes told.
        let count = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
        if count < 0 {
            return Err(SysError::last(call));
        }
        let count = count as usize;
        bytes += found[..count]
            .iter()
            .map(|part| part.end - part.start)
            .sum::<u64>();
        if arguments.walk_end <= start {
            break;
        }
        start = arguments.walk_end;
    }
    Ok(bytes as usize)
}

/// Not known there.
#[cfg(miri)]
pub fn huge_bytes(_map: &Mapping) -> Result<usize, SysError> {
    Err(SysError {
        call: "ioctl(PAGEMAP_SCAN)",
        errno: libc::ENOSYS,
    })
}

// Not under Miri, which has no nodes.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::{Advice, BASE_PAGE_BYTES, HUGE_PAGE_BYTES, MappingKind};
    use super::*;

    fn populated(bytes: usize, advice: Advice) -> Mapping {
        let map = Mapping::new(bytes, HUGE_PAGE_BYTES, MappingKind::Anonymous).unwrap();
        map.advise(0..bytes, advice).unwrap();
        map.advise(0..bytes / 2, Advice::PopulateWrite).unwrap();
        map
    }

    #[test]
    fn present_and_absent_pages_are_told_apart() {
        let map = populated(64 << 20, Advice::BasePages);
        let (mut present, mut absent) = (0, 0);
        let result = query_pages(
            &map,
            0..map.len(),
            BASE_PAGE_BYTES,
            |_, location| match location {
                PageLocation::Node(_) => present += 1,
                PageLocation::Error(errno) => {
                    assert_eq!(errno, libc::ENOENT);
                    absent += 1;
                }
            },
        );
        match result {
            Err(error) if error.is_unavailable() => return,
            other => other.unwrap(),
        }
        assert_eq!((present, absent), (8192, 8192));
    }

    #[test]
    fn moving_pages_to_the_node_they_are_on_keeps_their_bytes() {
        let map = populated(32 << 20, Advice::BasePages);
        // SAFETY: the byte lies inside the populated half.
        unsafe { map.base().as_ptr().write(42) };
        let targets = (0..map.len() / 2)
            .step_by(BASE_PAGE_BYTES)
            .map(|offset| (offset, 0));
        let mut moved = 0;
        match move_pages(&map, targets, |_, location| {
            assert_eq!(location, PageLocation::Node(0));
            moved += 1;
        }) {
            Err(error) if error.is_unavailable() => return,
            other => other.unwrap(),
        }
        assert_eq!(moved, 4096);
        // SAFETY: as above.
        assert_eq!(unsafe { map.base().as_ptr().read() }, 42);
    }

    #[test]
    fn huge_pages_are_counted() {
        let base = populated(8 << 20, Advice::BasePages);
        let Ok(none) = huge_bytes(&base) else { return };
        assert_eq!(none, 0);
        let huge = populated(8 << 20, Advice::HugePages);
        let bytes = huge_bytes(&huge).unwrap();
        assert!(
            bytes <= 4 << 20 && bytes.is_multiple_of(HUGE_PAGE_BYTES),
            "{bytes}"
        );
    }
}
