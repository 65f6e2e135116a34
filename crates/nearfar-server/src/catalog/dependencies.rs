//! What depends on what: `pg_depend`, and the extension that the store's own tables are of.

use std::sync::Arc;

use nearfar_sql::columns::{Columns, Of};
use nearfar_sql::engine::{SYSTEM, TEMPORARY};
use nearfar_sql::sql::{PG_CATALOG, view_query};
use nearfar_table::table::IndexRole;

use super::constraints::Constraint;
use super::contents::{
    Contents, OWNER_ID, Relation, RelationKind, constraint_id, default_id, relation_id, schema_id,
};
use super::keys::Index;

/// Dumps leave alone what extensions have made, and those that have identifiers below the ones of users.
const EXTENSION_ID: i64 = 13_000;

/// An object, by its catalog, its identifier there and the number of its column, 0 for the whole.
type Object = (&'static str, i64, i64);

/// That an object depends on another.
pub struct Dependency {
    object: Object,
    on: Object,
    /// PostgreSQL's letter of how.
    letter: &'static str,
}

const CLASS: &str = "pg_class";
const CONSTRAINT: &str = "pg_constraint";
const DEFAULT: &str = "pg_attrdef";
const EXTENSION: &str = "pg_extension";
const SCHEMA: &str = "pg_namespace";

/// It goes with the other.
const AUTOMATIC: &str = "a";
/// It is a part of the other.
const INTERNAL: &str = "i";
/// It has to go before the other.
const NORMAL: &str = "n";
/// It is the extension's.
const MEMBER: &str = "e";

/// All of what a session sees.
pub fn all(contents: &Contents) -> Vec<Dependency> {
    let relations = contents.relations.iter();
    let mut found: Vec<Dependency> = relations
        .flat_map(|relation| match &relation.kind {
            RelationKind::Table => of_defaults(contents, relation),
            RelationKind::Sequence => of_sequence(contents, relation).into_iter().collect(),
            RelationKind::View => of_view(contents, relation),
            RelationKind::Index { .. } => Vec::new(),
        })
        .collect();
    found.extend(Index::all(contents).iter().flat_map(of_index));
    found.extend(Constraint::all(contents).iter().flat_map(of_constraint));
    found.extend(members(contents));
    found
}

fn depends(object: Object, on: Object, letter: &'static str) -> Dependency {
    Dependency { object, on, letter }
}

/// The number of a column, from 1.
fn number_of(table: &Relation, column: &str) -> i64 {
    let place = table.columns.index_of(column);
    place.map_or(0, |place| place as i64 + 1)
}

fn of_defaults(contents: &Contents, table: &Arc<Relation>) -> Vec<Dependency> {
    let defaults = table.rules.defaults.iter();
    let defaults = defaults.filter(|(column, _)| !table.rules.identities.contains_key(*column));
    let found = defaults.flat_map(|(column, sql)| {
        let number = number_of(table, column);
        let own = (DEFAULT, default_id(table.id(), number), 0);
        let sequences = contents.relations.iter().filter(|relation| {
            let is_sequence = matches!(relation.kind, RelationKind::Sequence);
            is_sequence && sql.contains("nextval") && sql.contains(relation.name.as_str())
        });
        let sequences = sequences.map(|of| depends(own, (CLASS, of.id(), 0), NORMAL));
        let on_column = depends(own, (CLASS, table.id(), number), AUTOMATIC);
        sequences.chain([on_column]).collect::<Vec<_>>()
    });
    found.collect()
}

fn of_sequence(contents: &Contents, sequence: &Relation) -> Option<Dependency> {
    let (id, column) = sequence.sequence.as_ref()?.owner.as_ref()?;
    let mut relations = contents.relations.iter();
    let table = relations.find(|relation| relation.table == Some(*id))?;
    let letter = match table.rules.identities.contains_key(column) {
        true => INTERNAL,
        false => AUTOMATIC,
    };
    let on = (CLASS, table.id(), number_of(table, column));
    Some(depends((CLASS, sequence.id(), 0), on, letter))
}

fn of_view(contents: &Contents, view: &Relation) -> Vec<Dependency> {
    let query = view.definition.as_deref().and_then(view_query);
    let reads = query.map(|query| query.reads).unwrap_or_default();
    let found = reads.into_iter().filter_map(|(schema, name)| {
        let mut relations = contents.relations.iter();
        let read = relations.find(|relation| {
            let is_there = match &schema {
                Some(schema) => relation.schema == *schema,
                None => relation.is_in_sight(),
            };
            is_there && relation.name == name
        })?;
        Some(depends(
            (CLASS, view.id(), 0),
            (CLASS, read.id(), 0),
            NORMAL,
        ))
    });
    found.collect()
}

fn of_index(index: &Index) -> Vec<Dependency> {
    let own = (CLASS, index.relation.id(), 0);
    match index.definition.role {
        IndexRole::PrimaryKey | IndexRole::UniqueConstraint => {
            let constraint = constraint_id(index.relation.id());
            vec![depends(own, (CONSTRAINT, constraint, 0), INTERNAL)]
        }
        IndexRole::Search | IndexRole::Unique => {
            let columns = index.definition.columns.iter();
            let columns = columns.map(|own| own.column as i64 + 1);
            let on = columns.map(|number| (CLASS, index.table.id(), number));
            on.map(|on| depends(own, on, AUTOMATIC)).collect()
        }
    }
}

fn of_constraint(constraint: &Constraint) -> Vec<Dependency> {
    let own = (CONSTRAINT, constraint.id, 0);
    let table = constraint.table_id();
    let columns = constraint.column_numbers().iter();
    let on_columns = columns.map(|number| {
        let on = (CLASS, table, *number as i64);
        depends(own, on, AUTOMATIC)
    });
    let parent = constraint.parent_columns().is_some();
    let on_index = parent.then(|| depends(own, (CLASS, constraint.index(), 0), NORMAL));
    on_columns.chain(on_index).collect()
}

/// What is the store's own, and no user's.
fn members(contents: &Contents) -> Vec<Dependency> {
    let is_own = |schema: &str| [SYSTEM, TEMPORARY].contains(&schema);
    let schemas = contents.schemas.iter().filter(|schema| is_own(schema));
    let schemas = schemas.map(|schema| (SCHEMA, schema_id(schema), 0));
    let relations = contents.relations.iter();
    let relations = relations.filter(|relation| relation.schema == SYSTEM);
    let relations = relations.map(|relation| (CLASS, relation.id(), 0));
    let extension = (EXTENSION, EXTENSION_ID, 0);
    let members = schemas.chain(relations);
    members
        .map(|member| depends(member, extension, MEMBER))
        .collect()
}

pub const DEPEND: &Columns<Dependency> = &[
    (
        "classid",
        Of::Number(|it| relation_id(PG_CATALOG, it.object.0)),
    ),
    ("objid", Of::Number(|it| it.object.1)),
    ("objsubid", Of::Number(|it| it.object.2)),
    (
        "refclassid",
        Of::Number(|it| relation_id(PG_CATALOG, it.on.0)),
    ),
    ("refobjid", Of::Number(|it| it.on.1)),
    ("refobjsubid", Of::Number(|it| it.on.2)),
    ("deptype", Of::Text(|it| Some(it.letter.to_owned()))),
];

/// The extension that the store's own tables are of.
pub fn extensions(_: &Contents) -> Vec<()> {
    vec![()]
}

pub const EXTENSIONS: &Columns<()> = &[
    ("oid", Of::Number(|()| EXTENSION_ID)),
    ("extname", Of::Text(|()| Some(SYSTEM.to_owned()))),
    ("extowner", Of::Number(|()| OWNER_ID)),
    ("extnamespace", Of::Number(|()| schema_id(PG_CATALOG))),
    ("extrelocatable", Of::Flag(|()| false)),
    (
        "extversion",
        Of::Text(|()| Some(env!("CARGO_PKG_VERSION").to_owned())),
    ),
    ("extconfig", Of::Null),
    ("extcondition", Of::Null),
];
