//! Constraints that rows fail, as drivers and mappers of objects look for them.

use nearfar_sql::error::EngineError;
use nearfar_sql::sql::SqlError;
use nearfar_table::error::{IndexError, TableName};

/// What an error says of a constraint, in fields of their own and in PostgreSQL's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong, without the detail.
    pub message: String,
    /// Which row or key it is about.
    pub detail: Option<String>,
    /// The schema of the table.
    pub schema: Option<String>,
    /// The table that the constraint is of.
    pub table: Option<String>,
    /// The column that has a null.
    pub column: Option<String>,
    /// The name of the constraint.
    pub constraint: Option<String>,
}

impl Violation {
    /// What an error of the engine says of a constraint, if it is about one.
    pub fn of(error: &EngineError) -> Option<Self> {
        match error {
            EngineError::Index(IndexError::Duplicate { index, key, table }) => {
                let message = format!("duplicate key value violates unique constraint \"{index}\"");
                let violation = Self::new(table.as_deref(), Some(index), message);
                Some(violation.with_detail(format!("Key {key} already exists.")))
            }
            EngineError::Sql(error) => of_columns(error).or_else(|| of_reference(error)),
            _ => None,
        }
    }

    fn new(table: Option<&TableName>, constraint: Option<&String>, message: String) -> Self {
        Self {
            message,
            detail: None,
            schema: table.and_then(|table| table.schema.clone()),
            table: table.map(|table| table.name.clone()),
            column: None,
            constraint: constraint.cloned(),
        }
    }

    fn with_detail(self, detail: String) -> Self {
        Self {
            detail: Some(detail),
            ..self
        }
    }
}

/// Of nulls and conditions, and of rows that fail what is to be declared.
fn of_columns(error: &SqlError) -> Option<Violation> {
    match error {
        SqlError::NullsNotAllowed { table, column, .. } => Some(Violation {
            column: Some(column.clone()),
            ..Violation::new(Some(table), None, error.to_string())
        }),
        SqlError::CheckViolated {
            table,
            constraint,
            row,
        } => {
            let message = format!(
                "new row for relation \"{table}\" violates check constraint \"{constraint}\""
            );
            let violation = Violation::new(Some(table), Some(constraint), message);
            Some(violation.with_detail(format!("Failing row contains ({row}).")))
        }
        SqlError::ViolatedByRows { name, table, .. } => {
            Some(Violation::new(Some(table), Some(name), error.to_string()))
        }
        _ => None,
    }
}

/// Of foreign keys.
fn of_reference(error: &SqlError) -> Option<Violation> {
    let (table, constraint, detail) = match error {
        SqlError::NoParent {
            table,
            constraint,
            key,
            parent,
        } => {
            let detail = format!("Key {key} is not present in table \"{parent}\".");
            (table, constraint, detail)
        }
        SqlError::HalfReference { table, constraint } => {
            let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
            (table, constraint, detail.to_owned())
        }
        SqlError::HasChildren {
            parent,
            constraint,
            table,
            key,
        } => {
            let message = format!(
                "update or delete on table \"{parent}\" violates foreign key constraint \
                 \"{constraint}\" on table \"{table}\""
            );
            let violation = Violation::new(Some(table), Some(constraint), message);
            let detail = format!("Key {key} is still referenced from table \"{table}\".");
            return Some(violation.with_detail(detail));
        }
        _ => return None,
    };
    let message = format!(
        "insert or update on table \"{table}\" violates foreign key constraint \"{constraint}\""
    );
    let violation = Violation::new(Some(table), Some(constraint), message);
    Some(violation.with_detail(detail))
}
