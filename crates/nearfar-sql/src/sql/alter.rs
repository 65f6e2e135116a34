//! `ALTER TABLE`: `SET TABLESPACE` and `SET (option = value)`, which sqlparser does not read, and keys.

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, SqlOption, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::alter_columns::{ColumnChange, parse_altered, parse_column_change};
use super::constraints::{ConstraintClause, of_table};
use super::indexes::{KeyClause, key_of_constraint};
use super::script::DIALECT;
use super::statement::{expect_end, normalised, syntax};
use crate::settings::Place;
use nearfar_table::table::PreloadPriority;

/// `ALTER TABLE`.
#[derive(Debug, Clone)]
pub(crate) struct AlterTable {
    /// Whether a table that is not there is no error.
    pub if_exists: bool,
    /// The table.
    pub table: ObjectName,
    /// What becomes of columns and names, in this order, before all else.
    pub columns: Vec<ColumnChange>,
    /// Where columns go, and when.
    pub changes: Vec<AlteredColumn>,
    /// What becomes of keys.
    pub keys: Vec<KeyChange>,
    /// What becomes of the values of columns that are given none.
    pub defaults: Vec<DefaultChange>,
}

/// `ALTER COLUMN … SET DEFAULT` and `DROP DEFAULT`.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultChange {
    /// The column.
    pub column: Ident,
    /// The expression of its value; none any more.
    pub value: Option<String>,
}

/// A clause of an `ALTER TABLE` about a key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyChange {
    /// `ADD PRIMARY KEY`, `ADD UNIQUE`, `ADD CONSTRAINT`.
    Add(KeyClause),
    /// `ADD CHECK`, `ADD FOREIGN KEY`.
    Constrain(ConstraintClause),
    /// `DROP CONSTRAINT`.
    Drop {
        /// Its name.
        name: String,
        /// Whether one that is not there is no error.
        if_exists: bool,
    },
}

/// A clause of an `ALTER TABLE`.
enum Clause {
    Change(ColumnChange),
    Column(AlteredColumn),
    Key(KeyChange),
    Default(DefaultChange),
}

/// One clause of an `ALTER TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlteredColumn {
    /// The column; all of them where none is named.
    pub column: Option<Ident>,
    /// What it gets.
    pub options: ColumnOptions,
}

/// What can be said of a column, or of all columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnOptions {
    /// Where it lies.
    pub place: Option<Place>,
    /// When it is brought to memory after a start.
    pub preload: Option<PreloadPriority>,
}

pub(super) fn parse_alter(tokens: Vec<TokenWithSpan>) -> Result<AlterTable, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    parser
        .expect_keywords(&[Keyword::ALTER, Keyword::TABLE])
        .map_err(syntax)?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let _only = parser.parse_keyword(Keyword::ONLY);
    let table = parser.parse_object_name(false).map_err(syntax)?;
    let (mut columns, mut changes) = (Vec::new(), Vec::new());
    let (mut keys, mut defaults) = (Vec::new(), Vec::new());
    loop {
        match parse_clause(&mut parser)? {
            Clause::Change(change) => columns.push(change),
            Clause::Column(column) => changes.push(column),
            Clause::Key(key) => keys.push(key),
            Clause::Default(change) => defaults.push(change),
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    expect_end(&mut parser)?;
    Ok(AlterTable {
        if_exists,
        table,
        columns,
        changes,
        keys,
        defaults,
    })
}

fn parse_clause(parser: &mut Parser<'_>) -> Result<Clause, SqlError> {
    if let Some(change) = parse_column_change(parser)? {
        return Ok(Clause::Change(change));
    }
    if parser.parse_keyword(Keyword::ADD) {
        return Ok(Clause::Key(parse_key(parser)?));
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::CONSTRAINT]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = normalised(&parser.parse_identifier().map_err(syntax)?);
        let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
        return Ok(Clause::Key(KeyChange::Drop { name, if_exists }));
    }
    let column = match parser.parse_keyword(Keyword::ALTER) {
        true => {
            let _optional = parser.parse_keyword(Keyword::COLUMN);
            Some(parser.parse_identifier().map_err(syntax)?)
        }
        false => None,
    };
    if let Some(column) = &column {
        if let Some(change) = parse_altered(parser, column)? {
            return Ok(Clause::Change(change));
        }
        let column = column.clone();
        if parser.parse_keywords(&[Keyword::SET, Keyword::DEFAULT]) {
            let value = Some(parser.parse_expr().map_err(syntax)?.to_string());
            return Ok(Clause::Default(DefaultChange { column, value }));
        }
        if parser.parse_keywords(&[Keyword::DROP, Keyword::DEFAULT]) {
            let value = None;
            return Ok(Clause::Default(DefaultChange { column, value }));
        }
    }
    Ok(Clause::Column(parse_change(parser, column)?))
}

