//! Tiers as this crate knows them: a name, backing nodes and a capacity.

use std::fmt;
use std::ops::{AddAssign, Index, IndexMut};
use std::path::{Path, PathBuf};

use nearfar_topology::TierKind;
use nearfar_topology::names::NamedTier;

use crate::sys::NodeSet;

/// The most tiers that one [`MemorySystem`](crate::MemorySystem) can have.
pub const MAX_TIERS: usize = 16;

/// A tier of a [`MemorySystem`](crate::MemorySystem): its position from near to far. Where pages go,
/// it may also stand for some of the tier's nodes, which [`MemorySystem::place`] finds by name; they
/// have the budget and the account of the whole tier.
///
/// It is one byte, since nodes of trees have one each.
///
/// [`MemorySystem::place`]: crate::MemorySystem::place
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TierId(u8);

/// The most parts of one tier that a system can tell apart.
pub(crate) const PARTS_MAX: usize = 15;

/// Bits of the position; those above number the part, from 1.
const INDEX_BITS: u32 = 4;
const _: () = assert!(MAX_TIERS <= 1 << INDEX_BITS && PARTS_MAX < 1 << (8 - INDEX_BITS));

impl TierId {
    /// The nearest tier.
    pub const NEAR: Self = Self::at(0);

    /// The tier at `index`, which is below [`MAX_TIERS`].
    pub(crate) const fn at(index: u8) -> Self {
        debug_assert!((index as usize) < MAX_TIERS);
        Self(index)
    }

    /// The position from near to far, starting at 0.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0) % (1 << INDEX_BITS)
    }

    /// The tier at `index`, if there can be one; whether a system has it is for the system to say.
    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        (index < MAX_TIERS).then_some(Self::at(index as u8))
    }

    /// The part of this tier that a system keeps at `part`, below [`PARTS_MAX`].
    pub(crate) fn with_part(self, part: usize) -> Self {
        debug_assert!(part < PARTS_MAX);
        Self(self.whole().0 | (part as u8 + 1) << INDEX_BITS)
    }

    /// Where its system keeps the part of a tier; `None` where it is the whole tier.
    pub(crate) fn part(self) -> Option<usize> {
        usize::from(self.0 >> INDEX_BITS).checked_sub(1)
    }

    /// The tier that this is, or is a part of.
    #[must_use]
    pub fn whole(self) -> Self {
        Self(self.index() as u8)
    }

    /// Whether it is all nodes of its tier.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.part().is_none()
    }
}

impl fmt::Display for TierId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.is_whole() { "" } else { "a part of " };
        write!(formatter, "{part}tier {}", self.index())
    }
}

/// A tier as given to [`MemorySystem::from_specs`](crate::MemorySystem::from_specs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierSpec {
    /// The name by which budgets and errors refer to it.
    pub name: String,
    /// What the memory is.
    pub kind: TierKind,
    /// The kernel's memory nodes behind it. Two tiers may share nodes (a modelled tier lies in near
    /// memory); none means that the kernel cannot allocate there.
    pub nodes: Vec<u32>,
    /// The DAX device to map where there are no nodes, such as `/dev/dax0.0`.
    pub device: Option<PathBuf>,
    /// The host that the memory is of, where it is another one.
    pub host: Option<String>,
    /// The most bytes that can ever be placed there.
    pub capacity_bytes: u64,
}

impl TierSpec {
    /// A tier with these properties.
    pub fn new(
        name: impl Into<String>,
        kind: TierKind,
        nodes: impl Into<Vec<u32>>,
        capacity_bytes: u64,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            nodes: nodes.into(),
            device: None,
            host: None,
            capacity_bytes,
        }
    }

    /// A tier of this DAX device, which is opened when something is first put there. A file may stand
    /// for one, with an alignment of 2 MiB.
    pub fn dax(name: impl Into<String>, device: impl Into<PathBuf>, capacity_bytes: u64) -> Self {
        Self {
            device: Some(device.into()),
            ..Self::new(name, TierKind::Dax, [], capacity_bytes)
        }
    }

    /// A tier of the memory that `host` offers, which is read and written by RDMA.
    pub fn rdma(name: impl Into<String>, host: impl Into<String>, capacity_bytes: u64) -> Self {
        Self {
            host: Some(host.into()),
            ..Self::new(name, TierKind::Rdma, [], capacity_bytes)
        }
    }
}

