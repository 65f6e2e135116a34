//! Faulting pages in on the nodes of their tiers. Pages of DAX devices are left alone.
//!
//! The policy of the whole range is switched from tier to tier while the runs of each are faulted
//! in, and is set to one policy over all nodes at the end. So the range stays one kernel mapping,
//! where a policy per run would cost one mapping per run (`vm.max_map_count`). The kernel's own
//! interleaving is not used for placements: its weights are machine-wide and only root may change
//! them, and its phase depends on the address, so that a page's tier would not follow from its
//! index.

use std::ops::Range;

use crate::layout::Layout;
use crate::placement::PageSize;
use crate::region::{RegionError, dax};
use crate::sys::{self, Advice, Mapping, MappingKind, NodeSet, Policy, SysError};
use crate::system::{MemorySystem, Taken};
use crate::tier::TierId;

/// Bytes populated between two looks at a tier's free memory.
const BYTES_BETWEEN_CHECKS: usize = 256 << 20;
/// Free memory that populating leaves on the nodes: a node emptied to its watermark would swap, or
/// kill the process that is bound to it.
const RESERVE_BYTES: u64 = 32 << 20;

/// Whether policies could be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PolicyOutcome {
    Set,
    /// They could not, and need not: the machine has one node.
    Unneeded(SysError),
}

/// Pages that are populated under one policy.
struct Step {
    /// The first tier with these nodes, for errors.
    tier: TierId,
    /// The nodes of the tiers whose pages these are.
    group: NodeSet,
    /// Where several nodes share alternating pages: which of their pages, counted within the group.
    turn: Option<Turn>,
    policy: Policy,
}

#[derive(Clone, Copy)]
struct Turn {
    index: usize,
    of: usize,
}

/// Populates every page of `layout` in `map` and leaves the range with one policy.
pub(super) fn populate(
    system: &MemorySystem,
    map: &Mapping,
    kind: MappingKind,
    layout: &Layout,
    page_size: PageSize,
    taken: &mut Taken,
) -> Result<PolicyOutcome, RegionError> {
    if kind == MappingKind::Anonymous {
        let advice = match page_size {
            PageSize::Base => Advice::BasePages,
            PageSize::Huge => Advice::HugePages,
        };
        // A kernel without transparent huge pages knows neither; its pages are base pages anyway.
        if let Err(error) = map.advise(0..map.len(), advice) {
            tracing::debug!(%error, "page size advice refused");
        }
    }
    let steps = steps(system, layout);
    let mut outcome = PolicyOutcome::Set;
    for step in &steps {
        bind(system, map, step.tier, &step.policy, &mut outcome)?;
        populate_step(system, map, kind, layout, step, taken)?;
    }
    if let [first, _, ..] = &steps[..] {
        let all = steps
            .iter()
            .fold(NodeSet::EMPTY, |all, step| all.union(&step.group));
        bind(system, map, first.tier, &Policy::Bind(all), &mut outcome)?;
    }
    Ok(outcome)
}

/// The policy for new pages of a whole range that holds `layout`.
pub(super) fn bind_whole(
    system: &MemorySystem,
    map: &Mapping,
    layout: &Layout,
) -> Result<PolicyOutcome, RegionError> {
    let groups = groups(system, layout);
    let all = groups
        .iter()
        .fold(NodeSet::EMPTY, |all, (_, group)| all.union(group));
    let mut outcome = PolicyOutcome::Set;
    if let Some((tier, _)) = groups.first() {
        let policy = if groups.len() == 1 {
            Policy::evenly(all)
        } else {
            Policy::Bind(all)
        };
        bind(system, map, *tier, &policy, &mut outcome)?;
    }
    Ok(outcome)
}

/// Fails when the nodes of `tier` have less than `bytes` of free memory.
pub(super) fn check_free(
    system: &MemorySystem,
    tier: TierId,
    bytes: u64,
) -> Result<(), RegionError> {
    // What is known of all nodes of a tier says nothing of one of them.
    let headroom = tier.is_whole().then(|| system.headroom(tier));
    if headroom.is_some_and(|headroom| headroom.take(bytes)) {
        return Ok(());
    }
    let nodes = system.node_set(tier);
    let Some(free) = system.roots().available_bytes(&nodes) else {
        return Ok(());
    };
    let available_bytes = free.saturating_sub(RESERVE_BYTES);
    if bytes <= available_bytes {
        if let Some(headroom) = headroom {
            headroom.learn(available_bytes - bytes);
        }
        return Ok(());
    }
    Err(RegionError::NodesFull {
        tier: system.name(tier),
        nodes: nodes.to_string(),
        requested_bytes: bytes,
        available_bytes,
    })
}

