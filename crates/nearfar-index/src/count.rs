//! Counts that many threads change without meeting.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Cells that threads spread over.
pub(crate) const CELLS: usize = 32;

/// This thread's cell, dealt out at first use.
#[inline]
pub(crate) fn cell_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static INDEX: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
    }
    let index = INDEX.get();
    if index < CELLS {
        return index;
    }
    let dealt = NEXT.fetch_add(1, Relaxed) % CELLS;
    INDEX.set(dealt);
    dealt
}

/// One cell, on lines of its own. It may wrap below zero: only the sum means something.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell(AtomicU64);

/// A number of things, exact when nobody adds or takes meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Count {
    cells: Box<[Cell; CELLS]>,
}

impl Count {
    /// Counts one more.
    #[inline]
    pub(crate) fn add_one(&self) {
        self.cells[cell_index()].0.fetch_add(1, Relaxed);
    }

    /// Counts one less.
    #[inline]
    pub(crate) fn take_one(&self) {
        self.cells[cell_index()].0.fetch_sub(1, Relaxed);
    }

    /// The number.
    pub(crate) fn get(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.0.load(Relaxed));
        let sum = cells.fold(0, u64::wrapping_add);
        // While others are at it, one can be seen leaving that was not seen coming.
        if sum > i64::MAX as u64 {
            0
        } else {
            sum as usize
        }
    }
}
