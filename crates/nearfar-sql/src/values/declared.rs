//! `varchar(n)` and `char(n)`: texts of a declared length.
//!
//! A column keeps its declaration among its field's metadata. Values of `char(n)` are kept without the
//! spaces at their end, which mean nothing, and are given them back where they are shown.

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringViewArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, ReturnFieldArgs};
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::error::ValueError;
use super::function::Function;

/// The key of the declaration among a field's metadata.
const KEY: &str = "nearfar.type";

/// The most characters that can be declared, as in PostgreSQL.
const LENGTH_MAX: u32 = 10_485_760;

/// How a column of texts was declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Declared {
    /// `varchar(n)`: at most so many characters.
    Varchar(u32),
    /// `char(n)`: exactly so many, of which spaces at the end mean nothing.
    Char(u32),
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Varchar(length) => write!(f, "character varying({length})"),
            Self::Char(length) => write!(f, "character({length})"),
        }
    }
}

impl Declared {
    /// What a field was declared as, if it has a length.
    pub fn of(field: &Field) -> Option<Self> {
        Self::of_metadata(field.metadata())
    }

    fn of_metadata(metadata: &HashMap<String, String>) -> Option<Self> {
        let (name, rest) = metadata.get(KEY)?.split_once('(')?;
        let length = rest.strip_suffix(')')?.parse().ok()?;
        match name {
            "varchar" => Some(Self::Varchar(length)),
            "char" => Some(Self::Char(length)),
            _ => None,
        }
    }

    /// The field with the declaration.
    pub fn mark(self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        let text = match self {
            Self::Varchar(length) => format!("varchar({length})"),
            Self::Char(length) => format!("char({length})"),
        };
        metadata.insert(KEY.to_owned(), text);
        field.with_metadata(metadata)
    }

    /// The declared length in characters.
    pub fn length(self) -> u32 {
        match self {
            Self::Varchar(length) | Self::Char(length) => length,
        }
    }

    /// Whether a length can be declared.
    pub fn is_possible(length: u64) -> bool {
        (1..=u64::from(LENGTH_MAX)).contains(&length)
    }

    /// A text as a column of this declaration keeps it, when a row gets it.
    fn assigned(self, text: &str) -> Result<&str, ValueError> {
        let cut = self.cut(text);
        let rest = text[cut.len()..].trim_end_matches(' ');
        match rest.is_empty() {
            true => Ok(cut),
            false => Err(ValueError::TooLong {
                kind: self.to_string(),
            }),
        }
    }

    /// Whether all texts are surely as a column of this declaration keeps them. Bytes are at least as many as characters.
    fn keeps_all(self, texts: &ArrayRef) -> bool {
        let is_kept = |text: &str| {
            let is_short = text.len() <= self.length() as usize;
            is_short && !(matches!(self, Self::Char(_)) && text.ends_with(' '))
        };
        match texts.data_type() {
            DataType::Utf8 => texts.as_string::<i32>().iter().flatten().all(is_kept),
            DataType::LargeUtf8 => texts.as_string::<i64>().iter().flatten().all(is_kept),
            DataType::Utf8View => texts.as_string_view().iter().flatten().all(is_kept),
            _ => false,
        }
    }

    /// As much of a text as it may have.
    fn cut(self, text: &str) -> &str {
        let length = self.length() as usize;
        let end = text
            .char_indices()
            .nth(length)
            .map_or(text.len(), |(at, _)| at);
        match self {
            Self::Varchar(_) => &text[..end],
            Self::Char(_) => text[..end].trim_end_matches(' '),
        }
    }

    /// A text of a `char(n)` with all its spaces.
    pub fn padded(self, text: &str) -> String {
        match self {
            Self::Varchar(_) => text.to_owned(),
            Self::Char(length) => format!("{text:<width$}", width = length as usize),
        }
    }
}

