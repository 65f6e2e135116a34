//! Foreign keys, held against what a statement or a transaction has done.
//!
//! Whoever adds a row that refers to another shares that one's key, by its number, until the transaction ends;
//! whoever takes the other row away, or gives it another key, has the number alone. So what was looked up stays
//! true: rows of two transactions can't miss each other.

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{Schema, UInt64Type};
use arrow::util::display::array_value_to_string;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::yield_now;

use super::declare::key_of;
use crate::engine::execute::modify::with_identities;
use crate::engine::execute::{plan, within};
use crate::engine::references::{Child, NamedTable, quoted};
use crate::engine::session::Session;
use crate::engine::stream::RowStream;
use crate::error::EngineError;
use crate::scan::ROW_ID;
use crate::sql::{SqlError, StatementKind, statements};
use crate::stack::polled_with_stack;
use nearfar_table::error::TableError;
use nearfar_table::segment::RowSet;
use nearfar_table::table::{
    Keys, Reference, ReferenceAction, ReferenceCheck, RowId, Snapshot, Table, TableIndex,
};
use nearfar_table::transaction::{
    Isolation, LockMode, ReferenceStep, Transaction, TransactionError,
};

/// Keys of which one statement of our own asks.
const KEYS_MAX: usize = 64;

/// Numbers of keys that are told apart when they are locked, which bounds the memory of locks.
const LOCKED_NUMBERS: u64 = 1 << 16;

/// When foreign keys are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// A statement ends.
    Statement,
    /// Its transaction says which constraints are deferred from now on.
    Said,
    /// Its transaction ends.
    End,
}

/// Rows of a table that go or get another key, and the keys that they get.
struct Leaving {
    /// The old values of the key's columns, in the order of the foreign key.
    old: Vec<ArrayRef>,
    /// The new ones, if the rows are changed and not deleted.
    new: Option<Vec<ArrayRef>>,
}

impl Session {
    /// Ends a statement: what it has done is held against foreign keys, and committed if it is all there is.
    pub(in crate::engine::execute) async fn end_statement(
        &self,
        transaction: &Arc<Transaction>,
    ) -> Result<(), EngineError> {
        self.hold_references(transaction, !transaction.is_explicit())
            .await?;
        if !transaction.is_explicit() {
            self.wait_to_commit(transaction).await?;
        }
        Ok(transaction.end_statement(&self.gate).await?)
    }

    /// Holds what was done since the last time against foreign keys, and what was deferred too where the
    /// transaction `ends`.
    pub(in crate::engine::execute) async fn hold_references(
        &self,
        transaction: &Arc<Transaction>,
        ends: bool,
    ) -> Result<(), EngineError> {
        loop {
            let mut steps = transaction.take_reference_steps();
            let mut moment = Moment::Statement;
            if steps.is_empty() && ends {
                steps = transaction.take_deferred_steps();
                moment = Moment::End;
            }
            if steps.is_empty() {
                return Ok(());
            }
            self.hold_steps(transaction, steps, moment).await?;
        }
    }

    /// Holds what was deferred against the foreign keys that are not deferred any more.
    pub(in crate::engine::execute) async fn hold_deferred(
        &self,
        transaction: &Arc<Transaction>,
    ) -> Result<(), EngineError> {
        self.hold_references(transaction, false).await?;
        let steps = transaction.take_deferred_steps();
        self.hold_steps(transaction, steps, Moment::Said).await?;
        self.hold_references(transaction, false).await
    }

    /// Whether the keys that rows of `table` refer to have their entries, in what `transaction` reads: these take a
    /// while to make.
    pub(in crate::engine::execute) fn knows_parents(
        &self,
        transaction: &Transaction,
        table: &Table,
    ) -> bool {
        let references = self.references();
        let rules = table.rules();
        rules.references.iter().all(|reference| {
            let Some((_, parent)) = references.table(reference.parent) else {
                return true;
            };
            let parent = transaction.snapshot(&parent).ok();
            let key = parent
                .as_ref()
                .and_then(|parent| key_of(parent, &reference.parent_columns));
            key.is_some_and(|key| key.len().is_some())
        })
    }

    /// Refuses names of constraints that can't be deferred.
    pub(in crate::engine::execute) fn check_deferrable(
        &self,
        names: &[String],
    ) -> Result<(), SqlError> {
        let references = self.references();
        names.iter().try_for_each(|name| {
            let constraint = name.clone();
            match references.is_deferrable(name) {
                Some(true) => Ok(()),
                Some(false) => Err(SqlError::NotDeferrable { constraint }),
                None => Err(SqlError::NoSuchConstraint { constraint }),
            }
        })
    }

