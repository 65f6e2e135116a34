//! What the names of tiers, of their devices and of nodes stand for.
//!
//! There is one set of names, for the tiers of a machine and for those of a profile:
//!
//! | name | stands for |
//! |---|---|
//! | `near` | the first tier |
//! | `far` | the tier of that name or, where there is none, the farthest one that the kernel allocates on |
//! | a tier's name, such as `cxl` | that tier |
//! | a tier's name and a number, such as `cxl2` | its third device: on a machine, the third of its nodes |
//! | a tier's name and two numbers, such as `cxl1-3` | its second to fourth device |
//! | `node4`, `node4-6` | the kernel's nodes of these numbers, all of one tier |

use std::ops::RangeInclusive;

use thiserror::Error;

/// Name of the first tier, and of tablespaces and budgets that mean it.
pub const NEAR: &str = "near";
/// Name of a modelled tier, and alias of the farthest allocatable tier.
pub const FAR: &str = "far";

/// What the names of nodes begin with.
pub(crate) const NODE: &str = "node";

/// A tier as far as names go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTier<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether the kernel allocates on it, so that `far` may mean it.
    pub is_allocatable: bool,
    /// How many devices it has that can be named singly. One or none is the tier itself.
    pub devices: usize,
    /// The kernel's nodes behind these devices, in their order; none where names of nodes do not
    /// mean this tier.
    pub nodes: Vec<u32>,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The position of the tier among those that were looked at.
    pub tier: usize,
    /// Which of its devices; all of them where none are told.
    pub devices: Option<RangeInclusive<usize>>,
}

/// A name that no tier, device or node has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no tier or node is named {name:?}; there are: {}", known.join(", "))]
pub struct UnknownTier {
    /// The name asked for.
    pub name: String,
    /// The names that there are, with those of a tier's devices in parentheses.
    pub known: Vec<String>,
}

