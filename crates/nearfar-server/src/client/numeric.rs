//! Decimal numbers in PostgreSQL's forms.

use bytes::{BufMut, BytesMut};
use pgwire::api::Type;
use pgwire::types::ToSqlText;
use pgwire::types::format::FormatOptions;
use postgres_types::{IsNull, ToSql, to_sql_checked};

/// A decimal number of up to 38 digits. The protocol's crate has one of 28.
#[derive(Debug, Clone, Copy)]
pub struct Numeric {
    /// The number without its point.
    pub value: i128,
    /// Digits behind the point; zeros before it where that is negative.
    pub scale: i8,
}

/// Digits of the longest number, with those that a scale puts before and behind its own.
const DIGITS_MAX: usize = 39 + 128;

/// Decimal digits in one digit of PostgreSQL's binary form.
const GROUP: usize = 4;
const NEGATIVE: u16 = 0x4000;

/// What a digit is worth at each place of a group.
const PLACES: [u16; GROUP] = [1000, 100, 10, 1];

/// Digits, written from the last to the first.
struct Digits {
    bytes: [u8; DIGITS_MAX],
    start: usize,
}

impl Digits {
    /// Those of `value`, with zeros before them up to `least`.
    fn of(value: u128, least: usize) -> Self {
        let mut digits = Self {
            bytes: [b'0'; DIGITS_MAX],
            start: DIGITS_MAX,
        };
        let mut left = value;
        // Numbers of 64 bits are divided sooner.
        while left > u128::from(u64::MAX) {
            digits.put((left % 10) as u8);
            left /= 10;
        }
        let mut left = left as u64;
        while left > 0 {
            digits.put((left % 10) as u8);
            left /= 10;
        }
        digits.start = digits.start.min(DIGITS_MAX - least.min(DIGITS_MAX));
        digits
    }

