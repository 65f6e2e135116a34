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
        if name.0.len() == 1
            && let Some(whole) = from.iter().find_map(|tables| whole_name(tables, name))
        {
            *name = whole.clone();
        }
    }
}

/// The name with its schema of a table that is called `name`.
fn whole_name<'a>(tables: &'a TableWithJoins, name: &ObjectName) -> Option<&'a ObjectName> {
    let joined = tables.joins.iter().map(|join| &join.relation);
    let mut all = std::iter::once(&tables.relation).chain(joined);
    all.find_map(|table| match table {
        TableFactor::Table {
            name: whole,
            alias: None,
            ..
        } if whole.0.len() > 1 && last(whole) == last(name) => Some(whole),
        TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } => whole_name(table_with_joins, name),
        _ => None,
    })
}

fn last(name: &ObjectName) -> Option<String> {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.map(folded)
}
