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

/// Takes the values of a column, each once at least.
trait Values {
    fn add_integer(&mut self, value: i128);
    fn add_text(&mut self, text: &str);
}

impl Values for DistinctSketch {
    fn add_integer(&mut self, value: i128) {
        self.add_integer(value);
    }

    fn add_text(&mut self, text: &str) {
        self.add_bytes(text.as_bytes());
    }
}

/// Nobody asks which they are.
impl Values for () {
    fn add_integer(&mut self, _value: i128) {}

    fn add_text(&mut self, _text: &str) {}
}

impl ColumnFacts {
    /// Looks at every value of `segment`. Also which values there are, unless they are of a type that is
    /// not looked at.
    pub fn of(segment: &ColumnSegment) -> (Self, Option<DistinctSketch>) {
        let mut distinct = DistinctSketch::default();
        let (facts, is_known) = Self::with_values(segment, &mut distinct);
        (facts, is_known.then_some(distinct))
    }

    /// The same without which values there are.
    pub fn without_distinct(segment: &ColumnSegment) -> Self {
        Self::with_values(segment, &mut ()).0
    }

    /// Also whether `distinct` was given the values.
    fn with_values(segment: &ColumnSegment, distinct: &mut impl Values) -> (Self, bool) {
        let mut facts = Self {
            null_count: segment.null_count(),
            ..Self::default()
        };
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
                let present = || values.iter().flatten();
                present().for_each(|value| distinct.add_text(value));
                let bounds = present().next().zip(present().last());
                facts.string_bounds = bounds.map(|(low, high)| (low.to_owned(), high.to_owned()));
            }
            Encoding::Strings { values } => {
                let present = values.iter().flatten();
                present.for_each(|value| distinct.add_text(value));
            }
            Encoding::Plain { values } => return facts.of_plain(values, distinct),
        }
        (facts, true)
    }

    /// The same with what the values themselves tell, where they are integer-like or strings.
    fn of_plain(mut self, values: &ArrayRef, distinct: &mut impl Values) -> (Self, bool) {
        let mut bounds: Option<(i128, i128)> = None;
        let is_integer_like = for_each_integer(values, |value| {
            distinct.add_integer(value);
            let (low, high) = bounds.unwrap_or((value, value));
            bounds = Some((low.min(value), high.max(value)));
        });
        if let Some(texts) = values.as_string_view_opt() {
            let present = || texts.iter().flatten();
            present().for_each(|text| distinct.add_text(text));
            let bounds = present().min().zip(present().max());
            self.string_bounds = bounds.map(|(low, high)| (low.to_owned(), high.to_owned()));
        } else if !is_integer_like {
            return (self, false);
        }
        self.bounds = bounds;
        (self, true)
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
