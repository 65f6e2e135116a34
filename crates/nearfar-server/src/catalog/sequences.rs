//! The sequences: `pg_sequence`.

use std::sync::Arc;

use nearfar_sql::columns::{Columns, Of};
use nearfar_table::sequence::{SequenceDefinition, SequenceType};
use pgwire::api::Type;

use super::contents::Contents;

/// A sequence.
pub struct Sequence {
    id: i64,
    definition: Arc<SequenceDefinition>,
}

/// All of what a session sees.
pub fn all(contents: &Contents) -> Vec<Sequence> {
    let relations = contents.relations.iter();
    let sequences = relations.filter_map(|relation| {
        Some(Sequence {
            id: relation.id(),
            definition: Arc::clone(relation.sequence.as_ref()?),
        })
    });
    sequences.collect()
}

fn type_of(sequence: &Sequence) -> i64 {
    let kind = match sequence.definition.data_type {
        SequenceType::SmallInt => Type::INT2,
        SequenceType::Integer => Type::INT4,
        SequenceType::BigInt => Type::INT8,
    };
    kind.oid().into()
}

pub const SEQUENCES: &Columns<Sequence> = &[
    ("seqrelid", Of::Number(|it| it.id)),
    ("seqtypid", Of::Number(type_of)),
    ("seqstart", Of::Number(|it| it.definition.start)),
    ("seqincrement", Of::Number(|it| it.definition.increment)),
    ("seqmax", Of::Number(|it| it.definition.max)),
    ("seqmin", Of::Number(|it| it.definition.min)),
    ("seqcache", Of::Number(|it| it.definition.cache)),
    ("seqcycle", Of::Flag(|it| it.definition.cycles)),
];
