//! What `information_schema` says of columns and constraints, beside what the session has in it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use nearfar_sql::columns::{Columns, Of, batch, schema};
use nearfar_sql::engine::CATALOG;

use super::constraints::Constraint;
use super::contents::{Contents, RelationKind};
use super::information_columns::{self, COLUMNS};
use super::tables::Table;
use super::{Catalog, Catalogs};

/// The tables of columns and constraints.
const TABLES: &[Table] = &[
    Table {
        name: "columns",
        schema: || schema(COLUMNS),
        batch: |contents| batch(COLUMNS, &information_columns::all(contents)),
    },
    Table {
        name: "table_constraints",
        schema: || schema(TABLE_CONSTRAINTS),
        batch: |contents| batch(TABLE_CONSTRAINTS, &declared(contents)),
    },
    Table {
        name: "key_column_usage",
        schema: || schema(KEY_COLUMNS),
        batch: |contents| batch(KEY_COLUMNS, &key_columns(contents)),
    },
    Table {
        name: "constraint_column_usage",
        schema: || schema(USED_COLUMNS),
        batch: |contents| batch(USED_COLUMNS, &used_columns(contents)),
    },
    Table {
        name: "referential_constraints",
        schema: || schema(REFERENCES),
        batch: |contents| batch(REFERENCES, &references(contents)),
    },
    Table {
        name: "check_constraints",
        schema: || schema(CHECKS),
        batch: |contents| batch(CHECKS, &checks(contents)),
    },
];

/// The schema of a session with the tables of columns and constraints.
#[derive(Debug)]
pub struct InformationSchema {
    pub inner: Arc<dyn SchemaProvider>,
    pub catalogs: Arc<Catalogs>,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let own = TABLES.iter().map(|table| table.name.to_owned());
        let mut others = self.inner.table_names();
        others.retain(|name| TABLES.iter().all(|table| *name != table.name));
        others.into_iter().chain(own).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        match TABLES.iter().find(|table| table.name == name) {
            Some(table) => Ok(Some(Arc::new(Catalog::new(table, &self.catalogs)))),
            None => self.inner.table(name).await,
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|table| table.name == name) || self.inner.table_exist(name)
    }
}

/// A constraint as `information_schema` knows them: a column that has no nulls is one too.
struct Declared {
    schema: String,
    name: String,
    table: String,
    kind: &'static str,
    /// Of a condition.
    condition: Option<String>,
    is_deferrable: bool,
    is_deferred: bool,
}

fn declared(contents: &Contents) -> Vec<Declared> {
    let constraints = Constraint::all(contents).into_iter();
    let constraints = constraints.map(|it| Declared {
        schema: it.schema().to_owned(),
        name: it.name.clone(),
        table: it.table_name().to_owned(),
        kind: it.kind(),
        condition: it.condition().map(|condition| format!("(({condition}))")),
        is_deferrable: it.is_deferrable(),
        is_deferred: it.is_deferred(),
    });
    let columns = contents.attributes().into_iter();
    let columns = columns.filter(|column| {
        !column.field.is_nullable() && matches!(column.relation.kind, RelationKind::Table)
    });
    let without_nulls = columns.map(|column| Declared {
        schema: column.relation.schema.clone(),
        // As PostgreSQL calls them.
        name: format!(
            "{}_{}_{}_not_null",
            super::contents::schema_id(&column.relation.schema),
            column.relation.id(),
            column.number
        ),
        table: column.relation.name.clone(),
        kind: "CHECK",
        condition: Some(format!(
            "{} IS NOT NULL",
            super::keys::quoted(column.field.name())
        )),
        is_deferrable: false,
        is_deferred: false,
    });
    constraints.chain(without_nulls).collect()
}

fn checks(contents: &Contents) -> Vec<Declared> {
    let declared = declared(contents).into_iter();
    declared.filter(|it| it.condition.is_some()).collect()
}

/// A column of a constraint.
struct Used {
    constraint: Arc<Constraint>,
    schema: String,
    table: String,
    column: String,
    /// From 1.
    place: i64,
}

/// The columns of keys and foreign keys, in their order.
fn key_columns(contents: &Contents) -> Vec<Used> {
    let constraints = Constraint::all(contents).into_iter();
    let keys = constraints.filter(|it| it.condition().is_none());
    let used = keys.map(Arc::new).flat_map(|constraint| {
        let columns = constraint.column_names().into_iter().zip(1..);
        let used = columns.map(|(column, place)| Used {
            schema: constraint.schema().to_owned(),
            table: constraint.table_name().to_owned(),
            constraint: Arc::clone(&constraint),
            column,
            place,
        });
        used.collect::<Vec<_>>()
    });
    used.collect()
}

/// The columns that constraints use: of a foreign key those that it leads to.
fn used_columns(contents: &Contents) -> Vec<Used> {
    let constraints = Constraint::all(contents).into_iter().map(Arc::new);
    let used = constraints.flat_map(|constraint| {
        let (schema, table, columns) = match constraint.parent_columns() {
            Some(parent) => parent,
            None => (
                constraint.schema().to_owned(),
                constraint.table_name().to_owned(),
                constraint.column_names(),
            ),
        };
        let used = columns.into_iter().zip(1..).map(|(column, place)| Used {
            constraint: Arc::clone(&constraint),
            schema: schema.clone(),
            table: table.clone(),
            column,
            place,
        });
        used.collect::<Vec<_>>()
    });
    used.collect()
}

