//! Constraints of tables in PostgreSQL's terms: keys, conditions of rows, and foreign keys.

use std::sync::Arc;

use nearfar_sql::columns::{Columns, Of};
use nearfar_table::table::{IndexRole, Reference, ReferenceAction, ReferenceCheck};

use super::contents::{Contents, Relation, RelationKind, constraint_id, rule_id, schema_id};
use super::keys::{Index, quoted};

/// A constraint.
pub struct Constraint {
    pub id: i64,
    pub name: String,
    /// PostgreSQL's letter of its kind.
    letter: &'static str,
    table: Arc<Relation>,
    /// The index that upholds it, or the one that it leads to; 0 for none.
    index: i64,
    /// The numbers of its columns, from 1.
    columns: Vec<usize>,
    /// What a foreign key leads to.
    parent: Option<Parent>,
    /// What a statement says of it that makes its table.
    pub clause: String,
}

/// What a foreign key leads to.
struct Parent {
    table: i64,
    columns: Vec<usize>,
    reference: Reference,
}

impl Constraint {
    /// All of what a session sees.
    pub fn all(contents: &Contents) -> Vec<Self> {
        let keys = Index::all(contents).into_iter().filter_map(of_key);
        let tables = contents.relations.iter();
        let rules = tables.flat_map(|table| {
            let checks = table.rules.checks.iter().map(|check| Self {
                id: rule_id(table.id(), &check.name),
                name: check.name.clone(),
                letter: "c",
                table: Arc::clone(table),
                index: 0,
                columns: Vec::new(),
                parent: None,
                clause: format!("CHECK (({}))", check.sql),
            });
            let references = table.rules.references.iter();
            let references =
                references.filter_map(|reference| of_reference(contents, table, reference));
            checks.chain(references).collect::<Vec<_>>()
        });
        keys.chain(rules).collect()
    }

    fn parent_id(&self) -> i64 {
        self.parent.as_ref().map_or(0, |parent| parent.table)
    }

    fn action(&self, of: fn(&Reference) -> ReferenceAction) -> Option<String> {
        let action = self.parent.as_ref().map(|parent| of(&parent.reference));
        let letter = match action {
            None => " ",
            Some(ReferenceAction::NoAction) => "a",
            Some(ReferenceAction::Restrict) => "r",
            Some(ReferenceAction::Cascade) => "c",
            Some(ReferenceAction::SetNull) => "n",
            Some(ReferenceAction::SetDefault) => "d",
        };
        Some(letter.to_owned())
    }

    fn is_checked(&self, all: &[ReferenceCheck]) -> bool {
        let check = self.parent.as_ref().map(|parent| parent.reference.check);
        check.is_some_and(|check| all.contains(&check))
    }
}

fn of_key(index: Index) -> Option<Constraint> {
    let letter = match index.definition.role {
        IndexRole::PrimaryKey => "p",
        IndexRole::UniqueConstraint => "u",
        IndexRole::Search | IndexRole::Unique => return None,
    };
    let clause = index.clause()?;
    let columns = index.definition.columns.iter();
    Some(Constraint {
        id: constraint_id(index.relation.id()),
        name: index.definition.name.clone(),
        letter,
        index: index.relation.id(),
        columns: columns.map(|own| own.column + 1).collect(),
        table: index.table,
        parent: None,
        clause,
    })
}

fn of_reference(
    contents: &Contents,
    table: &Arc<Relation>,
    reference: &Reference,
) -> Option<Constraint> {
    let mut relations = contents.relations.iter();
    let parent = relations.find(|relation| relation.table == Some(reference.parent))?;
    let index = Index::all(contents).into_iter().find(|index| {
        let is_parent = Arc::ptr_eq(&index.table, parent);
        let own = index.definition.columns.iter();
        let mut own = own.map(|own| index.table.columns.field(own.column).name());
        let count = index.definition.columns.len();
        is_parent
            && index.definition.role.is_unique()
            && count == reference.parent_columns.len()
            && own.all(|name| reference.parent_columns.contains(name))
    });
    Some(Constraint {
        id: rule_id(table.id(), &reference.name),
        name: reference.name.clone(),
        letter: "f",
        table: Arc::clone(table),
        index: index.map_or(0, |index| index.relation.id()),
        columns: numbers(table, &reference.columns),
        clause: clause(parent, reference),
        parent: Some(Parent {
            table: parent.id(),
            columns: numbers(parent, &reference.parent_columns),
            reference: reference.clone(),
        }),
    })
}

