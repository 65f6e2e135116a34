//! Memory policies (Documentation/admin-guide/mm/numa_memory_policy.rst).

use std::ops::Range;
use std::path::Path;

use super::{Mapping, NodeSet, SysError};

const MPOL_DEFAULT: libc::c_int = 0;
const MPOL_BIND: libc::c_int = 2;
const MPOL_INTERLEAVE: libc::c_int = 3;
/// Linux 5.15.
const MPOL_PREFERRED_MANY: libc::c_int = 5;
/// Linux 6.9.
const MPOL_WEIGHTED_INTERLEAVE: libc::c_int = 6;
/// With [`MPOL_PREFERRED_MANY`] Linux 6.9.
const MPOL_F_NUMA_BALANCING: libc::c_int = 1 << 13;

/// Where the pages of a range are to come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// As the thread's policy says: from the node of the running CPU, unless it was set.
    Default,
    /// From these nodes only. When they are full, the kernel may kill the process, so that free
    /// memory must be looked at first.
    Bind(NodeSet),
    /// From these nodes as long as they have memory, else from any (Linux 5.15).
    PreferredMany(NodeSet),
    /// The same, and the kernel's automatic balancing may move pages to them (Linux 6.9).
    Balanced(NodeSet),
    /// Round-robin over these nodes by page.
    Interleave(NodeSet),
    /// Over these nodes by the machine-wide weights of [`interleave_weight`] (Linux 6.9).
    WeightedInterleave(NodeSet),
}

impl Policy {
    /// From these nodes only, evenly.
    #[must_use]
    pub fn evenly(nodes: NodeSet) -> Self {
        if nodes.len() > 1 {
            Self::Interleave(nodes)
        } else {
            Self::Bind(nodes)
        }
    }

    fn mode_and_nodes(&self) -> (libc::c_int, Option<&NodeSet>) {
        match self {
            Self::Default => (MPOL_DEFAULT, None),
            Self::Bind(nodes) => (MPOL_BIND, Some(nodes)),
            Self::PreferredMany(nodes) => (MPOL_PREFERRED_MANY, Some(nodes)),
            Self::Balanced(nodes) => (MPOL_PREFERRED_MANY | MPOL_F_NUMA_BALANCING, Some(nodes)),
            Self::Interleave(nodes) => (MPOL_INTERLEAVE, Some(nodes)),
            Self::WeightedInterleave(nodes) => (MPOL_WEIGHTED_INTERLEAVE, Some(nodes)),
        }
    }

    #[cfg(not(miri))]
    pub(super) fn arguments(&self) -> (libc::c_int, *const u64, usize) {
        match self.mode_and_nodes() {
            (mode, None) => (mode, std::ptr::null(), 0),
            (mode, Some(nodes)) => (mode, nodes.as_ptr(), NodeSet::BITS),
        }
    }
}

/// Sets the policy of `range` of `map` for pages allocated from now on.
///
/// Before: `range` lies inside and is page-aligned. After: pages already there stay where they are;
/// new ones come from where `policy` says; a range that differs from its neighbours in policy is
/// its own kernel mapping (mbind(2)).
///
/// # Errors
/// `EINVAL` when a node does not exist or the kernel does not know the policy, `EPERM` or `ENOSYS`
/// where a sandbox forbids the call.
#[cfg(not(miri))]
pub fn bind_range(map: &Mapping, range: Range<usize>, policy: &Policy) -> Result<(), SysError> {
    assert!(
        range.start <= range.end && range.end <= map.len(),
        "range {range:?} is outside"
    );
    let (mode, nodes, bits) = policy.arguments();
    // SAFETY: the range lies inside a mapping that the caller holds; `nodes` points to at least
    // `bits - 1` bits that live as long as `policy`.
    let code = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            map.base().as_ptr().add(range.start),
            range.len(),
            mode,
            nodes,
            bits,
            0 as libc::c_uint,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(SysError::last("mbind"))
    }
}

/// Accepted and forgotten.
#[cfg(miri)]
pub fn bind_range(_map: &Mapping, _range: Range<usize>, policy: &Policy) -> Result<(), SysError> {
    let _ = policy.mode_and_nodes();
    Ok(())
}

/// The kernel's weight for `node` under [`Policy::WeightedInterleave`], from 1 to 255, or `None`
/// where the kernel keeps none (before Linux 6.9, or no such node).
///
/// The weights are machine-wide and only root may change them
/// (Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave).
#[must_use]
pub fn interleave_weight(sysfs_root: &Path, node: u32) -> Option<u8> {
    let file = sysfs_root.join(format!(
        "kernel/mm/mempolicy/weighted_interleave/node{node}"
    ));
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

// Not under Miri, which has no nodes.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::{
        Advice, BASE_PAGE_BYTES, HUGE_PAGE_BYTES, MappingKind, PageLocation, query_pages,
    };
    use super::*;

    /// The first node that this process may allocate on.
    fn node() -> u32 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mut lines = status.lines();
        let allowed = lines.find_map(|line| line.strip_prefix("Mems_allowed_list:"));
        let nodes = allowed.and_then(NodeSet::parse);
        nodes.and_then(|nodes| nodes.iter().next()).unwrap_or(0)
    }

    fn near() -> NodeSet {
        [node()].into_iter().collect()
    }

    #[test]
    fn a_bound_page_comes_from_its_node() {
        let map = Mapping::new(1 << 20, HUGE_PAGE_BYTES, MappingKind::Anonymous).unwrap();
        match bind_range(&map, 0..map.len(), &Policy::Bind(near())) {
            Err(error) if error.is_unavailable() => return,
            other => other.unwrap(),
        }
        map.advise(0..map.len(), Advice::PopulateWrite).unwrap();
        let expected = PageLocation::Node(node());
        match query_pages(&map, 0..map.len(), BASE_PAGE_BYTES, |_, found| {
            assert_eq!(found, expected);
        }) {
            Err(error) if error.is_unavailable() => {}
            other => other.unwrap(),
        }
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        let map = Mapping::new(1 << 20, HUGE_PAGE_BYTES, MappingKind::Anonymous).unwrap();
        let nowhere: NodeSet = [1000].into_iter().collect();
        let error = bind_range(&map, 0..map.len(), &Policy::Bind(nowhere)).unwrap_err();
        assert_eq!(error.call, "mbind");
    }

    #[test]
    fn weights_are_read_from_the_given_root() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("kernel/mm/mempolicy/weighted_interleave");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("node3"), "7\n").unwrap();
        assert_eq!(interleave_weight(root.path(), 3), Some(7));
        assert_eq!(interleave_weight(root.path(), 4), None);
    }
}
