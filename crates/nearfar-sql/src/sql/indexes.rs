//! Keys and indexes: `PRIMARY KEY`, `UNIQUE`, `CREATE INDEX` and `DROP INDEX`.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, ConstraintCharacteristics, CreateTable, Expr, Ident,
    IndexColumn as AstColumn, IndexType, NullsDistinctOption, ObjectName, ObjectType,
    Statement as Ast, TableConstraint,
};

use super::SqlError;
use super::statement::normalised;
use nearfar_table::table::{IndexKind, IndexRole};

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
    Ok(Some(KeyClause {
        name: name.as_ref().map(normalised),
        columns: key_columns(columns)?,
        kind: IndexKind::default(),
        role,
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
pub(super) fn create_index(ast: &Ast) -> Result<Option<CreateIndex>, SqlError> {
    let Ast::CreateIndex(create) = ast else {
        return Ok(None);
    };
    let refused = [
        (create.predicate.is_some(), "WHERE"),
        (!create.include.is_empty(), "INCLUDE"),
        (create.nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
        (!create.with.is_empty(), "WITH"),
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
        if_not_exists: create.if_not_exists,
        table: create.table_name.clone(),
        key: KeyClause {
            name,
            columns: key_columns(&create.columns)?,
            kind: kind_of(create.using.as_ref())?,
            role,
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
