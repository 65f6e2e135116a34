//! Values of columns that are given none: `DEFAULT` in `CREATE TABLE`, and the keyword where a value stands.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, ColumnOption, CreateTable, Expr, Ident, Insert, ObjectName, OptimizerHint,
    OptimizerHintStyle, Parens, Query, SelectItem, SetExpr, Statement as Ast, TableFactor,
    TableObject, Update, Values,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::forms::rewrite_forms;
use super::postgres::{null, rewrite_catalogs};
use super::rewrite::parse_query;
use super::script::{DIALECT, is_space};
use super::sequences::name_sequences;
use super::statement::{named_twice, normalised, syntax};
use nearfar_table::table::{IdentityKind, TableRules};

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
    name_sequences(&mut ast);
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
    let expr = only_expression(expression_query(sql)?).ok_or_else(|| no_expression(sql))?;
    Ok(Expr::Nested(Box::new(expr)))
}

/// The expression that a query made by [`expression_query`] gives.
pub(crate) fn only_expression(query: DfStatement) -> Option<Expr> {
    let DfStatement::Statement(ast) = query else {
        return None;
    };
    let Ast::Query(query) = *ast else {
        return None;
    };
    let SetExpr::Select(mut select) = *query.body else {
        return None;
    };
    match (select.projection.pop(), select.projection.is_empty()) {
        (Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }), true) => {
            Some(expr)
        }
        _ => None,
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

    /// Puts the default that `rules` have for a column where the keyword stands, and the names of
    /// columns, of those of the table, into an `INSERT` that gives values for the first of them. The
    /// columns that an `INSERT` has no values for.
    ///
    /// # Errors
    /// A text that is no expression; a value for a column that takes none; two for one column.
    pub fn fill(self, columns: &[String], rules: &TableRules) -> Result<Vec<String>, SqlError> {
        match self {
            Self::Insert(insert) => fill_insert(insert, columns, rules),
            Self::Update(update) => {
                check_assigned(update)?;
                for assignment in &mut update.assignments {
                    match (&assignment.target, &mut assignment.value) {
                        (AssignmentTarget::ColumnName(name), value) => {
                            fill_assigned(name, value, rules)?;
                        }
                        (AssignmentTarget::Tuple(names), Expr::Tuple(values)) => {
                            let mut pairs = names.iter().zip(values);
                            pairs
                                .try_for_each(|(name, value)| fill_assigned(name, value, rules))?;
                        }
                        (AssignmentTarget::Tuple(_), _) => {}
                    }
                }
                Ok(Vec::new())
            }
        }
    }
}

/// Refuses to give a column two values.
fn check_assigned(update: &Update) -> Result<(), SqlError> {
    let assigned = update.assignments.iter();
    let assigned = assigned.flat_map(|assignment| match &assignment.target {
        AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
        AssignmentTarget::Tuple(names) => &names[..],
    });
    match named_twice(assigned.map(last_name)) {
        Some(column) => Err(SqlError::AssignedTwice {
            column: column.to_owned(),
        }),
        None => Ok(()),
    }
}

/// The name of a column, without that of its table.
fn last_name(name: &ObjectName) -> &str {
    let name = name.0.last().and_then(|part| part.as_ident());
    name.map_or("", |name| name.value.as_str())
}

fn fill_assigned(name: &ObjectName, value: &mut Expr, rules: &TableRules) -> Result<(), SqlError> {
    let column = last_name(name);
    if is_keyword(value) {
        *value = default(rules, column)?;
    } else if is_always(rules, column) {
        let column = column.to_owned();
        return Err(SqlError::UpdatedIdentity { column });
    }
    Ok(())
}

