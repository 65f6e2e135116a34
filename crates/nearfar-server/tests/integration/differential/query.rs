//! Random queries.

use super::expression::{Expressions, Named, Scope, names_of};
use super::kind::Kind;
use super::node::{Node, Sort};
use super::random::Random;
use super::tables::Table;

/// Joins without an equality give at most about so many rows.
const PRODUCT_ROWS_MAX: usize = 20_000;
/// Tables of more rows are read by no subquery and joined with nothing like them.
const SMALL_ROWS: usize = 250;

/// A query, and the kinds of its columns.
#[derive(Clone, Debug)]
pub struct Query {
    pub node: Node,
    pub kinds: Vec<Kind>,
    /// Whether it says everything of the order of its rows.
    pub is_ordered: bool,
}

/// What a query reads, and the names that has.
#[derive(Clone, Debug)]
pub struct From {
    pub node: Node,
    pub names: Vec<Named>,
}

/// Makes queries over tables.
pub struct Queries<'r> {
    pub expressions: Expressions<'r>,
    tables: &'r [Table],
    small: Vec<Table>,
}

impl<'r> Queries<'r> {
    pub fn new(random: &'r mut Random, tables: &'r [Table]) -> Self {
        let small = tables.iter().filter(|table| table.rows <= SMALL_ROWS);
        Self {
            expressions: Expressions::new(random),
            small: small.cloned().collect(),
            tables,
        }
    }

    pub fn random(&mut self) -> &mut Random {
        self.expressions.random
    }

    /// A value over some names.
    pub fn value(&mut self, kind: Kind, names: &[Named], depth: usize) -> Node {
        let small = self.small.clone();
        let scope = Scope {
            names,
            tables: &small,
        };
        self.expressions.any(kind, scope, depth)
    }

    /// The same without subqueries.
    pub fn plain_value(&mut self, kind: Kind, names: &[Named], depth: usize) -> Node {
        let scope = Scope { names, tables: &[] };
        self.expressions.any(kind, scope, depth)
    }

    /// One or several tables.
    pub fn from(&mut self) -> From {
        let tables = self.tables;
        let first = self.random().pick(tables);
        let mut rows = first.rows.max(1);
        let (node, mut names) = self.relation(first);
        let mut parts = vec![node];
        while parts.len() < 3 && self.random().percent(45) {
            let next = self.random().pick(tables);
            if next.rows > SMALL_ROWS {
                break;
            }
            let (relation, more) = self.relation(next);
            rows *= next.rows.max(1);
            let is_product = rows <= PRODUCT_ROWS_MAX && self.random().percent(25);
            let joined = match is_product && self.random().percent(60) {
                true => Node::optional(" CROSS JOIN {}", vec![relation]),
                false => self.join(relation, (&names, &more), is_product),
            };
            names.extend(more);
            parts.push(joined);
        }
        let template = "{}".repeat(parts.len());
        let node = Node::fixed(&template, parts);
        From { node, names }
    }

