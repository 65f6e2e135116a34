//! Random expressions.

use super::kind::Kind;
use super::node::{Node, Sort};
use super::random::Random;
use super::tables::Table;

/// A column, or something else that has a name and a kind.
#[derive(Clone, Debug)]
pub struct Named {
    pub sql: String,
    pub kind: Kind,
}

/// What an expression may name.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub names: &'a [Named],
    /// Tables that subqueries may read.
    pub tables: &'a [Table],
}

/// An expression of a kind, and of which kinds its parts are. Words in braces stand for what is chosen
/// anew each time.
type Form = (Kind, &'static str, &'static [Kind]);

use Kind::{Boolean, Date, Decimal, Double, Integer, Text, Timestamp};

const FORMS: &[Form] = &[
    (Integer, "({} + {})", &[Integer, Integer]),
    (Integer, "({} - {})", &[Integer, Integer]),
    (Integer, "({} * {small})", &[Integer]),
    (Integer, "({} / {small})", &[Integer]),
    (Integer, "({} % {small})", &[Integer]),
    (Integer, "(- {})", &[Integer]),
    (Integer, "abs({})", &[Integer]),
    (Integer, "char_length({})", &[Text]),
    (Integer, "ascii({})", &[Text]),
    (Integer, "strpos({}, {})", &[Text, Text]),
    (Integer, "CAST({} AS INTEGER)", &[Boolean]),
    (Integer, "CAST({} AS BIGINT)", &[Integer]),
    (
        Integer,
        "CAST(extract({field} FROM {}) AS INTEGER)",
        &[Date],
    ),
    (
        Integer,
        "CAST(extract({field} FROM {}) AS INTEGER)",
        &[Timestamp],
    ),
    (Decimal, "({} + {})", &[Decimal, Decimal]),
    (Decimal, "({} - {})", &[Decimal, Integer]),
    (Decimal, "({} * {small})", &[Decimal]),
    (Decimal, "(- {})", &[Decimal]),
    (Decimal, "abs({})", &[Decimal]),
    (Decimal, "round({}, 1)", &[Decimal]),
    (Decimal, "floor({})", &[Decimal]),
    (Decimal, "ceil({})", &[Decimal]),
    (Decimal, "CAST({} AS DECIMAL(12,3))", &[Integer]),
    (Decimal, "CAST({} AS DECIMAL(10,1))", &[Decimal]),
    (Double, "({} + {})", &[Double, Double]),
    (Double, "({} - {})", &[Double, Integer]),
    (Double, "({} * {})", &[Double, Double]),
    (Double, "({} / {small})", &[Double]),
    (Double, "(- {})", &[Double]),
    (Double, "abs({})", &[Double]),
    (Double, "floor({})", &[Double]),
    (Double, "ceil({})", &[Double]),
    (Double, "CAST({} AS DOUBLE PRECISION)", &[Integer]),
    (Double, "CAST({} AS DOUBLE PRECISION)", &[Decimal]),
    (Text, "({} || {})", &[Text, Text]),
    (Text, "upper({})", &[Text]),
    (Text, "lower({})", &[Text]),
    (Text, "trim({})", &[Text]),
    (Text, "ltrim({}, 'a')", &[Text]),
    (Text, "reverse({})", &[Text]),
    (Text, "substr({}, {small}, {size})", &[Text]),
    (Text, "left({}, {small})", &[Text]),
    (Text, "right({}, {small})", &[Text]),
    (Text, "replace({}, 'a', {})", &[Text, Text]),
    (Text, "concat({}, {})", &[Text, Text]),
    (Text, "repeat({}, {size})", &[Text]),
    (Text, "lpad({}, {size}, 'xy')", &[Text]),
    (Text, "split_part({}, 'a', {size})", &[Text]),
    (Text, "CAST({} AS TEXT)", &[Integer]),
    (Text, "CAST({} AS TEXT)", &[Date]),
    (Text, "translate({}, 'ab', 'x')", &[Text]),
    (Date, "CAST({} AS DATE)", &[Timestamp]),
    (Timestamp, "CAST({} AS TIMESTAMP)", &[Date]),
    (Timestamp, "({} + INTERVAL '{size} {unit}')", &[Timestamp]),
    (Timestamp, "({} - INTERVAL '{size} {unit}')", &[Timestamp]),
    (Timestamp, "date_trunc('{unit}', {})", &[Timestamp]),
    (Boolean, "({} AND {})", &[Boolean, Boolean]),
    (Boolean, "({} OR {})", &[Boolean, Boolean]),
    (Boolean, "({} AND {})", &[Boolean, Boolean]),
    (Boolean, "({} OR {})", &[Boolean, Boolean]),
    (Boolean, "(NOT {})", &[Boolean]),
    (Boolean, "({} IS {truth})", &[Boolean]),
    (Boolean, "({} {like} '{pattern}')", &[Text]),
    (Boolean, "({} {like} '{pattern}')", &[Text]),
    (Boolean, "starts_with({}, {})", &[Text, Text]),
    (Boolean, "({} ~ '{regex}')", &[Text]),
    (Boolean, "({} {compare} {})", &[Integer, Decimal]),
    (Boolean, "({} {compare} {})", &[Double, Integer]),
    (Boolean, "({} {compare} {})", &[Decimal, Double]),
    (Boolean, "({} {compare} {})", &[Date, Timestamp]),
    (
        Boolean,
        "(({}, {}) = ({}, {}))",
        &[Integer, Text, Integer, Text],
    ),
];

