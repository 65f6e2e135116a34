//! Ranks by Zipf's law.

use crate::random::Random;

/// Draws ranks from 0 on, rank `r` in proportion to `(r + 1)^-coefficient`, for any coefficient
/// from 0 on, in constant time and space.
///
/// Rejection-inversion (Hörmann and Derflinger, Rejection-inversion to generate variates from
/// monotone discrete distributions, 1996): a point below the continuous curve is drawn by inversion
/// and kept if it lies below the steps.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    ranks: u64,
    coefficient: f64,
    area_first: f64,
    area_all: f64,
    sure: f64,
}

impl Zipf {
    /// Ranks below `ranks`, of which there is at least one.
    pub(crate) fn new(ranks: u64, coefficient: f64) -> Self {
        let mut zipf = Self {
            ranks,
            coefficient,
            area_first: 0.0,
            area_all: 0.0,
            sure: 0.0,
        };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_all = zipf.area(ranks as f64 + 0.5);
        zipf.sure = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        if self.coefficient == 0.0 {
            return random.below(self.ranks);
        }
        loop {
            let area = self.area_all + random.share() * (self.area_first - self.area_all);
            let point = self.area_inverse(area);
            let step = (point + 0.5).floor().clamp(1.0, self.ranks as f64);
            if step - point <= self.sure || area >= self.area(step + 0.5) - self.height(step) {
                return step as u64 - 1;
            }
        }
    }

    /// The fewest ranks that have this share of all draws, from the continuous curve.
    pub(crate) fn ranks_of(&self, share: f64) -> u64 {
        // The first rank is half of a step wide below the curve's beginning.
        let area = self.area_first + share * (self.area_all - self.area_first);
        (self.area_inverse(area) - 0.5)
            .ceil()
            .clamp(1.0, self.ranks as f64) as u64
    }

    /// The curve `x^-coefficient`.
    fn height(&self, x: f64) -> f64 {
        (-self.coefficient * x.ln()).exp()
    }

    /// The area below the curve from 1 to `x`.
    fn area(&self, x: f64) -> f64 {
        let logarithm = x.ln();
        let power = (1.0 - self.coefficient) * logarithm;
        // expm1(p) / p, which is 1 at p = 0, where the curve is 1/x.
        let factor = if power.abs() > 1e-8 {
            power.exp_m1() / power
        } else {
            1.0 + power / 2.0
        };
        factor * logarithm
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.coefficient)).max(-1.0);
        let factor = if power.abs() > 1e-8 {
            power.ln_1p() / power
        } else {
            1.0 - power / 2.0
        };
        (factor * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of single ranks follow the law, for coefficients on both sides of 1 and at it.
    #[test]
    fn ranks_come_as_often_as_they_should() {
        const RANKS: u64 = 1000;
        const DRAWS: u64 = 400_000;
        for coefficient in [0.0, 0.5, 0.99, 1.0, 1.25] {
            let zipf = Zipf::new(RANKS, coefficient);
            let mut random = Random::new(7);
            let mut counts = vec![0_u64; RANKS as usize];
            (0..DRAWS).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
            let weight = |rank: u64| (rank as f64 + 1.0).powf(-coefficient);
            let all: f64 = (0..RANKS).map(weight).sum();
            for rank in [0, 1, 2, 10, 100] {
                let expected = DRAWS as f64 * weight(rank) / all;
                let found = counts[rank as usize] as f64;
                let error = (found - expected).abs();
                assert!(
                    error < 6.0 * expected.sqrt() + 1.0,
                    "{coefficient} {rank}: {found}"
                );
            }
        }
    }

    #[test]
    fn the_most_popular_ranks_have_their_share() {
        for coefficient in [0.0, 0.5, 0.99, 1.25] {
            let zipf = Zipf::new(10_000, coefficient);
            let weight = |rank: u64| (rank as f64).powf(-coefficient);
            let all: f64 = (1..=10_000).map(weight).sum();
            let popular: f64 = (1..=zipf.ranks_of(0.9)).map(weight).sum();
            let share = popular / all;
            assert!((share - 0.9).abs() < 0.01, "{coefficient}: {share}");
        }
    }

    #[test]
    fn one_rank_is_drawn_always() {
        let zipf = Zipf::new(1, 0.99);
        assert_eq!(zipf.draw(&mut Random::new(3)), 0);
    }
}
