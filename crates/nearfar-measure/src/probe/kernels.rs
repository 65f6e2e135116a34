//! The access kernels: sequential reads and writes with the widest vectors of the machine.
//!
//! The only unsafe code of this crate. Both kernels work on plain slices; all they need is that
//! the instruction set was found on the machine before it is used.

use std::hint::black_box;

/// Bytes per step of every kernel: eight cache lines in flight from one loop iteration.
const STEP_BYTES: usize = 512;

/// Which instructions the kernels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessKernel(Width);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Plain 64-bit words, which the compiler vectorises as its target allows.
    Portable,
}

impl AccessKernel {
    /// The widest that this machine has.
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Self(Width::Avx512);
            }
            if is_x86_feature_detected!("avx2") {
                return Self(Width::Avx2);
            }
        }
        Self(Width::Portable)
    }

    /// Its name for results.
    pub const fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => "avx2",
            Width::Portable => "portable",
        }
    }

    /// Reads every byte of `memory` once and returns the exclusive or of its 64-bit words; bytes
    /// beyond the last multiple of 512 are left out.
    pub fn read(self, memory: &[u8]) -> u64 {
        let memory = &memory[..whole_steps(memory.len())];
        black_box(match self.0 {
            // SAFETY: this width is made only by `widest`, which has found AVX-512 F.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { x86::read_avx512(memory) },
            // SAFETY: this width is made only by `widest`, which has found AVX2.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { x86::read_avx2(memory) },
            Width::Portable => read_portable(memory),
        })
    }

    /// Fills `memory` with `word` by ordinary stores; bytes beyond the last multiple of 512 are
    /// left as they are.
    pub fn write(self, memory: &mut [u8], word: u64) {
        let length = whole_steps(memory.len());
        let memory = &mut memory[..length];
        match self.0 {
            // SAFETY: this width is made only by `widest`, which has found AVX-512 F.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { x86::write_avx512(memory, word) },
            // SAFETY: this width is made only by `widest`, which has found AVX2.
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { x86::write_avx2(memory, word) },
            Width::Portable => write_portable(memory, word),
        }
        black_box(memory);
    }
}

fn whole_steps(bytes: usize) -> usize {
    bytes - bytes % STEP_BYTES
}

fn read_portable(memory: &[u8]) -> u64 {
    let mut lanes = [0_u64; 8];
    for line in memory.as_chunks::<64>().0 {
        for (lane, word) in lanes.iter_mut().zip(line.as_chunks::<8>().0) {
            *lane ^= u64::from_ne_bytes(*word);
        }
    }
    lanes.into_iter().fold(0, |all, lane| all ^ lane)
}

fn write_portable(memory: &mut [u8], word: u64) {
    for place in memory.as_chunks_mut::<8>().0 {
        *place = word.to_ne_bytes();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_loadu_si256, _mm256_set1_epi64x, _mm256_setzero_si256,
        _mm256_storeu_si256, _mm256_xor_si256, _mm512_loadu_si512, _mm512_set1_epi64,
        _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
    };

    use super::STEP_BYTES;

    #[target_feature(enable = "avx512f")]
    pub(super) fn read_avx512(memory: &[u8]) -> u64 {
        const LANES: usize = STEP_BYTES / size_of::<__m512i>();
        let mut lanes = [_mm512_setzero_si512(); LANES];
        for step in memory.as_chunks::<STEP_BYTES>().0 {
            for (lane, vector) in lanes.iter_mut().zip(step.as_chunks::<64>().0) {
                // SAFETY: `vector` is 64 readable bytes; the load needs no alignment.
                let loaded = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
                *lane = _mm512_xor_si512(*lane, loaded);
            }
        }
        let all = lanes.into_iter().fold(_mm512_setzero_si512(), |all, lane| {
            // The closure is compiled with the features of the function around it.
            _mm512_xor_si512(all, lane)
        });
        let mut words = [0_u64; 8];
        // SAFETY: `words` is 64 writable bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), all) };
        words.into_iter().fold(0, |all, word| all ^ word)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn write_avx512(memory: &mut [u8], word: u64) {
        let value = _mm512_set1_epi64(word.cast_signed());
        for vector in memory.as_chunks_mut::<64>().0 {
            // SAFETY: `vector` is 64 writable bytes; the store needs no alignment.
            unsafe { _mm512_storeu_si512(vector.as_mut_ptr().cast(), value) };
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn read_avx2(memory: &[u8]) -> u64 {
        const LANES: usize = STEP_BYTES / size_of::<__m256i>();
        let mut lanes = [_mm256_setzero_si256(); LANES];
        for step in memory.as_chunks::<STEP_BYTES>().0 {
            for (lane, vector) in lanes.iter_mut().zip(step.as_chunks::<32>().0) {
                // SAFETY: `vector` is 32 readable bytes; the load needs no alignment.
                let loaded = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
                *lane = _mm256_xor_si256(*lane, loaded);
            }
        }
        let all = lanes.into_iter().fold(_mm256_setzero_si256(), |all, lane| {
            // The closure is compiled with the features of the function around it.
            _mm256_xor_si256(all, lane)
        });
        let mut words = [0_u64; 4];
        // SAFETY: `words` is 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), all) };
        words.into_iter().fold(0, |all, word| all ^ word)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn write_avx2(memory: &mut [u8], word: u64) {
        let value = _mm256_set1_epi64x(word.cast_signed());
        for vector in memory.as_chunks_mut::<32>().0 {
            // SAFETY: `vector` is 32 writable bytes; the store needs no alignment.
            unsafe { _mm256_storeu_si256(vector.as_mut_ptr().cast(), value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every width that can run here.
    fn kernels() -> Vec<AccessKernel> {
        let mut kernels = vec![AccessKernel(Width::Portable), AccessKernel::widest()];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            kernels.push(AccessKernel(Width::Avx2));
        }
        kernels
    }

    #[test]
    fn all_widths_read_every_word() {
        let memory: Vec<u8> = (0..4_096_u32).map(|i| (i * 31 % 251) as u8).collect();
        let expected = memory
            .as_chunks::<8>()
            .0
            .iter()
            .fold(0, |all, word| all ^ u64::from_ne_bytes(*word));
        for kernel in kernels() {
            assert_eq!(kernel.read(&memory), expected, "{kernel:?}");
            // An odd start is read too, only whole steps are.
            let shifted = &memory[3..3 + 1_024];
            assert_eq!(
                kernel.read(&memory[3..3 + 1_030]),
                read_portable(shifted),
                "{kernel:?}"
            );
        }
    }

    #[test]
    fn all_widths_write_every_whole_step() {
        for kernel in kernels() {
            let mut memory = vec![0xEE_u8; 2_048 + 100];
            kernel.write(&mut memory, 0x0102_0304_0506_0708);
            let (written, rest) = memory.split_at(2_048);
            let expected = 0x0102_0304_0506_0708_u64.to_ne_bytes();
            assert!(
                written
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .all(|word| *word == expected),
                "{kernel:?}"
            );
            assert!(rest.iter().all(|byte| *byte == 0xEE), "{kernel:?}");
        }
    }
}
