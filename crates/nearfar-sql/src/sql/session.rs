//! Statements about the session itself: its settings, and what it has prepared and made for itself.

use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, ObjectName, Set, SetSessionAuthorizationParamKind, Statement as Ast,
    TransactionMode, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::SqlError;
use super::script::is_space;
use super::statement::{expect_end, syntax};
use super::transaction::{TransactionModes, transaction_modes};
use crate::settings::{DEFAULT_ISOLATION, isolation_name};

/// A statement about the session itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// `SET [SESSION | LOCAL] name = value`, or `TO DEFAULT`.
    Set {
        /// The setting, in lower case, its parts joined by periods.
        name: String,
        /// The value, as text; none for the one that it had at first.
        value: Option<String>,
        /// Whether it ends with the transaction.
        is_local: bool,
    },
    /// `SET TRANSACTION`: of the transaction that is open.
    SetTransaction {
        /// What is said of it.
        modes: TransactionModes,
    },
    /// `SET CONSTRAINTS`: when foreign keys that can be deferred are checked, in the transaction that is open.
    SetConstraints {
        /// Their names; none for all.
        names: Vec<String>,
        /// Whether at its end.
        is_deferred: bool,
    },
    /// `RESET name`.
    Reset {
        /// The setting, as above.
        name: String,
    },
    /// `RESET ALL`: the settings that are the session's own.
    ResetAll,
    /// `DEALLOCATE name`.
    Deallocate {
        /// The prepared statement.
        name: String,
    },
    /// `DEALLOCATE ALL`.
    DeallocateAll,
    /// `DISCARD ALL`: everything of the session, as if it were new.
    DiscardAll,
    /// `DISCARD TEMP`: the temporary tables.
    DiscardTemporary,
    /// What drivers send to end what there never is here, such as `UNLISTEN *`, and what sets
    /// something to what it always is, such as `RESET ROLE`.
    Nothing {
        /// What the client is told.
        tag: &'static str,
    },
}

/// The command that a statement is, if its first keyword is that of one.
///
/// # Errors
/// A statement that is wrong, or that is known not to be supported.
pub(super) fn parse_session(
    first: Keyword,
    tokens: &[TokenWithSpan],
) -> Result<Option<SessionCommand>, SqlError> {
    let words = || -> Vec<&Token> {
        let all = tokens.iter().map(|token| &token.token);
        all.filter(|token| !is_space(token)).skip(1).collect()
    };
    match first {
        Keyword::SET if begins_with(&words(), "CONSTRAINTS") => {
            set_constraints(&words(), tokens).map(Some)
        }
        Keyword::SET => parse_set(tokens),
        Keyword::ALTER => owner(&words()),
        Keyword::COMMENT => comment(&words(), tokens).map(Some),
        Keyword::RESET => reset(&words(), tokens).map(Some),
        Keyword::DISCARD => discard(&words(), tokens).map(Some),
        Keyword::DEALLOCATE => deallocate(&words(), tokens).map(Some),
        Keyword::UNLISTEN if matches!(words()[..], [Token::Mul | Token::Word(_)]) => {
            Ok(Some(nothing("UNLISTEN")))
        }
        Keyword::LISTEN => Err(no_messages("LISTEN")),
        Keyword::NOTIFY => Err(no_messages("NOTIFY")),
        _ => Ok(None),
    }
}

/// The refusal of what would send messages between sessions.
fn no_messages(statement: &str) -> SqlError {
    SqlError::unsupported(
        statement,
        "sessions send each other no messages: ask a table for what is new",
    )
}

fn begins_with(words: &[&Token], keyword: &str) -> bool {
    matches!(words, [Token::Word(word), ..] if is_plain(word, keyword))
}

