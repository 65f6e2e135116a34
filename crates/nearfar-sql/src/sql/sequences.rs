//! Sequences: `CREATE`, `ALTER` and `DROP SEQUENCE`, and columns that take their values from one.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, CreateTable, DataType, Expr, FunctionArg,
    FunctionArgExpr, FunctionArguments, GeneratedAs, Ident, ObjectName, ObjectNamePart,
    SequenceOptions as AstOption, Statement as Ast, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

use super::SqlError;
use super::postgres::{catalog_name, take};
use super::script::DIALECT;
use super::statement::{expect_end, normalised, syntax};
use nearfar_table::sequence::{SequenceDefinition, SequenceType, SequenceValue};
use nearfar_table::table::IdentityKind;

/// A statement about sequences.
#[derive(Debug, Clone, PartialEq)]
pub enum SequenceCommand {
    /// `CREATE SEQUENCE`.
    Create {
        /// Its name.
        name: ObjectName,
        /// Whether it is the session's own.
        temporary: bool,
        /// Whether one that is there is no error.
        if_not_exists: bool,
        /// What is said of it.
        options: SequenceClauses,
    },
    /// `ALTER SEQUENCE`.
    Alter {
        /// Its name.
        name: ObjectName,
        /// Whether one that is not there is no error.
        if_exists: bool,
        /// What is said of it.
        options: SequenceClauses,
    },
    /// `DROP SEQUENCE`.
    Drop {
        /// Their names.
        names: Vec<ObjectName>,
        /// Whether one that is not there is no error.
        if_exists: bool,
    },
}

/// What is said of a sequence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SequenceClauses {
    data_type: Option<SequenceType>,
    increment: Option<i64>,
    min: Option<Option<i64>>,
    max: Option<Option<i64>>,
    start: Option<i64>,
    cache: Option<i64>,
    cycles: Option<bool>,
    /// Where it begins anew: at a number, or where it began first.
    restart: Option<Option<i64>>,
    /// The column that it is dropped with, of a table; none any more.
    pub owner: Option<Option<(ObjectName, String)>>,
}

/// How a column takes its values from a sequence of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedColumn {
    /// The column.
    pub column: String,
    /// Whether a statement may give it other values: for `SERIAL`, and of `GENERATED … AS IDENTITY` what
    /// is said there.
    pub identity: Option<IdentityKind>,
    /// What is said of the sequence.
    pub options: SequenceClauses,
    /// The name of the sequence; by default that of its table and column.
    pub sequence: Option<String>,
}

impl SequenceClauses {
    /// The same of a sequence whose numbers have this type, which its column has.
    #[must_use]
    pub fn of_type(self, data_type: SequenceType) -> Self {
        Self {
            data_type: Some(data_type),
            ..self
        }
    }

    /// The sequence of these clauses, where nothing was said before.
    ///
    /// # Errors
    /// [`SqlError::SequenceOption`].
    pub fn new_sequence(&self) -> Result<SequenceDefinition, SqlError> {
        let data_type = self.data_type.unwrap_or_default();
        let increment = self.increment.unwrap_or(1);
        let (type_min, type_max) = data_type.bounds();
        let (min, max) = match increment > 0 {
            true => (1, type_max),
            false => (type_min, -1),
        };
        let min = self.min.flatten().unwrap_or(min);
        let max = self.max.flatten().unwrap_or(max);
        let start = match increment > 0 {
            true => min,
            false => max,
        };
        checked(SequenceDefinition {
            data_type,
            start: self.start.unwrap_or(start),
            increment,
            min,
            max,
            cache: self.cache.unwrap_or(1),
            cycles: self.cycles.unwrap_or(false),
            owner: None,
        })
    }

