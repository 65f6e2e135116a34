//! What a session sees at this moment, in PostgreSQL's terms.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::{CatalogProvider, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::TableType;
use nearfar_sql::engine::{PUBLIC, TEMPORARY, sequence_of, view_sql};
use nearfar_sql::scan::table_of;
use nearfar_sql::sql::{PG_CATALOG, view_query};
use nearfar_table::sequence::SequenceDefinition;
use nearfar_table::table::{IdentityKind, IndexDefinition, TableId, TableRules};
use pgwire::api::Type;

use super::settings::Setting;
use crate::columns::described;

/// Who owns everything.
pub const OWNER: &str = "nearfar";
/// The identifier of the owner, which PostgreSQL's first user has.
pub const OWNER_ID: i64 = 10;
/// The identifier of the session's user.
pub const USER_ID: i64 = 16_384;
/// Where PostgreSQL's identifiers of what users make begin.
const FIRST_ID: u64 = 16_386;
const LAST_ID: u64 = i32::MAX as u64;
/// The bit of a table's identifier that says that the table is found without its schema.
const VISIBLE: i64 = 1;

/// The user, the database, schemas and relations that a session sees.
pub struct Contents {
    pub user: String,
    pub database: String,
    /// The names of the tiers, near to far.
    pub tiers: Vec<String>,
    pub settings: Vec<Setting>,
    pub schemas: Vec<String>,
    pub relations: Vec<Arc<Relation>>,
}

/// What a relation is.
#[derive(Debug, Clone)]
pub enum RelationKind {
    Table,
    View,
    Sequence,
    Index {
        table: Arc<Relation>,
        definition: Arc<IndexDefinition>,
    },
}

/// A table, view, sequence or index.
#[derive(Debug)]
pub struct Relation {
    pub schema: String,
    pub name: String,
    pub kind: RelationKind,
    pub columns: SchemaRef,
    /// What was declared of the rows of a table.
    pub rules: Arc<TableRules>,
    /// Which table it is, if it is one.
    pub table: Option<TableId>,
    /// Indexes of a table.
    pub indexes: usize,
    /// Whether foreign keys lead to it or from it.
    pub has_references: bool,
    /// How it was declared, if it is a sequence.
    pub sequence: Option<Arc<SequenceDefinition>>,
    /// The statement that made it, if it is a view.
    pub definition: Option<String>,
}

/// A column of a table or view.
pub struct Attribute {
    pub relation: Arc<Relation>,
    pub field: FieldRef,
    /// From 1.
    pub number: i64,
    pub kind: Type,
    pub modifier: i64,
    pub bytes: i64,
}

impl Contents {
    /// Nothing but its user.
    pub fn new(user: &str, database: &str) -> Self {
        Self {
            user: user.to_owned(),
            database: database.to_owned(),
            tiers: Vec::new(),
            settings: Vec::new(),
            schemas: Vec::new(),
            relations: Vec::new(),
        }
    }

    /// Adds what is in a catalog.
    pub async fn add(&mut self, catalog: &dyn CatalogProvider) -> Result<()> {
        for schema in catalog.schema_names() {
            let provider = catalog.schema(&schema).filter(|_| !is_system(&schema));
            let names = provider.iter().flat_map(|provider| provider.table_names());
            for name in names.collect::<Vec<_>>() {
                let Some(provider) = &provider else { break };
                // One that was dropped meanwhile is not there.
                if let Some(table) = provider.table(&name).await? {
                    self.add_relation(&schema, name, table.as_ref());
                }
            }
            self.schemas.push(schema);
        }
        Ok(())
    }

    /// Adds a table, view or sequence, and a table's indexes.
    fn add_relation(&mut self, schema: &str, name: String, provider: &dyn TableProvider) {
        let table = table_of(provider);
        let snapshot = table.map(|table| table.snapshot());
        let indexes = snapshot.iter().flat_map(|snapshot| snapshot.indexes());
        let indexes: Vec<Arc<IndexDefinition>> = indexes
            .map(|index| Arc::clone(index.definition()))
            .collect();
        let sequence = sequence_of(provider).map(|sequence| sequence.definition());
        let relation = Arc::new(Relation {
            schema: schema.to_owned(),
            name,
            kind: match provider.table_type() {
                TableType::View => RelationKind::View,
                _ if sequence.is_some() => RelationKind::Sequence,
                _ => RelationKind::Table,
            },
            columns: provider.schema(),
            rules: table.map(|table| table.rules()).unwrap_or_default(),
            table: table.map(|table| table.id()),
            indexes: indexes.len(),
            has_references: table.is_some_and(|table| table.has_references()),
            sequence,
            definition: view_sql(provider),
        });
        let indexes = indexes.into_iter().map(|definition| {
            Arc::new(Relation {
                schema: schema.to_owned(),
                name: definition.name.clone(),
                kind: RelationKind::Index {
                    table: Arc::clone(&relation),
                    definition,
                },
                columns: Arc::new(Schema::empty()),
                rules: Arc::default(),
                table: None,
                indexes: 0,
                has_references: false,
                sequence: None,
                definition: None,
            })
        });
        let all = [Arc::clone(&relation)].into_iter().chain(indexes);
        self.relations.extend(all);
    }

