//! Keys and indexes: `PRIMARY KEY`, `UNIQUE`, `CREATE INDEX`, `ALTER INDEX` and `DROP INDEX`.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, ConstraintCharacteristics, CreateTable, Expr, Ident,
    IndexColumn as AstColumn, IndexType, NullsDistinctOption, ObjectName, ObjectType,
    Statement as Ast, TableConstraint,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::alter::{is_fillfactor, tablespace_name};
use super::script::DIALECT;
use super::statement::{expect_end, named_twice, normalised, syntax};
use nearfar_table::table::{IndexKind, IndexPolicy, IndexRole};

/// An index, or a constraint that one upholds, as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClause {
    /// Its name, where it is given one.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<KeyColumn>,
    /// Which tree it is.
    pub kind: IndexKind,
    /// What it is there for.
    pub role: IndexRole,
    /// Where its nodes go.
    pub place: IndexPlace,
}

/// Where the nodes of an index go, as far as it is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexPlace {
    /// `TABLESPACE name`.
    pub tablespace: Option<String>,
    /// `policy = name`.
    pub policy: Option<IndexPolicy>,
    /// `near_share = 0.2`, as a percentage from 1 to 99.
    pub near_percent: Option<u8>,
}

/// `ALTER INDEX`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterIndex {
    /// Whether an index that is not there is no error.
    pub if_exists: bool,
    /// The index.
    pub name: ObjectName,
    /// What becomes of it; the rest stays.
    pub change: IndexChange,
}

/// What becomes of an index.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexChange {
    /// `SET TABLESPACE` and `SET (…)`.
    Place(IndexPlace),
    /// `RENAME TO`.
    Name(String),
}

/// A column of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// Whether large values come first.
    pub is_descending: bool,
    /// Whether nulls come first.
    pub nulls_first: bool,
}

/// `CREATE INDEX`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// `CONCURRENTLY`.
    pub is_concurrent: bool,
    /// Whether an index of this name is no error.
    pub if_not_exists: bool,
    /// The table.
    pub table: ObjectName,
    /// The index.
    pub key: KeyClause,
}

/// `DROP INDEX`.
#[derive(Debug, Clone, PartialEq)]
pub struct DropIndex {
    /// Whether an index that is not there is no error.
    pub if_exists: bool,
    /// The indexes.
    pub names: Vec<ObjectName>,
}

/// Takes the keys out of a `CREATE TABLE`. Columns of the primary key allow no nulls.
///
/// # Errors
/// A key of a form that is not supported; two primary keys.
pub(super) fn take_keys(create: &mut CreateTable) -> Result<Vec<KeyClause>, SqlError> {
    let mut keys = Vec::new();
    for column in &mut create.columns {
        for option in std::mem::take(&mut column.options) {
            match key_of_column(&column.name, &option)? {
                Some(key) => keys.push(key),
                None => column.options.push(option),
            }
        }
    }
    for constraint in std::mem::take(&mut create.constraints) {
        match key_of_constraint(&constraint)? {
            Some(key) => keys.push(key),
            None => create.constraints.push(constraint),
        }
    }
    let mut primary = keys.iter().filter(|key| key.role == IndexRole::PrimaryKey);
    if let Some(primary) = primary.next() {
        let columns = create.columns.iter_mut();
        columns.for_each(|column| without_nulls(column, primary));
    }
    match primary.next() {
        Some(_) => Err(SqlError::SeveralPrimaryKeys {
            table: create.name.to_string(),
        }),
        None => Ok(keys),
    }
}

fn without_nulls(column: &mut ColumnDef, primary: &KeyClause) {
    let name = normalised(&column.name);
    let is_part = primary.columns.iter().any(|part| part.name == name);
    let is_not_null = |option: &ColumnOptionDef| option.option == ColumnOption::NotNull;
    if is_part && !column.options.iter().any(is_not_null) {
        column.options.push(ColumnOptionDef {
            name: None,
            option: ColumnOption::NotNull,
        });
    }
}

fn key_of_column(column: &Ident, option: &ColumnOptionDef) -> Result<Option<KeyClause>, SqlError> {
    let (role, characteristics) = match &option.option {
        ColumnOption::PrimaryKey(key) => (IndexRole::PrimaryKey, &key.characteristics),
        ColumnOption::Unique(key) => {
            check_nulls(key.nulls_distinct)?;
            (IndexRole::UniqueConstraint, &key.characteristics)
        }
        _ => return Ok(None),
    };
    check_characteristics(characteristics.as_ref())?;
    Ok(Some(KeyClause {
        name: option.name.as_ref().map(normalised),
        columns: vec![KeyColumn {
            name: normalised(column),
            is_descending: false,
            nulls_first: false,
        }],
        kind: IndexKind::default(),
        role,
        place: IndexPlace::default(),
    }))
}

