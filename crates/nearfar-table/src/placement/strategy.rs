//! Placement strategies: from what is known of columns to where each of them goes.

use nearfar_memory::{
    MemorySystem, PlaceError, PlaceName, Placement, PlacementSpec, SpecError, SpecProblem, TierId,
};
use nearfar_topology::units::parse_bytes_with_unit;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use super::ColumnPlacements;

/// How much of the data may be near when columns are placed by access count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NearBudget {
    /// At most so many bytes.
    Bytes(u64),
    /// At most this share, in 0..=1, of the bytes of all columns.
    Share(f64),
    /// The so many columns with most accesses (weisgut-2025 §6.2), whatever their size.
    Columns(usize),
}

/// A rule that says where every column of a set of tables goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Strategy {
    /// All columns alike.
    All(PlacementSpec),
    /// The most accessed columns near as far as the budget goes, the rest far.
    ByAccess(NearBudget),
    /// Columns by name (`table.column`, or `column`); what is not named is near.
    Explicit {
        /// Names of columns, and where each of them is.
        columns: Vec<(String, PlaceName)>,
    },
}

/// What a strategy is told of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnAccess {
    /// Name of the table.
    pub table: String,
    /// Name of the column.
    pub column: String,
    /// Encoded size.
    pub bytes: u64,
    /// Values read, in any pattern.
    pub accesses: u64,
}

/// A strategy that can't be read or carried out.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrategyError {
    /// A text that is no strategy.
    #[error(
        "{0}; or, column by column, columns:BUDGET (those most accessed near, up to bytes like 2GiB, \
         a share like 25%, or a number of columns) or explicit:table.column,… (those far, or where \
         table.column=TIER says, all else near)"
    )]
    Unknown(SpecError),
    /// A text that is no budget.
    #[error(
        "near budget `{text}` is not a number of bytes (2GiB), a share (25%) or of columns (16)"
    )]
    Budget {
        /// The text.
        text: String,
    },
    /// A tier that is not there, or that nothing can be put on.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A column that is not there.
    #[error("placement names column `{name}`, which no table has; there are {known}")]
    UnknownColumn {
        /// The name that was given.
        name: String,
        /// Names that there are.
        known: String,
    },
}

impl Strategy {
    /// Everything near.
    pub fn near() -> Self {
        Self::All(PlacementSpec::Bind(PlaceName::near()))
    }

    /// Everything far.
    pub fn far() -> Self {
        Self::All(PlacementSpec::Bind(PlaceName::far()))
    }

    /// The names of tiers that it puts columns on, but for near.
    pub fn places(&self) -> Vec<PlaceName> {
        match self {
            Self::All(spec) => spec.places().cloned().collect(),
            Self::ByAccess(_) => vec![PlaceName::far()],
            Self::Explicit { columns } => columns.iter().map(|(_, place)| place.clone()).collect(),
        }
    }

    /// The placements by table name of all `columns` over the tiers of `system`.
    ///
    /// # Errors
    /// A tier that `system` has not; a column named explicitly that is not among `columns`.
    pub fn place(
        &self,
        columns: &[ColumnAccess],
        system: &MemorySystem,
    ) -> Result<HashMap<String, ColumnPlacements>, StrategyError> {
        let near = Placement::Bind(TierId::NEAR);
        let bind = |name: &PlaceName| system.place(name.as_str()).map(Placement::Bind);
        let default = match self {
            Self::All(spec) => spec.resolve(system)?,
            Self::ByAccess(_) => bind(&PlaceName::far())?,
            Self::Explicit { .. } => near.clone(),
        };
        let mut tables: HashMap<String, ColumnPlacements> = HashMap::new();
        for column in columns {
            tables
                .entry(column.table.clone())
                .or_insert_with(|| ColumnPlacements::all(default.clone()));
        }
        let named: Vec<(&ColumnAccess, Placement)> = match self {
            Self::All(_) => Vec::new(),
            Self::ByAccess(budget) => most_accessed(columns, *budget)
                .into_iter()
                .map(|column| (column, near.clone()))
                .collect(),
            Self::Explicit { columns: named } => named
                .iter()
                .map(|(name, place)| Ok((find(columns, name)?, bind(place)?)))
                .collect::<Result<_, StrategyError>>()?,
        };
        for (column, placement) in named {
            if let Some(table) = tables.get_mut(&column.table) {
                table.columns.insert(column.column.clone(), placement);
            }
        }
        Ok(tables)
    }
}

