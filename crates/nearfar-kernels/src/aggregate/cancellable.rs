//! Aggregates that can be cancelled: part by part, with a look at whether to go on before each.

use nearfar_model::Probe;

use super::{Aggregate, CodeTooLarge, NoRoomForGroups, Number, Selected, Summary};
use crate::cancel::{Cancel, Cancelled, PART_ROWS};
use crate::selection::{Selection, WORD_BITS};
use crate::vectors;

/// Why groups have not all of their rows: they are of no use then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupsError {
    /// The caller has cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A code that no group stands for.
    #[error(transparent)]
    Code(#[from] CodeTooLarge),
    /// The system gives no memory for more groups.
    #[error(transparent)]
    NoRoom(#[from] NoRoomForGroups),
}

impl Aggregate {
    /// As [`Self::sum`], until `cancel` ends it.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn sum_cancellable<T: Number, P: Probe>(
        &self,
        column: &[T],
        cancel: &Cancel,
        probe: &P,
    ) -> Result<i128, Cancelled> {
        let mut sum = 0;
        for part in column.chunks(PART_ROWS) {
            cancel.check()?;
            sum += self.sum(part, probe);
        }
        Ok(sum)
    }

    /// As [`Self::summary`], until `cancel` ends it.
    ///
    /// # Errors
    /// [`Cancelled`].
    ///
    /// ```
    /// use nearfar_kernels::{Aggregate, Cancel, Cancelled};
    /// use nearfar_model::Native;
    ///
    /// let cancel = Cancel::default();
    /// let summary = Aggregate::new().summary_cancellable(&[5_i64, -1, 9], &cancel, &Native);
    /// assert_eq!(summary.map(|summary| summary.sum), Ok(13));
    /// cancel.cancel();
    /// let summary = Aggregate::new().summary_cancellable(&[5_i64, -1, 9], &cancel, &Native);
    /// assert_eq!(summary, Err(Cancelled));
    /// ```
    pub fn summary_cancellable<T: Number, P: Probe>(
        &self,
        column: &[T],
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Summary<T>, Cancelled> {
        let mut summary = Summary::default();
        for part in column.chunks(PART_ROWS) {
            cancel.check()?;
            summary = summary.merged(self.summary(part, probe));
        }
        Ok(summary)
    }

    /// As [`Self::summary_of`], until `cancel` ends it.
    ///
    /// # Errors
    /// [`Cancelled`].
    ///
    /// # Panics
    /// Where the selection is of another number of rows.
    pub fn summary_of_cancellable<T: Number, P: Probe>(
        &self,
        column: &[T],
        selection: &Selection,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Summary<T>, Cancelled> {
        assert_eq!(column.len(), selection.len(), "a selection of other rows");
        let words = selection.words().chunks(PART_ROWS / WORD_BITS);
        let mut summary = Summary::default();
        for (column, words) in column.chunks(PART_ROWS).zip(words) {
            cancel.check()?;
            let selected = Selected {
                column,
                words,
                probe,
            };
            summary = summary.merged(vectors::run(self.isa(), selected));
        }
        Ok(summary)
    }

    /// As [`Self::by_code`], until `cancel` ends it.
    ///
    /// # Errors
    /// [`GroupsError::Cancelled`] and [`GroupsError::Code`], both with some of the rows added.
    ///
    /// # Panics
    /// Where there are not as many codes as values.
    pub fn by_code_cancellable<T: Number, P: Probe>(
        &self,
        codes: &[u32],
        column: &[T],
        groups: &mut [Summary<T>],
        cancel: &Cancel,
        probe: &P,
    ) -> Result<(), GroupsError> {
        assert_eq!(codes.len(), column.len(), "a code for each value");
        let parts = codes.chunks(PART_ROWS).zip(column.chunks(PART_ROWS));
        for (index, (codes, column)) in parts.enumerate() {
            cancel.check()?;
            let added = self.by_code(codes, column, groups, probe);
            added.map_err(|error| CodeTooLarge {
                row: index * PART_ROWS + error.row,
                ..error
            })?;
        }
        Ok(())
    }
}
