//! Texts that differ in their integers only: the same statement with other values of parameters.

use std::ops::Range;

use bytes::Bytes;

/// Bytes of a text, and integers in it, at most.
const TEXT_BYTES_MAX: usize = 1 << 10;
const VALUES_MAX: usize = 64;
/// Digits that every `BIGINT` has room for.
const DIGITS_MAX: usize = 18;

/// A text with parameters where its integers were, and these.
///
/// A parameter is as wide as the integers of statements are, `BIGINT`, but where it is compared with `=` alone:
/// there it may have the type of what is beside it, so that a key is recognised. The output columns of a
/// query keep their integers, which are part of their names and types, and so does all behind `ORDER BY` and `GROUP BY`, where
/// an integer is the number of a column.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    /// The text.
    pub text: String,
    /// The digits of the integers, in the order of their parameters.
    pub values: Vec<Bytes>,
}

impl Shape {
    /// The shape of a single `SELECT`, `INSERT`, `UPDATE` or `DELETE`. None for all others, and for texts
    /// without integers, with comments or parameters, or with numbers that are more than digits.
    pub fn of(sql: &str) -> Option<Self> {
        let sql = sql.trim().trim_end_matches(';');
        if sql.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut scanner = Scanner::new(sql)?;
        while let Some(byte) = scanner.peek() {
            match byte {
                b'\'' | b'"' => scanner.quoted(byte)?,
                b'0'..=b'9' => scanner.number()?,
                byte if is_word(byte) => scanner.word(),
                b';' | b'$' | b'\\' => return None,
                b'-' if scanner.is_next(b"--") => return None,
                b'/' if scanner.is_next(b"/*") => return None,
                _ => scanner.at += 1,
            }
        }
        scanner.finish()
    }
}

/// Goes through a text once.
struct Scanner<'a> {
    sql: &'a str,
    at: usize,
    /// The text so far, up to `copied`.
    text: String,
    copied: usize,
    values: Vec<Bytes>,
    is_query: bool,
    is_behind_where: bool,
    is_behind_order: bool,
}

impl<'a> Scanner<'a> {
    fn new(sql: &'a str) -> Option<Self> {
        let end = sql.find(|c: char| !c.is_ascii_alphabetic())?;
        let verb = sql[..end].to_ascii_uppercase();
        let is_query = match verb.as_str() {
            "SELECT" => true,
            "INSERT" | "UPDATE" | "DELETE" => false,
            _ => return None,
        };
        Some(Self {
            sql,
            at: end,
            text: String::with_capacity(sql.len() + 32),
            copied: 0,
            values: Vec::new(),
            is_query,
            is_behind_where: false,
            is_behind_order: false,
        })
    }

    fn peek(&self) -> Option<u8> {
        self.sql.as_bytes().get(self.at).copied()
    }

    fn is_next(&self, bytes: &[u8]) -> bool {
        self.sql.as_bytes()[self.at..].starts_with(bytes)
    }

    /// Passes over what is quoted. A quote within, which is written twice, ends one and begins another.
    fn quoted(&mut self, quote: u8) -> Option<()> {
        let is_prefixed = self.at > 0 && is_word(self.sql.as_bytes()[self.at - 1]);
        if is_prefixed && quote == b'\'' {
            // E'…' and its like have rules of their own.
            return None;
        }
        let within = &self.sql.as_bytes()[self.at + 1..];
        self.at += 2 + within.iter().position(|byte| *byte == quote)?;
        Some(())
    }

    fn word(&mut self) {
        let word = self.take(is_word);
        let is = |other: &str| self.sql[word.clone()].eq_ignore_ascii_case(other);
        let (is_where, is_order) = (is("where"), is("order") || is("group"));
        self.is_behind_where |= is_where;
        self.is_behind_order |= is_order;
    }

    fn number(&mut self) -> Option<()> {
        let before = self.sql[..self.at].trim_end().as_bytes();
        let is_part = self.at > 0 && self.sql.as_bytes()[self.at - 1] == b'.';
        let number = self.take(|byte| is_word(byte) || byte == b'.');
        let digits = &self.sql[number.clone()];
        let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_part || !is_integer || digits.len() > DIGITS_MAX || self.values.len() >= VALUES_MAX {
            return None;
        }
        if self.is_behind_order || self.is_query && !self.is_behind_where {
            return Some(());
        }
        let is_compared = self.is_behind_where && ends_with_equals(before);
        let is_alone = is_compared && begins_with_end(&self.sql[self.at..]);
        self.values.push(Bytes::copy_from_slice(digits.as_bytes()));
        let parameter = self.values.len();
        self.text.push_str(&self.sql[self.copied..number.start]);
        self.text.push_str(&match is_alone {
            true => format!("${parameter}"),
            false => format!("CAST(${parameter} AS BIGINT)"),
        });
        self.copied = self.at;
        Some(())
    }

