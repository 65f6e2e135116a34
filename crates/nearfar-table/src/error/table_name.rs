//! What a table is called.

use std::fmt;

/// What a table is called in errors about its rows. It is shown without its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The schema, if the table is in one.
    pub schema: Option<String>,
    /// The name in that.
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
