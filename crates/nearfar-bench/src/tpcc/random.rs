//! Random numbers and texts as clauses 2.1.6 and 4.3.2 of the specification have them.

/// Steele, Lea and Flood's SplitMix64 (OOPSLA 2014): fast, seeded, of no cryptographic worth.
#[derive(Debug, Clone)]
pub struct Random(u64);

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
const LETTERS_AND_DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

impl Random {
    /// The sequence of `seed` for one of the purposes that `stream` numbers.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        let first = random.next();
        Self(first ^ stream.wrapping_mul(STEP))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        let count = i64::from(high) - i64::from(low) + 1;
        let below = (u128::from(self.next()) * u128::from(count.max(1).unsigned_abs())) >> 64;
        (i64::from(low) + below as i64) as i32
    }

    /// Whether something happens that does so this often of a hundred times.
    pub fn percent(&mut self, percent: i32) -> bool {
        self.between(1, 100) <= percent
    }

    /// A number from 0 to 1, without 0.
    pub fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// `NURand(A, low, high)` of clause 2.1.6: not uniform, `constant` being its C.
    pub fn skewed(&mut self, a: i32, constant: i32, (low, high): (i32, i32)) -> i32 {
        let drawn = self.between(0, a) | self.between(low, high);
        (drawn + constant) % (high - low + 1) + low
    }

    /// An a-string: letters and digits, so many of them.
    pub fn text(&mut self, low: i32, high: i32) -> String {
        let length = self.between(low, high);
        let last = LETTERS_AND_DIGITS.len() as i32 - 1;
        let letter = |_| char::from(LETTERS_AND_DIGITS[self.between(0, last) as usize]);
        (0..length).map(letter).collect()
    }

    /// An n-string: digits, so many of them.
    pub fn digits(&mut self, length: usize) -> String {
        (0..length)
            .map(|_| char::from(b'0' + self.between(0, 9) as u8))
            .collect()
    }

    /// A zip code (clause 4.3.2.7).
    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// A text in which one of ten has `ORIGINAL` somewhere (clause 4.3.3.1).
    pub fn data(&mut self) -> String {
        const ORIGINAL: &str = "ORIGINAL";
        let mut text = self.text(26, 50);
        if self.percent(10) {
            let at = self.between(0, (text.len() - ORIGINAL.len()) as i32) as usize;
            text.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        text
    }

    /// The numbers from 1 to `count` in a random order (Fisher and Yates).
    pub fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut numbers: Vec<i32> = (1..=count).collect();
        self.shuffle(&mut numbers);
        numbers
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.between(0, last as i32) as usize);
        }
    }
}

/// The last name of a number from 0 to 999.
pub fn last_name(number: i32) -> String {
    let syllable = |digit: i32| SYLLABLES[(digit % 10) as usize];
    [number / 100, number / 10, number].map(syllable).concat()
}

/// The constants C of `NURand`, of a run and of the load before it (clause 2.1.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// Of last names when the tables are filled.
    pub loaded_name: i32,
    /// Of last names that transactions ask for.
    pub name: i32,
    /// Of customers.
    pub customer: i32,
    /// Of items.
    pub item: i32,
}

impl Constants {
    /// Those of `seed`. The two of last names differ by 65 to 119, and not by 96 or 112.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX);
        let loaded_name = random.between(0, 255);
        let is_allowed = |name: i32| {
            let distance = (name - loaded_name).abs();
            (65..=119).contains(&distance) && ![96, 112].contains(&distance)
        };
        let name = std::iter::repeat_with(|| random.between(0, 255)).find(|name| is_allowed(*name));
        Self {
            loaded_name,
            name: name.unwrap_or_default(),
            customer: random.between(0, 1023),
            item: random.between(0, 8191),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_ranges_and_reach_both_ends() {
        let mut random = Random::new(7, 1);
        let drawn: Vec<i32> = (0..1000).map(|_| random.between(-2, 3)).collect();
        assert_eq!(drawn.iter().min(), Some(&-2));
        assert_eq!(drawn.iter().max(), Some(&3));
        let skewed: Vec<i32> = (0..20_000)
            .map(|_| random.skewed(1023, 5, (1, 3000)))
            .collect();
        assert!(skewed.iter().all(|number| (1..=3000).contains(number)));
        // A number with many ones in its binary form comes more often than one with few.
        let often = |number| skewed.iter().filter(|drawn| **drawn == number).count();
        let ones = 0b11_1111_1111 + 5 + 1;
        assert!(often(ones) > 10 * often(1 + 5).max(1), "{}", often(ones));
    }

    #[test]
    fn names_are_of_three_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(0), "BARBARBAR");
    }

    #[test]
    fn a_tenth_of_the_texts_is_original() {
        let mut random = Random::new(1, 1);
        let texts: Vec<String> = (0..5000).map(|_| random.data()).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len())));
        let original = texts.iter().filter(|text| text.contains("ORIGINAL"));
        assert!((350..=650).contains(&original.count()));
    }

    #[test]
    fn a_permutation_has_every_number_and_constants_are_as_far_apart_as_is_allowed() {
        for seed in 0..100 {
            let mut numbers = Random::new(seed, 2).permutation(30);
            assert_ne!(numbers, (1..=30).collect::<Vec<_>>());
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
            let constants = Constants::new(seed);
            let distance = (constants.name - constants.loaded_name).abs();
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
        }
    }
}
