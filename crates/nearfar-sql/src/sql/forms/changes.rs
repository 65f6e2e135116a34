//! Clauses of statements that change rows for which the planner has no words, as queries for what they say.
//!
//! | clause | becomes |
//! |---|---|
//! | `RETURNING a, b + 1` | `SELECT a, b + 1 FROM t`, of the rows that were changed |
//! | `UPDATE t SET a = u.a FROM u WHERE …` | `SELECT u.a AS a FROM t, u WHERE …` |
//! | `DELETE FROM t USING u WHERE …` | `SELECT NULL FROM t, u WHERE …` |
//! | `ON CONFLICT (k) DO UPDATE SET a = excluded.a WHERE …` | `SELECT excluded.a AS a FROM t, t AS excluded WHERE …` |

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, Expr, FromTable, Ident, Insert,
    ObjectName, OnConflict, OnConflictAction, OnInsert, Select, SelectItem, SetExpr,
    Statement as Ast, TableAlias, TableFactor, TableObject, TableWithJoins, Update,
    UpdateTableFromKind, Value,
};

use super::Names;
use super::folding::folded;
use super::names::number;
use super::template::{parse, parse_statement};
use crate::sql::SqlError;

/// A statement that changes rows, in parts that the planner takes.
#[derive(Debug)]
pub(crate) struct ChangeForms {
    /// What changes rows.
    pub base: BaseForm,
    /// What is done where a row is in the way of one that is added.
    pub conflict: Option<ConflictForm>,
    /// The query for what it gives back, from the table and those beside it.
    pub returning: Option<DfStatement>,
}

/// What is done where a row is in the way of one that is added.
#[derive(Debug)]
pub(crate) struct ConflictForm {
    /// Whose keys are looked at.
    pub target: KeyTarget,
    /// How the row in the way is changed, if it is.
    pub update: Option<ConflictUpdate>,
}

/// How a row is changed that is in the way.
#[derive(Debug)]
pub(crate) struct ConflictUpdate {
    /// The columns that get values.
    pub assigned: Vec<String>,
    /// The query for these values, from the table and the rows that were to be added.
    pub rows: DfStatement,
}

/// The keys of which two rows may not have one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum KeyTarget {
    /// All of the table's.
    All,
    /// Those of these columns.
    Columns(Vec<String>),
    /// That of this constraint.
    Constraint(String),
}

/// A statement without its other clauses.
#[derive(Debug)]
pub(crate) enum BaseForm {
    /// The planner takes it as it is.
    Whole(DfStatement),
    /// It looks at other tables too.
    Joined(Box<JoinedForm>),
}

/// An `UPDATE` or `DELETE` that looks at other tables.
#[derive(Debug)]
pub(crate) struct JoinedForm {
    /// A statement that does the same to the table alone, and is not carried out.
    pub of_table: DfStatement,
    /// The columns that get values; none of a `DELETE`.
    pub assigned: Option<Vec<String>>,
    /// The query for these values, whose first table is the one that is changed.
    pub rows: DfStatement,
}

/// The parts of a statement that has such clauses. None for all others.
///
/// # Errors
/// A form that is known not to be supported.
pub(crate) fn change_forms(ast: &Ast) -> Result<Option<ChangeForms>, SqlError> {
    match ast {
        Ast::Insert(insert) => of_insert(insert),
        Ast::Update(update) => of_update(update),
        Ast::Delete(delete) => of_delete(delete),
        _ => Ok(None),
    }
}

fn of_insert(insert: &Insert) -> Result<Option<ChangeForms>, SqlError> {
    let TableObject::TableName(name) = &insert.table else {
        return Ok(None);
    };
    let conflict = match &insert.on {
        Some(OnInsert::OnConflict(conflict)) => Some(conflict),
        Some(_) => return Ok(None),
        None => None,
    };
    if insert.returning.is_none() && insert.table_alias.is_none() && conflict.is_none() {
        return Ok(None);
    }
    let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
    let table = table(name, alias)?;
    let conflict = conflict.map(|conflict| of_conflict(conflict, (name, &table)));
    let whole = Insert {
        on: None,
        returning: None,
        table_alias: None,
        ..insert.clone()
    };
    Ok(Some(ChangeForms {
        base: BaseForm::Whole(statement(Ast::Insert(whole))),
        conflict: conflict.transpose()?,
        returning: returning(insert.returning.as_ref(), &[table])?,
    }))
}

