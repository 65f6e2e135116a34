//! What is wrong with a specification, and where.

use std::fmt;

/// Where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In this line of the file or preset.
    Line(usize),
    /// On the command line, by this flag.
    Flag(String),
    /// Nowhere: it has its default.
    Default,
}

/// What kind of mistake a specification has, where programs tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecErrorKind {
    /// A text or a field that means nothing, is out of range, or contradicts another.
    Invalid,
    /// A tier that the machine does not have.
    UnknownTier,
}

/// What is wrong with a field, before it is known where that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    kind: SpecErrorKind,
    message: String,
}

impl Mistake {
    /// A tier that the machine does not have.
    pub(crate) fn unknown_tier(message: String) -> Self {
        Self {
            kind: SpecErrorKind::UnknownTier,
            message,
        }
    }

    /// Whether it is that.
    pub(crate) fn is_unknown_tier(&self) -> bool {
        self.kind == SpecErrorKind::UnknownTier
    }

    /// What is wrong, and what to do.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

impl<T: Into<String>> From<T> for Mistake {
    fn from(message: T) -> Self {
        Self {
            kind: SpecErrorKind::Invalid,
            message: message.into(),
        }
    }
}

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The file or preset, if there is one.
    pub source_name: Option<String>,
    /// Where the field was written.
    pub origin: Origin,
    /// Path of the field, such as `task.reader.threads`; empty where no field is to blame.
    pub field: String,
    /// What kind of mistake it is.
    pub kind: SpecErrorKind,
    /// What is wrong, and what to do.
    pub message: String,
}

impl SpecError {
    pub(crate) fn new(
        origin: &Origin,
        field: impl Into<String>,
        mistake: impl Into<Mistake>,
    ) -> Self {
        let Mistake { kind, message } = mistake.into();
        Self {
            source_name: None,
            origin: origin.clone(),
            field: field.into(),
            kind,
            message,
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.origin, &self.source_name) {
            (Origin::Line(line), Some(name)) => write!(formatter, "{name}, line {line}: ")?,
            (Origin::Line(line), None) => write!(formatter, "line {line}: ")?,
            (Origin::Flag(flag), _) => write!(formatter, "{flag}: ")?,
            (Origin::Default, Some(name)) if self.field.is_empty() => {
                write!(formatter, "{name}: ")?
            }
            (Origin::Default, _) => {}
        }
        if !self.field.is_empty() {
            write!(formatter, "{}: ", self.field)?;
        }
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for SpecError {}
