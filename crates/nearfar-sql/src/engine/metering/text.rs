//! What statements take that are read and planned, estimated from their text.

/// Bytes of memory per token of a statement that is read: its tokens and syntax tree.
const PARSED_TOKEN_BYTES: u64 = 250;

/// Bytes per token of a statement that runs: its logical plans and its physical one.
const PLANNED_TOKEN_BYTES: u64 = 350;

/// Texts are kept as they are, in tokens, in trees and in literals.
const COPIES: u64 = 3;

/// What reading `text` takes, and keeping it read.
pub fn parsed_bytes(text: &str) -> u64 {
    tokens(text) * PARSED_TOKEN_BYTES + text.len() as u64 * COPIES
}

/// What planning and running a statement of `text` takes beside its operators.
pub fn planned_bytes(text: &str) -> u64 {
    tokens(text) * PLANNED_TOKEN_BYTES + text.len() as u64 * COPIES
}

/// About how many tokens `text` has: words, and characters that are neither words nor spaces. What is
/// quoted is one.
fn tokens(text: &str) -> u64 {
    let mut tokens = 0;
    let mut quote = None;
    let mut is_in_word = false;
    for byte in text.bytes() {
        if let Some(open) = quote {
            if byte == open {
                quote = None;
            }
            continue;
        }
        let is_word = byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"_.$".contains(&byte);
        if is_word {
            tokens += u64::from(!is_in_word);
        } else if !byte.is_ascii_whitespace() {
            tokens += 1;
        }
        is_in_word = is_word;
        quote = matches!(byte, b'\'' | b'"').then_some(byte);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_signs_are_tokens_and_quoted_text_is_one() {
        for (text, expected) in [
            ("", 0),
            ("select 1", 2),
            ("select a.b, 'x, y; z' from t", 6),
            ("VALUES (1),(2)", 8),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }
}
