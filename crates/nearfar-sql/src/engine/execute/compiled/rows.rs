//! What statements do with the rows that an index leads to.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::sync::Arc;

use super::expressions::{RowValues, is_plain, parameter_of, with_types};
use super::joined::{JoinedWork, Joins, TableOrder, Within};
use super::key::{FoundRows, KeyedRows, Places, ROWS_MAX, Wanted};
use super::returning::Returning;
use super::shape::{RowPlan, Verb, options_of};
use super::totals::{Totals, are_plain};
use super::{Attempt, Outcome, has_entries, rows_for};
use crate::engine::execute::access::Action;
use crate::engine::execute::locked::{Lock, lock_now, not_available};
use crate::engine::references::ReferenceMap;
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::load::{RowWriter, packs, updated_rows};
use crate::sql::{LockWait, RowLocking};
use nearfar_table::table::{RowId, Table};
use nearfar_table::transaction::{LockMode, NewRows, RowLock, Transaction};

/// What a statement does with rows that an index leads to.
#[derive(Debug)]
pub struct KeyedWork {
    verb: Verb,
    rows: KeyedRows,
    /// What has to be true of the rows beside their keys.
    conditions: RowValues,
    /// How rows of other tables are put to them.
    joins: Option<Joins>,
    /// What is asked for, or the rows' new values.
    values: Values,
    /// The columns that are asked for, where rows are read and nothing is computed of them.
    asked: Option<Vec<usize>>,
    /// The new values of columns that get others than they have, where not all do.
    changed: Option<ChangedColumns>,
    order: Option<Order>,
    limit: Option<Limit>,
    /// Whether the first rows of the index are the first ones that are asked for.
    are_first: bool,
    /// What is given back of rows that are changed.
    returning: Option<Returning>,
    /// What is done about rows of others, and how rows are locked, if they are and not changed.
    lock: Option<(LockWait, LockMode)>,
}

/// What is asked for.
#[derive(Debug)]
enum Values {
    /// Of each row.
    Each(RowValues),
    /// Of all of them.
    Totals(Totals),
}

impl Values {
    /// Whether rows keep the value of a column.
    fn keep(&self, column: usize) -> bool {
        matches!(self, Self::Each(values) if values.keep(column))
    }
}

/// Columns that get values, and these.
#[derive(Debug)]
struct ChangedColumns {
    columns: Vec<usize>,
    values: RowValues,
}

impl ChangedColumns {
    /// Those of `exprs`, one for each column, which are `values`. None where all columns get others.
    fn of(
        state: &SessionState,
        exprs: &[Expr],
        (values, schema): (&Values, &DFSchema),
    ) -> Option<Self> {
        let changed = (0..exprs.len()).filter(|column| !values.keep(*column));
        let columns: Vec<usize> = changed.collect();
        if columns.len() == exprs.len() {
            return None;
        }
        let changed = columns.iter().map(|column| &exprs[*column]);
        let values = RowValues::of(state, changed, schema)?;
        Some(Self { columns, values })
    }

    /// The rows at `places` with their new values. None where they are to be made column by column.
    fn rows(
        &self,
        session: &Session,
        (table, places): (&Arc<Table>, &Places),
        parameters: &[ScalarValue],
    ) -> Result<Option<NewRows>, EngineError> {
        if !packs(table, places.len()) {
            return Ok(None);
        }
        let Some((segment, rows)) = places.in_one_segment() else {
            return Ok(None);
        };
        let Some(read) = places.values(session, self.values.columns())? else {
            return Ok(None);
        };
        let values = self.values.evaluate((&read, rows.len()), parameters)?;
        let new: Vec<(usize, ArrayRef)> = self.columns.iter().copied().zip(values).collect();
        let updated = updated_rows(table, (segment, &rows), &new)?;
        if updated.is_some() {
            let is_read = |column: &usize| self.values.columns().contains(column);
            let others = (0..table.schema().fields().len()).filter(|at| !self.columns.contains(at));
            places.count(session, others.filter(|column| !is_read(column)));
        }
        Ok(updated)
    }
}

