//! Words of 8 bytes by relaxed atomics, where there are no instructions to choose from.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use super::ticks::{after, before};
use super::{Accesses, Operation, Pattern, Places, Target};

/// Why this machine lacks an operation.
pub(super) fn missing(operation: Operation) -> Option<String> {
    match operation {
        Operation::Read | Operation::Write | Operation::Chase | Operation::Copy => None,
        _ => Some(format!("{operation} is known for x86-64 only")),
    }
}

/// How an operation makes accesses of one size on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    access_bytes: usize,
    writes: bool,
}

impl Kernel {
    /// For an operation that is not missing here, and an access size that is a power of two of at
    /// least 8.
    pub(crate) fn new(operation: Operation, access_bytes: usize) -> Self {
        assert!(access_bytes.is_power_of_two() && access_bytes >= 8);
        assert_eq!(operation.unavailable(access_bytes), None);
        Self {
            access_bytes,
            writes: operation.writes(),
        }
    }

    /// Bytes of each of its instructions.
    pub(crate) fn unit_bytes(&self) -> usize {
        8
    }

    /// Makes the accesses.
    pub(crate) fn run(&self, target: &Target<'_>, accesses: &Accesses) {
        let mut places = Places::new(accesses, target.bytes());
        for index in 0..accesses.count {
            let offset = match accesses.pattern {
                Pattern::Sequential => accesses.first_bytes + index * self.access_bytes,
                Pattern::Random => places.next(),
            };
            self.one(target, offset);
        }
    }

    fn one(&self, target: &Target<'_>, offset: usize) {
        assert!(offset + self.access_bytes <= target.bytes() && offset.is_multiple_of(8));
        for word in (offset..offset + self.access_bytes).step_by(8) {
            let place: *const AtomicU64 = target.base().wrapping_add(word).cast();
            // SAFETY: inside of the target and aligned; targets are accessed atomically.
            let place = unsafe { &*place };
            if self.writes {
                place.store(u64::MAX, Ordering::Relaxed);
            } else {
                std::hint::black_box(place.load(Ordering::Relaxed));
            }
        }
    }
}

/// Waits until all accesses are done.
pub(crate) fn fence() {
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// Waits until all reads are done.
pub(crate) fn await_reads() {
    fence();
}

/// Ticks of one access at `offset`.
pub(crate) fn sampled(
    kernel: &Kernel,
    _operation: Operation,
    target: &Target<'_>,
    offset: usize,
) -> u64 {
    fence();
    let began = before();
    kernel.one(target, offset);
    fence();
    after() - began
}
