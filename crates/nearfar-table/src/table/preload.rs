//! Which columns are brought to memory before a query needs them.

use std::collections::HashMap;

/// When a column is brought to memory after a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PreloadPriority(u8);

impl PreloadPriority {
    /// When it is first needed.
    pub const WHEN_NEEDED: Self = Self(0);
    /// The highest.
    pub const MAX: u8 = 9;

    /// `priority`, from 0, which is when the column is first needed, to [`Self::MAX`], which is
    /// before all others; nothing for higher ones.
    pub fn new(priority: u8) -> Option<Self> {
        (priority <= Self::MAX).then_some(Self(priority))
    }

    /// The priority as a number.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// The priorities of a table's columns.
///
/// ```
/// use nearfar_table::table::{Preload, PreloadPriority};
///
/// let mut preload = Preload::default();
/// assert_eq!(preload.of("id"), PreloadPriority::WHEN_NEEDED);
/// let high = PreloadPriority::new(9).expect("a priority");
/// preload.set(Some("id"), high);
/// assert_eq!((preload.of("id"), preload.of("name").get()), (high, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preload {
    /// For columns not named in `columns`.
    pub default: PreloadPriority,
    /// By column name.
    pub columns: HashMap<String, PreloadPriority>,
}

impl Preload {
    /// The priority of `column`.
    pub fn of(&self, column: &str) -> PreloadPriority {
        self.columns.get(column).copied().unwrap_or(self.default)
    }

    /// Gives `column` a priority; all of them where none is named.
    pub fn set(&mut self, column: Option<&str>, priority: PreloadPriority) {
        match column {
            Some(column) => {
                self.columns.insert(column.to_owned(), priority);
            }
            None => {
                *self = Self {
                    default: priority,
                    columns: HashMap::new(),
                };
            }
        }
    }
}
