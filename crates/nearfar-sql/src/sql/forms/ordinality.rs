//! Rows of a function with their numbers.

use datafusion::sql::sqlparser::ast::{
    Ident, Query, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
};

use super::template::parse;

/// Numbers the rows of what gives no numbers; the planner passes the clause over.
const NUMBERED: &str = "SELECT *, CAST(row_number() OVER () AS BIGINT) AS ordinality FROM numbered";

const ORDINALITY: &str = "ordinality";

/// Makes a query of a function `WITH ORDINALITY`.
pub(super) fn number_rows(factor: &mut TableFactor) {
    let (alias, name, columns) = match factor {
        TableFactor::Table {
            name,
            alias,
            with_ordinality,
            ..
        } if *with_ordinality => {
            *with_ordinality = false;
            let last = name.0.last().and_then(|part| part.as_ident());
            (alias, last.map(|name| name.value.to_lowercase()), 1)
        }
        TableFactor::Function {
            name,
            alias,
            with_ordinality,
            ..
        } if *with_ordinality => {
            *with_ordinality = false;
            let last = name.0.last().and_then(|part| part.as_ident());
            (alias, last.map(|name| name.value.to_lowercase()), 1)
        }
        TableFactor::UNNEST {
            alias,
            array_exprs,
            with_ordinality,
            ..
        } if *with_ordinality => {
            *with_ordinality = false;
            (alias, Some("unnest".to_owned()), array_exprs.len())
        }
        _ => return,
    };
    let alias = named(alias.take(), name.as_deref(), columns);
    let Ok(mut query) = parse(NUMBERED) else {
        return;
    };
    if let Some(inner) = source(&mut query) {
        std::mem::swap(inner, factor);
    }
    *factor = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(alias),
        sample: None,
    };
}

fn source(query: &mut Query) -> Option<&mut TableFactor> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(&mut select.from.first_mut()?.relation),
        _ => None,
    }
}

/// The alias with names for all columns: a single column of values is named like the function or what
/// stands for it.
fn named(alias: Option<TableAlias>, function: Option<&str>, columns: usize) -> TableAlias {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function.unwrap_or_default()),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() && columns == 1 {
        alias.columns = vec![TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        }];
    }
    if alias.columns.len() == columns {
        alias
            .columns
            .push(TableAliasColumnDef::from_name(ORDINALITY));
    }
    alias
}