/// An order of rows.
#[derive(Debug)]
struct Order {
    by: RowValues,
    options: Vec<SortOptions>,
}

/// How many rows are asked for.
#[derive(Debug)]
enum Limit {
    /// What a parameter says, counted from 0.
    Parameter(usize),
    Constant(ScalarValue),
}

impl Limit {
    /// None where it is something else.
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Literal(value, _) => Some(Self::Constant(value.clone())),
            Expr::Placeholder(placeholder) => parameter_of(placeholder).map(Self::Parameter),
            Expr::Cast(cast) => match Self::of(&cast.expr)? {
                Self::Parameter(at) => Some(Self::Parameter(at)),
                Self::Constant(_) => None,
            },
            _ => None,
        }
    }

    /// The number of rows. None for what is no limit, or none that there can be.
    fn rows(&self, parameters: &[ScalarValue]) -> Option<usize> {
        let value = match self {
            Self::Parameter(at) => parameters.get(*at)?,
            Self::Constant(value) => value,
        };
        match value {
            ScalarValue::Int64(Some(rows)) => usize::try_from(*rows).ok(),
            ScalarValue::Int32(Some(rows)) => usize::try_from(*rows).ok(),
            ScalarValue::UInt64(Some(rows)) => usize::try_from(*rows).ok(),
            _ => None,
        }
    }
}

impl KeyedWork {
    /// The tables whose rows are read or changed, while they are there.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        let joined = self.joins.iter().flat_map(Joins::tables);
        self.rows.table.known().into_iter().chain(joined).collect()
    }

    /// Whether rows are locked that are not changed.
    pub fn locks_rows(&self) -> bool {
        self.lock.is_some()
    }

    /// Whether rows of several tables are put together.
    pub fn is_join(&self) -> bool {
        self.joins.is_some()
    }
}

impl Order {
    fn of(state: &SessionState, plan: &RowPlan<'_>, schema: &DFSchema) -> Option<Option<Self>> {
        if plan.order.is_empty() {
            return Some(None);
        }
        let by = RowValues::of(state, plan.order.iter().map(|sort| &sort.expr), schema)?;
        let options = plan.order.iter().map(options_of).collect();
        Some(Some(Self { by, options }))
    }

    /// The columns that rows are ordered by, if they are nothing but columns.
    fn columns(&self) -> Option<Vec<(usize, SortOptions)>> {
        let columns = self.by.plain_columns()?;
        Some(
            columns
                .into_iter()
                .zip(self.options.iter().copied())
                .collect(),
        )
    }
}

impl KeyedWork {
    /// What `plan` does, and whose rows are locked as `locking` says. None where it has to be planned each time.
    pub fn of(
        state: &SessionState,
        plan: &LogicalPlan,
        (parameters, returning): (&[ScalarValue], Option<Returning>),
        locking: Option<&RowLocking>,
    ) -> Option<Self> {
        let raw = RowPlan::of(plan)?;
        let order = raw.order.iter().map(|sort| &sort.expr);
        let mut all = raw.exprs.iter().chain(order).chain([raw.predicate]);
        if !all.all(is_plain) || !raw.totals.is_none_or(are_plain) {
            return None;
        }
        let lead = Lead::of(&raw)?;
        let typed = with_types(state, plan, parameters)?;
        let typed = RowPlan::of(&typed)?;
        let schema: &DFSchema = typed.input.schema();
        let (rows, conditions, joins, is_all) = match lead {
            Lead::Several(rows, order) => {
                let joined = JoinedWork::of(state, (rows, &order), &typed)?;
                (joined.rows, joined.conditions, Some(joined.joins), false)
            }
            Lead::One(rows, rest) => {
                let conditions = left(state, (&raw, &typed), &rest)?;
                (rows, conditions, None, rest.is_empty())
            }
        };
        let values = match typed.totals {
            Some(totals) => Values::Totals(Totals::of(state, totals, &typed.exprs, schema)?),
            None => Values::Each(RowValues::of(state, &typed.exprs, schema)?),
        };
        let asked = match &values {
            Values::Each(values) if raw.verb == Verb::Read => values.plain_columns(),
            _ => None,
        };
        let order = Order::of(state, &typed, schema)?;
        let limit = match raw.limit {
            Some(limit) => Some(Limit::of(limit)?),
            None => None,
        };
        let are_ordered = match &order {
            Some(order) => {
                let columns = order.columns();
                columns.is_some_and(|columns| rows.are_ordered_by(&columns))
            }
            None => true,
        };
        let are_first = limit.is_some() && is_all && are_ordered;
        // The rows that are locked are those that are given.
        let are_given = typed.totals.is_none() && (limit.is_none() || are_first);
        let is_locked_here = |locking: &RowLocking| {
            are_given && joins.is_none() && locking.of.is_empty() && locking.wait != LockWait::Skip
        };
        if !locking.is_none_or(is_locked_here) {
            return None;
        }
        let changed = match (raw.verb, &returning) {
            (Verb::Update, None) => ChangedColumns::of(state, &typed.exprs, (&values, schema)),
            _ => None,
        };
        Some(Self {
            verb: raw.verb,
            asked,
            changed,
            lock: locking.map(|locking| (locking.wait, locking.mode)),
            conditions,
            joins,
            are_first,
            rows,
            values,
            order,
            limit,
            returning,
        })
    }

