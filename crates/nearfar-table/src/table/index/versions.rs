//! Which rows have had the same key after each other.

use hashbrown::HashMap;

use crate::table::row_ids::RowId;

/// The rows that have had a key, for each key that more than one has had: from each to the one before it, and back.
#[derive(Debug, Default)]
pub(super) struct Versions {
    earlier: HashMap<RowId, RowId>,
    later: HashMap<RowId, RowId>,
}

impl Versions {
    /// The row that had the key of `row` before it.
    pub fn before(&self, row: RowId) -> Option<RowId> {
        self.earlier.get(&row).copied()
    }

    /// The row that had the key of `row` after it.
    pub fn after(&self, row: RowId) -> Option<RowId> {
        self.later.get(&row).copied()
    }

    /// Has `row` follow the row that had its key `before`.
    pub fn add(&mut self, row: RowId, before: RowId) {
        self.earlier.insert(row, before);
        self.later.insert(before, row);
    }

    /// Takes back that `row` follows another one.
    pub fn undo(&mut self, row: RowId) {
        if let Some(before) = self.earlier.remove(&row) {
            self.later.remove(&before);
        }
    }

    /// Forgets all rows before `row`.
    pub fn cut(&mut self, row: RowId) {
        let mut next = self.earlier.remove(&row);
        while let Some(row) = next {
            self.later.remove(&row);
            next = self.earlier.remove(&row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_known_as_in_a_list(steps in prop::collection::vec((0_u8..4, any::<prop::sample::Index>()), 1..60)) {
            let (mut versions, mut list, mut next) = (Versions::default(), vec![0], 1);
            for (step, at) in steps {
                match step {
                    0 if list.len() > 1 => versions.undo(list.pop().expect("two rows")),
                    1 => {
                        let at = at.index(list.len());
                        versions.cut(list[at]);
                        list.drain(..at);
                    }
                    _ => {
                        versions.add(next, list[list.len() - 1]);
                        list.push(next);
                        next += 1;
                    }
                }
                for row in 0..next {
                    let at = list.iter().position(|known| *known == row);
                    let before = at.and_then(|at| at.checked_sub(1)).map(|at| list[at]);
                    prop_assert_eq!(versions.before(row), before);
                    let after = at.and_then(|at| list.get(at + 1)).copied();
                    prop_assert_eq!(versions.after(row), after);
                }
            }
        }
    }
}
