//! Latencies of single operations.

use crate::workload::ActionKind;

/// Latencies of operations that were sampled, in nanoseconds, by what was asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Latencies {
    by_kind: [Vec<f64>; ActionKind::ALL.len()],
}

impl Latencies {
    /// Those of one kind, ascending once `sort` was called.
    #[must_use]
    pub fn of(&self, kind: ActionKind) -> &[f64] {
        &self.by_kind[kind as usize]
    }

    /// Those of all operations, ascending.
    #[must_use]
    pub fn all(&self) -> Vec<f64> {
        let mut all = self.by_kind.concat();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    /// The kinds of which there are some.
    pub fn kinds(&self) -> impl Iterator<Item = ActionKind> {
        let kinds = ActionKind::ALL.into_iter();
        kinds.filter(|kind| !self.of(*kind).is_empty())
    }

    pub(crate) fn add(&mut self, kind: ActionKind, ns: f64) {
        self.by_kind[kind as usize].push(ns);
    }

    pub(crate) fn append(&mut self, other: &Self) {
        for (all, more) in self.by_kind.iter_mut().zip(&other.by_kind) {
            all.extend(more);
        }
    }

    pub(crate) fn sort(&mut self) {
        for latencies in &mut self.by_kind {
            latencies.sort_unstable_by(f64::total_cmp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_apart_and_together_they_are_all() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.add(ActionKind::Read, 5.0);
        other.add(ActionKind::Read, 3.0);
        other.add(ActionKind::Insert, 4.0);
        one.append(&other);
        one.sort();
        assert_eq!(one.of(ActionKind::Read), [3.0, 5.0]);
        assert_eq!(one.all(), [3.0, 4.0, 5.0]);
        let kinds: Vec<_> = one.kinds().collect();
        assert_eq!(kinds, [ActionKind::Read, ActionKind::Insert]);
    }
}
