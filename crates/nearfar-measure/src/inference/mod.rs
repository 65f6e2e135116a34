//! Matrices of weights in placed memory, multiplied with a vector one after the other: what a small language model asks of
//! memory for each token (mao-2025, section IV).
//!
//! All weights are read once for a token, in order; attention, whose memory grows with the text, is left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nearfar_kernels::{NotWords, product, words, words_mut};
use nearfar_memory::{MemorySystem, PageSize, Placement, Region, RegionError, RegionOptions};
use nearfar_model::Native;
use serde_json::json;

use crate::divided::divided;
use crate::random::SplitMix64;
use crate::results::{Kind, Metric};
use crate::statistics::Summary;

/// Rows and columns of every matrix (TinyLlama has 2,048).
pub const WIDTH: usize = 2048;

/// Bytes of a matrix.
pub const MATRIX_BYTES: usize = WIDTH * WIDTH * size_of::<f32>();

/// Rows that a thread takes at a time.
const PART_ROWS: usize = 64;

/// Why there are no weights.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// They get no memory.
    #[error("no memory for the weights")]
    Region(#[from] RegionError),
    /// A region is no array of numbers.
    #[error(transparent)]
    Words(#[from] NotWords),
}

/// Weights in one placement.
#[derive(Debug)]
pub struct PlacedWeights {
    weights: Region,
}

impl PlacedWeights {
    /// So many matrices of random weights where `placement` says, on huge pages where the machine gives some. The same
    /// seed gives the same weights.
    ///
    /// # Errors
    /// [`WeightsError`]; nothing is left behind.
    pub fn new(
        system: &Arc<MemorySystem>,
        matrices: usize,
        seed: u64,
        placement: &Placement,
    ) -> Result<Self, WeightsError> {
        let options = RegionOptions {
            page_size: PageSize::Huge,
            ..RegionOptions::default()
        };
        let bytes = matrices.saturating_mul(MATRIX_BYTES);
        let mut weights = Region::allocate(system, bytes, placement, options)?;
        let mut random = SplitMix64::new(seed);
        // Two of each random number, between -1 and 1.
        for pair in words_mut(weights.as_mut_slice())?.chunks_mut(2) {
            let bits = random.next();
            for (weight, half) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
                *weight = (half as f32 / 2_147_483_648.0 - 1.0).to_bits();
            }
        }
        Ok(Self { weights })
    }

    /// Bytes of all weights, which a token reads.
    pub fn bytes(&self) -> usize {
        self.weights.len()
    }

    /// Makes one token of the one before with so many threads: multiplies it with all matrices, and brings each product to
    /// the length of 1. The seconds that it took; `None` if it was stopped.
    ///
    /// # Errors
    /// [`WeightsError::Words`].
    pub fn token(
        &self,
        token: &mut Vec<f32>,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<Option<f64>, WeightsError> {
        let weights = words(self.weights.as_slice())?;
        let mut next = vec![0.0; WIDTH];
        let began = Instant::now();
        for matrix in weights.chunks_exact(WIDTH * WIDTH) {
            let from = &**token;
            let parts = matrix
                .chunks(PART_ROWS * WIDTH)
                .zip(next.chunks_mut(PART_ROWS));
            divided(threads, stop, parts, |(rows, found)| {
                product(rows, from, found, &Native);
                0.0
            });
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let length = next
                .iter()
                .map(|number| number * number)
                .sum::<f32>()
                .sqrt();
            next.iter_mut().for_each(|number| *number /= length);
            std::mem::swap(token, &mut next);
        }
        Ok(Some(began.elapsed().as_secs_f64()))
    }
}

/// The first token.
pub fn first_token() -> Vec<f32> {
    vec![1.0 / (WIDTH as f32).sqrt(); WIDTH]
}

/// `token_seconds` over all tokens, and what they were made with. None without tokens.
pub fn token_metrics(weights: &PlacedWeights, threads: usize, seconds: &[f64]) -> Vec<Metric> {
    let Some(summary) = Summary::of(seconds.iter().copied()) else {
        return Vec::new();
    };
    let measured = |name: &str, value: f64, unit: &str| {
        Metric::new(name, value, unit, Kind::Measured).with("threads", threads)
    };
    let bytes = weights.bytes() as f64;
    vec![
        Metric::of_runs("token_seconds", &summary, "s", Kind::Measured)
            .with("threads", threads)
            .with("values", json!(seconds)),
        measured("weights_bytes_per_s", bytes / summary.median, "B/s"),
        measured("weights_bytes", bytes, "B"),
    ]
}

#[cfg(test)]
mod tests {
    use nearfar_memory::{Budgets, TierId};
    use nearfar_topology::Topology;

    use super::*;

    fn placed(matrices: usize) -> PlacedWeights {
        let topology = Topology::this_machine().unwrap();
        let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
        PlacedWeights::new(&system, matrices, 3, &Placement::Bind(TierId::NEAR)).unwrap()
    }

    /// The definition, in numbers of 8 bytes.
    fn by_definition(weights: &[u32]) -> Vec<f64> {
        let mut token: Vec<f64> = first_token().into_iter().map(f64::from).collect();
        for matrix in weights.chunks(WIDTH * WIDTH) {
            let rows = matrix.chunks(WIDTH);
            let sum = |row: &[u32]| -> f64 {
                let of_row = row.iter().zip(&token);
                of_row
                    .map(|(weight, number)| f64::from(f32::from_bits(*weight)) * number)
                    .sum()
            };
            let next: Vec<f64> = rows.map(sum).collect();
            let length = next
                .iter()
                .map(|number| number * number)
                .sum::<f64>()
                .sqrt();
            token = next.into_iter().map(|number| number / length).collect();
        }
        token
    }

    #[test]
    fn a_token_is_that_of_the_definition_for_any_number_of_threads() {
        let weights = placed(2);
        assert_eq!(weights.bytes(), 2 * MATRIX_BYTES);
        let expected = by_definition(words(weights.weights.as_slice()).unwrap());
        let never = AtomicBool::new(false);
        let mut of_one_thread = Vec::new();
        for threads in [1, 3] {
            let mut token = first_token();
            let seconds = weights.token(&mut token, threads, &never).unwrap();
            assert!(seconds > Some(0.0));
            let off = token
                .iter()
                .zip(&expected)
                .map(|(a, b)| (f64::from(*a) - b).abs());
            assert!(off.fold(0.0, f64::max) < 1e-5);
            match of_one_thread.is_empty() {
                true => of_one_thread = token,
                false => assert_eq!(token, of_one_thread),
            }
        }
        let stopped = weights.token(&mut first_token(), 2, &AtomicBool::new(true));
        assert_eq!(stopped.unwrap(), None);
        assert!(token_metrics(&weights, 1, &[]).is_empty());
        let metrics = token_metrics(&weights, 1, &[4.0, 2.0, 8.0]);
        let rate = metrics
            .iter()
            .find(|metric| metric.metric == "weights_bytes_per_s");
        assert_eq!(
            rate.unwrap().value.get(),
            Some(2.0 * MATRIX_BYTES as f64 / 4.0)
        );
    }
}