/// The sets of nodes behind the tiers and parts of tiers of `layout`, each once, with the first of them.
pub(super) fn groups(system: &MemorySystem, layout: &Layout) -> Vec<(TierId, NodeSet)> {
    let mut groups: Vec<(TierId, NodeSet)> = Vec::new();
    let places = layout.places().into_iter();
    for tier in places.filter(|tier| system.info(*tier).has_nodes()) {
        let group = system.node_set(tier);
        if !groups.iter().any(|(_, known)| *known == group) {
            groups.push((tier, group));
        }
    }
    groups
}

/// What is to be populated under which policy.
fn steps(system: &MemorySystem, layout: &Layout) -> Vec<Step> {
    let groups = groups(system, layout);
    let is_mixed = groups.len() > 1 || dax::is_on_devices(system, layout);
    let alternating = layout.is_cyclic() && is_mixed;
    let mut steps = Vec::new();
    for (tier, group) in groups {
        if alternating && group.len() > 1 {
            // The kernel interleaves by address: of alternating pages it would use some nodes only.
            let of = group.len();
            steps.extend(group.iter().enumerate().map(|(index, node)| Step {
                tier,
                group,
                turn: Some(Turn { index, of }),
                policy: Policy::Bind([node].into_iter().collect()),
            }));
        } else {
            steps.push(Step {
                tier,
                group,
                turn: None,
                policy: Policy::evenly(group),
            });
        }
    }
    steps
}

fn bind(
    system: &MemorySystem,
    map: &Mapping,
    tier: TierId,
    policy: &Policy,
    outcome: &mut PolicyOutcome,
) -> Result<(), RegionError> {
    match sys::bind_range(map, 0..map.len(), policy) {
        Ok(()) => Ok(()),
        Err(error) if error.is_unavailable() && system.has_one_node() => {
            *outcome = PolicyOutcome::Unneeded(error);
            Ok(())
        }
        Err(source) => {
            let (tier, nodes) = (system.name(tier), system.node_set(tier).to_string());
            Err(RegionError::Bind {
                tier,
                nodes,
                source,
            })
        }
    }
}

fn populate_step(
    system: &MemorySystem,
    map: &Mapping,
    kind: MappingKind,
    layout: &Layout,
    step: &Step,
    taken: &mut Taken,
) -> Result<(), RegionError> {
    let in_group = in_group(system, layout, step.group);
    let mut left: u64 = layout
        .place_bytes()
        .iter()
        .filter(|(tier, _)| in_group(*tier))
        .map(|(_, bytes)| bytes)
        .sum();
    if let Some(turn) = step.turn {
        left = left.div_ceil(turn.of as u64);
    }
    // Explicit huge pages were set aside before and are not free memory.
    let checked = kind != MappingKind::HugeTlb;
    let mut until_check = 0;
    let mut populate_range = |range: Range<usize>| {
        let mut start = range.start;
        while start < range.end {
            if until_check == 0 {
                if checked {
                    check_free(system, step.tier, left)?;
                }
                until_check = BYTES_BETWEEN_CHECKS;
            }
            let end = range.end.min(start + until_check);
            map.advise(start..end, Advice::PopulateWrite)
                .map_err(|source| {
                    let (tier, nodes) = (system.name(step.tier), step.group.to_string());
                    RegionError::Populate {
                        tier,
                        nodes,
                        source,
                    }
                })?;
            let done = end - start;
            taken.populated(done as u64);
            left = left.saturating_sub(done as u64);
            until_check -= done;
            start = end;
        }
        Ok(())
    };
    let page_bytes = layout.page_bytes();
    let mut waiting = 0..0;
    for pages in pages_of_step(layout, step.turn, &in_group) {
        let bytes = pages.start * page_bytes..pages.end * page_bytes;
        if bytes.start == waiting.end {
            waiting.end = bytes.end;
        } else {
            populate_range(std::mem::replace(&mut waiting, bytes))?;
        }
    }
    populate_range(waiting)
}

/// Whether the nodes of a tier or part of `layout` are those of `group`.
fn in_group(system: &MemorySystem, layout: &Layout, group: NodeSet) -> impl Fn(TierId) -> bool {
    let mut places = layout.places();
    places.retain(|tier| system.node_set(*tier) == group);
    move |tier| places.contains(&tier)
}

