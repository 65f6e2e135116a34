//! A matrix in memory of any tier times a vector: what each token of a language model asks of its weights.

use nearfar_model::Probe;

/// Numbers that are multiplied at a time, whose sums are kept apart: what vectors have room for.
const LANES: usize = 16;

/// The product of a matrix and a vector: for each of `product`, the sum over a row of the matrix. Rows follow each other
/// in `weights`, which are 4-byte floating-point numbers as their bits ([`f32::to_bits`]). Reads every weight once, in
/// order. Threads may divide the rows.
///
/// # Panics
/// Where there are not as many weights as `product` has numbers times `vector` has.
///
/// ```
/// use nearfar_kernels::product;
/// use nearfar_model::Native;
///
/// let weights = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_bits);
/// let mut found = [0.0; 2];
/// product(&weights, &[10.0, 1.0], &mut found, &Native);
/// assert_eq!(found, [12.0, 34.0]);
/// ```
pub fn product<P: Probe>(weights: &[u32], vector: &[f32], product: &mut [f32], probe: &P) {
    assert_eq!(weights.len(), vector.len() * product.len());
    if vector.is_empty() {
        product.fill(0.0);
        return;
    }
    for (row, sum) in weights.chunks_exact(vector.len()).zip(product) {
        tell!(probe.stream(row.as_ptr().addr(), size_of_val(row)));
        tell!(probe.stream(vector.as_ptr().addr(), size_of_val(vector)));
        *sum = row_sum(row, vector);
        tell!(probe.write(std::ptr::from_ref(sum).addr(), size_of_val(sum)));
    }
    let _ = probe;
}

fn row_sum(row: &[u32], vector: &[f32]) -> f32 {
    let (weights, rest) = row.as_chunks::<LANES>();
    let (numbers, numbers_rest) = vector.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (weights, numbers) in weights.iter().zip(numbers) {
        for ((sum, weight), number) in sums.iter_mut().zip(weights).zip(numbers) {
            *sum += f32::from_bits(*weight) * number;
        }
    }
    let rest = rest.iter().zip(numbers_rest);
    let rest: f32 = rest
        .map(|(weight, number)| f32::from_bits(*weight) * number)
        .sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use nearfar_model::Native;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_are_those_of_the_definition(
            rows in 0_usize..9,
            vector in proptest::collection::vec(-1.0_f32..1.0, 0..70),
            seed in 1_u32..1000,
        ) {
            let weight = |at: usize| ((at as u32).wrapping_mul(seed).wrapping_mul(2_654_435_761) as f32) / 4e9 - 0.5;
            let columns = vector.len();
            let weights: Vec<f32> = (0..rows * columns).map(weight).collect();
            let bits: Vec<u32> = weights.iter().copied().map(f32::to_bits).collect();
            let mut found = vec![7.0; rows];
            product(&bits, &vector, &mut found, &Native);
            for (row, found) in found.iter().enumerate() {
                let of_row = weights[row * columns..][..columns].iter().zip(&vector);
                let expected: f64 = of_row.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{found} and not {expected}");
            }
        }
    }
}
