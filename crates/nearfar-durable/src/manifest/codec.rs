//! Numbers, texts and lists as bytes: little-endian, without padding, lengths before what they count.

use super::error::ManifestError;

/// Writes values one after the other.
#[derive(Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// All that was written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// Bytes that were written so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These bytes and nothing else.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Whether something is so.
    pub fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// A number of things, in eight bytes.
    pub fn count(&mut self, value: usize) {
        self.u64(value as u64);
    }

    /// Sixteen bytes.
    pub fn i128(&mut self, value: i128) {
        self.raw(&value.to_le_bytes());
    }

    /// Bytes with their number.
    pub fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.raw(value);
    }

    /// A text with its number of bytes.
    pub fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// Words with their number.
    pub fn words(&mut self, values: &[u64]) {
        self.count(values.len());
        self.0.reserve(size_of_val(values));
        values.iter().for_each(|value| self.u64(*value));
    }

    /// Whether there is a value, and the value.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// How many values there are, and each of them.
    pub fn list<T>(
        &mut self,
        values: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.count(values.len());
        values.for_each(|value| write(self, value));
    }
}

/// Reads what an [`Encoder`] has written. Every call names what it reads, for the error.
#[derive(Debug, Clone)]
pub struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Reads `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Refuses bytes that nothing has read.
    ///
    /// # Errors
    /// [`ManifestError::Invalid`], here and below.
    pub fn finish(self, what: &'static str) -> Result<(), ManifestError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(ManifestError::Invalid { what }),
        }
    }

    /// All that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// So many bytes.
    pub fn raw(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], ManifestError> {
        let (head, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(ManifestError::Invalid { what })?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ManifestError> {
        let (head, rest) = self
            .0
            .split_first_chunk()
            .ok_or(ManifestError::Invalid { what })?;
        self.0 = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, ManifestError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// Whether something is so.
    pub fn flag(&mut self, what: &'static str) -> Result<bool, ManifestError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ManifestError::Invalid { what }),
        }
    }

    /// Four bytes.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, ManifestError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, ManifestError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    pub fn i128(&mut self, what: &'static str) -> Result<i128, ManifestError> {
        self.array(what).map(i128::from_le_bytes)
    }

    /// A number of things, of which nobody knows whether they are there: no room is made for them.
    /// It is small enough to be added up and multiplied by the size of anything.
    pub fn count(&mut self, what: &'static str) -> Result<usize, ManifestError> {
        const COUNT_MAX: u64 = 1 << 48;
        let count = self.u64(what)?;
        match count <= COUNT_MAX {
            true => Ok(count as usize),
            false => Err(ManifestError::Invalid { what }),
        }
    }

    /// Bytes with their number.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], ManifestError> {
        let count = self.count(what)?;
        self.raw(count, what)
    }

    /// A text with its number of bytes.
    pub fn text(&mut self, what: &'static str) -> Result<String, ManifestError> {
        let bytes = self.bytes(what)?;
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::Invalid { what })?;
        Ok(text.to_owned())
    }

    /// Words with their number.
    pub fn words(&mut self, what: &'static str) -> Result<Vec<u64>, ManifestError> {
        let bytes = self.count(what)? * size_of::<u64>();
        let (words, _) = self.raw(bytes, what)?.as_chunks();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// A value that need not be there.
    pub fn option<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, ManifestError>,
    ) -> Result<Option<T>, ManifestError> {
        match self.flag(what)? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    /// Values with their number, each of at least one byte.
    pub fn list<T>(
        &mut self,
        what: &'static str,
        mut read: impl FnMut(&mut Self) -> Result<T, ManifestError>,
    ) -> Result<Vec<T>, ManifestError> {
        let count = self.count(what)?;
        if count > self.0.len() {
            return Err(ManifestError::Invalid { what });
        }
        (0..count).map(|_| read(self)).collect()
    }
}
