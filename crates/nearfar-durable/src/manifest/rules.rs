//! What was declared of tables' rows.

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use nearfar_table::table::{IdentityKind, TableRules};

const WHAT: &str = "what was declared of a table's rows";

/// Writes what was declared of a table's rows.
pub(crate) fn encode_rules(out: &mut Encoder, rules: &TableRules) {
    out.list(rules.defaults.iter(), |out, (column, sql)| {
        out.text(column);
        out.text(sql);
    });
    out.list(rules.identities.iter(), |out, (column, kind)| {
        out.text(column);
        out.flag(*kind == IdentityKind::Always);
    });
}

/// Reads what `encode_rules` has written.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_rules(bytes: &mut Decoder<'_>) -> Result<TableRules, ManifestError> {
    let defaults = bytes.list(WHAT, |bytes| Ok((bytes.text(WHAT)?, bytes.text(WHAT)?)))?;
    let identities = bytes.list(WHAT, |bytes| {
        let column = bytes.text(WHAT)?;
        let kind = match bytes.flag(WHAT)? {
            true => IdentityKind::Always,
            false => IdentityKind::ByDefault,
        };
        Ok((column, kind))
    })?;
    Ok(TableRules {
        defaults: defaults.into_iter().collect(),
        identities: identities.into_iter().collect(),
    })
}