fn of_conflict(
    conflict: &OnConflict,
    (name, own): (&ObjectName, &TableWithJoins),
) -> Result<ConflictForm, SqlError> {
    let target = match &conflict.conflict_target {
        None => KeyTarget::All,
        Some(ConflictTarget::Columns(columns)) => {
            KeyTarget::Columns(columns.iter().map(folded).collect())
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let last = name.0.last().and_then(|part| part.as_ident());
            KeyTarget::Constraint(last.map(folded).unwrap_or_default())
        }
    };
    let update = match &conflict.action {
        OnConflictAction::DoNothing => None,
        OnConflictAction::DoUpdate(_) if target == KeyTarget::All => {
            let message =
                "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(SqlError::Syntax {
                message: message.to_owned(),
            });
        }
        OnConflictAction::DoUpdate(update) => {
            let (assigned, values) = assigned(&update.assignments)?;
            let from = vec![own.clone(), table(name, Some(&Ident::new("excluded")))?];
            let rows = select(values, from, update.selection.clone())?;
            Some(ConflictUpdate { assigned, rows })
        }
    };
    Ok(ConflictForm { target, update })
}

fn of_update(update: &Update) -> Result<Option<ChangeForms>, SqlError> {
    let others = match &update.from {
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
            &from[..]
        }
        None => &[],
    };
    let is_tuple =
        |assignment: &Assignment| matches!(assignment.target, AssignmentTarget::Tuple(_));
    let has_tuples = update.assignments.iter().any(is_tuple);
    if others.is_empty() && update.returning.is_none() && !has_tuples {
        return Ok(None);
    }
    let from = joined(&update.table, others);
    let returning = returning(update.returning.as_ref(), &from)?;
    let base = match others.is_empty() && !has_tuples {
        true => BaseForm::Whole(statement(Ast::Update(Update {
            returning: None,
            ..update.clone()
        }))),
        false => {
            let (assigned, values) = assigned(&update.assignments)?;
            BaseForm::Joined(Box::new(JoinedForm {
                of_table: delete_all(&update.table)?,
                assigned: Some(assigned),
                rows: select(values, from, update.selection.clone())?,
            }))
        }
    };
    Ok(Some(ChangeForms {
        base,
        conflict: None,
        returning,
    }))
}

fn of_delete(delete: &Delete) -> Result<Option<ChangeForms>, SqlError> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [table] = &from[..] else {
        return Ok(None);
    };
    let others = delete.using.as_deref().unwrap_or_default();
    let has_alias = matches!(&table.relation, TableFactor::Table { alias: Some(_), .. });
    let is_joined = !others.is_empty() || has_alias;
    if !is_joined && delete.returning.is_none() {
        return Ok(None);
    }
    let from = joined(table, others);
    let returning = returning(delete.returning.as_ref(), &from)?;
    let base = match is_joined {
        false => BaseForm::Whole(statement(Ast::Delete(Delete {
            returning: None,
            ..delete.clone()
        }))),
        true => {
            let nothing = SelectItem::UnnamedExpr(Expr::value(Value::Null));
            BaseForm::Joined(Box::new(JoinedForm {
                of_table: delete_all(table)?,
                assigned: None,
                rows: select(vec![nothing], from, delete.selection.clone())?,
            }))
        }
    };
    Ok(Some(ChangeForms {
        base,
        conflict: None,
        returning,
    }))
}

/// The columns that are assigned to, and their values under their names.
fn assigned(assignments: &[Assignment]) -> Result<(Vec<String>, Vec<SelectItem>), SqlError> {
    let mut columns = Vec::new();
    let mut values = Vec::new();
    let mut add = |name: &ObjectName, value: &Expr| {
        let column = name.0.last().and_then(|part| part.as_ident());
        let column = column.map(|ident| ident.value.clone()).unwrap_or_default();
        if columns.contains(&column) {
            return Err(SqlError::AssignedTwice { column });
        }
        values.push(SelectItem::ExprWithAlias {
            expr: value.clone(),
            alias: Ident::with_quote('"', column.clone()),
        });
        columns.push(column);
        Ok(())
    };
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => add(name, value)?,
            (AssignmentTarget::Tuple(names), Expr::Tuple(values))
                if names.len() == values.len() =>
            {
                let mut pairs = names.iter().zip(values);
                pairs.try_for_each(|(name, value)| add(name, value))?;
            }
            (AssignmentTarget::Tuple(_), Expr::Tuple(_)) => {
                let message = "number of columns does not match number of values".to_owned();
                return Err(SqlError::Syntax { message });
            }
            (AssignmentTarget::Tuple(_), _) => {
                return Err(SqlError::unsupported(
                    "SET (a, b) = of a query",
                    "give each column a query of its own",
                ));
            }
        }
    }
    Ok((columns, values))
}

/// `DELETE FROM table`.
pub(super) fn delete_all(table: &TableWithJoins) -> Result<DfStatement, SqlError> {
    let TableFactor::Table { name, .. } = &table.relation else {
        return Err(SqlError::unsupported(
            "a change of what is not a table",
            "name a table",
        ));
    };
    let mut parsed = parse_statement("DELETE FROM t")?;
    if let Ast::Delete(delete) = &mut parsed {
        delete.from = FromTable::WithFromKeyword(vec![self::table(name, None)?]);
    }
    Ok(statement(parsed))
}

