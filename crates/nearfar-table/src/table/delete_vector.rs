//! Which rows of a segment are deleted.

use std::sync::Arc;

use crate::segment::ZONE_ROWS;

/// Words of a zone's bitmap.
pub const WORDS: usize = ZONE_ROWS / 64;

/// The deleted rows of one segment: a bitmap per zone in which a row is deleted, none for the others.
///
/// A delete vector is never changed. [`Self::with`] makes a new one, which shares the bitmaps of the zones that
/// stay as they were, so that deleting a row copies one bitmap of a zone.
#[derive(Debug, Clone, Default)]
pub struct DeleteVector {
    zones: Vec<Option<Arc<ZoneBitmap>>>,
    count: usize,
}

#[derive(Debug, Clone)]
struct ZoneBitmap {
    words: [u64; WORDS],
    count: usize,
}

impl DeleteVector {
    /// The one in which these rows are deleted.
    pub fn of(rows: impl IntoIterator<Item = u32>) -> Self {
        Self::default().with(rows)
    }

    /// The same with `rows` deleted too; a row that is deleted stays so.
    #[must_use]
    pub fn with(&self, rows: impl IntoIterator<Item = u32>) -> Self {
        let mut delete_vector = self.clone();
        for row in rows {
            delete_vector.delete(row as usize);
        }
        delete_vector
    }

    fn delete(&mut self, row: usize) {
        let (zone, at) = (row / ZONE_ROWS, row % ZONE_ROWS);
        if self.zones.len() <= zone {
            self.zones.resize(zone + 1, None);
        }
        let none = || {
            Arc::new(ZoneBitmap {
                words: [0; WORDS],
                count: 0,
            })
        };
        let bitmap = Arc::make_mut(self.zones[zone].get_or_insert_with(none));
        let bit = 1u64 << (at % 64);
        if bitmap.words[at / 64] & bit == 0 {
            bitmap.words[at / 64] |= bit;
            bitmap.count += 1;
            self.count += 1;
        }
    }

    /// The zones with deleted rows, and a bit for each of their rows.
    pub fn bitmaps(&self) -> impl Iterator<Item = (usize, &[u64; WORDS])> {
        let zones = self.zones.iter().enumerate();
        zones.filter_map(|(zone, bitmap)| Some((zone, &bitmap.as_deref()?.words)))
    }

    fn zone(&self, zone: usize) -> Option<&ZoneBitmap> {
        self.zones.get(zone)?.as_deref()
    }

    /// Number of deleted rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether `row` is deleted.
    pub fn contains(&self, row: usize) -> bool {
        let at = row % ZONE_ROWS;
        self.zone(row / ZONE_ROWS)
            .is_some_and(|zone| zone.words[at / 64] >> (at % 64) & 1 == 1)
    }

    /// Number of deleted rows before `row`.
    pub fn rank(&self, row: usize) -> usize {
        let (zone, at) = (row / ZONE_ROWS, row % ZONE_ROWS);
        let before = self.zones.iter().take(zone).flatten();
        let whole: usize = before.map(|zone| zone.count).sum();
        let within = self.zone(zone).map_or(0, |zone| {
            let words = &zone.words[..at / 64];
            let full: u32 = words.iter().map(|word| word.count_ones()).sum();
            let rest = zone.words[at / 64] & ((1u64 << (at % 64)) - 1);
            (full + rest.count_ones()) as usize
        });
        whole + within
    }

    /// Whether a row of `zone` is deleted.
    pub fn touches(&self, zone: usize) -> bool {
        self.zone(zone).is_some()
    }

    /// A bit for each row from `start` to the end of its zone, the first row's lowest: whether it is
    /// deleted.
    pub fn words_from(&self, start: usize) -> impl Iterator<Item = u64> {
        let (first, shift) = (start % ZONE_ROWS / 64, start % 64);
        let words = self
            .zone(start / ZONE_ROWS)
            .map_or(&[][..], |zone| &zone.words[first..]);
        words.iter().enumerate().map(move |(at, word)| match shift {
            0 => *word,
            shift => word >> shift | words.get(at + 1).map_or(0, |next| next << (64 - shift)),
        })
    }

    /// The deleted rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        self.rows_beyond(None)
    }

    /// The deleted rows that are not deleted in `earlier`, ascending.
    pub fn rows_beyond<'a>(&'a self, earlier: Option<&'a Self>) -> impl Iterator<Item = u32> + 'a {
        let zones = self.zones.iter().enumerate();
        zones
            .filter_map(|(zone, bitmap)| Some((zone, bitmap.as_deref()?)))
            .flat_map(move |(zone, bitmap)| {
                let known = earlier.and_then(|earlier| earlier.zone(zone));
                let words = bitmap.words.iter().enumerate();
                words.flat_map(move |(at, word)| {
                    let known = known.map_or(0, |known| known.words[at]);
                    bits(word & !known).map(move |bit| (zone * ZONE_ROWS + at * 64) as u32 + bit)
                })
            })
    }
}

/// The positions of the bits that are set, ascending.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const ROWS: u32 = 3 * ZONE_ROWS as u32;

    proptest! {
        #[test]
        fn a_delete_vector_is_a_set(
            first in prop::collection::btree_set(0..ROWS, 0..60),
            second in prop::collection::btree_set(0..ROWS, 0..60),
        ) {
            let earlier = DeleteVector::of(first.iter().copied());
            let delete_vector = earlier.with(second.iter().copied());
            let all: BTreeSet<u32> = first.union(&second).copied().collect();
            prop_assert_eq!(earlier.count(), first.len());
            prop_assert_eq!(delete_vector.count(), all.len());
            prop_assert!(delete_vector.rows().eq(all.iter().copied()));
            prop_assert!(delete_vector.rows_beyond(Some(&earlier)).eq(second.difference(&first).copied()));
            for row in second.iter().flat_map(|row| [row.saturating_sub(1), *row, row + 1]) {
                prop_assert_eq!(delete_vector.contains(row as usize), all.contains(&row));
                prop_assert_eq!(delete_vector.rank(row as usize), all.range(..row).count());
            }
            for zone in 0..3 {
                for offset in [0, 100, 128] {
                    let start = zone * ZONE_ROWS + offset;
                    let words: Vec<u64> = delete_vector.words_from(start).collect();
                    for (at, row) in (start..(zone + 1) * ZONE_ROWS).enumerate() {
                        let bit = words.get(at / 64).map_or(0, |word| word >> (at % 64) & 1);
                        prop_assert_eq!(bit == 1, all.contains(&(row as u32)));
                    }
                }
                let zone_rows = (zone * ZONE_ROWS) as u32..((zone + 1) * ZONE_ROWS) as u32;
                prop_assert_eq!(delete_vector.touches(zone), all.range(zone_rows).next().is_some());
            }
        }
    }
}
