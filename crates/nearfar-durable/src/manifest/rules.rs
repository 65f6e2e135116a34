//! What was declared of tables' rows.

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use nearfar_table::table::{
    CheckRule, IdentityKind, Reference, ReferenceAction, ReferenceCheck, TableRules,
};

const WHAT: &str = "what was declared of a table's rows";

/// All actions, in the order of their numbers on disk.
const ACTIONS: [ReferenceAction; 5] = [
    ReferenceAction::NoAction,
    ReferenceAction::Restrict,
    ReferenceAction::Cascade,
    ReferenceAction::SetNull,
    ReferenceAction::SetDefault,
];

/// All moments of checks, in the order of their numbers on disk.
const CHECKS: [ReferenceCheck; 3] = [
    ReferenceCheck::Always,
    ReferenceCheck::Immediate,
    ReferenceCheck::Deferred,
];

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
    out.list(rules.checks.iter(), |out, check| {
        out.text(&check.name);
        out.text(&check.sql);
    });
    out.list(rules.references.iter(), encode_reference);
}

fn encode_reference(out: &mut Encoder, reference: &Reference) {
    out.text(&reference.name);
    out.list(reference.columns.iter(), |out, column| out.text(column));
    out.u64(reference.parent);
    out.list(reference.parent_columns.iter(), |out, column| {
        out.text(column)
    });
    for action in [reference.on_delete, reference.on_update] {
        out.u32(number_of(&ACTIONS, action));
    }
    out.flag(reference.is_full);
    out.u32(number_of(&CHECKS, reference.check));
}

/// The place of a value among all of its kind, which is its number on disk.
fn number_of<T: PartialEq>(all: &[T], value: T) -> u32 {
    let place = all.iter().position(|other| *other == value);
    place.unwrap_or_default() as u32
}

fn decode_reference(bytes: &mut Decoder<'_>) -> Result<Reference, ManifestError> {
    let text = |bytes: &mut Decoder<'_>| bytes.text(WHAT);
    Ok(Reference {
        name: bytes.text(WHAT)?,
        columns: bytes.list(WHAT, text)?,
        parent: bytes.u64(WHAT)?,
        parent_columns: bytes.list(WHAT, text)?,
        on_delete: numbered(bytes, &ACTIONS)?,
        on_update: numbered(bytes, &ACTIONS)?,
        is_full: bytes.flag(WHAT)?,
        check: numbered(bytes, &CHECKS)?,
    })
}

fn numbered<T: Copy>(bytes: &mut Decoder<'_>, all: &[T]) -> Result<T, ManifestError> {
    let number = bytes.u32(WHAT)? as usize;
    let value = all.get(number).copied();
    value.ok_or(ManifestError::Invalid { what: WHAT })
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
    let checks = bytes.list(WHAT, |bytes| {
        Ok(CheckRule {
            name: bytes.text(WHAT)?,
            sql: bytes.text(WHAT)?,
        })
    })?;
    Ok(TableRules {
        defaults: defaults.into_iter().collect(),
        identities: identities.into_iter().collect(),
        checks,
        references: bytes.list(WHAT, decode_reference)?,
    })
}
