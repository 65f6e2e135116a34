//! Prefetches by software.

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Asks for the line at `address`, which may be anywhere: nothing is read.
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: a prefetch of any address is harmless, and changes nothing that Rust can see.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{0}]",
                in(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