    /// Whether rows are changed.
    pub fn changes_rows(&self) -> bool {
        self.verb != Verb::Read
    }

    /// The columns of what is given, named as in `shown`.
    pub fn schema(&self, shown: SchemaRef) -> Option<SchemaRef> {
        match (&self.values, &self.returning) {
            // Their types may be known only with the parameters'.
            (Values::Each(values), _) if self.verb == Verb::Read => values.schema_of(&shown),
            (Values::Totals(totals), _) => totals.schema_of(&shown),
            (_, Some(returning)) => Some(Arc::clone(returning.schema())),
            _ => Some(shown),
        }
    }

    /// Whether its table takes part in foreign keys.
    pub fn has_references(&self) -> bool {
        self.rows.table.has_references()
    }

    /// Whether it takes keys away that rows of other tables refer to.
    pub fn leads_others(&self, references: &ReferenceMap) -> bool {
        let Some(table) = self.rows.table.known() else {
            return false;
        };
        let children = references.children(table.id()).iter();
        let mut keys = children.flat_map(|child| &child.reference.parent_columns);
        match self.verb {
            Verb::Read => false,
            Verb::Delete => keys.next().is_some(),
            Verb::Update => !keys.all(|column| {
                let at = table.schema().index_of(column);
                at.is_ok_and(|at| self.values.keep(at))
            }),
        }
    }

    fn takes(&self, parameters: &[ScalarValue]) -> bool {
        let takes_values = match &self.values {
            Values::Each(values) => values.take(parameters),
            Values::Totals(totals) => totals.take(parameters),
        };
        let order = self.order.as_ref();
        takes_values
            && self.conditions.take(parameters)
            && self.joins.as_ref().is_none_or(|it| it.take(parameters))
            && order.is_none_or(|order| order.by.take(parameters))
            && self
                .returning
                .as_ref()
                .is_none_or(|asked| asked.takes(parameters))
    }

