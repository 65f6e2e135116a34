//! Tablespaces: the names under which SQL knows tiers and placements.

use nearfar_memory::{MemorySystem, PlaceError, Placement, PlacementSpec, TierId};
use std::sync::Arc;

use crate::error::SqlError;
use nearfar_table::placement::{ColumnPlacements, Strategy, StrategyError};
use nearfar_table::table::Table;

/// Where something is to be put, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `TABLESPACE name`.
    Tablespace(String),
    /// `placement = 'text'`.
    Placement(String),
}

/// The tablespaces of an engine: its tiers and their nodes, and placements over these.
#[derive(Debug, Clone)]
pub struct Tablespaces {
    system: Arc<MemorySystem>,
}

impl Tablespaces {
    /// The tablespaces of `system`.
    pub fn new(system: Arc<MemorySystem>) -> Self {
        Self { system }
    }

    /// The name of a tier.
    pub fn name(&self, tier: TierId) -> String {
        self.system.name(tier)
    }

    /// The tier that a tablespace is, for what can't be put on some of its nodes.
    ///
    /// # Errors
    /// A name that there is not, or a tier that nothing can be put on.
    pub fn tier(&self, name: &str) -> Result<TierId, SqlError> {
        let tier = self.system.place(name)?;
        if tier.is_whole() {
            return Ok(tier);
        }
        let whole = self.name(tier.whole());
        Err(SqlError::UnusableTablespace {
            name: name.to_owned(),
            reason: format!("what queries keep goes to whole tiers; use {whole}"),
        })
    }

    /// The tier that a tablespace is, for what threads allocate, which goes to tiers of the kernel.
    ///
    /// # Errors
    /// As [`Self::tier`], and a DAX device.
    pub fn heap_tier(&self, name: &str) -> Result<TierId, SqlError> {
        let tier = self.tier(name)?;
        if self.system.info(tier).has_nodes() {
            return Ok(tier);
        }
        Err(SqlError::UnusableTablespace {
            name: name.to_owned(),
            reason:
                "it is a DAX device, where tables and what spills can lie; what queries allocate \
                     can't"
                    .to_owned(),
        })
    }

    /// Where `place` puts pages.
    ///
    /// # Errors
    /// A name that there is not, or a placement that can't be read.
    pub fn placement(&self, place: &Place) -> Result<Placement, SqlError> {
        let (Place::Tablespace(text) | Place::Placement(text)) = place;
        let spec = text.parse::<PlacementSpec>();
        if let (Err(_), Ok(Strategy::ByAccess(_) | Strategy::Explicit { .. })) =
            (&spec, text.parse())
        {
            return Err(SqlError::Unsupported {
                statement: format!("placement `{text}`"),
                instead: "columns are placed one by one by ALTER TABLE t SET TABLESPACE, once the \
                          table is there and was read"
                    .to_owned(),
            });
        }
        Ok(spec?.resolve(&self.system)?)
    }

    /// Where `place` puts the columns of a table, alike or one by one.
    ///
    /// # Errors
    /// As [`Self::placement`], a column that the table has not, and access counts of a table that was never
    /// read.
    pub fn column_placements(
        &self,
        place: &Place,
        table: &Table,
    ) -> Result<ColumnPlacements, SqlError> {
        let (Place::Tablespace(text) | Place::Placement(text)) = place;
        let strategy = match text.parse() {
            Ok(Strategy::All(_)) | Err(StrategyError::Unknown(_)) => {
                return self.placement(place).map(ColumnPlacements::all);
            }
            parsed => parsed?,
        };
        let columns = table.column_accesses();
        let is_by_access = matches!(strategy, Strategy::ByAccess(_));
        if is_by_access && columns.iter().all(|column| column.accesses == 0) {
            return Err(SqlError::NeverRead {
                table: table.name().to_owned(),
            });
        }
        let placed = strategy.place(&columns, &self.system)?.remove(table.name());
        Ok(placed.unwrap_or_else(|| table.placements()))
    }

    /// A placement in words, which [`Self::placement`] reads as the same.
    pub fn describe(&self, placement: &Placement) -> String {
        PlacementSpec::of(placement, &self.system).to_string()
    }
}

impl From<StrategyError> for SqlError {
    fn from(error: StrategyError) -> Self {
        match error {
            StrategyError::Place(error) => error.into(),
            other => Self::ColumnPlacement(other),
        }
    }
}

impl From<PlaceError> for SqlError {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Unknown(error) => Self::UnknownTablespace(error),
            PlaceError::Offline { name } => Self::UnusableTablespace {
                name,
                reason: "the kernel can't allocate on it; bring its memory online first".to_owned(),
            },
            PlaceError::Remote { ref name } | PlaceError::TooManyParts { ref name, .. } => {
                Self::UnusableTablespace {
                    name: name.clone(),
                    reason: error.to_string(),
                }
            }
        }
    }
}
