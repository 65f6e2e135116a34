//! The columns of tables and views: `information_schema.columns`.

use std::sync::Arc;

use nearfar_sql::columns::{Columns, Of};
use nearfar_sql::sql::PG_CATALOG;
use nearfar_table::sequence::SequenceDefinition;
use pgwire::api::Type;
use postgres_types::Kind;

use super::contents::{Attribute, Contents, RelationKind};
use super::functions::type_name;
use super::information::{catalog, yes_or_no};

/// A column, and the sequence that numbers it if it is an identity.
pub struct Column {
    of: Attribute,
    sequence: Option<Arc<SequenceDefinition>>,
}

/// What the modifiers of types count from.
const MODIFIER_BASE: i64 = 4;
/// The bytes of a character at most.
const CHARACTER_BYTES: u64 = 4;
/// The bytes of a text at most.
const TEXT_BYTES: u64 = 1 << 30;

/// All columns of the tables and views that a session sees.
pub fn all(contents: &Contents) -> Vec<Column> {
    let attributes = contents.attributes().into_iter();
    let attributes = attributes.filter(|column| {
        let kind = &column.relation.kind;
        matches!(kind, RelationKind::Table | RelationKind::View)
    });
    let columns = attributes.map(|of| Column {
        sequence: sequence_of(contents, &of),
        of,
    });
    columns.collect()
}

fn sequence_of(contents: &Contents, column: &Attribute) -> Option<Arc<SequenceDefinition>> {
    let (table, name) = (column.relation.table?, column.field.name());
    if column.identity().is_empty() {
        return None;
    }
    let relations = contents.relations.iter();
    let mut sequences = relations.filter_map(|relation| relation.sequence.as_ref());
    let owned = sequences.find(|sequence| {
        let owner = sequence.owner.as_ref();
        owner.is_some_and(|(of, column)| *of == table && column == name)
    });
    owned.cloned()
}

impl Column {
    fn is(&self, types: &[Type]) -> bool {
        types.contains(&self.of.kind)
    }

    /// The name of its type in SQL.
    fn type_name(&self) -> String {
        match self.of.kind.kind() {
            Kind::Array(_) => "ARRAY".to_owned(),
            _ => type_name(&self.of.kind, -1),
        }
    }

    /// What was declared of its type; none if nothing was.
    fn modifier(&self) -> Option<u64> {
        u64::try_from(self.of.modifier - MODIFIER_BASE).ok()
    }

    /// The most characters of a text.
    fn characters(&self) -> Option<u64> {
        let has_length = self.is(&[Type::VARCHAR, Type::BPCHAR]);
        self.modifier().filter(|_| has_length)
    }

    /// The most bytes of a text.
    fn bytes(&self) -> Option<u64> {
        let is_text = self.is(&[Type::TEXT, Type::VARCHAR, Type::BPCHAR]);
        let declared = self.characters().map(|count| count * CHARACTER_BYTES);
        Some(declared.unwrap_or(TEXT_BYTES)).filter(|_| is_text)
    }

    /// The digits of a number, in its [`Self::radix`].
    fn digits(&self) -> Option<u64> {
        match self.of.kind {
            Type::INT2 => Some(16),
            Type::INT4 => Some(32),
            Type::INT8 => Some(64),
            Type::FLOAT4 => Some(24),
            Type::FLOAT8 => Some(53),
            Type::NUMERIC => self.modifier().map(|modifier| modifier >> 16),
            _ => None,
        }
    }

    fn radix(&self) -> Option<u64> {
        match self.of.kind {
            Type::NUMERIC => Some(10),
            _ => self.digits().map(|_| 2),
        }
    }

    /// The digits of a number behind the point.
    fn scale(&self) -> Option<u64> {
        match self.of.kind {
            Type::INT2 | Type::INT4 | Type::INT8 => Some(0),
            Type::NUMERIC => self.modifier().map(|modifier| modifier & 0xffff),
            _ => None,
        }
    }