    /// Does it, with an outcome of the columns of `schema`.
    pub fn run(
        &self,
        session: &Session,
        transaction: &Transaction,
        parameters: &[ScalarValue],
        schema: &SchemaRef,
    ) -> Result<Attempt, EngineError> {
        let table = session.same_table(&self.rows.table);
        let Some(table) = table.filter(|_| self.takes(parameters)) else {
            return Ok(Attempt::Unknown);
        };
        let limit = match &self.limit {
            Some(limit) => match limit.rows(parameters) {
                Some(rows) => rows,
                None => return Ok(Attempt::Unknown),
            },
            None => usize::MAX,
        };
        let wanted = match self.are_first && limit <= ROWS_MAX {
            true => Wanted::First(limit),
            false => Wanted::All(ROWS_MAX),
        };
        let found = self.rows.find(transaction, &table, parameters, wanted)?;
        let Some(mut places) = found else {
            return Ok(Attempt::Unknown);
        };
        if let Some(joins) = &self.joins {
            let within = Within {
                session,
                transaction,
                parameters,
            };
            return match joins.rows(within, places, &self.conditions)? {
                Some(rows) => self.read(session, (rows, limit), parameters, schema),
                None => Ok(Attempt::Unknown),
            };
        }
        if self.changes_rows() && places.len() > 0 && !has_entries(&places.snapshot) {
            return Ok(Attempt::Unknown);
        }
        if !places.keep_passing(session, &self.conditions, parameters)? {
            return Ok(Attempt::Unknown);
        }
        if let Some((wait, mode)) = self.lock {
            transaction.check_writable(Action::LockRows.statement())?;
            let ids = places.ids();
            match lock_now(transaction, &table, (&ids, mode))? {
                Lock::Taken => {}
                Lock::Held if wait == LockWait::Fail => return Err(not_available(&table).into()),
                Lock::Held | Lock::Changed => return Ok(Attempt::Blocked(table, ids, mode)),
            }
        }
        if self.verb == Verb::Read {
            return self.read(session, (places, limit), parameters, schema);
        }
        let ids = places.ids();
        transaction.check_writable(self.verb.statement())?;
        if !matches!(
            transaction.lock(&table, &ids, LockMode::Exclusive)?,
            RowLock::Taken
        ) {
            return Ok(Attempt::Blocked(table, ids, LockMode::Exclusive));
        }
        let within = (transaction, &table);
        match self.verb {
            Verb::Update => self.update(session, within, (places, ids), parameters),
            Verb::Read | Verb::Delete => self.delete(session, within, (places, ids), parameters),
        }
    }

    fn read(
        &self,
        session: &Session,
        (mut places, limit): (impl FoundRows, usize),
        parameters: &[ScalarValue],
        schema: &SchemaRef,
    ) -> Result<Attempt, EngineError> {
        let columns = match &self.values {
            Values::Each(values) => values.columns(),
            Values::Totals(totals) => totals.columns(),
        };
        if self.order.is_none() && limit < places.len() {
            let first: Vec<usize> = (0..limit).collect();
            places.keep(&first);
        }
        let count = places.len();
        if let Some(asked) = &self.asked
            && count <= limit
            && (count <= 1 || self.order.is_none())
            && let Some(packed) = places.packed(session, asked, schema)
        {
            return Ok(Attempt::Done(Outcome::Rows(packed.into())));
        }
        if count == 0 && matches!(self.values, Values::Each(_)) {
            let none = RecordBatch::new_empty(Arc::clone(schema));
            return Ok(Attempt::Done(Outcome::Rows(none.into())));
        }
        let Some(columns) = places.values(session, columns)? else {
            return Ok(Attempt::Unknown);
        };
        let rows = (columns.as_slice(), count);
        let mut values = match &self.values {
            Values::Each(values) => values.evaluate(rows, parameters)?,
            Values::Totals(totals) => totals.of_rows(rows, parameters)?,
        };
        if let Some(order) = self.order.as_ref().filter(|_| count > 1) {
            let Some(columns) = places.values(session, order.by.columns())? else {
                return Ok(Attempt::Unknown);
            };
            let by = order.by.evaluate((&columns, count), parameters)?;
            values = ordered(&values, by, &order.options, limit)?;
        }
        let batch = RecordBatch::try_new(Arc::clone(schema), values)?;
        let batch = match batch.num_rows() > limit {
            true => batch.slice(0, limit),
            false => batch,
        };
        Ok(Attempt::Done(Outcome::Rows(batch.into())))
    }

