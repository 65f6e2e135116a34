//! What a client of the crash tests does, as text, and what it must lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

/// One statement of a transaction, or a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many rows from a key on, into both tables.
    Insert { first: i64, rows: i64 },
    /// Another value where the key modulo the first is the second, in the first table.
    Update { modulus: i64, rest: i64 },
    /// The same rows, out of the second table.
    Delete { modulus: i64, rest: i64 },
    /// The first table, emptied.
    Truncate,
    /// The first table, made anew with so many rows from a key on.
    Replace { first: i64, rows: i64 },
    /// The view of the second table, made or dropped.
    View,
    /// An index of the first table, made or dropped.
    Index,
    /// A unique constraint of the second table, added or dropped.
    Unique,
    /// Numbers of a sequence, written to a table in which none is twice.
    Draw,
    /// In one transaction, a column of the third table with an index, added or dropped, and so many rows
    /// from a key on; committed or undone.
    Define {
        first: i64,
        rows: i64,
        commits: bool,
    },
    /// A row of a table that all clients share, which may have one of this key, added or deleted if it is the
    /// client's own; before and behind that, two counters that others wait for.
    Contend { one: i64, other: i64, key: i64 },
    /// No change of contents.
    Merge,
    /// No change of contents.
    Checkpoint,
    /// What is committed, published in the pool. No change of contents.
    Publish,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert { first, rows } => write!(f, "insert:{first}:{rows}"),
            Self::Update { modulus, rest } => write!(f, "update:{modulus}:{rest}"),
            Self::Delete { modulus, rest } => write!(f, "delete:{modulus}:{rest}"),
            Self::Truncate => f.write_str("truncate"),
            Self::Replace { first, rows } => write!(f, "replace:{first}:{rows}"),
            Self::View => f.write_str("view"),
            Self::Index => f.write_str("index"),
            Self::Unique => f.write_str("unique"),
            Self::Draw => f.write_str("draw"),
            Self::Define {
                first,
                rows,
                commits,
            } => write!(f, "define:{first}:{rows}:{}", i64::from(*commits)),
            Self::Contend { one, other, key } => write!(f, "contend:{one}:{other}:{key}"),
            Self::Merge => f.write_str("merge"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::Publish => f.write_str("publish"),
        }
    }
}

impl FromStr for Step {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split(':').collect();
        let number = |index: usize| words.get(index).and_then(|w| w.parse().ok()).ok_or(());
        Ok(match words[0] {
            "insert" => Self::Insert {
                first: number(1)?,
                rows: number(2)?,
            },
            "update" => Self::Update {
                modulus: number(1)?,
                rest: number(2)?,
            },
            "delete" => Self::Delete {
                modulus: number(1)?,
                rest: number(2)?,
            },
            "truncate" => Self::Truncate,
            "replace" => Self::Replace {
                first: number(1)?,
                rows: number(2)?,
            },
            "view" => Self::View,
            "index" => Self::Index,
            "unique" => Self::Unique,
            "draw" => Self::Draw,
            "define" => Self::Define {
                first: number(1)?,
                rows: number(2)?,
                commits: number(3)? != 0,
            },
            "contend" => Self::Contend {
                one: number(1)?,
                other: number(2)?,
                key: number(3)?,
            },
            "merge" => Self::Merge,
            "checkpoint" => Self::Checkpoint,
            "publish" => Self::Publish,
            _ => return Err(()),
        })
    }
}

/// The text of the row with this key and value: a torn row has another.
pub fn text_of(key: i64, value: i64) -> String {
    format!("row {key} {value}{}", "x".repeat((key % 50) as usize))
}

/// The same, in SQL.
pub fn text_sql(key: &str, value: &str) -> String {
    format!("'row ' || {key} || ' ' || {value} || repeat('x', {key} % 50)")
}

