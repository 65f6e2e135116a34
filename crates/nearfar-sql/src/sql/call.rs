//! `CALL` of a procedure.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Statement as Ast, Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::SqlError;
use super::script::DIALECT;
use super::statement::{expect_end, syntax};

/// `CALL nearfar.procedure('table')`.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What is done.
    pub procedure: Procedure,
    /// To which table.
    pub table: ObjectName,
}

/// The procedures that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Procedure {
    /// Merges what was written to a table.
    Merge,
    /// Brings a table to memory.
    Load,
    /// Compares a table with its indexes.
    Check,
}

impl Procedure {
    const ALL: [Self; 3] = [Self::Merge, Self::Load, Self::Check];

    /// Its name, with its schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Merge => "nearfar.merge",
            Self::Load => "nearfar.load",
            Self::Check => "nearfar.check",
        }
    }
}

/// # Errors
/// A procedure that there is not, or that gets anything but a table.
pub(super) fn parse_call(tokens: Vec<TokenWithSpan>) -> Result<Call, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().map_err(syntax)?;
    expect_end(&mut parser)?;
    let unsupported = || {
        let known = Procedure::ALL.map(|known| format!("CALL {}('table')", known.name()));
        SqlError::unsupported(
            parsed.to_string(),
            format!("there are {}", known.join(", ")),
        )
    };
    let Ast::Call(function) = &parsed else {
        return Err(unsupported());
    };
    let name = function.name.to_string().to_lowercase();
    let procedure = Procedure::ALL
        .into_iter()
        .find(|known| known.name() == name);
    let table = table_argument(&function.args);
    let (procedure, table) = procedure.zip(table).ok_or_else(unsupported)?;
    Ok(Call {
        procedure,
        table: table?,
    })
}

fn table_argument(arguments: &FunctionArguments) -> Option<Result<ObjectName, SqlError>> {
    let FunctionArguments::List(list) = arguments else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = &list.args[..] else {
        return None;
    };
    let name = match argument {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => name.clone(),
            _ => return None,
        },
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => argument.to_string(),
        _ => return None,
    };
    let parser = Parser::new(&DIALECT).try_with_sql(&name);
    let name = parser.and_then(|mut parser| parser.parse_object_name(false));
    Some(name.map_err(syntax))
}

#[cfg(test)]
mod tests {
    use super::super::statement::{StatementKind, statements};
    use super::*;

    #[test]
    fn the_table_may_be_quoted_or_not() {
        for (sql, procedure, table) in [
            ("CALL nearfar.merge('t')", Procedure::Merge, "t"),
            ("call nearfar.load('s.\"T\"')", Procedure::Load, "s.\"T\""),
            ("CALL NearFar.Merge(s.t)", Procedure::Merge, "s.t"),
        ] {
            let read = statements(sql).expect(sql).remove(0);
            match read.kind() {
                StatementKind::Call(call) => {
                    assert_eq!(
                        (call.procedure, call.table.to_string()),
                        (procedure, table.to_owned())
                    );
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_calls_are_not_supported() {
        for sql in [
            "CALL nearfar.other('t')",
            "CALL nearfar.merge(1)",
            "CALL nearfar.load()",
            "CALL nearfar.load('t', 'c')",
        ] {
            let error = statements(sql).expect_err(sql);
            assert!(
                matches!(error, SqlError::Unsupported { .. }),
                "{sql}: {error}"
            );
        }
    }
}
