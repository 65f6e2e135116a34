//! What must hold of random queries.

use super::kind::Kind;
use super::node::Node;
use super::query::{From, Queries, Query};

/// A query and what is known of its answer.
#[derive(Clone, Debug)]
pub enum Check {
    /// All engines answer it alike.
    Same {
        query: Node,
        kinds: Vec<Kind>,
        is_ordered: bool,
    },
    /// As many rows fulfil a condition as it is true of (NoREC: Rigger and Su, ESEC/FSE 2020).
    Counted { from: Node, predicate: Node },
    /// Each row fulfils a condition, its opposite, or neither (TLP: Rigger and Su, OOPSLA 2020).
    Partitioned {
        form: Form,
        list: Node,
        kinds: Vec<Kind>,
        from: Node,
        predicate: Node,
    },
}

/// What is put together again of the three parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Rows,
    Distinct,
    /// Counts, sums and extremes of each column.
    Aggregates,
    /// The same by the first column.
    Groups,
    /// Groups that fulfil a condition.
    Having,
}

impl Check {
    pub fn random(queries: &mut Queries<'_>) -> Self {
        match queries.random().below(10) {
            0..2 => {
                let From { node, names } = queries.from();
                let predicate = queries.value(Kind::Boolean, &names, 3);
                Self::Counted {
                    from: node,
                    predicate,
                }
            }
            2..5 => Self::partitioned(queries),
            _ => {
                let Query {
                    node,
                    kinds,
                    is_ordered,
                } = queries.query();
                Self::Same {
                    query: node,
                    kinds,
                    is_ordered,
                }
            }
        }
    }

    fn partitioned(queries: &mut Queries<'_>) -> Self {
        const FORMS: [Form; 5] = [
            Form::Rows,
            Form::Distinct,
            Form::Aggregates,
            Form::Groups,
            Form::Having,
        ];
        let form = *queries.random().pick(&FORMS);
        let From { node, names } = queries.from();
        if form == Form::Having {
            let group = queries.random().pick(&names).clone();
            let (aggregate, named) = queries.aggregate(&names);
            let kinds = vec![group.kind, named.kind];
            let list = Node::fixed(&format!("{}, {{}}", group.sql), vec![aggregate]);
            let predicate = queries.plain_value(Kind::Boolean, &[group, named], 2);
            return Self::Partitioned {
                form,
                list,
                kinds,
                from: node,
                predicate,
            };
        }
        let kinds: Vec<_> = (0..queries.random().between(1, 3))
            .map(|_| *queries.random().pick(&Kind::ALL))
            .collect();
        let items = kinds.iter().enumerate().map(|(index, kind)| {
            let value = queries.plain_value(*kind, &names, 1);
            Node::fixed(&format!("{{}} AS k{index}"), vec![value])
        });
        let list = Node::list(items.collect());
        let predicate = queries.value(Kind::Boolean, &names, 3);
        Self::Partitioned {
            form,
            list,
            kinds,
            from: node,
            predicate,
        }
    }

    /// The same with one piece made smaller, in all ways.
    pub fn smaller(&self) -> Vec<Self> {
        let nodes: Vec<&Node> = match self {
            Self::Same { query, .. } => vec![query],
            Self::Counted { from, predicate } => vec![from, predicate],
            Self::Partitioned {
                list,
                from,
                predicate,
                ..
            } => vec![list, from, predicate],
        };
        let mut all = Vec::new();
        for (index, node) in nodes.into_iter().enumerate() {
            for smaller in node.smaller() {
                let mut check = self.clone();
                *check.nodes_mut().swap_remove(index) = smaller;
                all.push(check);
            }
        }
        all
    }

    fn nodes_mut(&mut self) -> Vec<&mut Node> {
        match self {
            Self::Same { query, .. } => vec![query],
            Self::Counted { from, predicate } => vec![from, predicate],
            Self::Partitioned {
                list,
                from,
                predicate,
                ..
            } => vec![list, from, predicate],
        }
    }

    /// The query whose answer is known by other queries, and these.
    pub fn sql(&self) -> (String, Vec<String>) {
        match self {
            Self::Same { query, .. } => (query.to_string(), Vec::new()),
            Self::Counted { from, predicate } => (
                format!("SELECT count(*) FROM {from} WHERE {predicate}"),
                vec![format!(
                    "SELECT count(CASE WHEN {predicate} THEN 1 END) FROM {from}"
                )],
            ),
            Self::Partitioned {
                form,
                list,
                kinds,
                from,
                predicate,
            } => {
                let conditions = [
                    format!("{predicate}"),
                    format!("(NOT {predicate})"),
                    format!("({predicate} IS NULL)"),
                ];
                form.sql((&list.to_string(), kinds), &from.to_string(), &conditions)
            }
        }
    }

    /// The kinds of the columns of the queries.
    pub fn kinds(&self) -> Vec<Kind> {
        match self {
            Self::Same { kinds, .. } => kinds.clone(),
            Self::Counted { .. } => vec![Kind::Integer],
            Self::Partitioned { form, kinds, .. } => form.kinds(kinds),
        }
    }
}

impl Form {
    fn sql(
        self,
        (list, kinds): (&str, &[Kind]),
        from: &str,
        conditions: &[String; 3],
    ) -> (String, Vec<String>) {
        let each = |make: &dyn Fn(&str) -> String| -> Vec<String> {
            conditions.iter().map(|condition| make(condition)).collect()
        };
        match self {
            Self::Rows => (
                format!("SELECT {list} FROM {from}"),
                each(&|condition| format!("SELECT {list} FROM {from} WHERE {condition}")),
            ),
            Self::Distinct => (
                format!("SELECT DISTINCT {list} FROM {from}"),
                vec![
                    each(&|condition| {
                        format!("SELECT DISTINCT {list} FROM {from} WHERE {condition}")
                    })
                    .join(" UNION "),
                ],
            ),
            Self::Having => {
                let group = list.split(',').next().unwrap_or(list);
                let grouped = format!("SELECT {list} FROM {from} GROUP BY {group}");
                let parts = each(&|condition| format!("{grouped} HAVING {condition}"));
                (grouped, parts)
            }
            Self::Aggregates | Self::Groups => {
                let (items, group) = self.aggregates(kinds);
                let parts =
                    each(&|condition| format!("SELECT {list} FROM {from} WHERE {condition}"));
                let parts = parts.join(" UNION ALL ");
                (
                    format!("SELECT {items} FROM (SELECT {list} FROM {from}) AS u{group}"),
                    vec![format!("SELECT {items} FROM ({parts}) AS u{group}")],
                )
            }
        }
    }

    /// What is asked of columns `k0`, `k1` … that have these kinds, and how it is grouped.
    fn aggregates(self, kinds: &[Kind]) -> (String, &'static str) {
        let of = |(index, kind): (usize, &Kind)| match (self, kind) {
            (Self::Groups, _) if index == 0 => "k0".to_owned(),
            (_, Kind::Boolean) => format!("bool_or(k{index})"),
            (_, Kind::Integer | Kind::Decimal) => format!("sum(k{index})"),
            _ => format!("max(k{index})"),
        };
        let items: Vec<_> = kinds.iter().enumerate().map(of).collect();
        let group = if self == Self::Groups {
            " GROUP BY k0"
        } else {
            ""
        };
        (format!("{}, count(*)", items.join(", ")), group)
    }

    fn kinds(self, kinds: &[Kind]) -> Vec<Kind> {
        let mut all = kinds.to_vec();
        if matches!(self, Self::Aggregates | Self::Groups) {
            all.push(Kind::Integer);
        }
        all
    }
}
