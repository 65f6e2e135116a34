//! Constraints of tables in PostgreSQL's terms: keys, conditions of rows, and foreign keys.

use std::sync::Arc;

use nearfar_sql::columns::{Columns, Of};
use nearfar_sql::sql::names_column;
use nearfar_table::table::{IndexRole, Reference, ReferenceAction, ReferenceCheck};

use super::contents::{Contents, Relation, RelationKind, constraint_id, rule_id, schema_id};
use super::keys::{Index, quoted, small};

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
    /// What rows have to be.
    condition: Option<String>,
    /// What a statement says of it that makes its table.
    pub clause: String,
}

/// What a foreign key leads to.
struct Parent {
    table: Arc<Relation>,
    columns: Vec<usize>,
    /// The columns of the key that it leads to, in their order there.
    key: Vec<usize>,
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
                columns: named_by(table, &check.sql),
                parent: None,
                condition: Some(check.sql.clone()),
                clause: format!("CHECK (({}))", check.sql),
            });
            let references = table.rules.references.iter();
            let references =
                references.filter_map(|reference| of_reference(contents, table, reference));
            checks.chain(references).collect::<Vec<_>>()
        });
        keys.chain(rules).collect()
    }

    /// Where its table is.
    pub fn schema(&self) -> &str {
        &self.table.schema
    }

    /// The name of its table.
    pub fn table_name(&self) -> &str {
        &self.table.name
    }

    /// The index that upholds it, or the one that it leads to; 0 for none.
    pub fn index(&self) -> i64 {
        self.index
    }

    /// What rows have to be, if it is a condition.
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_deref()
    }

    /// Its kind in words.
    pub fn kind(&self) -> &'static str {
        match self.letter {
            "p" => "PRIMARY KEY",
            "u" => "UNIQUE",
            "f" => "FOREIGN KEY",
            _ => "CHECK",
        }
    }

    /// The identifier of its table.
    pub fn table_id(&self) -> i64 {
        self.table.id()
    }

    /// The numbers of its columns, from 1.
    pub fn column_numbers(&self) -> &[usize] {
        &self.columns
    }

    /// The names of its columns, in its order.
    pub fn column_names(&self) -> Vec<String> {
        names(&self.table, &self.columns)
    }

    /// The schema, the table and the columns that a foreign key leads to.
    pub fn parent_columns(&self) -> Option<(String, String, Vec<String>)> {
        let parent = self.parent.as_ref()?;
        let table = &parent.table;
        let columns = names(table, &parent.columns);
        Some((table.schema.clone(), table.name.clone(), columns))
    }

    /// The place, from 1, that what a foreign key's column at `place` leads to has in the key there.
    pub fn place_in_key(&self, place: i64) -> Option<u64> {
        let parent = self.parent.as_ref()?;
        let at = usize::try_from(place).ok()?.checked_sub(1)?;
        let column = parent.columns.get(at)?;
        let at = parent.key.iter().position(|other| other == column)?;
        Some(at as u64 + 1)
    }

    /// How a foreign key takes nulls.
    pub fn match_option(&self) -> &'static str {
        let is_full = self.parent.as_ref().is_some_and(|it| it.reference.is_full);
        if is_full { "FULL" } else { "NONE" }
    }

    /// What becomes of rows that refer to others.
    pub fn rule(&self, of: fn(&Reference) -> ReferenceAction) -> Option<&'static str> {
        let parent = self.parent.as_ref()?;
        Some(match of(&parent.reference) {
            ReferenceAction::NoAction => "NO ACTION",
            ReferenceAction::Restrict => "RESTRICT",
            ReferenceAction::Cascade => "CASCADE",
            ReferenceAction::SetNull => "SET NULL",
            ReferenceAction::SetDefault => "SET DEFAULT",
        })
    }

    /// Whether it can be checked at the end of a transaction.
    pub fn is_deferrable(&self) -> bool {
        self.is_checked(&[ReferenceCheck::Immediate, ReferenceCheck::Deferred])
    }

    /// Whether it is, where nothing is said.
    pub fn is_deferred(&self) -> bool {
        self.is_checked(&[ReferenceCheck::Deferred])
    }

    /// What a statement says of it that makes its table, for people: without parentheses around parentheses.
    pub fn pretty_clause(&self) -> String {
        match &self.condition {
            Some(condition) => format!("CHECK ({condition})"),
            None => self.clause.clone(),
        }
    }

    fn parent_id(&self) -> i64 {
        self.parent.as_ref().map_or(0, |parent| parent.table.id())
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
        condition: None,
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
    let key_columns = index
        .iter()
        .flat_map(|index| index.definition.columns.iter());
    let key_columns = key_columns.map(|own| own.column + 1).collect();
    Some(Constraint {
        id: rule_id(table.id(), &reference.name),
        name: reference.name.clone(),
        letter: "f",
        table: Arc::clone(table),
        index: index.map_or(0, |index| index.relation.id()),
        columns: numbers(table, &reference.columns),
        clause: clause(parent, reference),
        condition: None,
        parent: Some(Parent {
            table: Arc::clone(parent),
            key: key_columns,
            columns: numbers(parent, &reference.parent_columns),
            reference: reference.clone(),
        }),
    })
}

fn names(table: &Relation, numbers: &[usize]) -> Vec<String> {
    let fields = table.columns.fields();
    let named = numbers.iter().filter_map(|number| fields.get(number - 1));
    named.map(|field| field.name().clone()).collect()
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

/// The numbers of the columns that a condition names, from 1.
fn named_by(table: &Relation, condition: &str) -> Vec<usize> {
    let fields = table.columns.fields().iter().zip(1..);
    let named = fields.filter(|(field, _)| names_column(condition, field.name()).unwrap_or(false));
    named.map(|(_, number)| number).collect()
}

/// An array of numbers of columns; nothing where there are none.
fn array(numbers: &[usize]) -> Option<Vec<i16>> {
    let array: Vec<i16> = numbers.iter().copied().map(small).collect();
    (!array.is_empty()).then_some(array)
}

pub const CONSTRAINT: &Columns<Constraint> = &[
    ("oid", Of::Number(|it| it.id)),
    ("conname", Of::Text(|it| Some(it.name.clone()))),
    ("connamespace", Of::Number(|it| schema_id(&it.table.schema))),
    ("contype", Of::Text(|it| Some(it.letter.to_owned()))),
    ("condeferrable", Of::Flag(Constraint::is_deferrable)),
    ("condeferred", Of::Flag(Constraint::is_deferred)),
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
    ("conislocal", Of::Flag(|_| true)),
    ("coninhcount", Of::Number(|_| 0)),
    ("connoinherit", Of::Flag(|_| false)),
    ("conkey", Of::Numbers(|it| array(&it.columns))),
    (
        "confkey",
        Of::Numbers(|it| array(&it.parent.as_ref()?.columns)),
    ),
    ("conbin", Of::Text(|it| it.condition.clone())),
];

/// How many conditions the rows of a relation have to meet.
pub fn checks_of(relation: &Relation) -> i64 {
    match relation.kind {
        RelationKind::Table => relation.rules.checks.len() as i64,
        _ => 0,
    }
}