fn fill_insert(
    insert: &mut Insert,
    columns: &[String],
    rules: &TableRules,
) -> Result<Vec<String>, SqlError> {
    let overriding = Overriding::unmark(insert);
    if let Some(column) = named_twice(insert.columns.iter().map(last_name)) {
        let column = column.to_owned();
        return Err(SqlError::GivenTwice { column });
    }
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
    let is_own = |column: &String| {
        let is_identity = rules.identities.contains_key(column);
        overriding == Some(Overriding::User) && is_identity
    };
    let mut is_given: Vec<bool> = vec![true; given.len()];
    if let SetExpr::Values(values) = source.body.as_mut() {
        let defaults = values
            .rows
            .iter()
            .map(|row| row.content.iter().map(is_keyword));
        let all_default = defaults.fold(is_given.clone(), |all, row| {
            all.iter().zip(row).map(|(all, one)| *all && one).collect()
        });
        is_given = all_default.into_iter().map(|all| !all).collect();
        for row in &mut values.rows {
            for (place, column) in row.content.iter_mut().zip(&given) {
                if is_keyword(place) {
                    *place = default(rules, column)?;
                } else if is_always(rules, column) && overriding.is_none() {
                    return Err(SqlError::GivenIdentity {
                        column: column.clone(),
                    });
                }
            }
        }
    }
    let mut named = given.iter().zip(is_given);
    let refused = named
        .find(|(column, is_given)| *is_given && is_always(rules, column) && overriding.is_none());
    if let Some((column, _)) = refused {
        let column = column.clone();
        return Err(SqlError::GivenIdentity { column });
    }
    let is_left = |column: &&String| !given.contains(column) || is_own(column);
    Ok(columns.iter().filter(is_left).cloned().collect())
}

/// Puts the defaults of columns where the keyword stands among the values that a `MERGE` gives them.
///
/// # Errors
/// A text that is no expression; a value for a column that takes none.
pub(super) fn fill_merged(
    columns: &[String],
    values: &mut [Expr],
    rules: &TableRules,
) -> Result<(), SqlError> {
    for (column, value) in columns.iter().zip(values) {
        if is_keyword(value) {
            *value = default(rules, column)?;
        } else if is_always(rules, column) {
            let column = column.clone();
            return Err(SqlError::GivenIdentity { column });
        }
    }
    Ok(())
}

/// What an `INSERT` says of values for identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overriding {
    /// They are taken.
    System,
    /// They are not, but for numbers of the sequence.
    User,
}

/// How an `INSERT` is marked, which the parser has no place for.
const MARK: &str = "overriding";

/// Takes `OVERRIDING SYSTEM VALUE`, or `USER`, out of an `INSERT`.
pub(super) fn take_overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<Overriding> {
    let word = |at: usize, tokens: &[TokenWithSpan]| match &tokens[at].token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let places = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token));
    let places: Vec<usize> = places.collect();
    let found = places.windows(3).find_map(|at| {
        let words = [at[0], at[1], at[2]].map(|at| word(at, tokens));
        match [words[0].as_str(), words[1].as_str(), words[2].as_str()] {
            ["overriding", "system", "value"] => Some((at[0]..=at[2], Overriding::System)),
            ["overriding", "user", "value"] => Some((at[0]..=at[2], Overriding::User)),
            _ => None,
        }
    });
    let (places, overriding) = found?;
    tokens.drain(places);
    Some(overriding)
}

impl Overriding {
    /// Marks the `INSERT` that a statement is.
    ///
    /// # Errors
    /// A statement of another kind.
    pub fn mark(self, statement: &mut DfStatement) -> Result<(), SqlError> {
        let Some(DefaultValues::Insert(insert)) = DefaultValues::of(statement) else {
            return Err(SqlError::Syntax {
                message: "OVERRIDING is of INSERT".to_owned(),
            });
        };
        self.mark_insert(insert);
        Ok(())
    }

    pub fn mark_insert(self, insert: &mut Insert) {
        insert.optimizer_hints.push(OptimizerHint {
            prefix: MARK.to_owned(),
            text: format!("{self:?}"),
            style: OptimizerHintStyle::MultiLine,
        });
    }

    fn unmark(insert: &mut Insert) -> Option<Self> {
        let marks = std::mem::take(&mut insert.optimizer_hints).into_iter();
        let mut marks = marks.filter(|mark| mark.prefix == MARK);
        marks.next().map(|mark| match mark.text.as_str() {
            "System" => Self::System,
            _ => Self::User,
        })
    }
}

/// The value of a column that is given none.
fn default(rules: &TableRules, column: &str) -> Result<Expr, SqlError> {
    match rules.defaults.get(column) {
        Some(sql) => expression(sql),
        None => Ok(null()),
    }
}

fn is_always(rules: &TableRules, column: &str) -> bool {
    rules.identities.get(column) == Some(&IdentityKind::Always)
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
