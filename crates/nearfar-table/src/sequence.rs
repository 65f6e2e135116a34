//! Sequences: numbers that are given out once each.

use parking_lot::Mutex;
use std::sync::Arc;

use crate::table::TableId;

/// How many numbers a log knows of before they are given out, as in PostgreSQL: what a crash loses at most.
const AHEAD: u32 = 32;

/// The types of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SequenceType {
    /// Two bytes.
    SmallInt,
    /// Four bytes.
    Integer,
    /// Eight bytes.
    #[default]
    BigInt,
}

impl SequenceType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SmallInt, Self::Integer, Self::BigInt];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallInt => "smallint",
            Self::Integer => "integer",
            Self::BigInt => "bigint",
        }
    }

    /// The least and the greatest number.
    pub fn bounds(self) -> (i64, i64) {
        match self {
            Self::SmallInt => (i16::MIN.into(), i16::MAX.into()),
            Self::Integer => (i32::MIN.into(), i32::MAX.into()),
            Self::BigInt => (i64::MIN, i64::MAX),
        }
    }
}

/// A sequence, as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceDefinition {
    /// The type of its numbers.
    pub data_type: SequenceType,
    /// The first number.
    pub start: i64,
    /// From one number to the next; not zero.
    pub increment: i64,
    /// The least number.
    pub min: i64,
    /// The greatest number.
    pub max: i64,
    /// How many numbers a session may keep for itself; none does.
    pub cache: i64,
    /// Whether it begins anew behind its last number.
    pub cycles: bool,
    /// The column that it is dropped with.
    pub owner: Option<(TableId, String)>,
}

impl SequenceDefinition {
    /// The number behind `last`; none where that was the last one.
    fn next(&self, last: i64) -> Option<i64> {
        let next = last.checked_add(self.increment);
        let next = next.filter(|next| (self.min..=self.max).contains(next));
        match (next, self.cycles, self.increment > 0) {
            (Some(next), ..) => Some(next),
            (None, true, true) => Some(self.min),
            (None, true, false) => Some(self.max),
            (None, false, _) => None,
        }
    }
}

/// Where a sequence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceValue {
    /// The number that was given out last, or is to be the first.
    pub last: i64,
    /// Whether it was given out.
    pub is_called: bool,
}

/// Why a sequence gives no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceEnd<E> {
    /// Its numbers are used up; the last of them.
    UsedUp(i64),
    /// A number that it can't be set to; its least and its greatest.
    OutOfBounds(i64, i64),
    /// It could not be written down.
    NotKept(E),
}

#[derive(Debug)]
struct State {
    definition: Arc<SequenceDefinition>,
    value: SequenceValue,
    /// How many numbers more the log knows to be given out.
    left: u32,
}

/// A sequence. Its numbers are not part of transactions: what is given out stays so.
#[derive(Debug)]
pub struct Sequence(Mutex<State>);

impl Sequence {
    /// A sequence of which no number was given out.
    pub fn new(definition: SequenceDefinition) -> Self {
        let value = SequenceValue {
            last: definition.start,
            is_called: false,
        };
        Self::restored(definition, value)
    }

    /// A sequence as it was.
    pub fn restored(definition: SequenceDefinition, value: SequenceValue) -> Self {
        Self(Mutex::new(State {
            definition: Arc::new(definition),
            value,
            left: 0,
        }))
    }

    /// How it was declared.
    pub fn definition(&self) -> Arc<SequenceDefinition> {
        Arc::clone(&self.0.lock().definition)
    }

    /// Where it is.
    pub fn value(&self) -> SequenceValue {
        self.0.lock().value
    }

    /// How it was declared, and where it is, to be written to a checkpoint: what is given out from now on is
    /// told the log first.
    pub fn checkpoint(&self) -> (SequenceDefinition, SequenceValue) {
        let mut state = self.0.lock();
        state.left = 0;
        (state.definition.as_ref().clone(), state.value)
    }

    /// Gives the next number out. `keep` writes down where the sequence is to be after a crash, where it
    /// was not written far enough ahead.
    ///
    /// # Errors
    /// [`SequenceEnd::UsedUp`]; those of `keep`, and nothing is given out.
    pub fn next<E>(
        &self,
        keep: impl FnOnce(SequenceValue) -> Result<(), E>,
    ) -> Result<i64, SequenceEnd<E>> {
        let mut state = self.0.lock();
        let definition = Arc::clone(&state.definition);
        let last = state.value.last;
        let next = match state.value.is_called {
            true => definition.next(last).ok_or(SequenceEnd::UsedUp(last))?,
            false => last,
        };
        match state.left.checked_sub(1) {
            Some(left) => state.left = left,
            None => {
                let mut ahead = next;
                let mut steps = 0;
                while steps < AHEAD
                    && let Some(further) = definition.next(ahead)
                {
                    (ahead, steps) = (further, steps + 1);
                }
                keep(called(ahead)).map_err(SequenceEnd::NotKept)?;
                state.left = steps;
            }
        }
        state.value = called(next);
        Ok(next)
    }