/// The words after `SET`, of which the first is `CONSTRAINTS`.
fn set_constraints(words: &[&Token], tokens: &[TokenWithSpan]) -> Result<SessionCommand, SqlError> {
    let [_, names @ .., Token::Word(moment)] = words else {
        return Err(wrong("ALL DEFERRED or ALL IMMEDIATE", tokens));
    };
    let is_deferred = is_plain(moment, "DEFERRED");
    if !is_deferred && !is_plain(moment, "IMMEDIATE") {
        return Err(wrong("DEFERRED or IMMEDIATE", tokens));
    }
    let names = match names {
        [Token::Word(all)] if is_plain(all, "ALL") => Vec::new(),
        names => {
            let names = names.split(|token| **token == Token::Comma);
            // Names differ where their schemas do, and are looked for in all of them.
            let names = names.map(|name| match name {
                [Token::Word(name)] | [Token::Word(_), Token::Period, Token::Word(name)] => {
                    Ok(match name.quote_style {
                        Some(_) => name.value.clone(),
                        None => name.value.to_lowercase(),
                    })
                }
                _ => Err(wrong("ALL, or names of constraints", tokens)),
            });
            names.collect::<Result<_, _>>()?
        }
    };
    Ok(SessionCommand::SetConstraints { names, is_deferred })
}

/// Who everything belongs to.
const OWNER: &str = "nearfar";

/// The words after `ALTER`, where they give something to its owner.
fn owner(words: &[&Token]) -> Result<Option<SessionCommand>, SqlError> {
    let [
        Token::Word(kind),
        ..,
        Token::Word(owner),
        Token::Word(to),
        Token::Word(name),
    ] = words
    else {
        return Ok(None);
    };
    if !is_plain(owner, "OWNER") || !is_plain(to, "TO") {
        return Ok(None);
    }
    let known = ["CURRENT_ROLE", "CURRENT_USER", "SESSION_USER"];
    if name.value != OWNER && !known.iter().any(|known| is_plain(name, known)) {
        return Err(SqlError::unsupported(
            format!("ALTER {} … OWNER TO {}", kind.value, name.value),
            "everything belongs to nearfar: leave it out, as pg_dump --no-owner does",
        ));
    }
    let kinds = [
        ("TABLE", "ALTER TABLE"),
        ("SCHEMA", "ALTER SCHEMA"),
        ("SEQUENCE", "ALTER SEQUENCE"),
        ("VIEW", "ALTER VIEW"),
    ];
    let kind = kinds.iter().find(|(word, _)| is_plain(kind, word));
    Ok(kind.map(|(_, tag)| nothing(tag)))
}

/// The words after `COMMENT`. There are no comments, so that one can be taken away only, as `pg_dump` does.
fn comment(words: &[&Token], tokens: &[TokenWithSpan]) -> Result<SessionCommand, SqlError> {
    let [Token::Word(on), _, .., Token::Word(is), text] = words else {
        return Err(wrong(
            "ON, what it is about, IS, and a text or NULL",
            tokens,
        ));
    };
    if !is_plain(on, "ON") || !is_plain(is, "IS") {
        return Err(wrong(
            "ON, what it is about, IS, and a text or NULL",
            tokens,
        ));
    }
    let is_taken_away = match text {
        Token::SingleQuotedString(text) => text.is_empty(),
        Token::Word(null) => is_plain(null, "NULL"),
        _ => false,
    };
    match is_taken_away {
        true => Ok(nothing("COMMENT")),
        false => Err(SqlError::unsupported(
            "COMMENT",
            "comments are not kept: leave it out, as pg_dump --no-comments does",
        )),
    }
}

fn nothing(tag: &'static str) -> SessionCommand {
    SessionCommand::Nothing { tag }
}

fn is_plain(word: &Word, keyword: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword)
}

