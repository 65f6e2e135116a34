//! What outlives the process of the tables of `nearfar-table`.
//!
//! With a data directory, what a transaction changes is in a log on disk before others see it
//! ([`log`]), and all tables are written down now and then ([`checkpoint`], encoded as [`manifest`] says), so
//! that opening the directory reads the newest checkpoint and the log behind it. Main storage can also
//! lie in a pool ([`checkpoint::pooled`]), memory that outlives the process, where the next owner uses it
//! in place. An owner that was replaced writes and acknowledges nothing. [`Opened`] is where to begin.
//!
//! It is no database server and no query engine: it knows tables, names and rows, and of neither SQL nor
//! DataFusion. It does not decide what is committed, in which order, or when rows are merged: that is
//! `nearfar-table`'s, whose two needs it meets, a log of commits
//! ([`CommitLog`](nearfar_table::transaction::CommitLog)) and a place for columns
//! ([`ColumnPool`](nearfar_table::segment::ColumnPool)).
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use nearfar_durable::Opened;
//! use nearfar_durable::log::{DataOptions, LogTransaction};
//! use nearfar_memory::{
//!     Budgets, MemorySystem, OverBudget, PageSize, Placement, RegionOptions, TierId, TierKind, TierSpec,
//! };
//! use nearfar_table::placement::{ColumnPlacements, Storage};
//! use nearfar_table::tier_models::TierModels;
//! use nearfar_table::table::{CommitGate, Table, stored_schema};
//! use nearfar_table::transaction::{NewRowsBuilder, Transaction};
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
//! let folder = tempfile::tempdir()?;
//! let data = DataOptions::new(folder.path().join("data"));
//!
//! // A table is defined in the log, and its rows are committed to it.
//! let Opened { database, durability, .. } = Opened::new(storage.clone(), Some(&data), None)?;
//! let durability = durability.expect("there is a data directory");
//! database.set_log(Arc::clone(durability.log()) as _);
//! let everywhere_near = ColumnPlacements::all(Placement::Bind(TierId::NEAR));
//! let schema = stored_schema(&batch.schema());
//! let table = Arc::new(Table::new("numbers", schema, Vec::new(), everywhere_near));
//! let gate = CommitGate::default();
//! let mut definition = LogTransaction::new(durability.log(), &gate)?;
//! definition.create_table(("public", "numbers"), (&table, &table.snapshot()), &storage.system)?;
//! definition.commit()?;
//! table.keep();
//! database.add(&table);
//! let mut rows = NewRowsBuilder::new(Arc::clone(&table), &storage);
//! rows.push(batch)?;
//! let transaction = Transaction::of_statement(&database);
//! transaction.insert(&table, rows.finish()?.0)?;
//! transaction.commit()?;
//! database.merges().stop();
//! durability.close();
//! drop(durability);
//!
//! // Whoever opens the directory next has both.
//! let opened = Opened::new(storage, Some(&data), None)?;
//! let definitions = opened.definitions.expect("there is a data directory");
//! let (name, table) = definitions.tables.values().next().expect("a table");
//! assert_eq!(name.to_string(), "public.numbers");
//! assert_eq!(table.snapshot().rows(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod checkpoint;
pub mod error;
pub mod log;
pub mod manifest;
mod opened;
mod private;

pub use opened::Opened;
