//! Clauses of `ALTER TABLE` about columns and names.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use std::ops::ControlFlow;

use super::SqlError;
use super::defaults::{expression_query, only_expression};
use super::script::DIALECT;
use super::sequences::{NumberedColumn, parse_added_identity};
use super::statement::{Statement, normalised, statements, syntax};

/// What becomes of a column, or of a name.
#[derive(Debug, Clone)]
pub(crate) enum ColumnChange {
    /// `ADD COLUMN`.
    Add {
        /// Its name.
        column: String,
        if_not_exists: bool,
        /// `CREATE TABLE` of a table with this column alone.
        definition: Box<Statement>,
    },
    /// `DROP COLUMN`.
    Drop {
        column: String,
        if_exists: bool,
        is_cascade: bool,
    },
    /// `RENAME COLUMN`.
    Rename { column: String, to: String },
    /// `SET NOT NULL` and `DROP NOT NULL`.
    Nullable { column: String, is_nullable: bool },
    /// `SET DATA TYPE`.
    Type {
        column: String,
        /// The type as it is written.
        data_type: String,
        /// `CREATE TABLE` of a table with a column of this name and type.
        definition: Box<Statement>,
        /// The new value, of which the old one is cast without.
        using: Option<String>,
    },
    /// `ADD GENERATED … AS IDENTITY`.
    Number(NumberedColumn),
    /// `RENAME TO`.
    RenameTable { to: String },
    /// `RENAME CONSTRAINT`.
    RenameConstraint { constraint: String, to: String },
}

/// A clause about a column or a name, if the next one is.
pub(super) fn parse_column_change(
    parser: &mut Parser<'_>,
) -> Result<Option<ColumnChange>, SqlError> {
    match parser.peek_token().token {
        ref token if is_keyword(token, Keyword::ADD) => parse_add(parser),
        ref token if is_keyword(token, Keyword::DROP) => parse_drop(parser),
        ref token if is_keyword(token, Keyword::RENAME) => parse_rename(parser).map(Some),
        _ => Ok(None),
    }
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword)
}

/// Whether a constraint follows `ADD`, and no column.
fn begins_constraint(parser: &Parser<'_>) -> bool {
    let Token::Word(word) = parser.peek_nth_token(1).token else {
        return false;
    };
    let is_of_constraint = matches!(
        word.keyword,
        Keyword::CONSTRAINT
            | Keyword::PRIMARY
            | Keyword::UNIQUE
            | Keyword::CHECK
            | Keyword::FOREIGN
            | Keyword::EXCLUDE
    );
    word.quote_style.is_none() && is_of_constraint
}

fn parse_add(parser: &mut Parser<'_>) -> Result<Option<ColumnChange>, SqlError> {
    if begins_constraint(parser) {
        return Ok(None);
    }
    parser.expect_keyword(Keyword::ADD).map_err(syntax)?;
    let _optional = parser.parse_keyword(Keyword::COLUMN);
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let column = parser.parse_column_def().map_err(syntax)?;
    Ok(Some(ColumnChange::Add {
        column: normalised(&column.name),
        if_not_exists,
        definition: table_of_one(&column.to_string())?,
    }))
}

/// A statement that creates a table with one column.
fn table_of_one(column: &str) -> Result<Box<Statement>, SqlError> {
    let sql = format!("CREATE TABLE altered ({column})");
    Ok(Box::new(statements(&sql)?.remove(0)))
}

fn parse_drop(parser: &mut Parser<'_>) -> Result<Option<ColumnChange>, SqlError> {
    if begins_constraint(parser) {
        return Ok(None);
    }
    parser.expect_keyword(Keyword::DROP).map_err(syntax)?;
    let _optional = parser.parse_keyword(Keyword::COLUMN);
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let column = parser.parse_identifier().map_err(syntax)?;
    let behavior = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    Ok(Some(ColumnChange::Drop {
        column: normalised(&column),
        if_exists,
        is_cascade: behavior == Some(Keyword::CASCADE),
    }))
}

fn parse_rename(parser: &mut Parser<'_>) -> Result<ColumnChange, SqlError> {
    parser.expect_keyword(Keyword::RENAME).map_err(syntax)?;
    let name = |parser: &mut Parser<'_>| {
        let name = parser.parse_identifier().map_err(syntax)?;
        Ok::<String, SqlError>(normalised(&name))
    };
    if parser.parse_keyword(Keyword::TO) {
        let to = name(parser)?;
        return Ok(ColumnChange::RenameTable { to });
    }
    let is_constraint = parser.parse_keyword(Keyword::CONSTRAINT);
    let _optional = !is_constraint && parser.parse_keyword(Keyword::COLUMN);
    let from = name(parser)?;
    parser.expect_keyword(Keyword::TO).map_err(syntax)?;
    let to = name(parser)?;
    Ok(match is_constraint {
        true => ColumnChange::RenameConstraint {
            constraint: from,
            to,
        },
        false => ColumnChange::Rename { column: from, to },
    })
}

