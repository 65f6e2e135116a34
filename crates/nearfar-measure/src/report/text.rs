//! Escaping, and numbers as people read them.

use std::fmt::{self, Write};

/// Appends formatted text; writing to a `String` cannot fail.
pub(super) fn put(out: &mut String, text: fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok());
}

/// `text` with the characters replaced that mean something in HTML and SVG, in content and in
/// quoted attributes; control characters that no document may hold become U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            control if control.is_control() => escaped.push('\u{FFFD}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// `value` with `decimals` digits after the point and thousands set apart by a thin space.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    let is_zero = plain.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if value < 0.0 && !is_zero {
        text.push('\u{2212}');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && whole.len() > 4 {
            text.push('\u{202F}');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// `value` with two or three significant digits, as on bars and points.
pub(super) fn short_number(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        m if m == 0.0 || m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 0.1 => 2,
        m if m >= 0.001 => (2.0 - m.log10().floor()) as usize,
        _ => return format!("{value:.2e}"),
    };
    number(value, decimals)
}

/// A tick of an axis, with as many digits as it needs.
pub(super) fn tick_text(value: f64) -> String {
    let decimals = (0..6).find(|&decimals| {
        let scaled = value * 10_f64.powi(decimals);
        (scaled - scaled.round()).abs() < 1e-6
    });
    number(value, decimals.unwrap_or(6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_the_escape() {
        assert_eq!(
            escape("<a href=\"x\">'&'</a>\u{1}"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\u{FFFD}"
        );
        assert_eq!(escape("Größe\n"), "Größe\n");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(1_234_567.891, 1), "1\u{202F}234\u{202F}567.9");
        assert_eq!(number(9999.0, 0), "9999");
        assert_eq!(number(-0.04, 1), "0.0");
        assert_eq!(number(-2.5, 1), "\u{2212}2.5");
        assert_eq!(tick_text(2.5), "2.5");
        assert_eq!(tick_text(0.1 + 0.2), "0.3");
        assert_eq!(tick_text(40.0), "40");
        assert_eq!(short_number(0.0), "0");
        assert_eq!(short_number(0.01234), "0.0123");
        assert_eq!(short_number(0.5), "0.50");
        assert_eq!(short_number(7.128), "7.13");
        assert_eq!(short_number(99.96), "100.0");
        assert_eq!(short_number(50_700.0), "50\u{202F}700");
        assert_eq!(short_number(0.000_012), "1.20e-5");
    }
}
