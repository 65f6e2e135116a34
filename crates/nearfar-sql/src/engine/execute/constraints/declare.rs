//! Constraints, declared and dropped.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::TableReference;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::check::RowConditions;
use crate::engine::catalog::PUBLIC;
use crate::engine::execute::alter::table_reference;
use crate::engine::references::{Child, quoted};
use crate::engine::session::Session;
use crate::engine::stream::RowStream;
use crate::error::EngineError;
use crate::sql::{CheckClause, ConstraintClause, ReferenceClause, SqlError};
use futures::StreamExt;
use nearfar_table::error::TableName;
use nearfar_table::table::{CheckRule, Reference, Snapshot, Table, TableIndex, TableRules};
use nearfar_table::transaction::{Transaction, TransactionError};

/// How often the rows of a table are looked at for a new constraint, while others change them between the look and the
/// constraint: then it fails as a transaction does that has met another.
const LOOKS_MAX: usize = 8;

/// The table that constraints are declared of.
pub struct Declared<'a> {
    pub table: &'a Arc<Table>,
    pub schema: &'a str,
    pub name: &'a str,
    pub is_temporary: bool,
}

impl Session {
    /// Adds constraints to `rules`, by the names that PostgreSQL gives those without.
    ///
    /// # Errors
    /// A condition that is none; a foreign key to what is no key; a name that is taken.
    pub(in crate::engine::execute) async fn declare_constraints(
        &self,
        declared: &Declared<'_>,
        snapshot: &Snapshot,
        (clauses, rules): (&[ConstraintClause], &mut TableRules),
    ) -> Result<(), EngineError> {
        for clause in clauses {
            match clause {
                ConstraintClause::Check(check) => {
                    let rule = self.check_rule(declared, snapshot, (check, rules))?;
                    rules.checks.push(rule);
                    rules.checks.sort_by(|one, other| one.name.cmp(&other.name));
                }
                ConstraintClause::Reference(reference) => {
                    let given = (reference, &*rules);
                    let rule = self.reference(declared, snapshot, given).await?;
                    rules.references.push(rule);
                }
            }
        }
        Ok(())
    }

    fn check_rule(
        &self,
        declared: &Declared<'_>,
        snapshot: &Snapshot,
        (check, rules): (&CheckClause, &TableRules),
    ) -> Result<CheckRule, EngineError> {
        let default = match &check.column {
            Some(column) => format!("{}_{column}_check", declared.name),
            None => format!("{}_check", declared.name),
        };
        let rule = CheckRule {
            name: free_name(declared.name, snapshot, rules, (&check.name, default))?,
            sql: check.sql.clone(),
        };
        let name = TableName {
            schema: None,
            name: declared.name.to_owned(),
        };
        let columns = (name, declared.table.schema());
        let rules = std::slice::from_ref(&rule);
        RowConditions::of(&self.context().state(), columns, rules)?;
        Ok(rule)
    }

    async fn reference(
        &self,
        declared: &Declared<'_>,
        snapshot: &Snapshot,
        (clause, rules): (&ReferenceClause, &TableRules),
    ) -> Result<Reference, EngineError> {
        let default = format!("{}_{}_fkey", declared.name, clause.columns.join("_"));
        let name = free_name(declared.name, snapshot, rules, (&clause.name, default))?;
        let parent = self.parent_of(declared, &clause.parent_name()?).await?;
        if declared.is_temporary || parent.temporary().is_some() {
            let what = "a foreign key of or to a temporary table";
            return Err(SqlError::unsupported(what, "make both tables permanent").into());
        }
        let of_parent = match parent.id() == declared.table.id() {
            true => snapshot.clone(),
            false => parent.snapshot(),
        };
        let parent_columns = match clause.parent_columns.is_empty() {
            true => primary_key(&of_parent),
            false => clause.parent_columns.clone(),
        };
        if self.tables().draft().is_some() {
            let transaction = self.current_transaction()?;
            self.keep_from_others(&transaction, &parent).await?;
        }
        let key = key_of(&of_parent, &parent_columns);
        if key.is_none() || parent_columns.len() != clause.columns.len() {
            return Err(SqlError::NoParentKey {
                constraint: name,
                columns: parent_columns.join(", "),
                parent: parent.name().to_owned(),
            }
            .into());
        }
        let pairs = clause.columns.iter().zip(&parent_columns);
        for (column, parent_column) in pairs {
            let given = type_of(declared.table, column)?;
            let wanted = type_of(&parent, parent_column)?;
            if !is_comparable(&given, &wanted) {
                return Err(SqlError::ReferenceType {
                    constraint: name,
                    given: format!("`{column}` is {given}"),
                    wanted: format!("`{parent_column}` is {wanted}"),
                }
                .into());
            }
        }
        Ok(Reference {
            name,
            columns: clause.columns.clone(),
            parent: parent.id(),
            parent_columns,
            on_delete: clause.on_delete,
            on_update: clause.on_update,
            is_full: clause.is_full,
            check: clause.check,
        })
    }

