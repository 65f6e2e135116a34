//! The memory system of a process: its tiers, their budgets and the ledger.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nearfar_topology::names::{self, NamedTier, Place};
use nearfar_topology::{Tier, TierKind, Topology, UnknownTier};

use crate::collection;
use crate::dax::{DaxDevice, DaxError};
use crate::headroom::Headroom;
use crate::heap_counters::HeapCounters;
use crate::ledger::{Ledger, Taker};
use crate::machine::{CgroupLimit, MachineRoots};
use crate::placement::PlaceError;
use crate::sys::{self, BASE_PAGE_BYTES, NodeSet, SysError};
use crate::tier::{MAX_TIERS, PARTS_MAX, TierBytes, TierId, TierInfo, TierSpec};

/// Where the address space of the process is limited, a tier may take one in so many parts of it, unless
/// a budget is given: stacks, code and what the program allocates for itself need some too, and a
/// program that is refused a small block ends.
const ADDRESS_SPACE_PARTS: u64 = 2;

/// How many bytes each tier may be used for.
///
/// A tier that is not named may be used up to its capacity or, where that is less, up to the memory
/// limit of the control group of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budgets {
    by_tier_bytes: BTreeMap<String, u64>,
    devices: bool,
    roots: MachineRoots,
}

impl Budgets {
    /// No budget but the tiers' capacities.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the budget of the tier of this name (`near` and `far` mean what
    /// [`MemorySystem::tier`] says).
    #[must_use]
    pub fn with(mut self, tier: impl Into<String>, bytes: u64) -> Self {
        self.by_tier_bytes.insert(tier.into(), bytes);
        self
    }

    /// Allows all DAX devices of a machine to be used, and overwritten, up to their capacity. Without
    /// this, only one whose tier is given a budget may be: whoever may name a tier need not be trusted
    /// with what is on its device. Pools need no permission.
    #[must_use]
    pub fn with_devices(mut self) -> Self {
        self.devices = true;
        self
    }

    /// Reads the machine's files below these roots.
    #[must_use]
    pub fn with_roots(mut self, roots: MachineRoots) -> Self {
        self.roots = roots;
        self
    }
}

/// Why a memory system cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The kernel's pages are of another size.
    #[error(
        "the kernel's base pages have {found_bytes} bytes: only {BASE_PAGE_BYTES} are supported, \
         boot a kernel that has those"
    )]
    PageSize {
        /// Bytes of a base page here.
        found_bytes: usize,
    },
    /// There is no tier.
    #[error("a memory system needs at least one tier")]
    NoTiers,
    /// There are more tiers than are supported.
    #[error("{tiers} tiers: at most {MAX_TIERS} are supported")]
    TooManyTiers {
        /// The number of tiers given.
        tiers: usize,
    },
    /// Two tiers of one name.
    #[error("two tiers are named {name:?}")]
    DuplicateTier {
        /// The name.
        name: String,
    },
    /// A budget for a tier that there is not.
    #[error(transparent)]
    UnknownTier(#[from] UnknownTier),
    /// A budget above what the tier has.
    #[error(
        "the budget of {budget_bytes} bytes for tier {tier:?} exceeds its capacity of \
         {capacity_bytes} bytes: lower the budget"
    )]
    BudgetAboveCapacity {
        /// The tier's name.
        tier: String,
        /// The budget asked for.
        budget_bytes: u64,
        /// What the tier has.
        capacity_bytes: u64,
    },
}

/// What a tier is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierUsage {
    /// The most bytes that regions, heaps and pools together may take.
    pub budget_bytes: u64,
    /// Bytes of regions, in whole pages.
    pub region_bytes: u64,
    /// Bytes that tier heaps hold for blocks, free or not, and for their own records.
    pub heap_bytes: u64,
    /// Bytes of extents of pools that are in use, in whole pages.
    pub pool_bytes: u64,
    /// Bytes of blocks of tier heaps that were allocated and not freed yet.
    pub heap_live_bytes: u64,
    /// The most that regions and heaps together have taken at any moment.
    pub peak_bytes: u64,
    /// Allocations that were meant for this tier's heap and went to the platform's allocator.
    pub fallbacks: u64,
    /// Bytes of those allocations.
    pub fallback_bytes: u64,
}

