//! Memory that nobody gets, so that only so much of some nodes is left.

use super::KernelTieringError;
use super::settings::{self, Change};
use crate::machine::MachineRoots;
use crate::sys::{self, Advice, HUGE_PAGE_BYTES, Mapping, MappingKind, NodeSet, Policy, SysError};

/// What is locked in one step at most, before it is asked again what is left: others take memory meanwhile.
const STEP_BYTES_MAX: u64 = 256 << 20;

/// Locked pages, until this is dropped: neither reclaim nor automatic balancing moves those.
#[derive(Debug, Default)]
pub(super) struct Locked {
    _maps: Vec<Mapping>,
}

impl Locked {
    /// Takes all of the free memory of `nodes` but `left_bytes`, to a huge page.
    pub(super) fn leave(
        roots: &MachineRoots,
        nodes: &NodeSet,
        left_bytes: u64,
    ) -> Result<Self, KernelTieringError> {
        let surplus = surplus_bytes(roots, nodes, left_bytes)?;
        check_cgroup(roots, surplus + left_bytes)?;
        let mut maps = Vec::new();
        while let Some(available_bytes) = roots.available_bytes(nodes) {
            let surplus_bytes = available_bytes.saturating_sub(left_bytes);
            let pages = surplus_bytes.min(STEP_BYTES_MAX) as usize / HUGE_PAGE_BYTES;
            if pages == 0 {
                break;
            }
            let bytes = pages * HUGE_PAGE_BYTES;
            let map = lock_on(nodes, bytes).map_err(|source| KernelTieringError::Ballast {
                nodes: nodes.to_string(),
                bytes,
                source,
            })?;
            maps.push(map);
        }
        Ok(Self { _maps: maps })
    }
}

/// Has the kernel reserve huge pages of the only node of `near`, which DAMON does not move, so that `left_bytes` are left.
pub(super) fn reserve_but(
    roots: &MachineRoots,
    near: &NodeSet,
    left_bytes: u64,
) -> Result<Change, KernelTieringError> {
    let file = roots.sys.join(format!(
        "devices/system/node/node{near}/hugepages/hugepages-2048kB/nr_hugepages"
    ));
    let reserved = settings::read(&file)?.parse::<u64>();
    let reserved = reserved.map_err(|_| KernelTieringError::Unknown {
        what: "how many huge pages its nodes have reserved",
    })?;
    let pages = surplus_bytes(roots, near, left_bytes)? / HUGE_PAGE_BYTES as u64;
    Ok(Change::to(file, &(reserved + pages).to_string()))
}

/// Refuses a ballast that the kernel has made too small.
pub(super) fn check_scarce(
    roots: &MachineRoots,
    nodes: &NodeSet,
    left_bytes: u64,
) -> Result<(), KernelTieringError> {
    let available_bytes = roots.available_bytes(nodes).unwrap_or(0);
    if available_bytes > left_bytes + left_bytes / 4 + SLACK_BYTES {
        return Err(KernelTieringError::NotScarce {
            nodes: nodes.to_string(),
            available_bytes,
            wanted_bytes: left_bytes,
        });
    }
    Ok(())
}

/// What may be left beside it: others free memory meanwhile.
const SLACK_BYTES: u64 = 64 << 20;

/// Locked pages are charged to the control group.
fn check_cgroup(roots: &MachineRoots, wanted_bytes: u64) -> Result<(), KernelTieringError> {
    match roots.memory_limit() {
        Some(limit) if limit.available_bytes() < wanted_bytes => Err(KernelTieringError::Cgroup {
            wanted_bytes,
            available_bytes: limit.available_bytes(),
            file: limit.file,
        }),
        _ => Ok(()),
    }
}

/// What `nodes` have beyond `left_bytes`.
fn surplus_bytes(
    roots: &MachineRoots,
    nodes: &NodeSet,
    left_bytes: u64,
) -> Result<u64, KernelTieringError> {
    let unknown = KernelTieringError::Unknown {
        what: "what its nodes have left",
    };
    let available_bytes = roots.available_bytes(nodes).ok_or(unknown)?;
    available_bytes
        .checked_sub(left_bytes)
        .ok_or_else(|| KernelTieringError::NoRoom {
            nodes: nodes.to_string(),
            available_bytes,
            wanted_bytes: left_bytes,
        })
}

/// So many bytes of `nodes`, locked.
fn lock_on(nodes: &NodeSet, bytes: usize) -> Result<Mapping, SysError> {
    let map = Mapping::new(bytes, HUGE_PAGE_BYTES, MappingKind::Anonymous)?;
    sys::bind_range(&map, 0..bytes, &Policy::Bind(*nodes))?;
    // The kernel takes base pages out of small blocks first, and leaves whole huge pages to whoever asks for them.
    map.advise(0..bytes, Advice::BasePages)?;
    map.advise(0..bytes, Advice::PopulateWrite)?;
    map.lock(0..bytes)?;
    Ok(map)
}
