//! Statements, read from their tokens.

use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{DataType, Ident, SetExpr, Statement as Ast};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::alter::{AlterTable, ColumnOptions, parse_alter};
use super::call::{Call, parse_call};
use super::constraints::ConstraintClause;
use super::copy::{ClientCopy, CopyFrom, CopyIn, CopyOut, is_read_here, parse_copy};
use super::cursors::{CursorCommand, parse_cursor};
use super::defaults::take_overriding;
use super::depth::{self, PARSER_STEPS_MAX};
use super::distribution::{Distributed, take_distribution};
use super::forms::{RowLocking, mark_in_lists, mark_merge_actions, simplify_locks, take_locking};
use super::indexes::{
    AlterIndex, CreateIndex, DropIndex, KeyClause, create_index, drop_index, parse_alter_index,
    take_tablespace,
};
use super::limits::check_statement;
use super::lock_table::{LockTable, parse_lock_table};
use super::parameters::cast_parameters;
use super::rewrite;
use super::script::{DIALECT, Piece, is_space, pieces};
use super::sequences::{NumberedColumn, SequenceCommand, parse_sequence};
use super::session::{SessionCommand, parse_session};
use super::tables::{TablesCommand, parse_maintenance, tables_command};
use super::transaction::{TransactionCommand, abort_as_rollback, transaction_command};
use crate::memory::Charge;
use crate::stack::with_stack;
use crate::values::Declared;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

/// One statement of a script, read but not yet planned. Cheap to clone: clones share what the engine has made of it.
#[derive(Debug, Clone)]
pub struct Statement {
    text: Arc<str>,
    kind: Arc<StatementKind>,
    /// The memory that it takes while it is kept.
    charge: Option<Arc<Charge>>,
    /// Where the rows of the table that it creates are in a cluster.
    distribution: Option<Distributed>,
    /// What the engine has made of it.
    compiled: Arc<Mutex<Option<Arc<dyn Any + Send + Sync>>>>,
}

impl Statement {
    fn new(text: String, kind: StatementKind) -> Self {
        Self {
            text: text.into(),
            kind: Arc::new(kind),
            charge: None,
            distribution: None,
            compiled: Arc::default(),
        }
    }

