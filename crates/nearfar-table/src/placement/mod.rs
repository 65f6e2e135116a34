//! Which column lies where.

mod index_workers;
mod strategy;
mod temporary;

pub use index_workers::IndexWorkers;
pub use strategy::{ColumnAccess, NearBudget, Strategy, StrategyError};
pub use temporary::{TemporaryBudget, TemporaryBytes};

pub(crate) use index_workers::{Call, Turns};

use nearfar_memory::{MemorySystem, Placement, RegionOptions, Shelf};
use std::collections::HashMap;
use std::sync::Arc;

use crate::segment::{ColumnPool, Target};
use crate::tier_models::TierModels;
use crate::traffic::TierTraffic;

/// The memory that segments are put into.
#[derive(Debug, Clone)]
pub struct Storage {
    /// The tiers, their budgets and what is charged to them.
    pub system: Arc<MemorySystem>,
    /// How regions are made.
    pub options: RegionOptions,
    /// What segments are charged to that are of a session's temporary table.
    pub temporary: Option<Arc<TemporaryBudget>>,
    /// Where main storage outlives the process.
    pub pool: Option<Arc<dyn ColumnPool>>,
    /// Where a few rows go that were just written.
    pub shelf: Arc<Shelf>,
    /// The tiers that are emulated.
    pub models: TierModels,
    /// Who moves nodes of indexes.
    pub index_workers: Arc<IndexWorkers>,
    /// What is moved to and from the tiers.
    pub traffic: Arc<TierTraffic>,
}

impl Storage {
    /// A place for a column segment.
    pub fn target<'a>(&'a self, placement: &'a Placement) -> Target<'a> {
        Target {
            system: &self.system,
            placement,
            options: self.options,
            pool: self.pool.as_deref(),
            shelf: None,
            models: &self.models,
        }
    }
}

/// The placement of every column of one table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnPlacements {
    /// For columns not named in `columns`.
    pub default: Placement,
    /// By column name.
    pub columns: HashMap<String, Placement>,
}

impl ColumnPlacements {
    /// Every column at `placement`.
    pub fn all(placement: Placement) -> Self {
        Self {
            default: placement,
            columns: HashMap::new(),
        }
    }

    /// The placement of `column`.
    pub fn of(&self, column: &str) -> &Placement {
        self.columns.get(column).unwrap_or(&self.default)
    }
}