    /// The table that a foreign key leads to, which may be the one that it is of.
    async fn parent_of(
        &self,
        declared: &Declared<'_>,
        name: &TableReference,
    ) -> Result<Arc<Table>, EngineError> {
        let (schema, table) = self.resolve(name)?;
        match schema == declared.schema && table == declared.name {
            true => Ok(Arc::clone(declared.table)),
            false => self.memory_table(name).await,
        }
    }

    /// `ALTER TABLE … ADD` of a constraint, which the rows that are there have to meet.
    pub(in crate::engine::execute) async fn add_constraint(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        clause: &ConstraintClause,
    ) -> Result<(), EngineError> {
        let (schema, own_name) = self.resolve(name)?;
        if self.tables().draft().is_some() {
            let named = (schema.as_str(), own_name.as_str());
            return self.add_drafted_constraint(named, table, clause).await;
        }
        let declared = Declared {
            table,
            schema: &schema,
            name: &own_name,
            is_temporary: table.temporary().is_some(),
        };
        // The names of tables, which are not noted where no foreign key is.
        self.note_references();
        for _ in 0..LOOKS_MAX {
            let (before, seen) = (table.rules(), table.snapshot());
            let mut rules = before.as_ref().clone();
            let clauses = std::slice::from_ref(clause);
            self.declare_constraints(&declared, &seen, (clauses, &mut rules))
                .await?;
            self.check_rows(&declared, (&before, &rules)).await?;
            let put = self.put_rules(table, (before, seen), rules).await;
            if matches!(put, Ok(false) | Err(_)) {
                // Its rows are looked at as they were before.
                self.attach_checks(table)?;
            }
            if put? {
                return Ok(());
            }
        }
        Err(TransactionError::Conflict { table: own_name }.into())
    }

    /// The same within a transaction, which nobody else changes the table beside.
    async fn add_drafted_constraint(
        &self,
        (schema, name): (&str, &str),
        table: &Arc<Table>,
        clause: &ConstraintClause,
    ) -> Result<(), EngineError> {
        let table = &self.redefined_as_it_is(table).await?;
        let declared = Declared {
            table,
            schema,
            name,
            is_temporary: table.temporary().is_some(),
        };
        let before = table.rules();
        let mut rules = before.as_ref().clone();
        let clauses = std::slice::from_ref(clause);
        self.declare_constraints(&declared, &table.snapshot(), (clauses, &mut rules))
            .await?;
        self.check_rows(&declared, (&before, &rules)).await?;
        table.set_rules(rules);
        self.attach_checks(table)?;
        self.note_references();
        Ok(())
    }

