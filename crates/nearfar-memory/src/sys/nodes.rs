//! Sets of kernel memory nodes, in the form that the policy calls take.

use std::fmt;

use nearfar_topology::IdList;

/// The kernel's highest supported node number plus one (`CONFIG_NODES_SHIFT` of 10).
const NODES_MAX: usize = 1024;
const WORDS: usize = NODES_MAX / 64;

/// A set of kernel memory nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeSet([u64; WORDS]);

impl NodeSet {
    /// The set with no node.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The number of bits that [`Self::as_ptr`] points to, plus the one that the kernel wants on
    /// top (it reads one bit fewer than told).
    #[cfg(not(miri))]
    pub(crate) const BITS: usize = NODES_MAX + 1;

    /// Adds `node`; a number beyond what any kernel supports is ignored, since no such node exists.
    pub fn insert(&mut self, node: u32) {
        if let Some(word) = self.0.get_mut(node as usize / 64) {
            *word |= 1 << (node % 64);
        }
    }

    /// Whether `node` is in the set.
    #[must_use]
    pub fn contains(&self, node: u32) -> bool {
        self.0
            .get(node as usize / 64)
            .is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    /// The nodes, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..NODES_MAX as u32).filter(|node| self.contains(*node))
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The nodes of either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
        self
    }

    /// Whether every node of `other` is in this set.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .all(|(mine, theirs)| theirs & !mine == 0)
    }

    /// Reads the kernel's list format, such as `0-1,4`; `None` when it is something else.
    #[must_use]
    pub fn parse(list: &str) -> Option<Self> {
        let nodes = IdList::parse(list)?;
        Some(
            nodes
                .iter()
                .take_while(|node| *node < NODES_MAX as u32)
                .collect(),
        )
    }

    #[cfg(not(miri))]
    pub(crate) fn as_ptr(&self) -> *const u64 {
        self.0.as_ptr()
    }
}

impl FromIterator<u32> for NodeSet {
    fn from_iter<I: IntoIterator<Item = u32>>(nodes: I) -> Self {
        let mut set = Self::EMPTY;
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, node) in self.iter().enumerate() {
            if position > 0 {
                formatter.write_str(",")?;
            }
            write!(formatter, "{node}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let nodes = NodeSet::parse("0-2,5,64\n").unwrap();
        assert_eq!(nodes.iter().collect::<Vec<_>>(), [0, 1, 2, 5, 64]);
        assert_eq!(nodes.len(), 5);
        assert_eq!(nodes.to_string(), "0,1,2,5,64");
        assert_eq!(NodeSet::parse("\n"), Some(NodeSet::EMPTY));
        assert_eq!(NodeSet::parse("zero"), None);
        assert_eq!(NodeSet::parse("3-4294967295").unwrap().len(), NODES_MAX - 3);
    }

    #[test]
    fn union_and_cover() {
        let low: NodeSet = [0, 1].into_iter().collect();
        let high: NodeSet = [1, 700].into_iter().collect();
        let both = low.union(&high);
        assert!(both.covers(&low) && both.covers(&high) && !low.covers(&both));
    }
}
