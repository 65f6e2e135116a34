//! Copies from one target to another.
//!
//! A copy loads a unit of the source and stores it to the target: through the caches, past them, or,
//! with `movdir64b`, line by line without a register between. As the other kernels, it is as good as
//! relaxed atomic accesses to the words that it covers.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

use super::{Accesses, Operation, Pattern, Places, STEP, Target};

/// Copies so many bytes from the first place to the second.
type Copy = unsafe fn(*const u8, *mut u8, usize);

/// How an operation copies accesses of one size on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyKernel {
    access_bytes: usize,
    /// Bytes of each of its stores.
    unit_bytes: usize,
    copy: Copy,
}

impl CopyKernel {
    /// For a copy that is not missing here, and an access size that is a power of two of at least 8.
    pub(crate) fn new(operation: Operation, access_bytes: usize) -> Self {
        assert!(access_bytes.is_power_of_two() && access_bytes >= 8);
        assert!(operation.copies());
        assert_eq!(operation.unavailable(access_bytes), None);
        let (unit_bytes, copy) = choose(operation, access_bytes);
        Self {
            access_bytes,
            unit_bytes,
            copy,
        }
    }

    /// Bytes of each of its stores.
    pub(crate) fn unit_bytes(&self) -> usize {
        self.unit_bytes
    }

    /// Makes the accesses in `target`, with what is at the same places of `source`; at random, with
    /// what is elsewhere in it.
    pub(crate) fn run(&self, source: &Target<'_>, target: &Target<'_>, accesses: &Accesses) {
        let bytes = source.bytes().min(target.bytes());
        assert_eq!(accesses.access_bytes, self.access_bytes);
        assert!(accesses.first_bytes.is_multiple_of(self.access_bytes));
        if accesses.pattern == Pattern::Sequential {
            let length = accesses.count * self.access_bytes;
            assert!(accesses.first_bytes + length <= bytes);
            let from = source.base().wrapping_add(accesses.first_bytes);
            let to = target.base().wrapping_add(accesses.first_bytes);
            // SAFETY: the bytes lie inside of both targets, which begin at lines, at multiples of the
            // access size: so they are aligned to their units, which were found on this machine.
            unsafe { (self.copy)(from, to, length) };
            return;
        }
        assert!(self.access_bytes <= bytes);
        let elsewhere = Accesses {
            seed: accesses.seed ^ STEP.rotate_left(32),
            ..*accesses
        };
        let mut sources = Places::new(&elsewhere, bytes);
        let mut targets = Places::new(accesses, bytes);
        for _ in 0..accesses.count {
            let from = source.base().wrapping_add(sources.next());
            let to = target.base().wrapping_add(targets.next());
            // SAFETY: places lie inside of both targets, at multiples of the access size; as above.
            unsafe { (self.copy)(from, to, self.access_bytes) };
        }
    }
}

/// Bytes of a unit, and the copy that is made of such units.
#[cfg(target_arch = "x86_64")]
fn choose(operation: Operation, access_bytes: usize) -> (usize, Copy) {
    let past = operation == Operation::CopyNonTemporal;
    let pick = |through: Copy, streamed: Copy| if past { streamed } else { through };
    if operation == Operation::CopyDirect {
        return (super::LINE_BYTES, direct);
    }
    match access_bytes {
        8 => (8, pick(words, words_streamed)),
        16 => (16, pick(vectors16, vectors16_streamed)),
        _ if access_bytes >= 64 && is_x86_feature_detected!("avx512f") => {
            (64, pick(vectors64, vectors64_streamed))
        }
        _ if is_x86_feature_detected!("avx2") => (32, pick(vectors32, vectors32_streamed)),
        _ => (16, pick(vectors16, vectors16_streamed)),
    }
}

/// A copy of units of one register.
///
/// # Safety
/// For all of them: both places are valid for so many bytes, a multiple of the unit, and aligned to
/// it, and the machine has the instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! copy_of {
    ($name:ident, $bytes:literal, $register:tt, $load:literal, $store:literal, $leave:literal) => {
        pub(super) unsafe fn $name(from: *const u8, to: *mut u8, bytes: usize) {
            let mut offset = 0;
            while offset < bytes {
                // SAFETY: the caller's.
                unsafe {
                    asm!($load, $store, from = in(reg) from.wrapping_add(offset),
                    to = in(reg) to.wrapping_add(offset), out($register) _,
                    options(nostack, preserves_flags));
                }
                offset += $bytes;
            }
            // SAFETY: only run after instructions of this unit, so the machine has this one.
            unsafe { asm!($leave, out($register) _, options(nostack, preserves_flags)) };
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod units {
    use super::asm;

    copy_of!(
        words,
        8,
        "r11",
        "mov r11, qword ptr [{from}]",
        "mov qword ptr [{to}], r11",
        "nop"
    );
    copy_of!(
        words_streamed,
        8,
        "r11",
        "mov r11, qword ptr [{from}]",
        "movnti qword ptr [{to}], r11",
        "nop"
    );
    copy_of!(
        vectors16,
        16,
        "xmm15",
        "movdqa xmm15, [{from}]",
        "movdqa [{to}], xmm15",
        "nop"
    );
    copy_of!(
        vectors16_streamed,
        16,
        "xmm15",
        "movdqa xmm15, [{from}]",
        "movntdq [{to}], xmm15",
        "nop"
    );
    copy_of!(
        vectors32,
        32,
        "ymm15",
        "vmovdqa ymm15, [{from}]",
        "vmovdqa [{to}], ymm15",
        "vzeroupper"
    );
    copy_of!(
        vectors32_streamed,
        32,
        "ymm15",
        "vmovdqa ymm15, [{from}]",
        "vmovntdq [{to}], ymm15",
        "vzeroupper"
    );
    copy_of!(
        vectors64,
        64,
        "zmm31",
        "vmovdqa64 zmm31, [{from}]",
        "vmovdqa64 [{to}], zmm31",
        "nop"
    );
    copy_of!(
        vectors64_streamed,
        64,
        "zmm31",
        "vmovdqa64 zmm31, [{from}]",
        "vmovntdq [{to}], zmm31",
        "nop"
    );
    copy_of!(direct, 64, "r11", "movdir64b {to}, [{from}]", "nop", "nop");
}

#[cfg(target_arch = "x86_64")]
use units::{
    direct, vectors16, vectors16_streamed, vectors32, vectors32_streamed, vectors64,
    vectors64_streamed, words, words_streamed,
};

/// Words by relaxed atomics.
#[cfg(not(target_arch = "x86_64"))]
fn choose(_operation: Operation, _access_bytes: usize) -> (usize, Copy) {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// # Safety
    /// Both places are valid for so many bytes, a multiple of 8, and aligned to it.
    unsafe fn words(from: *const u8, to: *mut u8, bytes: usize) {
        for offset in (0..bytes).step_by(8) {
            let from: *const AtomicU64 = from.wrapping_add(offset).cast();
            let to: *const AtomicU64 = to.wrapping_add(offset).cast_const().cast();
            // SAFETY: the caller's; targets are accessed atomically.
            unsafe { (*to).store((*from).load(Ordering::Relaxed), Ordering::Relaxed) };
        }
    }
    (8, words)
}
