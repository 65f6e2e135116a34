//! Where addresses of the process lie in the modelled machine.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use nearfar_model::simulation::{AddressMap, AddressSpace, Machine, MachineError, TierName};

/// log2 of the addresses of a tier's window.
const WINDOW_SHIFT: u32 = 40;
const PAGE_BYTES: u64 = 4096;

/// Tiers of the model: near and far.
pub(super) const TIERS: usize = 2;

/// Pages of one heap that lie on either tier and change it while the simulation runs.
#[derive(Debug)]
pub(super) struct PageTable {
    /// log2 of the bytes of a page.
    pub(super) shift: u32,
    /// The tier of each page.
    pub(super) tiers: Vec<Cell<u8>>,
    /// Accesses to each page since the policy looked at it last.
    pub(super) uses: Vec<Cell<u32>>,
}

/// Translates addresses: each tier has a window of modelled addresses, in which a byte of a heap has
/// the place that it has in the heap.
#[derive(Debug)]
pub(super) struct Space {
    heaps: Vec<Range<usize>>,
    pages: Option<RefCell<PageTable>>,
    /// The modelled tier behind each window, and how many of its devices; all by default.
    windows: [(TierName, Option<u32>); TIERS],
    lines: [Cell<u64>; TIERS],
}

impl Space {
    /// Heaps near to far; or one heap, whose pages are on tiers of their own.
    pub(super) fn new(heaps: Vec<Range<usize>>, pages: Option<PageTable>) -> Self {
        Self {
            heaps,
            pages: pages.map(RefCell::new),
            windows: [(TierName::Near, None), (TierName::Far, None)],
            lines: Default::default(),
        }
    }

    /// One heap, and all else, on so many devices of a tier, page by page in turn.
    pub(super) fn on(heap: Range<usize>, tier: TierName, devices: u32) -> Self {
        Self {
            windows: [(tier, Some(devices)); TIERS],
            ..Self::new(vec![heap], None)
        }
    }

    /// Which device serves which modelled address.
    pub(super) fn map(&self, machine: &Machine) -> Result<AddressMap, MachineError> {
        let mut map = AddressMap::new();
        for (tier, (name, devices)) in self.windows.into_iter().enumerate() {
            let all = || {
                let found = machine.tiers.iter().find(|(one, _)| *one == name);
                found.map_or(1, |(_, tier)| tier.devices)
            };
            let devices = machine.devices(name, devices.unwrap_or_else(all))?;
            map.add(
                window(tier) / PAGE_BYTES,
                (1 << WINDOW_SHIFT) / PAGE_BYTES,
                devices,
            );
        }
        Ok(map)
    }

    /// The table of pages, where pages move.
    pub(super) fn pages(&self) -> Option<&RefCell<PageTable>> {
        self.pages.as_ref()
    }

    /// Accesses to each tier so far, before any cache.
    pub(super) fn accesses(&self) -> [u64; TIERS] {
        [self.lines[0].get(), self.lines[1].get()]
    }
}

impl Space {
    /// Where an address lies: its tier, which `of_page` tells where pages move, and the modelled address. Bytes of no
    /// heap are near, and their tier is nobody's.
    #[inline]
    fn locate(
        &self,
        address: usize,
        of_page: impl FnOnce(&PageTable, u64) -> usize,
    ) -> (Option<usize>, u64) {
        let found = self.heaps.iter().position(|heap| heap.contains(&address));
        let Some(heap) = found else {
            let outside = (1 << (WINDOW_SHIFT - 1)) + address as u64 % (1 << 36);
            return (None, window(0) + outside);
        };
        let offset = (address - self.heaps[heap].start) as u64;
        let tier = match &self.pages {
            None => heap,
            Some(pages) => of_page(&pages.borrow(), offset),
        };
        let tier = tier.min(TIERS - 1);
        (Some(tier), window(tier) + offset)
    }
}

impl AddressSpace for Space {
    fn modelled(&self, address: usize) -> u64 {
        let (tier, modelled) = self.locate(address, PageTable::touch);
        if let Some(tier) = tier {
            let lines = &self.lines[tier];
            lines.set(lines.get() + 1);
        }
        modelled
    }

    fn place(&self, address: usize) -> u64 {
        self.locate(address, PageTable::tier).1
    }
}

impl PageTable {
    fn tier(&self, offset: u64) -> usize {
        let tier = self.tiers.get((offset >> self.shift) as usize);
        tier.map_or(TIERS - 1, |tier| usize::from(tier.get()))
    }

    fn touch(&self, offset: u64) -> usize {
        let page = (offset >> self.shift) as usize;
        let (Some(tier), Some(uses)) = (self.tiers.get(page), self.uses.get(page)) else {
            return TIERS - 1;
        };
        uses.set(uses.get().saturating_add(1));
        usize::from(tier.get())
    }
}

/// The first modelled address of a tier.
pub(super) fn window(tier: usize) -> u64 {
    (tier as u64 + 1) << WINDOW_SHIFT
}