/// The columns with most accesses that fit the budget. A column that does not fit is passed over,
/// and smaller ones behind it still have their chance.
fn most_accessed(columns: &[ColumnAccess], budget: NearBudget) -> Vec<&ColumnAccess> {
    let mut ranked: Vec<&ColumnAccess> = columns.iter().filter(|c| c.accesses > 0).collect();
    ranked.sort_by_key(|c| (std::cmp::Reverse(c.accesses), c.bytes));
    let all: u64 = columns.iter().map(|c| c.bytes).sum();
    let mut left = match budget {
        NearBudget::Columns(count) => {
            ranked.truncate(count);
            return ranked;
        }
        NearBudget::Bytes(bytes) => bytes,
        NearBudget::Share(share) => (all as f64 * share) as u64,
    };
    ranked.retain(|column| match left.checked_sub(column.bytes) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
    ranked
}

fn find<'a>(columns: &'a [ColumnAccess], name: &str) -> Result<&'a ColumnAccess, StrategyError> {
    let full = |column: &ColumnAccess| format!("{}.{}", column.table, column.column);
    let found = columns
        .iter()
        .find(|column| *name == full(column) || *name == column.column);
    found.ok_or_else(|| StrategyError::UnknownColumn {
        name: name.to_owned(),
        known: columns.iter().map(full).collect::<Vec<_>>().join(", "),
    })
}

/// What stands before the rules for single columns.
const COLUMNS: &str = "columns";
const EXPLICIT: &str = "explicit";

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let (kind, rest) = text
            .split_once(':')
            .map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let unknown = |problem: SpecProblem| {
            StrategyError::Unknown(SpecError {
                text: text.to_owned(),
                problem,
            })
        };
        match (kind.trim(), rest) {
            (COLUMNS, Some(budget)) => Ok(Self::ByAccess(budget.parse()?)),
            (EXPLICIT, Some(names)) => {
                let columns = names.split(',').map(explicit);
                let columns = columns.collect::<Result<_, _>>().map_err(unknown)?;
                Ok(Self::Explicit { columns })
            }
            (word @ (COLUMNS | EXPLICIT), None) => Err(unknown(SpecProblem::Name {
                name: word.to_owned(),
            })),
            _ => text.parse().map(Self::All).map_err(StrategyError::Unknown),
        }
    }
}

/// `table.column`, which is far, or `table.column=TIER`.
fn explicit(text: &str) -> Result<(String, PlaceName), SpecProblem> {
    let (column, place) = match text.split_once('=') {
        Some((column, place)) => (column, place.parse()?),
        None => (text, PlaceName::far()),
    };
    match column.trim() {
        "" => Err(SpecProblem::Name {
            name: text.trim().to_owned(),
        }),
        column => Ok((column.to_owned(), place)),
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(spec) => write!(f, "{spec}"),
            Self::ByAccess(budget) => write!(f, "{COLUMNS}:{budget}"),
            Self::Explicit { columns } => {
                let one = |(column, place): &(String, PlaceName)| match *place == PlaceName::far() {
                    true => column.clone(),
                    false => format!("{column}={place}"),
                };
                let columns: Vec<String> = columns.iter().map(one).collect();
                write!(f, "{EXPLICIT}:{}", columns.join(","))
            }
        }
    }
}

impl FromStr for NearBudget {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let bad = || StrategyError::Budget {
            text: text.to_owned(),
        };
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| bad())?;
            let valid = (0.0..=100.0).contains(&percent);
            return if valid {
                Ok(Self::Share(percent / 100.0))
            } else {
                Err(bad())
            };
        }
        if let Ok(count) = text.parse() {
            return Ok(Self::Columns(count));
        }
        parse_bytes_with_unit(text).map(Self::Bytes).ok_or_else(bad)
    }
}