/// The key that a constraint of a table is; none for one of another kind.
///
/// # Errors
/// A key of a form that is not supported.
pub(super) fn key_of_constraint(
    constraint: &TableConstraint,
) -> Result<Option<KeyClause>, SqlError> {
    let (name, columns, characteristics, role) = match constraint {
        TableConstraint::PrimaryKey(key) => (
            &key.name,
            &key.columns,
            &key.characteristics,
            IndexRole::PrimaryKey,
        ),
        TableConstraint::Unique(key) => {
            check_nulls(key.nulls_distinct)?;
            let role = IndexRole::UniqueConstraint;
            (&key.name, &key.columns, &key.characteristics, role)
        }
        _ => return Ok(None),
    };
    check_characteristics(characteristics.as_ref())?;
    let columns = key_columns(columns)?;
    if let Some(column) = named_twice(columns.iter().map(|column| column.name.as_str())) {
        let column = column.to_owned();
        let key = match role {
            IndexRole::PrimaryKey => "primary key",
            _ => "unique",
        };
        return Err(SqlError::TwiceInKey { column, key });
    }
    Ok(Some(KeyClause {
        name: name.as_ref().map(normalised),
        columns,
        kind: IndexKind::default(),
        role,
        place: IndexPlace::default(),
    }))
}

fn check_nulls(nulls: NullsDistinctOption) -> Result<(), SqlError> {
    match nulls {
        NullsDistinctOption::NotDistinct => Err(SqlError::unsupported(
            "UNIQUE NULLS NOT DISTINCT",
            "declare the columns NOT NULL: keys with a null are all different",
        )),
        NullsDistinctOption::None | NullsDistinctOption::Distinct => Ok(()),
    }
}

fn check_characteristics(found: Option<&ConstraintCharacteristics>) -> Result<(), SqlError> {
    match found {
        Some(found) if found.deferrable == Some(true) || found.initially.is_some() => {
            Err(SqlError::unsupported(
                "a key that is DEFERRABLE",
                "leave it out: keys are checked at the end of each statement",
            ))
        }
        _ => Ok(()),
    }
}

fn key_columns(columns: &[AstColumn]) -> Result<Vec<KeyColumn>, SqlError> {
    let columns = columns.iter().map(|column| {
        let (by, options) = (&column.column.expr, &column.column.options);
        let Expr::Identifier(name) = by else {
            return Err(SqlError::unsupported(
                format!("an index of the expression {by}"),
                "name columns: keys are made of these",
            ));
        };
        let is_descending = options.asc == Some(false);
        Ok(KeyColumn {
            name: normalised(name),
            is_descending,
            nulls_first: options.nulls_first.unwrap_or(is_descending),
        })
    });
    columns.collect()
}

/// The statement about indexes that a syntax tree is, if it is one.
///
/// # Errors
/// An index of a form that is not supported.
pub(super) fn create_index(
    ast: &Ast,
    tablespace: Option<String>,
) -> Result<Option<CreateIndex>, SqlError> {
    let Ast::CreateIndex(create) = ast else {
        return Ok(None);
    };
    let mut place = index_options(create.with.iter().map(ToString::to_string))?;
    place.tablespace = tablespace;
    let refused = [
        (create.predicate.is_some(), "WHERE"),
        (!create.include.is_empty(), "INCLUDE"),
        (create.nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
    ];
    if let Some((_, clause)) = refused.iter().find(|(is_there, _)| *is_there) {
        let what = format!("CREATE INDEX … {clause}");
        return Err(SqlError::unsupported(what, "leave the clause out"));
    }
    let name = match create.name.as_ref().map(|name| &name.0[..]) {
        None => None,
        Some([name]) => name.as_ident().map(normalised),
        Some(_) => {
            let what = "a schema in the name of an index";
            let instead = "an index is in the schema of its table: leave it out";
            return Err(SqlError::unsupported(what, instead));
        }
    };
    let role = match create.unique {
        true => IndexRole::Unique,
        false => IndexRole::Search,
    };
    Ok(Some(CreateIndex {
        is_concurrent: create.concurrently,
        if_not_exists: create.if_not_exists,
        table: create.table_name.clone(),
        key: KeyClause {
            name,
            columns: key_columns(&create.columns)?,
            kind: kind_of(create.using.as_ref())?,
            role,
            place,
        },
    }))
}

/// The tree of a `USING` clause. PostgreSQL's name for an ordered index is that of the one by default.
fn kind_of(using: Option<&IndexType>) -> Result<IndexKind, SqlError> {
    let name = match using {
        None | Some(IndexType::BTree) => return Ok(IndexKind::default()),
        Some(IndexType::Custom(name)) => normalised(name),
        Some(other) => other.to_string().to_lowercase(),
    };
    let mut known = IndexKind::ALL.into_iter();
    known.find(|kind| kind.name() == name).ok_or_else(|| {
        SqlError::unsupported(
            format!("CREATE INDEX … USING {name}"),
            "there are art and masstree; btree is the one by default",
        )
    })
}

/// Takes `TABLESPACE name` out of a `CREATE INDEX`, which sqlparser does not read.
///
/// # Errors
/// A name that is none.
pub(super) fn take_tablespace(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<String>, SqlError> {
    let is_clause = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::TABLESPACE);
    let mut depth = 0_usize;
    let at = tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_clause(&token.token)
    });
    let Some(at) = at else {
        return Ok(None);
    };
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens[at + 1..].to_vec());
    let name = tablespace_name(&mut parser)?;
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let spaces = tokens[at + 1..].iter().take_while(|token| is_space(token));
    let end = at + 2 + spaces.count();
    tokens.drain(at..end);
    Ok(Some(name))
}

