//! Where pages are, as the kernel finds them in its page tables.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that are there of this process's mappings that begin in `addresses`, by node (`/proc/self/numa_maps`,
/// numa(7)). Others may move them meanwhile.
///
/// # Errors
/// As reading the file: it is not there where the kernel knows no nodes.
pub fn bytes_by_node(addresses: &Range<usize>) -> std::io::Result<BTreeMap<u32, u64>> {
    let text = std::fs::read_to_string("/proc/self/numa_maps")?;
    Ok(bytes_in(&text, addresses))
}

fn bytes_in(text: &str, addresses: &Range<usize>) -> BTreeMap<u32, u64> {
    let mut bytes = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split(' ');
        let start = fields
            .next()
            .and_then(|start| usize::from_str_radix(start, 16).ok());
        if !start.is_some_and(|start| addresses.contains(&start)) {
            continue;
        }
        let numbers = fields.filter_map(|field| {
            let (name, number) = field.split_once('=')?;
            Some((name, number.parse::<u64>().ok()?))
        });
        let numbers: Vec<(&str, u64)> = numbers.collect();
        let page_kib = numbers
            .iter()
            .find(|(name, _)| *name == "kernelpagesize_kB");
        let page_bytes = page_kib.map_or(super::BASE_PAGE_BYTES as u64, |(_, kib)| kib << 10);
        for (name, pages) in numbers {
            let node = name.strip_prefix('N').and_then(|node| node.parse().ok());
            if let Some(node) = node {
                *bytes.entry(node).or_default() += pages * page_bytes;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_mappings_in_a_range_are_counted_by_node() {
        let text = "7f0000000000 bind:0 anon=3 dirty=3 N0=3 kernelpagesize_kB=4\n\
                    7f0000200000 prefer (many):0 anon=512 dirty=512 active=0 N0=100 N1=412 kernelpagesize_kB=4\n\
                    7f0000400000 default anon=1 huge N1=2 kernelpagesize_kB=2048\n\
                    7f0000600000 default file=/lib/N7=1.so mapped=5\n\
                    7f0000800000 default anon=9 N0=9 kernelpagesize_kB=4\n";
        let bytes = |from: usize, to: usize| {
            let bytes = bytes_in(text, &(0x7f00_0000_0000 + from..0x7f00_0000_0000 + to));
            bytes.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(bytes(0, 1), [(0, 3 * 4096)]);
        let both = [(0, 100 * 4096), (1, 412 * 4096 + (4 << 20))];
        assert_eq!(bytes(0x20_0000, 0x80_0000), both);
        assert_eq!(bytes(0x60_0000, 0x80_0000), []);
    }
}
