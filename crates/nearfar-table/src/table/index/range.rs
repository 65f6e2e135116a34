//! Ranges of keys, as bytes.

use arrow::array::ArrayRef;

/// Where a range of values of a column begins or ends: at a value of one row, which is in the range.
pub type KeyBound = Option<ArrayRef>;

/// The keys whose first columns have given values, and whose next column is between two others. It can have
/// keys at its ends that a comparison of values would leave out, and those with nulls in the last column.
#[derive(Debug, Clone)]
pub struct KeyRange {
    /// What all keys begin with.
    pub(super) prefix: Box<[u8]>,
    /// Where they begin, if that is behind the prefix; it starts with that.
    pub(super) from: Option<Box<[u8]>>,
    /// Where they end: keys that begin with it are in the range.
    pub(super) to: Option<Box<[u8]>>,
    pub(super) is_whole_key: bool,
    pub(super) has_null: bool,
}

impl KeyRange {
    /// Whether a key from [`Self::from`] on is in the range.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let is_before_end = |to: &[u8]| key <= to || key.starts_with(to);
        key.starts_with(&self.prefix) && self.to.as_deref().is_none_or(is_before_end)
    }

    /// The first key that there can be.
    pub(crate) fn from(&self) -> &[u8] {
        self.from.as_deref().unwrap_or(&self.prefix)
    }

    /// Whether all columns of the index have one value.
    pub(crate) fn is_whole_key(&self) -> bool {
        self.is_whole_key
    }

    /// Whether one of the values that are given is null.
    pub(crate) fn has_null(&self) -> bool {
        self.has_null
    }
}
