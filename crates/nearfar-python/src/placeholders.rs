//! `?` in place of `$1`, as Python's database interface has it.

/// The text with its first `?` as `$1`, and so on. What is in quotes and comments stays as it is.
pub fn numbered(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 8);
    let mut number = 0;
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let kept = match first {
            '\'' | '"' => quoted(rest, first),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '$' => dollar_quoted(rest),
            '?' => {
                number += 1;
                out += &format!("${number}");
                rest = &rest[1..];
                continue;
            }
            other => other.len_utf8(),
        };
        out += &rest[..kept];
        rest = &rest[kept..];
    }
    out
}

/// Bytes of a text in quotes, of which two are one of the text.
fn quoted(text: &str, quote: char) -> usize {
    let mut from = 1;
    while let Some(end) = text[from..].find(quote) {
        from += end + 1;
        match text[from..].starts_with(quote) {
            true => from += 1,
            false => return from,
        }
    }
    text.len()
}

/// Bytes of a comment, which may hold others.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Bytes of a text between `$tag$` and `$tag$`, or of the `$` alone.
fn dollar_quoted(text: &str) -> usize {
    let Some(end) = text[1..].find('$') else {
        return 1;
    };
    let tag = &text[..end + 2];
    let name = &tag[1..=end];
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !is_name || name.starts_with(|c: char| c.is_ascii_digit()) {
        return 1;
    }
    match text[tag.len()..].find(tag) {
        Some(close) => tag.len() + close + tag.len(),
        None => 1,
    }
}
