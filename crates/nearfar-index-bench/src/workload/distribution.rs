//! Which keys are asked for.

use super::keys::Pick;
use super::zipf::Zipf;
use crate::random::Random;

/// Keys next to each other that most requests go to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HotRegion {
    /// Share of the requests that go to it.
    pub request_share: f64,
    /// Its share of the keys.
    pub key_share: f64,
    /// Where it begins, as a share of the keys.
    pub start_share: f64,
}

impl HotRegion {
    /// 90 % of the requests on 5 % of the keys, from 5 % on (zhao-2026, section 6.1).
    pub const ZHAO_2026: Self = Self {
        request_share: 0.9,
        key_share: 0.05,
        start_share: 0.05,
    };
}

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// By Zipf's law, popular keys anywhere among the others (YCSB's scrambled Zipfian).
    Zipf {
        /// The law's exponent.
        coefficient: f64,
    },
    /// By Zipf's law over the distance back from the newest key (YCSB's latest).
    Latest {
        /// The law's exponent.
        coefficient: f64,
    },
    /// Mostly from a hot region, the others evenly from all keys outside of it.
    HotRegion(HotRegion),
}

impl Distribution {
    /// The fewest of so many keys that at least this share of the requests goes to, where each key stands for so
    /// many ranks of Zipf's law.
    pub(crate) fn popular_keys(self, keys: u64, ranks_per_key: u64, share: f64) -> u64 {
        let popular = match self {
            Self::Uniform => keys as f64 * share,
            Self::Zipf { coefficient } | Self::Latest { coefficient } => {
                let ranks_per_key = ranks_per_key.max(1);
                let zipf = Zipf::new(keys * ranks_per_key, coefficient);
                zipf.ranks_of(share) as f64 / ranks_per_key as f64
            }
            Self::HotRegion(region) => {
                let outside = (share - region.request_share).max(0.0)
                    / (1.0 - region.request_share).max(f64::MIN_POSITIVE);
                let inside = (share / region.request_share).min(1.0);
                keys as f64 * (inside * region.key_share + outside * (1.0 - region.key_share))
            }
        };
        (popular.round() as u64).clamp(1, keys)
    }
}

/// A [`Distribution`] with what drawing from it needs.
#[derive(Debug, Clone)]
enum Law {
    Uniform,
    Zipf(Zipf),
    Latest(Zipf),
    HotRegion(HotRegion),
}

/// A distribution over a number of keys, ready to draw.
#[derive(Debug, Clone)]
pub(super) struct Drawer {
    keys: u64,
    law: Law,
    /// Ranks that a key stands for.
    ranks_per_key: u64,
    factor: u64,
}

impl Drawer {
    /// Over `keys`, of which there is at least one.
    pub(super) fn new(distribution: Distribution, keys: u64) -> Self {
        Self::standing_for(distribution, keys, 1)
    }

    /// As [`Self::new`], where each key stands for so many ranks, at least one, of Zipf's law.
    pub(super) fn standing_for(distribution: Distribution, keys: u64, ranks_per_key: u64) -> Self {
        let ranks_per_key = ranks_per_key.max(1);
        let zipf = |coefficient| Zipf::new(keys * ranks_per_key, coefficient);
        let law = match distribution {
            Distribution::Uniform => Law::Uniform,
            Distribution::Zipf { coefficient } => Law::Zipf(zipf(coefficient)),
            Distribution::Latest { coefficient } => Law::Latest(zipf(coefficient)),
            Distribution::HotRegion(region) => Law::HotRegion(region),
        };
        Self {
            keys,
            law,
            ranks_per_key,
            factor: scatter_factor(keys),
        }
    }

    /// Lets the hot region begin elsewhere.
    pub(super) fn move_hot_region(&mut self, start_share: f64) {
        if let Law::HotRegion(region) = &mut self.law {
            region.start_share = start_share;
        }
    }

