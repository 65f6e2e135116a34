//! Values of columns that are given none: `DEFAULT` in `CREATE TABLE`, and the keyword where a value stands.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, ColumnOption, CreateTable, Expr, Ident, Insert, ObjectName, Parens, Query,
    SelectItem, SetExpr, Statement as Ast, TableFactor, TableObject, Update, Values,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::SqlError;
use super::forms::rewrite_forms;
use super::postgres::{null, rewrite_catalogs};
use super::rewrite::parse_query;
use super::script::DIALECT;
use super::statement::{normalised, syntax};

/// Takes the defaults out of a `CREATE TABLE`: columns, and the expressions as they were written.
pub(super) fn take_defaults(create: &mut CreateTable) -> Vec<(String, String)> {
    let mut defaults = Vec::new();
    for column in &mut create.columns {
        column.options.retain(|option| match &option.option {
            ColumnOption::Default(value) => {
                defaults.push((normalised(&column.name), value.to_string()));
                false
            }
            _ => true,
        });
    }
    defaults
}

/// The query that gives the value of an expression, as the planner takes it.
///
/// # Errors
/// A text that is no expression.
pub(crate) fn expression_query(sql: &str) -> Result<DfStatement, SqlError> {
    let text = format!("SELECT {sql}");
    let parsed = Parser::parse_sql(&DIALECT, &text).map_err(syntax)?;
    let mut ast = parsed
        .into_iter()
        .next()
        .ok_or_else(|| no_expression(sql))?;
    rewrite_catalogs(&mut ast);
    rewrite_forms(&mut ast)?;
    Ok(DfStatement::Statement(Box::new(ast)))
}

fn no_expression(sql: &str) -> SqlError {
    SqlError::Syntax {
        message: format!("`{sql}` is no expression"),
    }
}

/// The same expression as a part of another statement.
fn expression(sql: &str) -> Result<Expr, SqlError> {
    let DfStatement::Statement(ast) = expression_query(sql)? else {
        return Err(no_expression(sql));
    };
    let Ast::Query(query) = *ast else {
        return Err(no_expression(sql));
    };
    let SetExpr::Select(mut select) = *query.body else {
        return Err(no_expression(sql));
    };
    match (select.projection.pop(), select.projection.is_empty()) {
        (Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }), true) => {
            Ok(Expr::Nested(Box::new(expr)))
        }
        _ => Err(no_expression(sql)),
    }
}

/// A statement that changes rows, of which values may be left to the table.
pub(crate) enum DefaultValues<'a> {
    Insert(&'a mut Insert),
    Update(&'a mut Update),
}

impl<'a> DefaultValues<'a> {
    /// The statement, or the one that it explains or prepares.
    pub fn of(statement: &'a mut DfStatement) -> Option<Self> {
        match statement {
            DfStatement::Statement(ast) => Self::of_ast(ast),
            DfStatement::Explain(explain) => Self::of(&mut explain.statement),
            _ => None,
        }
    }

    fn of_ast(ast: &'a mut Ast) -> Option<Self> {
        match ast {
            Ast::Insert(insert) => Some(Self::Insert(insert)),
            Ast::Update(update) => Some(Self::Update(update)),
            Ast::Prepare { statement, .. } | Ast::Explain { statement, .. } => {
                Self::of_ast(statement)
            }
            _ => None,
        }
    }

    /// The table that it changes.
    pub fn table(&self) -> Option<&ObjectName> {
        match self {
            Self::Insert(insert) => match &insert.table {
                TableObject::TableName(name) => Some(name),
                _ => None,
            },
            Self::Update(update) => match &update.table.relation {
                TableFactor::Table { name, .. } => Some(name),
                _ => None,
            },
        }
    }

    /// Puts the expression that `default` has for a column where the keyword stands, and the names of
    /// columns, of those of the table, into an `INSERT` that gives values for the first of them. The
    /// columns that an `INSERT` has no values for.
    ///
    /// # Errors
    /// A text that is no expression.
    pub fn fill(
        self,
        columns: &[String],
        default: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>, SqlError> {
        let value = |column: &str| match default(column) {
            Some(sql) => expression(&sql),
            None => Ok(null()),
        };
        match self {
            Self::Insert(insert) => fill_insert(insert, columns, &value),
            Self::Update(update) => {
                for assignment in &mut update.assignments {
                    if let AssignmentTarget::ColumnName(name) = &assignment.target
                        && is_keyword(&assignment.value)
                    {
                        let name = name.0.last().and_then(|part| part.as_ident());
                        let name = name.map(|name| name.value.as_str());
                        assignment.value = value(name.unwrap_or_default())?;
                    }
                }
                Ok(Vec::new())
            }
        }
    }
}

fn fill_insert(
    insert: &mut Insert,
    columns: &[String],
    value: &impl Fn(&str) -> Result<Expr, SqlError>,
) -> Result<Vec<String>, SqlError> {
    if insert.source.is_none() {
        insert.source = Some(all_default(columns.len())?);
    }
    let Some(source) = &mut insert.source else {
        return Ok(Vec::new());
    };
    if insert.columns.is_empty()
        && let Some(width) = width_of(&source.body).filter(|width| *width < columns.len())
    {
        let names = columns[..width].iter();
        let names = names.map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]));
        insert.columns = names.collect();
    }
    let named = |name: &ObjectName| Some(name.0.last()?.as_ident()?.value.clone());
    let given: Vec<String> = match insert.columns.is_empty() {
        true => columns.to_vec(),
        false => insert.columns.iter().filter_map(named).collect(),
    };
    if let SetExpr::Values(values) = source.body.as_mut() {
        for row in &mut values.rows {
            let places = row.content.iter_mut().zip(&given);
            for (place, column) in places.filter(|(place, _)| is_keyword(place)) {
                *place = value(column)?;
            }
        }
    }
    let is_left = |column: &&String| !given.contains(column);
    Ok(columns.iter().filter(is_left).cloned().collect())
}

/// `VALUES (DEFAULT, …)`.
fn all_default(columns: usize) -> Result<Box<Query>, SqlError> {
    let row = vec![Expr::Identifier(Ident::new("DEFAULT")); columns];
    let DfStatement::Statement(ast) = parse_query("VALUES (1)")? else {
        return Err(SqlError::Syntax {
            message: "DEFAULT VALUES".to_owned(),
        });
    };
    match *ast {
        Ast::Query(mut query) => {
            *query.body = SetExpr::Values(Values {
                explicit_row: false,
                value_keyword: false,
                rows: vec![Parens::with_empty_span(row)],
            });
            Ok(query)
        }
        _ => Err(SqlError::Syntax {
            message: "DEFAULT VALUES".to_owned(),
        }),
    }
}

/// How many columns a query has, where that is seen without planning it.
fn width_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(
                    item,
                    SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
                )
            };
            let items = &select.projection;
            items.iter().all(is_one).then_some(items.len())
        }
        SetExpr::Query(query) => width_of(&query.body),
        SetExpr::SetOperation { left, .. } => width_of(left),
        _ => None,
    }
}

/// Whether the keyword `DEFAULT` stands in the place of a value.
fn is_keyword(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}