/// The words after `RESET`.
fn reset(words: &[&Token], tokens: &[TokenWithSpan]) -> Result<SessionCommand, SqlError> {
    match words {
        [Token::Word(all)] if is_plain(all, "ALL") => Ok(SessionCommand::ResetAll),
        [Token::Word(role)] if is_plain(role, "ROLE") => Ok(nothing("RESET")),
        [Token::Word(session), Token::Word(authorization)]
            if is_plain(session, "SESSION") && is_plain(authorization, "AUTHORIZATION") =>
        {
            Ok(nothing("RESET"))
        }
        [Token::Word(time), Token::Word(zone)]
            if is_plain(time, "TIME") && is_plain(zone, "ZONE") =>
        {
            let name = "timezone".to_owned();
            Ok(SessionCommand::Reset { name })
        }
        _ => {
            let name = setting_name(words).ok_or_else(|| wrong("a setting or ALL", tokens))?;
            Ok(SessionCommand::Reset { name })
        }
    }
}

/// A name of words with periods between them.
fn setting_name(words: &[&Token]) -> Option<String> {
    let mut name = String::new();
    for (at, token) in words.iter().enumerate() {
        match (token, at % 2) {
            (Token::Word(word), 0) => name.push_str(&word.value.to_lowercase()),
            (Token::Period, 1) if at + 1 < words.len() => name.push('.'),
            _ => return None,
        }
    }
    (!name.is_empty()).then_some(name)
}

fn discard(words: &[&Token], tokens: &[TokenWithSpan]) -> Result<SessionCommand, SqlError> {
    let [Token::Word(what)] = words else {
        return Err(wrong("ALL, PLANS, SEQUENCES or TEMP", tokens));
    };
    match what.value.to_ascii_uppercase().as_str() {
        "ALL" => Ok(SessionCommand::DiscardAll),
        "TEMP" | "TEMPORARY" => Ok(SessionCommand::DiscardTemporary),
        "PLANS" => Ok(nothing("DISCARD PLANS")),
        "SEQUENCES" => Ok(nothing("DISCARD SEQUENCES")),
        _ => Err(wrong("ALL, PLANS, SEQUENCES or TEMP", tokens)),
    }
}

fn deallocate(words: &[&Token], tokens: &[TokenWithSpan]) -> Result<SessionCommand, SqlError> {
    let words = match words {
        [Token::Word(prepare), rest @ ..] if !rest.is_empty() && is_plain(prepare, "PREPARE") => {
            rest
        }
        all => all,
    };
    match words {
        [Token::Word(all)] if is_plain(all, "ALL") => Ok(SessionCommand::DeallocateAll),
        [Token::Word(name)] => {
            let name = match name.quote_style {
                Some(_) => name.value.clone(),
                None => name.value.to_lowercase(),
            };
            Ok(SessionCommand::Deallocate { name })
        }
        _ => Err(wrong("a prepared statement or ALL", tokens)),
    }
}

/// A statement that ends where `expected` should be, or goes on behind it.
fn wrong(expected: &str, tokens: &[TokenWithSpan]) -> SqlError {
    let last = tokens.iter().rfind(|token| !is_space(&token.token));
    let place = last.map_or_else(String::new, |last| {
        let place = last.span.start;
        format!(" at Line: {}, Column: {}", place.line, place.column)
    });
    SqlError::Syntax {
        message: format!("Expected: {expected}{place}"),
    }
}

