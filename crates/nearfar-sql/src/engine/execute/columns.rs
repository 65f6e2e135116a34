//! `ALTER TABLE` of columns and names.
//!
//! Each clause gives the table another definition, within a transaction: the one that is open, or one of the statement's own.
//! Columns that stay share their values with those before; where values are computed anew, all rows are written again.

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::TableReference;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use futures::StreamExt;
use std::sync::Arc;

use super::create::declared_columns;
use super::define::Redefinition;
use super::index::is_taken;
use super::sequence::numbered_columns;
use super::transaction::within;
use crate::engine::defaults::{check_default, differs_by_row};
use crate::engine::definitions::{Slot, owned_by};
use crate::engine::references::quoted;
use crate::engine::sequences::SequenceTable;
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::sql::{
    ColumnChange, CreateClauses, NumberedColumn, SqlError, Statement, StatementKind, names_column,
    with_renamed_column,
};
use nearfar_table::sequence::SequenceType;
use nearfar_table::table::{ColumnSource, IndexRole, Table, TableRules};
use nearfar_table::transaction::Transaction;

/// Under this name a statement of our own reads the rows of a table that are written again.
const BEFORE: &str = "rows before ALTER TABLE";

impl Session {
    /// Does one thing to the columns of a table, or to its name. Its name from then on.
    pub(super) async fn alter_column(
        &self,
        name: &TableReference,
        change: &ColumnChange,
    ) -> Result<TableReference, EngineError> {
        let table = self.memory_table(name).await?;
        match change {
            ColumnChange::Add {
                column,
                if_not_exists,
                definition,
            } => match table.schema().index_of(column) {
                Ok(_) if *if_not_exists => {}
                Ok(_) => {
                    return Err(SqlError::ColumnExists {
                        table: table.name().to_owned(),
                        column: column.clone(),
                    }
                    .into());
                }
                Err(_) => self.add_column(name, &table, definition).await?,
            },
            ColumnChange::Drop {
                column,
                if_exists,
                is_cascade,
            } => match table.schema().index_of(column) {
                Ok(at) => self.drop_column(&table, at, *is_cascade).await?,
                Err(_) if *if_exists => {}
                Err(_) => return Err(unknown(&table, column).into()),
            },
            ColumnChange::Rename { column, to } => {
                self.rename_column(&table, (column, to)).await?;
            }
            ColumnChange::Nullable {
                column,
                is_nullable,
            } => {
                self.set_nullable(name, &table, (column, *is_nullable))
                    .await?
            }
            ColumnChange::Type {
                column,
                data_type,
                definition,
                using,
            } => {
                let given = (definition.as_ref(), data_type.as_str(), using.as_deref());
                self.set_type(name, &table, column, given).await?;
            }
            ColumnChange::Number(numbered) => self.number_column(name, &table, numbered).await?,
            ColumnChange::RenameTable { to } => return self.rename_table(name, &table, to).await,
            ColumnChange::RenameConstraint { constraint, to } => {
                if !self.rename_key(&table, name, (constraint, to)).await? {
                    self.rename_constraint(&table, (constraint, to)).await?;
                }
            }
        }
        Ok(name.clone())
    }

