//! Texts that go to the caller.

use std::ffi::c_char;

/// Puts `text` into `to` with a zero byte behind it, cut at the end of a character where it does not fit.
/// Nothing of no room.
pub fn copy(text: &str, to: &mut [c_char]) {
    let Some(room) = to.len().checked_sub(1) else {
        return;
    };
    let end = text.floor_char_boundary(room);
    let bytes = text.as_bytes()[..end].iter().chain([&0]);
    to.iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from as c_char);
}

/// A text in an array of its own.
pub fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    copy(text, &mut array);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_at_a_character() {
        let bytes = |text: &[c_char]| text.iter().map(|one| *one as u8).collect::<Vec<_>>();
        assert_eq!(bytes(&array::<5>("near")), b"near\0");
        assert_eq!(bytes(&array::<6>("near")), b"near\0\0");
        assert_eq!(bytes(&array::<4>("near")), b"nea\0");
        assert_eq!(bytes(&array::<4>("naü")), b"na\0\0");
        let mut none: [c_char; 0] = [];
        copy("near", &mut none);
    }
}
