//! Indexes as they were declared. What is in them is made again of the table.

use arrow::datatypes::SchemaRef;
use std::sync::Arc;

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use nearfar_table::table::{
    IndexColumn, IndexDefinition, IndexKind, IndexPlacement, IndexPolicy, IndexRole, TableIndex,
};

const WHAT: &str = "an index";

/// The encodings of roles are their places in this list, and of those of indexes with a placement so many
/// more.
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
        let is_placed = definition.placement != IndexPlacement::default();
        out.count(role.unwrap_or_default() + if is_placed { ROLES.len() } else { 0 });
        if is_placed {
            encode_placement(out, &definition.placement);
        }
        out.list(definition.columns.iter(), |out, column| {
            out.count(column.column);
            out.flag(column.is_descending);
            out.flag(column.nulls_first);
        });
    });
}

fn encode_placement(out: &mut Encoder, placement: &IndexPlacement) {
    out.text(placement.policy.name());
    out.count(placement.near_percent.into());
    out.flag(placement.tier.is_some());
    if let Some(tier) = &placement.tier {
        out.text(tier);
    }
}

fn decode_placement(bytes: &mut Decoder<'_>) -> Result<IndexPlacement, ManifestError> {
    let invalid = || ManifestError::Invalid { what: WHAT };
    let (policy, percent) = (bytes.text(WHAT)?, bytes.count(WHAT)?);
    let mut policies = IndexPolicy::ALL.into_iter();
    let policy = policies.find(|known| known.name() == policy);
    let near_percent = u8::try_from(percent).ok();
    let near_percent = near_percent.filter(|percent| (1..=99).contains(percent));
    let has_tier = bytes.flag(WHAT)?;
    Ok(IndexPlacement {
        policy: policy.ok_or_else(invalid)?,
        near_percent: near_percent.ok_or_else(invalid)?,
        tier: has_tier.then(|| bytes.text(WHAT)).transpose()?,
    })
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
        let role = bytes.count(WHAT)?;
        let placement = match role >= ROLES.len() {
            true => decode_placement(bytes)?,
            false => IndexPlacement::default(),
        };
        let is_known = role < 2 * ROLES.len();
        let role = is_known.then_some(ROLES[role % ROLES.len()]);
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
            placement,
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