/// A constraint behind `ADD`.
fn parse_key(parser: &mut Parser<'_>) -> Result<KeyChange, SqlError> {
    let begin = parser.peek_token();
    let constraint = parser.parse_optional_table_constraint().map_err(syntax)?;
    if let Some(other) = constraint.as_ref().map(of_table).transpose()?.flatten() {
        return Ok(KeyChange::Constrain(other));
    }
    let key = constraint.as_ref().map(key_of_constraint).transpose()?;
    let mut key = key.flatten().ok_or_else(|| {
        SqlError::unsupported(
            format!("ALTER TABLE … ADD {begin}"),
            "there are ADD PRIMARY KEY (…), UNIQUE (…), CHECK (…) and FOREIGN KEY (…), with CONSTRAINT name \
             or without",
        )
    })?;
    // sqlparser takes the `USING INDEX` before it for the kind of an index.
    if parser.parse_keyword(Keyword::TABLESPACE) {
        key.place.tablespace = Some(tablespace_name(parser)?);
    }
    Ok(KeyChange::Add(key))
}

/// `SET TABLESPACE name` or `SET (placement = 'text', preload = 5)`, of a column or the table.
fn parse_change(parser: &mut Parser<'_>, column: Option<Ident>) -> Result<AlteredColumn, SqlError> {
    let begin = parser.peek_token();
    let unsupported = || {
        SqlError::unsupported(
            format!("ALTER TABLE … {begin}"),
            "there are ADD, DROP, RENAME and ALTER of columns, ADD and DROP CONSTRAINT, RENAME TO, SET TABLESPACE name, \
             SET (placement = '…') and SET (preload = …)",
        )
    };
    if parser.parse_keywords(&[Keyword::SET, Keyword::TABLESPACE]) {
        let place = Some(Place::Tablespace(tablespace_name(parser)?));
        let options = ColumnOptions {
            place,
            preload: None,
        };
        return Ok(AlteredColumn { column, options });
    }
    let options = parser.parse_options(Keyword::SET).map_err(syntax)?;
    if options.is_empty() {
        return Err(unsupported());
    }
    let options = column_options(&options)?;
    Ok(AlteredColumn { column, options })
}

/// The name of a tablespace: an identifier or a string.
pub(super) fn tablespace_name(parser: &mut Parser<'_>) -> Result<String, SqlError> {
    let next = parser.next_token();
    match next.token {
        Token::Word(word) if word.quote_style.is_none() => Ok(word.value.to_lowercase()),
        Token::Word(word) => Ok(word.value),
        Token::SingleQuotedString(name) => Ok(name),
        _ => parser
            .expected("the name of a tablespace", next)
            .map_err(syntax),
    }
}

/// What a parenthesised list of options says.
pub(super) fn column_options(options: &[SqlOption]) -> Result<ColumnOptions, SqlError> {
    let mut read = ColumnOptions::default();
    for option in options {
        let unknown = |name: &str| SqlError::UnknownOption {
            name: name.to_owned(),
        };
        let SqlOption::KeyValue { key, value } = option else {
            return Err(unknown(&option.to_string()));
        };
        let text = option_text(value);
        match key.value.to_lowercase().as_str() {
            "placement" => read.place = Some(Place::Placement(text)),
            "preload" => read.preload = Some(preload_priority(text)?),
            // How full PostgreSQL leaves pages, which there are none of.
            "fillfactor" if is_fillfactor(&text) => {}
            _ => return Err(unknown(&key.value)),
        }
    }
    Ok(read)
}

