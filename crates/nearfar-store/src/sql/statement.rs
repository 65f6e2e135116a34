//! Statements, read from their tokens.

use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::DataType;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::alter::{AlterTable, ColumnOptions, parse_alter};
use super::call::{Call, parse_call};
use super::copy::{ClientCopy, CopyFrom, CopyIn, CopyOut, is_read_here, parse_copy};
use super::parameters::cast_parameters;
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

    /// The rows that the statement copies from or to the client, if it does.
    pub fn client_copy(&self) -> Option<ClientCopy<'_>> {
        match &self.kind {
            StatementKind::CopyIn(copy) => Some(ClientCopy::In(copy)),
            StatementKind::CopyOut(copy) => Some(ClientCopy::Out(copy)),
            _ => None,
        }
    }

    /// The same with each of its parameters cast to the type that `of` has for its number, from 1;
    /// for parameters whose types do not follow from where they stand. None if there is none to cast.
    pub fn with_parameter_types(&self, of: impl Fn(usize) -> Option<DataType>) -> Option<Self> {
        let StatementKind::DataFusion { statement, create } = &self.kind else {
            return None;
        };
        let statement = cast_parameters(statement, of)?;
        Some(Self {
            text: self.text.clone(),
            kind: StatementKind::DataFusion {
                statement: Box::new(statement),
                create: create.clone(),
            },
        })
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
    CopyIn(CopyIn),
    CopyOut(CopyOut),
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
        [Keyword::COPY, _] if is_read_here(&piece.tokens) => parse_copy(piece.tokens)?,
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