    /// Declares `rules` if nobody has changed the table since it was looked at; whether that is so.
    async fn put_rules(
        &self,
        table: &Arc<Table>,
        (before, seen): (Arc<TableRules>, Snapshot),
        rules: TableRules,
    ) -> Result<bool, EngineError> {
        let (engine, gate) = (Arc::clone(self.engine()), Arc::clone(&self.gate));
        let (table, check) = (Arc::clone(table), self.row_check(table, &rules)?);
        let put = tokio::task::spawn_blocking(move || {
            let mut is_same = false;
            engine.change_rules(&gate, &table, |newest, current| {
                is_same = newest.is(&seen) && current == *before;
                engine.check_parents(&rules, &[table.id()])?;
                if !is_same {
                    return Ok(current);
                }
                // Before they are declared: rows of a writer that knows of them are looked at.
                table.set_row_check(check);
                Ok(rules)
            })?;
            Ok::<bool, EngineError>(is_same)
        });
        put.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })?
    }

    /// Refuses constraints that rows fail which are there.
    async fn check_rows(
        &self,
        declared: &Declared<'_>,
        (before, after): (&TableRules, &TableRules),
    ) -> Result<(), EngineError> {
        let own = match declared.is_temporary || declared.schema == PUBLIC {
            true => quoted(declared.name),
            false => format!("{}.{}", quoted(declared.schema), quoted(declared.name)),
        };
        let violated = |constraint, name: &str| SqlError::ViolatedByRows {
            constraint,
            name: name.to_owned(),
            table: Box::new(declared.table.full_name()),
        };
        for check in after.checks.iter().filter(|it| !before.checks.contains(it)) {
            let query = format!("SELECT 1 FROM {own} WHERE NOT ({}) LIMIT 1", check.sql);
            if self.has_rows(&query).await? {
                return Err(violated("check", &check.name).into());
            }
        }
        let new = after.references.iter();
        for reference in new.filter(|it| !before.references.contains(it)) {
            let parent = self.reference_parent(declared, reference)?;
            let query = orphans(&own, &parent, reference);
            if self.has_rows(&query).await? {
                return Err(violated("foreign key", &reference.name).into());
            }
        }
        Ok(())
    }

    fn reference_parent(
        &self,
        declared: &Declared<'_>,
        reference: &Reference,
    ) -> Result<String, EngineError> {
        let references = self.references();
        let parent = references.table(reference.parent);
        match parent {
            Some((named, _)) => Ok(named.quoted()),
            None => Err(SqlError::UnknownTable {
                table: declared.name.to_owned(),
            }
            .into()),
        }
    }

    /// Whether a query of our own gives rows of what is committed, or what the open transaction sees if it defines the
    /// constraint.
    async fn has_rows(&self, sql: &str) -> Result<bool, EngineError> {
        let reader = match self.tables().draft() {
            Some(_) => self.current_transaction()?,
            None => Transaction::of_reader(self.engine().database()),
        };
        let mut rows: RowStream = self.own_query(&reader, sql, Vec::new()).await?;
        while let Some(batch) = rows.next().await {
            if batch?.num_rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses to drop a key that foreign keys lead to, unless another one is of the same columns.
    ///
    /// # Errors
    /// [`SqlError::ReferredTo`].
    pub(in crate::engine::execute) fn check_key_unused(
        &self,
        table: &Table,
        index: &TableIndex,
    ) -> Result<(), SqlError> {
        let references = self.references();
        let left = table.snapshot();
        let others = left.indexes().iter();
        let others = others.filter(|other| other.definition().name != index.definition().name);
        let left = left.with_indexes(others.cloned().collect());
        let needs = |child: &&Child| key_of(&left, &child.reference.parent_columns).is_none();
        match references.children(table.id()).iter().find(needs) {
            Some(child) => Err(SqlError::ReferredTo {
                what: format!("key \"{}\"", index.definition().name),
                constraint: child.reference.name.clone(),
                table: references.name_of(child.table),
            }),
            None => Ok(()),
        }
    }

    /// Takes away the foreign keys that lead to tables which are to be dropped.
    pub(in crate::engine::execute) async fn drop_references_to(
        &self,
        tables: &[Arc<Table>],
    ) -> Result<(), EngineError> {
        let references = self.references();
        for parent in tables {
            for child in references.children(parent.id()) {
                if let Some((_, table)) = references.table(child.table) {
                    self.drop_constraint(&table, &child.reference.name).await?;
                }
            }
        }
        Ok(())
    }

    /// `ALTER TABLE … DROP CONSTRAINT` of a condition or a foreign key; whether there was one of this name.
    pub(in crate::engine::execute) async fn drop_constraint(
        &self,
        table: &Arc<Table>,
        name: &str,
    ) -> Result<bool, EngineError> {
        let rules = table.rules();
        let is_check = rules.checks.iter().any(|check| check.name == name);
        let is_reference = rules.references.iter().any(|other| other.name == name);
        if !is_check && !is_reference {
            return Ok(false);
        }
        let name = name.to_owned();
        self.change_rules(table, move |rules| {
            rules.checks.retain(|check| check.name != name);
            rules.references.retain(|other| other.name != name);
        })
        .await?;
        Ok(true)
    }
}

/// The query for rows that refer to none.
fn orphans(own: &str, parent: &str, reference: &Reference) -> String {
    let columns = reference.columns.iter();
    let given: Vec<String> = columns
        .clone()
        .map(|column| format!("c.{} IS NOT NULL", quoted(column)))
        .collect();
    let pairs = columns.zip(&reference.parent_columns);
    let equal: Vec<String> = pairs
        .map(|(column, of_parent)| format!("p.{} = c.{}", quoted(of_parent), quoted(column)))
        .collect();
    let mixed = match reference.is_full {
        true => {
            let nulls = reference.columns.iter();
            let nulls: Vec<String> = nulls
                .map(|column| format!("c.{} IS NULL", quoted(column)))
                .collect();
            let some = |all: &[String]| all.join(" OR ");
            format!(" OR (({}) AND ({}))", some(&given), some(&nulls))
        }
        false => String::new(),
    };
    format!(
        "SELECT 1 FROM {own} AS c WHERE ({} AND NOT EXISTS (SELECT 1 FROM {parent} AS p WHERE {})){mixed} LIMIT 1",
        given.join(" AND "),
        equal.join(" AND ")
    )
}

impl ReferenceClause {
    fn parent_name(&self) -> Result<TableReference, SqlError> {
        table_reference(&self.parent)
    }
}

/// The name of a new constraint: the one given, which has to be free, or the one by default with a number where
/// that is taken.
fn free_name(
    table: &str,
    snapshot: &Snapshot,
    rules: &TableRules,
    (given, default): (&Option<String>, String),
) -> Result<String, SqlError> {
    let keys = snapshot.indexes().iter();
    let keys = keys.map(|index| index.definition().name.as_str());
    let checks = rules.checks.iter().map(|check| check.name.as_str());
    let references = rules.references.iter().map(|other| other.name.as_str());
    let taken: BTreeSet<&str> = keys.chain(checks).chain(references).collect();
    if let Some(given) = given {
        return match taken.contains(given.as_str()) {
            true => Err(SqlError::ConstraintExists {
                constraint: given.clone(),
                table: table.to_owned(),
            }),
            false => Ok(given.clone()),
        };
    }
    let numbered = (1..).map(|number| format!("{default}{number}"));
    let mut names = std::iter::once(default.clone()).chain(numbered);
    let free = names.find(|name| !taken.contains(name.as_str()));
    Ok(free.unwrap_or(default))
}

/// The columns of a table's primary key.
fn primary_key(snapshot: &Snapshot) -> Vec<String> {
    use nearfar_table::table::IndexRole;
    let mut indexes = snapshot.indexes().iter();
    let primary = indexes.find(|index| index.definition().role == IndexRole::PrimaryKey);
    primary.map_or_else(Vec::new, |index| names_of(snapshot.schema(), index))
}

fn names_of(schema: &SchemaRef, index: &TableIndex) -> Vec<String> {
    let columns = index.definition().columns.iter();
    let names = columns.map(|column| schema.field(column.column).name().clone());
    names.collect()
}

/// The unique index that is of exactly these columns, in whichever order.
pub(super) fn key_of<'a>(
    snapshot: &'a Snapshot,
    columns: &[String],
) -> Option<&'a Arc<TableIndex>> {
    let wanted: BTreeSet<&String> = columns.iter().collect();
    let mut unique = snapshot
        .indexes()
        .iter()
        .filter(|index| index.definition().role.is_unique());
    unique.find(|index| {
        let names = names_of(snapshot.schema(), index);
        names.len() == columns.len() && names.iter().collect::<BTreeSet<_>>() == wanted
    })
}

/// Whether a unique index is of exactly these columns.
pub(in crate::engine) fn has_key(snapshot: &Snapshot, columns: &[String]) -> bool {
    key_of(snapshot, columns).is_some()
}

fn type_of(table: &Table, column: &str) -> Result<DataType, SqlError> {
    let schema = table.schema();
    let field = schema.field_with_name(column);
    let field = field.map_err(|_| SqlError::UnknownColumn {
        table: table.name().to_owned(),
        column: column.to_owned(),
        known: schema.fields().iter().map(|f| f.name().clone()).collect(),
    })?;
    Ok(field.data_type().clone())
}

/// Whether being equal means the same in both types.
fn is_comparable(one: &DataType, other: &DataType) -> bool {
    one == other || one.is_integer() && other.is_integer() || one.is_string() && other.is_string()
}