    /// As it was written, without its semicolon.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The rows that the statement copies from or to the client, if it does.
    pub fn client_copy(&self) -> Option<ClientCopy<'_>> {
        match self.kind() {
            StatementKind::CopyIn(copy) => Some(ClientCopy::In(copy)),
            StatementKind::CopyOut(copy) => Some(ClientCopy::Out(copy)),
            _ => None,
        }
    }

    /// The same with each of its parameters cast to the type that `of` has for its number, from 1;
    /// for parameters whose types do not follow from where they stand. None if there is none to cast.
    pub fn with_parameter_types(&self, of: impl Fn(usize) -> Option<DataType>) -> Option<Self> {
        if let StatementKind::Cursor(CursorCommand::Declare {
            name,
            is_held,
            query,
        }) = self.kind()
        {
            // A query has no cursor within it.
            let query = Box::new(query.with_types_of_query(of)?);
            return Some(Self {
                kind: Arc::new(StatementKind::Cursor(CursorCommand::Declare {
                    name: name.clone(),
                    is_held: *is_held,
                    query,
                })),
                compiled: Arc::default(),
                ..self.clone()
            });
        }
        self.with_types_of_query(of)
    }

    fn with_types_of_query(&self, of: impl Fn(usize) -> Option<DataType>) -> Option<Self> {
        let StatementKind::DataFusion {
            statement,
            create,
            locking,
        } = self.kind()
        else {
            return None;
        };
        let statement = cast_parameters(statement, of)?;
        Some(Self {
            charge: self.charge.clone(),
            distribution: self.distribution.clone(),
            compiled: Arc::default(),
            text: Arc::clone(&self.text),
            kind: Arc::new(StatementKind::DataFusion {
                statement: Box::new(statement),
                create: create.clone(),
                locking: locking.clone(),
            }),
        })
    }

    /// The same, which keeps what its text and trees are charged with.
    pub(crate) fn charged(self, charge: &Arc<Charge>) -> Self {
        Self {
            charge: Some(Arc::clone(charge)),
            ..self
        }
    }

    /// What the engine has made of it before, where that was a `T`.
    pub(crate) fn compiled<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.compiled.lock().clone()?.downcast().ok()
    }

    /// Keeps what the engine has made of it.
    pub(crate) fn keep_compiled<T: Any + Send + Sync>(&self, compiled: T) {
        *self.compiled.lock() = Some(Arc::new(compiled));
    }

    /// Forgets what the engine has made of it.
    pub(crate) fn forget_compiled(&self) {
        *self.compiled.lock() = None;
    }

    /// Where the rows of the table that it creates are in a cluster, if it says so.
    pub fn distribution(&self) -> Option<&Distributed> {
        self.distribution.as_ref()
    }

    /// What the statement does to the session itself, if it is about that.
    pub fn session_command(&self) -> Option<&SessionCommand> {
        match self.kind() {
            StatementKind::Session(command) => Some(command),
            _ => None,
        }
    }

    /// The name under which the statement prepares another, if it is a `PREPARE`.
    pub fn prepared_name(&self) -> Option<String> {
        match self.kind() {
            StatementKind::DataFusion { statement, .. } => match statement.as_ref() {
                DfStatement::Statement(ast) => match ast.as_ref() {
                    Ast::Prepare { name, .. } => Some(normalised(name)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether it is a query: `SELECT`, `VALUES`, or `WITH` before one of them.
    pub fn is_query(&self) -> bool {
        let StatementKind::DataFusion { statement, .. } = self.kind() else {
            return false;
        };
        let DfStatement::Statement(ast) = statement.as_ref() else {
            return false;
        };
        match ast.as_ref() {
            Ast::Query(query) => matches!(
                query.body.as_ref(),
                SetExpr::Select(_)
                    | SetExpr::Query(_)
                    | SetExpr::SetOperation { .. }
                    | SetExpr::Values(_)
            ),
            _ => false,
        }
    }

    /// Whether it may read or change the database: all do but those about the session and its transaction, locks of tables,
    /// checkpoints, and `SHOW`.
    pub(crate) fn is_of_database(&self) -> bool {
        match self.kind() {
            StatementKind::Transaction(_)
            | StatementKind::Session(_)
            | StatementKind::LockTable(_)
            | StatementKind::Checkpoint => false,
            StatementKind::DataFusion { statement, .. } => match statement.as_ref() {
                DfStatement::Statement(ast) => !matches!(ast.as_ref(), Ast::ShowVariable { .. }),
                _ => true,
            },
            _ => true,
        }
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
        locking: Option<RowLocking>,
    },
    Alter(AlterTable),
    CreateIndex(CreateIndex),
    DropIndex(DropIndex),
    /// `ALTER INDEX`.
    AlterIndex(AlterIndex),
    Sequence(SequenceCommand),
    CopyFrom(CopyFrom),
    CopyIn(CopyIn),
    CopyOut(CopyOut),
    Transaction(TransactionCommand),
    Call(Call),
    /// What is about a cursor.
    Cursor(CursorCommand),
    /// `LOCK TABLE`.
    LockTable(LockTable),
    /// `CHECKPOINT`: a checkpoint.
    Checkpoint,
    /// What is done to several tables.
    Tables(TablesCommand),
    /// What is about the session itself.
    Session(SessionCommand),
}

/// What a `CREATE` says that DataFusion's planner does not know.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CreateClauses {
    pub temporary: bool,
    pub options: ColumnOptions,
    /// Columns whose texts have a declared length.
    pub declared: Vec<(String, Declared)>,
    pub keys: Vec<KeyClause>,
    /// What rows have to be.
    pub constraints: Vec<ConstraintClause>,
    /// What columns get in rows that are added without a value for them.
    pub defaults: Vec<(String, String)>,
    /// Columns that take their values from sequences of their own.
    pub numbered: Vec<NumberedColumn>,
}

/// Reads a script. Nothing of it has run when a statement in it is wrong.
///
/// # Errors
/// The first statement that is not SQL, or that is known not to be supported.
pub fn statements(sql: &str) -> Result<Vec<Statement>, SqlError> {
    let pieces = pieces(sql)?.into_iter();
    with_stack(|| pieces.map(statement).collect())
}

pub(super) fn statement(mut piece: Piece) -> Result<Statement, SqlError> {
    depth::check(&piece.tokens)?;
    simplify_locks(&mut piece.tokens);
    let leading = leading_keywords(&piece.tokens);
    let distribution = match leading {
        [Keyword::CREATE, Keyword::TABLE] => take_distribution(&mut piece.tokens)?,
        _ => None,
    };
    if let Some(command) = parse_cursor(&piece)? {
        return Ok(Statement::new(piece.text, StatementKind::Cursor(command)));
    }
    if let Some(command) = parse_session(leading[0], &piece.tokens)? {
        return Ok(Statement::new(piece.text, StatementKind::Session(command)));
    }
    if let Some(command) = parse_sequence(&piece.tokens)? {
        return Ok(Statement::new(piece.text, StatementKind::Sequence(command)));
    }
    let kind = match leading {
        [Keyword::ALTER, Keyword::TABLE] => StatementKind::Alter(parse_alter(piece.tokens)?),
        [Keyword::ALTER, Keyword::INDEX] => {
            StatementKind::AlterIndex(parse_alter_index(piece.tokens)?)
        }
        [Keyword::COPY, _] if is_read_here(&piece.tokens) => parse_copy(piece.tokens)?,
        [Keyword::ABORT, _] => datafusion_statement(abort_as_rollback(piece.tokens), None)?,
        _ if is_checkpoint(&piece.tokens) => StatementKind::Checkpoint,
        [Keyword::LOCK, _] => StatementKind::LockTable(parse_lock_table(piece.tokens)?),
        [Keyword::CALL, _] => StatementKind::Call(parse_call(piece.tokens)?),
        [Keyword::VACUUM | Keyword::ANALYZE, _] => {
            StatementKind::Tables(parse_maintenance(piece.tokens)?)
        }
        _ if begins_with(&piece.tokens, "analyse") => {
            StatementKind::Tables(parse_maintenance(piece.tokens)?)
        }
        [Keyword::CREATE, Keyword::INDEX | Keyword::UNIQUE] => {
            let mut tokens = piece.tokens;
            let tablespace = take_tablespace(&mut tokens)?;
            datafusion_statement(tokens, tablespace)?
        }
        _ => datafusion_statement(piece.tokens, None)?,
    };
    Ok(Statement {
        distribution,
        ..Statement::new(piece.text, kind)
    })
}

/// A statement that sqlparser reads, but for the `tablespace` of an index, which was taken out.
fn datafusion_statement(
    mut tokens: Vec<TokenWithSpan>,
    tablespace: Option<String>,
) -> Result<StatementKind, SqlError> {
    mark_in_lists(&mut tokens);
    mark_merge_actions(&mut tokens);
    let overriding = take_overriding(&mut tokens);
    let syntax = |error: datafusion::error::DataFusionError| SqlError::Syntax {
        message: match error.find_root() {
            datafusion::error::DataFusionError::SQL(error, _) => message(error),
            other => other.to_string(),
        },
    };
    let mut parser = DFParserBuilder::new(tokens)
        .with_dialect(&DIALECT)
        .with_recursion_limit(PARSER_STEPS_MAX)
        .build()
        .map_err(syntax)?;
    let mut parsed = parser.parse_statements().map_err(syntax)?;
    let mut statement = parsed.pop_front().ok_or_else(|| SqlError::Syntax {
        message: "an empty statement".to_owned(),
    })?;
    check_statement(&statement)?;
    if let Some(overriding) = overriding {
        overriding.mark(&mut statement)?;
    }
    if let DfStatement::Statement(ast) = &statement {
        if let Some(command) = transaction_command(ast)? {
            return Ok(StatementKind::Transaction(command));
        }
        if let Some(command) = tables_command(ast)? {
            return Ok(StatementKind::Tables(command));
        }
        if let Some(create) = create_index(ast, tablespace)? {
            return Ok(StatementKind::CreateIndex(create));
        }
        if let Some(drop) = drop_index(ast) {
            return Ok(StatementKind::DropIndex(drop));
        }
    }
    let locking = take_locking(&mut statement)?;
    let (statement, create) = rewrite::rewrite(statement)?;
    Ok(StatementKind::DataFusion {
        statement: Box::new(statement),
        create,
        locking,
    })
}

/// A name as PostgreSQL keeps it: in lower case where it is not quoted.
pub(super) fn normalised(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// The first of some names that is there twice.
pub(super) fn named_twice<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name))
}

/// Whether the statement is nothing but `CHECKPOINT`.
fn is_checkpoint(tokens: &[TokenWithSpan]) -> bool {
    let words = tokens.iter().filter(|t| !is_space(&t.token)).count();
    words == 1 && begins_with(tokens, "checkpoint")
}

/// Whether the first word is this one.
fn begins_with(tokens: &[TokenWithSpan], expected: &str) -> bool {
    let first = tokens.iter().find(|t| !is_space(&t.token));
    matches!(first.map(|t| &t.token), Some(Token::Word(word)) if word.value.eq_ignore_ascii_case(expected))
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
