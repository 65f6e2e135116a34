//! Pages of regions on devices.

use std::collections::BTreeMap;

use nearfar_memory::{Placement, PlacementSpec};
use nearfar_model::simulation::DeviceIndex;

use super::tiers::DeviceTiers;
use crate::access::spec::Mistake;

/// Bytes of a page of the model, and of a huge page.
pub(crate) const PAGE_BYTES: u64 = 4 << 10;
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Most pages after which a placement begins again.
const CYCLE_PAGES_MAX: u64 = 1 << 22;

/// Pages one after the other, on devices in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePages {
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Device of each of the first pages; then again from the first one on.
    pub cycle: Vec<DeviceIndex>,
}

impl DevicePages {
    /// Adds the bytes on each device.
    pub(crate) fn add_bytes(&self, needed: &mut BTreeMap<DeviceIndex, u64>) {
        let rounds = self.pages / self.cycle.len() as u64;
        let rest = (self.pages % self.cycle.len() as u64) as usize;
        for (index, device) in self.cycle.iter().enumerate() {
            let pages = rounds + u64::from(index < rest);
            *needed.entry(*device).or_default() += pages * PAGE_BYTES;
        }
    }
}

/// Tiers in turn, so many pages on each; pages of a tier of several devices go round over them.
struct Turn {
    devices: Vec<DeviceIndex>,
    pages: u64,
}

/// Where the pages of a region of `bytes` lie whose pages have `page_bytes`, a multiple of those of the model.
pub(crate) fn place(
    placement: &PlacementSpec,
    tiers: &DeviceTiers,
    bytes: u64,
    page_bytes: u64,
) -> Result<Vec<DevicePages>, Mistake> {
    let grain_pages = page_bytes / PAGE_BYTES;
    let turn = |devices: &Vec<DeviceIndex>, pages: u64| Turn {
        devices: devices.clone(),
        pages,
    };
    let units = bytes.div_ceil(page_bytes);
    let whole = |turns: Vec<Turn>| Ok(vec![cycle(&turns, units, grain_pages)?]);
    match placement.try_map(|name| tiers.devices(name.as_str()))? {
        Placement::Bind(devices) => whole(vec![turn(&devices, 1)]),
        Placement::Interleave(all) => whole(all.iter().map(|devices| turn(devices, 1)).collect()),
        Placement::Weighted(runs) => {
            let turns = runs.iter();
            let turns = turns.map(|(devices, pages)| turn(devices, u64::from(pages.get())));
            whole(turns.collect())
        }
        Placement::Split {
            first,
            first_share,
            rest,
        } => {
            let rest_units = (units as f64 * (1.0 - first_share)).round() as u64;
            let parts = [(first, units - rest_units), (rest, rest_units)];
            let parts = parts.iter().filter(|(_, units)| *units > 0);
            parts
                .map(|(devices, units)| cycle(&[turn(devices, 1)], *units, grain_pages))
                .collect()
        }
    }
}

/// `units` pages of `grain_pages` over tiers in turn.
fn cycle(turns: &[Turn], units: u64, grain_pages: u64) -> Result<DevicePages, Mistake> {
    // After that many rounds over the tiers, each of them begins at its first device again.
    let rounds = turns.iter().fold(1, |rounds, turn| {
        let devices = turn.devices.len() as u64;
        lcm(rounds, devices / gcd(devices, turn.pages))
    });
    let period: u64 = turns
        .iter()
        .map(|turn| turn.pages)
        .fold(0, u64::saturating_add);
    let length = period.saturating_mul(rounds).min(units);
    if length > CYCLE_PAGES_MAX / grain_pages {
        return Err(format!(
            "begins again after {length} pages only: at most {} are modelled; write smaller numbers",
            CYCLE_PAGES_MAX / grain_pages
        )
        .into());
    }
    let mut cycle = Vec::new();
    let mut placed = vec![0; turns.len()];
    'pages: loop {
        for (turn, placed) in turns.iter().zip(&mut placed) {
            for _ in 0..turn.pages {
                if cycle.len() as u64 == length * grain_pages {
                    break 'pages;
                }
                let device = turn.devices[*placed % turn.devices.len()];
                cycle.extend(std::iter::repeat_n(device, grain_pages as usize));
                *placed += 1;
            }
        }
    }
    Ok(DevicePages {
        pages: units * grain_pages,
        cycle,
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b) * b
}
