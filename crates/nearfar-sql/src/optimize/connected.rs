//! Pairs of connected sets in a graph: what can be joined with what without a cross product.
//!
//! The enumeration of Moerkotte and Neumann ("Analysis of Two Existing and One New Dynamic Programming Algorithm for the
//! Generation of Optimal Bushy Join Trees without Cross Products", VLDB 2006, §3): every set grows by its neighbours
//! only, and in an order that gives it once, so that nothing is looked at that is not connected.

use super::graph::Set;

/// Calls `each` with every pair of disjoint sets that are connected, each in itself and with each other: once, and after
/// all pairs of subsets of either. `neighbours` has the ones of each element.
pub fn for_each_pair(neighbours: &[Set], each: &mut impl FnMut(Set, Set)) {
    let pairs = Pairs { neighbours };
    for first in (0..neighbours.len()).rev() {
        let set = 1 << first;
        pairs.with_others(set, each);
        pairs.grow(set, up_to(first), &mut |set| pairs.with_others(set, each));
    }
}

struct Pairs<'a> {
    neighbours: &'a [Set],
}

impl Pairs<'_> {
    /// What the elements of a set are connected with, outside of it and of `without`.
    fn around(&self, set: Set, without: Set) -> Set {
        let around = elements(set).map(|element| self.neighbours[element]);
        around.fold(0, |all, one| all | one) & !set & !without
    }

    /// Calls `each` with all larger connected sets that have `set` and nothing else of `without`.
    fn grow(&self, set: Set, without: Set, each: &mut dyn FnMut(Set)) {
        let around = self.around(set, without);
        for more in subsets(around) {
            each(set | more);
        }
        for more in subsets(around) {
            self.grow(set | more, without | around, each);
        }
    }

    /// The pairs of a set and those whose smallest element comes after its own.
    fn with_others(&self, set: Set, each: &mut impl FnMut(Set, Set)) {
        let without = up_to(set.trailing_zeros() as usize);
        let around = self.around(set, without);
        for other in (0..self.neighbours.len()).rev() {
            if around & (1 << other) != 0 {
                each(set, 1 << other);
                let without = without | set | (around & up_to(other));
                self.grow(1 << other, without, &mut |other| each(set, other));
            }
        }
    }
}

/// The elements up to this one.
fn up_to(element: usize) -> Set {
    Set::MAX >> (Set::BITS as usize - 1 - element)
}

fn elements(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let element = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(element)
    })
}

/// All subsets but the empty one, every one behind its own.
fn subsets(set: Set) -> impl Iterator<Item = Set> {
    let mut last: Set = 0;
    std::iter::from_fn(move || {
        last = last.wrapping_sub(set) & set;
        (last != 0).then_some(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn is_connected(neighbours: &[Set], set: Set) -> bool {
        let mut reached: Set = set & set.wrapping_neg();
        loop {
            let pairs = Pairs { neighbours };
            let more = reached | (pairs.around(reached, 0) & set);
            if more == reached {
                return reached == set && set != 0;
            }
            reached = more;
        }
    }

    /// By looking at all pairs of sets.
    fn expected(neighbours: &[Set]) -> BTreeSet<(Set, Set)> {
        let all = 1 << neighbours.len();
        let pairs = Pairs { neighbours };
        let sets = (1..all).filter(|set| is_connected(neighbours, *set));
        let sets: Vec<Set> = sets.collect();
        let mut found = BTreeSet::new();
        for (at, a) in sets.iter().enumerate() {
            for b in &sets[at + 1..] {
                if a & b == 0 && pairs.around(*a, 0) & b != 0 {
                    found.insert((*a.min(b), *a.max(b)));
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn every_pair_comes_once_and_behind_those_of_its_sets(
            count in 1_usize..8,
            edges in prop::collection::vec((0_usize..8, 0_usize..8), 0..16),
        ) {
            let mut neighbours: Vec<Set> = vec![0; count];
            for (a, b) in edges.into_iter().filter(|(a, b)| a != b && *a.max(b) < count) {
                neighbours[a] |= 1 << b;
                neighbours[b] |= 1 << a;
            }
            let (mut found, mut made) = (BTreeSet::new(), BTreeSet::new());
            for_each_pair(&neighbours, &mut |a, b| {
                for side in [a, b] {
                    assert!(side.count_ones() == 1 || made.contains(&side), "{side:b} comes later");
                }
                made.insert(a | b);
                assert!(found.insert((a.min(b), a.max(b))), "{a:b} and {b:b} come twice");
            });
            prop_assert_eq!(found, expected(&neighbours));
        }
    }

    #[test]
    fn a_chain_has_few_pairs() {
        let neighbours: Vec<Set> = (0..14).map(|at| (0b101 << at) >> 1 & 0x3FFF).collect();
        let mut pairs = 0;
        for_each_pair(&neighbours, &mut |_, _| pairs += 1);
        assert_eq!(pairs, (14 * 14 * 14 - 14) / 6);
    }
}
