//! Sums, extremes and counts of integer columns, over all rows, selected rows, or by group.
//!
//! A column is read once, whatever is computed of it, and only what is asked for is computed. Sums have 128 bits, so that none overflows (geyer-2023, section 3, takes the sum as the
//! operator that depends on the speed of memory most).

mod cancellable;
mod grouped;
mod number;

use nearfar_model::Probe;

pub use self::cancellable::GroupsError;
pub use self::grouped::{CodeTooLarge, HashGroups, NoRoomForGroups};
pub use self::number::Number;
use crate::isa::{Isa, UnsupportedIsa};
use crate::selection::{Selection, WORD_BITS};
use crate::vectors::{self, Kernel, Vectors};

/// Bytes of a block: what is done once for each is little beside it.
const BLOCK_BYTES: usize = 256 << 10;

/// Number, sum and extremes of some values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary<T> {
    /// Number of values.
    pub count: u64,
    /// Their sum, which 128 bits hold for more values than memory does.
    pub sum: i128,
    /// The smallest; `None` of no values.
    pub min: Option<T>,
    /// The largest; `None` of no values.
    pub max: Option<T>,
}

impl<T> Default for Summary<T> {
    /// Of no values.
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            min: None,
            max: None,
        }
    }
}

impl<T: Number> Summary<T> {
    /// The summary of the values of both.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let both = |a: Option<T>, b: Option<T>, choose: fn(T, T) -> T| match (a, b) {
            (Some(a), Some(b)) => Some(choose(a, b)),
            (one, None) | (None, one) => one,
        };
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            min: both(self.min, other.min, T::min),
            max: both(self.max, other.max, T::max),
        }
    }

    /// Takes one more value in.
    #[inline(always)]
    pub(crate) fn add(&mut self, value: T) {
        self.count += 1;
        self.sum += value.wide();
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }
}

/// Aggregates with the instructions of one set.
///
/// ```
/// use nearfar_kernels::Aggregate;
/// use nearfar_model::Native;
///
/// let summary = Aggregate::new().summary(&[5_i64, -1, 9], &Native);
/// assert_eq!((summary.count, summary.sum), (3, 13));
/// assert_eq!((summary.min, summary.max), (Some(-1), Some(9)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregate {
    /// Found on this machine: the constructors see to it.
    isa: Isa,
}

impl Default for Aggregate {
    fn default() -> Self {
        Self::new()
    }
}

impl Aggregate {
    /// With the widest instructions of the machine.
    pub fn new() -> Self {
        Self { isa: Isa::widest() }
    }

    /// With these instructions.
    ///
    /// # Errors
    /// [`UnsupportedIsa`] where the machine lacks them.
    pub fn with_isa(self, isa: Isa) -> Result<Self, UnsupportedIsa> {
        if isa.is_available() {
            Ok(Self { isa })
        } else {
            Err(UnsupportedIsa { isa })
        }
    }

    /// The instructions in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The sum of all values.
    pub fn sum<T: Number, P: Probe>(&self, column: &[T], probe: &P) -> i128 {
        vectors::run(self.isa, Sum { column, probe })
    }

    /// Number, sum and extremes of all values.
    pub fn summary<T: Number, P: Probe>(&self, column: &[T], probe: &P) -> Summary<T> {
        vectors::run(self.isa, All { column, probe })
    }

    /// Number, sum and extremes of the values whose rows are selected.
    ///
    /// # Panics
    /// Where the selection is of another number of rows.
    pub fn summary_of<T: Number, P: Probe>(
        &self,
        column: &[T],
        selection: &Selection,
        probe: &P,
    ) -> Summary<T> {
        assert_eq!(column.len(), selection.len(), "a selection of other rows");
        let selected = Selected {
            column,
            words: selection.words(),
            probe,
        };
        vectors::run(self.isa, selected)
    }
}

/// The blocks of a column, of which the probe is told.
#[inline(always)]
fn blocks<'a, T, P: Probe>(column: &'a [T], probe: &'a P) -> impl Iterator<Item = &'a [T]> {
    column
        .chunks(BLOCK_BYTES / size_of::<T>())
        .inspect(move |block| {
            tell!(probe.stream(block.as_ptr().addr(), size_of_val(*block)));
            let _ = (block, probe);
        })
}

#[inline(always)]
fn summary_of_block<T: Number>(block: &[T]) -> Summary<T> {
    match T::sum_and_extremes(block) {
        Some((sum, min, max)) => Summary {
            count: block.len() as u64,
            sum,
            min: Some(min),
            max: Some(max),
        },
        None => Summary::default(),
    }
}

struct Sum<'a, T, P> {
    column: &'a [T],
    probe: &'a P,
}

impl<T: Number, P: Probe> Kernel for Sum<'_, T, P> {
    type Output = i128;

    #[inline(always)]
    fn run<V: Vectors>(self) -> i128 {
        let mut sum = 0;
        for block in blocks(self.column, self.probe) {
            sum += T::sum(block);
        }
        sum
    }
}

struct All<'a, T, P> {
    column: &'a [T],
    probe: &'a P,
}

impl<T: Number, P: Probe> Kernel for All<'_, T, P> {
    type Output = Summary<T>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Summary<T> {
        let mut summary = Summary::default();
        for block in blocks(self.column, self.probe) {
            summary = summary.merged(summary_of_block(block));
        }
        summary
    }
}

struct Selected<'a, T, P> {
    column: &'a [T],
    words: &'a [u64],
    probe: &'a P,
}

impl<T: Number, P: Probe> Kernel for Selected<'_, T, P> {
    type Output = Summary<T>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Summary<T> {
        let Self {
            column,
            words,
            probe,
        } = self;
        tell!(probe.read(words.as_ptr().addr(), size_of_val(words)));
        let mut summary = Summary::default();
        for (block, word) in column.chunks(WORD_BITS).zip(words) {
            match *word {
                0 => {}
                u64::MAX => {
                    tell!(probe.stream(block.as_ptr().addr(), size_of_val(block)));
                    summary = summary.merged(summary_of_block(block));
                }
                _ => {
                    tell!(probe.stream(block.as_ptr().addr(), size_of_val(block)));
                    let mut left = *word;
                    while left != 0 {
                        summary.add(block[left.trailing_zeros() as usize]);
                        left &= left - 1;
                    }
                }
            }
        }
        let _ = probe;
        summary
    }
}
