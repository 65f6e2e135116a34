//! Keys cut into slices of eight bytes, one for each layer.

/// Bytes of a key that one layer looks at.
pub(super) const SLICE_BYTES: usize = 8;

/// Classes of entries: up to [`WHOLE`] the bytes of a key that ends in this slice.
pub(super) const WHOLE: u8 = SLICE_BYTES as u8;
/// The key goes on, and is the only one here with this slice: the rest of it is in a record.
pub(super) const SUFFIX: u8 = 9;
/// Several keys go on: they are in a layer of their own.
pub(super) const LAYER: u8 = 10;
/// Nothing is here.
pub(super) const FREE: u8 = 15;

/// What a layer sees of a key: its next bytes as a big-endian number, filled up with zeros, and how
/// many they are ([`SUFFIX`] where the key goes on after them). Keys order as these pairs do, up
/// to those that go on after equal slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slice {
    pub(super) bits: u64,
    pub(super) class: u8,
}

impl Slice {
    pub(super) const LEAST: Self = Self { bits: 0, class: 0 };
    pub(super) const GREATEST: Self = Self {
        bits: u64::MAX,
        class: SUFFIX,
    };

    /// The slice at the front of what is left of a key.
    #[inline(always)]
    pub(super) fn of(rest: &[u8]) -> Self {
        if let Some(front) = rest.first_chunk() {
            let class = if rest.len() > SLICE_BYTES {
                SUFFIX
            } else {
                WHOLE
            };
            return Self {
                bits: u64::from_be_bytes(*front),
                class,
            };
        }
        let mut front = [0; SLICE_BYTES];
        front[..rest.len()].copy_from_slice(rest);
        Self {
            bits: u64::from_be_bytes(front),
            class: rest.len() as u8,
        }
    }

    /// Appends the bytes of the slice to a key.
    #[inline]
    pub(super) fn append_to(self, key: &mut Vec<u8>) {
        let bytes = usize::from(self.class.min(WHOLE));
        key.extend_from_slice(&self.bits.to_be_bytes()[..bytes]);
    }

    /// The least slice above; `None` where there is none.
    pub(super) fn successor(self) -> Option<Self> {
        if self.class < SUFFIX {
            return Some(Self {
                class: self.class + 1,
                ..self
            });
        }
        let bits = self.bits.checked_add(1)?;
        Some(Self::first_of(bits))
    }

    /// The greatest slice below; `None` where there is none.
    pub(super) fn predecessor(self) -> Option<Self> {
        if self > Self::first_of(self.bits) {
            return Some(Self {
                class: self.class - 1,
                ..self
            });
        }
        Some(Self {
            bits: self.bits.checked_sub(1)?,
            class: SUFFIX,
        })
    }

    /// The least slice with these bits: no key is shorter than its last byte that is not zero.
    pub(super) fn first_of(bits: u64) -> Self {
        let zeros = bits.trailing_zeros().min(u64::BITS) / 8;
        Self {
            bits,
            class: WHOLE - zeros as u8,
        }
    }
}

/// Makes a prefix the least key above all that begin with it, and says whether there is one.
pub(super) fn advance_past(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slices_order_as_keys_do(
            a in proptest::collection::vec(0..3_u8, 0..10),
            b in proptest::collection::vec(0..3_u8, 0..10),
        ) {
            let (x, y) = (Slice::of(&a), Slice::of(&b));
            if x != y {
                prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            } else {
                prop_assert!(a == b || x.class == SUFFIX);
            }
        }

        #[test]
        fn neighbours_are_next_to_each_other(key in proptest::collection::vec(0..2_u8, 0..10)) {
            let slice = Slice::of(&key);
            if let Some(above) = slice.successor() {
                prop_assert!(slice < above);
                prop_assert_eq!(above.predecessor(), Some(slice));
            }
            if let Some(below) = slice.predecessor() {
                prop_assert_eq!(below.successor(), Some(slice));
            }
        }
    }

    #[test]
    fn the_ends_have_no_neighbours() {
        assert_eq!(Slice::LEAST.predecessor(), None);
        assert_eq!(Slice::GREATEST.successor(), None);
        assert!(!advance_past(&mut vec![255, 255]));
        assert!(!advance_past(&mut vec![]));
        let mut prefix = b"ab\xff".to_vec();
        assert!(advance_past(&mut prefix));
        assert_eq!(prefix, b"ac");
    }

    #[test]
    fn a_slice_gives_its_bytes_back() {
        for key in [&b""[..], b"a", b"a\0", b"12345678"] {
            let mut back = Vec::new();
            Slice::of(key).append_to(&mut back);
            assert_eq!(back, key);
        }
    }
}
