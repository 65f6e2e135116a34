//! Keys as byte strings whose order is the keys' own.

/// A key of a tree over byte strings: its bytes order as the keys do.
///
/// Integers are big-endian, with the sign turned around; strings and byte slices are themselves.
///
/// ```
/// use nearfar_index::Key;
///
/// let bytes = |number: i32| number.key_bytes().as_ref().to_vec();
/// assert!(bytes(-5) < bytes(3));
/// assert_eq!("far".key_bytes().as_ref(), b"far");
/// ```
pub trait Key {
    /// The bytes of this key.
    fn key_bytes(&self) -> KeyBytes<'_>;
}

/// The bytes of a key: borrowed, or few enough to be made on the spot.
#[derive(Debug, Clone, Copy)]
pub enum KeyBytes<'k> {
    /// The key's own.
    Borrowed(&'k [u8]),
    /// Those of an integer: the first `length` of the array.
    Made {
        /// The bytes.
        bytes: [u8; 16],
        /// How many there are.
        length: u8,
    },
}

impl AsRef<[u8]> for KeyBytes<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Made { bytes, length } => &bytes[..usize::from(*length)],
        }
    }
}

macro_rules! integer_keys {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Key for $unsigned {
            #[inline]
            fn key_bytes(&self) -> KeyBytes<'_> {
                let mut bytes = [0; 16];
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_be_bytes());
                KeyBytes::Made { bytes, length: size_of::<Self>() as u8 }
            }
        }

        impl Key for $signed {
            #[inline]
            fn key_bytes(&self) -> KeyBytes<'_> {
                let ordered = (*self as $unsigned) ^ (1 << (<$unsigned>::BITS - 1));
                let mut bytes = [0; 16];
                bytes[..size_of::<Self>()].copy_from_slice(&ordered.to_be_bytes());
                KeyBytes::Made { bytes, length: size_of::<Self>() as u8 }
            }
        }
    )*};
}

integer_keys! {
    u8, i8;
    u16, i16;
    u32, i32;
    u64, i64;
    u128, i128;
}

impl Key for [u8] {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::Borrowed(self)
    }
}

impl Key for str {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::Borrowed(self.as_bytes())
    }
}

impl Key for String {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::Borrowed(self.as_bytes())
    }
}

impl Key for Vec<u8> {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::Borrowed(self)
    }
}

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        KeyBytes::Borrowed(self)
    }
}

impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn key_bytes(&self) -> KeyBytes<'_> {
        (**self).key_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_order_as_the_numbers_do(a: i64, b: i64, c: u128, d: u128) {
            let (x, y) = (a.key_bytes(), b.key_bytes());
            prop_assert_eq!(a.cmp(&b), x.as_ref().cmp(y.as_ref()));
            let (x, y) = (c.key_bytes(), d.key_bytes());
            prop_assert_eq!(c.cmp(&d), x.as_ref().cmp(y.as_ref()));
        }
    }
}
