//! What transactions have read and appended to lists, and what each was told.

use std::collections::BTreeMap;

/// A list, by its key.
pub type Key = i64;
/// An element, which is appended once.
pub type Element = i64;

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Append(Key, Element),
    /// What the list was.
    Read(Key, Vec<Element>),
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Nothing of it is kept.
    Failed,
    /// It is kept or not.
    InDoubt,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// In the order in which they were carried out, up to the first that failed.
    pub operations: Vec<Operation>,
    pub outcome: Outcome,
}

/// Transactions in no order, and what was there in the end.
#[derive(Debug, Default, Clone)]
pub struct History {
    pub transactions: Vec<Transaction>,
    pub end: BTreeMap<Key, Vec<Element>>,
}

impl Transaction {
    /// What it appended, in its order.
    pub fn appends(&self) -> impl Iterator<Item = (Key, Element)> {
        self.operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Append(key, element) => Some((*key, *element)),
                Operation::Read(..) => None,
            })
    }

    /// What it read before it appended to the same list.
    pub fn first_reads(&self) -> impl Iterator<Item = (Key, &[Element])> {
        self.operations
            .iter()
            .enumerate()
            .filter_map(|(at, operation)| {
                let Operation::Read(key, list) = operation else {
                    return None;
                };
                let before = &self.operations[..at];
                let is_own = before
                    .iter()
                    .any(|one| matches!(one, Operation::Append(k, _) if k == key));
                (!is_own).then_some((*key, &list[..]))
            })
    }

    /// What it last appended to a list.
    pub fn last_append(&self, key: Key) -> Option<Element> {
        let of_key = self.appends().filter(|(other, _)| *other == key);
        of_key.last().map(|(_, element)| element)
    }
}
