//! What `/proc/zoneinfo` says of the memory of nodes.

use crate::sys::{BASE_PAGE_BYTES, NodeSet};
use std::ops::Range;

/// A zone of a node, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Zone {
    node: u32,
    low: u64,
    high: u64,
    start: u64,
    /// With holes.
    spanned: u64,
    /// Without: none of a zone of device memory, whose start is not told then.
    present: u64,
}

/// The zones of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Zones(Vec<Zone>);

impl Zones {
    /// What the file says; nothing of what it does not.
    pub(crate) fn parse(text: &str) -> Self {
        let mut zones: Vec<Zone> = Vec::new();
        for line in text.lines() {
            if let Some(zone) = line.strip_prefix("Node ") {
                let node = zone.split(',').next().and_then(|node| node.parse().ok());
                zones.extend(node.map(|node| Zone {
                    node,
                    ..Zone::default()
                }));
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(word), Some(zone)) = (words.next(), zones.last_mut()) else {
                continue;
            };
            let field = match word {
                "low" => &mut zone.low,
                "high" => &mut zone.high,
                "spanned" => &mut zone.spanned,
                "present" => &mut zone.present,
                "start_pfn:" => &mut zone.start,
                _ => continue,
            };
            if let Some(pages) = words.next().and_then(|pages| pages.parse().ok()) {
                *field = pages;
            }
        }
        Self(zones)
    }

    fn of<'z>(&'z self, nodes: &'z NodeSet) -> impl Iterator<Item = &'z Zone> {
        self.0.iter().filter(|zone| nodes.contains(zone.node))
    }

    /// Bytes of free memory that the kernel keeps back on `nodes`: the high watermarks. Below them it reclaims, and below
    /// the lowest ones it kills a process that is bound there (Documentation/admin-guide/sysctl/vm.rst,
    /// `min_free_kbytes`).
    pub(crate) fn kept_back_bytes(&self, nodes: &NodeSet) -> u64 {
        let pages = self.of(nodes).map(|zone| zone.high);
        pages
            .fold(0, u64::saturating_add)
            .saturating_mul(BASE_PAGE_BYTES as u64)
    }

    /// Bytes between two watermarks of `nodes`.
    pub(crate) fn step_bytes(&self, nodes: &NodeSet) -> u64 {
        let steps = self
            .of(nodes)
            .map(|zone| zone.high.saturating_sub(zone.low));
        steps.sum::<u64>() * BASE_PAGE_BYTES as u64
    }

    /// The physical addresses of `nodes`, with the holes that zones have.
    pub(crate) fn addresses(&self, nodes: &NodeSet) -> Vec<Range<u64>> {
        let page_bytes = BASE_PAGE_BYTES as u64;
        let zones = self.of(nodes).filter(|zone| zone.present > 0);
        let ranges =
            zones.map(|zone| zone.start * page_bytes..(zone.start + zone.spanned) * page_bytes);
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_and_addresses_are_found() {
        let text = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 12\n  pages free     3840\n        \
                    min      10\n        low      131\n        high     157\n        spanned  4095\n        present  3998\n    pagesets\n    \
                    cpu: 0\n              count: 0\n              high:  7\n  start_pfn:           1\n\
                    Node 0, zone  Movable\n        low      32\n        high     32\n        spanned  0\n\
                    Node 1, zone    DMA32\n        low      3825\n        high     4590\n        spanned  131031\n        present  131031\n  \
                    start_pfn:           524288\n";
        let zones = Zones::parse(text);
        let nodes = |list: &str| NodeSet::parse(list).unwrap();
        assert_eq!(zones.step_bytes(&nodes("0")), 26 * 4096);
        assert_eq!(zones.kept_back_bytes(&nodes("0")), (157 + 32) * 4096);
        assert_eq!(zones.step_bytes(&nodes("0-1")), (26 + 765) * 4096);
        let addresses = |list| {
            let ranges = zones.addresses(&nodes(list)).into_iter();
            ranges
                .map(|range| (range.start, range.end))
                .collect::<Vec<_>>()
        };
        let (first, second) = (
            (4096, 4096 * 4096),
            (0x8000_0000, 0x8000_0000 + 131_031 * 4096),
        );
        assert_eq!(addresses("0-1"), [first, second]);
        assert_eq!(addresses("1"), [second]);
        assert_eq!(addresses("2"), []);
    }
}
