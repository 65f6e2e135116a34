//! What is declared of tables beside their columns: indexes, keys and defaults, in PostgreSQL's terms.

use std::sync::Arc;

use arrow::datatypes::Schema;
use nearfar_sql::columns::{Columns, Of};
use nearfar_table::table::{IndexColumn, IndexDefinition, IndexPlacement, IndexPolicy, IndexRole};

use super::contents::{Contents, Relation, RelationKind, default_id};

/// An index, and the table that it is of.
#[derive(Clone)]
pub struct Index {
    /// As a relation of its own.
    pub relation: Arc<Relation>,
    pub table: Arc<Relation>,
    pub definition: Arc<IndexDefinition>,
}

/// The value of a column of rows that are added without one.
pub struct Default {
    table: Arc<Relation>,
    /// From 1.
    number: i64,
    sql: String,
}

impl Index {
    /// All of what a session sees.
    pub fn all(contents: &Contents) -> Vec<Self> {
        let indexes = contents.relations.iter().filter_map(|relation| {
            let RelationKind::Index { table, definition } = &relation.kind else {
                return None;
            };
            Some(Self {
                relation: Arc::clone(relation),
                table: Arc::clone(table),
                definition: Arc::clone(definition),
            })
        });
        indexes.collect()
    }

    fn is_primary(&self) -> bool {
        self.definition.role == IndexRole::PrimaryKey
    }

    fn width(&self) -> usize {
        self.definition.columns.len()
    }

    /// The numbers of its columns, from 1.
    fn numbers(&self) -> Vec<i16> {
        let columns = self.definition.columns.iter();
        columns.map(|own| small(own.column + 1)).collect()
    }

    /// The orders of its columns, as PostgreSQL's bits.
    fn options(&self) -> Vec<i16> {
        const DESCENDING: i16 = 1;
        const NULLS_FIRST: i16 = 2;
        let columns = self.definition.columns.iter();
        let options = columns.map(|own| {
            let descending = if own.is_descending { DESCENDING } else { 0 };
            let nulls_first = if own.nulls_first { NULLS_FIRST } else { 0 };
            descending | nulls_first
        });
        options.collect()
    }

    /// The column at a place, from 1, as a statement names it.
    pub fn column(&self, place: i64) -> Option<String> {
        let at = usize::try_from(place).ok()?.checked_sub(1)?;
        let own = self.definition.columns.get(at)?;
        Some(name(&self.table.columns, own))
    }

    /// A statement that makes it.
    pub fn statement(&self) -> String {
        let Self {
            table, definition, ..
        } = self;
        let unique = if definition.role.is_unique() {
            "UNIQUE "
        } else {
            ""
        };
        let columns = definition.columns.iter();
        let columns: Vec<String> = columns.map(|own| ordered(&table.columns, own)).collect();
        format!(
            "CREATE {unique}INDEX {} ON {}.{} USING {} ({}){}",
            quoted(&definition.name),
            quoted(&table.schema),
            quoted(&table.name),
            definition.kind.name(),
            columns.join(", "),
            place(&definition.placement)
        )
    }

    /// What a statement says of it that makes its table, if it is a constraint.
    pub fn clause(&self) -> Option<String> {
        let key = match self.definition.role {
            IndexRole::PrimaryKey => "PRIMARY KEY",
            IndexRole::UniqueConstraint => "UNIQUE",
            IndexRole::Search | IndexRole::Unique => return None,
        };
        let columns = self.definition.columns.iter();
        let columns: Vec<String> = columns.map(|own| name(&self.table.columns, own)).collect();
        Some(format!("{key} ({})", columns.join(", ")))
    }
}

/// What a statement says of where the nodes of an index go; nothing where that is by default.
fn place(placement: &IndexPlacement) -> String {
    let mut text = String::new();
    if placement.policy != IndexPolicy::default() {
        text.push_str(&format!(" WITH (policy = {}", placement.policy.name()));
        if placement.policy.has_share() {
            let share = f64::from(placement.near_percent) / 100.0;
            text.push_str(&format!(", near_share = {share}"));
        }
        text.push(')');
    }
    if let Some(tier) = &placement.tier {
        text.push_str(&format!(" TABLESPACE {}", quoted(tier)));
    }
    text
}

