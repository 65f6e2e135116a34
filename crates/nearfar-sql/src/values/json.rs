//! `json_build_object` and `json_build_array`: JSON, which is text here, made of values.
//!
//! What they give is marked as Arrow marks JSON, so that clients read it as such.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::error::ValueError;
use super::text::texts;

/// Arrow's mark of JSON among a field's metadata.
const MARK: (&str, &str) = ("ARROW:extension:name", "arrow.json");

/// Whether a field's texts are JSON.
pub fn is_json(field: &Field) -> bool {
    field.metadata().get(MARK.0).is_some_and(|of| of == MARK.1)
}

/// Both functions.
pub(super) fn all() -> [ScalarUDF; 2] {
    let build = |name, makes| {
        let signatures = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        ScalarUDF::from(Build {
            name,
            makes,
            signature: Signature::one_of(signatures, Volatility::Stable),
        })
    };
    [
        build("json_build_object", Makes::Object),
        build("json_build_array", Makes::Array),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Makes {
    /// An object of names and values in turn.
    Object,
    Array,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Build {
    name: &'static str,
    makes: Makes,
    signature: Signature,
}

impl ScalarUDFImpl for Build {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let mark = HashMap::from([(MARK.0.to_owned(), MARK.1.to_owned())]);
        let field = Field::new(self.name, DataType::Utf8, false);
        Ok(Arc::new(field.with_metadata(mark)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.makes == Makes::Object && args.args.len() % 2 == 1 {
            return Err(no_name("argument list must have even number of elements").into());
        }
        let arguments = args.args.iter().zip(&args.arg_fields);
        let parts = arguments.map(|(value, field)| {
            let array = value.to_array(args.number_rows)?;
            Part::of(&array, field)
        });
        let parts = parts.collect::<Result<Vec<Part>>>()?;
        let rows = 0..args.number_rows;
        let built = rows.map(|row| match self.makes {
            Makes::Object => object(&parts, row),
            Makes::Array => Ok(array(&parts, row)),
        });
        let built = built.collect::<Result<Vec<String>, ValueError>>()?;
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(built))))
    }
}

/// The values of an argument, as they are written.
enum Part {
    /// As they are: numbers, truth values and JSON.
    Bare(StringArray),
    /// In quotes.
    Quoted(StringArray),
    /// Arrays, and their elements.
    Arrays(ListArray, Box<Part>),
}

impl Part {
    fn of(array: &ArrayRef, field: &Field) -> Result<Self> {
        let kind = array.data_type();
        if let Some(lists) = array.as_list_opt::<i32>() {
            let element = Field::new_list_field(lists.value_type(), true);
            let elements = Self::of(lists.values(), &element)?;
            return Ok(Self::Arrays(lists.clone(), Box::new(elements)));
        }
        let written = match kind {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let bytes = cast(array, &DataType::Binary)?;
                let bytes = bytes.as_binary::<i32>().iter();
                bytes.map(|bytes| bytes.map(hexadecimal)).collect()
            }
            DataType::Timestamp(..) => {
                let texts = texts(array).unwrap_or_else(|| StringArray::new_null(array.len()));
                let texts = texts.iter();
                texts
                    .map(|text| text.map(|text| text.replace(' ', "T")))
                    .collect()
            }
            _ => match texts(array) {
                Some(texts) => texts,
                None => cast(array, &DataType::Utf8)?.as_string::<i32>().clone(),
            },
        };
        let is_number = kind.is_numeric() || *kind == DataType::Boolean;
        Ok(match is_number || is_json(field) {
            true => Self::Bare(written),
            false => Self::Quoted(written),
        })
    }

    fn push(&self, row: usize, out: &mut String) {
        match self {
            Self::Bare(texts) | Self::Quoted(texts) if texts.is_null(row) => out.push_str("null"),
            Self::Arrays(lists, _) if lists.is_null(row) => out.push_str("null"),
            // JSON has no names for what is no number.
            Self::Bare(texts) if !is_name(texts.value(row)) => out.push_str(texts.value(row)),
            Self::Bare(texts) | Self::Quoted(texts) => push_quoted(texts.value(row), out),
            Self::Arrays(lists, elements) => {
                let offsets = lists.value_offsets();
                let places = offsets[row] as usize..offsets[row + 1] as usize;
                push_list(places, ",", out, |at, out| elements.push(at, out));
            }
        }
    }
}

/// `[`, what `push` writes of each with `between` them, `]`.
fn push_list(
    places: Range<usize>,
    between: &str,
    out: &mut String,
    push: impl Fn(usize, &mut String),
) {
    out.push('[');
    let first = places.start;
    for at in places {
        out.push_str(if at == first { "" } else { between });
        push(at, out);
    }
    out.push(']');
}

/// Bytes as PostgreSQL writes them.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("\\x{}", digits.collect::<String>())
}

/// Whether a number is `NaN`, `Infinity` or `-Infinity`.
fn is_name(number: &str) -> bool {
    let first = number.trim_start_matches('-').bytes().next();
    first.is_some_and(|byte| byte == b'N' || byte == b'I')
}

/// An object of names and values that follow each other among `parts`.
fn object(parts: &[Part], row: usize) -> Result<String, ValueError> {
    let mut out = String::from("{");
    for (at, pair) in parts.chunks_exact(2).enumerate() {
        let name = match &pair[0] {
            Part::Bare(names) | Part::Quoted(names) => names,
            Part::Arrays(..) => return Err(no_name("key value must be scalar, not array")),
        };
        if name.is_null(row) {
            return Err(no_name("a key of json_build_object is null"));
        }
        out.push_str(if at == 0 { "" } else { ", " });
        push_quoted(name.value(row), &mut out);
        out.push_str(" : ");
        pair[1].push(row, &mut out);
    }
    out.push('}');
    Ok(out)
}

fn no_name(what: &str) -> ValueError {
    let what = what.to_owned();
    ValueError::Argument { what }
}

fn array(parts: &[Part], row: usize) -> String {
    let mut out = String::new();
    push_list(0..parts.len(), ", ", &mut out, |at, out| {
        parts[at].push(row, out)
    });
    out
}

fn push_quoted(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}
