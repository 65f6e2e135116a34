//! What is known of the values of one column segment.

use arrow::array::{ArrayRef, AsArray};

use super::sketch::DistinctSketch;
use crate::segment::{Code, CodeRange, ColumnSegment, Encoding, for_each_integer, with_codes};

/// How the values of consecutive rows compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Order {
    /// Nothing is known.
    #[default]
    Unordered,
    /// Never falling.
    Ascending,
    /// Always rising: no value twice.
    Rising,
}

/// Facts about the rows of one column segment that hold for as long as it lives.
#[derive(Debug, Clone, Default)]
pub struct ColumnFacts {
    /// Smallest and largest value, for integer-like columns that are not all null.
    pub bounds: Option<(i128, i128)>,
    /// Smallest and largest string, for dictionaries.
    pub string_bounds: Option<(String, String)>,
    /// Rows without a value.
    pub null_count: usize,
    /// Order of an integer-like column without nulls.
    pub order: Order,
}

impl ColumnFacts {
    /// Looks at every value of `segment`. Also which values there are, unless they are of a type that is
    /// not looked at.
    pub fn of(segment: &ColumnSegment) -> (Self, Option<DistinctSketch>) {
        let mut facts = Self {
            null_count: segment.null_count(),
            ..Self::default()
        };
        let mut distinct = DistinctSketch::default();
        match segment.encoding() {
            // The codes of a column of nothing but nulls stand for no value.
            _ if segment
                .nulls()
                .is_some_and(|nulls| nulls.null_count() == nulls.len()) => {}
            Encoding::Narrow { base, codes } => {
                let CodeRange { low, high } = segment.zones().overall();
                facts.bounds = Some((base + i128::from(low), base + i128::from(high)));
                with_codes!(codes, codes => {
                    if facts.null_count == 0 {
                        facts.order = order_of(codes);
                    }
                    for_each_distinct(codes, high, |code| {
                        distinct.add_integer(base + i128::from(code));
                    });
                });
            }
            Encoding::Dictionary { values, .. } => {
                for value in values.iter().flatten() {
                    distinct.add_bytes(value.as_bytes());
                }
                if let (Some(first), Some(last)) = (
                    values.iter().flatten().next(),
                    values.iter().flatten().last(),
                ) {
                    facts.string_bounds = Some((first.to_owned(), last.to_owned()));
                }
            }
            Encoding::Strings { values } => {
                for value in values.iter().flatten() {
                    distinct.add_bytes(value.as_bytes());
                }
            }
            Encoding::Plain { values } => return facts.of_plain(values),
        }
        (facts, Some(distinct))
    }
}

impl ColumnFacts {
    /// The same with what the values themselves tell, where they are integer-like or strings.
    fn of_plain(mut self, values: &ArrayRef) -> (Self, Option<DistinctSketch>) {
        let mut distinct = DistinctSketch::default();
        let mut bounds: Option<(i128, i128)> = None;
        let is_integer_like = for_each_integer(values, |value| {
            distinct.add_integer(value);
            let (low, high) = bounds.unwrap_or((value, value));
            bounds = Some((low.min(value), high.max(value)));
        });
        if let Some(texts) = values.as_string_view_opt() {
            let present = || texts.iter().flatten();
            present().for_each(|text| distinct.add_bytes(text.as_bytes()));
            let bounds = present().min().zip(present().max());
            self.string_bounds = bounds.map(|(low, high)| (low.to_owned(), high.to_owned()));
        } else if !is_integer_like {
            return (self, None);
        }
        self.bounds = bounds;
        (self, Some(distinct))
    }
}

/// Domains of at most so many codes are first marked, so that a code is sketched once and not with
/// every row.
const MARKED_CODES_MAX: u64 = 1 << 20;

/// Calls `visit` with every code, at least once each; `highest` is the largest.
fn for_each_distinct<C: Code>(codes: &[C], highest: u64, mut visit: impl FnMut(u64)) {
    if highest >= MARKED_CODES_MAX {
        codes.iter().for_each(|code| visit(code.widen()));
        return;
    }
    let mut seen = vec![false; highest as usize + 1];
    for code in codes {
        seen[code.widen() as usize] = true;
    }
    let distinct = seen.iter().enumerate().filter(|(_, seen)| **seen);
    distinct.for_each(|(code, _)| visit(code as u64));
}

fn order_of<C: Code + PartialOrd>(codes: &[C]) -> Order {
    if codes.is_sorted_by(|a, b| a < b) {
        Order::Rising
    } else if codes.is_sorted_by(|a, b| a <= b) {
        Order::Ascending
    } else {
        Order::Unordered
    }
}
