//! Cache lines written back to memory, and dropped.

use std::sync::atomic::{Ordering, fence};

const LINE_BYTES: usize = 64;

/// Writes the lines of `words` back to memory and waits until they are there (Intel 64 and IA-32
/// Architectures Software Developer's Manual, volume 1, section 11.5: `CLWB`, `CLFLUSHOPT`,
/// `SFENCE`). Lines may stay in the cache.
pub fn write_back_lines(words: &[std::sync::atomic::AtomicU64]) {
    each_line(words, write_back_line);
    store_fence();
}

/// Drops the lines of `words` from this processor's caches, so that they are read from memory next;
/// what this processor has written to them and not yet written back is written back first.
pub fn drop_lines(words: &[std::sync::atomic::AtomicU64]) {
    fence(Ordering::SeqCst);
    each_line(words, drop_line);
    fence(Ordering::SeqCst);
}

fn each_line(words: &[std::sync::atomic::AtomicU64], action: impl Fn(*const u8)) {
    let range = words.as_ptr_range();
    let (mut line, end) = (range.start.cast::<u8>(), range.end.cast::<u8>());
    line = line.map_addr(|addr| addr & !(LINE_BYTES - 1));
    while line < end {
        action(line);
        line = line.wrapping_add(LINE_BYTES);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn write_back_line(line: *const u8) {
    use std::arch::asm;
    use std::sync::OnceLock;

    static HAS_CLWB: OnceLock<bool> = OnceLock::new();
    let has_clwb = *HAS_CLWB.get_or_init(|| {
        let leaves = std::arch::x86_64::__cpuid(0).eax;
        leaves >= 7 && (std::arch::x86_64::__cpuid_count(7, 0).ebx >> 24) & 1 == 1
    });
    if has_clwb {
        // SAFETY: the instruction changes no memory and faults as a load would; the line belongs to
        // words that can be read; the processor has the instruction.
        unsafe { asm!("clwb [{line}]", line = in(reg) line, options(nostack, preserves_flags)) };
    } else {
        drop_line(line);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn drop_line(line: *const u8) {
    // SAFETY: the line belongs to words that can be read; every x86-64 processor has the
    // instruction.
    unsafe { std::arch::x86_64::_mm_clflush(line) };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn store_fence() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn write_back_line(line: *const u8) {
    // SAFETY: cleaning a line to the point of coherency is allowed in user space on Linux and
    // changes no memory (Arm Architecture Reference Manual, DC CVAC).
    unsafe { std::arch::asm!("dc cvac, {line}", line = in(reg) line, options(nostack)) };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn drop_line(line: *const u8) {
    // SAFETY: as above (DC CIVAC).
    unsafe { std::arch::asm!("dc civac, {line}", line = in(reg) line, options(nostack)) };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn store_fence() {
    // SAFETY: a barrier.
    unsafe { std::arch::asm!("dsb sy", options(nostack)) };
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn write_back_line(_line: *const u8) {}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn drop_line(_line: *const u8) {}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn store_fence() {
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn lines_keep_what_was_written() {
        let words: Vec<_> = (0..1000).map(AtomicU64::new).collect();
        words[500].store(7, Ordering::Relaxed);
        write_back_lines(&words[3..900]);
        drop_lines(&words[3..900]);
        assert_eq!(words[500].load(Ordering::Relaxed), 7);
    }
}
