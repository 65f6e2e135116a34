//! Statements, read from their tokens.

use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    CopyOption, CopySource, CopyTarget, ObjectName, Statement as Ast,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::alter::{AlterTable, ColumnOptions, parse_alter};
use super::call::{Call, parse_call};
use super::rewrite;
use super::script::{DIALECT, Piece, is_space, pieces};
use super::transaction::{TransactionCommand, abort_as_rollback, transaction_command};

/// One statement of a script, read but not yet planned.
#[derive(Debug, Clone)]
pub struct Statement {
    text: String,
    kind: StatementKind,
}

impl Statement {
    /// As it was written, without its semicolon.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn kind(&self) -> &StatementKind {
        &self.kind
    }
}

/// What a statement is to Nearfar.
#[derive(Debug, Clone)]
pub(crate) enum StatementKind {
    /// For DataFusion's planner, with what had to be taken out of it.
    DataFusion {
        statement: Box<DfStatement>,
        create: CreateClauses,
    },
    Alter(AlterTable),
    CopyFrom(CopyFrom),
    Transaction(TransactionCommand),
    Call(Call),
    /// `CHECKPOINT`: a savepoint.
    Checkpoint,
}

/// What a `CREATE` says that DataFusion's planner does not know.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CreateClauses {
    pub temporary: bool,
    pub options: ColumnOptions,
}

/// `COPY table FROM 'file'`.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyFrom {
    /// The table that gets the rows.
    pub table: ObjectName,
    /// The file or folder.
    pub path: String,
    /// The format, where it is not the one of the file's ending.
    pub format: Option<String>,
    /// Whether a CSV file begins with the columns' names.
    pub header: bool,
    /// What separates the values of a CSV file.
    pub delimiter: char,
}

/// Reads a script. Nothing of it has run when a statement in it is wrong.
///
/// # Errors
/// The first statement that is not SQL, or that is known not to be supported.
pub fn statements(sql: &str) -> Result<Vec<Statement>, SqlError> {
    pieces(sql)?.into_iter().map(statement).collect()
}

fn statement(piece: Piece) -> Result<Statement, SqlError> {
    let kind = match leading_keywords(&piece.tokens) {
        [Keyword::ALTER, Keyword::TABLE] => StatementKind::Alter(parse_alter(piece.tokens)?),
        [Keyword::COPY, _] if is_copy_from(&piece.tokens) => {
            StatementKind::CopyFrom(parse_copy_from(piece.tokens)?)
        }
        [Keyword::ABORT, _] => datafusion_statement(abort_as_rollback(piece.tokens))?,
        _ if is_checkpoint(&piece.tokens) => StatementKind::Checkpoint,
        [Keyword::CALL, _] => StatementKind::Call(parse_call(piece.tokens)?),
        _ => datafusion_statement(piece.tokens)?,
    };
    Ok(Statement {
        text: piece.text,
        kind,
    })
}

fn datafusion_statement(tokens: Vec<TokenWithSpan>) -> Result<StatementKind, SqlError> {
    let syntax = |error: datafusion::error::DataFusionError| SqlError::Syntax {
        message: match error.find_root() {
            datafusion::error::DataFusionError::SQL(error, _) => message(error),
            other => other.to_string(),
        },
    };
    let mut parser = DFParserBuilder::new(tokens)
        .with_dialect(&DIALECT)
        .build()
        .map_err(syntax)?;
    let mut parsed = parser.parse_statements().map_err(syntax)?;
    let statement = parsed.pop_front().ok_or_else(|| SqlError::Syntax {
        message: "an empty statement".to_owned(),
    })?;
    if let DfStatement::Statement(ast) = &statement
        && let Some(command) = transaction_command(ast)?
    {
        return Ok(StatementKind::Transaction(command));
    }
    let (statement, create) = rewrite::rewrite(statement)?;
    Ok(StatementKind::DataFusion {
        statement: Box::new(statement),
        create,
    })
}

/// Whether the statement is nothing but `CHECKPOINT`.
fn is_checkpoint(tokens: &[TokenWithSpan]) -> bool {
    let mut tokens = tokens.iter().filter(|t| !is_space(&t.token));
    let is_word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.value.eq_ignore_ascii_case("checkpoint"),
        _ => false,
    };
    tokens.next().is_some_and(is_word) && tokens.next().is_none()
}

/// The first two keywords, where there are two words.
fn leading_keywords(tokens: &[TokenWithSpan]) -> [Keyword; 2] {
    let mut words = tokens
        .iter()
        .filter(|t| !is_space(&t.token))
        .map(|t| match &t.token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        });
    [(); 2].map(|()| words.next().unwrap_or(Keyword::NoKeyword))
}

/// Whether the first of `FROM` and `TO` outside of parentheses is `FROM`.
fn is_copy_from(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0usize;
    for token in tokens {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && word.keyword == Keyword::FROM => return true,
            Token::Word(word) if depth == 0 && word.keyword == Keyword::TO => return false,
            _ => {}
        }
    }
    false
}

fn parse_copy_from(tokens: Vec<TokenWithSpan>) -> Result<CopyFrom, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().map_err(syntax)?;
    expect_end(&mut parser)?;
    let unsupported = |clause: &str| {
        SqlError::unsupported(
            format!("COPY … FROM with {clause}"),
            "use COPY table FROM 'file'",
        )
    };
    let Ast::Copy {
        source,
        target,
        options,
        legacy_options,
        ..
    } = parsed
    else {
        return Err(unsupported("this clause"));
    };
    let table = match source {
        CopySource::Table {
            table_name,
            columns,
        } if columns.is_empty() => table_name,
        CopySource::Table { .. } => return Err(unsupported("a list of columns")),
        CopySource::Query(_) => return Err(unsupported("a query")),
    };
    let CopyTarget::File { filename: path } = target else {
        return Err(unsupported("STDIN or PROGRAM"));
    };
    if !legacy_options.is_empty() {
        return Err(unsupported("options outside of parentheses"));
    }
    let mut copy = CopyFrom {
        table,
        path,
        format: None,
        header: true,
        delimiter: ',',
    };
    for option in options {
        match option {
            CopyOption::Format(format) => copy.format = Some(format.value),
            CopyOption::Header(header) => copy.header = header,
            CopyOption::Delimiter(delimiter) => copy.delimiter = delimiter,
            other => return Err(unsupported(&other.to_string())),
        }
    }
    Ok(copy)
}

pub(super) fn expect_end(parser: &mut Parser<'_>) -> Result<(), SqlError> {
    match parser.peek_token() {
        TokenWithSpan {
            token: Token::EOF, ..
        } => Ok(()),
        found => parser.expected("end of statement", found).map_err(syntax),
    }
}

pub(super) fn syntax(error: ParserError) -> SqlError {
    SqlError::Syntax {
        message: message(&error),
    }
}

/// The parser's message without the name of the parser.
fn message(error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.clone(),
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    }
}