/// A foreign key, and the constraint of what it leads to, if that is one.
struct Referring {
    constraint: Constraint,
    unique: Option<(String, String)>,
}

fn references(contents: &Contents) -> Vec<Referring> {
    let all = Constraint::all(contents);
    let keys: Vec<(i64, String, String)> = all
        .iter()
        .filter(|it| it.parent_columns().is_none() && it.index() != 0)
        .map(|it| (it.index(), it.schema().to_owned(), it.name.clone()))
        .collect();
    let referring = all.into_iter().filter(|it| it.parent_columns().is_some());
    let referring = referring.map(|constraint| Referring {
        unique: keys
            .iter()
            .find(|(index, ..)| *index == constraint.index())
            .map(|(_, schema, name)| (schema.clone(), name.clone())),
        constraint,
    });
    referring.collect()
}

/// A flag as a text.
pub fn yes_or_no(is_so: bool) -> Option<String> {
    Some(if is_so { "YES" } else { "NO" }.to_owned())
}

/// The name of the only catalog.
pub fn catalog() -> Option<String> {
    Some(CATALOG.to_owned())
}

const TABLE_CONSTRAINTS: &Columns<Declared> = &[
    ("constraint_catalog", Of::Text(|_| catalog())),
    ("constraint_schema", Of::Text(|it| Some(it.schema.clone()))),
    ("constraint_name", Of::Text(|it| Some(it.name.clone()))),
    ("table_catalog", Of::Text(|_| catalog())),
    ("table_schema", Of::Text(|it| Some(it.schema.clone()))),
    ("table_name", Of::Text(|it| Some(it.table.clone()))),
    ("constraint_type", Of::Text(|it| Some(it.kind.to_owned()))),
    ("is_deferrable", Of::Text(|it| yes_or_no(it.is_deferrable))),
    (
        "initially_deferred",
        Of::Text(|it| yes_or_no(it.is_deferred)),
    ),
    ("enforced", Of::Text(|_| yes_or_no(true))),
    (
        "nulls_distinct",
        Of::Text(|it| yes_or_no(true).filter(|_| it.kind == "UNIQUE")),
    ),
];

const CHECKS: &Columns<Declared> = &[
    ("constraint_catalog", Of::Text(|_| catalog())),
    ("constraint_schema", Of::Text(|it| Some(it.schema.clone()))),
    ("constraint_name", Of::Text(|it| Some(it.name.clone()))),
    ("check_clause", Of::Text(|it| it.condition.clone())),
];

const KEY_COLUMNS: &Columns<Used> = &[
    ("constraint_catalog", Of::Text(|_| catalog())),
    (
        "constraint_schema",
        Of::Text(|it| Some(it.constraint.schema().to_owned())),
    ),
    (
        "constraint_name",
        Of::Text(|it| Some(it.constraint.name.clone())),
    ),
    ("table_catalog", Of::Text(|_| catalog())),
    ("table_schema", Of::Text(|it| Some(it.schema.clone()))),
    ("table_name", Of::Text(|it| Some(it.table.clone()))),
    ("column_name", Of::Text(|it| Some(it.column.clone()))),
    ("ordinal_position", Of::Number(|it| it.place)),
    (
        "position_in_unique_constraint",
        Of::Count(|it| it.constraint.place_in_key(it.place)),
    ),
];

const USED_COLUMNS: &Columns<Used> = &[
    ("table_catalog", Of::Text(|_| catalog())),
    ("table_schema", Of::Text(|it| Some(it.schema.clone()))),
    ("table_name", Of::Text(|it| Some(it.table.clone()))),
    ("column_name", Of::Text(|it| Some(it.column.clone()))),
    ("constraint_catalog", Of::Text(|_| catalog())),
    (
        "constraint_schema",
        Of::Text(|it| Some(it.constraint.schema().to_owned())),
    ),
    (
        "constraint_name",
        Of::Text(|it| Some(it.constraint.name.clone())),
    ),
];

const REFERENCES: &Columns<Referring> = &[
    ("constraint_catalog", Of::Text(|_| catalog())),
    (
        "constraint_schema",
        Of::Text(|it| Some(it.constraint.schema().to_owned())),
    ),
    (
        "constraint_name",
        Of::Text(|it| Some(it.constraint.name.clone())),
    ),
    (
        "unique_constraint_catalog",
        Of::Text(|it| it.unique.as_ref().and_then(|_| catalog())),
    ),
    (
        "unique_constraint_schema",
        Of::Text(|it| it.unique.as_ref().map(|(schema, _)| schema.clone())),
    ),
    (
        "unique_constraint_name",
        Of::Text(|it| it.unique.as_ref().map(|(_, name)| name.clone())),
    ),
    (
        "match_option",
        Of::Text(|it| Some(it.constraint.match_option().to_owned())),
    ),
    (
        "update_rule",
        Of::Text(|it| it.constraint.rule(|of| of.on_update).map(str::to_owned)),
    ),
    (
        "delete_rule",
        Of::Text(|it| it.constraint.rule(|of| of.on_delete).map(str::to_owned)),
    ),
];