    /// The one column that a statement declares, and what else it says of it.
    async fn declared_column<'a>(
        &self,
        statement: &'a Statement,
    ) -> Result<(FieldRef, &'a CreateClauses), EngineError> {
        let StatementKind::DataFusion {
            statement, create, ..
        } = statement.kind()
        else {
            return Err(no_column());
        };
        let transaction = self.current_transaction()?;
        let state = within(&transaction, self.context().state());
        let plan = super::plan(&state, statement).await?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(cmd)) = plan else {
            return Err(no_column());
        };
        let columns = declared_columns(&cmd, create)?;
        let field = columns.fields().first().ok_or_else(no_column)?;
        Ok((Arc::clone(field), create))
    }

    async fn add_column(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        statement: &Statement,
    ) -> Result<(), EngineError> {
        let (field, clauses) = self.declared_column(statement).await?;
        let mut rules = table.rules().as_ref().clone();
        let state = self.context().state();
        for (column, sql) in &clauses.defaults {
            check_default(&state, &field, sql).await?;
            rules.defaults.insert(column.clone(), sql.clone());
        }
        let slot = self.slot_of(name, table)?;
        for new in numbered_columns(table, &slot, &clauses.numbered, &mut rules)? {
            let sequence = Arc::new(SequenceTable::new(new.sequence));
            slot.schema.replace(new.name, sequence);
        }
        let default = rules.defaults.get(field.name()).cloned();
        let differs = match &default {
            Some(sql) => differs_by_row(&state, sql).await?,
            None => false,
        };
        let fields = table.schema().fields().iter().cloned();
        let schema = Schema::new(fields.chain([Arc::clone(&field)]).collect::<Vec<_>>());
        let mut sources = kept(table);
        let after = if differs {
            sources.push(ColumnSource::Filled(new_null_array(field.data_type(), 1)));
            let names = names_of(table.schema());
            let written = (names.clone(), names);
            self.rewrite(name, table, (&schema, &sources, rules), written)
                .await?
        } else {
            let value = self.constant(&field, default.as_deref()).await?;
            let rows = self.current_transaction()?.snapshot(table)?.rows();
            if value.is_null(0) && !field.is_nullable() && rows > 0 {
                return Err(SqlError::NullsNotAllowed {
                    table: Box::new(table.full_name()),
                    column: field.name().clone(),
                    nulls: rows,
                }
                .into());
            }
            sources.push(ColumnSource::Filled(value));
            let given = redefinition(table.name(), (&schema, &sources, rules));
            self.redefine(table, given).await?
        };
        self.constrain_column(name, after, clauses).await
    }

    /// Has a column take its values from a sequence of its own.
    async fn number_column(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        numbered: &NumberedColumn,
    ) -> Result<(), EngineError> {
        let column = &numbered.column;
        let field = table.schema().field(column_at(table, column)?).clone();
        let refused = |why: &str| {
            let what = format!("column \"{column}\" of table \"{}\" {why}", table.name());
            EngineError::from(SqlError::SequenceOption { what })
        };
        let mut rules = table.rules().as_ref().clone();
        if rules.defaults.contains_key(column) {
            return Err(refused("has a default or is an identity already"));
        }
        if field.is_nullable() {
            return Err(refused(
                "must be declared NOT NULL before identity can be added",
            ));
        }
        let data_type = match field.data_type() {
            DataType::Int16 => SequenceType::SmallInt,
            DataType::Int32 => SequenceType::Integer,
            DataType::Int64 => SequenceType::BigInt,
            _ => return Err(refused("must be smallint, integer, or bigint")),
        };
        let numbered = NumberedColumn {
            options: numbered.options.clone().of_type(data_type),
            ..numbered.clone()
        };
        let slot = self.slot_of(name, table)?;
        for new in numbered_columns(table, &slot, &[numbered], &mut rules)? {
            let sequence = Arc::new(SequenceTable::new(new.sequence));
            slot.schema.replace(new.name, sequence);
        }
        let sources = kept(table);
        let given = redefinition(table.name(), (table.schema(), &sources, rules));
        self.redefine(table, given).await?;
        Ok(())
    }

    /// Adds keys and constraints that are declared with a column.
    async fn constrain_column(
        &self,
        name: &TableReference,
        mut table: Arc<Table>,
        clauses: &CreateClauses,
    ) -> Result<(), EngineError> {
        if !clauses.keys.is_empty() {
            let map = self.slot_of(name, &table)?.schema;
            self.add_keys(table, map, clauses.keys.clone()).await?;
            table = self.memory_table(name).await?;
        }
        for clause in &clauses.constraints {
            self.add_constraint(name, &table, clause).await?;
            table = self.memory_table(name).await?;
        }
        Ok(())
    }

    /// The value that all rows get of a default, which is the same for all of them.
    async fn constant(
        &self,
        field: &Field,
        default: Option<&str>,
    ) -> Result<ArrayRef, EngineError> {
        let Some(sql) = default else {
            return Ok(new_null_array(field.data_type(), 1));
        };
        let transaction = self.current_transaction()?;
        let query = format!("SELECT {sql}");
        let mut rows = self.own_query(&transaction, &query, Vec::new()).await?;
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                let value = batch.column(0).slice(0, 1);
                return Ok(cast_with_options(&value, field.data_type(), &strict)?);
            }
        }
        Err(no_column())
    }

    async fn drop_column(
        &self,
        table: &Arc<Table>,
        at: usize,
        is_cascade: bool,
    ) -> Result<(), EngineError> {
        let column = table.schema().field(at).name().clone();
        if table.schema().fields().len() == 1 {
            let what = format!(
                "DROP COLUMN {column}, the only one of table `{}`",
                table.name()
            );
            return Err(SqlError::unsupported(what, "use DROP TABLE").into());
        }
        self.drop_references_to_column(table, &column, is_cascade)
            .await?;
        let table = &self.same_or_newer(table)?;
        let mut rules = table.rules().as_ref().clone();
        rules.defaults.remove(&column);
        rules.identities.remove(&column);
        let own = table.id();
        rules.references.retain(|it| {
            let leads_to_it = it.parent == own && it.parent_columns.contains(&column);
            !leads_to_it && !it.columns.contains(&column)
        });
        let mut checks = Vec::new();
        for check in rules.checks {
            if !names_column(&check.sql, &column)? {
                checks.push(check);
            }
        }
        rules.checks = checks;
        let mut sources = kept(table);
        sources.remove(at);
        let fields = table.schema().fields().iter().enumerate();
        let fields = fields.filter(|(other, _)| *other != at);
        let schema = Schema::new(
            fields
                .map(|(_, field)| Arc::clone(field))
                .collect::<Vec<_>>(),
        );
        let given = redefinition(table.name(), (&schema, &sources, rules));
        let after = self.redefine(table, given).await?;
        let maps = self.permanent().all().into_iter().map(|(_, map)| map);
        for map in maps.chain([self.temporary()]) {
            for (name, _, of) in owned_by(&map, after.id()) {
                if of == column {
                    map.remove(&name);
                }
            }
        }
        Ok(())
    }

    /// Drops foreign keys of other tables that lead to a column which goes, or refuses that.
    async fn drop_references_to_column(
        &self,
        table: &Arc<Table>,
        column: &String,
        is_cascade: bool,
    ) -> Result<(), EngineError> {
        let references = self.references();
        for child in references.children(table.id()) {
            if !child.reference.parent_columns.contains(column) || child.table == table.id() {
                continue;
            }
            if !is_cascade {
                return Err(SqlError::ReferredTo {
                    what: format!("column \"{column}\" of table \"{}\"", table.name()),
                    constraint: child.reference.name.clone(),
                    table: references.name_of(child.table),
                }
                .into());
            }
            if let Some((_, other)) = references.table(child.table) {
                self.drop_constraint(&other, &child.reference.name).await?;
            }
        }
        Ok(())
    }

    async fn rename_column(
        &self,
        table: &Arc<Table>,
        (from, to): (&str, &str),
    ) -> Result<(), EngineError> {
        let at = column_at(table, from)?;
        if table.schema().index_of(to).is_ok() {
            return Err(SqlError::ColumnExists {
                table: table.name().to_owned(),
                column: to.to_owned(),
            }
            .into());
        }
        let renamed = |name: &mut String| {
            if name == from {
                to.clone_into(name);
            }
        };
        let references = self.references();
        for child in references.children(table.id()) {
            let Some((_, other)) = references.table(child.table) else {
                continue;
            };
            if other.id() != table.id()
                && child.reference.parent_columns.iter().any(|it| it == from)
            {
                let (name, from, to) =
                    (child.reference.name.clone(), from.to_owned(), to.to_owned());
                self.change_rules(&self.same_or_newer(&other)?, move |rules| {
                    let mut all = rules.references.iter_mut();
                    if let Some(reference) = all.find(|it| it.name == name) {
                        let mut columns = reference.parent_columns.iter_mut();
                        columns
                            .by_ref()
                            .filter(|it| **it == from)
                            .for_each(|it| it.clone_from(&to));
                    }
                })
                .await?;
            }
        }
        let mut rules = table.rules().as_ref().clone();
        rules.rename_column(from, to);
        for reference in &mut rules.references {
            if reference.parent == table.id() {
                reference.parent_columns.iter_mut().for_each(renamed);
            }
        }
        for check in &mut rules.checks {
            if names_column(&check.sql, from)? {
                check.sql = with_renamed_column(&check.sql, from, to)?;
            }
        }
        let fields = table.schema().fields().iter().enumerate();
        let fields = fields.map(|(other, field)| match other == at {
            true => Arc::new(field.as_ref().clone().with_name(to)),
            false => Arc::clone(field),
        });
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let table = &self.same_or_newer(table)?;
        let sources = kept(table);
        let given = redefinition(table.name(), (&schema, &sources, rules));
        self.redefine(table, given).await?;
        self.rename_owner(table, (from, to));
        Ok(())
    }

    async fn set_nullable(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        (column, is_nullable): (&str, bool),
    ) -> Result<(), EngineError> {
        let at = column_at(table, column)?;
        let transaction = self.current_transaction()?;
        if is_nullable {
            let snapshot = transaction.snapshot(table)?;
            let mut keys = snapshot.indexes().iter().map(|index| index.definition());
            let is_key = keys.any(|key| {
                let mut columns = key.columns.iter();
                key.role == IndexRole::PrimaryKey && columns.any(|of| of.column == at)
            });
            if is_key {
                let what = format!("DROP NOT NULL of column `{column}`, which is in a primary key");
                return Err(SqlError::unsupported(what, "drop the key first").into());
            }
        } else {
            let query = format!(
                "SELECT count(*) FROM {} WHERE {} IS NULL",
                shown(name),
                quoted(column)
            );
            let nulls = self.count(&transaction, &query).await?;
            if nulls > 0 {
                return Err(SqlError::NullsNotAllowed {
                    table: Box::new(table.full_name()),
                    column: column.to_owned(),
                    nulls,
                }
                .into());
            }
        }
        let schema = with_field(table, at, |field| field.with_nullable(is_nullable));
        let (sources, rules) = (kept(table), table.rules().as_ref().clone());
        let given = redefinition(table.name(), (&schema, &sources, rules));
        self.redefine(table, given).await?;
        Ok(())
    }

    async fn set_type(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        column: &str,
        (definition, data_type, using): (&Statement, &str, Option<&str>),
    ) -> Result<(), EngineError> {
        let at = column_at(table, column)?;
        let (declared, _) = self.declared_column(definition).await?;
        self.check_no_reference(table, column)?;
        let nullable = table.schema().field(at).is_nullable();
        let field = declared.as_ref().clone().with_nullable(nullable);
        let schema = with_field(table, at, |_| field.clone());
        let rules = table.rules().as_ref().clone();
        if let Some(default) = rules.defaults.get(column) {
            check_default(&self.context().state(), &field, default).await?;
        }
        let names = names_of(table.schema());
        let mut values = names.clone();
        values[at] = match using {
            Some(value) => format!("({value})"),
            // What a text is cut to by a cast, an assignment refuses.
            None if field.data_type().is_string() => format!("CAST({} AS text)", names[at]),
            None => format!("CAST({} AS {data_type})", names[at]),
        };
        let sources = kept(table);
        self.rewrite(name, table, (&schema, &sources, rules), (names, values))
            .await?;
        Ok(())
    }

    /// Refuses another type for a column of a foreign key, or that one leads to.
    fn check_no_reference(&self, table: &Table, column: &str) -> Result<(), EngineError> {
        let references = self.references();
        let of = |columns: &[String]| columns.iter().any(|it| it == column);
        let rules = table.rules();
        let mut own = rules.references.iter().filter(|it| of(&it.columns));
        let others = references.children(table.id()).iter();
        let mut others = others.filter(|child| of(&child.reference.parent_columns));
        let found = own
            .next()
            .map(|reference| (reference.name.clone(), table.name().to_owned()));
        let found = found.or_else(|| {
            let child = others.next()?;
            Some((
                child.reference.name.clone(),
                references.name_of(child.table),
            ))
        });
        match found {
            Some((constraint, of)) => {
                let what = format!(
                    "another type of column `{column}`, which foreign key \"{constraint}\" of table `{of}` has"
                );
                Err(SqlError::unsupported(what, "drop the foreign key first").into())
            }
            None => Ok(()),
        }
    }

    async fn rename_table(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        to: &str,
    ) -> Result<TableReference, EngineError> {
        let slot = self.slot_of(name, table)?;
        if is_taken(&slot.schema, to) {
            return Err(SqlError::TableExists {
                table: to.to_owned(),
            }
            .into());
        }
        if let Some(view) = slot
            .schema
            .get(&slot.name)
            .map(|it| self.view_of(&it))
            .transpose()?
            .flatten()
        {
            return Err(SqlError::InUse {
                table: table.name().to_owned(),
                view,
            }
            .into());
        }
        let (sources, rules) = (kept(table), table.rules().as_ref().clone());
        let schema = table.schema().as_ref().clone();
        let given = redefinition(to, (&schema, &sources, rules));
        self.redefine(table, given).await?;
        Ok(match name {
            TableReference::Bare { .. } => TableReference::bare(to),
            TableReference::Partial { schema, .. } => TableReference::partial(schema.as_ref(), to),
            TableReference::Full {
                catalog, schema, ..
            } => TableReference::full(catalog.as_ref(), schema.as_ref(), to),
        })
    }

    async fn rename_constraint(
        &self,
        table: &Arc<Table>,
        (from, to): (&str, &str),
    ) -> Result<(), EngineError> {
        let rules = table.rules();
        let snapshot = table.snapshot();
        let mut keys = snapshot.indexes().iter();
        let is_key = keys.any(|index| {
            let definition = index.definition();
            definition.role.is_constraint() && definition.name == to
        });
        if is_key || has_constraint(&rules, to) {
            return Err(SqlError::ConstraintExists {
                constraint: to.to_owned(),
                table: table.name().to_owned(),
            }
            .into());
        }
        let mut changed = rules.as_ref().clone();
        let checks = changed.checks.iter_mut().map(|check| &mut check.name);
        let references = changed.references.iter_mut().map(|it| &mut it.name);
        match checks.chain(references).find(|name| *name == from) {
            Some(name) => to.clone_into(name),
            None => {
                return Err(SqlError::UnknownConstraint {
                    constraint: from.to_owned(),
                    table: table.name().to_owned(),
                }
                .into());
            }
        }
        self.change_rules(table, move |rules| *rules = changed)
            .await
    }

    /// Writes the rows of a table again, as those of another definition: the columns `names` with `values` of the rows
    /// before, others with their defaults.
    async fn rewrite(
        &self,
        name: &TableReference,
        table: &Arc<Table>,
        (schema, sources, rules): (&Schema, &[ColumnSource], TableRules),
        (names, values): (Vec<String>, Vec<String>),
    ) -> Result<Arc<Table>, EngineError> {
        let transaction = self.current_transaction()?;
        let rows = transaction.snapshot(table)?;
        let before = table.of_rows(BEFORE, &rows);
        let given = Redefinition {
            is_emptied: true,
            ..redefinition(table.name(), (schema, sources, rules))
        };
        let after = self.redefine(table, given).await?;
        let provider = self.engine().provider_of(Arc::new(before));
        let temporary = self.temporary();
        temporary.replace(BEFORE.to_owned(), provider);
        let sql = format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}",
            shown(name),
            names.join(", "),
            values.join(", "),
            quoted(BEFORE),
        );
        let written = Box::pin(self.own_insert(&transaction, &sql)).await;
        temporary.remove(BEFORE);
        written?;
        Ok(after)
    }

    async fn count(
        &self,
        transaction: &Arc<Transaction>,
        query: &str,
    ) -> Result<usize, EngineError> {
        use arrow::array::AsArray;
        use arrow::datatypes::Int64Type;
        let mut rows = self.own_query(transaction, query, Vec::new()).await?;
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let counts = batch.column(0).as_primitive::<Int64Type>();
            count += counts.iter().flatten().sum::<i64>();
        }
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Where a table is.
    fn slot_of(&self, name: &TableReference, table: &Table) -> Result<Slot, EngineError> {
        self.slot(name, table.temporary().is_some(), false)
    }

    /// The definition that the open transaction has of a table by now.
    fn same_or_newer(&self, table: &Arc<Table>) -> Result<Arc<Table>, EngineError> {
        let references = self.references();
        let known = references.table(table.id()).map(|(_, known)| known);
        Ok(known.unwrap_or_else(|| Arc::clone(table)))
    }
}

