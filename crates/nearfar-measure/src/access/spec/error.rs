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

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The file or preset, if there is one.
    pub source_name: Option<String>,
    /// Where the field was written.
    pub origin: Origin,
    /// Path of the field, such as `task.reader.threads`; empty where no field is to blame.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl SpecError {
    pub(crate) fn new(
        origin: &Origin,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            source_name: None,
            origin: origin.clone(),
            field: field.into(),
            message: message.into(),
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
