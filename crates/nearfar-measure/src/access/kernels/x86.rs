//! The instructions of x86-64.
#![allow(unsafe_code)]

use std::arch::asm;

use super::ticks::{after, before};
use super::{Accesses, LINE_BYTES, Operation, Pattern, Places, Target};

/// Line that direct stores copy.
#[repr(align(64))]
struct Line([u8; LINE_BYTES]);
static DIRECT_LINE: Line = Line([0xA5; LINE_BYTES]);

/// Why this machine lacks an operation.
pub(super) fn missing(operation: Operation) -> Option<String> {
    let leaf = std::arch::x86_64::__cpuid_count(7, 0);
    let lacks = |has: bool, what: &str| (!has).then(|| format!("this machine has no {what}"));
    match operation {
        Operation::WriteDirect | Operation::CopyDirect => {
            lacks(leaf.ecx >> 28 & 1 == 1, "movdir64b")
        }
        Operation::WriteFlush => lacks(leaf.ebx >> 24 & 1 == 1, "clwb"),
        _ => None,
    }
}

/// One register's worth of an access.
///
/// # Safety
/// For all functions: `place` is valid for so many bytes and aligned to them, and the machine has
/// the instructions of the unit.
trait Unit {
    const BYTES: usize;
    unsafe fn load(place: *const u8);
    unsafe fn store(place: *mut u8);
    unsafe fn store_non_temporal(place: *mut u8);
    /// Ends a run of these instructions.
    fn leave() {}
}

/// A general register.
struct Word;
/// A vector register of SSE2, which is part of x86-64.
struct Vector16;
/// A vector register of AVX.
struct Vector32;
/// A vector register of AVX-512. One of the upper sixteen, which need no clearing afterwards.
struct Vector64;

impl Unit for Word {
    const BYTES: usize = 8;
    #[inline(always)]
    unsafe fn load(place: *const u8) {
        // SAFETY: the caller's.
        unsafe {
            asm!("mov {v}, qword ptr [{p}]", p = in(reg) place, v = out(reg) _,
            options(nostack, preserves_flags, readonly));
        }
    }
    #[inline(always)]
    unsafe fn store(place: *mut u8) {
        // SAFETY: the caller's.
        unsafe {
            asm!("mov qword ptr [{p}], {v}", p = in(reg) place, v = in(reg) u64::MAX,
            options(nostack, preserves_flags));
        }
    }
    #[inline(always)]
    unsafe fn store_non_temporal(place: *mut u8) {
        // SAFETY: the caller's.
        unsafe {
            asm!("movnti qword ptr [{p}], {v}", p = in(reg) place, v = in(reg) u64::MAX,
            options(nostack, preserves_flags));
        }
    }
}

/// A vector unit: its loads and stores; before a store, the register is set to all ones.
macro_rules! vector_unit {
    ($unit:ty, $bytes:literal, $clobber:tt, $set:literal, $load:literal, $store:literal,
     $stream:literal, $leave:literal) => {
        impl Unit for $unit {
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn load(place: *const u8) {
                // SAFETY: the caller's.
                unsafe {
                    asm!($load, p = in(reg) place, out($clobber) _,
                    options(nostack, preserves_flags, readonly));
                }
            }
            #[inline(always)]
            unsafe fn store(place: *mut u8) {
                // SAFETY: the caller's.
                unsafe {
                    asm!($set, $store, p = in(reg) place, out($clobber) _,
                    options(nostack, preserves_flags));
                }
            }
            #[inline(always)]
            unsafe fn store_non_temporal(place: *mut u8) {
                // SAFETY: the caller's.
                unsafe {
                    asm!($set, $stream, p = in(reg) place, out($clobber) _,
                    options(nostack, preserves_flags));
                }
            }
            #[inline(always)]
            fn leave() {
                // SAFETY: only run after instructions of this unit, so the machine has this one.
                unsafe { asm!($leave, out($clobber) _, options(nostack, preserves_flags)) };
            }
        }
    };
}

