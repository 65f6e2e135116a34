//! Tables whose column segments lie on near and far memory, and transactions over them.
//!
//! A [`table::Table`] is a list of immutable segments, each column of which is encoded ([`segment`])
//! into a region of `nearfar-memory` with its own placement ([`placement`]), and a delta of what was
//! written since. Changes are made in transactions of a [`transaction::Database`], with snapshot
//! isolation, and merges turn the delta into segments.
//!
//! It is no query engine: it knows of columns and rows, and of neither SQL nor DataFusion. It keeps
//! nothing beyond the process: a layer above can supply memory that outlives it
//! ([`segment::ColumnPool`]) and a log of what is committed ([`transaction::CommitLog`]).
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use nearfar_memory::{
//!     Budgets, MemorySystem, OverBudget, PageSize, Placement, RegionOptions, TierId, TierKind, TierSpec,
//! };
//! use nearfar_table::placement::{ColumnPlacements, Storage};
//! use nearfar_table::table::{Table, stored_schema};
//! use nearfar_table::tier_models::TierModels;
//! use nearfar_table::transaction::{Database, MergeLimits, NewRowsBuilder, Transaction};
//!
//! let near = TierSpec::new("near", TierKind::LocalDram, vec![0], 1 << 30);
//! let storage = Storage {
//!     system: MemorySystem::from_specs(vec![near], &Budgets::new())?,
//!     options: RegionOptions {
//!         page_size: PageSize::Base,
//!         over_budget: OverBudget::Refuse,
//!     },
//!     temporary: None,
//!     pool: None,
//!     shelf: Arc::default(),
//!     models: TierModels::default(),
//!     index_workers: Arc::default(),
//!     traffic: Arc::default(),
//! };
//! let numbers = Arc::new(Int64Array::from_iter_values(0..10)) as ArrayRef;
//! let batch = RecordBatch::try_from_iter([("n", numbers)])?;
//! let everywhere_near = ColumnPlacements::all(Placement::Bind(TierId::NEAR));
//! let schema = stored_schema(&batch.schema());
//! let table = Arc::new(Table::new("numbers", schema, Vec::new(), everywhere_near));
//!
//! let database = Database::new(storage.clone(), MergeLimits::default());
//! database.add(&table);
//! let mut rows = NewRowsBuilder::new(Arc::clone(&table), &storage);
//! rows.push(batch)?;
//! let (rows, count) = rows.finish()?;
//! let transaction = Transaction::of_statement(&database);
//! transaction.insert(&table, rows)?;
//! assert_eq!(table.snapshot().rows(), 0);
//! transaction.commit()?;
//! assert_eq!(table.snapshot().rows() as u64, count);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod error;
pub mod placement;
pub mod segment;
pub mod sequence;
pub mod table;
pub mod tier_models;
pub mod traffic;
pub mod transaction;
