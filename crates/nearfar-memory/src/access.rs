//! Who may read the files that memory and tables are kept in.

/// Who may read files that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// The user of this process alone.
    #[default]
    Owner,
    /// Its group may read them too, for backups.
    Group,
}

impl FileAccess {
    /// The mode of a file.
    #[must_use]
    pub const fn file_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o640,
        }
    }

    /// The mode of a folder.
    #[must_use]
    pub const fn folder_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o750,
        }
    }
}
