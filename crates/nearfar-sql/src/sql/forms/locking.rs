//! Clauses that lock the rows of a query: `FOR UPDATE` and its like.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{LockClause, LockType, NonBlock, Query, Statement as Ast};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::SqlError;
use crate::sql::script::is_space;
use nearfar_table::transaction::LockMode;

/// What is done about rows that another transaction has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// Their transaction is waited for.
    Wait,
    /// The statement fails.
    Fail,
    /// They are left out.
    Skip,
}

/// Which rows a query locks, and against whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowLocking {
    /// Names of tables in `FROM`, in lower case unless quoted; all of them if there are none.
    pub of: Vec<String>,
    pub wait: LockWait,
    /// As for a change of the rows, or shared with others that do not change them.
    pub mode: LockMode,
}

/// Takes the clause out of a query that is a statement of its own, or is explained.
///
/// # Errors
/// Several clauses that differ in what they wait for.
pub(in crate::sql) fn take_locking(
    statement: &mut DfStatement,
) -> Result<Option<RowLocking>, SqlError> {
    match statement {
        DfStatement::Statement(ast) => match ast.as_mut() {
            Ast::Query(query) => locking_of(&std::mem::take(&mut query.locks)),
            _ => Ok(None),
        },
        // Nothing is locked by a look at the plan.
        DfStatement::Explain(explain) => take_locking(&mut explain.statement).map(|_| None),
        _ => Ok(None),
    }
}

fn locking_of(clauses: &[LockClause]) -> Result<Option<RowLocking>, SqlError> {
    let Some(first) = clauses.first() else {
        return Ok(None);
    };
    if clauses
        .iter()
        .any(|clause| clause.nonblock != first.nonblock)
    {
        let what = "FOR UPDATE of several tables, with NOWAIT or SKIP LOCKED for some of them";
        return Err(SqlError::unsupported(what, "say it for all of them"));
    }
    let is_of_all = clauses.iter().any(|clause| clause.of.is_none());
    let named = clauses.iter().filter_map(|clause| clause.of.as_ref());
    let named = named.filter_map(|name| name.0.last()?.as_ident());
    let of = match is_of_all {
        true => Vec::new(),
        false => named.map(crate::sql::statement::normalised).collect(),
    };
    let wait = match first.nonblock {
        None => LockWait::Wait,
        Some(NonBlock::Nowait) => LockWait::Fail,
        Some(NonBlock::SkipLocked) => LockWait::Skip,
    };
    let is_update = |clause: &LockClause| matches!(clause.lock_type, LockType::Update);
    let mode = match clauses.iter().any(is_update) {
        true => LockMode::Exclusive,
        false => LockMode::Shared,
    };
    Ok(Some(RowLocking { of, wait, mode }))
}

/// Refuses a query within another statement that asks for its rows to be locked.
///
/// # Errors
/// Such a query.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    match query.locks.first() {
        Some(lock) => Err(SqlError::unsupported(
            format!("{lock} within another statement"),
            "lock the rows with a query of its own before",
        )),
        None => Ok(()),
    }
}

/// The strengths of locks that the parser does not know as those of which they are weaker kinds: `FOR NO KEY UPDATE`
/// as `FOR UPDATE`, and `FOR KEY SHARE` as `FOR SHARE`. Rows that refer to a row lock its key, and not the row.
pub(in crate::sql) fn simplify_locks(tokens: &mut Vec<TokenWithSpan>) {
    const WEAKER: [(&[Keyword], usize); 2] = [
        (
            &[Keyword::FOR, Keyword::NO, Keyword::KEY, Keyword::UPDATE],
            2,
        ),
        (&[Keyword::FOR, Keyword::KEY, Keyword::SHARE], 1),
    ];
    let is_word = |token: &Token, keyword: Keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at].token, Keyword::FOR) {
            let words = || (at..tokens.len()).filter(|at| !is_space(&tokens[*at].token));
            let weaker = WEAKER.iter().find(|(keywords, _)| {
                let mut words = words();
                let mut keywords = keywords.iter();
                keywords.all(|keyword| {
                    words
                        .next()
                        .is_some_and(|at| is_word(&tokens[at].token, *keyword))
                })
            });
            if let Some((_, count)) = weaker {
                let extra: Vec<usize> = words().skip(1).take(*count).collect();
                for at in extra.into_iter().rev() {
                    tokens.remove(at);
                }
            }
        }
        at += 1;
    }
}
