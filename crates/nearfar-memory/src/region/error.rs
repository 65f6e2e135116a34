//! Why a region could not be made, checked or moved.

use std::path::PathBuf;

use crate::dax::DaxError;
use crate::machine::CgroupLimit;
use crate::placement::PlacementError;
use crate::sys::SysError;

/// Why a region could not be made, checked or moved. Nothing is left behind: pages, address space
/// and the account are as before.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The placement means nothing.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The kernel cannot allocate on this tier, for example a DAX device that is not onlined.
    #[error("tier {tier:?} has no memory nodes: the kernel cannot allocate on it")]
    NotAllocatable {
        /// The tier's name.
        tier: String,
    },
    /// The DAX device of a tier gives no memory.
    #[error("tier {tier:?} gives no memory: {source}")]
    Dax {
        /// The tier's name.
        tier: String,
        /// Why.
        #[source]
        source: DaxError,
    },
    /// A placement over a DAX device and other memory whose pages are smaller than the device's.
    #[error(
        "tier {tier:?} gives memory in pages of {device_page_bytes} bytes, the alignment of {}, and \
         cannot share a region whose pages have {page_bytes} bytes with other tiers: ask for huge \
         pages, or put the region on that tier alone", device.display()
    )]
    DevicePages {
        /// The tier's name.
        tier: String,
        /// Its device.
        device: PathBuf,
        /// The alignment of the device.
        device_page_bytes: usize,
        /// Bytes of a page of the region.
        page_bytes: usize,
    },
    /// A region that lies on a DAX device, or would have to, was to be moved.
    #[error(
        "pages cannot be moved to or from tier {tier:?}, which is a device that is mapped: make a new \
         region and copy the content"
    )]
    DeviceFixed {
        /// The tier's name.
        tier: String,
    },
    /// More bytes than an address space has.
    #[error("a region of {requested_bytes} bytes is too large")]
    TooLarge {
        /// The bytes asked for.
        requested_bytes: usize,
    },
    /// A tier's budget does not suffice.
    #[error(
        "tier {tier:?} has {available_bytes} bytes left of its budget of {budget_bytes} bytes, but \
         {requested_bytes} bytes are needed: raise the budget or place less there"
    )]
    OverBudget {
        /// The tier's name.
        tier: String,
        /// The bytes that the tier would have to take.
        requested_bytes: u64,
        /// What is left of its budget.
        available_bytes: u64,
        /// Its budget.
        budget_bytes: u64,
    },
    /// The memory limit of the control group of this process does not suffice.
    #[error(
        "{requested_bytes} bytes would exceed the memory limit of {limit_bytes} bytes, of which \
         {used_bytes} are used, set in {}: raise it or keep less in memory", file.display()
    )]
    CgroupLimit {
        /// The bytes asked for.
        requested_bytes: u64,
        /// What the group uses, without droppable file pages.
        used_bytes: u64,
        /// The limit.
        limit_bytes: u64,
        /// The file with the limit.
        file: PathBuf,
    },
    /// The nodes of a tier have too little free memory.
    #[error(
        "tier {tier:?} (nodes {nodes}) has {available_bytes} bytes of free memory, but \
         {requested_bytes} bytes are needed there"
    )]
    NodesFull {
        /// The tier's name.
        tier: String,
        /// Its nodes, as the kernel lists them.
        nodes: String,
        /// The bytes needed there.
        requested_bytes: u64,
        /// The bytes free there.
        available_bytes: u64,
    },
    /// Address space could not be reserved.
    #[error("no address space for a region of {requested_bytes} bytes")]
    Map {
        /// The bytes asked for.
        requested_bytes: usize,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// The kernel refused to bind memory to a tier.
    #[error("memory cannot be bound to tier {tier:?} (nodes {nodes})")]
    Bind {
        /// The tier's name.
        tier: String,
        /// Its nodes, as the kernel lists them.
        nodes: String,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// The kernel gave no pages from a tier.
    #[error("tier {tier:?} (nodes {nodes}) gave no pages")]
    Populate {
        /// The tier's name.
        tier: String,
        /// Its nodes, as the kernel lists them.
        nodes: String,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// Pages lie elsewhere than on their tier.
    #[error(
        "{expected_pages} pages should lie on tier {tier:?} (nodes {nodes}), but only \
         {found_pages} do ({absent_pages} are not in memory)"
    )]
    Misplaced {
        /// The first tier, near to far, that lacks pages.
        tier: String,
        /// Its nodes, as the kernel lists them.
        nodes: String,
        /// Base pages that belong there.
        expected_pages: u64,
        /// Those that are there.
        found_pages: u64,
        /// Those that are nowhere in memory.
        absent_pages: u64,
    },
    /// The kernel could not be asked where pages are.
    #[error("the kernel cannot be asked where pages are")]
    Query {
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// Pages could not be moved; those that were have been moved back, as far as possible.
    #[error("{unmoved_pages} pages could not be moved")]
    Migrate {
        /// Base pages that stayed where they were.
        unmoved_pages: u64,
        /// What the kernel said of one of them.
        #[source]
        source: SysError,
    },
}

impl RegionError {
    /// So many bytes more than the control group allows.
    pub(super) fn over_cgroup(requested_bytes: u64, limit: CgroupLimit) -> Self {
        Self::CgroupLimit {
            requested_bytes,
            used_bytes: limit.used_bytes,
            limit_bytes: limit.limit_bytes,
            file: limit.file,
        }
    }
}
