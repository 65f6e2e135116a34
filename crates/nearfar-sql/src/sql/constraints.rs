//! Constraints that no index upholds: `CHECK` and `FOREIGN KEY`.

use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ColumnOption, ColumnOptionDef, ConstraintCharacteristics,
    ConstraintReferenceMatchKind, CreateTable, DeferrableInitial, Expr, ForeignKeyConstraint,
    Ident, ObjectName, ReferentialAction, TableConstraint, Visit, Visitor,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::SqlError;
use super::statement::normalised;
use nearfar_table::table::{ReferenceAction, ReferenceCheck};

/// A constraint as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConstraintClause {
    /// `CHECK (…)`.
    Check(CheckClause),
    /// `REFERENCES …` and `FOREIGN KEY (…) REFERENCES …`.
    Reference(ReferenceClause),
}

/// `CHECK (…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckClause {
    /// Its name, where it is given one.
    pub name: Option<String>,
    /// The condition, as it was written.
    pub sql: String,
    /// The one column that it names; none where it names several, or none.
    pub column: Option<String>,
}

/// `FOREIGN KEY (…) REFERENCES …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceClause {
    /// Its name, where it is given one.
    pub name: Option<String>,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that is referred to.
    pub parent: ObjectName,
    /// Its columns; those of its primary key where none are named.
    pub parent_columns: Vec<String>,
    /// `ON DELETE`.
    pub on_delete: ReferenceAction,
    /// `ON UPDATE`.
    pub on_update: ReferenceAction,
    /// `MATCH FULL`.
    pub is_full: bool,
    /// `DEFERRABLE`.
    pub check: ReferenceCheck,
}

/// Takes these constraints out of a `CREATE TABLE`.
///
/// # Errors
/// One of a form that is not supported.
pub(super) fn take_constraints(
    create: &mut CreateTable,
) -> Result<Vec<ConstraintClause>, SqlError> {
    let mut found = Vec::new();
    for column in &mut create.columns {
        for option in std::mem::take(&mut column.options) {
            match of_column(&column.name, &option)? {
                Some(constraint) => found.push(constraint),
                None => column.options.push(option),
            }
        }
    }
    for constraint in std::mem::take(&mut create.constraints) {
        match of_table(&constraint)? {
            Some(constraint) => found.push(constraint),
            None => create.constraints.push(constraint),
        }
    }
    Ok(found)
}

fn of_column(
    column: &Ident,
    option: &ColumnOptionDef,
) -> Result<Option<ConstraintClause>, SqlError> {
    let mut constraint = match &option.option {
        ColumnOption::Check(check) => check_clause(check)?,
        ColumnOption::ForeignKey(key) => {
            let mut clause = reference_clause(key)?;
            clause.columns = vec![normalised(column)];
            ConstraintClause::Reference(clause)
        }
        _ => return Ok(None),
    };
    if let Some(given) = &option.name {
        let name = match &mut constraint {
            ConstraintClause::Check(check) => &mut check.name,
            ConstraintClause::Reference(reference) => &mut reference.name,
        };
        *name = Some(normalised(given));
    }
    Ok(Some(constraint))
}

/// The constraint that one of a table is; none for a key.
///
/// # Errors
/// One of a form that is not supported.
pub(super) fn of_table(constraint: &TableConstraint) -> Result<Option<ConstraintClause>, SqlError> {
    Ok(Some(match constraint {
        TableConstraint::Check(check) => check_clause(check)?,
        TableConstraint::ForeignKey(key) => ConstraintClause::Reference(reference_clause(key)?),
        _ => return Ok(None),
    }))
}

fn check_clause(check: &CheckConstraint) -> Result<ConstraintClause, SqlError> {
    if check.enforced == Some(false) {
        let what = "CHECK … NOT ENFORCED";
        return Err(SqlError::unsupported(what, "leave the constraint out"));
    }
    let mut condition = check.expr.as_ref();
    // Further parentheses around it, as dumps have them, say nothing.
    while let Expr::Nested(inner) = condition {
        condition = inner;
    }
    Ok(ConstraintClause::Check(CheckClause {
        name: check.name.as_ref().map(normalised),
        sql: condition.to_string(),
        column: only_column(condition),
    }))
}

fn reference_clause(key: &ForeignKeyConstraint) -> Result<ReferenceClause, SqlError> {
    if key.match_kind == Some(ConstraintReferenceMatchKind::Partial) {
        let instead = "there are MATCH SIMPLE, which is meant by none, and MATCH FULL";
        return Err(SqlError::unsupported("MATCH PARTIAL", instead));
    }
    Ok(ReferenceClause {
        name: key.name.as_ref().map(normalised),
        columns: key.columns.iter().map(normalised).collect(),
        parent: key.foreign_table.clone(),
        parent_columns: key.referred_columns.iter().map(normalised).collect(),
        on_delete: action(key.on_delete),
        on_update: action(key.on_update),
        is_full: key.match_kind == Some(ConstraintReferenceMatchKind::Full),
        check: checked(key.characteristics.as_ref())?,
    })
}

fn action(said: Option<ReferentialAction>) -> ReferenceAction {
    match said {
        None | Some(ReferentialAction::NoAction) => ReferenceAction::NoAction,
        Some(ReferentialAction::Restrict) => ReferenceAction::Restrict,
        Some(ReferentialAction::Cascade) => ReferenceAction::Cascade,
        Some(ReferentialAction::SetNull) => ReferenceAction::SetNull,
        Some(ReferentialAction::SetDefault) => ReferenceAction::SetDefault,
    }
}

fn checked(said: Option<&ConstraintCharacteristics>) -> Result<ReferenceCheck, SqlError> {
    let Some(said) = said else {
        return Ok(ReferenceCheck::Always);
    };
    if said.enforced == Some(false) {
        let what = "FOREIGN KEY … NOT ENFORCED";
        return Err(SqlError::unsupported(what, "leave the constraint out"));
    }
    let is_deferred = said.initially == Some(DeferrableInitial::Deferred);
    match (said.deferrable, is_deferred) {
        (Some(false), true) => Err(SqlError::Syntax {
            message: "a constraint declared INITIALLY DEFERRED must be DEFERRABLE".to_owned(),
        }),
        (_, true) => Ok(ReferenceCheck::Deferred),
        (Some(true), false) => Ok(ReferenceCheck::Immediate),
        (_, false) => Ok(ReferenceCheck::Always),
    }
}

/// The column that an expression names, if it is one.
fn only_column(expr: &Expr) -> Option<String> {
    #[derive(Default)]
    struct Columns(BTreeSet<String>);
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) => self.0.insert(normalised(name)),
                Expr::CompoundIdentifier(parts) => match parts.last() {
                    Some(name) => self.0.insert(normalised(name)),
                    None => false,
                },
                _ => false,
            };
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns::default();
    let _ = expr.visit(&mut columns);
    let mut names = columns.0.into_iter();
    names.next().filter(|_| names.next().is_none())
}