    fn take(&mut self, is_of_it: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        while self.peek().is_some_and(&is_of_it) {
            self.at += 1;
        }
        start..self.at
    }

    fn finish(mut self) -> Option<Shape> {
        self.text.push_str(&self.sql[self.copied..]);
        (!self.values.is_empty()).then_some(Shape {
            text: self.text,
            values: self.values,
        })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Whether what comes next is compared by `=`, and not by `<=` or another operator that ends so.
fn ends_with_equals(before: &[u8]) -> bool {
    let mut bytes = before.iter().rev();
    let is_operator = |byte: &u8| b"<>!=+-*/~@#%^&|`?:".contains(byte);
    bytes.next() == Some(&b'=') && !bytes.next().is_some_and(is_operator)
}

/// Whether no operator follows that takes the value before it, but for the words of SQL.
fn begins_with_end(rest: &str) -> bool {
    let next = rest.trim_start().bytes().next();
    next.is_none_or(|byte| byte == b')' || byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sql: &str) -> Option<(String, Vec<String>)> {
        let shape = Shape::of(sql)?;
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).expect("digits");
        Some((shape.text, shape.values.iter().map(text).collect()))
    }

    #[test]
    fn integers_become_parameters() {
        let of = |sql, text: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            assert_eq!(shape(sql), Some((text.to_owned(), values)));
        };
        of(
            "SELECT a, 7 FROM t1 WHERE a = 5;",
            "SELECT a, 7 FROM t1 WHERE a = $1",
            &["5"],
        );
        of(
            "select a from t where (a=5) and b >= 6 and c = 'it''s 9' and d = 1 + 2",
            "select a from t where (a=$1) and b >= CAST($2 AS BIGINT) and c = 'it''s 9' \
             and d = CAST($3 AS BIGINT) + CAST($4 AS BIGINT)",
            &["5", "6", "1", "2"],
        );
        of(
            "UPDATE t SET a = a + -3 WHERE \"a 1\" = 4",
            "UPDATE t SET a = a + -CAST($1 AS BIGINT) WHERE \"a 1\" = $2",
            &["3", "4"],
        );
        of(
            "INSERT INTO t VALUES (1, 'ä 2', NULL)",
            "INSERT INTO t VALUES (CAST($1 AS BIGINT), 'ä 2', NULL)",
            &["1"],
        );
        of(
            "SELECT a, b FROM t WHERE a = 1 ORDER BY 2, b + 1 LIMIT 10",
            "SELECT a, b FROM t WHERE a = $1 ORDER BY 2, b + 1 LIMIT 10",
            &["1"],
        );
        of(
            "SELECT a FROM t WHERE a BETWEEN 1 AND 2 LIMIT 10",
            "SELECT a FROM t WHERE a BETWEEN CAST($1 AS BIGINT) AND CAST($2 AS BIGINT) LIMIT CAST($3 AS BIGINT)",
            &["1", "2", "10"],
        );
        of(
            "DELETE FROM t WHERE a = 1 OR a = 2",
            "DELETE FROM t WHERE a = $1 OR a = $2",
            &["1", "2"],
        );
    }

    #[test]
    fn other_texts_have_no_shape() {
        for sql in [
            "",
            "1",
            "SELECT",
            "SELECT 1",
            "BEGIN",
            "EXPLAIN SELECT a FROM t WHERE a = 5",
            "SELECT a FROM t WHERE a = 5; SELECT 1",
            "SELECT a FROM t WHERE a = $1 AND b = 5",
            "SELECT a FROM t WHERE a = 5 -- five",
            "SELECT a FROM t WHERE a = 5 /* five */",
            "SELECT a FROM t WHERE b = E'x' AND a = 5",
            "SELECT a FROM t WHERE a = 5.5",
            "SELECT a FROM t WHERE a = .5",
            "SELECT a FROM t WHERE a = 5e-1",
            "SELECT a FROM t WHERE a = 0x5",
            "SELECT a FROM t WHERE a = 1234567890123456789",
            "SELECT a FROM t WHERE a = 'open",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
        let long = format!(
            "SELECT a FROM t WHERE a = 5 AND b = '{}'",
            "x".repeat(1 << 10)
        );
        assert_eq!(shape(&long), None);
        let many = format!("INSERT INTO t VALUES ({})", vec!["1"; 65].join(","));
        assert_eq!(shape(&many), None);
    }
}