fn numbers(table: &Relation, columns: &[String]) -> Vec<usize> {
    let places = columns.iter();
    let places = places.filter_map(|column| table.columns.index_of(column).ok());
    places.map(|place| place + 1).collect()
}

/// What a statement says of a foreign key.
fn clause(parent: &Relation, reference: &Reference) -> String {
    let names = |columns: &[String]| {
        let names: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        names.join(", ")
    };
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        names(&reference.columns),
        qualified(parent),
        names(&reference.parent_columns)
    );
    if reference.is_full {
        text.push_str(" MATCH FULL");
    }
    for (event, action) in [
        ("UPDATE", reference.on_update),
        ("DELETE", reference.on_delete),
    ] {
        let action = match action {
            ReferenceAction::NoAction => continue,
            ReferenceAction::Restrict => "RESTRICT",
            ReferenceAction::Cascade => "CASCADE",
            ReferenceAction::SetNull => "SET NULL",
            ReferenceAction::SetDefault => "SET DEFAULT",
        };
        text.push_str(&format!(" ON {event} {action}"));
    }
    text.push_str(match reference.check {
        ReferenceCheck::Always => "",
        ReferenceCheck::Immediate => " DEFERRABLE",
        ReferenceCheck::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    });
    text
}

fn qualified(table: &Relation) -> String {
    match table.schema == nearfar_sql::engine::PUBLIC {
        true => quoted(&table.name),
        false => format!("{}.{}", quoted(&table.schema), quoted(&table.name)),
    }
}

/// Numbers as PostgreSQL writes arrays of them; nothing where there are none.
fn array(numbers: &[usize]) -> Option<String> {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    (!numbers.is_empty()).then(|| format!("{{{}}}", numbers.join(",")))
}

pub const CONSTRAINT: &Columns<Constraint> = &[
    ("oid", Of::Number(|it| it.id)),
    ("conname", Of::Text(|it| Some(it.name.clone()))),
    ("connamespace", Of::Number(|it| schema_id(&it.table.schema))),
    ("contype", Of::Text(|it| Some(it.letter.to_owned()))),
    (
        "condeferrable",
        Of::Flag(|it| it.is_checked(&[ReferenceCheck::Immediate, ReferenceCheck::Deferred])),
    ),
    (
        "condeferred",
        Of::Flag(|it| it.is_checked(&[ReferenceCheck::Deferred])),
    ),
    ("convalidated", Of::Flag(|_| true)),
    ("conrelid", Of::Number(|it| it.table.id())),
    ("contypid", Of::Number(|_| 0)),
    ("conindid", Of::Number(|it| it.index)),
    ("conparentid", Of::Number(|_| 0)),
    ("confrelid", Of::Number(Constraint::parent_id)),
    ("confupdtype", Of::Text(|it| it.action(|of| of.on_update))),
    ("confdeltype", Of::Text(|it| it.action(|of| of.on_delete))),
    (
        "confmatchtype",
        Of::Text(|it| {
            let parent = it.parent.as_ref();
            let letter = parent.map_or(" ", |it| if it.reference.is_full { "f" } else { "s" });
            Some(letter.to_owned())
        }),
    ),
    ("conkey", Of::Text(|it| array(&it.columns))),
    (
        "confkey",
        Of::Text(|it| array(&it.parent.as_ref()?.columns)),
    ),
];

/// How many conditions the rows of a relation have to meet.
pub fn checks_of(relation: &Relation) -> i64 {
    match relation.kind {
        RelationKind::Table => relation.rules.checks.len() as i64,
        _ => 0,
    }
}
