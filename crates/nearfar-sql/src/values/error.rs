//! What can be wrong with a value.

use datafusion::error::DataFusionError;

/// A value that an expression can't have, or can't be computed of. Each has an SQLSTATE of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A number that its type can't hold.
    #[error("{what} out of range")]
    OutOfRange {
        /// The type or the kind of number.
        what: String,
    },
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A logarithm of what has none.
    #[error("cannot take the logarithm of {what}")]
    Logarithm {
        /// Zero, or a negative number.
        what: &'static str,
    },
    /// A root or power that is no real number.
    #[error("{what}")]
    Power {
        /// What was asked for.
        what: &'static str,
    },
    /// A text that is no value of a type.
    #[error("invalid input syntax for type {kind}: \"{text}\"")]
    Text {
        /// The type.
        kind: String,
        /// The text.
        text: String,
    },
    /// A text that is longer than its column may be.
    #[error("value too long for type {kind}")]
    TooLong {
        /// The type, with its length.
        kind: String,
    },
    /// An argument that a function does not know.
    #[error("{what}")]
    Argument {
        /// What is wrong with it.
        what: String,
    },
    /// A date or time that there is not.
    #[error("date or time out of range")]
    Datetime,
}

impl ValueError {
    /// A number that a type can't hold.
    pub fn out_of_range(what: impl Into<String>) -> Self {
        Self::OutOfRange { what: what.into() }
    }

    /// A text that is no value of a type.
    pub fn text(kind: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Text {
            kind: kind.into(),
            text: text.into(),
        }
    }
}

impl From<ValueError> for DataFusionError {
    fn from(error: ValueError) -> Self {
        Self::External(Box::new(error))
    }
}