/// A definition with the rows of the one before.
fn redefinition<'a>(
    name: &'a str,
    (schema, sources, rules): (&'a Schema, &'a [ColumnSource], TableRules),
) -> Redefinition<'a> {
    Redefinition {
        name,
        schema,
        sources,
        rules,
        is_emptied: false,
    }
}

/// All columns of a table, as they are.
fn kept(table: &Table) -> Vec<ColumnSource> {
    let columns = 0..table.schema().fields().len();
    columns.map(ColumnSource::Kept).collect()
}

fn with_field(table: &Table, at: usize, change: impl Fn(Field) -> Field) -> Schema {
    let fields = table.schema().fields().iter().enumerate();
    let fields = fields.map(|(other, field)| match other == at {
        true => Arc::new(change(field.as_ref().clone())),
        false => Arc::clone(field),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

fn names_of(schema: &Schema) -> Vec<String> {
    let fields = schema.fields().iter();
    fields.map(|field| quoted(field.name())).collect()
}

fn column_at(table: &Table, column: &str) -> Result<usize, SqlError> {
    let at = table.schema().index_of(column);
    at.map_err(|_| unknown(table, column))
}

fn unknown(table: &Table, column: &str) -> SqlError {
    let fields = table.schema().fields().iter();
    SqlError::UnknownColumn {
        table: table.name().to_owned(),
        column: column.to_owned(),
        known: fields.map(|field| field.name().clone()).collect(),
    }
}

fn no_column() -> EngineError {
    EngineError::Internal {
        message: "ALTER TABLE declares no column".to_owned(),
    }
}

/// A name as statements of our own write it.
fn shown(name: &TableReference) -> String {
    let parts = [name.catalog(), name.schema(), Some(name.table())];
    let parts = parts.into_iter().flatten().map(quoted);
    parts.collect::<Vec<_>>().join(".")
}

/// Whether a condition or a foreign key has a name.
pub(super) fn has_constraint(rules: &TableRules, name: &str) -> bool {
    let mut checks = rules.checks.iter().map(|check| &check.name);
    let mut references = rules.references.iter().map(|it| &it.name);
    checks.any(|known| known == name) || references.any(|known| known == name)
}