    /// The sequence with these clauses in the place of what was said before, and where it is.
    ///
    /// # Errors
    /// [`SqlError::SequenceOption`].
    pub fn changed(
        &self,
        before: &SequenceDefinition,
        value: SequenceValue,
    ) -> Result<(SequenceDefinition, SequenceValue), SqlError> {
        let data_type = self.data_type.unwrap_or(before.data_type);
        let increment = self.increment.unwrap_or(before.increment);
        let (type_min, type_max) = data_type.bounds();
        let (old_min, old_max) = before.data_type.bounds();
        let default_min = if increment > 0 { 1 } else { type_min };
        let default_max = if increment > 0 { type_max } else { -1 };
        // A bound that was that of its type is that of the new one.
        let kept_min = if before.min == old_min {
            type_min
        } else {
            before.min
        };
        let kept_max = if before.max == old_max {
            type_max
        } else {
            before.max
        };
        let min = self.min.map_or(kept_min, |min| min.unwrap_or(default_min));
        let max = self.max.map_or(kept_max, |max| max.unwrap_or(default_max));
        let changed = checked(SequenceDefinition {
            data_type,
            start: self.start.unwrap_or(before.start),
            increment,
            min,
            max,
            cache: self.cache.unwrap_or(before.cache),
            cycles: self.cycles.unwrap_or(before.cycles),
            owner: before.owner.clone(),
        })?;
        let value = match self.restart {
            None => value,
            Some(at) => SequenceValue {
                last: at.unwrap_or(changed.start),
                is_called: false,
            },
        };
        if value.last < min || value.last > max {
            let what = match value.last < min {
                true => format!(
                    "RESTART value ({}) cannot be less than MINVALUE ({min})",
                    value.last
                ),
                false => {
                    format!(
                        "RESTART value ({}) cannot be greater than MAXVALUE ({max})",
                        value.last
                    )
                }
            };
            return Err(SqlError::SequenceOption { what });
        }
        Ok((changed, value))
    }

    fn take(&mut self, option: AstOption) -> Result<(), SqlError> {
        match option {
            AstOption::IncrementBy(by, _) => self.increment = Some(number(&by)?),
            AstOption::MinValue(min) => self.min = Some(min.as_ref().map(number).transpose()?),
            AstOption::MaxValue(max) => self.max = Some(max.as_ref().map(number).transpose()?),
            AstOption::StartWith(start, _) => self.start = Some(number(&start)?),
            AstOption::Cache(cache) => self.cache = Some(number(&cache)?),
            // The parser's flag is that of `NO CYCLE`.
            AstOption::Cycle(is_not) => self.cycles = Some(!is_not),
        }
        Ok(())
    }
}

/// A definition that can be.
fn checked(definition: SequenceDefinition) -> Result<SequenceDefinition, SqlError> {
    let SequenceDefinition {
        data_type,
        start,
        increment,
        min,
        max,
        cache,
        ..
    } = definition;
    let (type_min, type_max) = data_type.bounds();
    let name = data_type.name();
    let refused = [
        (increment == 0, "INCREMENT must not be zero".to_owned()),
        (
            max > type_max || max < type_min,
            format!("MAXVALUE ({max}) is out of range for sequence data type {name}"),
        ),
        (
            min < type_min || min > type_max,
            format!("MINVALUE ({min}) is out of range for sequence data type {name}"),
        ),
        (
            min >= max,
            format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"),
        ),
        (
            start < min,
            format!("START value ({start}) cannot be less than MINVALUE ({min})"),
        ),
        (
            start > max,
            format!("START value ({start}) cannot be greater than MAXVALUE ({max})"),
        ),
        (
            cache < 1,
            format!("CACHE ({cache}) must be greater than zero"),
        ),
    ];
    match refused.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => Err(SqlError::SequenceOption { what }),
        None => Ok(definition),
    }
}

fn number(expr: &Expr) -> Result<i64, SqlError> {
    let text = expr.to_string();
    text.parse().map_err(|_| SqlError::SequenceOption {
        what: format!("{text} is out of range for type bigint"),
    })
}