/// The ranges of pages whose tier is in the group and, with a turn, whose turn it is.
fn pages_of_step<'a>(
    layout: &'a Layout,
    turn: Option<Turn>,
    in_group: impl Fn(TierId) -> bool + 'a,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut ordinal = 0;
    layout
        .runs()
        .filter(move |(tier, _)| in_group(*tier))
        .flat_map(move |(_, pages)| {
            let first = ordinal;
            ordinal += pages.len();
            let (skip, step, length) = match turn {
                None => (0, pages.len(), pages.len()),
                Some(turn) => (
                    (turn.index + turn.of - first % turn.of) % turn.of,
                    turn.of,
                    1,
                ),
            };
            pages
                .clone()
                .skip(skip)
                .step_by(step)
                .map(move |page| page..page + length)
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nearfar_topology::TierKind;

    use super::*;
    use crate::placement::Placement;
    use crate::{Budgets, TierSpec};

    fn layout(placement: &Placement, pages: usize) -> Layout {
        Layout::new(placement, 4096, pages)
    }

    fn system() -> Arc<MemorySystem> {
        let specs = vec![
            TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30),
            TierSpec::new("cxl", TierKind::Cxl, [1, 2, 3], 1 << 30),
            TierSpec::new("far", TierKind::Modelled, [0], 1 << 30),
        ];
        MemorySystem::from_specs(specs, &Budgets::new()).unwrap()
    }

    /// Node of every page after all steps, by walking them.
    fn populated(placement: &Placement, pages: usize) -> Vec<Policy> {
        populated_in(&system(), placement, pages)
    }

    fn populated_in(system: &MemorySystem, placement: &Placement, pages: usize) -> Vec<Policy> {
        let layout = layout(placement, pages);
        let mut found = vec![None; pages];
        for step in steps(system, &layout) {
            let in_group = in_group(system, &layout, step.group);
            for range in pages_of_step(&layout, step.turn, in_group) {
                for page in range {
                    assert!(
                        found[page].replace(step.policy).is_none(),
                        "page {page} twice"
                    );
                }
            }
        }
        found
            .into_iter()
            .map(|policy| policy.expect("every page has a step"))
            .collect()
    }

    fn bound(node: u32) -> Policy {
        Policy::Bind([node].into_iter().collect())
    }

    #[test]
    fn alternating_pages_of_a_tier_of_several_nodes_take_turns() {
        let placement = Placement::Interleave(vec![TierId::at(0), TierId::at(1)]);
        let expected = [0, 1, 0, 2, 0, 3, 0, 1].map(bound);
        assert_eq!(populated(&placement, 8), expected);
    }

    #[test]
    fn pages_beside_those_of_a_device_take_turns_and_the_devices_are_left_alone() {
        let specs = vec![
            TierSpec::new("cxl", TierKind::Cxl, [1, 2, 3], 1 << 30),
            TierSpec::dax("dax0.0", "/dev/dax0.0", 1 << 30),
        ];
        let system = MemorySystem::from_specs(specs, &Budgets::new()).unwrap();
        let steps_of = |placement: &Placement| steps(&system, &layout(placement, 8));
        let turns = Placement::Interleave(vec![TierId::at(0), TierId::at(1)]);
        let policies: Vec<Policy> = steps_of(&turns).iter().map(|step| step.policy).collect();
        assert_eq!(policies, [1, 2, 3].map(bound));
        assert!(steps_of(&Placement::Bind(TierId::at(1))).is_empty());
    }

    #[test]
    fn tiers_that_share_nodes_are_populated_together() {
        let placement = Placement::Interleave(vec![TierId::at(0), TierId::at(2)]);
        assert_eq!(populated(&placement, 5), [bound(0); 5]);
    }

    #[test]
    fn parts_of_a_tier_get_their_own_pages() {
        let system = system();
        let populated = |text: &str, pages| {
            let spec: crate::PlacementSpec = text.parse().unwrap();
            populated_in(&system, &spec.resolve(&system).unwrap(), pages)
        };
        let expected = [1, 2, 1, 3, 1].map(bound);
        assert_eq!(populated("interleave:cxl0,cxl1-2", 5), expected);
        assert_eq!(populated("cxl2", 2), [bound(3); 2]);
        let expected = [bound(0), bound(2), bound(2), bound(2)];
        assert_eq!(populated("split:near=25%,cxl1", 4), expected);
    }

    #[test]
    fn contiguous_pages_of_several_nodes_are_left_to_the_kernel() {
        let all = Policy::Interleave([1, 2, 3].into_iter().collect());
        assert_eq!(populated(&Placement::Bind(TierId::at(1)), 4), [all; 4]);
        let split = Placement::Split {
            first: TierId::at(0),
            first_share: 0.5,
            rest: TierId::at(1),
        };
        assert_eq!(populated(&split, 4), [bound(0), bound(0), all, all]);
    }
}
