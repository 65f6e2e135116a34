//! The kernel's own numbers.

use std::fs;
use std::ops::Range;

/// One kernel mapping of this process.
pub struct KernelMapping {
    pub resident_bytes: u64,
}

/// The kernel mappings that overlap `addresses`, from `/proc/self/smaps`.
pub fn mappings(addresses: Range<usize>) -> Vec<KernelMapping> {
    let text = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found: Vec<KernelMapping> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap_or("");
        let bounds = first.split_once('-').and_then(|(start, end)| {
            let hex = |text| usize::from_str_radix(text, 16).ok();
            Some(hex(start)?..hex(end)?)
        });
        if let Some(bounds) = bounds {
            inside = bounds.start < addresses.end && addresses.start < bounds.end;
            if inside {
                found.push(KernelMapping { resident_bytes: 0 });
            }
        } else if inside && first == "Rss:" {
            let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            found.last_mut().unwrap().resident_bytes = kib * 1024;
        }
    }
    found
}

/// The resident bytes of this process.
pub fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 4096
}
