//! The catalogs that have rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use nearfar_sql::columns::{Columns, Of, batch, schema};
use nearfar_sql::sql::PG_CATALOG;
use nearfar_table::table::IndexKind;
use pgwire::api::Type;
use postgres_types::Kind;

use super::constraints::{self, Constraint};
use super::contents::{
    Attribute, Contents, OWNER, OWNER_ID, Relation, RelationKind, USER_ID, relation_id, schema_id,
};
use super::dependencies;
use super::empty;
use super::keys::{self, Index};
use super::sequences;
use super::settings::{self, SETTING};

/// A catalog: its name, and how it is made.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub schema: fn() -> SchemaRef,
    pub batch: fn(&Contents) -> Result<RecordBatch, ArrowError>,
}

/// A catalog with the columns of `$columns` and a row for each of what `$rows` makes of what the session sees.
macro_rules! table {
    ($name:literal, $columns:expr, $rows:expr) => {
        Table {
            name: $name,
            schema: || with_own_column(&schema($columns)),
            batch: |contents| with_own_ids(&batch($columns, &$rows(contents))?, $name),
        }
    };
}

/// The column that says which catalog a row is of: in PostgreSQL, every table has it behind all others, unseen.
const OWN_ID: &str = "tableoid";

fn with_own_column(schema: &SchemaRef) -> SchemaRef {
    let own = Arc::new(Field::new(OWN_ID, DataType::Int64, true));
    let fields = schema.fields().iter().cloned().chain([own]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn with_own_ids(batch: &RecordBatch, name: &str) -> Result<RecordBatch, ArrowError> {
    let ids = Int64Array::from(vec![relation_id(PG_CATALOG, name); batch.num_rows()]);
    let columns = batch.columns().iter().cloned();
    let columns = columns.chain([Arc::new(ids) as ArrayRef]).collect();
    RecordBatch::try_new(with_own_column(&batch.schema()), columns)
}

/// All catalogs that can be read.
pub const TABLES: &[Table] = &[
    table!("pg_am", AM, methods),
    table!("pg_attribute", ATTRIBUTE, Contents::attributes),
    table!("pg_authid", ROLE, roles),
    table!("pg_class", CLASS, relations),
    table!("pg_database", DATABASE, |contents: &Contents| vec![
        contents.database.clone()
    ]),
    table!("pg_namespace", NAMESPACE, |contents: &Contents| contents
        .schemas
        .clone()),
    table!("pg_roles", ROLE, roles),
    table!("pg_settings", SETTING, settings::all),
    table!("pg_tables", TABLE, tables_only),
    table!("pg_tablespace", TABLESPACE, tablespaces),
    table!("pg_type", TYPE, |_: &Contents| types()),
    table!("pg_user", USER, roles),
    table!("pg_views", VIEW, views_only),
    table!("pg_attrdef", keys::ATTRDEF, keys::defaults),
    table!("pg_collation", empty::COLLATION, empty::none),
    table!("pg_constraint", constraints::CONSTRAINT, Constraint::all),
    table!("pg_depend", dependencies::DEPEND, dependencies::all),
    table!("pg_description", empty::DESCRIPTION, empty::none),
    table!(
        "pg_extension",
        dependencies::EXTENSIONS,
        dependencies::extensions
    ),
    table!("pg_index", keys::INDEX, Index::all),
    table!("pg_indexes", keys::INDEXES, Index::all),
    table!("pg_inherits", empty::INHERITS, empty::none),
    table!("pg_proc", empty::PROC, empty::none),
    table!("pg_sequence", sequences::SEQUENCES, sequences::all),
];

/// A way in which tables or indexes are kept.
struct Method {
    id: i64,
    name: &'static str,
    /// PostgreSQL's letter of what is kept so.
    kept: &'static str,
}

fn methods(_: &Contents) -> Vec<Method> {
    let tables = Method {
        id: HEAP_ID,
        name: "nearfar",
        kept: "t",
    };
    let trees = IndexKind::ALL.map(|kind| Method {
        id: tree_id(kind),
        name: kind.name(),
        kept: "i",
    });
    [tables].into_iter().chain(trees).collect()
}

/// The identifier of a kind of index: PostgreSQL gives none of these.
fn tree_id(kind: IndexKind) -> i64 {
    match kind {
        IndexKind::Art => 8001,
        IndexKind::Masstree => 8002,
    }
}

const AM: &Columns<Method> = &[
    ("oid", Of::Number(|it| it.id)),
    ("amname", Of::Text(|it| Some(it.name.to_owned()))),
    ("amhandler", Of::Number(|_| 0)),
    ("amtype", Of::Text(|it| letter(it.kept))),
];
/// The identifier that PostgreSQL's own way has.
const HEAP_ID: i64 = 2;
const DATABASE_ID: i64 = 5;
const TABLESPACE_ID: i64 = 1663;
/// The identifiers of tiers, near to far, from here on: PostgreSQL gives none of these.
const FIRST_TIER_ID: i64 = 9000;
const UTF8_ENCODING: i64 = 6;

fn relations(contents: &Contents) -> Vec<Arc<Relation>> {
    contents.relations.clone()
}

fn tables_only(contents: &Contents) -> Vec<Arc<Relation>> {
    let relations = contents.relations.iter().cloned();
    relations
        .filter(|relation| matches!(relation.kind, RelationKind::Table))
        .collect()
}

fn views_only(contents: &Contents) -> Vec<Arc<Relation>> {
    let relations = contents.relations.iter().cloned();
    let is_view = |relation: &Arc<Relation>| matches!(relation.kind, RelationKind::View);
    relations.filter(is_view).collect()
}

fn letter(letter: &str) -> Option<String> {
    Some(letter.to_owned())
}

const CLASS: &Columns<Arc<Relation>> = &[
    ("oid", Of::Number(|it| it.id())),
    ("relname", Of::Text(|it| Some(it.name.clone()))),
    ("relnamespace", Of::Number(|it| schema_id(&it.schema))),
    ("reltype", Of::Number(|_| 0)),
    ("reloftype", Of::Number(|_| 0)),
    ("relowner", Of::Number(|_| OWNER_ID)),
    (
        "relam",
        Of::Number(|it| match &it.kind {
            RelationKind::View => 0,
            RelationKind::Index { definition, .. } => tree_id(definition.kind),
            RelationKind::Table | RelationKind::Sequence => HEAP_ID,
        }),
    ),
    ("relfilenode", Of::Number(|it| it.id())),
    ("reltablespace", Of::Number(|_| 0)),
    ("relpages", Of::Number(|_| 0)),
    ("reltuples", Of::Number(|_| -1)),
    ("relallvisible", Of::Number(|_| 0)),
    ("reltoastrelid", Of::Number(|_| 0)),
    ("relhasindex", Of::Flag(|it| it.indexes > 0)),
    ("relisshared", Of::Flag(|_| false)),
    (
        "relpersistence",
        Of::Text(|it| letter(if it.is_temporary() { "t" } else { "p" })),
    ),
    (
        "relkind",
        Of::Text(|it| {
            letter(match it.kind {
                RelationKind::Table => "r",
                RelationKind::View => "v",
                RelationKind::Sequence => "S",
                RelationKind::Index { .. } => "i",
            })
        }),
    ),
    (
        "relnatts",
        Of::Number(|it| it.columns.fields().len() as i64),
    ),
    ("relchecks", Of::Number(|it| constraints::checks_of(it))),
    ("relhasrules", Of::Flag(|_| false)),
    // Foreign keys are triggers there, for which psql looks before it asks for them.
    ("relhastriggers", Of::Flag(|it| it.has_references)),
    ("relhassubclass", Of::Flag(|_| false)),
    ("relrowsecurity", Of::Flag(|_| false)),
    ("relforcerowsecurity", Of::Flag(|_| false)),
    ("relispopulated", Of::Flag(|_| true)),
    ("relreplident", Of::Text(|_| letter("d"))),
    ("relispartition", Of::Flag(|_| false)),
    ("relrewrite", Of::Number(|_| 0)),
    ("relfrozenxid", Of::Number(|_| 0)),
    ("relminmxid", Of::Number(|_| 0)),
    ("relacl", Of::Null),
    ("reloptions", Of::Null),
    ("relpartbound", Of::Null),
];

const ATTRIBUTE: &Columns<Attribute> = &[
    ("attrelid", Of::Number(|it| it.relation.id())),
    ("attname", Of::Text(|it| Some(it.field.name().clone()))),
    ("atttypid", Of::Number(|it| it.kind.oid().into())),
    ("attlen", Of::Number(|it| it.bytes)),
    ("attnum", Of::Number(|it| it.number)),
    ("attndims", Of::Number(|_| 0)),
    ("attcacheoff", Of::Number(|_| -1)),
    ("atttypmod", Of::Number(|it| it.modifier)),
    ("attbyval", Of::Flag(|_| false)),
    ("attalign", Of::Text(|_| letter("d"))),
    ("attstorage", Of::Text(|_| letter("p"))),
    ("attcompression", Of::Text(|_| letter(""))),
    ("attstattarget", Of::Number(|_| -1)),
    ("attnotnull", Of::Flag(|it| !it.field.is_nullable())),
    ("atthasdef", Of::Flag(Attribute::has_default)),
    ("atthasmissing", Of::Flag(|_| false)),
    ("attidentity", Of::Text(|it| letter(it.identity()))),
    ("attgenerated", Of::Text(|_| letter(""))),
    ("attisdropped", Of::Flag(|_| false)),
    ("attislocal", Of::Flag(|_| true)),
    ("attinhcount", Of::Number(|_| 0)),
    ("attcollation", Of::Number(|_| 0)),
    ("attacl", Of::Null),
    ("attoptions", Of::Null),
    ("attfdwoptions", Of::Null),
    ("attmissingval", Of::Null),
];

const NAMESPACE: &Columns<String> = &[
    ("oid", Of::Number(|it| schema_id(it))),
    ("nspname", Of::Text(|it| Some(it.clone()))),
    ("nspowner", Of::Number(|_| OWNER_ID)),
    ("nspacl", Of::Null),
];

const DATABASE: &Columns<String> = &[
    ("oid", Of::Number(|_| DATABASE_ID)),
    ("datname", Of::Text(|it| Some(it.clone()))),
    ("datdba", Of::Number(|_| OWNER_ID)),
    ("encoding", Of::Number(|_| UTF8_ENCODING)),
    ("datlocprovider", Of::Text(|_| letter("c"))),
    ("datistemplate", Of::Flag(|_| false)),
    ("datallowconn", Of::Flag(|_| true)),
    ("datconnlimit", Of::Number(|_| -1)),
    ("dattablespace", Of::Number(|_| TABLESPACE_ID)),
    ("datcollate", Of::Text(|_| letter("C"))),
    ("datctype", Of::Text(|_| letter("C"))),
    ("daticulocale", Of::Null),
    ("daticurules", Of::Null),
    ("datlocale", Of::Null),
    ("datacl", Of::Null),
];

/// A tablespace: the default one, or a tier.
struct Tablespace {
    id: i64,
    name: String,
}

fn tablespaces(contents: &Contents) -> Vec<Tablespace> {
    let default = Tablespace {
        id: TABLESPACE_ID,
        name: "pg_default".to_owned(),
    };
    let tiers = (FIRST_TIER_ID..).zip(&contents.tiers);
    let tiers = tiers.map(|(id, name)| Tablespace {
        id,
        name: name.clone(),
    });
    [default].into_iter().chain(tiers).collect()
}

const TABLESPACE: &Columns<Tablespace> = &[
    ("oid", Of::Number(|it| it.id)),
    ("spcname", Of::Text(|it| Some(it.name.clone()))),
    ("spcowner", Of::Number(|_| OWNER_ID)),
    ("spcacl", Of::Null),
    ("spcoptions", Of::Null),
];

/// A user, or the owner of everything.
struct Role {
    id: i64,
    name: String,
}

fn roles(contents: &Contents) -> Vec<Role> {
    let owner = Role {
        id: OWNER_ID,
        name: OWNER.to_owned(),
    };
    let user = Role {
        id: USER_ID,
        name: contents.user.clone(),
    };
    match contents.user == OWNER {
        true => vec![owner],
        false => vec![owner, user],
    }
}

const ROLE: &Columns<Role> = &[
    ("oid", Of::Number(|it| it.id)),
    ("rolname", Of::Text(|it| Some(it.name.clone()))),
    ("rolsuper", Of::Flag(|it| it.id == OWNER_ID)),
    ("rolinherit", Of::Flag(|_| true)),
    ("rolcreaterole", Of::Flag(|_| false)),
    ("rolcreatedb", Of::Flag(|_| false)),
    ("rolcanlogin", Of::Flag(|_| true)),
    ("rolreplication", Of::Flag(|_| false)),
    ("rolconnlimit", Of::Number(|_| -1)),
    ("rolpassword", Of::Null),
    ("rolvaliduntil", Of::Null),
    ("rolbypassrls", Of::Flag(|_| false)),
    ("rolconfig", Of::Null),
];

const USER: &Columns<Role> = &[
    ("usename", Of::Text(|it| Some(it.name.clone()))),
    ("usesysid", Of::Number(|it| it.id)),
    ("usecreatedb", Of::Flag(|_| false)),
    ("usesuper", Of::Flag(|it| it.id == OWNER_ID)),
    ("userepl", Of::Flag(|_| false)),
    ("usebypassrls", Of::Flag(|_| false)),
    ("passwd", Of::Null),
    ("valuntil", Of::Null),
    ("useconfig", Of::Null),
];

const TABLE: &Columns<Arc<Relation>> = &[
    ("schemaname", Of::Text(|it| Some(it.schema.clone()))),
    ("tablename", Of::Text(|it| Some(it.name.clone()))),
    ("tableowner", Of::Text(|_| Some(OWNER.to_owned()))),
    ("tablespace", Of::Null),
    ("hasindexes", Of::Flag(|it| it.indexes > 0)),
    ("hasrules", Of::Flag(|_| false)),
    ("hastriggers", Of::Flag(|it| it.has_references)),
    ("rowsecurity", Of::Flag(|_| false)),
];

const VIEW: &Columns<Arc<Relation>> = &[
    ("schemaname", Of::Text(|it| Some(it.schema.clone()))),
    ("viewname", Of::Text(|it| Some(it.name.clone()))),
    ("viewowner", Of::Text(|_| Some(OWNER.to_owned()))),
    ("definition", Of::Text(|it| it.query())),
];

/// The types that columns and parameters have.
const SCALARS: [Type; 20] = [
    Type::BOOL,
    Type::BYTEA,
    Type::CHAR,
    Type::NAME,
    Type::INT8,
    Type::INT2,
    Type::INT4,
    Type::TEXT,
    Type::OID,
    Type::FLOAT4,
    Type::FLOAT8,
    Type::UNKNOWN,
    Type::BPCHAR,
    Type::VARCHAR,
    Type::DATE,
    Type::TIME,
    Type::TIMESTAMP,
    Type::TIMESTAMPTZ,
    Type::INTERVAL,
    Type::NUMERIC,
];

const ARRAYS: [Type; 13] = [
    Type::BOOL_ARRAY,
    Type::BYTEA_ARRAY,
    Type::INT2_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::FLOAT4_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::DATE_ARRAY,
    Type::TIME_ARRAY,
    Type::TIMESTAMP_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::NUMERIC_ARRAY,
];

/// All types that there are.
pub fn types() -> Vec<Type> {
    SCALARS.into_iter().chain(ARRAYS).collect()
}

fn element(kind: &Type) -> i64 {
    match kind.kind() {
        Kind::Array(element) => element.oid().into(),
        _ => 0,
    }
}

fn array_of(kind: &Type) -> i64 {
    let array = ARRAYS
        .iter()
        .find(|array| element(array) == i64::from(kind.oid()));
    array.map_or(0, |array| array.oid().into())
}

/// What the functions of a type begin with, which read and write its values.
fn procedures(kind: &Type) -> String {
    if element(kind) != 0 {
        return "array_".to_owned();
    }
    match *kind {
        Type::DATE
        | Type::TIME
        | Type::TIMESTAMP
        | Type::TIMESTAMPTZ
        | Type::INTERVAL
        | Type::NUMERIC => format!("{}_", kind.name()),
        _ => kind.name().to_owned(),
    }
}

const TYPE: &Columns<Type> = &[
    ("oid", Of::Number(|it| it.oid().into())),
    ("typname", Of::Text(|it| Some(it.name().to_owned()))),
    ("typnamespace", Of::Number(|_| schema_id("pg_catalog"))),
    ("typowner", Of::Number(|_| OWNER_ID)),
    ("typlen", Of::Number(|_| -1)),
    ("typbyval", Of::Flag(|_| false)),
    ("typtype", Of::Text(|_| letter("b"))),
    (
        "typcategory",
        Of::Text(|it| letter(if element(it) == 0 { "U" } else { "A" })),
    ),
    ("typispreferred", Of::Flag(|_| false)),
    ("typisdefined", Of::Flag(|_| true)),
    ("typdelim", Of::Text(|_| letter(","))),
    ("typrelid", Of::Number(|_| 0)),
    ("typsubscript", Of::Number(|_| 0)),
    ("typelem", Of::Number(element)),
    ("typarray", Of::Number(array_of)),
    ("typinput", Of::Text(|it| Some(procedures(it) + "in"))),
    ("typoutput", Of::Text(|it| Some(procedures(it) + "out"))),
    ("typreceive", Of::Text(|it| Some(procedures(it) + "recv"))),
    ("typsend", Of::Text(|it| Some(procedures(it) + "send"))),
    ("typstorage", Of::Text(|_| letter("p"))),
    ("typnotnull", Of::Flag(|_| false)),
    ("typbasetype", Of::Number(|_| 0)),
    ("typtypmod", Of::Number(|_| -1)),
    ("typndims", Of::Number(|_| 0)),
    ("typcollation", Of::Number(|_| 0)),
    ("typdefault", Of::Null),
    ("typacl", Of::Null),
];

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_sql::sql::CATALOGS;

    #[test]
    fn every_catalog_that_queries_are_led_to_is_there() {
        for name in CATALOGS {
            assert!(TABLES.iter().any(|table| table.name == name), "{name}");
        }
        let contents = Contents::new("ann", "d");
        for table in TABLES {
            let batch = (table.batch)(&contents).expect(table.name);
            assert_eq!(batch.schema(), (table.schema)(), "{}", table.name);
        }
    }

    #[test]
    fn types_have_the_functions_that_postgresql_has() {
        for (kind, expected) in [
            (Type::INT4, "int4"),
            (Type::VARCHAR, "varchar"),
            (Type::TIMESTAMPTZ, "timestamptz_"),
            (Type::TEXT_ARRAY, "array_"),
        ] {
            assert_eq!(procedures(&kind), expected);
        }
    }

    #[test]
    fn every_tier_is_a_tablespace() {
        let mut contents = Contents::new("ann", "d");
        contents.tiers = vec!["near".to_owned(), "cxl".to_owned()];
        let spaces = tablespaces(&contents);
        let named: Vec<(i64, &str)> = spaces
            .iter()
            .map(|space| (space.id, space.name.as_str()))
            .collect();
        assert_eq!(named, [(1663, "pg_default"), (9000, "near"), (9001, "cxl")]);
    }
}
