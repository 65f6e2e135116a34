//! Sets of integers as a few ranges.

use super::codes::CodeRange;
use super::zones::Verdict;

/// The integers of some ranges, such as `<> 5` or `IN (1, 2, 7)` stand for.
///
/// ```
/// use nearfar_table::segment::Ranges;
///
/// let few = Ranges::of(1, 1).union(&Ranges::of(7, 7)).union(&Ranges::of(2, 2));
/// assert_eq!(few.as_slice(), [(1, 2), (7, 7)]);
/// assert!(few.complement().intersect(&few).is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    /// First and last of each, ascending, with a gap of at least one integer between two.
    ranges: Vec<(i128, i128)>,
}

impl Ranges {
    /// Those from `first` to `last`, both included; none where `last` is smaller.
    pub fn of(first: i128, last: i128) -> Self {
        Self::default().with(first, last)
    }

    /// All integers.
    pub fn all() -> Self {
        Self::of(i128::MIN, i128::MAX)
    }

    /// The indices of `verdicts` that are 1, where they are no more than `most` ranges.
    pub fn of_verdicts(verdicts: &[u8], most: usize) -> Option<Self> {
        let mut ranges = Vec::new();
        let mut first = 0;
        for run in verdicts.chunk_by(|a, b| a == b) {
            let next = first + run.len() as i128;
            if run[0] == 1 {
                if ranges.len() == most {
                    return None;
                }
                ranges.push((first, next - 1));
            }
            first = next;
        }
        Some(Self { ranges })
    }

    /// First and last of each range, ascending.
    pub fn as_slice(&self) -> &[(i128, i128)] {
        &self.ranges
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether no integer is in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The same and a range that begins no earlier than the last one.
    fn with(mut self, first: i128, last: i128) -> Self {
        match self.ranges.last_mut() {
            _ if first > last => {}
            Some(before) if before.1.checked_add(1).is_none_or(|next| next >= first) => {
                before.1 = before.1.max(last);
            }
            _ => self.ranges.push((first, last)),
        }
        self
    }

    /// What is in one of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = [&self.ranges[..], &other.ranges].concat();
        all.sort_unstable();
        all.into_iter()
            .fold(Self::default(), |union, (first, last)| {
                union.with(first, last)
            })
    }