    fn update(
        &self,
        session: &Session,
        (transaction, table): (&Transaction, &Arc<Table>),
        (places, ids): (Places, Vec<RowId>),
        parameters: &[ScalarValue],
    ) -> Result<Attempt, EngineError> {
        let Values::Each(values) = &self.values else {
            return Ok(Attempt::Unknown);
        };
        if ids.is_empty() {
            return self.of_none();
        }
        if let Some(changed) = &self.changed
            && let Some(rows) = changed.rows(session, (table, &places), parameters)?
        {
            let outcome = Outcome::Changed("UPDATE", ids.len() as u64);
            transaction.replace(table, ids, rows)?;
            return Ok(Attempt::Done(outcome));
        }
        let Some(columns) = places.values(session, values.columns())? else {
            return Ok(Attempt::Unknown);
        };
        let values = values.evaluate((&columns, ids.len()), parameters)?;
        let asked = self.returning.as_ref();
        let writer = RowWriter::new(Arc::clone(table), session.engine().storage());
        let mut writer = writer.keeping(asked.is_some());
        writer.push(rows_for(table, values)?)?;
        let kept = writer.take_kept();
        let (rows, count) = writer.finish()?;
        let outcome = match asked {
            Some(asked) => Outcome::Returned("UPDATE", asked.of_rows(&kept, parameters)?),
            None => Outcome::Changed("UPDATE", count),
        };
        transaction.replace(table, ids, rows)?;
        Ok(Attempt::Done(outcome))
    }

    fn delete(
        &self,
        session: &Session,
        (transaction, table): (&Transaction, &Arc<Table>),
        (places, ids): (Places, Vec<RowId>),
        parameters: &[ScalarValue],
    ) -> Result<Attempt, EngineError> {
        if ids.is_empty() {
            return self.of_none();
        }
        let outcome = match &self.returning {
            Some(asked) => {
                let Some(columns) = places.values(session, asked.columns())? else {
                    return Ok(Attempt::Unknown);
                };
                let returned = asked.of_columns((&columns, ids.len()), parameters)?;
                Outcome::Returned("DELETE", returned)
            }
            None => Outcome::Changed("DELETE", ids.len() as u64),
        };
        transaction.delete(table, ids)?;
        Ok(Attempt::Done(outcome))
    }

    /// What a statement has done that has found no row to change.
    fn of_none(&self) -> Result<Attempt, EngineError> {
        let command = self.verb.statement();
        Ok(Attempt::Done(match &self.returning {
            Some(asked) => Outcome::Returned(command, asked.of_rows(&[], &[])?),
            None => Outcome::Changed(command, 0),
        }))
    }
}

/// How indexes lead to the rows of a plan.
enum Lead<'a> {
    /// To those of one table, and the conditions that are left to be looked at.
    One(KeyedRows, Vec<usize>),
    /// To those of several that are joined, in this order.
    Several(KeyedRows, TableOrder<'a>),
}

impl<'a> Lead<'a> {
    /// None where they don't.
    fn of(plan: &RowPlan<'a>) -> Option<Self> {
        match plan.input {
            LogicalPlan::Join(_) => {
                let (rows, order) = TableOrder::of(plan)?;
                Some(Self::Several(rows, order))
            }
            _ => {
                let (rows, rest) = KeyedRows::of(plan.predicate, plan.input)?;
                Some(Self::One(rows, rest))
            }
        }
    }
}

/// Those of the conditions of a plan of one table that are left to be looked at, by their places.
fn left(
    state: &SessionState,
    (raw, typed): (&RowPlan<'_>, &RowPlan<'_>),
    rest: &[usize],
) -> Option<RowValues> {
    let conditions = split_conjunction(typed.predicate);
    if conditions.len() != split_conjunction(raw.predicate).len() {
        return None;
    }
    // Constants decide before anything is computed of the rows.
    let (varying, constant): (Vec<&Expr>, Vec<_>) = rest
        .iter()
        .map(|at| conditions[*at])
        .partition(|expr| expr.any_column_refs());
    let conditions = constant.into_iter().chain(varying);
    RowValues::of(state, conditions, typed.input.schema())
}

/// The first `limit` of rows in the order of the values in `by`.
fn ordered(
    values: &[ArrayRef],
    by: Vec<ArrayRef>,
    options: &[SortOptions],
    limit: usize,
) -> Result<Vec<ArrayRef>, EngineError> {
    let by = by
        .into_iter()
        .zip(options)
        .map(|(values, options)| SortColumn {
            values,
            options: Some(*options),
        });
    let order = lexsort_to_indices(&by.collect::<Vec<_>>(), Some(limit))?;
    let values = values.iter().map(|values| take(values, &order, None));
    Ok(values.collect::<Result<_, _>>()?)
}
