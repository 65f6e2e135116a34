//! Which device a page lies on.

use super::network::DeviceIndex;

/// log2 of the lines of a page of 4 KiB.
pub(crate) const PAGE_LINES_LOG2: u32 = 6;

/// Pages in address order, each part with a cycle of devices.
#[derive(Debug, Clone, Default)]
pub struct AddressMap {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
struct Part {
    first_page: u64,
    pages: u64,
    cycle: Vec<DeviceIndex>,
    /// What of a page's number is its place in the cycle, where that is a power of two long.
    mask: Option<u64>,
}

impl AddressMap {
    /// No memory at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `pages` pages from `first_page` on, placed on the devices of `cycle` in turn.
    pub fn add(&mut self, first_page: u64, pages: u64, cycle: Vec<DeviceIndex>) {
        assert!(!cycle.is_empty(), "a part lies on at least one device");
        if pages > 0 {
            let devices = cycle.len() as u64;
            self.parts.push(Part {
                first_page,
                pages,
                cycle,
                mask: devices.is_power_of_two().then_some(devices - 1),
            });
            self.parts.sort_by_key(|part| part.first_page);
        }
    }

    /// Whether any page lies on the device.
    pub(crate) fn uses(&self, device: DeviceIndex) -> bool {
        self.parts.iter().any(|part| part.cycle.contains(&device))
    }

    /// The device of a page.
    #[inline]
    pub fn device(&self, page: u64) -> DeviceIndex {
        let part = match &self.parts[..] {
            [only] => only,
            parts => {
                let after = parts.partition_point(|part| part.first_page <= page);
                &parts[after.saturating_sub(1)]
            }
        };
        debug_assert!(
            page.wrapping_sub(part.first_page) < part.pages,
            "page {page} not placed"
        );
        let page = page - part.first_page;
        let turn = match part.mask {
            Some(mask) => page & mask,
            None => page % part.cycle.len() as u64,
        };
        part.cycle[turn as usize]
    }
}