/// Where the pages of a tier come from. Matches over it have no wildcard, so that a new backend is
/// met by the compiler wherever it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TierBackend {
    /// The kernel allocates on these memory nodes, of which there is at least one.
    Nodes(Vec<u32>),
    /// The same on nodes that another tier lends: what the memory that is modelled has more of latency
    /// and less of bandwidth is for a model to add.
    Modelled(Vec<u32>),
    /// Extents of this DAX device are mapped, which the process then has for itself alone. What is on
    /// the device is overwritten, so that nothing goes there but by the tier's name.
    Dax(PathBuf),
    /// Memory of this host is read and written by RDMA, so that nothing of this process lies there but what is
    /// copied there and back. Its bytes are counted when they are taken
    /// ([`MemorySystem::take_remote`](crate::MemorySystem::take_remote)).
    Remote(String),
    /// Nothing can be allocated: memory that is not online, or a device that cannot be mapped.
    Offline,
}

impl TierBackend {
    fn new(kind: TierKind, nodes: Vec<u32>, device: Option<PathBuf>, host: Option<String>) -> Self {
        match kind {
            TierKind::Rdma => host.map_or(Self::Offline, Self::Remote),
            _ if nodes.is_empty() => device.map_or(Self::Offline, Self::Dax),
            TierKind::Modelled => Self::Modelled(nodes),
            TierKind::LocalDram
            | TierKind::RemoteSocket
            | TierKind::CpulessNode
            | TierKind::Cxl
            | TierKind::Dax => Self::Nodes(nodes),
        }
    }

    /// The kernel's memory nodes that pages come from.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        match self {
            Self::Nodes(nodes) | Self::Modelled(nodes) => nodes,
            Self::Dax(_) | Self::Remote(_) | Self::Offline => &[],
        }
    }

    /// The DAX device that is mapped, if it is one.
    #[must_use]
    pub fn device(&self) -> Option<&Path> {
        match self {
            Self::Dax(device) => Some(device),
            Self::Nodes(_) | Self::Modelled(_) | Self::Remote(_) | Self::Offline => None,
        }
    }

    /// The other host whose memory it is, if it is one's.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Remote(host) => Some(host),
            Self::Nodes(_) | Self::Modelled(_) | Self::Dax(_) | Self::Offline => None,
        }
    }

    /// The nodes that can be named singly: those behind a modelled tier are another tier's, and go by
    /// that.
    fn own_nodes(&self) -> &[u32] {
        match self {
            Self::Nodes(nodes) => nodes,
            Self::Modelled(_) | Self::Dax(_) | Self::Remote(_) | Self::Offline => &[],
        }
    }
}

/// A tier of a running [`MemorySystem`](crate::MemorySystem).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TierInfo {
    /// The name by which budgets and errors refer to it.
    pub name: String,
    /// What the memory is.
    pub kind: TierKind,
    /// Where its pages come from.
    pub backend: TierBackend,
    /// The most bytes that can ever be placed there.
    pub capacity_bytes: u64,
    pub(crate) node_set: NodeSet,
}

impl TierInfo {
    /// Whether pages can be put there at all.
    #[must_use]
    pub fn is_allocatable(&self) -> bool {
        match self.backend {
            TierBackend::Nodes(_) | TierBackend::Modelled(_) | TierBackend::Dax(_) => true,
            TierBackend::Remote(_) | TierBackend::Offline => false,
        }
    }

