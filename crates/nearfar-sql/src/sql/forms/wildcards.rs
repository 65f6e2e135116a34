//! `t.*` of a table whose name is written with its schema, `s.t`: the planner knows it by the whole name alone.

use datafusion::sql::sqlparser::ast::{
    ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    TableWithJoins,
};

use super::folding::folded;

/// Writes whole names in a part of a query.
pub(super) fn name_in_full(select: &mut Select) {
    let Select {
        projection, from, ..
    } = select;
    for item in projection {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) =
            item
        else {
            continue;
        };
        let named = from.iter().flat_map(|tables| whole_names(tables, name));
        let named: Vec<Option<&ObjectName>> = named.collect();
        // Of two that are called so, one without a schema is meant.
        if let (false, Some(Some(whole))) = (named.contains(&None), named.first()) {
            *name = (*whole).clone();
        }
    }
}

/// Of each table that is called `name`, its name with its schema, if it has one.
fn whole_names<'a>(tables: &'a TableWithJoins, name: &ObjectName) -> Vec<Option<&'a ObjectName>> {
    let joined = tables.joins.iter().map(|join| &join.relation);
    let all = std::iter::once(&tables.relation).chain(joined);
    let named = all.flat_map(|table| match table {
        TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } => whole_names(table_with_joins, name),
        TableFactor::Table {
            name: whole,
            alias: None,
            ..
        } if name.0.len() == 1 && last(whole) == last(name) => {
            vec![(whole.0.len() > 1).then_some(whole)]
        }
        TableFactor::Table {
            alias: Some(alias), ..
        } if last(name) == Some(folded(&alias.name)) => vec![None],
        _ => Vec::new(),
    });
    named.collect()
}

fn last(name: &ObjectName) -> Option<String> {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.map(folded)
}
