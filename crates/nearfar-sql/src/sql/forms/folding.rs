//! Names that the planner takes as they are written, in lower case where they have no quotes.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Ident, ObjectName, ObjectNamePart, OnConflictAction, OnInsert,
    Statement as Ast,
};

use super::merging::{MergeColumns, named_columns};

/// A name as it is known: without quotes, its case does not matter.
pub(super) fn folded(name: &Ident) -> String {
    match name.quote_style {
        None => name.value.to_lowercase(),
        Some(_) => name.value.clone(),
    }
}

/// Folds the names of columns that a statement writes.
pub(super) fn fold(ast: &mut Ast) {
    match ast {
        Ast::Update(update) => fold_assignments(&mut update.assignments),
        Ast::Insert(insert) => {
            insert.columns.iter_mut().for_each(fold_name);
            insert.after_columns.iter_mut().for_each(fold_ident);
            fold_assignments(&mut insert.assignments);
            if let Some(OnInsert::OnConflict(conflict)) = &mut insert.on
                && let OnConflictAction::DoUpdate(update) = &mut conflict.action
            {
                fold_assignments(&mut update.assignments);
            }
        }
        Ast::Merge(merge) => named_columns(merge).for_each(|columns| match columns {
            MergeColumns::Assigned(assignments) => fold_assignments(assignments),
            MergeColumns::Given(columns) => columns.iter_mut().for_each(fold_name),
        }),
        _ => {}
    }
}

fn fold_assignments(assignments: &mut [Assignment]) {
    for assignment in assignments {
        match &mut assignment.target {
            AssignmentTarget::ColumnName(name) => fold_name(name),
            AssignmentTarget::Tuple(names) => names.iter_mut().for_each(fold_name),
        }
    }
}

fn fold_name(name: &mut ObjectName) {
    for part in &mut name.0 {
        if let ObjectNamePart::Identifier(ident) = part {
            fold_ident(ident);
        }
    }
}

fn fold_ident(ident: &mut Ident) {
    ident.value = folded(ident);
}