/// The statement about sequences that some tokens are, if their first words are those of one.
///
/// # Errors
/// A statement that is wrong.
pub(super) fn parse_sequence(
    tokens: &[TokenWithSpan],
) -> Result<Option<SequenceCommand>, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens.to_vec());
    let verbs = [Keyword::CREATE, Keyword::ALTER, Keyword::DROP];
    let Some(verb) = parser.parse_one_of_keywords(&verbs) else {
        return Ok(None);
    };
    let temporaries = [Keyword::TEMP, Keyword::TEMPORARY];
    let temporary = verb == Keyword::CREATE && parser.parse_one_of_keywords(&temporaries).is_some();
    if !parser.parse_keyword(Keyword::SEQUENCE) {
        return Ok(None);
    }
    let command = match verb {
        Keyword::CREATE => {
            let if_not_exists =
                parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
            SequenceCommand::Create {
                name: parser.parse_object_name(false).map_err(syntax)?,
                temporary,
                if_not_exists,
                options: parse_clauses(&mut parser, false)?,
            }
        }
        Keyword::ALTER => {
            let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            SequenceCommand::Alter {
                name: parser.parse_object_name(false).map_err(syntax)?,
                if_exists,
                options: parse_clauses(&mut parser, true)?,
            }
        }
        _ => {
            let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false));
            let names = names.map_err(syntax)?;
            let _ = parser.parse_keyword(Keyword::RESTRICT);
            SequenceCommand::Drop { names, if_exists }
        }
    };
    expect_end(&mut parser)?;
    Ok(Some(command))
}

fn parse_clauses(parser: &mut Parser<'_>, restarts: bool) -> Result<SequenceClauses, SqlError> {
    let mut clauses = SequenceClauses::default();
    loop {
        if let Some(option) = parse_option(parser).map_err(syntax)? {
            clauses.take(option)?;
        } else if parser.parse_keyword(Keyword::AS) {
            let data_type = parser.parse_data_type().map_err(syntax)?;
            clauses.data_type = Some(type_of(&data_type)?);
        } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
            clauses.owner = Some(parse_owner(parser)?);
        } else if restarts && parser.parse_keyword(Keyword::RESTART) {
            let has_number = parser.parse_keyword(Keyword::WITH);
            let at = parser.maybe_parse(|parser| parser.parse_number());
            let at = at.map_err(syntax)?;
            if has_number && at.is_none() {
                return parser
                    .expected("a number", parser.peek_token())
                    .map_err(syntax);
            }
            clauses.restart = Some(at.as_ref().map(number).transpose()?);
        } else {
            return Ok(clauses);
        }
    }
}

/// `table.column` or `NONE`.
fn parse_owner(parser: &mut Parser<'_>) -> Result<Option<(ObjectName, String)>, SqlError> {
    let mut name = parser.parse_object_name(false).map_err(syntax)?;
    let last = name.0.pop();
    let column = last.as_ref().and_then(|part| part.as_ident());
    match (column.map(normalised), name.0.is_empty()) {
        (Some(none), true) if none == "none" => Ok(None),
        (Some(column), false) => Ok(Some((name, column))),
        _ => Err(SqlError::SequenceOption {
            what: "OWNED BY takes table.column or NONE".to_owned(),
        }),
    }
}

/// One option of a sequence, whatever comes before it.
fn parse_option(parser: &mut Parser<'_>) -> Result<Option<AstOption>, ParserError> {
    let no = |parser: &mut Parser<'_>, keyword| parser.parse_keywords(&[Keyword::NO, keyword]);
    Ok(Some(if parser.parse_keyword(Keyword::INCREMENT) {
        let by = parser.parse_keyword(Keyword::BY);
        AstOption::IncrementBy(parser.parse_number()?, by)
    } else if parser.parse_keyword(Keyword::MINVALUE) {
        AstOption::MinValue(Some(parser.parse_number()?))
    } else if no(parser, Keyword::MINVALUE) {
        AstOption::MinValue(None)
    } else if parser.parse_keyword(Keyword::MAXVALUE) {
        AstOption::MaxValue(Some(parser.parse_number()?))
    } else if no(parser, Keyword::MAXVALUE) {
        AstOption::MaxValue(None)
    } else if parser.parse_keyword(Keyword::START) {
        let with = parser.parse_keyword(Keyword::WITH);
        AstOption::StartWith(parser.parse_number()?, with)
    } else if parser.parse_keyword(Keyword::CACHE) {
        AstOption::Cache(parser.parse_number()?)
    } else if no(parser, Keyword::CYCLE) {
        AstOption::Cycle(true)
    } else if parser.parse_keyword(Keyword::CYCLE) {
        AstOption::Cycle(false)
    } else {
        return Ok(None);
    }))
}