impl TierUsage {
    /// Bytes that regions, heaps and pools together have taken.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.region_bytes + self.heap_bytes + self.pool_bytes
    }

    /// Bytes left below the budget.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.used_bytes())
    }
}

/// The tiers of this process, with budgets and an exact account of every byte placed on them.
pub struct MemorySystem {
    tiers: Vec<TierInfo>,
    /// The parts of each tier that were named, by the positions of their nodes, in the order of naming.
    parts: [[OnceLock<RangeInclusive<usize>>; PARTS_MAX]; MAX_TIERS],
    ledger: Ledger,
    /// Shared with the heaps, which reach them in one step.
    heap_counters: [Arc<HeapCounters>; MAX_TIERS],
    headrooms: [Headroom; MAX_TIERS],
    /// The devices that something was put on; they stay open, and locked, as long as the system is there.
    devices: [Mutex<Option<Arc<DaxDevice>>>; MAX_TIERS],
    /// Whether the DAX device of a tier, if it has one, may be used.
    allows_device: [bool; MAX_TIERS],
    cgroup_headroom: Headroom,
    /// Bytes that were taken but are not populated yet, and so show in no kernel number.
    pending_bytes: AtomicU64,
    has_told_unverified: AtomicBool,
    roots: MachineRoots,
}

impl fmt::Debug for MemorySystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tiers.iter().map(|tier| &tier.name);
        formatter.debug_list().entries(names).finish()
    }
}

impl MemorySystem {
    /// A system over the tiers of `topology`, in its order. Of more than [`MAX_TIERS`], the farthest
    /// that the kernel cannot allocate on are left out.
    ///
    /// A tier whose capacity the machine does not say gets the machine's memory size if it is
    /// allocatable, else zero. On a machine whose memory grows on demand, a tier of all nodes with
    /// memory has at least the machine's memory size.
    ///
    /// # Errors
    /// [`SystemError`]: too many tiers, a budget for an unknown tier or above a capacity.
    pub fn new(topology: &Topology, budgets: &Budgets) -> Result<Arc<Self>, SystemError> {
        Self::with_tiers(topology, Vec::new(), budgets)
    }

    /// The same with these tiers behind the machine's own: memory of other hosts.
    ///
    /// # Errors
    /// As [`Self::new`], and a name that there is already.
    pub fn with_tiers(
        topology: &Topology,
        further: Vec<TierSpec>,
        budgets: &Budgets,
    ) -> Result<Arc<Self>, SystemError> {
        let total_bytes = budgets.roots.total_bytes();
        let memory_nodes = budgets.roots.memory_nodes();
        let near_bytes = topology
            .tiers
            .first()
            .and_then(|near| near.capacity_bytes.get());
        let mut surplus = (topology.tiers.len() + further.len()).saturating_sub(MAX_TIERS);
        let mut tiers: Vec<&Tier> = topology.tiers.iter().rev().collect();
        tiers.retain(|tier| {
            let is_kept = tier.allocatable || surplus == 0;
            surplus -= usize::from(!is_kept);
            is_kept
        });
        let specs = tiers.into_iter().rev().map(|tier| {
            let nodes: Vec<u32> = tier
                .nodes
                .iter()
                .filter(|_| tier.allocatable)
                .map(|node| node.0)
                .collect();
            let set: NodeSet = nodes.iter().copied().collect();
            let told = tier.capacity_bytes.get();
            // A modelled tier may be smaller than the memory it lies in; where it is not, it grows
            // with it.
            let is_limited = tier.kind == TierKind::Modelled && told != near_bytes;
            let is_whole_machine = !is_limited && memory_nodes.is_some_and(|all| set.covers(&all));
            let capacity_bytes = match (told, total_bytes) {
                (Some(bytes), Some(total)) if is_whole_machine => bytes.max(total),
                (Some(bytes), _) => bytes,
                (None, Some(total)) if tier.allocatable => total,
                (None, _) => 0,
            };
            let device = tier.mappable_device();
            TierSpec {
                name: tier.name.clone(),
                kind: tier.kind,
                nodes,
                device: device.map(|device| Path::new("/dev").join(&device.name)),
                host: None,
                capacity_bytes,
            }
        });
        Self::build(specs.chain(further).collect(), budgets, budgets.devices)
    }