    /// What is in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let pairs = self
            .ranges
            .iter()
            .flat_map(|a| other.ranges.iter().map(move |b| (a, b)));
        pairs.fold(Self::default(), |both, (a, b)| {
            both.with(a.0.max(b.0), a.1.min(b.1))
        })
    }

    /// What is not in it.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.len() + 1);
        let mut next = Some(i128::MIN);
        for (first, last) in &self.ranges {
            if let Some(next) = next.filter(|next| next < first) {
                ranges.push((next, first - 1));
            }
            next = last.checked_add(1);
        }
        ranges.extend(next.map(|next| (next, i128::MAX)));
        Self { ranges }
    }

    /// The codes of the values in it, where code 0 stands for `base`.
    #[must_use]
    pub fn codes(&self, base: i128) -> Self {
        let codes = Self::of(0, i128::from(u64::MAX));
        let above = |value: i128| value.saturating_sub(base);
        let ranges = self.ranges.iter();
        let ranges = ranges.fold(Self::default(), |ranges, (first, last)| {
            ranges.with(above(*first), above(*last))
        });
        ranges.intersect(&codes)
    }

    /// The part of it that lies within `bounds`, as ranges of codes.
    pub fn within(&self, bounds: CodeRange) -> impl Iterator<Item = CodeRange> {
        let (low, high) = (i128::from(bounds.low), i128::from(bounds.high));
        let after = self.ranges.partition_point(move |(_, last)| *last < low);
        let met = self.ranges[after..].iter();
        met.take_while(move |(first, _)| *first <= high)
            .map(move |(first, last)| CodeRange {
                low: (*first).max(low) as u64,
                high: (*last).min(high) as u64,
            })
    }

    /// What it says of codes of which the smallest and the largest are `bounds`.
    pub fn verdict(&self, bounds: CodeRange) -> Verdict {
        match self.within(bounds).next() {
            None => Verdict::None,
            Some(first) if first == bounds => Verdict::All,
            Some(_) => Verdict::Some,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = (Vec<(i128, i128)>, Ranges)> {
        prop::collection::vec((-9_i128..9, -9_i128..9), 0..5).prop_map(|list| {
            let of =
                |all: Ranges, (first, last): &(i128, i128)| all.union(&Ranges::of(*first, *last));
            let ranges = list.iter().fold(Ranges::default(), of);
            (list, ranges)
        })
    }

    fn has(ranges: &Ranges, value: i128) -> bool {
        ranges
            .as_slice()
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&value))
    }

    #[test]
    fn the_ends_of_all_integers_are_reached() {
        let all = Ranges::all();
        assert!(all.complement().is_empty());
        assert_eq!(Ranges::default().complement(), all);
        let but_ends = Ranges::of(i128::MIN + 1, i128::MAX - 1);
        assert_eq!(
            but_ends.complement().as_slice(),
            [(i128::MIN, i128::MIN), (i128::MAX, i128::MAX)]
        );
        assert_eq!(but_ends.union(&but_ends.complement()), all);
        let codes = [(0, i128::from(u64::MAX))];
        for base in [i128::MIN, -1, 0, i128::from(i64::MIN), i128::from(i64::MAX)] {
            assert_eq!(all.codes(base).as_slice(), codes);
        }
        assert!(Ranges::of(i128::MIN, -6).codes(-5).is_empty());
        assert_eq!(Ranges::of(i128::MIN, -5).codes(-5).as_slice(), [(0, 0)]);
    }

    proptest! {
        #[test]
        fn ranges_are_sets((list, a) in ranges(), (_, b) in ranges(), low in 0..9_u64, more in 0..9_u64) {
            let ordered = a.as_slice().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0);
            prop_assert!(ordered, "{:?}", a);
            let bounds = CodeRange { low, high: low + more };
            let met: Vec<CodeRange> = a.within(bounds).collect();
            for value in -12..12 {
                let (in_a, in_b) = (has(&a, value), has(&b, value));
                prop_assert_eq!(in_a, list.iter().any(|(first, last)| (*first..=*last).contains(&value)));
                prop_assert_eq!(has(&a.union(&b), value), in_a || in_b);
                prop_assert_eq!(has(&a.intersect(&b), value), in_a && in_b);
                prop_assert_eq!(has(&a.complement(), value), !in_a);
                prop_assert_eq!(has(&a.codes(-3), value + 3), in_a && value >= -3);
                if let Ok(code) = u64::try_from(value) {
                    let is_met = met.iter().any(|range| (range.low..=range.high).contains(&code));
                    prop_assert_eq!(is_met, in_a && (low..=low + more).contains(&code));
                }
            }
            let inside = (low..=low + more).filter(|code| has(&a, i128::from(*code))).count() as u64;
            let verdict = match inside {
                0 => Verdict::None,
                inside if inside == more + 1 => Verdict::All,
                _ => Verdict::Some,
            };
            prop_assert_eq!(a.verdict(bounds), verdict);
        }

        #[test]
        fn verdicts_become_ranges(verdicts in prop::collection::vec(0..2_u8, 0..40)) {
            let runs = verdicts.chunk_by(|a, b| a == b).filter(|run| run[0] == 1).count();
            prop_assert!(runs == 0 || Ranges::of_verdicts(&verdicts, runs - 1).is_none());
            let ranges = Ranges::of_verdicts(&verdicts, runs).expect("as many");
            for (index, verdict) in verdicts.iter().enumerate() {
                prop_assert_eq!(has(&ranges, index as i128), *verdict == 1);
            }
            prop_assert_eq!(ranges.union(&Ranges::default()), ranges);
        }
    }
}