vector_unit!(
    Vector16,
    16,
    "xmm15",
    "pcmpeqd xmm15, xmm15",
    "movdqa xmm15, [{p}]",
    "movdqa [{p}], xmm15",
    "movntdq [{p}], xmm15",
    "nop"
);
vector_unit!(
    Vector32,
    32,
    "ymm15",
    "vpcmpeqd ymm15, ymm15, ymm15",
    "vmovdqa ymm15, [{p}]",
    "vmovdqa [{p}], ymm15",
    "vmovntdq [{p}], ymm15",
    "vzeroupper"
);
vector_unit!(
    Vector64,
    64,
    "zmm31",
    "vpternlogd zmm31, zmm31, zmm31, 255",
    "vmovdqa64 zmm31, [{p}]",
    "vmovdqa64 [{p}], zmm31",
    "vmovntdq [{p}], zmm31",
    "nop"
);

/// What is done with the units of an access.
///
/// # Safety
/// As for [`Unit`], with `place` valid for `bytes` and aligned to the smaller of them and a line,
/// and `bytes` a multiple of the unit.
trait Act {
    unsafe fn access<U: Unit>(place: *mut u8, bytes: usize);
}

struct Read;
struct Write;
struct WriteNonTemporal;
struct WriteDirect;
struct WriteFlush;

/// Calls `unit` for each of the units of an access.
#[inline(always)]
fn each<U: Unit>(place: *mut u8, bytes: usize, unit: impl Fn(*mut u8)) {
    let mut offset = 0;
    while offset < bytes {
        unit(place.wrapping_add(offset));
        offset += U::BYTES;
    }
}

impl Act for Read {
    #[inline(always)]
    unsafe fn access<U: Unit>(place: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        each::<U>(place, bytes, |unit| unsafe { U::load(unit) });
    }
}

impl Act for Write {
    #[inline(always)]
    unsafe fn access<U: Unit>(place: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        each::<U>(place, bytes, |unit| unsafe { U::store(unit) });
    }
}

impl Act for WriteNonTemporal {
    #[inline(always)]
    unsafe fn access<U: Unit>(place: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        each::<U>(place, bytes, |unit| unsafe { U::store_non_temporal(unit) });
    }
}

impl Act for WriteDirect {
    #[inline(always)]
    unsafe fn access<U: Unit>(place: *mut u8, bytes: usize) {
        let mut offset = 0;
        while offset < bytes {
            // SAFETY: the caller's; the source is a line.
            unsafe {
                asm!("movdir64b {to}, [{from}]", to = in(reg) place.wrapping_add(offset),
                from = in(reg) &raw const DIRECT_LINE.0, options(nostack, preserves_flags));
            }
            offset += LINE_BYTES;
        }
    }
}

impl Act for WriteFlush {
    #[inline(always)]
    unsafe fn access<U: Unit>(place: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe {
            Read::access::<U>(place, bytes);
            Write::access::<U>(place, bytes);
            write_back(place, bytes);
        }
    }
}

/// Writes the lines of an access back to memory, and waits.
///
/// # Safety
/// The lines are mapped, and the machine has `clwb`.
#[inline(always)]
unsafe fn write_back(place: *mut u8, bytes: usize) {
    let mut offset = 0;
    while offset < bytes {
        // SAFETY: the caller's.
        unsafe {
            asm!("clwb [{p}]", p = in(reg) place.wrapping_add(offset),
            options(nostack, preserves_flags));
        }
        offset += LINE_BYTES;
    }
    fence();
}

/// Waits until all accesses are done.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: part of x86-64.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) };
}

/// Waits until all reads are done: nothing behind it begins before.
#[inline(always)]
pub(crate) fn await_reads() {
    // SAFETY: part of x86-64.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
}

/// How an operation makes accesses of one size on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    access_bytes: usize,
    /// Bytes of each of its instructions.
    unit_bytes: usize,
    run: unsafe fn(&Target<'_>, &Accesses),
    one: unsafe fn(*mut u8, usize),
}

impl Kernel {
    /// For an operation that is no chase, no copy and not missing here, and an access size that is a
    /// power of two of at least 8.
    pub(crate) fn new(operation: Operation, access_bytes: usize) -> Self {
        assert!(access_bytes.is_power_of_two() && access_bytes >= 8);
        assert_eq!(operation.unavailable(access_bytes), None);
        match operation {
            Operation::Read | Operation::Chase => Self::of::<Read>(access_bytes),
            Operation::Write => Self::of::<Write>(access_bytes),
            Operation::WriteNonTemporal => Self::of::<WriteNonTemporal>(access_bytes),
            Operation::WriteDirect => Self::of::<WriteDirect>(access_bytes),
            Operation::WriteFlush => Self::of::<WriteFlush>(access_bytes),
            Operation::Copy | Operation::CopyNonTemporal | Operation::CopyDirect => {
                unreachable!("a copy has a kernel of its own")
            }
        }
    }