    fn join(
        &mut self,
        relation: Node,
        (left, right): (&[Named], &[Named]),
        is_product: bool,
    ) -> Node {
        let all = [left, right].concat();
        let equality = (!is_product).then(|| self.equality(left, right)).flatten();
        let other = self.plain_value(Kind::Boolean, &all, 1);
        let condition = match equality {
            Some(equality) if self.random().percent(60) => equality,
            Some(equality) => Node::value(Kind::Boolean, "({} AND {})", vec![equality, other]),
            None => other,
        };
        let kind =
            *self
                .random()
                .pick(&["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        Node::optional(&format!(" {kind} {{}} ON {{}}"), vec![relation, condition])
    }

    fn equality(&mut self, left: &[Named], right: &[Named]) -> Option<Node> {
        let pairs: Vec<_> = left
            .iter()
            .flat_map(|left| right.iter().map(move |right| (left, right)))
            .filter(|(left, right)| left.kind == right.kind)
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let (left, right) = *self.random().pick(&pairs);
        let leaf = |named: &Named| Node::leaf(Sort::Value(named.kind), &named.sql);
        let parts = vec![leaf(left), leaf(right)];
        Some(Node::value(Kind::Boolean, "{} = {}", parts))
    }

    /// A table under a new name, or a query of one.
    fn relation(&mut self, table: &Table) -> (Node, Vec<Named>) {
        let alias = self.expressions.alias();
        let names = names_of(table, &alias);
        let plain = Node::leaf(Sort::Fixed, format!("{} AS {alias}", table.name));
        if self.random().percent(85) {
            return (plain, names);
        }
        let outer = self.expressions.alias();
        let kinds: Vec<_> = (0..self.random().between(1, 4))
            .map(|_| *self.random().pick(&Kind::ALL))
            .collect();
        let items = kinds.iter().enumerate().map(|(index, kind)| {
            let value = self.plain_value(*kind, &names, 1);
            Node::fixed(&format!("{{}} AS k{index}"), vec![value])
        });
        let items = Node::list(items.collect());
        let filter = self.plain_value(Kind::Boolean, &names, 2);
        let filter = Node::optional(" WHERE {}", vec![filter]);
        let distinct = *self.random().pick(&["", "", "DISTINCT "]);
        let template = format!("(SELECT {distinct}{{}} FROM {{}}{{}}) AS {outer}");
        let node = Node::fixed(&template, vec![items, plain, filter]);
        let name = |(index, kind): (usize, &Kind)| Named {
            sql: format!("{outer}.k{index}"),
            kind: *kind,
        };
        (node, kinds.iter().enumerate().map(name).collect())
    }

    /// Any query.
    pub fn query(&mut self) -> Query {
        let (node, kinds) = match self.random().below(10) {
            0..4 => self.select(None),
            4..7 => self.grouped(),
            7 => self.window(),
            8 => self.running(),
            _ => self.combined(),
        };
        self.ordered(node, kinds)
    }

    /// Puts rows in order, or some of them away.
    fn ordered(&mut self, node: Node, kinds: Vec<Kind>) -> Query {
        if self.random().percent(50) {
            let is_ordered = false;
            return Query {
                node,
                kinds,
                is_ordered,
            };
        }
        let keys: Vec<_> = (1..=kinds.len())
            .map(|key| {
                let directions = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
                format!("{key}{}", self.random().pick(&directions))
            })
            .collect();
        let mut limit = Node::empty();
        if self.random().percent(50) {
            let offset = *self.random().pick(&["", " OFFSET 1", " OFFSET 20"]);
            let rows = self.random().pick(&[0, 1, 3, 50]).to_string();
            limit = Node::leaf(Sort::Fixed, format!(" LIMIT {rows}{offset}"));
        }
        let template = format!("{{}} ORDER BY {}{{}}", keys.join(", "));
        Query {
            node: Node::fixed(&template, vec![node, limit]),
            kinds,
            is_ordered: true,
        }
    }

    /// A query without aggregates, of these kinds if there are any.
    fn select(&mut self, kinds: Option<&[Kind]>) -> (Node, Vec<Kind>) {
        let from = self.from();
        let kinds = match kinds {
            Some(kinds) => kinds.to_vec(),
            None => (0..self.random().between(1, 4))
                .map(|_| *self.random().pick(&Kind::ALL))
                .collect(),
        };
        let items = kinds.iter().map(|kind| self.value(*kind, &from.names, 2));
        let items = Node::list(items.collect());
        let filter = self.filter(&from.names);
        let distinct = *self.random().pick(&["", "", "", "DISTINCT "]);
        let template = format!("SELECT {distinct}{{}} FROM {{}}{{}}");
        (
            Node::fixed(&template, vec![items, from.node, filter]),
            kinds,
        )
    }

    fn filter(&mut self, names: &[Named]) -> Node {
        if self.random().percent(25) {
            return Node::empty();
        }
        let predicate = self.value(Kind::Boolean, names, 3);
        Node::optional(" WHERE {}", vec![predicate])
    }

    /// Aggregates, by groups or of everything.
    fn grouped(&mut self) -> (Node, Vec<Kind>) {
        let from = self.from();
        let groups = self.groups(&from.names);
        let mut names = groups.clone();
        let mut items: Vec<_> = groups
            .iter()
            .map(|group| Node::leaf(Sort::Fixed, &group.sql))
            .collect();
        for (node, named) in self.aggregates(&from.names) {
            items.push(node);
            names.push(named);
        }
        let kinds = names.iter().map(|named| named.kind).collect();
        let filter = self.filter(&from.names);
        let having = match self.random().percent(30) {
            true => Node::optional(
                " HAVING {}",
                vec![self.plain_value(Kind::Boolean, &names, 2)],
            ),
            false => Node::empty(),
        };
        let list: Vec<_> = groups.iter().map(|group| group.sql.as_str()).collect();
        let sets = *self.random().pick(&["", "", "", "", "ROLLUP", "CUBE"]);
        let group = match (list.is_empty(), sets) {
            (true, _) => String::new(),
            (_, "") => format!(" GROUP BY {}", list.join(", ")),
            _ => format!(" GROUP BY {sets}({})", list.join(", ")),
        };
        let template = format!("SELECT {{}} FROM {{}}{{}}{group}{{}}");
        let parts = vec![Node::list(items), from.node, filter, having];
        (Node::fixed(&template, parts), kinds)
    }

    /// Some of the names.
    fn groups(&mut self, names: &[Named]) -> Vec<Named> {
        let mut groups: Vec<Named> = Vec::new();
        for _ in 0..self.random().below(3) {
            let group = self.random().pick(names).clone();
            if groups.iter().all(|other| other.sql != group.sql) {
                groups.push(group);
            }
        }
        groups
    }

    /// Aggregates of one query.
    fn aggregates(&mut self, names: &[Named]) -> Vec<(Node, Named)> {
        if self.random().percent(80) {
            let count = self.random().between(1, 3);
            return (0..count).map(|_| self.aggregate(names)).collect();
        }
        // Those that are computed in two steps beside one over distinct values.
        let column = self.random().pick(names).sql.clone();
        let mut found = vec![(Kind::Integer, format!("count(DISTINCT {column})"))];
        for _ in 0..self.random().between(1, 2) {
            let of = self.random().pick(names).clone();
            let is_number = matches!(of.kind, Kind::Integer | Kind::Decimal);
            found.push(match is_number && self.random().percent(70) {
                true => (of.kind, format!("sum({})", of.sql)),
                false if of.kind == Kind::Boolean => continue,
                false => (of.kind, format!("max({})", of.sql)),
            });
        }
        let named = |(kind, sql): (Kind, String)| {
            let node = Node::leaf(Sort::Value(kind), &sql);
            (node, Named { sql, kind })
        };
        found.into_iter().map(named).collect()
    }

    /// An aggregate, and what it is called where aggregates can be used.
    pub fn aggregate(&mut self, names: &[Named]) -> (Node, Named) {
        let kind = *self.random().pick(&Kind::ALL);
        let (template, of) = self.expressions.aggregate(kind);
        let argument = self.plain_value(of, names, 1);
        let mut node = Node::value(kind, template, vec![argument]);
        if self.random().percent(15) {
            let filter = self.plain_value(Kind::Boolean, names, 1);
            node = Node::value(kind, "{} FILTER (WHERE {})", vec![node, filter]);
        }
        let sql = node.to_string();
        (node, Named { sql, kind })
    }

    /// Functions over windows whose answers do not depend on the order of equal rows.
    fn window(&mut self) -> (Node, Vec<Kind>) {
        let from = self.from();
        let mut items = Vec::new();
        let mut kinds = Vec::new();
        for _ in 0..self.random().between(1, 3) {
            let kind = *self.random().pick(&Kind::ALL);
            items.push(self.plain_value(kind, &from.names, 1));
            kinds.push(kind);
        }
        let partition = self.random().pick(&from.names).sql.clone();
        let order = self.random().pick(&from.names).sql.clone();
        let direction = *self.random().pick(&["", " DESC", " NULLS FIRST"]);
        let over = match self.random().below(3) {
            0 => format!("OVER (PARTITION BY {partition})"),
            1 => format!("OVER (ORDER BY {order}{direction})"),
            _ => format!("OVER (PARTITION BY {partition} ORDER BY {order}{direction})"),
        };
        if over.contains("ORDER") && self.random().percent(40) {
            let rank = *self.random().pick(&["rank()", "dense_rank()"]);
            items.push(Node::leaf(Sort::Fixed, format!("{rank} {over}")));
            kinds.push(Kind::Integer);
        } else {
            let kind = *self.random().pick(&Kind::ORDERED);
            let (aggregate, of) = match self.expressions.aggregate(kind) {
                // PostgreSQL has no distinct aggregates over windows.
                (aggregate, _) if aggregate.contains("DISTINCT") => ("count({})", kind),
                aggregate => aggregate,
            };
            let argument = self.plain_value(of, &from.names, 1);
            items.push(Node::fixed(&format!("{aggregate} {over}"), vec![argument]));
            kinds.push(kind);
        }
        let filter = self.filter(&from.names);
        let parts = vec![Node::list(items), from.node, filter];
        (Node::fixed("SELECT {} FROM {}{}", parts), kinds)
    }

    /// Functions over frames of rows, of nothing but what the rows are ordered by.
    fn running(&mut self) -> (Node, Vec<Kind>) {
        let from = self.from();
        let partition = self.random().pick(&from.names).clone();
        let order = self.random().pick(&from.names).clone();
        let leaf = |named: &Named| Node::leaf(Sort::Fixed, &named.sql);
        let items = vec![leaf(&partition), leaf(&order)];
        let order_by = format!("PARTITION BY {0} ORDER BY {1}", partition.sql, order.sql);
        let function = match self.random().below(6) {
            0 => format!("lag({}) OVER ({order_by})", order.sql),
            1 => format!("lead({}, 2) OVER ({order_by})", order.sql),
            2 => format!("first_value({}) OVER ({order_by})", order.sql),
            _ => {
                let name = *self.random().pick(&["min", "max", "last_value"]);
                let first =
                    *self
                        .random()
                        .pick(&["UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW"]);
                let last =
                    *self
                        .random()
                        .pick(&["CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"]);
                format!(
                    "{name}({}) OVER ({order_by} ROWS BETWEEN {first} AND {last})",
                    order.sql
                )
            }
        };
        let kinds = vec![partition.kind, order.kind, order.kind];
        let filter = self.filter(&from.names);
        let template = format!("SELECT {{}}, {function} FROM {{}}{{}}");
        let parts = vec![Node::list(items), from.node, filter];
        (Node::fixed(&template, parts), kinds)
    }

    /// Two queries as one.
    fn combined(&mut self) -> (Node, Vec<Kind>) {
        let (first, kinds) = self.select(None);
        let (second, _) = self.select(Some(&kinds));
        let operators = [
            "UNION",
            "UNION ALL",
            "INTERSECT",
            "EXCEPT",
            "INTERSECT ALL",
            "EXCEPT ALL",
        ];
        let operator = *self.random().pick(&operators);
        let template = format!("{{}} {operator} {{}}");
        (Node::fixed(&template, vec![first, second]), kinds)
    }
}