fn name(columns: &Schema, own: &IndexColumn) -> String {
    quoted(columns.field(own.column).name())
}

/// A column with what is not by default of its order.
fn ordered(columns: &Schema, own: &IndexColumn) -> String {
    let order = match (own.is_descending, own.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    };
    name(columns, own) + order
}

/// A number of a column.
pub fn small(number: usize) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

/// A name as it must be written.
pub fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    match begins && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The defaults of all columns that have one. Identities have none in PostgreSQL's terms.
pub fn defaults(contents: &Contents) -> Vec<Default> {
    let of_table = |relation: &Arc<Relation>| {
        let rules = relation.rules.clone();
        let columns = relation.columns.fields().iter().zip(1..);
        let with_default = columns.filter_map(|(field, number)| {
            let is_identity = rules.identities.contains_key(field.name());
            let sql = rules.defaults.get(field.name()).filter(|_| !is_identity)?;
            Some(Default {
                table: Arc::clone(relation),
                number,
                sql: sql.clone(),
            })
        });
        with_default.collect::<Vec<_>>()
    };
    contents.relations.iter().flat_map(of_table).collect()
}

pub const ATTRDEF: &Columns<Default> = &[
    ("oid", Of::Number(|it| default_id(it.table.id(), it.number))),
    ("adrelid", Of::Number(|it| it.table.id())),
    ("adnum", Of::Number(|it| it.number)),
    ("adbin", Of::Text(|it| Some(it.sql.clone()))),
];

/// Indexes as texts.
pub const INDEXES: &Columns<Index> = &[
    ("schemaname", Of::Text(|it| Some(it.table.schema.clone()))),
    ("tablename", Of::Text(|it| Some(it.table.name.clone()))),
    ("indexname", Of::Text(|it| Some(it.definition.name.clone()))),
    (
        "tablespace",
        Of::Text(|it| it.definition.placement.tier.clone()),
    ),
    ("indexdef", Of::Text(|it| Some(it.statement()))),
];

pub const INDEX: &Columns<Index> = &[
    ("indexrelid", Of::Number(|it| it.relation.id())),
    ("indrelid", Of::Number(|it| it.table.id())),
    (
        "indnatts",
        Of::Number(|it| it.definition.columns.len() as i64),
    ),
    (
        "indnkeyatts",
        Of::Number(|it| it.definition.columns.len() as i64),
    ),
    ("indisunique", Of::Flag(|it| it.definition.role.is_unique())),
    ("indisprimary", Of::Flag(Index::is_primary)),
    ("indisexclusion", Of::Flag(|_| false)),
    ("indimmediate", Of::Flag(|_| true)),
    ("indisclustered", Of::Flag(|_| false)),
    ("indisvalid", Of::Flag(|_| true)),
    ("indisready", Of::Flag(|_| true)),
    ("indisreplident", Of::Flag(|_| false)),
    ("indnullsnotdistinct", Of::Flag(|_| false)),
    ("indcheckxmin", Of::Flag(|_| false)),
    ("indislive", Of::Flag(|_| true)),
    ("indkey", Of::Vector(Index::numbers)),
    ("indcollation", Of::Vector(|it| vec![0; it.width()])),
    ("indclass", Of::Vector(|it| vec![0; it.width()])),
    ("indoption", Of::Vector(Index::options)),
    ("indexprs", Of::Null),
    ("indpred", Of::Null),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_say_where_nodes_go() {
        let of = |policy, near_percent, tier: Option<&str>| {
            place(&IndexPlacement {
                policy,
                near_percent,
                tier: tier.map(str::to_owned),
            })
        };
        assert_eq!(of(IndexPolicy::Near, 20, None), "");
        assert_eq!(
            of(IndexPolicy::Far, 20, Some("far")),
            " WITH (policy = far) TABLESPACE far"
        );
        assert_eq!(
            of(IndexPolicy::Sidle, 15, Some("Cxl 1")),
            " WITH (policy = sidle, near_share = 0.15) TABLESPACE \"Cxl 1\""
        );
    }
}
