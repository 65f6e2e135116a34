//! Indexes as they were declared. What is in them is made again of the table.

use arrow::datatypes::SchemaRef;
use std::sync::Arc;

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use nearfar_table::table::{IndexColumn, IndexDefinition, IndexKind, IndexRole, TableIndex};

const WHAT: &str = "an index";

/// The encodings of roles are their places in this list, which only ever grows.
const ROLES: [IndexRole; 4] = [
    IndexRole::Search,
    IndexRole::Unique,
    IndexRole::UniqueConstraint,
    IndexRole::PrimaryKey,
];

/// Writes how indexes were declared.
pub(crate) fn encode_indexes<'a>(
    out: &mut Encoder,
    definitions: impl ExactSizeIterator<Item = &'a IndexDefinition>,
) {
    out.list(definitions, |out, definition| {
        out.text(&definition.name);
        out.text(definition.kind.name());
        let role = ROLES.iter().position(|role| *role == definition.role);
        out.count(role.unwrap_or_default());
        out.list(definition.columns.iter(), |out, column| {
            out.count(column.column);
            out.flag(column.is_descending);
            out.flag(column.nulls_first);
        });
    });
}

/// Reads what `encode_indexes` has written.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_indexes(bytes: &mut Decoder<'_>) -> Result<Vec<IndexDefinition>, ManifestError> {
    bytes.list(WHAT, |bytes| {
        let invalid = || ManifestError::Invalid { what: WHAT };
        let (name, kind) = (bytes.text(WHAT)?, bytes.text(WHAT)?);
        let kind = IndexKind::ALL
            .into_iter()
            .find(|known| known.name() == kind);
        let role = ROLES.get(bytes.count(WHAT)?).copied();
        let columns = bytes.list(WHAT, |bytes| {
            Ok(IndexColumn {
                column: bytes.count(WHAT)?,
                is_descending: bytes.flag(WHAT)?,
                nulls_first: bytes.flag(WHAT)?,
            })
        })?;
        Ok(IndexDefinition {
            name,
            columns,
            kind: kind.ok_or_else(invalid)?,
            role: role.ok_or_else(invalid)?,
        })
    })
}

/// Indexes of a table of `schema`, without what is in them.
///
/// # Errors
/// [`ManifestError::Invalid`]: indexes of another table.
pub(crate) fn unfilled_indexes(
    definitions: Vec<IndexDefinition>,
    schema: &SchemaRef,
) -> Result<Vec<Arc<TableIndex>>, ManifestError> {
    let indexes = definitions.into_iter().map(|definition| {
        let index = TableIndex::new(Arc::new(definition), schema);
        index.map(Arc::new)
    });
    let indexes = indexes.collect::<Result<_, _>>();
    indexes.map_err(|_| ManifestError::Invalid { what: WHAT })
}
