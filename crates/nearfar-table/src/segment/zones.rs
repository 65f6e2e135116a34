//! Zone maps: the smallest and largest code of every run of rows.

use super::codes::{Code, CodeRange, Codes, with_codes};

/// Rows per zone; also the rows of a batch that a scan hands on unless filters leave fewer.
pub const ZONE_ROWS: usize = 8192;

/// What a zone map says of a predicate for a run of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No row can satisfy it: the zone is not touched.
    None,
    /// Every row satisfies it, if it is not null.
    All,
    /// Rows have to be looked at.
    Some,
}

/// Smallest and largest code per zone of a segment. Nulls are stored as code 0 and widen a zone
/// at most, never narrow it.
#[derive(Debug, Clone, Default)]
pub struct Zones {
    bounds: Vec<CodeRange>,
}

impl Zones {
    /// The zones of `codes`.
    pub fn of(codes: &Codes) -> Self {
        let bounds = with_codes!(codes, codes => codes.chunks(ZONE_ROWS).map(bounds).collect());
        Self { bounds }
    }

    /// Zones of which the bounds are known.
    pub fn of_bounds(bounds: Vec<CodeRange>) -> Self {
        Self { bounds }
    }

    /// Number of zones.
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// Smallest and largest code of zone `zone`.
    pub fn bounds(&self, zone: usize) -> CodeRange {
        self.bounds[zone]
    }

    /// Smallest and largest code of all zones.
    pub fn overall(&self) -> CodeRange {
        self.bounds.iter().fold(
            CodeRange {
                low: u64::MAX,
                high: 0,
            },
            |all, zone| CodeRange {
                low: all.low.min(zone.low),
                high: all.high.max(zone.high),
            },
        )
    }
}

fn bounds<C: Code + Ord + Copy>(codes: &[C]) -> CodeRange {
    let (mut low, mut high) = (codes[0], codes[0]);
    for code in codes {
        low = low.min(*code);
        high = high.max(*code);
    }
    CodeRange {
        low: low.widen(),
        high: high.widen(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::Ranges;
    use super::*;

    #[test]
    fn a_zone_rules_out_what_it_does_not_hold() {
        let values: Vec<u16> = (0..3 * ZONE_ROWS as u16 / 2).collect();
        let zones = Zones::of(&Codes::U16(values.into()));
        let top = ZONE_ROWS as u64;
        let range = |low, high| CodeRange { low, high };
        let verdict = |zone, first, last| Ranges::of(first, last).verdict(zones.bounds(zone));
        let from_top = top.into();
        assert_eq!(verdict(0, from_top, from_top + 5), Verdict::None);
        assert_eq!(verdict(1, from_top, from_top + 5), Verdict::Some);
        assert_eq!(verdict(1, 0, i128::MAX), Verdict::All);
        assert_eq!(zones.overall(), range(0, 3 * top / 2 - 1));
    }
}
