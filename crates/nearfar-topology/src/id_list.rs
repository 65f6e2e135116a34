//! Node and CPU numbers, and the kernel's list format for sets of them.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Serialize, Serializer};

/// Number of a NUMA node, as in `/sys/devices/system/node/node<N>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}

/// A set of numbers in the kernel's list format, such as `0-3,8,10-11`.
///
/// Kept as ascending, disjoint, non-adjacent ranges, so that a list naming four
/// billion CPUs costs as much as one naming two. Serialized as its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdList {
    ranges: Vec<RangeInclusive<u32>>,
}

impl IdList {
    /// Reads the kernel's list format; `None` where the text is anything else.
    ///
    /// The empty text is the empty set.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Self::default());
        }
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let range = match part.split_once('-') {
                Some((first, last)) => parse_id(first)?..=parse_id(last)?,
                None => {
                    let id = parse_id(part)?;
                    id..=id
                }
            };
            if range.is_empty() {
                return None;
            }
            ranges.push(range);
        }
        Some(Self::from_ranges(ranges))
    }

    /// The set of the given numbers.
    pub fn from_ids(ids: impl IntoIterator<Item = u32>) -> Self {
        Self::from_ranges(ids.into_iter().map(|id| id..=id).collect())
    }

    fn from_ranges(mut ranges: Vec<RangeInclusive<u32>>) -> Self {
        ranges.sort_by_key(|range| *range.start());
        let mut merged: Vec<RangeInclusive<u32>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        Self { ranges: merged }
    }

    /// The numbers that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::from_ranges(self.ranges.iter().chain(&other.ranges).cloned().collect())
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: u32) -> bool {
        self.ranges.iter().any(|range| range.contains(&id))
    }

    /// How many numbers the set has.
    pub fn len(&self) -> u64 {
        self.ranges
            .iter()
            .map(|r| u64::from(*r.end()) - u64::from(*r.start()) + 1)
            .sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The smallest number of the set.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|range| *range.start())
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().cloned().flatten()
    }
}

/// Decimal digits only: no sign, no blank, no surprise.
fn parse_id(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

impl fmt::Display for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, range) in self.ranges.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            if range.start() == range.end() {
                write!(f, "{comma}{}", range.start())?;
            } else {
                write!(f, "{comma}{}-{}", range.start(), range.end())?;
            }
        }
        Ok(())
    }
}

impl Serialize for IdList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_kernels_lists() {
        let list = IdList::parse("0-3,8,10-11\n").unwrap();
        assert_eq!(list.len(), 7);
        assert_eq!(list.to_string(), "0-3,8,10-11");
        assert!(list.contains(11) && !list.contains(9));
        assert!(IdList::parse("").unwrap().is_empty());
        assert!(IdList::parse("\n").unwrap().is_empty());
    }

    #[test]
    fn refuses_anything_else() {
        for text in [
            "-1",
            "3-1",
            "1,",
            ",",
            "a",
            "1-",
            "0x1",
            "1 2",
            "+1",
            "4294967296",
            "1--2",
        ] {
            assert_eq!(IdList::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_huge_range_costs_nothing() {
        let list = IdList::parse("0-4294967295").unwrap();
        assert_eq!(list.len(), 1 << 32);
        assert!(list.contains(u32::MAX));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(ids in prop::collection::vec(0u32..200, 0..60)) {
            let oracle: BTreeSet<u32> = ids.iter().copied().collect();
            let list = IdList::from_ids(ids);
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), oracle.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(list.len(), oracle.len() as u64);
            prop_assert_eq!(&IdList::parse(&list.to_string()).unwrap(), &list);
            for id in 0..200 {
                prop_assert_eq!(list.contains(id), oracle.contains(&id));
            }
        }
    }
}
