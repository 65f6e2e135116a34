//! The kernel's own placement of pages, as something to compare ours with.
//!
//! [`KernelTiering`] has the kernel move pages between the nodes of two tiers for as long as it lives: by automatic
//! NUMA balancing between memory tiers with demotion (`numa_balancing` 2,
//! Documentation/admin-guide/sysctl/kernel.rst), or by DAMON's schemes that migrate
//! (Documentation/admin-guide/mm/damon/usage.rst). Near memory is made scarce by a ballast, which leaves only so many
//! bytes of its nodes: locked pages, or, as DAMON moves those too, huge pages that the kernel reserves. It moves pages of heaps that are made for it
//! ([`HeapOptions::kernel_moves`](crate::HeapOptions::kernel_moves)), and of all other processes too.
//!
//! What is changed on the machine is put back when the value is dropped, and also when the process is killed: a shell
//! that outlives it waits for its end.

mod ballast;
mod damon;
mod error;
mod settings;

use std::path::Path;
use std::sync::Arc;

pub use error::KernelTieringError;

use self::ballast::Locked;
use self::damon::Damon;
use self::settings::{Change, Settings};
use crate::sys::{self, BASE_PAGE_BYTES, Mapping, MappingKind, NodeSet, Policy};
use crate::system::MemorySystem;
use crate::tier::TierId;
use crate::zones::Zones;

/// Who chooses the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mover {
    /// Faults that the kernel plants in far pages: those that are used soon after are promoted; near memory that
    /// runs low demotes what was used least recently.
    NumaBalancing,
    /// DAMON: regions of far memory in which it sees accesses are promoted, and those of near memory demoted in which
    /// it has seen none for a second. Near memory that runs low demotes as above.
    Damon,
}

/// Bytes that the kernel has moved, of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelMoves {
    /// To near memory.
    pub promoted_bytes: u64,
    /// To far memory.
    pub demoted_bytes: u64,
}

/// The kernel at work on two tiers.
#[derive(Debug)]
pub struct KernelTiering {
    system: Arc<MemorySystem>,
    damon: Option<Damon>,
    near: NodeSet,
    _ballast: Locked,
    _settings: Settings,
}

/// Below the root of `/proc`.
const NUMA_BALANCING: &str = "sys/kernel/numa_balancing";
/// Below the root of `/sys`.
const DEMOTION: &str = "kernel/mm/numa/demotion_enabled";
/// Below the root of `/sys`: a folder per tier of the kernel's, ordered by their numbers.
const MEMORY_TIERS: &str = "devices/virtual/memory_tiering";

/// The mode of [`NUMA_BALANCING`] that promotes between memory tiers.
const BALANCE_TIERS: &str = "2";

/// Steps between watermarks that what is left has at least.
const NEAR_STEPS_MIN: u64 = 4;

/// What is found out before anything is changed.
struct Plan {
    near: NodeSet,
    far: NodeSet,
    zones: Zones,
    changes: Vec<Change>,
    damon: Option<Damon>,
}

impl Plan {
    fn new(system: &MemorySystem, far: TierId, mover: Mover) -> Result<Self, KernelTieringError> {
        let (near, far) = (system.node_set(TierId::NEAR), system.node_set(far));
        let roots = system.roots();
        check_tiers(&roots.sys.join(MEMORY_TIERS), &near, &far)?;
        check_elsewhere(roots.memory_nodes(), &near.union(&far))?;
        if mover == Mover::Damon && near.len() > 1 {
            let near = near.to_string();
            return Err(KernelTieringError::SeveralNearNodes { near });
        }
        let balancing = match mover {
            Mover::NumaBalancing => BALANCE_TIERS,
            Mover::Damon => "0",
        };
        let mut changes = vec![
            Change::to(roots.sys.join(DEMOTION), "true"),
            Change::to(roots.proc.join(NUMA_BALANCING), balancing),
        ];
        for change in &changes {
            settings::check_writable(&change.file)?;
        }
        let damon = match mover {
            Mover::NumaBalancing => None,
            Mover::Damon => Some(Damon::prepare(&roots.sys, &mut changes)?),
        };
        check_balanced(&near)?;
        Ok(Self {
            near,
            far,
            zones: zones(system)?,
            changes,
            damon,
        })
    }
}

