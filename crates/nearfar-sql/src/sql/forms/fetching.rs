//! Clauses about how many rows of a query or a table there are.

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, TableFactor, Value};

use crate::sql::SqlError;

/// Makes `LIMIT` of `FETCH FIRST`.
///
/// # Errors
/// `WITH TIES` and `PERCENT`, which `LIMIT` can't say, and both clauses in one query.
pub(super) fn limit(query: &mut Query) -> Result<(), SqlError> {
    let Some(fetch) = query.fetch.take() else {
        return Ok(());
    };
    if fetch.with_ties || fetch.percent {
        return Err(SqlError::unsupported(
            fetch.to_string(),
            "rows are counted: use FETCH FIRST … ROWS ONLY, or rank() in a query around it",
        ));
    }
    let one = || Expr::value(Value::Number("1".to_owned(), false));
    let quantity = fetch.quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(quantity),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset { limit, .. }) if limit.is_none() => {
            *limit = Some(quantity);
        }
        Some(_) => {
            let message = "LIMIT and FETCH FIRST in one query: use one of them".to_owned();
            return Err(SqlError::Syntax { message });
        }
    }
    Ok(())
}

/// Refuses `TABLESAMPLE`, which the planner passes over.
///
/// # Errors
/// That clause.
pub(super) fn check_sample(factor: &TableFactor) -> Result<(), SqlError> {
    match factor {
        TableFactor::Table {
            sample: Some(_), ..
        }
        | TableFactor::Derived {
            sample: Some(_), ..
        } => Err(SqlError::unsupported(
            "TABLESAMPLE",
            "use WHERE random() < 0.1 for a tenth of the rows",
        )),
        _ => Ok(()),
    }
}