/// `GENERATED { ALWAYS | BY DEFAULT } AS IDENTITY [(…)]` of a column, with its options in any order.
pub(super) fn parse_identity(parser: &mut Parser<'_>) -> Result<Option<ColumnOption>, ParserError> {
    let Some(generated_as) = parse_generated(parser) else {
        return Ok(None);
    };
    let mut options = Vec::new();
    if parser.consume_token(&Token::LParen) {
        while let Some(option) = parse_option(parser)? {
            options.push(option);
        }
        parser.expect_token(&Token::RParen)?;
    }
    Ok(Some(ColumnOption::Generated {
        generated_as,
        sequence_options: Some(options),
        generation_expr: None,
        generation_expr_mode: None,
        generated_keyword: true,
    }))
}

/// `GENERATED { ALWAYS | BY DEFAULT } AS IDENTITY`.
fn parse_generated(parser: &mut Parser<'_>) -> Option<GeneratedAs> {
    let always = [
        Keyword::GENERATED,
        Keyword::ALWAYS,
        Keyword::AS,
        Keyword::IDENTITY,
    ];
    let by_default = [
        Keyword::GENERATED,
        Keyword::BY,
        Keyword::DEFAULT,
        Keyword::AS,
        Keyword::IDENTITY,
    ];
    if parser.parse_keywords(&always) {
        return Some(GeneratedAs::Always);
    }
    let is_by_default = parser.parse_keywords(&by_default);
    is_by_default.then_some(GeneratedAs::ByDefault)
}

/// The same of a column that is there, with a name of the sequence among its options.
pub(super) fn parse_added_identity(
    parser: &mut Parser<'_>,
    column: &Ident,
) -> Result<Option<NumberedColumn>, SqlError> {
    let Some(generated_as) = parse_generated(parser) else {
        return Ok(None);
    };
    let (mut options, mut sequence) = (SequenceClauses::default(), None);
    if parser.consume_token(&Token::LParen) {
        loop {
            if parser.parse_keywords(&[Keyword::SEQUENCE, Keyword::NAME]) {
                let name = parser.parse_object_name(false).map_err(syntax)?;
                let last = name.0.last().and_then(ObjectNamePart::as_ident);
                sequence = last.map(normalised);
            } else if let Some(option) = parse_option(parser).map_err(syntax)? {
                options.take(option)?;
            } else {
                break;
            }
        }
        parser.expect_token(&Token::RParen).map_err(syntax)?;
    }
    Ok(Some(NumberedColumn {
        column: normalised(column),
        identity: Some(identity_kind(generated_as)),
        options,
        sequence,
    }))
}

fn identity_kind(generated_as: GeneratedAs) -> IdentityKind {
    match generated_as {
        GeneratedAs::Always => IdentityKind::Always,
        _ => IdentityKind::ByDefault,
    }
}

fn type_of(data_type: &DataType) -> Result<SequenceType, SqlError> {
    match data_type {
        DataType::SmallInt(None) | DataType::Int2(None) => Ok(SequenceType::SmallInt),
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => {
            Ok(SequenceType::Integer)
        }
        DataType::BigInt(None) | DataType::Int8(None) => Ok(SequenceType::BigInt),
        _ => Err(SqlError::SequenceOption {
            what: "sequence and identity column type must be smallint, integer, or bigint"
                .to_owned(),
        }),
    }
}

