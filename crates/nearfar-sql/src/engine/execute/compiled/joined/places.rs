//! Rows that are put together of rows of several tables.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use nearfar_table::table::PackedRows;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::execute::compiled::key::{FoundRows, Places};
use crate::engine::session::Session;
use crate::error::EngineError;

/// Rows that are put together of rows of several tables.
#[derive(Debug)]
pub struct JoinedPlaces {
    parts: Vec<JoinedPart>,
    len: usize,
}

/// What rows have of one table.
#[derive(Debug)]
struct JoinedPart {
    /// The places of the table's columns among those of all.
    columns: Range<usize>,
    places: Arc<Places>,
    /// Which of the places each row has, if it has one.
    rows: Vec<Option<u32>>,
}

impl JoinedPlaces {
    /// Rows of one table, whose columns have these places among those of all.
    pub fn of(places: Places, columns: Range<usize>) -> Self {
        let len = places.len();
        let rows = (0..len as u32).map(Some).collect();
        let part = JoinedPart {
            columns,
            places: Arc::new(places),
            rows,
        };
        Self {
            parts: vec![part],
            len,
        }
    }

    /// Puts to each of `pairs`, which are rows of these and of `places`, what it has of the two. These are left as they
    /// are.
    pub fn with(
        &self,
        (places, columns): (Arc<Places>, Range<usize>),
        pairs: &[JoinedPair],
    ) -> Self {
        let before = self.parts.iter().map(|part| JoinedPart {
            columns: part.columns.clone(),
            places: Arc::clone(&part.places),
            rows: pairs.iter().map(|(row, _)| part.rows[*row]).collect(),
        });
        let last = JoinedPart {
            columns,
            places,
            rows: pairs.iter().map(|(_, place)| *place).collect(),
        };
        Self {
            parts: before.chain([last]).collect(),
            len: pairs.len(),
        }
    }
}

/// A row, and the place that is put to it, if there is one.
pub type JoinedPair = (usize, Option<u32>);

impl FoundRows for JoinedPlaces {
    fn len(&self) -> usize {
        self.len
    }

    fn keep(&mut self, rows: &[usize]) {
        if rows.len() == self.len {
            return;
        }
        for part in &mut self.parts {
            part.rows = rows.iter().map(|row| part.rows[*row]).collect();
        }
        self.len = rows.len();
    }

    fn values(
        &self,
        session: &Session,
        columns: &[usize],
    ) -> Result<Option<Vec<ArrayRef>>, EngineError> {
        let mut values: Vec<Option<ArrayRef>> = vec![None; columns.len()];
        for part in &self.parts {
            let wanted = columns.iter().enumerate();
            let wanted = wanted.filter(|(_, column)| part.columns.contains(column));
            let (at, own): (Vec<usize>, Vec<usize>) = wanted
                .map(|(at, column)| (at, column - part.columns.start))
                .unzip();
            if own.is_empty() {
                continue;
            }
            let Some(read) = part.places.values(session, &own)? else {
                return Ok(None);
            };
            let rows = UInt32Array::from_iter(part.rows.iter().copied());
            for (at, read) in at.into_iter().zip(&read) {
                values[at] = Some(take(read, &rows, None)?);
            }
        }
        Ok(values.into_iter().collect())
    }

    fn packed(&self, _: &Session, _: &[usize], _: &SchemaRef) -> Option<PackedRows> {
        None
    }
}