    /// Sets where it is.
    ///
    /// # Errors
    /// [`SequenceEnd::OutOfBounds`]; those of `keep`, and nothing has changed.
    pub fn set<E>(
        &self,
        value: SequenceValue,
        keep: impl FnOnce(SequenceValue) -> Result<(), E>,
    ) -> Result<(), SequenceEnd<E>> {
        let mut state = self.0.lock();
        let (min, max) = (state.definition.min, state.definition.max);
        if !(min..=max).contains(&value.last) {
            return Err(SequenceEnd::OutOfBounds(min, max));
        }
        keep(value).map_err(SequenceEnd::NotKept)?;
        (state.value, state.left) = (value, 0);
        Ok(())
    }

    /// Declares it anew: `change` is told how it was declared and where it is.
    ///
    /// # Errors
    /// Those of `change`, and nothing has changed.
    pub fn alter<E>(
        &self,
        change: impl FnOnce(
            &SequenceDefinition,
            SequenceValue,
        ) -> Result<(SequenceDefinition, SequenceValue), E>,
    ) -> Result<(), E> {
        let mut state = self.0.lock();
        let (definition, value) = change(&state.definition, state.value)?;
        *state = State {
            definition: Arc::new(definition),
            value,
            left: 0,
        };
        Ok(())
    }
}

fn called(last: i64) -> SequenceValue {
    SequenceValue {
        last,
        is_called: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sequence(min: i64, max: i64, increment: i64, cycles: bool) -> Sequence {
        Sequence::new(SequenceDefinition {
            data_type: SequenceType::BigInt,
            start: if increment > 0 { min } else { max },
            increment,
            min,
            max,
            cache: 1,
            cycles,
            owner: None,
        })
    }

    fn next(sequence: &Sequence) -> Result<i64, SequenceEnd<()>> {
        sequence.next(|_| Ok(()))
    }

    #[test]
    fn numbers_end_or_begin_anew() {
        let up = sequence(1, 5, 2, false);
        assert_eq!([next(&up), next(&up), next(&up)], [Ok(1), Ok(3), Ok(5)]);
        assert_eq!(next(&up), Err(SequenceEnd::UsedUp(5)));
        let down = sequence(-3, -1, -2, true);
        assert_eq!(
            [next(&down), next(&down), next(&down)],
            [Ok(-1), Ok(-3), Ok(-1)]
        );
        let edge = sequence(i64::MAX - 1, i64::MAX, 1, false);
        assert_eq!([next(&edge), next(&edge)], [Ok(i64::MAX - 1), Ok(i64::MAX)]);
        assert_eq!(next(&edge), Err(SequenceEnd::UsedUp(i64::MAX)));
    }

    #[test]
    fn it_is_set_within_its_bounds() {
        let sequence = sequence(1, 10, 1, false);
        let set =
            |last, is_called| sequence.set(SequenceValue { last, is_called }, |_| Ok::<_, ()>(()));
        assert_eq!(set(11, true), Err(SequenceEnd::OutOfBounds(1, 10)));
        set(7, false).expect("a number");
        assert_eq!([next(&sequence), next(&sequence)], [Ok(7), Ok(8)]);
        let refused = sequence.set(called(1), |_| Err("full"));
        assert_eq!(refused, Err(SequenceEnd::NotKept("full")));
        assert_eq!(next(&sequence), Ok(9));
    }

    proptest! {
        /// Whatever a crash takes, what was written down leads behind all that was given out.
        #[test]
        fn no_number_is_given_out_again(taken in 1_usize..200, checkpoints in prop::collection::vec(0_usize..200, 0..4)) {
            let sequence = sequence(1, i64::MAX, 3, false);
            let mut kept = None;
            let mut last = 0;
            for at in 0..taken {
                if checkpoints.contains(&at) {
                    kept = Some(sequence.checkpoint().1);
                }
                last = sequence.next(|value| {
                    kept = Some(value);
                    Ok::<_, ()>(())
                }).expect("a number");
            }
            let definition = sequence.definition().as_ref().clone();
            let again = Sequence::restored(definition, kept.expect("it was written down"));
            prop_assert!(next(&again).expect("a number") > last);
        }
    }
}
