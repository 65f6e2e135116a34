//! Numbers and texts as bytes: little-endian, lengths before contents.

/// Bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} can't be read at byte {at}")]
pub struct DecodeError {
    /// What was to be read.
    pub what: &'static str,
    /// Where in the record.
    pub at: usize,
}

/// Appends values to bytes.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// The number of things that follow. More than a `u32` counts can't be in one record, whose
    /// length is one.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }
}

/// Takes values from bytes. Nothing is allocated that the bytes do not hold.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { what, at: self.at }
    }

    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let taken = self.bytes[self.at..].get(..len);
        let taken = taken.ok_or_else(|| self.error(what))?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.error(what)),
        }
    }

    /// A number of things of which each takes at least `bytes_each`: no more than are left.
    pub fn count(&mut self, bytes_each: usize, what: &'static str) -> Result<usize, DecodeError> {
        let count = self.u32(what)? as usize;
        let left = self.bytes.len() - self.at;
        match count.checked_mul(bytes_each.max(1)) {
            Some(bytes) if bytes <= left => Ok(count),
            _ => Err(self.error(what)),
        }
    }

    pub fn blob(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.count(1, what)?;
        self.take(len, what)
    }

    pub fn text(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let bytes = self.blob(what)?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.error(what))?;
        Ok(text.to_owned())
    }
}
