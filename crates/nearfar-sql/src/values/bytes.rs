//! `bytea`: its two forms as text.

use arrow::array::{ArrayRef, AsArray, BinaryArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use std::fmt::Write;

use super::error::ValueError;

/// Whether a type is one of bytes.
pub fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(
        data_type,
        Binary | BinaryView | LargeBinary | FixedSizeBinary(_)
    )
}

/// The bytes that texts mean.
///
/// # Errors
/// [`ValueError::Text`].
pub fn of_text(texts: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let values = texts.as_string::<i32>().iter();
    let values = values.map(|text| text.map(parse).transpose());
    let values: BinaryArray = values.collect::<std::result::Result<_, _>>()?;
    Ok(arrow::compute::cast(&values, target)?)
}

/// Bytes as texts of hexadecimal digits.
///
/// # Errors
/// None of its own.
pub fn to_text(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let bytes = arrow::compute::cast(array, &DataType::Binary)?;
    let texts = bytes.as_binary::<i32>().iter();
    let texts: StringArray = texts.map(|bytes| bytes.map(hex)).collect();
    Ok(arrow::compute::cast(&texts, target)?)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes of a text: hexadecimal digits behind `\x`, or characters with `\\` and `\ooo` for others.
fn parse(text: &str) -> Result<Vec<u8>, ValueError> {
    let wrong = || ValueError::text("bytea", text);
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits
            .bytes()
            .filter(|b| !b.is_ascii_whitespace())
            .collect();
        let pairs = digits.chunks(2).map(|pair| match pair {
            [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
            _ => None,
        });
        return pairs.collect::<Option<_>>().ok_or_else(wrong);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    after @ ..,
                ],
            ) => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                after
            }
            (b'\\', _) => return Err(wrong()),
            (byte, after) => {
                bytes.push(*byte);
                after
            }
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        assert_eq!(parse("\\xDEad be"), Ok(vec![0xde, 0xad, 0xbe]));
        assert_eq!(
            parse("a\\\\b\\000\\377"),
            Ok(vec![b'a', b'\\', b'b', 0, 255])
        );
        for wrong in ["\\x1", "\\xzz", "\\9", "a\\"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(hex(&[0, 0xab]), "\\x00ab");
    }
}
