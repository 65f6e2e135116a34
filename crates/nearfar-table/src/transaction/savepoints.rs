//! Parts of a transaction that can be undone by themselves.

use super::change::Definitions;
use super::table_change::Changes;
use crate::error::TransactionError;

/// What a transaction had changed, defined and locked by a moment.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub changes: Option<Changes>,
    pub definitions: Option<Definitions>,
    /// How many locks of tables it had.
    pub tables: usize,
}

/// The savepoints of a transaction, in their order. Several can have one name, of which the last is meant.
#[derive(Debug, Default)]
pub(super) struct Savepoints(Vec<(String, State)>);

impl Savepoints {
    pub fn set(&mut self, name: &str, state: State) {
        self.0.push((name.to_owned(), state));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets one, and those after it.
    pub fn release(&mut self, name: &str) -> Result<(), TransactionError> {
        let at = self.place(name)?;
        self.0.truncate(at);
        Ok(())
    }

    /// What had been changed and defined by one, which stays; those after it are forgotten.
    pub fn roll_back_to(&mut self, name: &str) -> Result<State, TransactionError> {
        let at = self.place(name)?;
        self.0.truncate(at + 1);
        Ok(self.0[at].1.clone())
    }

    fn place(&self, name: &str) -> Result<usize, TransactionError> {
        let place = self.0.iter().rposition(|(known, _)| known == name);
        place.ok_or_else(|| TransactionError::NoSavepoint {
            name: name.to_owned(),
        })
    }
}