    fn of<A: Act>(access_bytes: usize) -> Self {
        match access_bytes {
            8 => Self::with::<A, Word>(access_bytes),
            16 => Self::with::<A, Vector16>(access_bytes),
            _ if access_bytes >= 64 && is_x86_feature_detected!("avx512f") => {
                Self::with::<A, Vector64>(access_bytes)
            }
            _ if is_x86_feature_detected!("avx2") => Self::with::<A, Vector32>(access_bytes),
            _ => Self::with::<A, Vector16>(access_bytes),
        }
    }

    fn with<A: Act, U: Unit>(access_bytes: usize) -> Self {
        Self {
            access_bytes,
            unit_bytes: U::BYTES,
            run: run::<A, U>,
            one: A::access::<U>,
        }
    }

    /// Bytes of each of its instructions.
    pub(crate) fn unit_bytes(&self) -> usize {
        self.unit_bytes
    }

    /// Makes the accesses.
    pub(crate) fn run(&self, target: &Target<'_>, accesses: &Accesses) {
        assert_eq!(accesses.access_bytes, self.access_bytes);
        let end = match accesses.pattern {
            Pattern::Sequential => accesses.first_bytes + accesses.count * self.access_bytes,
            Pattern::Random => self.access_bytes,
        };
        assert!(end <= target.bytes() && accesses.first_bytes.is_multiple_of(self.access_bytes));
        // SAFETY: the accesses lie inside of the target, which begins at a line, at multiples of
        // their size: so they are aligned to their units. The units were found on this machine.
        unsafe { (self.run)(target, accesses) };
    }
}

/// # Safety
/// The accesses lie inside of the target, and the machine has the instructions.
unsafe fn run<A: Act, U: Unit>(target: &Target<'_>, accesses: &Accesses) {
    match accesses.pattern {
        Pattern::Sequential => {
            let first = target.base().wrapping_add(accesses.first_bytes);
            let bytes = accesses.count * accesses.access_bytes;
            // SAFETY: the caller's.
            unsafe { sweep::<A, U>(first, bytes, accesses.access_bytes) };
        }
        Pattern::Random => {
            let mut places = Places::new(accesses, target.bytes());
            for _ in 0..accesses.count {
                let place = target.base().wrapping_add(places.next());
                // SAFETY: the caller's; places lie inside of the target.
                unsafe { A::access::<U>(place, accesses.access_bytes) };
            }
        }
    }
    U::leave();
}

/// Accesses side by side. Where an access is one instruction, eight are made per turn, so that the
/// loop does not cost more than they do.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn sweep<A: Act, U: Unit>(first: *mut u8, bytes: usize, access_bytes: usize) {
    let mut offset = 0;
    let turn = 8 * U::BYTES;
    if access_bytes == U::BYTES {
        while offset + turn <= bytes {
            for unit in 0..8 {
                let place = first.wrapping_add(offset + unit * U::BYTES);
                // SAFETY: the caller's.
                unsafe { A::access::<U>(place, U::BYTES) };
            }
            offset += turn;
        }
    }
    while offset < bytes {
        // SAFETY: the caller's.
        unsafe { A::access::<U>(first.wrapping_add(offset), access_bytes) };
        offset += access_bytes;
    }
}

/// Ticks of one access at `offset`, with everything before it done and itself waited for. What a
/// cached write needs in the caches is fetched before the time begins.
pub(crate) fn sampled(
    kernel: &Kernel,
    operation: Operation,
    target: &Target<'_>,
    offset: usize,
) -> u64 {
    assert!(offset + kernel.access_bytes <= target.bytes());
    assert!(offset.is_multiple_of(kernel.access_bytes));
    let place = target.base().wrapping_add(offset);
    if operation == Operation::WriteFlush {
        // SAFETY: the access lies inside of the target; a word can be read everywhere.
        unsafe { Read::access::<Word>(place, kernel.access_bytes) };
    }
    fence();
    let began = before();
    // SAFETY: as in `Kernel::run`.
    unsafe { (kernel.one)(place, kernel.access_bytes) };
    fence();
    after() - began
}