/// Makes expressions, and names of its own for what is in them.
pub struct Expressions<'r> {
    pub random: &'r mut Random,
    aliases: usize,
}

impl<'r> Expressions<'r> {
    pub fn new(random: &'r mut Random) -> Self {
        Self { random, aliases: 0 }
    }

    /// A name that nothing else has.
    pub fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("s{}", self.aliases)
    }

    /// An expression of so many levels at most.
    pub fn any(&mut self, kind: Kind, scope: Scope<'_>, depth: usize) -> Node {
        if depth == 0 || self.random.percent(10) {
            return self.leaf(kind, scope);
        }
        match self.random.below(10) {
            0..5 => self.form(kind, scope, depth),
            5 if !scope.tables.is_empty() => self.subquery(kind, scope, depth),
            6 => self.choice(kind, scope, depth),
            _ if kind == Boolean => self.comparison(scope, depth),
            _ => self.leaf(kind, scope),
        }
    }

    /// A column, or a literal where there is none.
    fn leaf(&mut self, kind: Kind, scope: Scope<'_>) -> Node {
        let fitting: Vec<_> = scope.names.iter().filter(|n| n.kind == kind).collect();
        let sort = Sort::Value(kind);
        match self.random.below(20) {
            0 => Node::leaf(sort, kind.null()),
            1..17 if !fitting.is_empty() => Node::leaf(sort, &self.random.pick(&fitting).sql),
            _ if kind == Boolean => self.comparison(scope, 0),
            _ => Node::leaf(sort, kind.literal(self.random)),
        }
    }

    fn form(&mut self, kind: Kind, scope: Scope<'_>, depth: usize) -> Node {
        let fitting: Vec<_> = FORMS.iter().filter(|form| form.0 == kind).collect();
        let (_, template, kinds) = **self.random.pick(&fitting);
        let template = self.fill(template);
        let parts = kinds.iter().map(|kind| self.any(*kind, scope, depth - 1));
        let parts = parts.collect();
        Node::value(kind, &template, parts)
    }

    /// Puts something for each word in braces.
    fn fill(&mut self, template: &str) -> String {
        const CHOICES: &[(&str, &[&str])] = &[
            ("{small}", &["1", "2", "3", "7", "10"]),
            ("{size}", &["0", "1", "2", "5"]),
            (
                "{field}",
                &["year", "month", "day", "dow", "doy", "quarter"],
            ),
            ("{unit}", &["year", "month", "day", "hour", "minute"]),
            ("{compare}", &["=", "<>", "<", "<=", ">", ">="]),
            ("{like}", &["LIKE", "NOT LIKE", "ILIKE"]),
            (
                "{pattern}",
                &[
                    "a%", "%a", "%a%", "_", "a_b", "%", "", "a", "%b%c", "text 1%", "\\%",
                ],
            ),
            (
                "{regex}",
                &["a", "^a", "b$", "^$", "^[ab]+$", "text [0-9]{2}$"],
            ),
            (
                "{truth}",
                &[
                    "TRUE",
                    "FALSE",
                    "NOT TRUE",
                    "NOT FALSE",
                    "UNKNOWN",
                    "NOT UNKNOWN",
                    "NULL",
                ],
            ),
        ];
        let mut filled = template.to_owned();
        for &(word, choices) in CHOICES {
            if filled.contains(word) {
                let choice = *self.random.pick(choices);
                filled = filled.replace(word, choice);
            }
        }
        filled
    }

    /// One of several values of the same kind.
    fn choice(&mut self, kind: Kind, scope: Scope<'_>, depth: usize) -> Node {
        let mut part = |kind| self.any(kind, scope, depth - 1);
        let parts = vec![part(kind), part(kind)];
        let condition = part(Boolean);
        let condition_too = part(Boolean);
        let [first, second] = <[Node; 2]>::try_from(parts).unwrap_or_else(|_| unreachable!());
        let two = vec![first.clone(), second.clone()];
        match self.random.below(7) {
            0 => Node::value(kind, "coalesce({}, {})", two),
            1 if kind != Boolean => Node::value(kind, "nullif({}, {})", two),
            2 if kind != Boolean => Node::value(kind, "greatest({}, {})", two),
            3 if kind != Boolean => Node::value(kind, "least({}, {})", two),
            4 => {
                let parts = vec![condition, first];
                Node::value(kind, "CASE WHEN {} THEN {} END", parts)
            }
            5 => {
                let parts = vec![condition, first, condition_too, second.clone(), second];
                let template = "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END";
                Node::value(kind, template, parts)
            }
            _ => {
                let parts = vec![condition, first, second];
                Node::value(kind, "CASE WHEN {} THEN {} ELSE {} END", parts)
            }
        }
    }

    /// A comparison of values of any kind.
    fn comparison(&mut self, scope: Scope<'_>, depth: usize) -> Node {
        let kind = match scope.names.is_empty() {
            true => *self.random.pick(&Kind::ORDERED),
            false => self.random.pick(scope.names).kind,
        };
        let deeper = depth.saturating_sub(1);
        let part = |this: &mut Self| match kind == Boolean && depth == 0 {
            // Else it would have comparisons again.
            true => this.boolean_leaf(scope),
            false => this.any(kind, scope, deeper),
        };
        let (first, second, third) = (part(self), part(self), part(self));
        let template = match self.random.below(12) {
            0 => "({} IS NULL)",
            1 => "({} IS NOT NULL)",
            2 => "({} BETWEEN {} AND {})",
            3 => "({} NOT BETWEEN {} AND {})",
            4 => "({} IS DISTINCT FROM {})",
            5 => "({} IS NOT DISTINCT FROM {})",
            6 => return self.membership(kind, first, scope, depth),
            _ => &self.fill("({} {compare} {})"),
        };
        let count = template.matches("{}").count();
        let parts = [first, second, third].into_iter().take(count).collect();
        Node::value(Boolean, template, parts)
    }

    fn boolean_leaf(&mut self, scope: Scope<'_>) -> Node {
        let fitting: Vec<_> = scope.names.iter().filter(|n| n.kind == Boolean).collect();
        let sql = match fitting.is_empty() {
            true => Boolean.literal(self.random),
            false => self.random.pick(&fitting).sql.clone(),
        };
        Node::leaf(Sort::Value(Boolean), sql)
    }

    /// Whether a value is in a list.
    fn membership(&mut self, kind: Kind, value: Node, scope: Scope<'_>, depth: usize) -> Node {
        let mut list = Vec::new();
        for _ in 0..self.random.between(1, 5) {
            list.push(match self.random.below(10) {
                0 => Node::leaf(Sort::Value(kind), kind.null()),
                1 if depth > 0 && kind != Boolean => self.any(kind, scope, depth - 1),
                _ => Node::leaf(Sort::Value(kind), kind.literal(self.random)),
            });
        }
        let not = *self.random.pick(&["", "NOT "]);
        let list = Node::list(list);
        Node::value(
            Boolean,
            &format!("({{}} {not}IN ({{}}))"),
            vec![value, list],
        )
    }

    /// A subquery that gives a value, or is asked for one.
    fn subquery(&mut self, kind: Kind, scope: Scope<'_>, depth: usize) -> Node {
        let table = self.random.pick(scope.tables).clone();
        let alias = self.alias();
        let inner = names_of(&table, &alias);
        let is_correlated = self.random.percent(40);
        let mut names = inner.clone();
        if is_correlated {
            names.extend_from_slice(scope.names);
        }
        // One level of subqueries is enough.
        let all = Scope {
            names: &names,
            tables: &[],
        };
        let own = Scope {
            names: &inner,
            tables: &[],
        };
        let condition = self.any(Boolean, all, depth - 1);
        let condition = Node::optional(" WHERE {}", vec![condition]);
        let from = format!("FROM {} AS {alias}", table.name);
        if kind == Boolean {
            return self.asked(scope, (&from, own, condition), depth);
        }
        let (template, of) = self.aggregate(kind);
        let argument = self.any(of, own, depth - 1);
        let template = format!("(SELECT {template} {from}{{}})");
        Node::value(kind, &template, vec![argument, condition])
    }

    /// `EXISTS`, `IN` and comparisons with all or any.
    fn asked(
        &mut self,
        scope: Scope<'_>,
        (from, own, condition): (&str, Scope<'_>, Node),
        depth: usize,
    ) -> Node {
        let not = *self.random.pick(&["", "NOT "]);
        if self.random.percent(40) {
            let template = format!("({not}EXISTS (SELECT 1 {from}{{}}))");
            return Node::value(Boolean, &template, vec![condition]);
        }
        let kind = *self.random.pick(&Kind::ORDERED);
        let value = self.any(kind, scope, depth - 1);
        let column = self.leaf(kind, own);
        let operator = match self.random.percent(70) {
            true => format!("{not}IN"),
            false => {
                let which = *self.random.pick(&["ANY", "ALL"]);
                self.fill(&format!("{{compare}} {which}"))
            }
        };
        let template = format!("({{}} {operator} (SELECT {{}} {from}{{}}))");
        Node::value(Boolean, &template, vec![value, column, condition])
    }

    /// An aggregate that gives a value of a kind, and the kind that it takes.
    pub fn aggregate(&mut self, kind: Kind) -> (&'static str, Kind) {
        let forms: &[(&'static str, Kind)] = match kind {
            Integer => &[
                ("count({})", Integer),
                ("count({})", Text),
                ("count(DISTINCT {})", Text),
                ("count(DISTINCT {})", Integer),
                ("sum({})", Integer),
                ("sum(DISTINCT {})", Integer),
                ("min({})", Integer),
                ("max({})", Integer),
            ],
            Decimal => &[
                ("sum({})", Decimal),
                ("min({})", Decimal),
                ("max({})", Decimal),
            ],
            Double => &[
                ("sum({})", Double),
                ("min({})", Double),
                ("max({})", Double),
                ("avg(CAST({} AS DOUBLE PRECISION))", Integer),
            ],
            Text => &[("min({})", Text), ("max({})", Text)],
            Date => &[("min({})", Date), ("max({})", Date)],
            Timestamp => &[("min({})", Timestamp), ("max({})", Timestamp)],
            Boolean => &[("bool_and({})", Boolean), ("bool_or({})", Boolean)],
        };
        *self.random.pick(forms)
    }
}

/// The columns of a table under another name.
pub fn names_of(table: &Table, alias: &str) -> Vec<Named> {
    let named = |column: &super::tables::Column| Named {
        sql: format!("{alias}.{}", column.name),
        kind: column.kind,
    };
    table.columns.iter().map(named).collect()
}