    async fn hold_steps(
        &self,
        transaction: &Arc<Transaction>,
        steps: Vec<(Arc<Table>, ReferenceStep)>,
        moment: Moment,
    ) -> Result<(), EngineError> {
        for (table, step) in steps {
            // On the heap, so that statements without foreign keys need no more stack for it.
            let held = Box::pin(self.hold_step(transaction, &table, (step, moment)));
            polled_with_stack(held).await?;
        }
        Ok(())
    }

    async fn hold_step(
        &self,
        transaction: &Arc<Transaction>,
        table: &Arc<Table>,
        (step, moment): (ReferenceStep, Moment),
    ) -> Result<(), EngineError> {
        let references = self.references();
        let is_deferred = |reference: &Reference| {
            let defers = transaction.defers_constraint(&reference.name);
            match reference.check {
                ReferenceCheck::Always => false,
                ReferenceCheck::Immediate => defers == Some(true),
                ReferenceCheck::Deferred => defers != Some(false),
            }
        };
        let mut has_deferred = false;
        for reference in &table.rules().references {
            match (moment, is_deferred(reference)) {
                (Moment::Statement | Moment::Said, true) => has_deferred = true,
                (Moment::Said | Moment::End, false)
                    if reference.check == ReferenceCheck::Always => {}
                _ => {
                    self.hold_added(transaction, (table, reference), &step)
                        .await?
                }
            }
        }
        for child in references.children(table.id()) {
            let reference = &child.reference;
            let action = match step.added.is_empty() {
                true => reference.on_delete,
                false => reference.on_update,
            };
            let waits = action == ReferenceAction::NoAction && is_deferred(reference);
            match (moment, waits) {
                (Moment::Statement | Moment::Said, true) => has_deferred = true,
                (Moment::Said | Moment::End, _) if action != ReferenceAction::NoAction => {}
                (Moment::Said | Moment::End, false)
                    if reference.check == ReferenceCheck::Always => {}
                _ => {
                    let given = (table, child, action);
                    self.hold_deleted(transaction, given, &step).await?;
                }
            }
        }
        if has_deferred {
            transaction.defer(table, step);
        }
        Ok(())
    }

    /// Rows that refer to others have to find them.
    async fn hold_added(
        &self,
        transaction: &Arc<Transaction>,
        (table, reference): (&Arc<Table>, &Reference),
        step: &ReferenceStep,
    ) -> Result<(), EngineError> {
        let references = self.references();
        let Some((_, parent)) = references.table(reference.parent) else {
            return Ok(());
        };
        let left = transaction.snapshot(table)?;
        let added = step.added.iter().flat_map(|part| {
            let rows = 0..part.segment.rows();
            rows.map(|row| part.ids.id(row))
        });
        let added: Vec<RowId> = added.filter(|row| left.locate(*row).is_some()).collect();
        if added.is_empty() {
            return Ok(());
        }
        let values = left.values(&added, &places(&left, &reference.columns)?)?;
        if reference.is_full && is_mixed(&values) {
            return Err(SqlError::HalfReference {
                table: Box::new(table.full_name()),
                constraint: reference.name.clone(),
            }
            .into());
        }
        if let Some(key) = unequalled(parent.schema(), reference, &values)? {
            return Err(no_parent((table, reference), &parent, key).into());
        }
        loop {
            let of_parent = transaction.snapshot(&parent)?;
            let (index, keys) = parent_keys(&of_parent, reference, &values)?;
            let numbers = numbers_of(&keys, &reference.parent_columns);
            let lock = transaction.lock_references(&parent, &numbers, LockMode::Shared)?;
            let is_taken = self.waited(lock, &parent).await?;
            // What others have committed before the lock was taken counts.
            transaction.refresh()?;
            let is_known = transaction.snapshot(&parent)?.is(&of_parent);
            if !is_taken || !is_known {
                // Others of this thread go on, however often the parent's rows change.
                yield_now().await;
                continue;
            }
            let found = match transaction.find_known_keys(&parent, &index, &keys) {
                Err(error) if is_outdated(transaction, &error) => {
                    transaction.refresh()?;
                    yield_now().await;
                    continue;
                }
                found => found?,
            };
            let row_of = |(part, row): (usize, usize)| of_parent.parts()[part].ids.id(row);
            let rows: Vec<Option<RowId>> = found.iter().map(|at| at.map(row_of)).collect();
            let replaced = transaction.are_replaced(&parent, &rows);
            if replaced.contains(&true)
                && !self.are_there(&parent, reference, &values, &replaced)?
            {
                transaction.refresh()?;
                if transaction.isolation() == Isolation::ReadCommitted {
                    yield_now().await;
                    continue;
                }
                return Err(conflict(&parent));
            }
            let mut each = keys.iter().zip(found);
            return match each.position(|((_, has_null), place)| !has_null && place.is_none()) {
                Some(row) => {
                    let key = key_at(reference, &values, row)?;
                    Err(no_parent((table, reference), &parent, key).into())
                }
                None => Ok(()),
            };
        }
    }