impl Step {
    /// What it is, without its numbers.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Update { .. } => "update",
            Self::Delete { .. } => "delete",
            Self::Truncate => "truncate",
            Self::Replace { .. } => "replace",
            Self::View => "view",
            Self::Index => "index",
            Self::Unique => "unique",
            Self::Draw => "draw",
            Self::Define { .. } => "define",
            Self::Contend { .. } => "contend",
            Self::Merge => "merge",
            Self::Checkpoint => "checkpoint",
            Self::Publish => "publish",
        }
    }

    /// The statements of client `client`, whose tables are as in `model`.
    pub fn sql(self, client: usize, model: &Model) -> Vec<String> {
        let rows = |first: i64, rows: i64| {
            let last = first + rows - 1;
            let text = text_sql("value", "0");
            format!(
                "SELECT value AS k, 0::BIGINT AS v, {text} AS s FROM generate_series({first}, {last})"
            )
        };
        match self {
            Self::Insert { first, rows: n } => vec![
                format!("INSERT INTO a{client} {}", rows(first, n)),
                format!("INSERT INTO b{client} {}", rows(first, n)),
            ],
            Self::Update { modulus, rest } => vec![format!(
                "UPDATE a{client} SET v = v + 1, s = {} WHERE k % {modulus} = {rest}",
                text_sql("k", "(v + 1)")
            )],
            Self::Delete { modulus, rest } => {
                vec![format!(
                    "DELETE FROM b{client} WHERE k % {modulus} = {rest}"
                )]
            }
            Self::Truncate => vec![format!("TRUNCATE TABLE a{client}")],
            Self::Replace { first, rows: n } => {
                vec![format!(
                    "CREATE OR REPLACE TABLE a{client} AS {}",
                    rows(first, n)
                )]
            }
            Self::View if model.has_view => vec![format!("DROP VIEW v{client}")],
            Self::View => vec![format!("CREATE VIEW v{client} AS SELECT * FROM b{client}")],
            Self::Index if model.has_index => vec![format!("DROP INDEX x{client}")],
            Self::Index => vec![format!("CREATE INDEX x{client} ON a{client} (v, s)")],
            Self::Unique if model.has_unique => {
                vec![format!("ALTER TABLE b{client} DROP CONSTRAINT u{client}")]
            }
            Self::Unique => vec![format!(
                "ALTER TABLE b{client} ADD CONSTRAINT u{client} UNIQUE (s, k)"
            )],
            Self::Draw => vec![format!(
                "INSERT INTO drawn{client} SELECT nextval('q{client}') FROM generate_series(1, {DRAWN})"
            )],
            Self::Define {
                first,
                rows,
                commits,
            } => defining(client, model, (first, rows), commits),
            Self::Contend { one, other, key } => {
                let count = |counter: i64| {
                    format!("UPDATE counters SET n{client} = n{client} + 1 WHERE k = {counter}")
                };
                let change = match model.shared.contains(&key) {
                    true => format!("DELETE FROM shared WHERE k = {key} AND client = {client}"),
                    false => format!("INSERT INTO shared VALUES ({key}, {client})"),
                };
                vec![count(one), change, count(other)]
            }
            Self::Merge => vec![format!("CALL nearfar.merge('a{client}')")],
            Self::Checkpoint => vec!["CHECKPOINT".to_owned()],
            Self::Publish => Vec::new(),
        }
    }

    /// Whether it can be part of a transaction of several statements.
    pub fn is_in_transaction(self) -> bool {
        !matches!(
            self,
            Self::Replace { .. }
                | Self::View
                | Self::Index
                | Self::Unique
                | Self::Define { .. }
                | Self::Merge
                | Self::Checkpoint
                | Self::Publish
        )
    }

    /// Whether another client may be in its way.
    pub fn is_contended(self) -> bool {
        matches!(self, Self::Contend { .. })
    }
}

/// The statements of [`Step::Define`].
fn defining(client: usize, model: &Model, (first, rows): (i64, i64), commits: bool) -> Vec<String> {
    let table = format!("c{client}");
    let column = match model.has_column {
        true => vec![format!("ALTER TABLE {table} DROP COLUMN e")],
        false => vec![
            format!("ALTER TABLE {table} ADD COLUMN e BIGINT DEFAULT {FILLED}"),
            format!("CREATE INDEX y{client} ON {table} (e, k)"),
        ],
    };
    let last = first + rows - 1;
    let fill =
        format!("INSERT INTO {table} (k) SELECT value FROM generate_series({first}, {last})");
    let end = if commits { "COMMIT" } else { "ROLLBACK" };
    let begin = ["BEGIN".to_owned()].into_iter();
    begin.chain(column).chain([fill, end.to_owned()]).collect()
}

/// Numbers that one step draws from a sequence.
pub const DRAWN: i64 = 3;
/// What all rows have in the column that [`Step::Define`] adds.
pub const FILLED: i64 = 7;

/// What a client's tables hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Model {
    pub a: BTreeMap<i64, i64>,
    pub b: BTreeMap<i64, i64>,
    pub has_view: bool,
    pub has_index: bool,
    pub has_unique: bool,
    /// The keys of the third table, and whether it has a second column.
    pub c: BTreeSet<i64>,
    pub has_column: bool,
    /// How many numbers were drawn from its sequence.
    pub drawn: i64,
    /// The keys of its rows in the table that all share.
    pub shared: BTreeSet<i64>,
    /// What it has counted, but for zeros.
    pub counters: BTreeMap<i64, i64>,
    /// The numbers of its transactions, which it writes to a table of all clients.
    pub numbers: BTreeSet<i64>,
}

impl Model {
    /// A number that is another one for other contents.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Carries out transaction `number`.
    pub fn apply_all(&mut self, number: i64, steps: &[Step]) {
        steps.iter().for_each(|step| self.apply(*step));
        if steps[0].is_in_transaction() {
            self.numbers.insert(number);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Insert { first, rows } => {
                let new = (first..first + rows).map(|key| (key, 0));
                self.a.extend(new.clone());
                self.b.extend(new);
            }
            Step::Update { modulus, rest } => {
                let changed = self.a.iter_mut().filter(|(key, _)| *key % modulus == rest);
                changed.for_each(|(_, value)| *value += 1);
            }
            Step::Delete { modulus, rest } => self.b.retain(|key, _| key % modulus != rest),
            Step::Truncate => self.a.clear(),
            Step::Replace { first, rows } => {
                self.a = (first..first + rows).map(|key| (key, 0)).collect();
                self.has_index = false;
            }
            Step::View => self.has_view = !self.has_view,
            Step::Index => self.has_index = !self.has_index,
            Step::Unique => self.has_unique = !self.has_unique,
            Step::Draw => self.drawn += DRAWN,
            Step::Define { commits: false, .. } => {}
            Step::Define { first, rows, .. } => {
                self.has_column = !self.has_column;
                self.c.extend(first..first + rows);
            }
            Step::Contend { one, other, key } => {
                if !self.shared.remove(&key) {
                    self.shared.insert(key);
                }
                for counter in [one, other] {
                    *self.counters.entry(counter).or_default() += 1;
                }
            }
            Step::Merge | Step::Checkpoint | Step::Publish => {}
        }
    }
}

/// A small generator of random numbers, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