    /// Whether the kernel allocates there. Only to such tiers goes what does not name its tier: what
    /// spills, what `far` means, what threads allocate.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        match self.backend {
            TierBackend::Nodes(_) | TierBackend::Modelled(_) => true,
            TierBackend::Dax(_) | TierBackend::Remote(_) | TierBackend::Offline => false,
        }
    }

    /// Whether a model stands for its memory.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        match self.backend {
            TierBackend::Modelled(_) => true,
            TierBackend::Nodes(_)
            | TierBackend::Dax(_)
            | TierBackend::Remote(_)
            | TierBackend::Offline => false,
        }
    }

    /// The kernel's memory nodes behind it; none when the kernel cannot allocate there.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        self.backend.nodes()
    }

    /// The tier as far as names go.
    pub(crate) fn named(&self) -> NamedTier<'_> {
        let nodes = self.backend.own_nodes();
        NamedTier {
            name: &self.name,
            is_allocatable: self.has_nodes(),
            devices: nodes.len(),
            nodes: nodes.to_vec(),
        }
    }
}

impl From<TierSpec> for TierInfo {
    fn from(spec: TierSpec) -> Self {
        let node_set = spec.nodes.iter().copied().collect();
        Self {
            name: spec.name,
            kind: spec.kind,
            backend: TierBackend::new(spec.kind, spec.nodes, spec.device, spec.host),
            capacity_bytes: spec.capacity_bytes,
            node_set,
        }
    }
}

/// A number of bytes for each tier, indexed by [`TierId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierBytes([u64; MAX_TIERS]);

impl TierBytes {
    /// No bytes on any tier.
    pub const ZERO: Self = Self([0; MAX_TIERS]);

    /// The sum over all tiers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The tiers that have bytes, near to far.
    pub fn iter(&self) -> impl Iterator<Item = (TierId, u64)> + '_ {
        (0..MAX_TIERS as u8)
            .map(TierId::at)
            .zip(self.0)
            .filter(|(_, bytes)| *bytes > 0)
    }

    /// What this has beyond `other`, tier by tier, zero where it has less.
    #[must_use]
    pub fn saturating_sub(mut self, other: &Self) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_sub(*theirs);
        }
        self
    }
}

impl Index<TierId> for TierBytes {
    type Output = u64;

    fn index(&self, tier: TierId) -> &u64 {
        &self.0[tier.index()]
    }
}

impl IndexMut<TierId> for TierBytes {
    fn index_mut(&mut self, tier: TierId) -> &mut u64 {
        &mut self.0[tier.index()]
    }
}

impl AddAssign for TierBytes {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_follow_from_kind_and_nodes() {
        let info = |kind, nodes: &[u32]| TierInfo::from(TierSpec::new("t", kind, nodes, 1));
        let cxl = info(TierKind::Cxl, &[1, 2]);
        assert_eq!(cxl.backend, TierBackend::Nodes(vec![1, 2]));
        assert_eq!((cxl.named().devices, cxl.named().nodes), (2, vec![1, 2]));
        let modelled = info(TierKind::Modelled, &[0]);
        assert!(modelled.is_modelled() && modelled.is_allocatable());
        assert_eq!((modelled.nodes(), modelled.named().devices), (&[0][..], 0));
        let dax = info(TierKind::Dax, &[]);
        assert_eq!(dax.backend, TierBackend::Offline);
        assert!(!dax.is_allocatable() && !dax.is_modelled());
        let dax = TierInfo::from(TierSpec::dax("t", "/dev/dax0.0", 1));
        assert_eq!(dax.backend.device(), Some(Path::new("/dev/dax0.0")));
        assert!(dax.is_allocatable() && !dax.has_nodes() && !dax.named().is_allocatable);
        let remote = TierInfo::from(TierSpec::rdma("t", "b", 1));
        assert_eq!(
            (remote.kind, remote.backend.host()),
            (TierKind::Rdma, Some("b"))
        );
        assert!(!remote.is_allocatable() && !remote.has_nodes() && !remote.named().is_allocatable);
    }

    #[test]
    fn bytes_add_up_by_tier() {
        let mut bytes = TierBytes::ZERO;
        bytes[TierId::at(0)] = 5;
        let mut more = TierBytes::ZERO;
        more[TierId::at(0)] = 1;
        more[TierId::at(15)] = 2;
        bytes += more;
        assert_eq!(
            bytes.iter().collect::<Vec<_>>(),
            [(TierId::at(0), 6), (TierId::at(15), 2)]
        );
        assert_eq!(bytes.total(), 8);
        assert_eq!(more.saturating_sub(&bytes), TierBytes::ZERO);
    }
}
