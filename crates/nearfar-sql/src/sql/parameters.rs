//! Parameters whose types do not follow from where they stand.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Value, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// `statement` with every parameter cast to the type that `of` has for its number, from 1; those that
/// are cast already stay as they are. None if nothing was changed.
pub(crate) fn cast_parameters(
    statement: &DfStatement,
    of: impl Fn(usize) -> Option<DataType>,
) -> Option<DfStatement> {
    let DfStatement::Statement(ast) = statement else {
        return None;
    };
    let mut ast = ast.clone();
    let mut casts = Casts {
        of,
        is_cast: false,
        has_changed: false,
    };
    let _ = VisitMut::visit(&mut ast, &mut casts);
    casts.has_changed.then_some(DfStatement::Statement(ast))
}

struct Casts<F> {
    of: F,
    /// Whether the next expression stands in a cast.
    is_cast: bool,
    has_changed: bool,
}

impl<F: Fn(usize) -> Option<DataType>> VisitorMut for Casts<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: inner, .. } = expr {
            self.is_cast = number(inner).is_some();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(number) = number(expr)
            && !std::mem::take(&mut self.is_cast)
            && let Some(data_type) = (self.of)(number)
        {
            let parameter = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(parameter),
                data_type,
                array: false,
                format: None,
            };
            self.has_changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// The number of a parameter.
fn number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::statement::statements;

    #[test]
    fn parameters_are_cast_once() {
        use datafusion::sql::sqlparser::ast::DataType;
        let sql = "SELECT abs($1), f(CAST($2 AS BIGINT)), $1 + $3 FROM t";
        let read = statements(sql).expect(sql).remove(0);
        let types = |number| (number < 3).then_some(DataType::Text);
        let cast = read.with_parameter_types(types).expect("parameters");
        let expected =
            "SELECT abs(CAST($1 AS TEXT)), f(CAST($2 AS BIGINT)), CAST($1 AS TEXT) + $3 FROM t";
        match cast.kind() {
            super::super::StatementKind::DataFusion { statement, .. } => {
                assert_eq!(statement.to_string(), expected);
            }
            other => panic!("{other:?}"),
        }
        assert!(
            statements("SELECT 1").expect("SQL")[0]
                .with_parameter_types(types)
                .is_none()
        );
    }
}