/// What the options of an index say, each as `name = value`.
///
/// # Errors
/// An option or a value that there is not.
fn index_options(options: impl Iterator<Item = String>) -> Result<IndexPlace, SqlError> {
    let mut place = IndexPlace::default();
    for option in options {
        let unknown = || SqlError::UnknownOption {
            name: option.clone(),
        };
        let (name, value) = option.split_once('=').ok_or_else(unknown)?;
        let value = value
            .trim()
            .trim_matches('\'')
            .replace(' ', "")
            .to_lowercase();
        let wrong = |allowed: &str| SqlError::SettingValue {
            name: name.trim().to_owned(),
            value: value.clone(),
            allowed: allowed.to_owned(),
        };
        match name.trim().to_lowercase().as_str() {
            "policy" => {
                let mut policies = IndexPolicy::ALL.into_iter();
                let policy = policies.find(|policy| policy.name() == value);
                let allowed = IndexPolicy::ALL.map(IndexPolicy::name).join(", ");
                place.policy = Some(policy.ok_or_else(|| wrong(&allowed))?);
            }
            "near_share" => {
                let percent = match value.strip_suffix('%') {
                    Some(percent) => percent.parse::<f64>().ok(),
                    None => value.parse::<f64>().ok().map(|share| share * 100.0),
                };
                let percent = percent
                    .map(f64::round)
                    .filter(|percent| (1.0..=99.0).contains(percent));
                let allowed = "a share from 0.01 to 0.99, or from 1% to 99%";
                place.near_percent = Some(percent.ok_or_else(|| wrong(allowed))? as u8);
            }
            // How full PostgreSQL leaves pages, which there are none of.
            "fillfactor" if is_fillfactor(&value) => {}
            "fillfactor" => return Err(wrong("a percentage from 10 to 100")),
            _ => return Err(unknown()),
        }
    }
    Ok(place)
}

/// Reads `ALTER INDEX [IF EXISTS] i SET TABLESPACE t`, `… SET (policy = …, near_share = …)` or `… RENAME TO j`.
///
/// # Errors
/// Anything else that is to be done to an index.
pub(super) fn parse_alter_index(tokens: Vec<TokenWithSpan>) -> Result<AlterIndex, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    parser
        .expect_keywords(&[Keyword::ALTER, Keyword::INDEX])
        .map_err(syntax)?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false).map_err(syntax)?;
    let begin = parser.peek_token();
    let change = if parser.parse_keywords(&[Keyword::SET, Keyword::TABLESPACE]) {
        IndexChange::Place(IndexPlace {
            tablespace: Some(tablespace_name(&mut parser)?),
            ..IndexPlace::default()
        })
    } else if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        IndexChange::Name(normalised(&parser.parse_identifier().map_err(syntax)?))
    } else {
        let options = parser.parse_options(Keyword::SET).map_err(syntax)?;
        if options.is_empty() {
            return Err(SqlError::unsupported(
                format!("ALTER INDEX … {begin}"),
                "there are RENAME TO, SET TABLESPACE name and SET (policy = …, near_share = …)",
            ));
        }
        IndexChange::Place(index_options(options.iter().map(ToString::to_string))?)
    };
    expect_end(&mut parser)?;
    Ok(AlterIndex {
        if_exists,
        name,
        change,
    })
}

/// The `DROP INDEX` that a syntax tree is, if it is one.
pub(super) fn drop_index(ast: &Ast) -> Option<DropIndex> {
    match ast {
        Ast::Drop {
            object_type: ObjectType::Index,
            if_exists,
            names,
            ..
        } => Some(DropIndex {
            if_exists: *if_exists,
            names: names.clone(),
        }),
        _ => None,
    }
}