/// What follows `ALTER COLUMN` and its name, if it is about what the column may have.
pub(super) fn parse_altered(
    parser: &mut Parser<'_>,
    column: &Ident,
) -> Result<Option<ColumnChange>, SqlError> {
    let nullable = |is_nullable| ColumnChange::Nullable {
        column: normalised(column),
        is_nullable,
    };
    if parser.parse_keywords(&[Keyword::SET, Keyword::NOT, Keyword::NULL]) {
        return Ok(Some(nullable(false)));
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::NOT, Keyword::NULL]) {
        return Ok(Some(nullable(true)));
    }
    if is_keyword(&parser.peek_token().token, Keyword::ADD) {
        let begin = parser.next_token();
        let numbered = parse_added_identity(parser, column)?;
        let what = || format!("ALTER COLUMN … {begin} {}", parser.peek_token());
        let numbered = numbered
            .ok_or_else(|| SqlError::unsupported(what(), "there is ADD GENERATED … AS IDENTITY"))?;
        return Ok(Some(ColumnChange::Number(numbered)));
    }
    let is_type = parser.parse_keyword(Keyword::TYPE)
        || parser.parse_keywords(&[Keyword::SET, Keyword::DATA, Keyword::TYPE]);
    if !is_type {
        return Ok(None);
    }
    let data_type: DataType = parser.parse_data_type().map_err(syntax)?;
    let using = match parser.parse_keyword(Keyword::USING) {
        true => Some(parser.parse_expr().map_err(syntax)?.to_string()),
        false => None,
    };
    Ok(Some(ColumnChange::Type {
        column: normalised(column),
        definition: table_of_one(&format!("{column} {data_type}"))?,
        data_type: data_type.to_string(),
        using,
    }))
}

/// The columns that an expression names, and the same with another name for one of them.
struct Columns<'a> {
    renamed: Option<(&'a str, &'a Ident)>,
    names: Vec<String>,
}

impl VisitorMut for Columns<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let column = match expr {
            Expr::Identifier(column) => Some(column),
            Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(column) = column {
            let name = normalised(column);
            if let Some((from, to)) = self.renamed
                && name == from
            {
                *column = to.clone();
            }
            self.names.push(name);
        }
        ControlFlow::Continue(())
    }
}

/// Whether a query asks for all columns of something, whichever these are.
pub(crate) fn selects_all(sql: &str) -> bool {
    let tokens = Tokenizer::new(&DIALECT, sql).tokenize();
    let tokens = tokens.unwrap_or_default().into_iter();
    let tokens = tokens.filter(|token| !matches!(token, Token::Whitespace(_)));
    let tokens: Vec<Token> = tokens.collect();
    tokens.windows(2).any(|pair| {
        let begins = match &pair[0] {
            Token::Comma | Token::Period => true,
            Token::Word(word) => matches!(
                word.keyword,
                Keyword::SELECT | Keyword::DISTINCT | Keyword::ALL
            ),
            _ => false,
        };
        begins && pair[1] == Token::Mul
    })
}

/// Whether an expression, which was read before, names a column.
///
/// # Errors
/// A text that is no expression.
pub fn names_column(sql: &str, column: &str) -> Result<bool, SqlError> {
    let mut columns = Columns {
        renamed: None,
        names: Vec::new(),
    };
    visit(sql, &mut columns)?;
    Ok(columns.names.iter().any(|name| name == column))
}

/// An expression with another name for a column.
pub(crate) fn with_renamed_column(sql: &str, from: &str, to: &str) -> Result<String, SqlError> {
    let to = Ident::with_quote('"', to);
    let mut columns = Columns {
        renamed: Some((from, &to)),
        names: Vec::new(),
    };
    visit(sql, &mut columns)
}

fn visit(sql: &str, columns: &mut Columns<'_>) -> Result<String, SqlError> {
    let expr = only_expression(expression_query(sql)?);
    let mut expr = expr.ok_or_else(|| SqlError::Syntax {
        message: format!("`{sql}` is no expression"),
    })?;
    let _ = expr.visit(columns);
    Ok(expr.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_all_columns_are_known() {
        for sql in [
            "SELECT * FROM t",
            "select a, t.* from t",
            "SELECT DISTINCT * FROM t",
        ] {
            assert!(selects_all(sql), "{sql}");
        }
        for sql in [
            "SELECT count(*) FROM t",
            "SELECT a * b, 2 * c FROM t",
            "SELECT '*', \"*\" FROM t",
        ] {
            assert!(!selects_all(sql), "{sql}");
        }
    }

    #[test]
    fn columns_of_conditions_get_other_names() {
        let renamed = with_renamed_column("a > 0 AND b < abs(a) AND c = 'a'", "a", "The A");
        let expected = "\"The A\" > 0 AND b < abs(\"The A\") AND c = 'a'";
        assert_eq!(renamed.expect("an expression"), expected);
        assert!(names_column("x.a > 0", "a").expect("an expression"));
        assert!(!names_column("'a' > b", "a").expect("an expression"));
    }
}