impl KernelTiering {
    /// Refuses what [`Self::start`] would refuse, but for a lack of room, and changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn check(
        system: &MemorySystem,
        far: TierId,
        mover: Mover,
    ) -> Result<(), KernelTieringError> {
        Plan::new(system, far, mover).map(|_| ())
    }

    /// Refuses to leave so few bytes that it is the kernel's watermarks that decide how many are near.
    ///
    /// # Errors
    /// [`KernelTieringError::TooSmall`].
    pub fn check_share(system: &MemorySystem, near_bytes: u64) -> Result<(), KernelTieringError> {
        let step_bytes = zones(system)?.step_bytes(&system.node_set(TierId::NEAR));
        if near_bytes < NEAR_STEPS_MIN * step_bytes {
            return Err(KernelTieringError::TooSmall {
                near_bytes,
                step_bytes,
            });
        }
        Ok(())
    }

    /// Has the kernel move pages between the nodes of the first tier and those of `far`, of which `near_bytes` are
    /// left for whoever allocates on the near ones next.
    ///
    /// # Errors
    /// [`KernelTieringError`]: the tiers are no nodes that the kernel tells apart, it has no such mechanism, this
    /// process may not use it, or near memory cannot be made scarce. All is as it was then.
    pub fn start(
        system: &Arc<MemorySystem>,
        far: TierId,
        mover: Mover,
        near_bytes: u64,
    ) -> Result<Self, KernelTieringError> {
        let mut plan = Plan::new(system, far, mover)?;
        Self::check_share(system, near_bytes)?;
        let (roots, near) = (system.roots(), plan.near);
        // Balancing keeps a step of watermarks more free than others find free.
        let left_bytes = near_bytes + plan.zones.step_bytes(&near);
        if plan.damon.is_some() {
            let reserved = ballast::reserve_but(roots, &near, left_bytes)?;
            plan.changes.insert(0, reserved);
        }
        let settings = Settings::apply(&plan.changes)?;
        let ballast = match &plan.damon {
            None => Locked::leave(roots, &near, left_bytes)?,
            Some(damon) => {
                ballast::check_scarce(roots, &near, left_bytes)?;
                damon.start(&plan.zones, &near, &plan.far)?;
                Locked::default()
            }
        };
        Ok(Self {
            system: Arc::clone(system),
            damon: plan.damon,
            near,
            _ballast: ballast,
            _settings: settings,
        })
    }

    /// The nodes of the near tier.
    #[must_use]
    pub fn near_nodes(&self) -> NodeSet {
        self.near
    }

    /// What was moved since the machine was started, and by DAMON since this was. Zero where the kernel does not
    /// tell.
    #[must_use]
    pub fn moves(&self) -> KernelMoves {
        let counters = std::fs::read_to_string(self.system.roots().proc.join("vmstat"));
        let told = moves_of(&counters.unwrap_or_default());
        let migrated = self.damon.as_ref().map(Damon::moves).unwrap_or_default();
        KernelMoves {
            promoted_bytes: told.promoted_bytes + migrated.promoted_bytes,
            demoted_bytes: told.demoted_bytes + migrated.demoted_bytes,
        }
    }
}

/// The kernel demotes from a memory tier to the ones behind it: the far nodes have to be in one.
fn check_tiers(folder: &Path, near: &NodeSet, far: &NodeSet) -> Result<(), KernelTieringError> {
    let no_nodes = near.is_empty() || far.is_empty();
    if no_nodes || near.iter().any(|node| far.contains(node)) {
        let (near, far) = (near.to_string(), far.to_string());
        return Err(KernelTieringError::SameNodes { near, far });
    }
    let missing = |source| KernelTieringError::Missing {
        file: folder.to_owned(),
        source,
    };
    let (mut last_near, mut first_far) = (None, None);
    for entry in std::fs::read_dir(folder).map_err(missing)? {
        let entry = entry.map_err(missing)?;
        let name = entry.file_name();
        let number = name
            .to_string_lossy()
            .strip_prefix("memory_tier")
            .map(str::parse::<u32>);
        let list = std::fs::read_to_string(entry.path().join("nodelist"));
        let (Some(Ok(number)), Ok(list)) = (number, list) else {
            continue;
        };
        let has = |nodes: &NodeSet| {
            let listed = NodeSet::parse(list.trim()).unwrap_or(NodeSet::EMPTY);
            nodes.iter().any(|node| listed.contains(node))
        };
        if has(near) {
            last_near = last_near.max(Some(number));
        }
        if has(far) {
            first_far = Some(first_far.map_or(number, |first: u32| first.min(number)));
        }
    }
    match (last_near, first_far) {
        (Some(near), Some(far)) if near < far => Ok(()),
        _ => Err(KernelTieringError::OneKernelTier {
            near: near.to_string(),
            far: far.to_string(),
        }),
    }
}

