//! Specifications in TOML.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::error::{Origin, SpecError};
use super::tree::{Entry, Node, Value};

/// Reads a text.
pub(super) fn read(text: &str) -> Result<Node, SpecError> {
    let reader = Reader { text };
    let table = DeTable::parse(text).map_err(|error| {
        let line = reader.line(&error.span().unwrap_or(0..0));
        SpecError::new(&Origin::Line(line), "", error.message())
    })?;
    Ok(Node {
        line: 1,
        value: Value::Table(reader.entries(table.get_ref())),
    })
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn entries(&self, table: &DeTable<'_>) -> Vec<Entry> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let key_text: &toml::de::DeString<'_> = key.get_ref();
            Entry {
                key: key_text.to_string(),
                line: self.line(&key.span()),
                node: self.node(value),
            }
        };
        entries.into_iter().map(entry).collect()
    }

    fn node(&self, value: &toml::Spanned<DeValue<'_>>) -> Node {
        Node {
            line: self.line(&value.span()),
            value: match value.get_ref() {
                DeValue::String(text) => Value::Text(text.to_string()),
                DeValue::Integer(number) => Value::Number(number.to_string()),
                DeValue::Float(number) => Value::Number(number.to_string()),
                DeValue::Boolean(truth) => Value::Number(truth.to_string()),
                DeValue::Array(values) => {
                    Value::List(values.iter().map(|value| self.node(value)).collect())
                }
                DeValue::Table(table) => Value::Table(self.entries(table)),
                DeValue::Datetime(_) => Value::Other,
            },
        }
    }
}