/// What `name` stands for among `tiers`, which are ordered from near to far.
///
/// # Errors
/// [`UnknownTier`] for any other name, for devices that a tier does not have, and for `far` where
/// nothing but the first tier can be allocated from.
///
/// ```
/// use nearfar_topology::names::{NamedTier, find};
///
/// let tier = |name, nodes: &[u32]| NamedTier {
///     name,
///     is_allocatable: true,
///     devices: nodes.len(),
///     nodes: nodes.to_vec(),
/// };
/// let tiers = [tier("near", &[0]), tier("cxl", &[1, 2, 3])];
/// let far = find(&tiers, "far")?;
/// assert_eq!((far.tier, far.devices), (1, None));
/// assert_eq!(find(&tiers, "cxl1-2")?.devices, Some(1..=2));
/// assert_eq!(find(&tiers, "node2")?, find(&tiers, "far1")?);
/// assert!(find(&tiers, "cxl3").is_err());
/// # Ok::<(), nearfar_topology::UnknownTier>(())
/// ```
pub fn find(tiers: &[NamedTier<'_>], name: &str) -> Result<Place, UnknownTier> {
    let whole = whole_tier(tiers, name).map(|tier| Place {
        tier,
        devices: None,
    });
    whole
        .or_else(|| nodes(tiers, name))
        .or_else(|| devices(tiers, name))
        .ok_or_else(|| UnknownTier {
            name: name.to_owned(),
            known: known(tiers),
        })
}

/// The tier that `name` stands for as a whole.
fn whole_tier(tiers: &[NamedTier<'_>], name: &str) -> Option<usize> {
    let named = tiers.iter().position(|tier| tier.name == name);
    named.or_else(|| match name {
        NEAR if !tiers.is_empty() => Some(0),
        FAR => {
            let farthest = tiers.iter().rposition(|tier| tier.is_allocatable);
            farthest.filter(|index| *index > 0)
        }
        _ => None,
    })
}

/// The nodes that `name` tells by their numbers.
fn nodes(tiers: &[NamedTier<'_>], name: &str) -> Option<Place> {
    let (first, last) = range(name.strip_prefix(NODE)?)?;
    tiers.iter().enumerate().find_map(|(index, tier)| {
        let position = |number: usize| {
            let same = |node: &u32| usize::try_from(*node) == Ok(number);
            tier.nodes.iter().position(same)
        };
        let devices = position(first)?..=position(last)?;
        // Nodes between the two that are of other tiers would be left out silently.
        let is_whole = devices.end() - devices.start() == last - first;
        is_whole.then(|| place(index, tier, devices))
    })
}

/// The devices of a tier that `name` tells by the tier's name and their positions. Of several tiers
/// whose names it begins with, the one with the longest name is meant: `cxl-21` is a device of `cxl-2`.
fn devices(tiers: &[NamedTier<'_>], name: &str) -> Option<Place> {
    let is_boundary = |at: &usize| name.is_char_boundary(*at);
    let splits = (1..name.len()).rev().filter(is_boundary);
    splits.map(|at| name.split_at(at)).find_map(|(tier, rest)| {
        let devices = range(rest)?;
        let index = whole_tier(tiers, tier)?;
        let devices = devices.0..=devices.1;
        (*devices.end() < tiers[index].devices).then(|| place(index, &tiers[index], devices))
    })
}

fn place(index: usize, tier: &NamedTier<'_>, devices: RangeInclusive<usize>) -> Place {
    let is_all = *devices.start() == 0 && devices.end() + 1 >= tier.devices;
    Place {
        tier: index,
        devices: (!is_all).then_some(devices),
    }
}

/// `3` or `3-5`.
fn range(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_plain)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

/// The names of `tiers` for messages.
pub fn known(tiers: &[NamedTier<'_>]) -> Vec<String> {
    let with_devices = |name: &str, devices: usize| match devices {
        0 | 1 => name.to_owned(),
        count => format!("{name} ({name}0 to {name}{})", count - 1),
    };
    let mut names: Vec<String> = tiers
        .iter()
        .map(|tier| with_devices(tier.name, tier.devices))
        .collect();
    for alias in [NEAR, FAR] {
        let is_alias = tiers.iter().all(|tier| tier.name != alias);
        if is_alias && whole_tier(tiers, alias).is_some() {
            names.push(alias.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier<'a>(name: &'a str, nodes: &[u32]) -> NamedTier<'a> {
        NamedTier {
            name,
            is_allocatable: !nodes.is_empty(),
            devices: nodes.len(),
            nodes: nodes.to_vec(),
        }
    }

    fn machine() -> Vec<NamedTier<'static>> {
        vec![
            tier("near", &[0, 1]),
            tier("cxl", &[2, 3, 5]),
            tier("cxl-2", &[4, 6]),
            tier("dax0.0", &[]),
        ]
    }

    /// The tier's position and the devices, from 0 on; `None` for the whole tier.
    fn found(name: &str) -> Option<(usize, Option<RangeInclusive<usize>>)> {
        let place = find(&machine(), name).ok()?;
        Some((place.tier, place.devices))
    }

    #[test]
    fn tiers_and_aliases_are_whole() {
        assert_eq!(found("near"), Some((0, None)));
        assert_eq!(found("cxl"), Some((1, None)));
        assert_eq!(found("cxl-2"), Some((2, None)));
        assert_eq!(found("far"), Some((2, None)), "dax0.0 holds no pages");
        assert_eq!(found("dax0.0"), Some((3, None)));
        let only_near = [tier("near", &[0])];
        assert!(find(&only_near, "far").is_err());
        assert!(find(&[], "near").is_err());
    }

    #[test]
    fn devices_count_from_zero_and_all_of_them_are_the_tier() {
        assert_eq!(found("cxl0"), Some((1, Some(0..=0))));
        assert_eq!(found("cxl1-2"), Some((1, Some(1..=2))));
        assert_eq!(found("cxl0-2"), Some((1, None)));
        assert_eq!(found("cxl-21"), Some((2, Some(1..=1))));
        assert_eq!(found("far1"), Some((2, Some(1..=1))));
        assert_eq!(found("near1"), Some((0, Some(1..=1))));
        for unknown in [
            "cxl3", "cxl2-1", "cxl1-", "cxl-1", "cxl+1", "cxl 1", "far2", "",
        ] {
            assert_eq!(found(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn nodes_go_by_their_numbers() {
        assert_eq!(found("node3"), Some((1, Some(1..=1))));
        assert_eq!(found("node2-3"), Some((1, Some(0..=1))));
        assert_eq!(found("node0-1"), Some((0, None)));
        assert_eq!(found("node3-5"), None, "node 4 is of another tier");
        assert_eq!(found("node1-2"), None, "of two tiers");
        assert_eq!(found("node9"), None);
    }

    #[test]
    fn what_is_unknown_is_told_with_what_there_is() {
        let error = find(&machine(), "fra").expect_err("no such tier");
        assert_eq!(
            error.to_string(),
            "no tier or node is named \"fra\"; there are: near (near0 to near1), \
             cxl (cxl0 to cxl2), cxl-2 (cxl-20 to cxl-21), dax0.0, far"
        );
    }
}