/// `SET`; none for a form that is left to DataFusion, which refuses it.
fn parse_set(tokens: &[TokenWithSpan]) -> Result<Option<SessionCommand>, SqlError> {
    // The dialect of the other statements reads no lists of values behind a scope.
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens.to_vec());
    let parsed = parser.parse_statement().map_err(syntax)?;
    expect_end(&mut parser)?;
    let Ast::Set(set) = parsed else {
        return Ok(None);
    };
    Ok(match set {
        Set::SingleAssignment {
            scope,
            variable,
            values,
            ..
        } => {
            let name = joined(&variable).ok_or_else(|| wrong("a setting", tokens))?;
            let is_local = scope == Some(ContextModifier::Local);
            Some(match setting_value(&values) {
                Some(value) => SessionCommand::Set {
                    name,
                    value: Some(value).filter(|text| !is_default(&values) && !text.is_empty()),
                    is_local,
                },
                None => {
                    return Err(SqlError::SettingValue {
                        name,
                        value: values.iter().map(ToString::to_string).collect(),
                        allowed: "use a number, a word or a text in quotes".to_owned(),
                    });
                }
            })
        }
        Set::SetTimeZone { local, value } => {
            let (name, values) = ("timezone".to_owned(), [value]);
            let is_word_local = matches!(&values[..], [Expr::Identifier(word)]
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("local"));
            setting_value(&values).map(|value| SessionCommand::Set {
                name,
                value: Some(value).filter(|_| !is_word_local && !is_default(&values)),
                is_local: local,
            })
        }
        Set::SetSessionAuthorization(authorization)
            if matches!(
                authorization.kind,
                SetSessionAuthorizationParamKind::Default
            ) =>
        {
            Some(nothing("SET"))
        }
        Set::SetRole {
            role_name: None, ..
        } => Some(nothing("SET")),
        Set::SetTransaction {
            modes,
            snapshot: None,
            session,
        } => Some(characteristics(&modes, session)?),
        _ => None,
    })
}

/// `SET TRANSACTION` and `SET SESSION CHARACTERISTICS AS TRANSACTION`.
fn characteristics(
    modes: &[TransactionMode],
    of_session: bool,
) -> Result<SessionCommand, SqlError> {
    let said = transaction_modes(modes)?;
    match said.isolation {
        _ if !of_session => Ok(SessionCommand::SetTransaction { modes: said }),
        _ if said.is_read_only => Err(SqlError::unsupported(
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "use BEGIN READ ONLY",
        )),
        Some(isolation) => Ok(SessionCommand::Set {
            name: DEFAULT_ISOLATION.to_owned(),
            value: Some(isolation_name(isolation).to_owned()),
            is_local: false,
        }),
        None => Ok(nothing("SET")),
    }
}

fn joined(name: &ObjectName) -> Option<String> {
    let parts = name.0.iter().map(|part| part.as_ident());
    let parts = parts.map(|part| part.map(|part| part.value.to_lowercase()));
    Some(parts.collect::<Option<Vec<_>>>()?.join("."))
}