/// The values of `array` as a column of `field` keeps them; none if they are that already.
///
/// # Errors
/// [`ValueError::TooLong`].
pub fn assigned(field: &Field, array: &ArrayRef) -> Result<Option<ArrayRef>> {
    let Some(declared) = Declared::of(field).filter(|_| array.data_type().is_string()) else {
        return Ok(None);
    };
    if declared.keeps_all(array) {
        return Ok(None);
    }
    let texts = arrow::compute::cast(array, &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let mut has_changed = false;
    let kept = texts.iter().map(|text| {
        let kept = text.map(|text| declared.assigned(text)).transpose()?;
        has_changed |= kept.map(str::len) != text.map(str::len);
        Ok(kept)
    });
    let kept: StringViewArray = kept.collect::<Result<_, ValueError>>()?;
    match has_changed {
        true => Ok(Some(arrow::compute::cast(&kept, array.data_type())?)),
        false => Ok(None),
    }
}

/// The operands of a comparison, of which one is a `char(n)` and the other is written out: spaces at
/// its end mean nothing then.
pub fn compared(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    if is_text(&right) && is_char(&left, schema) {
        return (left, trimmed(right));
    }
    if is_text(&left) && is_char(&right, schema) {
        return (trimmed(left), right);
    }
    (left, right)
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

fn is_char(expr: &Expr, schema: &DFSchema) -> bool {
    let field = expr.to_field(schema).ok();
    let declared = field.and_then(|(_, field)| Declared::of(&field));
    matches!(declared, Some(Declared::Char(_)))
}

fn trimmed(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            let text = text.trim_end_matches(' ').to_owned();
            Expr::Literal(ScalarValue::Utf8(Some(text)), metadata)
        }
        other => other,
    }
}

fn types(given: &[DataType]) -> Result<Vec<DataType>> {
    match given.len() {
        2 => Ok(vec![DataType::Utf8, DataType::Int32]),
        _ => datafusion::common::plan_err!("a text and a length are needed"),
    }
}

fn length(arguments: &ReturnFieldArgs<'_>) -> Result<u32> {
    // Before small integers are told from large ones, and after.
    let length = match arguments.scalar_arguments.get(1) {
        Some(Some(ScalarValue::Int64(Some(length)))) => u32::try_from(*length).ok(),
        Some(Some(ScalarValue::Int32(Some(length)))) => u32::try_from(*length).ok(),
        _ => None,
    };
    match length.filter(|length| Declared::is_possible((*length).into())) {
        Some(length) => Ok(length),
        None => Err(ValueError::Argument {
            what: format!("a length is a number from 1 to {LENGTH_MAX}"),
        }
        .into()),
    }
}

fn cut(arrays: &[ArrayRef], field: &FieldRef) -> Result<ArrayRef> {
    let texts: &StringArray = arrays[0].as_string();
    let declared = Declared::of(field);
    let texts = texts.iter().map(|text| {
        let cut = |text| declared.map_or(text, |declared: Declared| declared.cut(text));
        text.map(cut)
    });
    Ok(Arc::new(texts.collect::<StringViewArray>()))
}

fn marked(declared: Declared) -> Result<FieldRef> {
    let field = Field::new("result", DataType::Utf8View, true);
    Ok(Arc::new(declared.mark(field)))
}

/// `CAST(text AS varchar(n))`: what is too long is cut off.
pub const VARCHAR: Function = Function {
    name: "varchar",
    takes: types,
    gives: |arguments| marked(Declared::Varchar(length(arguments)?)),
    compute: cut,
};

/// `CAST(text AS char(n))`.
pub const CHAR: Function = Function {
    name: "bpchar",
    takes: types,
    gives: |arguments| marked(Declared::Char(length(arguments)?)),
    compute: cut,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spaces_are_cut_from_what_is_assigned() {
        let of = |declared: Declared, text: &'static str| declared.assigned(text);
        assert_eq!(of(Declared::Varchar(3), "äbc"), Ok("äbc"));
        assert_eq!(of(Declared::Varchar(3), "abc  "), Ok("abc"));
        assert_eq!(of(Declared::Varchar(3), "a  "), Ok("a  "));
        assert!(of(Declared::Varchar(3), "abcd").is_err());
        assert!(of(Declared::Varchar(3), "abc d").is_err());
        assert_eq!(of(Declared::Char(3), "a  "), Ok("a"));
        assert_eq!(of(Declared::Char(3), "abc  "), Ok("abc"));
        assert!(of(Declared::Char(3), "abcd").is_err());
        assert_eq!(Declared::Char(3).padded("a"), "a  ");
    }

    #[test]
    fn fields_keep_their_declaration() {
        let field = Declared::Char(7).mark(Field::new("a", DataType::Utf8View, true));
        assert_eq!(Declared::of(&field), Some(Declared::Char(7)));
        assert_eq!(Declared::of(&Field::new("a", DataType::Utf8, true)), None);
    }
}
