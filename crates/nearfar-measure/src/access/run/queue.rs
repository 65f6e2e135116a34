//! The shared queue of batches.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::access::spec::{Length, RunSpec, TaskSpec};

/// Batches of one task, from which its threads take one after the other (weisgut-2025, section 3).
#[derive(Debug)]
pub(super) struct Queue {
    next: AtomicU64,
    /// Number of batches; as many as time allows if none.
    batches: Option<u64>,
    /// Elements of a batch: accesses, or passes through a chain of operations.
    elements: u64,
    /// Bytes of an element.
    element_bytes: u64,
}

/// A batch: its number and its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    pub index: u64,
    pub elements: u64,
}

impl Queue {
    pub(super) fn new(run: &RunSpec, task: &TaskSpec) -> Self {
        let element_bytes: usize = task
            .steps
            .iter()
            .map(|step| step.access_bytes * step.count)
            .sum();
        let element_bytes = element_bytes as u64;
        let elements = (run.batch_bytes / element_bytes).max(1);
        let batches = match run.length {
            Length::Volume(bytes) if !task.background => {
                Some(bytes.div_ceil(elements * element_bytes))
            }
            _ => None,
        };
        Self {
            next: AtomicU64::new(0),
            batches,
            elements,
            element_bytes,
        }
    }

    pub(super) fn element_bytes(&self) -> u64 {
        self.element_bytes
    }

    /// The next batch, if there is one.
    pub(super) fn take(&self) -> Option<Batch> {
        // Only the number matters: batches hand over no data.
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        self.batches
            .is_none_or(|batches| index < batches)
            .then_some(Batch {
                index,
                elements: self.elements,
            })
    }
}
