//! The shared queue of batches.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::access::spec::{Length, RunSpec, TaskSpec};

/// Batches of one task, from which its threads take one after the other (weisgut-2025, section 3).
#[derive(Debug)]
pub(in crate::access) struct Queue {
    next: AtomicU64,
    /// Elements of all batches; as many as time allows if none.
    all: Option<u64>,
    /// Elements of a batch: accesses, or passes through a chain of operations.
    elements: u64,
    /// Bytes of an element.
    element_bytes: u64,
}

/// A batch: its number and its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::access) struct Batch {
    pub index: u64,
    pub elements: u64,
}

impl Queue {
    /// The batches of one repetition.
    pub(in crate::access) fn new(run: &RunSpec, task: &TaskSpec) -> Self {
        let mut queue = Self::endless(run, task);
        queue.all = match run.length {
            Length::Volume(bytes) if !task.background => Some(bytes.div_ceil(queue.element_bytes)),
            _ => None,
        };
        queue
    }

    /// Batches without end.
    pub(in crate::access) fn endless(run: &RunSpec, task: &TaskSpec) -> Self {
        let element_bytes: usize = task
            .steps
            .iter()
            .map(|step| step.access_bytes * step.count)
            .sum();
        let element_bytes = element_bytes as u64;
        let elements = (run.batch_bytes / element_bytes).max(1);
        Self {
            next: AtomicU64::new(0),
            all: None,
            elements,
            element_bytes,
        }
    }

    /// Elements of a batch that is whole.
    pub(in crate::access) fn batch_elements(&self) -> u64 {
        self.elements
    }

    pub(in crate::access) fn element_bytes(&self) -> u64 {
        self.element_bytes
    }

    /// The next batch, if there is one.
    pub(in crate::access) fn take(&self) -> Option<Batch> {
        // Only the number matters: batches hand over no data.
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let before = index.saturating_mul(self.elements);
        let left = self.all.map_or(u64::MAX, |all| all.saturating_sub(before));
        (left > 0).then_some(Batch {
            index,
            elements: self.elements.min(left),
        })
    }
}