fn is_default(values: &[Expr]) -> bool {
    matches!(values, [Expr::Identifier(word)]
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}

/// Values as text, several with commas between them.
fn setting_value(values: &[Expr]) -> Option<String> {
    let values: Option<Vec<String>> = values.iter().map(one_value).collect();
    Some(values?.join(", "))
}

fn one_value(value: &Expr) -> Option<String> {
    match value {
        Expr::Identifier(word) => Some(match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        }),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                Some(text.clone())
            }
            Value::DollarQuotedString(text) => Some(text.value.clone()),
            Value::Number(number, _) => Some(number.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::UnaryOp {
            op: sign @ (UnaryOperator::Plus | UnaryOperator::Minus),
            expr,
        } => Some(format!("{sign}{}", one_value(expr)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::statement::{StatementKind, statements};
    use super::*;
    use nearfar_table::transaction::Isolation;

    fn command(sql: &str) -> SessionCommand {
        match statements(sql).expect(sql).remove(0).kind() {
            StatementKind::Session(command) => command.clone(),
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn set(name: &str, value: &str) -> SessionCommand {
        SessionCommand::Set {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            is_local: false,
        }
    }

    fn local(name: &str, value: Option<&str>) -> SessionCommand {
        SessionCommand::Set {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            is_local: true,
        }
    }

    fn default(name: &str) -> SessionCommand {
        SessionCommand::Set {
            name: name.to_owned(),
            value: None,
            is_local: false,
        }
    }

    fn reset(name: &str) -> SessionCommand {
        let name = name.to_owned();
        SessionCommand::Reset { name }
    }

    #[test]
    fn settings_are_read_in_every_spelling() {
        for (sql, expected) in [
            ("SET a = 1", set("a", "1")),
            ("set session A to B", set("a", "b")),
            ("SET LOCAL x.Y = 'Text'", local("x.y", Some("Text"))),
            ("set local a to default", local("a", None)),
            ("SET LOCAL TIME ZONE 'UTC'", local("timezone", Some("UTC"))),
            ("SET \"x.y\" = -1", set("x.y", "-1")),
            ("SET \"x\".\"Y\" = on", set("x.y", "on")),
            ("SET a TO DEFAULT", default("a")),
            ("SET a = b, c", set("a", "b, c")),
            ("SET SESSION a TO b, 'C'", set("a", "b, C")),
            ("SET TIME ZONE 'UTC'", set("timezone", "UTC")),
            ("SET TIME ZONE LOCAL", default("timezone")),
            ("RESET a", reset("a")),
            ("RESET X.\"y\"", reset("x.y")),
            ("RESET TIME ZONE", reset("timezone")),
            ("RESET ALL", SessionCommand::ResetAll),
        ] {
            assert_eq!(command(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_drivers_send_between_their_users_is_read() {
        let name = |name: &str| SessionCommand::Deallocate {
            name: name.to_owned(),
        };
        for (sql, expected) in [
            ("DEALLOCATE ALL", SessionCommand::DeallocateAll),
            ("deallocate prepare all", SessionCommand::DeallocateAll),
            ("DEALLOCATE P", name("p")),
            ("DEALLOCATE PREPARE \"P q\"", name("P q")),
            ("DEALLOCATE \"all\"", name("all")),
            ("DEALLOCATE PREPARE", name("prepare")),
            (
                "SET CONSTRAINTS A, public.\"B c\" IMMEDIATE",
                SessionCommand::SetConstraints {
                    names: vec!["a".to_owned(), "B c".to_owned()],
                    is_deferred: false,
                },
            ),
            ("DISCARD ALL", SessionCommand::DiscardAll),
            ("DISCARD TEMPORARY", SessionCommand::DiscardTemporary),
            ("DISCARD PLANS", nothing("DISCARD PLANS")),
            ("ALTER TABLE s.t OWNER TO nearfar", nothing("ALTER TABLE")),
            (
                "ALTER SCHEMA s OWNER TO CURRENT_USER",
                nothing("ALTER SCHEMA"),
            ),
            ("COMMENT ON SCHEMA public IS ''", nothing("COMMENT")),
            ("COMMENT ON COLUMN a.b IS NULL", nothing("COMMENT")),
            ("RESET SESSION AUTHORIZATION", nothing("RESET")),
            ("SET SESSION AUTHORIZATION DEFAULT", nothing("SET")),
            ("SET ROLE NONE", nothing("SET")),
            ("UNLISTEN *", nothing("UNLISTEN")),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
                set(DEFAULT_ISOLATION, "read committed"),
            ),
            (
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                SessionCommand::SetTransaction {
                    modes: TransactionModes {
                        isolation: Some(Isolation::Snapshot),
                        is_read_only: false,
                    },
                },
            ),
            (
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
                SessionCommand::SetTransaction {
                    modes: TransactionModes {
                        isolation: Some(Isolation::Snapshot),
                        is_read_only: true,
                    },
                },
            ),
        ] {
            assert_eq!(command(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for sql in [
            "RESET",
            "RESET a b",
            "RESET a.",
            "RESET ALL ALL",
            "DISCARD",
            "DISCARD EVERYTHING",
            "DEALLOCATE",
            "DEALLOCATE ALL a",
            "SET a",
            "SET a = f(1)",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "ALTER SCHEMA s OWNER TO somebody",
            "COMMENT ON TABLE t IS 'kept'",
            "COMMENT ON TABLE t",
            "SET CONSTRAINTS DEFERRED",
            "SET CONSTRAINTS a b DEFERRED",
            "SET CONSTRAINTS a, DEFERRED",
            "SET CONSTRAINTS a LATER",
            "LISTEN a",
            "NOTIFY a, 'b'",
        ] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }
}