    fn put(&mut self, digit: u8) {
        self.start -= 1;
        self.bytes[self.start] = b'0' + digit;
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Numeric {
    /// Digits behind the point.
    fn part_digits(self) -> usize {
        usize::try_from(self.scale).unwrap_or(0)
    }

    /// Zeros behind all digits.
    fn zeros(self) -> usize {
        match self.scale < 0 && self.value != 0 {
            true => self.scale.unsigned_abs().into(),
            false => 0,
        }
    }

    /// Writes its text.
    pub fn write_text(self, out: &mut BytesMut) {
        if self.value < 0 {
            out.put_u8(b'-');
        }
        let part = self.part_digits();
        let digits = Digits::of(self.value.unsigned_abs(), part + 1);
        let digits = digits.as_bytes();
        let (whole, part) = digits.split_at(digits.len() - part);
        out.put_slice(whole);
        out.put_bytes(b'0', self.zeros());
        if !part.is_empty() {
            out.put_u8(b'.');
            out.put_slice(part);
        }
    }

    /// Writes its binary form: groups of four digits, of which there are their number, the weight of the first, the sign,
    /// and the digits behind the point (PostgreSQL, `numeric_send`).
    pub fn write_binary(self, out: &mut BytesMut) {
        let part = self.part_digits();
        let part_groups = part.div_ceil(GROUP);
        // Up to the end of a group on both sides of the point.
        let behind = part_groups * GROUP - part;
        let digits = Digits::of(self.value.unsigned_abs(), 0);
        let digits = digits.as_bytes();
        let count = digits.len() + self.zeros() + behind;
        let before = count.next_multiple_of(GROUP) - count;
        let mut groups = [0_u16; DIGITS_MAX.div_ceil(GROUP) + 2];
        for (at, digit) in digits.iter().enumerate() {
            let group = &mut groups[(before + at) / GROUP];
            *group += u16::from(digit - b'0') * PLACES[(before + at) % GROUP];
        }
        let groups = &groups[..(before + count) / GROUP];
        let first = groups.iter().position(|group| *group != 0);
        let last = groups.iter().rposition(|group| *group != 0);
        let kept = match (first, last) {
            (Some(first), Some(last)) => &groups[first..=last],
            _ => &[],
        };
        let weight = |first| groups.len() as i16 - part_groups as i16 - 1 - first as i16;
        out.put_i16(kept.len() as i16);
        out.put_i16(first.map_or(0, weight));
        out.put_u16(if self.value < 0 { NEGATIVE } else { 0 });
        out.put_u16(part as u16);
        kept.iter().for_each(|group| out.put_u16(*group));
    }
}

impl ToSqlText for Numeric {
    fn to_sql_text(
        &self,
        _: &Type,
        out: &mut BytesMut,
        _: &FormatOptions,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.write_text(out);
        Ok(IsNull::No)
    }
}

impl ToSql for Numeric {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.write_binary(out);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::NUMERIC
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn binary(value: i128, scale: i8) -> Vec<u16> {
        let mut out = BytesMut::new();
        Numeric { value, scale }.write_binary(&mut out);
        let words = out.chunks(2);
        words
            .map(|word| u16::from_be_bytes([word[0], word[1]]))
            .collect()
    }

    fn text(value: i128, scale: i8) -> String {
        let mut out = BytesMut::new();
        Numeric { value, scale }.write_text(&mut out);
        String::from_utf8(out.to_vec()).expect("digits")
    }

    #[test]
    fn binary_numbers_are_groups_of_four_digits() {
        assert_eq!(binary(0, 2), [0, 0, 0, 2]);
        assert_eq!(binary(1_234_567, 2), [3, 1, 0, 2, 1, 2345, 6700]);
        assert_eq!(binary(-5, 5), [1, 0xffff - 1, NEGATIVE, 5, 5000]);
        assert_eq!(binary(12, -4), [1, 1, 0, 0, 12]);
        assert_eq!(binary(12, -3), [2, 1, 0, 0, 1, 2000]);
    }

    #[test]
    fn texts_have_all_digits() {
        assert_eq!(text(0, 0), "0");
        assert_eq!(text(0, 2), "0.00");
        assert_eq!(text(-7, 1), "-0.7");
        assert_eq!(
            (text(12, -3), text(0, -3)),
            ("12000".to_owned(), "0".to_owned())
        );
        assert_eq!(text(i128::from(i64::MIN), 0), "-9223372036854775808");
        let longest = i128::MIN.to_string();
        assert_eq!(text(i128::MIN, 0), longest);
        assert_eq!(text(i128::MIN, -128), longest + &"0".repeat(128));
        assert_eq!(text(1, 127), format!("0.{}1", "0".repeat(126)));
    }

    /// The text of what was written in binary.
    fn read(words: &[u16]) -> String {
        let [count, weight, sign, scale, groups @ ..] = words else {
            panic!("no number");
        };
        assert_eq!(usize::from(*count), groups.len());
        let (weight, scale) = (i32::from(*weight as i16), usize::from(*scale));
        let group = |at: i32| {
            let at = usize::try_from(weight - at).ok();
            at.and_then(|at| groups.get(at)).copied().unwrap_or(0)
        };
        let digits = |at: i32| format!("{:04}", group(at));
        let whole: String = (0..=weight.max(0)).rev().map(digits).collect();
        let part: String = (1..=scale.div_ceil(GROUP) as i32)
            .map(|at| digits(-at))
            .collect();
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let sign = if *sign == NEGATIVE { "-" } else { "" };
        match scale {
            0 => format!("{sign}{whole}"),
            _ => format!("{sign}{whole}.{}", &part[..scale]),
        }
    }

    proptest! {
        #[test]
        fn both_forms_are_of_one_number(value: i128, digits in 0..39_u32, scale in -20..39_i8) {
            for value in [value, value % 10_i128.pow(digits)] {
                let words = binary(value, scale);
                prop_assert_eq!(read(&words), text(value, scale));
                prop_assert!(words[4..].iter().all(|group| *group < 10_000));
                // Nothing that says nothing.
                prop_assert!(words[4..].first() != Some(&0) && words[4..].last() != Some(&0));
            }
        }
    }
}
