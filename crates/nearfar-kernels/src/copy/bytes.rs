//! Copies of bytes by each method.
#![allow(unsafe_code)]

use super::idxd;
use super::method::CopyMethod;

#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE_BYTES: usize = 64;

/// Copies all bytes of `from` to `to`, which are as many. What other threads see of them afterwards is
/// ordered as by ordinary stores.
pub(super) fn copy(method: CopyMethod, from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy has the length of its source");
    match method {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        CopyMethod::NonTemporal => by_lines(from, to, x86::stream),
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        CopyMethod::Movdir64b if has_movdir64b() => by_lines(from, to, x86::move_directly),
        CopyMethod::Idxd => match idxd::queue() {
            Ok(queue) => queue.copy(from, to),
            Err(_) => through_caches(from, to),
        },
        _ => through_caches(from, to),
    }
}

/// Bytes that `memcpy` copies by vectors: longer blocks may be one instruction (`rep movsb`).
const VECTOR_BYTES: usize = 2048;

/// Copies by `memcpy`, in short parts where long blocks are slow: with one instruction, Zen 3 copies an eighth as much
/// to an address up to 31 bytes behind that of the source, modulo 4096.
pub(super) fn through_caches(from: &[u8], to: &mut [u8]) {
    let behind = to.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) % 4096;
    if (1..32).contains(&behind) {
        for (from, to) in from.chunks(VECTOR_BYTES).zip(to.chunks_mut(VECTOR_BYTES)) {
            to.copy_from_slice(from);
        }
    } else {
        to.copy_from_slice(from);
    }
}

/// Whole aligned lines of the destination by `lines`, what is left around them by ordinary stores.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn by_lines(from: &[u8], to: &mut [u8], lines: fn(&[u8], &mut [u8])) {
    let before = to.as_ptr().align_offset(LINE_BYTES).min(to.len());
    let (from_before, from) = from.split_at(before);
    let (to_before, to) = to.split_at_mut(before);
    to_before.copy_from_slice(from_before);
    let whole = to.len() / LINE_BYTES * LINE_BYTES;
    let (to_lines, to_after) = to.split_at_mut(whole);
    lines(&from[..whole], to_lines);
    to_after.copy_from_slice(&from[whole..]);
    // SAFETY: SSE is part of x86-64. Orders the stores past the caches before all later ones, by which
    // other threads learn of the copy.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Whether the processor has `MOVDIR64B`.
pub(super) fn has_movdir64b() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::__cpuid_count;
        const STRUCTURED_FEATURES: u32 = 7;
        const MOVDIR64B: u32 = 1 << 28;
        let highest = __cpuid_count(0, 0).eax;
        highest >= STRUCTURED_FEATURES && __cpuid_count(STRUCTURED_FEATURES, 0).ecx & MOVDIR64B != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    use super::LINE_BYTES;

    /// Whole lines, the destination aligned.
    fn check(from: &[u8], to: &[u8]) {
        assert!(from.len() == to.len() && to.len().is_multiple_of(LINE_BYTES));
        assert!(to.is_empty() || to.as_ptr().addr().is_multiple_of(LINE_BYTES));
    }

    pub(super) fn stream(from: &[u8], to: &mut [u8]) {
        check(from, to);
        let source: *const __m128i = from.as_ptr().cast();
        let destination: *mut __m128i = to.as_mut_ptr().cast();
        for vector in 0..from.len() / size_of::<__m128i>() {
            // SAFETY: both are as many vectors long, the destination is aligned, as checked; SSE2 is part
            // of x86-64. `by_lines` fences.
            unsafe {
                let value = _mm_loadu_si128(source.add(vector));
                _mm_stream_si128(destination.add(vector), value);
            }
        }
    }

    pub(super) fn move_directly(from: &[u8], to: &mut [u8]) {
        check(from, to);
        let lines = from
            .chunks_exact(LINE_BYTES)
            .zip(to.chunks_exact_mut(LINE_BYTES));
        for (source, destination) in lines {
            // SAFETY: `copy` has found the instruction on this machine; source and destination are 64
            // bytes, the latter aligned, as checked. `by_lines` fences.
            unsafe {
                std::arch::asm!(
                    "movdir64b {destination}, [{source}]",
                    destination = in(reg) destination.as_mut_ptr(),
                    source = in(reg) source.as_ptr(),
                    options(nostack, preserves_flags)
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_blocks_at_distances_modulo_a_page() {
        let source: Vec<u8> = (0..16_384_u32)
            .map(|byte| (byte * 7 + byte / 256) as u8)
            .collect();
        let begin = source.as_ptr().align_offset(4096);
        for length in [2047, 2048, 2049, 5000, 8192] {
            let from = &source[begin..][..length];
            for behind in [0, 1, 16, 31, 32, 4095] {
                let mut bytes = vec![0xEE_u8; 20_000];
                let page = bytes[1..].as_ptr().align_offset(4096) + 1;
                let begin = page + behind;
                copy(CopyMethod::Cached, from, &mut bytes[begin..][..length]);
                assert_eq!(&bytes[begin..][..length], from, "{length} {behind}");
                assert_eq!((bytes[begin - 1], bytes[begin + length]), (0xEE, 0xEE));
            }
        }
    }

    #[test]
    fn every_method_copies_every_length_at_every_alignment() {
        let source: Vec<u8> = (0..600_u32).map(|byte| (byte * 7) as u8).collect();
        for method in CopyMethod::ALL {
            for length in (0..200).chain([511, 512, 530]) {
                for shift in [0, 1, 8, 63] {
                    let mut to = vec![0xEE_u8; shift + length + 8];
                    let from = &source[shift / 2..][..length];
                    copy(method, from, &mut to[shift..][..length]);
                    assert_eq!(&to[shift..][..length], from, "{method} {length} {shift}");
                    let around = to[..shift].iter().chain(&to[shift + length..]);
                    assert!(around.into_iter().all(|byte| *byte == 0xEE), "{method}");
                }
            }
        }
    }
}
