//! Statements that take long in one way or another, and questions that do not.

/// A statement that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hostile {
    /// None at all, for comparison.
    Nothing,
    /// A select list of 20,000 expressions, which is refused.
    Columns,
    /// As many expressions as are allowed.
    AllowedColumns,
    /// An `IN` with 1.5 million elements.
    InList,
    /// 400,000 rows of `VALUES`.
    Values,
    /// 12 common table expressions, each of which uses the one before twice.
    Doubling,
    /// A regular expression over long texts.
    Regex,
    /// `LIKE` over long texts.
    Like,
    /// Every row with every other.
    Pairs,
    /// A sort of many rows.
    Sort,
    /// A scan of 160 MB of far memory.
    FarScan,
    /// The same, with a limit of what is moved from there.
    LimitedFarScan,
}

/// Texts of 100 KB, and numbers for the questions.
pub(super) const TABLES: [&str; 3] = [
    "CREATE TABLE texts AS SELECT value AS k, repeat('abcdefgh ', 11000) || value AS s \
     FROM generate_series(1, 2000)",
    "CREATE TABLE numbers AS SELECT value AS k FROM generate_series(1, 100000)",
    "CREATE UNIQUE INDEX ON numbers (k)",
];

/// Numbers that nothing makes smaller, in far memory.
pub(super) const FAR_TABLE: &str = "CREATE TABLE far_numbers TABLESPACE far AS SELECT random() AS v \
     FROM generate_series(1, 20000000)";

/// How statements begin about all texts, and every number beside every other.
const TEXTS: &str = "SELECT count(*) FROM texts WHERE s";
const PAIRS: &str = "numbers a, numbers b";

const COLUMNS: usize = 20_000;
const COLUMNS_ALLOWED: usize = 1_664;
const ELEMENTS: usize = 1_500_000;
const ROWS: usize = 400_000;
const DOUBLINGS: usize = 12;

impl Hostile {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Nothing,
        Self::Columns,
        Self::AllowedColumns,
        Self::InList,
        Self::Values,
        Self::Doubling,
        Self::Regex,
        Self::Like,
        Self::Pairs,
        Self::Sort,
        Self::FarScan,
        Self::LimitedFarScan,
    ];

    /// Whether it reads far memory.
    pub const fn is_far(self) -> bool {
        matches!(self, Self::FarScan | Self::LimitedFarScan)
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Columns => "columns",
            Self::AllowedColumns => "allowed-columns",
            Self::InList => "in-list",
            Self::Values => "values",
            Self::Doubling => "doubling",
            Self::Regex => "regex",
            Self::Like => "like",
            Self::Pairs => "pairs",
            Self::Sort => "sort",
            Self::FarScan => "far-scan",
            Self::LimitedFarScan => "limited-far-scan",
        }
    }

    /// Its text, if there is a statement.
    pub fn sql(self) -> Option<String> {
        Some(match self {
            Self::Nothing => return None,
            Self::Columns => wide(COLUMNS),
            Self::AllowedColumns => wide(COLUMNS_ALLOWED),
            Self::InList => format!(
                "SELECT count(*) FROM numbers WHERE k IN ({})",
                list(ELEMENTS, |n| n.to_string())
            ),
            Self::Values => format!(
                "SELECT count(*) FROM (VALUES {}) AS v(a, b)",
                list(ROWS, |n| format!("({n}, 'row {n}')"))
            ),
            Self::Doubling => {
                let tables = list(DOUBLINGS, |n| match n {
                    0 => "t0 AS (SELECT 1 AS a)".to_owned(),
                    n => format!(
                        "t{n} AS (SELECT x.a FROM t{p} x JOIN t{p} y ON x.a = y.a)",
                        p = n - 1
                    ),
                });
                format!("WITH {tables} SELECT count(*) FROM t{}", DOUBLINGS - 1)
            }
            Self::Regex => format!("{TEXTS} ~ '(a|b|c)+d.*[x-z]{{3}}$'"),
            Self::Like => format!("{TEXTS} LIKE '%h_a%b%d_f%xyz'"),
            Self::Pairs => format!("SELECT count(*) FROM {PAIRS} WHERE a.k + b.k = -1"),
            Self::FarScan | Self::LimitedFarScan => "SELECT sum(v) FROM far_numbers".to_owned(),
            Self::Sort => format!("SELECT a.k FROM {PAIRS} ORDER BY a.k * b.k % 7919, a.k, b.k"),
        })
    }
}

fn wide(columns: usize) -> String {
    let columns = list(columns, |n| format!("k + {n} AS c{n}"));
    format!("SELECT {columns} FROM numbers LIMIT 1")
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

/// What the peer asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Nothing but an answer.
    One,
    /// A row by its key.
    Point,
    /// A look at 100,000 rows.
    Sum,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::One, Self::Point, Self::Sum];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Point => "point",
            Self::Sum => "sum",
        }
    }

    /// Its text.
    pub const fn sql(self) -> &'static str {
        match self {
            Self::One => "SELECT 1",
            Self::Point => "SELECT k FROM numbers WHERE k = 77777",
            Self::Sum => "SELECT sum(k) FROM numbers WHERE k % 7 = 3",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_into_a_message() {
        for hostile in Hostile::ALL {
            let bytes = hostile.sql().map_or(0, |sql| sql.len());
            assert!(bytes < 16 << 20, "{}: {bytes}", hostile.name());
        }
        let sql = Hostile::Doubling.sql().expect("a statement");
        assert!(sql.ends_with("SELECT count(*) FROM t11"), "{sql}");
    }
}
