//! `SIMILAR TO`: patterns of the SQL standard as regular expressions.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use std::sync::Arc;

use super::error::ValueError;
use super::function::{Function, result};

/// `similar_to_regex(pattern [, escape])`: the regular expression that matches the same texts.
pub const SIMILAR: Function = Function {
    name: "similar_to_regex",
    takes: |types| Ok(vec![DataType::Utf8; types.len()]),
    gives: |_| result(DataType::Utf8),
    compute: |arrays, _| {
        let patterns = arrays[0].as_string::<i32>();
        let escapes = arrays.get(1).map(|escapes| escapes.as_string::<i32>());
        let mut expressions = Vec::with_capacity(patterns.len());
        for (row, pattern) in patterns.iter().enumerate() {
            let escape = match escapes {
                None => Some('\\'),
                Some(escapes) => single(escapes.value(row))?,
            };
            expressions.push(pattern.map(|pattern| expression(pattern, escape)));
        }
        let array: ArrayRef = Arc::new(StringArray::from(expressions));
        Ok(array)
    },
};

fn single(escape: &str) -> Result<Option<char>, ValueError> {
    let mut characters = escape.chars();
    match (characters.next(), characters.next()) {
        (first, None) => Ok(first),
        _ => Err(ValueError::Argument {
            what: "an escape is one character, or none".to_owned(),
        }),
    }
}

fn expression(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    let mut in_brackets = false;
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            if let Some(literal) = characters.next() {
                push_literal(&mut out, literal);
            }
            continue;
        }
        match character {
            ']' if in_brackets => {
                in_brackets = false;
                out.push(']');
            }
            '\\' => out.push_str("\\\\"),
            other if in_brackets => out.push(other),
            '[' => {
                in_brackets = true;
                out.push('[');
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '.' | '^' | '$' => push_literal(&mut out, character),
            other => out.push(other),
        }
    }
    out.push_str(")$");
    out
}

fn push_literal(out: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_whole_expressions() {
        let of = |pattern| expression(pattern, Some('\\'));
        assert_eq!(of("%(b|d)%"), "(?s)^(?:.*(b|d).*)$");
        assert_eq!(of("a_c.[^x%]"), "(?s)^(?:a.c\\.[^x%])$");
        assert_eq!(of("10\\%"), "(?s)^(?:10\\%)$");
        assert_eq!(expression("a#_", Some('#')), "(?s)^(?:a\\_)$");
    }
}