impl fmt::Display for NearBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}B"),
            // Rounded, so that 7 % do not read as 7.000000000000001.
            Self::Share(share) => write!(f, "{}%", (share * 1e11).round() / 1e9),
            Self::Columns(count) => write!(f, "{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use nearfar_memory::{Budgets, TierKind, TierSpec};
    use std::sync::Arc;

    use super::*;

    fn system() -> Arc<MemorySystem> {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 30);
        let cxl = TierSpec::new("cxl", TierKind::Cxl, [1, 2], 1 << 30);
        MemorySystem::from_specs(vec![near, cxl], &Budgets::new()).expect("a system")
    }

    fn column(name: &str, bytes: u64, accesses: u64) -> ColumnAccess {
        ColumnAccess {
            table: "t".into(),
            column: name.into(),
            bytes,
            accesses,
        }
    }

    #[test]
    fn strategies_read_as_they_print() {
        for text in [
            "near",
            "far",
            "interleave:2:1",
            "interleave:4294967295:1",
            "columns:16",
            "columns:25%",
            "columns:7%",
            "columns:29%",
            "columns:0.125%",
            "explicit:t.a,t.b",
            "explicit:t.a,t.b=cxl2",
            "split:near=90%,far",
            "weighted:near=3,cxl=2,remote=1",
        ] {
            let strategy: Strategy = text.parse().expect(text);
            assert_eq!(strategy.to_string(), text);
        }
        assert_eq!(
            "columns:1KiB".parse(),
            Ok(Strategy::ByAccess(NearBudget::Bytes(1024)))
        );
    }

    #[test]
    fn examples_of_the_documents_read_as_they_print() {
        let page = include_str!("../../../../docs/placements.md");
        let (_, block) = page.split_once("```placement\n").expect("a block");
        let (examples, _) = block.split_once("```").expect("its end");
        assert!(examples.lines().count() > 10);
        for text in examples.lines() {
            let strategy: Strategy = text.parse().expect(text);
            assert_eq!(strategy.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_strategy_is_named() {
        for text in [
            "",
            "columns",
            "explicit:",
            "interleave",
            "interleave:0:0",
            "interleave:x:1",
            "far:1",
        ] {
            let error = text.parse::<Strategy>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
        for text in ["columns:", "columns:101%", "columns:-1", "columns:3 apples"] {
            assert!(
                matches!(text.parse::<Strategy>(), Err(StrategyError::Budget { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn the_budget_goes_to_the_most_accessed_that_fit() {
        let columns = [
            column("a", 10, 5),
            column("b", 100, 9),
            column("c", 20, 7),
            column("d", 5, 0),
        ];
        let system = system();
        let near_of = |budget| {
            let placed = Strategy::ByAccess(budget)
                .place(&columns, &system)
                .expect("placed");
            let mut near: Vec<String> = placed["t"].columns.keys().cloned().collect();
            near.sort();
            near
        };
        assert_eq!(near_of(NearBudget::Bytes(30)), ["a", "c"]);
        assert_eq!(near_of(NearBudget::Columns(1)), ["b"]);
        assert_eq!(near_of(NearBudget::Share(1.0)), ["a", "b", "c"]);
        assert!(near_of(NearBudget::Bytes(0)).is_empty());
    }

    #[test]
    fn columns_go_where_they_are_named() {
        let columns = [column("a", 10, 0), column("b", 10, 0), column("c", 10, 0)];
        let system = system();
        let placed = |text: &str| {
            let strategy: Strategy = text.parse().expect(text);
            strategy.place(&columns, &system)
        };
        let bound = |name| Placement::Bind(system.place(name).expect(name));
        let tables = placed("explicit:t.a,b=cxl1").expect("placed");
        let of = |column| tables["t"].of(column).clone();
        assert_eq!(
            [of("a"), of("b"), of("c")],
            ["far", "cxl1", "near"].map(bound)
        );
        let unknown = placed("explicit:d").expect_err("no such column");
        assert!(unknown.to_string().contains("t.a, t.b, t.c"), "{unknown}");
        let unknown = placed("explicit:a=remote").expect_err("no such tier");
        assert!(unknown.to_string().contains("\"remote\""), "{unknown}");
    }
}
