//! Positions on their way past the caches.
#![allow(unsafe_code)]

use nearfar_model::Probe;

use super::BLOCK_VALUES;

/// Whether the machine has stores that go past the caches: on x86-64, all do.
pub(super) const CAN_STREAM: bool = cfg!(target_arch = "x86_64");

/// Words of a cache line.
const LINE_WORDS: usize = 16;

/// A buffer in the near caches that collects positions and writes them line by line.
///
/// ```text
///              lead      pending
///   staging  |------|#############|.......|      begins at a line
///   positions       |########################    `lead` words past a line
/// ```
///
/// The words of `positions` lie at the same place of their lines as those of the buffer, so that
/// whole lines of the one are whole lines of the other. The first line may be shared with what lies
/// before `positions`, and the last one with what comes later: those go by ordinary stores.
pub(super) struct Staged<'a> {
    staging: Staging,
    /// Words of the buffer in use, those before the first position included.
    filled: usize,
    /// Words at the front of the buffer that are not ours: not zero until the first line is written.
    lead: usize,
    positions: &'a mut [u32],
    written: usize,
}

#[repr(align(64))]
struct Staging([u32; BLOCK_VALUES + LINE_WORDS]);

impl<'a> Staged<'a> {
    pub(super) fn new(positions: &'a mut [u32]) -> Self {
        let lead = positions.as_ptr().addr() / size_of::<u32>() % LINE_WORDS;
        Self {
            staging: Staging([0; _]),
            filled: lead,
            lead,
            positions,
            written: 0,
        }
    }

    /// Room for the matches of one block.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u32] {
        &mut self.staging.0[self.filled..][..BLOCK_VALUES]
    }

    /// Takes the first `matches` words of the room, and writes all lines that are full.
    #[inline]
    pub(super) fn push<P: Probe>(&mut self, matches: usize, probe: &P) {
        self.filled += matches;
        if self.filled < LINE_WORDS {
            return;
        }
        self.write_lead(probe);
        let whole = self.filled / LINE_WORDS * LINE_WORDS;
        if self.lead == 0 {
            self.write_lines(0, whole, probe);
        } else {
            self.lead = 0;
            self.write_lines(LINE_WORDS, whole, probe);
        }
        self.staging.0.copy_within(whole..self.filled, 0);
        self.filled -= whole;
    }

    /// Writes what is left; returns the number of positions.
    pub(super) fn finish<P: Probe>(mut self, probe: &P) -> usize {
        self.write_words(self.lead, self.filled, probe);
        fence();
        self.written
    }

    /// Writes the part of the first line that is ours, if that was not done yet.
    fn write_lead<P: Probe>(&mut self, probe: &P) {
        if self.lead > 0 {
            self.write_words(self.lead, LINE_WORDS, probe);
        }
    }

    /// Writes the words `from..to` of the buffer by ordinary stores.
    fn write_words<P: Probe>(&mut self, from: usize, to: usize, probe: &P) {
        let words = &self.staging.0[from..to];
        let out = &mut self.positions[self.written..][..words.len()];
        tell!(probe.write(out.as_ptr().addr(), size_of_val(out)));
        out.copy_from_slice(words);
        self.written += words.len();
    }

    /// Writes the lines `from..to` of the buffer, counted in words, past the caches.
    #[inline]
    fn write_lines<P: Probe>(&mut self, from: usize, to: usize, probe: &P) {
        let words = &self.staging.0[from..to];
        let out = &mut self.positions[self.written..][..words.len()];
        tell!(probe.write_non_temporal(out.as_ptr().addr(), size_of_val(out)));
        stream(words, out);
        self.written += words.len();
    }
}

/// Copies whole aligned lines by non-temporal stores.
#[cfg(target_arch = "x86_64")]
#[inline]
fn stream(lines: &[u32], out: &mut [u32]) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};

    assert!(lines.len() == out.len() && lines.len().is_multiple_of(LINE_WORDS));
    assert!(lines.as_ptr().addr().is_multiple_of(64) && out.as_ptr().addr().is_multiple_of(64));
    let vectors = size_of_val(lines) / size_of::<__m128i>();
    let from: *const __m128i = lines.as_ptr().cast();
    let to: *mut __m128i = out.as_mut_ptr().cast();
    for vector in 0..vectors {
        // SAFETY: both are `vectors` vectors long and aligned to lines, as asserted. SSE2 is part
        // of x86-64. `finish` fences before anyone else can see the positions.
        unsafe { _mm_stream_si128(to.add(vector), _mm_load_si128(from.add(vector))) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(lines: &[u32], out: &mut [u32]) {
    out.copy_from_slice(lines);
}

/// Orders streaming stores before all later ones: they are outside of the usual order, on which
/// other threads rely.
fn fence() {
    // SAFETY: SSE is part of x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