    /// All columns that clients can be sent.
    pub fn attributes(&self) -> Vec<Attribute> {
        let attributes = self.relations.iter().flat_map(|relation| {
            let fields = relation.columns.fields().iter().zip(1..);
            fields.map(move |(field, number)| {
                let info = described(field).ok();
                Attribute {
                    relation: Arc::clone(relation),
                    field: Arc::clone(field),
                    number,
                    modifier: info.as_ref().map_or(-1, |info| info.type_modifier().into()),
                    bytes: info.as_ref().map_or(-1, |info| info.type_size().into()),
                    kind: info.map_or(Type::TEXT, |info| info.datatype().clone()),
                }
            })
        });
        attributes.collect()
    }
}

impl Attribute {
    /// Whether it has a default, which an identity's number is not.
    pub fn has_default(&self) -> bool {
        let name = self.field.name();
        let rules = &self.relation.rules;
        rules.defaults.contains_key(name) && !rules.identities.contains_key(name)
    }

    /// PostgreSQL's letter of an identity; nothing for others.
    pub fn identity(&self) -> &'static str {
        match self.relation.rules.identities.get(self.field.name()) {
            Some(IdentityKind::Always) => "a",
            Some(IdentityKind::ByDefault) => "d",
            None => "",
        }
    }
}

impl Relation {
    /// Its identifier.
    pub fn id(&self) -> i64 {
        relation_id(&self.schema, &self.name)
    }

    /// Whether it is found without its schema.
    pub fn is_in_sight(&self) -> bool {
        [PUBLIC, TEMPORARY].contains(&self.schema.as_str())
    }

    /// The query that it is, if it is a view, as PostgreSQL gives it: with a semicolon.
    pub fn query(&self) -> Option<String> {
        let query = view_query(self.definition.as_deref()?)?;
        Some(format!(" {};", query.sql))
    }

    /// Whether it is of one session.
    pub fn is_temporary(&self) -> bool {
        self.schema == TEMPORARY
    }
}

fn is_system(schema: &str) -> bool {
    [PG_CATALOG, "information_schema"].contains(&schema)
}

fn hashed(key: impl Hash) -> i64 {
    // Of the same value for as long as the process is the same.
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (FIRST_ID + hasher.finish() % (LAST_ID - FIRST_ID)) as i64
}

/// PostgreSQL's identifiers of its catalogs, which are within programs such as `pg_dump`.
const CATALOG_IDS: [(&str, i64); 18] = [
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_class", 1259),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_database", 1262),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_extension", 3079),
    ("pg_index", 2610),
    ("pg_language", 2612),
    ("pg_namespace", 2615),
    ("pg_proc", 1255),
    ("pg_rewrite", 2618),
    ("pg_sequence", 2224),
    ("pg_trigger", 2620),
    ("pg_type", 1247),
];

/// The identifier of a table or view, which follows from its name.
pub fn relation_id(schema: &str, name: &str) -> i64 {
    let mut known = CATALOG_IDS.iter().filter(|_| schema == PG_CATALOG);
    if let Some((_, id)) = known.find(|(catalog, _)| *catalog == name) {
        return *id;
    }
    let is_visible = [PUBLIC, TEMPORARY].contains(&schema);
    (hashed((schema, name)) & !VISIBLE) | i64::from(is_visible)
}

/// The identifier of the constraint that an index is.
pub fn constraint_id(index: i64) -> i64 {
    hashed(("constraint", index))
}

/// The identifier of a constraint that no index is.
pub fn rule_id(table: i64, name: &str) -> i64 {
    hashed(("rule", table, name))
}

/// The identifier of the default of a column.
pub fn default_id(table: i64, column: i64) -> i64 {
    hashed(("default", table, column))
}

/// The identifier of a function, which follows from its name; 0 for none, whose name is `-`.
pub fn function_id(name: &str) -> i64 {
    match name {
        "-" => 0,
        name => hashed(("function", name)),
    }
}

/// Whether the table of this identifier is found without its schema.
pub fn is_visible(relation: i64) -> bool {
    relation & VISIBLE != 0
}

/// The identifier of a schema, which follows from its name.
pub fn schema_id(name: &str) -> i64 {
    match name {
        PG_CATALOG => 11,
        PUBLIC => 2200,
        other => hashed(other),
    }
}
