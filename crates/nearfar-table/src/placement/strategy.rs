//! Placement strategies: from what is known of columns to where each of them goes.

use nearfar_memory::{Placement, TierId};
use nearfar_topology::units::parse_bytes_with_unit;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
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
    /// Everything near.
    Near,
    /// Everything far.
    Far,
    /// Pages in turn: `near` of them near, then `far` of them far (weisgut-2025 §6.2).
    Interleave {
        /// Consecutive pages near.
        near: u32,
        /// Consecutive pages far.
        far: u32,
    },
    /// The most accessed columns near as far as the budget goes, the rest far.
    ByAccess(NearBudget),
    /// `table.column` far or near by name; what is not named is near.
    Explicit {
        /// Names of the columns that are far.
        far: Vec<String>,
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
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum StrategyError {
    /// A text that is no strategy.
    #[error(
        "placement `{text}` is not known: use near, far, interleave:N:F (pages near and far, for \
         example interleave:2:1), columns:BUDGET (bytes like 2GiB, a share like 25%, or a number \
         of columns) or explicit:table.column,… (those far, all else near)"
    )]
    Unknown {
        /// The text.
        text: String,
    },
    /// A text that is no budget.
    #[error(
        "near budget `{text}` is not a number of bytes (2GiB), a share (25%) or of columns (16)"
    )]
    Budget {
        /// The text.
        text: String,
    },
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
    /// The placements by table name of all `columns`, of which `far` says where far is.
    ///
    /// # Errors
    /// A column named explicitly that is not among `columns`.
    pub fn place(
        &self,
        columns: &[ColumnAccess],
        far: TierId,
    ) -> Result<HashMap<String, ColumnPlacements>, StrategyError> {
        let (near, far_placement) = (Placement::Bind(TierId::NEAR), Placement::Bind(far));
        let mut tables: HashMap<String, ColumnPlacements> = HashMap::new();
        let default = match self {
            Self::Far | Self::ByAccess(_) => far_placement.clone(),
            Self::Interleave {
                near,
                far: far_pages,
            } => interleaved(*near, *far_pages, far),
            Self::Near | Self::Explicit { .. } => near.clone(),
        };
        for column in columns {
            tables
                .entry(column.table.clone())
                .or_insert_with(|| ColumnPlacements::all(default.clone()));
        }
        let named: Vec<(&ColumnAccess, Placement)> = match self {
            Self::ByAccess(budget) => most_accessed(columns, *budget)
                .into_iter()
                .map(|c| (c, near.clone()))
                .collect(),
            Self::Explicit { far } => find(columns, far)?
                .into_iter()
                .map(|c| (c, far_placement.clone()))
                .collect(),
            _ => Vec::new(),
        };
        for (column, placement) in named {
            if let Some(table) = tables.get_mut(&column.table) {
                table.columns.insert(column.column.clone(), placement);
            }
        }
        Ok(tables)
    }
}

/// `near` pages near, then `far` pages on `far_tier`, in turn; all on one where the other has none.
pub fn interleaved(near: u32, far: u32, far_tier: TierId) -> Placement {
    match (NonZeroU32::new(near), NonZeroU32::new(far)) {
        (Some(near), Some(far)) => Placement::Weighted(vec![(TierId::NEAR, near), (far_tier, far)]),
        (None, _) => Placement::Bind(far_tier),
        (_, None) => Placement::Bind(TierId::NEAR),
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

fn find<'a>(
    columns: &'a [ColumnAccess],
    names: &[String],
) -> Result<Vec<&'a ColumnAccess>, StrategyError> {
    names
        .iter()
        .map(|name| {
            let matches = |c: &&ColumnAccess| {
                *name == format!("{}.{}", c.table, c.column) || *name == c.column
            };
            columns.iter().find(matches).ok_or_else(|| {
                let known: Vec<String> = columns
                    .iter()
                    .map(|c| format!("{}.{}", c.table, c.column))
                    .collect();
                StrategyError::UnknownColumn {
                    name: name.clone(),
                    known: known.join(", "),
                }
            })
        })
        .collect()
}

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let unknown = || StrategyError::Unknown {
            text: text.to_owned(),
        };
        let (kind, rest) = text
            .split_once(':')
            .map_or((text, None), |(k, r)| (k, Some(r)));
        match (kind, rest) {
            ("near", None) => Ok(Self::Near),
            ("far", None) => Ok(Self::Far),
            ("interleave", Some(weights)) => {
                let (near, far) = weights.split_once(':').ok_or_else(unknown)?;
                match (near.parse(), far.parse()) {
                    (Ok(0), Ok(0)) => Err(unknown()),
                    (Ok(near), Ok(far)) => Ok(Self::Interleave { near, far }),
                    _ => Err(unknown()),
                }
            }
            ("columns", Some(budget)) => Ok(Self::ByAccess(budget.parse()?)),
            ("explicit", Some(names)) => Ok(Self::Explicit {
                far: names.split(',').map(|n| n.trim().to_owned()).collect(),
            }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Near => f.write_str("near"),
            Self::Far => f.write_str("far"),
            Self::Interleave { near, far } => write!(f, "interleave:{near}:{far}"),
            Self::ByAccess(budget) => write!(f, "columns:{budget}"),
            Self::Explicit { far } => write!(f, "explicit:{}", far.join(",")),
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
    use super::*;

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
    fn what_is_no_strategy_is_named() {
        for text in [
            "",
            "nearby",
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
        let far = TierId::from_index(1).expect("a second tier");
        let near_of = |budget| {
            let placed = Strategy::ByAccess(budget)
                .place(&columns, far)
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
}
