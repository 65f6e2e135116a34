//! Time between two instructions.
#![allow(unsafe_code)]

use std::time::Instant;

/// The processor's time stamp counter, by the machine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    ns_per_tick: f64,
    /// Ticks between two readings with nothing in between.
    empty_ticks: u64,
}

impl Ticks {
    /// Compares the counter with the clock, which takes 20 ms.
    pub(crate) fn calibrate() -> Self {
        let (began, first) = (Instant::now(), now());
        while began.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let (elapsed, ticks) = (began.elapsed(), now() - first);
        let mut empty: Vec<u64> = (0..1_001).map(|_| before().abs_diff(after())).collect();
        empty.sort_unstable();
        Self {
            ns_per_tick: elapsed.as_nanos() as f64 / ticks.max(1) as f64,
            empty_ticks: empty[empty.len() / 2],
        }
    }

    /// Nanoseconds of `ticks` between [`before`] and [`after`], less those of the readings.
    pub(crate) fn ns(&self, ticks: u64) -> f64 {
        ticks.saturating_sub(self.empty_ticks) as f64 * self.ns_per_tick
    }
}

/// The counter, in no order with anything.
#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    // SAFETY: every x86-64 processor has a time stamp counter, and Linux lets processes read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The counter once everything before is done, and before anything behind begins.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn before() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the counter; the fences are part of x86-64.
    unsafe {
        std::arch::asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// The counter once everything before is done.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn after() -> u64 {
    before()
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn before() -> u64 {
    now()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn after() -> u64 {
    now()
}
