//! What is wrong with a file.

use std::any::Any;

/// What is wrong with a file that others have written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It does not begin or end as its format does.
    #[error("it does not {place} as a file of its format")]
    Magic {
        /// `begin` or `end`.
        place: &'static str,
    },
    /// A part that reaches beyond the file, or has a length that none can have.
    #[error("{what} is said to have {said_bytes} bytes at byte {offset}, and the file has {bytes}")]
    Beyond {
        /// The part.
        what: &'static str,
        /// Where it is said to be.
        offset: i128,
        /// How long it is said to be.
        said_bytes: i128,
        /// How long the file is.
        bytes: u64,
    },
    /// A part whose bytes are none of such a part.
    #[error("{what} can't be read: {reason}")]
    Malformed {
        /// The part.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// A library gave up over it in the only way it knows.
    #[error("its reader gave up: {0}")]
    Panicked(#[from] Panicked),
}

impl Damage {
    pub(crate) fn malformed(what: &'static str, reason: impl ToString) -> Self {
        Self::Malformed {
            what,
            reason: reason.to_string(),
        }
    }
}

/// What a library said when it panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Panicked {
    /// The first line of it.
    message: String,
}

impl Panicked {
    /// What `panic` says.
    pub(crate) fn of(panic: &(dyn Any + Send)) -> Self {
        let text = match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text,
            (None, Some(text)) => *text,
            (None, None) => "it did not say why",
        };
        let message = text.lines().next().unwrap_or_default().to_owned();
        Self { message }
    }
}
