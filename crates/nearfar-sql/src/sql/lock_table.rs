//! `LOCK TABLE`.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::DIALECT;
use super::statement::{expect_end, syntax};
use nearfar_table::transaction::TableLockMode;

/// `LOCK [TABLE] [ONLY] t [*], … [IN mode MODE] [NOWAIT]`.
#[derive(Debug, Clone, PartialEq)]
pub struct LockTable {
    /// The tables, in their order.
    pub tables: Vec<ObjectName>,
    /// How they are locked.
    pub mode: TableLockMode,
    /// Whether it fails where it would have to wait.
    pub is_immediate: bool,
}

const MODES: [(&[&str], TableLockMode); 8] = [
    (&["ACCESS", "SHARE"], TableLockMode::AccessShare),
    (&["ROW", "SHARE"], TableLockMode::RowShare),
    (&["ROW", "EXCLUSIVE"], TableLockMode::RowExclusive),
    (
        &["SHARE", "UPDATE", "EXCLUSIVE"],
        TableLockMode::ShareUpdateExclusive,
    ),
    (&["SHARE"], TableLockMode::Share),
    (
        &["SHARE", "ROW", "EXCLUSIVE"],
        TableLockMode::ShareRowExclusive,
    ),
    (&["EXCLUSIVE"], TableLockMode::Exclusive),
    (&["ACCESS", "EXCLUSIVE"], TableLockMode::AccessExclusive),
];

/// # Errors
/// Anything else behind `LOCK`.
pub(super) fn parse_lock_table(tokens: Vec<TokenWithSpan>) -> Result<LockTable, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    parser.expect_keyword(Keyword::LOCK).map_err(syntax)?;
    let _ = parser.parse_keyword(Keyword::TABLE);
    let mut tables = Vec::new();
    loop {
        let _ = parser.parse_keyword(Keyword::ONLY);
        tables.push(parser.parse_object_name(false).map_err(syntax)?);
        let _ = parser.consume_token(&Token::Mul);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    let mode = match parser.parse_keyword(Keyword::IN) {
        true => lock_mode(&mut parser)?,
        false => TableLockMode::AccessExclusive,
    };
    let is_immediate = parser.parse_keyword(Keyword::NOWAIT);
    expect_end(&mut parser)?;
    Ok(LockTable {
        tables,
        mode,
        is_immediate,
    })
}

/// The words before `MODE`.
fn lock_mode(parser: &mut Parser<'_>) -> Result<TableLockMode, SqlError> {
    let mut words = Vec::new();
    let mut has_end = false;
    let end = loop {
        let next = parser.next_token();
        match &next.token {
            Token::Word(word) if word.quote_style.is_none() => {
                words.push(word.value.to_ascii_uppercase());
            }
            _ => break next,
        }
        if words.last().is_some_and(|word| word == "MODE") {
            words.pop();
            has_end = true;
            break next;
        }
    };
    let known = MODES
        .into_iter()
        .find(|(known, _)| has_end && words == *known);
    known.map(|(_, mode)| mode).ok_or_else(|| {
        let expected = parser.expected::<()>("a lock mode such as SHARE MODE", end);
        expected.map_or_else(syntax, |()| SqlError::Syntax {
            message: String::new(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::statement::{StatementKind, statements};
    use super::*;

    fn read(sql: &str) -> LockTable {
        match statements(sql).expect(sql).remove(0).kind() {
            StatementKind::LockTable(lock) => lock.clone(),
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn all_forms_are_read() {
        for (words, mode) in MODES {
            let lock = read(&format!("LOCK TABLE t IN {} MODE", words.join(" ")));
            assert_eq!((lock.mode, lock.is_immediate), (mode, false));
        }
        let lock = read("lock s.t, only \"U\" * in share mode nowait");
        let names: Vec<String> = lock.tables.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["s.t", "\"U\""]);
        assert_eq!((lock.mode, lock.is_immediate), (TableLockMode::Share, true));
        assert_eq!(read("LOCK t").mode, TableLockMode::AccessExclusive);
        assert!(read("LOCK TABLE t NOWAIT").is_immediate);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for sql in [
            "LOCK",
            "LOCK TABLE",
            "LOCK TABLE t IN MODE",
            "LOCK TABLE t IN UPDATE MODE",
            "LOCK TABLE t IN SHARE",
            "LOCK TABLE t IN SHARE MODE NOWAIT NOWAIT",
            "LOCK TABLE t u",
        ] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }
}
