//! Thrift's compact protocol, read for nothing but its lengths.
//!
//! Parquet's reader allocates as many elements as a list is said to have.
//! Source: `doc/specs/thrift-compact-protocol.md` of Apache Thrift.

/// Structs, lists and maps within each other; Parquet's metadata has fewer than ten.
const DEPTH_MAX: usize = 64;

/// Whether a struct begins `bytes` none of whose parts is longer than what is there.
pub fn is_struct(bytes: &[u8]) -> bool {
    Reader { bytes }.skip_struct(DEPTH_MAX).is_some()
}

/// The types of fields and elements.
mod kind {
    pub const STOP: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

struct Reader<'a> {
    /// What is left.
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn skip(&mut self, count: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn skip_struct(&mut self, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        loop {
            let head = self.byte()?;
            match head & 0x0f {
                kind::STOP => return Some(()),
                // The value is the type.
                kind::TRUE | kind::FALSE if head >> 4 != 0 => {}
                of => {
                    if head >> 4 == 0 {
                        self.varint()?;
                    }
                    if !matches!(of, kind::TRUE | kind::FALSE) {
                        self.skip_value(of, depth)?;
                    }
                }
            }
        }
    }

    fn skip_value(&mut self, of: u8, depth: usize) -> Option<()> {
        match of {
            kind::TRUE | kind::FALSE | kind::BYTE => self.skip(1),
            kind::I16..=kind::I64 => self.varint().map(drop),
            kind::DOUBLE => self.skip(8),
            kind::UUID => self.skip(16),
            kind::BINARY => {
                let count = self.varint()?;
                self.skip(count)
            }
            kind::LIST | kind::SET => self.skip_list(depth),
            kind::MAP => self.skip_map(depth),
            kind::STRUCT => self.skip_struct(depth),
            _ => None,
        }
    }

    fn skip_list(&mut self, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        // Every element has a byte at least.
        self.bytes.get(..usize::try_from(count).ok()?)?;
        (0..count).try_for_each(|_| self.skip_value(head & 0x0f, depth))
    }

    fn skip_map(&mut self, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let count = self.varint()?;
        if count == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        self.bytes.get(..usize::try_from(count).ok()?)?;
        (0..count).try_for_each(|_| {
            self.skip_value(kinds >> 4, depth)?;
            self.skip_value(kinds & 0x0f, depth)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_the_end_are_found() {
        // Field 1: i32; field 2: a list of two structs, of a string and of nothing; field 3: true.
        let whole = [
            0x15, 0x02, 0x19, 0x2c, 0x18, 0x01, b'x', 0x00, 0x00, 0x11, 0x00,
        ];
        assert!(is_struct(&whole));
        for end in 0..whole.len() {
            assert!(!is_struct(&whole[..end]), "{end}");
        }
        // A list of 2^31 structs.
        assert!(!is_struct(&[
            0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0x00, 0x00
        ]));
        let deep = [0x1c; 100];
        assert!(!is_struct(&deep));
    }
}