/// The kernel puts pages that find no room on any node, and moves them to any that is near enough.
fn check_elsewhere(all: Option<NodeSet>, ours: &NodeSet) -> Result<(), KernelTieringError> {
    let all = all.unwrap_or(*ours);
    let others: NodeSet = all.iter().filter(|node| !ours.contains(*node)).collect();
    if others.is_empty() {
        return Ok(());
    }
    let nodes = others.to_string();
    Err(KernelTieringError::NodesElsewhere { nodes })
}

fn zones(system: &MemorySystem) -> Result<Zones, KernelTieringError> {
    let what = "which zones its nodes have";
    let zones = system.roots().zones();
    zones.ok_or(KernelTieringError::Unknown { what })
}

/// Heaps need a policy that balancing follows.
fn check_balanced(near: &NodeSet) -> Result<(), KernelTieringError> {
    let map = Mapping::new(BASE_PAGE_BYTES, BASE_PAGE_BYTES, MappingKind::Anonymous);
    let bound = map.and_then(|map| sys::bind_range(&map, 0..map.len(), &Policy::Balanced(*near)));
    bound.map_err(KernelTieringError::Policy)
}

/// What `/proc/vmstat` says of pages that were moved between memory tiers.
fn moves_of(vmstat: &str) -> KernelMoves {
    let mut moves = KernelMoves::default();
    for line in vmstat.lines() {
        let Some((name, pages)) = line.split_once(' ') else {
            continue;
        };
        let bytes = pages.trim().parse::<u64>().unwrap_or(0) * BASE_PAGE_BYTES as u64;
        match name {
            "pgpromote_success" => moves.promoted_bytes += bytes,
            "pgdemote_kswapd" | "pgdemote_direct" | "pgdemote_khugepaged" => {
                moves.demoted_bytes += bytes;
            }
            _ => {}
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(list: &str) -> NodeSet {
        NodeSet::parse(list).unwrap()
    }

    /// A folder of the kernel's tiers.
    fn tiers(lists: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, list) in lists {
            let tier = folder.path().join(name);
            std::fs::create_dir(&tier).unwrap();
            std::fs::write(tier.join("nodelist"), list).unwrap();
        }
        folder
    }

    #[test]
    fn far_nodes_are_in_a_tier_behind_the_near_ones() {
        let folder = tiers(&[
            ("memory_tier4", "0-1\n"),
            ("memory_tier22", "2\n"),
            ("power", ""),
        ]);
        let check = |near, far| check_tiers(folder.path(), &nodes(near), &nodes(far));
        assert!(check("0", "2").is_ok());
        assert!(check("0-1", "2").is_ok());
        for (near, far) in [("2", "0"), ("0", "1"), ("0", "3")] {
            let error = check(near, far).unwrap_err();
            let told = matches!(error, KernelTieringError::OneKernelTier { .. });
            assert!(told, "{near} {far}: {error}");
        }
    }

    #[test]
    fn tiers_that_share_nodes_or_have_none_are_refused() {
        let folder = tiers(&[("memory_tier4", "0\n")]);
        for (near, far) in [(nodes("0"), nodes("0")), (nodes("0"), NodeSet::EMPTY)] {
            let error = check_tiers(folder.path(), &near, &far).unwrap_err();
            assert!(
                matches!(error, KernelTieringError::SameNodes { .. }),
                "{error}"
            );
        }
        let error = check_tiers(Path::new("/nowhere"), &nodes("0"), &nodes("1")).unwrap_err();
        assert!(
            matches!(error, KernelTieringError::Missing { .. }),
            "{error}"
        );
    }

    #[test]
    fn nodes_of_neither_tier_are_named() {
        let check = |all, ours| check_elsewhere(Some(nodes(all)), &nodes(ours));
        assert!(check("0-1", "0-1").is_ok());
        let error = check("0-3", "0,2").unwrap_err().to_string();
        assert!(error.starts_with("nodes 1,3 "), "{error}");
        assert!(check_elsewhere(None, &nodes("0")).is_ok());
    }

    #[test]
    fn moves_are_read_from_the_kernels_counters() {
        let text = "nr_free_pages 7\npgpromote_success 3\npgpromote_candidate 9\npgdemote_kswapd 2\n\
                    pgdemote_direct 1\npgdemote_khugepaged 1\n";
        let page = BASE_PAGE_BYTES as u64;
        let expected = KernelMoves {
            promoted_bytes: 3 * page,
            demoted_bytes: 4 * page,
        };
        assert_eq!(moves_of(text), expected);
        assert_eq!(moves_of(""), KernelMoves::default());
    }
}
