//! The formats of files, and their names.

use std::path::Path;
use std::str::FromStr;

use crate::error::EngineError;

/// A file format that tables are loaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
    /// Arrow IPC, file or stream.
    Arrow,
}

impl FileFormat {
    /// The format that a file's ending names.
    ///
    /// # Errors
    /// An ending that names none.
    pub fn of_path(path: &Path) -> Result<Self, EngineError> {
        let ending = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        ending.parse().map_err(|()| EngineError::UnknownFormat {
            path: path.to_owned(),
        })
    }
}

impl FromStr for FileFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "parquet" => Ok(Self::Parquet),
            "csv" => Ok(Self::Csv),
            "arrow" | "ipc" | "feather" | "arrows" => Ok(Self::Arrow),
            _ => Err(()),
        }
    }
}