/// The value of an option, without the quotes it may have.
fn option_text(value: &Expr) -> String {
    match value {
        Expr::Identifier(name) => name.value.clone(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

/// Whether a text is a share of pages that PostgreSQL fills.
pub(super) fn is_fillfactor(text: &str) -> bool {
    text.parse()
        .is_ok_and(|percent: u32| (10..=100).contains(&percent))
}

fn preload_priority(text: String) -> Result<PreloadPriority, SqlError> {
    let priority = text.parse().ok().and_then(PreloadPriority::new);
    priority.ok_or(SqlError::PreloadPriority { text })
}

#[cfg(test)]
mod tests {
    use super::super::{StatementKind, statements};
    use super::*;

    fn alter(sql: &str) -> Result<AlterTable, SqlError> {
        let mut statements = statements(sql)?;
        match statements.remove(0).kind() {
            StatementKind::Alter(alter) => Ok(alter.clone()),
            other => panic!("{sql} was read as {other:?}"),
        }
    }

    fn tablespace(name: &str) -> ColumnOptions {
        ColumnOptions {
            place: Some(Place::Tablespace(name.to_owned())),
            preload: None,
        }
    }

    #[test]
    fn tables_and_columns_move() {
        let table = alter("alter table if exists s.t set tablespace FAR").expect("table");
        assert!(table.if_exists);
        assert_eq!(table.table.to_string(), "s.t");
        assert_eq!(
            table.changes,
            [AlteredColumn {
                column: None,
                options: tablespace("far")
            }]
        );
        let columns = alter(
            "ALTER TABLE t -- ;\n ALTER COLUMN a SET TABLESPACE 'far', alter \"B c\" set tablespace near",
        )
        .expect("columns");
        let moves: Vec<_> = columns
            .changes
            .iter()
            .map(|change| (change.column.clone(), &change.options))
            .collect();
        assert_eq!(moves[0], (Some(Ident::new("a")), &tablespace("far")));
        assert_eq!(
            moves[1],
            (Some(Ident::with_quote('"', "B c")), &tablespace("near"))
        );
        let placed = alter("alter table t set (placement = 'interleave:2:1')").expect("placement");
        assert_eq!(
            placed.changes[0].options.place,
            Some(Place::Placement("interleave:2:1".to_owned()))
        );
    }

    #[test]
    fn priorities_of_preloading_are_read() {
        let read = alter(
            "alter table t set (preload = 5, placement = 'far'), alter a set (PRELOAD = '0')",
        )
        .expect("priorities");
        let priorities: Vec<_> = read
            .changes
            .iter()
            .map(|change| change.options.preload.map(PreloadPriority::get))
            .collect();
        assert_eq!(priorities, [Some(5), Some(0)]);
        assert!(read.changes[0].options.place.is_some());
        for wrong in ["10", "-1", "high", "1.5", "''"] {
            let sql = format!("alter table t set (preload = {wrong})");
            let error = alter(&sql).expect_err(&sql);
            assert!(matches!(error, SqlError::PreloadPriority { .. }), "{error}");
        }
    }

    #[test]
    fn other_alterations_are_not_supported() {
        for sql in [
            "alter table t owner to me",
            "alter table t disable trigger all",
            "alter table t alter column c add generated always as (1) stored",
        ] {
            let error = alter(sql).expect_err(sql);
            assert!(matches!(error, SqlError::Unsupported { .. }), "{error}");
        }
        for sql in [
            "alter table t set tablespace",
            "alter table t set tablespace far far",
        ] {
            assert!(matches!(alter(sql), Err(SqlError::Syntax { .. })), "{sql}");
        }
        let error = alter("alter table t set (toast_tuple_target = 70)").expect_err("option");
        assert_eq!(
            error,
            SqlError::UnknownOption {
                name: "toast_tuple_target".to_owned()
            }
        );
    }
}