    /// The digits of a second.
    fn of_seconds(&self) -> Option<u64> {
        match self.of.kind {
            Type::DATE => Some(0),
            Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => Some(6),
            _ => None,
        }
    }

    /// The expression of its default.
    fn default_sql(&self) -> Option<String> {
        let defaults = &self.of.relation.rules.defaults;
        let sql = defaults.get(self.of.field.name());
        sql.filter(|_| self.of.has_default()).cloned()
    }

    fn generation(&self) -> Option<String> {
        match self.of.identity() {
            "a" => Some("ALWAYS".to_owned()),
            "d" => Some("BY DEFAULT".to_owned()),
            _ => None,
        }
    }

    /// Something of the sequence that numbers it, as a text.
    fn numbered(&self, number: fn(&SequenceDefinition) -> i64) -> Option<String> {
        let sequence = self.sequence.as_deref()?;
        Some(number(sequence).to_string())
    }
}

/// PostgreSQL's columns of it.
pub const COLUMNS: &Columns<Column> = &[
    ("table_catalog", Of::Text(|_| catalog())),
    (
        "table_schema",
        Of::Text(|it| Some(it.of.relation.schema.clone())),
    ),
    (
        "table_name",
        Of::Text(|it| Some(it.of.relation.name.clone())),
    ),
    (
        "column_name",
        Of::Text(|it| Some(it.of.field.name().clone())),
    ),
    ("ordinal_position", Of::Number(|it| it.of.number)),
    ("column_default", Of::Text(Column::default_sql)),
    (
        "is_nullable",
        Of::Text(|it| yes_or_no(it.of.field.is_nullable())),
    ),
    ("data_type", Of::Text(|it| Some(it.type_name()))),
    ("character_maximum_length", Of::Count(Column::characters)),
    ("character_octet_length", Of::Count(Column::bytes)),
    ("numeric_precision", Of::Count(Column::digits)),
    ("numeric_precision_radix", Of::Count(Column::radix)),
    ("numeric_scale", Of::Count(Column::scale)),
    ("datetime_precision", Of::Count(Column::of_seconds)),
    ("interval_type", Of::Null),
    ("interval_precision", Of::Count(|_| None)),
    ("character_set_catalog", Of::Null),
    ("character_set_schema", Of::Null),
    ("character_set_name", Of::Null),
    ("collation_catalog", Of::Null),
    ("collation_schema", Of::Null),
    ("collation_name", Of::Null),
    ("domain_catalog", Of::Null),
    ("domain_schema", Of::Null),
    ("domain_name", Of::Null),
    ("udt_catalog", Of::Text(|_| catalog())),
    ("udt_schema", Of::Text(|_| Some(PG_CATALOG.to_owned()))),
    (
        "udt_name",
        Of::Text(|it| Some(it.of.kind.name().to_owned())),
    ),
    ("scope_catalog", Of::Null),
    ("scope_schema", Of::Null),
    ("scope_name", Of::Null),
    ("maximum_cardinality", Of::Count(|_| None)),
    (
        "dtd_identifier",
        Of::Text(|it| Some(it.of.number.to_string())),
    ),
    ("is_self_referencing", Of::Text(|_| yes_or_no(false))),
    (
        "is_identity",
        Of::Text(|it| yes_or_no(!it.of.identity().is_empty())),
    ),
    ("identity_generation", Of::Text(Column::generation)),
    ("identity_start", Of::Text(|it| it.numbered(|of| of.start))),
    (
        "identity_increment",
        Of::Text(|it| it.numbered(|of| of.increment)),
    ),
    ("identity_maximum", Of::Text(|it| it.numbered(|of| of.max))),
    ("identity_minimum", Of::Text(|it| it.numbered(|of| of.min))),
    (
        "identity_cycle",
        Of::Text(|it| yes_or_no(it.sequence.as_ref().is_some_and(|of| of.cycles))),
    ),
    ("is_generated", Of::Text(|_| Some("NEVER".to_owned()))),
    ("generation_expression", Of::Null),
    (
        "is_updatable",
        Of::Text(|it| yes_or_no(it.of.relation.table.is_some())),
    ),
];