/// The type of a `SERIAL` column.
fn serial_type(data_type: &DataType) -> Option<SequenceType> {
    let DataType::Custom(name, modifiers) = data_type else {
        return None;
    };
    let [name] = &name.0[..] else { return None };
    let name = normalised(name.as_ident()?);
    let serial = match name.as_str() {
        "smallserial" | "serial2" => SequenceType::SmallInt,
        "serial" | "serial4" => SequenceType::Integer,
        "bigserial" | "serial8" => SequenceType::BigInt,
        _ => return None,
    };
    modifiers.is_empty().then_some(serial)
}

/// Takes out of a `CREATE TABLE` what is said of columns that take their values from sequences. They allow
/// no nulls.
///
/// # Errors
/// A column that can't be one.
pub(super) fn take_numbered(create: &mut CreateTable) -> Result<Vec<NumberedColumn>, SqlError> {
    let mut numbered = Vec::new();
    for column in &mut create.columns {
        let mut found = None;
        if let Some(serial) = serial_type(&column.data_type) {
            column.data_type = match serial {
                SequenceType::SmallInt => DataType::SmallInt(None),
                SequenceType::Integer => DataType::Integer(None),
                SequenceType::BigInt => DataType::BigInt(None),
            };
            found = Some((None, Vec::new()));
        }
        column.options.retain(|option| match &option.option {
            ColumnOption::Generated {
                generated_as: kind @ (GeneratedAs::Always | GeneratedAs::ByDefault),
                sequence_options: Some(options),
                generation_expr: None,
                ..
            } => {
                found = Some((Some(identity_kind(*kind)), options.clone()));
                false
            }
            _ => true,
        });
        let is_identity = found.as_ref().map(|(identity, _)| identity.is_some());
        check_one_default(&create.name, column, is_identity)?;
        let Some((identity, options)) = found else {
            continue;
        };
        let mut clauses = SequenceClauses {
            data_type: Some(type_of(&column.data_type)?),
            ..SequenceClauses::default()
        };
        options
            .into_iter()
            .try_for_each(|option| clauses.take(option))?;
        column.options.push(ColumnOptionDef {
            name: None,
            option: ColumnOption::NotNull,
        });
        numbered.push(NumberedColumn {
            column: normalised(&column.name),
            identity,
            options: clauses,
            sequence: None,
        });
    }
    Ok(numbered)
}

/// Refuses a column with several values for rows that give it none, of which one may be of a sequence: that of an identity,
/// or another one.
fn check_one_default(
    table: &ObjectName,
    column: &ColumnDef,
    is_identity: Option<bool>,
) -> Result<(), SqlError> {
    let options = column.options.iter();
    let is_default = |option: &&ColumnOptionDef| matches!(option.option, ColumnOption::Default(_));
    let what = match (is_identity, options.filter(is_default).count()) {
        (_, 0) | (None, 1) => return Ok(()),
        (Some(true), _) => "both default and identity",
        (Some(false) | None, _) => "multiple default values",
    };
    let table = table.0.last().and_then(|part| part.as_ident());
    Err(SqlError::SeveralDefaults {
        what,
        column: normalised(&column.name),
        table: table.map(normalised).unwrap_or_default(),
    })
}

/// Functions that take the name of a sequence, which may be cast to `regclass`.
const FUNCTIONS: [&str; 3] = ["nextval", "currval", "setval"];

/// Has the names of sequences stand as texts.
pub(super) fn name_sequences(ast: &mut Ast) {
    let _ = VisitMut::visit(ast, &mut Names);
}

struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && catalog_name(&function.name).is_some_and(|it| FUNCTIONS.contains(&it.as_str()))
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
            && let Expr::Cast {
                expr: inner,
                data_type: DataType::Regclass,
                ..
            } = first
        {
            *first = take(inner);
        }
        ControlFlow::Continue(())
    }
}