    /// A system over these tiers, near to far. A DAX device that is among them may be used.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_specs(specs: Vec<TierSpec>, budgets: &Budgets) -> Result<Arc<Self>, SystemError> {
        Self::build(specs, budgets, true)
    }

    fn build(
        specs: Vec<TierSpec>,
        budgets: &Budgets,
        allows_devices: bool,
    ) -> Result<Arc<Self>, SystemError> {
        let found_bytes = sys::base_page_bytes();
        if found_bytes != BASE_PAGE_BYTES {
            return Err(SystemError::PageSize { found_bytes });
        }
        if specs.is_empty() {
            return Err(SystemError::NoTiers);
        }
        if specs.len() > MAX_TIERS {
            return Err(SystemError::TooManyTiers { tiers: specs.len() });
        }
        let tiers: Vec<TierInfo> = specs.into_iter().map(TierInfo::from).collect();
        for (index, tier) in tiers.iter().enumerate() {
            if tiers[..index].iter().any(|other| other.name == tier.name) {
                return Err(SystemError::DuplicateTier {
                    name: tier.name.clone(),
                });
            }
        }
        let limit_bytes = budgets
            .roots
            .memory_limit()
            .map_or(u64::MAX, |limit| limit.limit_bytes);
        let address_space_bytes = budgets
            .roots
            .address_space_bytes()
            .map_or(u64::MAX, |bytes| bytes / ADDRESS_SPACE_PARTS);
        let mut allowed: Vec<u64> = tiers
            .iter()
            .map(|tier| {
                // Memory of another host is in no address space of this one.
                if tier.backend.host().is_some() {
                    return tier.capacity_bytes;
                }
                // Memory of devices is not the control group's.
                let limit_bytes = match tier.backend.device() {
                    Some(_) => u64::MAX,
                    None => limit_bytes,
                };
                tier.capacity_bytes
                    .min(limit_bytes)
                    .min(address_space_bytes)
            })
            .collect();
        let mut allows_device = [allows_devices; MAX_TIERS];
        for (name, &budget_bytes) in &budgets.by_tier_bytes {
            let index = find_tier(&tiers, name)?.index();
            let capacity_bytes = tiers[index].capacity_bytes;
            if budget_bytes > capacity_bytes {
                let tier = tiers[index].name.clone();
                return Err(SystemError::BudgetAboveCapacity {
                    tier,
                    budget_bytes,
                    capacity_bytes,
                });
            }
            allowed[index] = budget_bytes;
            allows_device[index] = true;
        }
        Ok(Arc::new(Self {
            tiers,
            parts: Default::default(),
            ledger: Ledger::new(allowed),
            heap_counters: Default::default(),
            headrooms: Default::default(),
            devices: Default::default(),
            allows_device,
            cgroup_headroom: Headroom::default(),
            pending_bytes: AtomicU64::new(0),
            has_told_unverified: AtomicBool::new(false),
            roots: budgets.roots.clone(),
        }))
    }

    /// All tiers, near to far.
    pub fn tiers(&self) -> impl ExactSizeIterator<Item = (TierId, &TierInfo)> {
        self.tiers
            .iter()
            .enumerate()
            .map(|(index, tier)| (TierId::at(index as u8), tier))
    }

    /// The tier of this name, as [`names`] explains.
    ///
    /// # Errors
    /// [`UnknownTier`], which lists the names that there are.
    pub fn tier(&self, name: &str) -> Result<TierId, UnknownTier> {
        find_tier(&self.tiers, name)
    }

    /// The DAX device behind a tier, opened and locked now if it was not before; `None` for a tier of
    /// another backend.
    pub(crate) fn device(&self, tier: TierId) -> Result<Option<Arc<DaxDevice>>, DaxError> {
        let Some(path) = self.info(tier).backend.device() else {
            return Ok(None);
        };
        if !self.allows_device[tier.index()] {
            return Err(DaxError::NoBudget {
                path: path.to_owned(),
            });
        }
        let mut slot = self.devices[tier.index()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = &*slot {
            return Ok(Some(Arc::clone(device)));
        }
        let device = DaxDevice::open(path)?;
        Ok(Some(Arc::clone(slot.insert(device))))
    }

    /// Bytes of these that the kernel allocates.
    pub(crate) fn kernel_bytes(&self, bytes: &TierBytes) -> u64 {
        let of_nodes = bytes
            .iter()
            .filter(|(tier, _)| self.info(*tier).has_nodes());
        of_nodes.map(|(_, bytes)| bytes).sum()
    }

    /// The tier of this name, or some of the nodes of one, for pages to be put there.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn place(&self, name: &str) -> Result<TierId, PlaceError> {
        let place = names::find(&named(&self.tiers), name)?;
        let tier = TierId::at(place.tier as u8);
        let info = self.info(tier);
        if !info.is_allocatable() {
            let name = name.to_owned();
            return Err(match info.kind {
                TierKind::Rdma => PlaceError::Remote { name },
                _ => PlaceError::Offline { name },
            });
        }
        let Some(nodes) = place.devices else {
            return Ok(tier);
        };
        let mut parts = self.parts[place.tier].iter();
        // The first that is this one, or that is free and becomes it.
        let part = parts.position(|part| *part.get_or_init(|| nodes.clone()) == nodes);
        let part = part.ok_or_else(|| PlaceError::TooManyParts {
            name: name.to_owned(),
            tier: self.info(tier).name.clone(),
        })?;
        Ok(tier.with_part(part))
    }

    /// The name of a tier, or of the part of it, which [`Self::place`] knows.
    ///
    /// # Panics
    /// As [`Self::info`].
    #[must_use]
    pub fn name(&self, tier: TierId) -> String {
        let name = &self.info(tier).name;
        match self.part(tier) {
            None => name.clone(),
            Some(nodes) if nodes.start() == nodes.end() => format!("{name}{}", nodes.start()),
            Some(nodes) => format!("{name}{}-{}", nodes.start(), nodes.end()),
        }
    }

    /// The positions of the nodes of a part of a tier; `None` for a whole one.
    fn part(&self, tier: TierId) -> Option<&RangeInclusive<usize>> {
        self.parts[tier.index()][tier.part()?].get()
    }

    /// The nodes behind a tier, or behind the part of it; none when the kernel does not allocate there.
    ///
    /// # Panics
    /// As [`Self::info`].
    #[must_use]
    pub fn nodes(&self, tier: TierId) -> &[u32] {
        let nodes = self.info(tier).nodes();
        match self.part(tier) {
            None => nodes,
            Some(part) => nodes.get(part.clone()).unwrap_or_default(),
        }
    }

    /// The same as a set.
    pub(crate) fn node_set(&self, tier: TierId) -> NodeSet {
        match tier.is_whole() {
            true => self.info(tier).node_set,
            false => self.nodes(tier).iter().copied().collect(),
        }
    }

    /// What is known of `tier`.
    ///
    /// # Panics
    /// When `tier` is of another system, which has more tiers.
    #[must_use]
    pub fn info(&self, tier: TierId) -> &TierInfo {
        &self.tiers[tier.index()]
    }

    /// What `tier` is used for. Each number is exact; they are read one after another.
    ///
    /// # Panics
    /// As [`Self::info`].
    #[must_use]
    pub fn usage(&self, tier: TierId) -> TierUsage {
        assert!(tier.index() < self.tiers.len(), "{tier} of another system");
        let state = self.ledger.state(tier);
        let heaps = &self.heap_counters[tier.index()];
        TierUsage {
            budget_bytes: state.budget_bytes,
            region_bytes: state.region_bytes,
            heap_bytes: state.heap_bytes,
            pool_bytes: state.pool_bytes,
            heap_live_bytes: heaps.live_bytes(),
            peak_bytes: state.peak_bytes,
            fallbacks: heaps.fallbacks(),
            fallback_bytes: heaps.fallback_bytes(),
        }
    }

    /// The files that this system reads.
    #[must_use]
    pub fn roots(&self) -> &MachineRoots {
        &self.roots
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn heap_counters(&self, tier: TierId) -> &Arc<HeapCounters> {
        &self.heap_counters[tier.index()]
    }

    /// What is left of the free memory of the nodes of `tier`, as far as that is known.
    pub(crate) fn headroom(&self, tier: TierId) -> &Headroom {
        &self.headrooms[tier.index()]
    }

    pub(crate) fn tier_count(&self) -> usize {
        self.tiers.len()
    }

    /// Whether the nodes of every tier are the only ones with memory, so that no policy is needed
    /// for pages to be where they should.
    pub(crate) fn has_one_node(&self) -> bool {
        let used = self
            .tiers
            .iter()
            .fold(NodeSet::EMPTY, |all, tier| all.union(&tier.node_set));
        used.len() == 1
            && self
                .roots
                .memory_nodes()
                .is_none_or(|all| used.covers(&all))
    }

    /// Logs why pages are not verified, once: a sandbox that forbids it does so for every region.
    pub(crate) fn tell_unverified(&self, what: &'static str, reason: SysError) {
        if !self.has_told_unverified.swap(true, Relaxed) {
            tracing::info!(%reason, "{what}");
        }
    }

    /// Has heaps give back to the operating system what they have freed and still hold, if those of `tier` hold any; whether they
    /// were asked. What threads keep for their own next allocations stays.
    pub fn reclaim(&self, tier: TierId) -> bool {
        let usage = self.usage(tier);
        let holds_free = usage.heap_bytes > usage.heap_live_bytes;
        if holds_free {
            collection::collect();
        }
        holds_free
    }

    /// Takes `bytes` for a region and enters them as pending.
    pub(crate) fn take(self: &Arc<Self>, bytes: TierBytes) -> Result<Taken, TierId> {
        self.ledger.try_take_all(Taker::Region, &bytes)?;
        let pending_bytes = self.kernel_bytes(&bytes);
        self.pending_bytes.fetch_add(pending_bytes, Relaxed);
        Ok(Taken {
            system: Arc::clone(self),
            bytes,
            pending_bytes,
        })
    }

    /// Takes `bytes` of `tier` for an extent of a pool, if there are so many left.
    pub(crate) fn take_for_pool(self: &Arc<Self>, tier: TierId, bytes: u64) -> Option<PoolCharge> {
        let is_taken = self.ledger.try_take(Taker::Pool, tier, bytes);
        is_taken.then(|| PoolCharge {
            system: Arc::clone(self),
            tier,
            bytes,
        })
    }

    /// Refuses `requested_bytes`, already pending, when they exceed what the control group allows,
    /// and says which limit that is.
    pub(crate) fn check_cgroup(&self, requested_bytes: u64) -> Result<(), CgroupLimit> {
        if requested_bytes == 0 || self.cgroup_headroom.take(requested_bytes) {
            return Ok(());
        }
        let limit = self.roots.memory_limit();
        let available_bytes = limit
            .as_ref()
            .map_or(u64::MAX, CgroupLimit::available_bytes);
        let left = available_bytes.checked_sub(self.pending_bytes.load(Relaxed));
        if let Some(left) = left {
            self.cgroup_headroom.learn(left);
        }
        limit.filter(|_| left.is_none()).map_or(Ok(()), Err)
    }
}