    /// Whether rows with those of the keys that are `asked` for are among all that was committed: others may have changed
    /// what else such a row has, but nobody takes a key that is locked.
    fn are_there(
        &self,
        parent: &Arc<Table>,
        reference: &Reference,
        values: &[ArrayRef],
        asked: &[bool],
    ) -> Result<bool, EngineError> {
        loop {
            let reader = Transaction::of_reader(self.engine().database());
            let (index, keys) = parent_keys(&reader.snapshot(parent)?, reference, values)?;
            match reader.find_known_keys(parent, &index, &keys) {
                Ok(found) => {
                    let mut all = asked.iter().zip(found);
                    return Ok(all.all(|(asked, place)| !asked || place.is_some()));
                }
                // Others have committed since the reader began.
                Err(TableError::Transaction(TransactionError::Conflict { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Rows that others refer to have to stay, or these follow.
    async fn hold_deleted(
        &self,
        transaction: &Arc<Transaction>,
        (parent, child, action): (&Arc<Table>, &Child, ReferenceAction),
        step: &ReferenceStep,
    ) -> Result<(), EngineError> {
        let references = self.references();
        let Some((named, table)) = references.table(child.table) else {
            return Ok(());
        };
        let leaving = loop {
            let of_parent = transaction.snapshot(parent)?;
            let leaving = leaving(step, &child.reference)?;
            let (index, keys) = parent_keys(&of_parent, &child.reference, &leaving.old)?;
            let found = match transaction.find_known_keys(parent, &index, &keys) {
                Err(error) if is_outdated(transaction, &error) => {
                    transaction.refresh()?;
                    yield_now().await;
                    continue;
                }
                found => found?,
            };
            let each = keys.iter().zip(found).enumerate();
            let gone = each.filter(|(_, ((_, has_null), place))| !has_null && place.is_none());
            let gone: Vec<u64> = gone.map(|(row, _)| row as u64).collect();
            if gone.is_empty() {
                return Ok(());
            }
            let leaving = leaving.only(gone)?;
            let (_, keys) = parent_keys(&of_parent, &child.reference, &leaving.old)?;
            let numbers = numbers_of(&keys, &child.reference.parent_columns);
            let lock = transaction.lock_references(parent, &numbers, LockMode::Exclusive)?;
            let is_taken = self.waited(lock, parent).await?;
            // What others have committed before the lock was taken counts.
            transaction.refresh()?;
            if is_taken {
                break leaving;
            }
        };
        let rows = leaving.old.first().map_or(0, |values| values.len());
        for start in (0..rows).step_by(KEYS_MAX) {
            let chunk = leaving.slice(start, KEYS_MAX.min(rows - start));
            let of_child = (named, &table, &child.reference);
            self.check_later(transaction, of_child, &chunk).await?;
            self.follow(transaction, (of_child, parent, action), &chunk)
                .await?;
        }
        Ok(())
    }

    /// What becomes of the rows that refer to rows which leave.
    async fn follow(
        &self,
        transaction: &Arc<Transaction>,
        ((named, table, reference), parent, action): (
            (&NamedTable, &Arc<Table>, &Reference),
            &Arc<Table>,
            ReferenceAction,
        ),
        leaving: &Leaving,
    ) -> Result<(), EngineError> {
        let (condition, values) = condition(reference, &leaving.old)?;
        let own = named.quoted();
        let all = |value: &str| {
            let columns = reference.columns.iter();
            let assigned = columns.map(|column| format!("{} = {value}", quoted(column)));
            assigned.collect::<Vec<_>>().join(", ")
        };
        let sql = match (action, &leaving.new) {
            (ReferenceAction::NoAction | ReferenceAction::Restrict, _) => {
                let sql = format!("SELECT 1 FROM {own} WHERE {condition} LIMIT 1");
                let mut rows = self.own_query(transaction, &sql, values).await?;
                return match rows.next().await.transpose()? {
                    Some(batch) if batch.num_rows() > 0 => {
                        Err(self.has_children(table, parent, (reference, leaving))?)
                    }
                    _ => Ok(()),
                };
            }
            (ReferenceAction::Cascade, None) => format!("DELETE FROM {own} WHERE {condition}"),
            (ReferenceAction::SetNull, _) => {
                format!("UPDATE {own} SET {} WHERE {condition}", all("NULL"))
            }
            (ReferenceAction::SetDefault, _) => {
                format!("UPDATE {own} SET {} WHERE {condition}", all("DEFAULT"))
            }
            (ReferenceAction::Cascade, Some(_)) => {
                return self
                    .follow_keys(transaction, (named, reference), leaving)
                    .await;
            }
        };
        self.own_change(transaction, &sql, values).await
    }

    /// Has rows refer to the new keys of those that they refer to.
    async fn follow_keys(
        &self,
        transaction: &Arc<Transaction>,
        (named, reference): (&NamedTable, &Reference),
        leaving: &Leaving,
    ) -> Result<(), EngineError> {
        let rows = leaving.old.first().map_or(0, |values| values.len());
        for row in 0..rows {
            let one = leaving.slice(row, 1);
            let (condition, mut values) = condition(reference, &one.old)?;
            let mut assigned = Vec::new();
            for (column, new) in reference.columns.iter().zip(one.new.iter().flatten()) {
                values.push(ScalarValue::try_from_array(new, 0)?);
                assigned.push(format!("{} = ${}", quoted(column), values.len()));
            }
            let sql = format!(
                "UPDATE {} SET {} WHERE {condition}",
                named.quoted(),
                assigned.join(", ")
            );
            self.own_change(transaction, &sql, values).await?;
        }
        Ok(())
    }

    /// Refuses to go on where rows refer to rows that leave which the transaction does not see, since they were
    /// committed after it began.
    async fn check_later(
        &self,
        transaction: &Arc<Transaction>,
        (named, table, reference): (&NamedTable, &Arc<Table>, &Reference),
        leaving: &Leaving,
    ) -> Result<(), EngineError> {
        if transaction.isolation() == Isolation::ReadCommitted {
            return Ok(());
        }
        let reader = Transaction::of_reader(self.engine().database());
        let (condition, values) = condition(reference, &leaving.old)?;
        let sql = format!("SELECT * FROM {} WHERE {condition}", named.quoted());
        let (state, query) = self.own_plan(&reader, &sql, values).await?;
        let query = with_identities(&query, table)?;
        let mut rows = self.query(&reader, &state, &query).await?;
        while let Some(batch) = rows.next().await.transpose()? {
            let ids = batch.column_by_name(ROW_ID);
            let ids = ids.and_then(|ids| ids.as_primitive_opt::<UInt64Type>());
            if ids.is_some_and(|ids| transaction.is_later(table, ids.values())) {
                return Err(conflict(table));
            }
        }
        Ok(())
    }

    fn has_children(
        &self,
        table: &Table,
        parent: &Table,
        (reference, leaving): (&Reference, &Leaving),
    ) -> Result<EngineError, EngineError> {
        let first: Vec<ArrayRef> = leaving.old.iter().map(|it| it.slice(0, 1)).collect();
        let (index, keys) = parent_keys(&parent.snapshot(), reference, &first)?;
        let shown = keys.iter().map(|(key, _)| index.encoder().shown(key));
        Ok(SqlError::HasChildren {
            parent: parent.name().to_owned(),
            constraint: reference.name.clone(),
            table: Box::new(table.full_name()),
            key: shown.collect(),
        }
        .into())
    }

    /// The plan of a statement of our own.
    async fn own_plan(
        &self,
        transaction: &Arc<Transaction>,
        sql: &str,
        values: Vec<ScalarValue>,
    ) -> Result<(SessionState, LogicalPlan), EngineError> {
        let statement = statements(sql)?.remove(0);
        let StatementKind::DataFusion { statement, .. } = statement.kind() else {
            let message = format!("`{sql}` is not planned");
            return Err(EngineError::Internal { message });
        };
        let state = within(transaction, self.context().state());
        let mut plan = plan(&state, statement).await?;
        if !values.is_empty() {
            plan = plan.with_param_values(values)?;
        }
        Ok((state, plan))
    }

    /// Runs a query of our own.
    pub(in crate::engine::execute) async fn own_query(
        &self,
        transaction: &Arc<Transaction>,
        sql: &str,
        values: Vec<ScalarValue>,
    ) -> Result<RowStream, EngineError> {
        let (state, plan) = self.own_plan(transaction, sql, values).await?;
        self.query(transaction, &state, &plan).await
    }

    /// Adds rows by a statement of our own, as a part of the transaction that is open.
    pub(in crate::engine::execute) async fn own_insert(
        &self,
        transaction: &Arc<Transaction>,
        sql: &str,
    ) -> Result<(), EngineError> {
        let (state, plan) = self.own_plan(transaction, sql, Vec::new()).await?;
        self.run_plan(transaction, &state, &plan).await?;
        Ok(())
    }

    /// Changes rows by a statement of our own, as a part of the one that runs.
    async fn own_change(
        &self,
        transaction: &Arc<Transaction>,
        sql: &str,
        values: Vec<ScalarValue>,
    ) -> Result<(), EngineError> {
        let (state, plan) = self.own_plan(transaction, sql, values).await?;
        let LogicalPlan::Dml(dml) = &plan else {
            let message = format!("`{sql}` changes no rows");
            return Err(EngineError::Internal { message });
        };
        self.wait_for_tables(transaction, &plan, false).await?;
        let dml: &DmlStatement = dml;
        let changed = self.modify(transaction, &state, (dml, None)).await?;
        Ok(transaction.replace(&changed.table, changed.ids, changed.rows)?)
    }
}

impl Leaving {
    /// Those of these places.
    fn only(&self, rows: Vec<u64>) -> Result<Self, EngineError> {
        let rows = UInt64Array::from(rows);
        let only = |values: &Vec<ArrayRef>| {
            let values = values.iter();
            let taken = values.map(|values| take(values, &rows, None));
            taken.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            old: only(&self.old)?,
            new: self.new.as_ref().map(only).transpose()?,
        })
    }

    fn slice(&self, start: usize, rows: usize) -> Self {
        let slice = |values: &Vec<ArrayRef>| {
            let values = values.iter().map(|values| values.slice(start, rows));
            values.collect::<Vec<_>>()
        };
        Self {
            old: slice(&self.old),
            new: self.new.as_ref().map(slice),
        }
    }
}

/// The keys that rows leave, and those that they get.
fn leaving(step: &ReferenceStep, reference: &Reference) -> Result<Leaving, EngineError> {
    let columns = places(&step.before, &reference.parent_columns)?;
    let old = step.before.values(&step.deleted, &columns)?;
    let new = match step.added.is_empty() {
        true => None,
        false => Some(new_values(step, &columns)?),
    };
    Ok(Leaving { old, new })
}

/// The values of rows that are changed: the last ones that were added, in the order of those deleted.
fn new_values(step: &ReferenceStep, columns: &[usize]) -> Result<Vec<ArrayRef>, EngineError> {
    let schema = step.before.schema();
    let column = |column: &usize| {
        let data_type = schema.field(*column).data_type();
        let parts = step.added.iter().map(|part| {
            let rows = RowSet::Run {
                start: 0,
                len: part.segment.rows(),
            };
            part.values(*column, data_type, rows)
        });
        let parts = parts.collect::<Result<Vec<ArrayRef>, TableError>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let all = concat(&parts)?;
        let first = all.len().saturating_sub(step.deleted.len());
        Ok(all.slice(first, all.len() - first))
    };
    columns.iter().map(column).collect()
}

/// The places of columns among those of a table.
fn places(snapshot: &Snapshot, columns: &[String]) -> Result<Vec<usize>, EngineError> {
    let places = columns
        .iter()
        .map(|column| snapshot.schema().index_of(column));
    Ok(places.collect::<Result<_, _>>()?)
}

/// The error of a row that refers to none.
fn no_parent((table, reference): (&Table, &Reference), parent: &Table, key: String) -> SqlError {
    SqlError::NoParent {
        table: Box::new(table.full_name()),
        constraint: reference.name.clone(),
        key,
        parent: parent.name().to_owned(),
    }
}

/// The values, as errors show keys, of the first row that can refer to none of the parent, whose columns can't hold
/// them.
fn unequalled(
    parent: &Schema,
    reference: &Reference,
    values: &[ArrayRef],
) -> Result<Option<String>, EngineError> {
    let names = reference.parent_columns.iter();
    let held = names.zip(values).map(|(name, values)| {
        let held = cast(values, parent.field_with_name(name)?.data_type())?;
        Ok(held)
    });
    let held = held.collect::<Result<Vec<ArrayRef>, EngineError>>()?;
    let rows = values.first().map_or(0, |values| values.len());
    let is_unequalled = |row: &usize| {
        let is_whole = values.iter().all(|values| values.is_valid(*row));
        is_whole && held.iter().any(|held| held.is_null(*row))
    };
    let Some(row) = (0..rows).find(is_unequalled) else {
        return Ok(None);
    };
    key_at(reference, values, row).map(Some)
}

/// What a row refers to, as errors show keys.
fn key_at(reference: &Reference, values: &[ArrayRef], row: usize) -> Result<String, EngineError> {
    let shown = values
        .iter()
        .map(|values| array_value_to_string(values, row));
    let shown = shown.collect::<Result<Vec<String>, _>>()?;
    let names = reference.columns.join(", ");
    Ok(format!("({names})=({})", shown.join(", ")))
}

/// The keys of a table whose columns, in the order of the foreign key, have these values, and the index that
/// they are of.
fn parent_keys(
    parent: &Snapshot,
    reference: &Reference,
    values: &[ArrayRef],
) -> Result<(Arc<TableIndex>, Keys), EngineError> {
    let index = key_of(parent, &reference.parent_columns);
    let index = index.ok_or_else(|| EngineError::Internal {
        message: format!("foreign key \"{}\" leads to no key", reference.name),
    })?;
    let schema = parent.schema();
    let columns = index.definition().columns.iter().map(|column| {
        let field = schema.field(column.column);
        let mut names = reference.parent_columns.iter();
        let at = names.position(|name| name == field.name());
        let values = at.and_then(|at| values.get(at));
        let values = values.ok_or_else(|| EngineError::Internal {
            message: format!("foreign key \"{}\" has no column", reference.name),
        })?;
        Ok(cast(values, field.data_type())?)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, EngineError>>()?;
    Ok((Arc::clone(index), index.encoder().keys(&columns)?))
}

/// What is locked of keys.
fn numbers_of(keys: &Keys, columns: &[String]) -> Vec<u64> {
    let numbers = keys.numbers(&columns.join(","));
    let numbers = numbers.into_iter().map(|number| number % LOCKED_NUMBERS);
    numbers.collect::<BTreeSet<u64>>().into_iter().collect()
}

/// Whether a row has both nulls and values.
fn is_mixed(values: &[ArrayRef]) -> bool {
    let rows = values.first().map_or(0, |values| values.len());
    (0..rows).any(|row| {
        let nulls = values.iter().filter(|values| values.is_null(row)).count();
        nulls > 0 && nulls < values.len()
    })
}

/// Whether a look-up failed since others have committed meanwhile, which can be seen when it is done again.
fn is_outdated(transaction: &Transaction, error: &TableError) -> bool {
    let is_conflict = matches!(
        error,
        TableError::Transaction(TransactionError::Conflict { .. })
    );
    is_conflict && transaction.isolation() == Isolation::ReadCommitted
}

/// That others have taken a row away which the transaction reads.
fn conflict(table: &Table) -> EngineError {
    let table = table.name().to_owned();
    TableError::from(TransactionError::Conflict { table }).into()
}

/// The condition that is true of the rows which refer to one of these keys, and its parameters.
fn condition(
    reference: &Reference,
    keys: &[ArrayRef],
) -> Result<(String, Vec<ScalarValue>), EngineError> {
    let rows = keys.first().map_or(0, |values| values.len());
    let mut parameters = Vec::with_capacity(rows * keys.len());
    let mut alternatives = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut equal = Vec::with_capacity(keys.len());
        for (column, values) in reference.columns.iter().zip(keys) {
            parameters.push(ScalarValue::try_from_array(values, row)?);
            equal.push(format!("{} = ${}", quoted(column), parameters.len()));
        }
        alternatives.push(format!("({})", equal.join(" AND ")));
    }
    Ok((alternatives.join(" OR "), parameters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringArray};

    #[test]
    fn rows_with_some_nulls_are_mixed() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
        assert!(is_mixed(&[Arc::clone(&numbers), Arc::clone(&texts)]));
        assert!(!is_mixed(&[numbers.slice(0, 2), texts.slice(0, 2)]));
        assert!(!is_mixed(&[numbers]));
    }
}