/// A table, and others beside it.
fn joined(table: &TableWithJoins, others: &[TableWithJoins]) -> Vec<TableWithJoins> {
    std::iter::once(table).chain(others).cloned().collect()
}

fn table(name: &ObjectName, alias: Option<&Ident>) -> Result<TableWithJoins, SqlError> {
    let mut select = empty_select("SELECT 1 FROM t")?;
    let mut from = select.from.remove(0);
    if let TableFactor::Table {
        name: own,
        alias: own_alias,
        ..
    } = &mut from.relation
    {
        *own = name.clone();
        *own_alias = alias.map(|name| TableAlias {
            explicit: true,
            name: name.clone(),
            columns: Vec::new(),
            at: None,
        });
    }
    Ok(from)
}

fn returning(
    items: Option<&Vec<SelectItem>>,
    from: &[TableWithJoins],
) -> Result<Option<DfStatement>, SqlError> {
    let query = items.map(|items| select(items.clone(), from.to_vec(), None));
    query.transpose()
}

pub(super) fn select(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<DfStatement, SqlError> {
    let mut select = empty_select("SELECT 1")?;
    select.projection = items;
    select.from = from;
    select.selection = selection;
    number(&mut select, Names::Equal);
    let mut query = parse("SELECT 1")?;
    *query.body = SetExpr::Select(select);
    Ok(statement(Ast::Query(Box::new(query))))
}

pub(super) fn empty_select(sql: &str) -> Result<Box<Select>, SqlError> {
    match *parse(sql)?.body {
        SetExpr::Select(select) => Ok(select),
        other => Err(SqlError::Syntax {
            message: other.to_string(),
        }),
    }
}

fn statement(ast: Ast) -> DfStatement {
    DfStatement::Statement(Box::new(ast))
}

#[cfg(test)]
mod tests {
    use super::super::super::{StatementKind, statements};
    use super::*;

    fn forms(sql: &str) -> Option<ChangeForms> {
        let statement = statements(sql).expect(sql).remove(0);
        match statement.kind() {
            StatementKind::DataFusion { statement, .. } => match statement.as_ref() {
                DfStatement::Statement(ast) => change_forms(ast).expect(sql),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clauses_become_queries() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "UPDATE t SET a = 1 WHERE b = 2",
            "DELETE FROM t WHERE a = 1",
            "SELECT 1",
        ] {
            assert!(forms(sql).is_none(), "{sql}");
        }
        let text = |forms: &ChangeForms| {
            let base = match &forms.base {
                BaseForm::Whole(whole) => whole.to_string(),
                BaseForm::Joined(joined) => joined.rows.to_string(),
            };
            let returning = forms.returning.as_ref();
            (base, returning.map(ToString::to_string).unwrap_or_default())
        };
        for (sql, base, returning) in [
            (
                "INSERT INTO s.t AS x (A) VALUES (1) RETURNING x.*, a + 1 AS b",
                "INSERT INTO s.t (a) VALUES (1)",
                "SELECT x.*, a + 1 AS b FROM s.t AS x",
            ),
            (
                "UPDATE t SET a = 1 RETURNING *",
                "UPDATE t SET a = 1",
                "SELECT * FROM t",
            ),
            (
                "UPDATE t x SET (a, B) = (u.c, 2) FROM u WHERE x.k = u.k RETURNING u.c",
                "SELECT u.c AS \"a\", 2 AS \"b\" FROM t x, u WHERE x.k = u.k",
                "SELECT u.c FROM t x, u",
            ),
            (
                "DELETE FROM t USING u WHERE t.k = u.k",
                "SELECT NULL FROM t, u WHERE t.k = u.k",
                "",
            ),
        ] {
            let found = text(&forms(sql).expect(sql));
            assert_eq!(found, (base.to_owned(), returning.to_owned()), "{sql}");
        }
    }

    #[test]
    fn wrong_assignments_are_refused() {
        for sql in [
            "UPDATE t SET a = 1, a = 2 RETURNING a",
            "UPDATE t SET a = 1, A = 2 FROM u",
            "UPDATE t SET (a, b) = (1, 2, 3)",
            "UPDATE t SET (a, b) = (SELECT 1, 2)",
        ] {
            let statement = statements(sql).expect(sql).remove(0);
            let StatementKind::DataFusion { statement, .. } = statement.kind() else {
                panic!("{sql}");
            };
            let DfStatement::Statement(ast) = statement.as_ref() else {
                panic!("{sql}");
            };
            let is_whole = matches!(
                change_forms(ast),
                Ok(Some(ChangeForms {
                    base: BaseForm::Whole(_),
                    ..
                }))
            );
            assert!(is_whole || change_forms(ast).is_err(), "{sql}");
        }
    }
}