fn named(tiers: &[TierInfo]) -> Vec<NamedTier<'_>> {
    tiers.iter().map(TierInfo::named).collect()
}

fn find_tier(tiers: &[TierInfo], name: &str) -> Result<TierId, UnknownTier> {
    let named = named(tiers);
    match names::find(&named, name)? {
        Place {
            tier,
            devices: None,
        } => Ok(TierId::at(tier as u8)),
        _ => Err(UnknownTier {
            name: name.to_owned(),
            known: names::known(&named),
        }),
    }
}

/// Bytes of a tier that are taken for an extent of a pool; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct PoolCharge {
    system: Arc<MemorySystem>,
    tier: TierId,
    bytes: u64,
}

impl Drop for PoolCharge {
    fn drop(&mut self) {
        let ledger = &self.system.ledger;
        ledger.give_back(Taker::Pool, self.tier, self.bytes);
    }
}

/// Bytes taken for a region; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Taken {
    system: Arc<MemorySystem>,
    bytes: TierBytes,
    pending_bytes: u64,
}

impl Taken {
    /// Enters `bytes` of the taken ones as populated.
    pub(crate) fn populated(&mut self, bytes: u64) {
        let bytes = bytes.min(self.pending_bytes);
        self.pending_bytes -= bytes;
        self.system.pending_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Replaces what is taken by `wanted`: first takes what that has more, or fails and names a
    /// tier. The surplus is kept until [`Self::settle`].
    pub(crate) fn extend_to(&mut self, wanted: &TierBytes) -> Result<(), TierId> {
        let more = wanted.saturating_sub(&self.bytes);
        self.system.ledger.try_take_all(Taker::Region, &more)?;
        self.bytes += more;
        Ok(())
    }

    /// Gives back what is taken beyond `kept`.
    pub(crate) fn settle(&mut self, kept: &TierBytes) {
        let surplus = self.bytes.saturating_sub(kept);
        self.system.ledger.give_back_all(Taker::Region, &surplus);
        self.bytes = *kept;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.populated(u64::MAX);
        self.system.ledger.give_back_all(Taker::Region, &self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_tiers() -> Vec<TierSpec> {
        vec![
            TierSpec::new("near", TierKind::LocalDram, [0], 1000),
            TierSpec::new("cxl", TierKind::Cxl, [1, 2], 2000),
            TierSpec::new("dax0.0", TierKind::Dax, [], 4000),
        ]
    }

    fn isolated() -> Budgets {
        Budgets::new().with_roots(MachineRoots {
            proc: "nowhere".into(),
            sys: "nowhere".into(),
            cgroup: "nowhere".into(),
        })
    }

    #[test]
    fn names_and_aliases() {
        let system = MemorySystem::from_specs(two_tiers(), &isolated()).unwrap();
        assert_eq!(system.tier("near").unwrap(), TierId::NEAR);
        assert_eq!(system.tier("far").unwrap(), system.tier("cxl").unwrap());
        let error = system.tier("fra").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no tier or node is named \"fra\"; there are: near, cxl (cxl0 to cxl1), dax0.0, far"
        );
        assert!(!system.info(system.tier("dax0.0").unwrap()).is_allocatable());
    }

    #[test]
    fn budgets_are_capacities_unless_told() {
        let budgets = isolated().with("far", 1500);
        let system = MemorySystem::from_specs(two_tiers(), &budgets).unwrap();
        assert_eq!(system.usage(TierId::at(0)).budget_bytes, 1000);
        assert_eq!(system.usage(TierId::at(1)).budget_bytes, 1500);
        assert_eq!(system.usage(TierId::at(1)).available_bytes(), 1500);
    }

    #[test]
    fn impossible_systems_are_refused() {
        let refused =
            |specs, budgets: &Budgets| MemorySystem::from_specs(specs, budgets).unwrap_err();
        assert_eq!(refused(vec![], &isolated()), SystemError::NoTiers);
        assert_eq!(
            refused(two_tiers(), &isolated().with("near", 1001)),
            SystemError::BudgetAboveCapacity {
                tier: "near".into(),
                budget_bytes: 1001,
                capacity_bytes: 1000
            }
        );
        assert!(matches!(
            refused(two_tiers(), &isolated().with("middle", 1)),
            SystemError::UnknownTier(UnknownTier { name, .. }) if name == "middle"
        ));
        let twice = vec![two_tiers()[0].clone(), two_tiers()[0].clone()];
        assert_eq!(
            refused(twice, &isolated()),
            SystemError::DuplicateTier {
                name: "near".into()
            }
        );
        let many = (0..17)
            .map(|n| TierSpec::new(n.to_string(), TierKind::Cxl, [n], 1))
            .collect();
        assert_eq!(
            refused(many, &isolated()),
            SystemError::TooManyTiers { tiers: 17 }
        );
    }
}