    /// A key, and which of the ranks it is that the key stands for, where there is a law of ranks. `newest` gives the
    /// key so many steps back from the newest one.
    #[inline]
    pub(super) fn draw(
        &self,
        random: &mut Random,
        newest: impl FnOnce(u64) -> u64,
    ) -> (Pick, Option<u64>) {
        let draw = |zipf: &Zipf, random: &mut Random| {
            let rank = zipf.draw(random);
            (rank / self.ranks_per_key, Some(rank % self.ranks_per_key))
        };
        match &self.law {
            Law::Zipf(zipf) => {
                let (rank, which) = draw(zipf, random);
                (Pick::Id(scatter(rank, self.factor, self.keys)), which)
            }
            Law::Latest(zipf) => {
                let (rank, which) = draw(zipf, random);
                (Pick::Id(newest(rank)), which)
            }
            Law::HotRegion(region) => (Pick::Position(self.hot(region, random)), None),
            Law::Uniform => (Pick::Id(random.below(self.keys)), None),
        }
    }

    /// Ranks that a key stands for.
    pub(super) fn ranks_per_key(&self) -> u64 {
        self.ranks_per_key
    }

    fn hot(&self, region: &HotRegion, random: &mut Random) -> u64 {
        let hot_keys = ((self.keys as f64 * region.key_share) as u64).clamp(1, self.keys);
        let start = (self.keys as f64 * region.start_share.fract()) as u64;
        let is_hot = random.share() < region.request_share || hot_keys == self.keys;
        let step = if is_hot {
            random.below(hot_keys)
        } else {
            hot_keys + random.below(self.keys - hot_keys)
        };
        (start + step) % self.keys
    }
}

/// One number below `bound` for each below `bound`: neighbours come to lie far apart.
fn scatter(rank: u64, factor: u64, bound: u64) -> u64 {
    ((u128::from(rank) * u128::from(factor) + u128::from(bound / 3)) % u128::from(bound)) as u64
}

/// A factor for [`scatter`]: near the golden section, with no divisor in common with `bound`.
fn scatter_factor(bound: u64) -> u64 {
    let mut factor = (bound as f64 * 0.618_033_988_749_895) as u64 | 1;
    while divisor(factor, bound) != 1 {
        factor += 2;
    }
    factor
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_loses_no_key() {
        for bound in [1, 2, 10, 997, 1024] {
            let factor = scatter_factor(bound);
            let mut seen: Vec<u64> = (0..bound)
                .map(|rank| scatter(rank, factor, bound))
                .collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..bound), "{bound}");
        }
    }

    /// The most popular tenth gets what it gets of ten times as many keys.
    #[test]
    fn keys_that_stand_for_many_share_requests_as_those_do() {
        let share = |keys: u64, ranks_per_key: u64| {
            let distribution = Distribution::Zipf { coefficient: 0.99 };
            let drawer = Drawer::standing_for(distribution, keys, ranks_per_key);
            let popular: std::collections::HashSet<u64> = (0..keys / 10)
                .map(|rank| scatter(rank, drawer.factor, keys))
                .collect();
            let mut random = Random::new(5);
            let drawn = (0..40_000).filter(|_| match drawer.draw(&mut random, |back| back).0 {
                Pick::Id(id) => popular.contains(&id),
                Pick::Position(_) => false,
            });
            drawn.count() as f64 / 40_000.0
        };
        let (many, standing, few) = (share(100_000, 1), share(1000, 100), share(1000, 1));
        assert!((many - standing).abs() < 0.02, "{many} {standing}");
        assert!(few < many - 0.05, "{few}");
    }

    #[test]
    fn a_hot_region_gets_its_share_and_moves() {
        let mut drawer = Drawer::new(Distribution::HotRegion(HotRegion::ZHAO_2026), 10_000);
        let mut random = Random::new(5);
        let mut share = |drawer: &Drawer, from: u64| {
            let drawn = (0..20_000).filter(|_| {
                let Pick::Position(position) = drawer.draw(&mut random, |back| back).0 else {
                    panic!("a region is of positions");
                };
                (from..from + 500).contains(&position)
            });
            drawn.count() as f64 / 20_000.0
        };
        assert!((share(&drawer, 500) - 0.9).abs() < 0.02);
        drawer.move_hot_region(0.1);
        assert!((share(&drawer, 1000) - 0.9).abs() < 0.02);
        assert!(share(&drawer, 500) < 0.02);
    }
}
