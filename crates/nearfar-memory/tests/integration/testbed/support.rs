//! What the kernel says of pages and nodes, asked without the code under test.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use nearfar_memory::{
    Budgets, MemorySystem, PageSize, Placement, Region, RegionError, RegionOptions, TierId,
    TierKind, TierSpec,
};

pub const PAGE_BYTES: usize = 4096;
pub const MIB: u64 = 1 << 20;

/// A system of one tier per list of nodes, near to far, each with this capacity.
pub fn system_of(nodes: &[&[u32]], capacity_bytes: u64) -> Arc<MemorySystem> {
    let names = ["near", "far", "farther"];
    let specs = nodes.iter().zip(names).map(|(nodes, name)| {
        let kind = match name {
            "near" => TierKind::LocalDram,
            _ => TierKind::CpulessNode,
        };
        TierSpec::new(name, kind, nodes.to_vec(), capacity_bytes)
    });
    MemorySystem::from_specs(specs.collect(), &Budgets::new()).unwrap()
}

pub fn tier(index: usize) -> TierId {
    TierId::from_index(index).unwrap()
}

pub fn allocate(
    system: &Arc<MemorySystem>,
    bytes: u64,
    placement: &Placement,
    page_size: PageSize,
) -> Result<Region, RegionError> {
    let options = RegionOptions {
        page_size,
        ..RegionOptions::default()
    };
    Region::allocate(system, bytes as usize, placement, options)
}

/// The node of every base page from `address` on, by `move_pages(2)`; -1 and below are errors.
pub fn nodes_of(address: *const u8, bytes: usize) -> Vec<i32> {
    let pages: Vec<*const u8> = (0..bytes.div_ceil(PAGE_BYTES))
        .map(|page| address.wrapping_add(page * PAGE_BYTES))
        .collect();
    let mut nodes = vec![i32::MIN; pages.len()];
    // SAFETY: both arrays have as many elements as told, and the call without target nodes writes
    // the second one only.
    let code = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            std::ptr::null::<i32>(),
            nodes.as_mut_ptr(),
            0,
        )
    };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
    nodes
}

/// As [`nodes_of`], for all pages of a region.
pub fn nodes_of_region(region: &Region) -> Vec<i32> {
    nodes_of(region.as_slice().as_ptr(), region.mapped_bytes())
}

/// How often each node stands in a list.
pub fn counted(nodes: &[i32]) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        let node = u32::try_from(*node).unwrap_or_else(|_| panic!("a page has no node: {node}"));
        *counts.entry(node).or_default() += 1;
    }
    counts
}

/// The share of a block's pages that lies on `node`.
pub fn share_on(node: i32, block: &[u8]) -> f64 {
    let nodes = nodes_of(block.as_ptr(), block.len());
    let there = nodes.iter().filter(|found| **found == node).count();
    there as f64 / nodes.len() as f64
}

/// Base pages of the mapping that begins at `address`, by node, as `/proc/self/numa_maps` has them.
pub fn numa_maps(address: *const u8) -> BTreeMap<u32, u64> {
    let text = fs::read_to_string("/proc/self/numa_maps").unwrap();
    let start = format!("{:x} ", address as usize);
    let line = text.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("no mapping begins at {start}:\n{text}"));
    let field = |name: &str| -> Option<u64> {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name))?;
        value.parse().ok()
    };
    let page_kib = field("kernelpagesize_kB=").unwrap();
    let on_node = |node: u32| Some((node, field(&format!("N{node}="))? * (page_kib / 4)));
    (0..16).filter_map(on_node).collect()
}

/// A number of a node's `meminfo`, in bytes.
pub fn meminfo(node: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")).unwrap();
    let key = format!(" {key}:");
    let line = text.lines().find(|line| line.contains(&key)).unwrap();
    let kib = line.trim_end().trim_end_matches(" kB");
    kib.rsplit(' ').next().unwrap().parse::<u64>().unwrap() * 1024
}

/// This process's bytes on each node of the machine, as the program `numastat` counts them.
pub fn numastat() -> Vec<u64> {
    let output = Command::new("numastat")
        .args(["-p", &std::process::id().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let total = text
        .lines()
        .rfind(|line| line.starts_with("Total"))
        .unwrap();
    let mib = |text: &str| (text.parse::<f64>().unwrap() * MIB as f64) as u64;
    let mut columns: Vec<u64> = total.split_whitespace().skip(1).map(mib).collect();
    columns.pop();
    columns
}

/// Writes one of the kernel's files.
pub fn write(file: &str, text: &str) {
    fs::write(file, text).unwrap_or_else(|error| panic!("{file}: {error}"));
}

/// Whether two numbers of bytes are the same but for what a process and the kernel use besides.
pub fn is_about(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) < 3 * MIB
}
