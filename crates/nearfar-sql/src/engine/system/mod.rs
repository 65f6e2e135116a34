//! The system tables: what the engine knows of its memory and tables at this moment.
//!
//! | table | a row per |
//! |---|---|
//! | `nearfar.tiers` | tier: capacity, budget, what is used by regions and heaps, declared performance |
//! | `nearfar.tables` | table in memory: rows, bytes per tier, delta, deleted rows, merges |
//! | `nearfar.indexes` | index: its columns and kind, keys, levels and bytes, where its nodes lie, what was moved |
//! | `nearfar.remote_tables` | table in the memory of another host: its host, bytes, where they are now, what it is rebuilt from |
//! | `nearfar.segments` | column of a segment or part of the delta: encoding, bytes per tier, placement |
//! | `nearfar.log` | one, where there is a data directory: its folder and how long the log is |
//! | `nearfar.loading` | column: how much of it is in memory, and its priority of preloading |
//! | `nearfar.traffic` | tier, task and session: what was moved to and from the tier, and waited for |
//! | `nearfar.column_access` | column: how often it was read, in which pattern |
//!
//! They are made anew for every query.

mod indexes;
mod loading;
mod log;
mod remote;
mod rows;
mod tiers;
mod traffic;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, Weak};

use super::Engine;
use super::catalog::SessionTables;

/// The schema `nearfar` of one session.
#[derive(Debug)]
pub struct SystemTables {
    view: View,
}

/// What a session can see. It keeps neither the engine nor the session alive, since views of
/// system tables are kept by the engine.
#[derive(Debug, Clone)]
struct View {
    engine: Weak<Engine>,
    tables: Weak<SessionTables>,
}

/// The system tables there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tiers,
    Tables,
    RemoteTables,
    Indexes,
    Segments,
    ColumnAccess,
    Log,
    Loading,
    Traffic,
}

const KINDS: [(&str, Kind); 9] = [
    ("tiers", Kind::Tiers),
    ("tables", Kind::Tables),
    ("remote_tables", Kind::RemoteTables),
    ("indexes", Kind::Indexes),
    ("segments", Kind::Segments),
    ("column_access", Kind::ColumnAccess),
    ("log", Kind::Log),
    ("loading", Kind::Loading),
    ("traffic", Kind::Traffic),
];

impl SystemTables {
    pub fn new(engine: &Arc<Engine>, tables: &Arc<SessionTables>) -> Self {
        let view = View {
            engine: Arc::downgrade(engine),
            tables: Arc::downgrade(tables),
        };
        Self { view }
    }
}

#[async_trait]
impl SchemaProvider for SystemTables {
    fn table_names(&self) -> Vec<String> {
        KINDS.map(|(name, _)| name.to_owned()).to_vec()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let kind = KINDS.into_iter().find(|(known, _)| *known == name);
        Ok(kind.map(|(_, kind)| {
            Arc::new(SystemTable {
                kind,
                view: self.view.clone(),
            }) as _
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        KINDS.iter().any(|(known, _)| *known == name)
    }
}

#[derive(Debug)]
struct SystemTable {
    kind: Kind,
    view: View,
}

impl SystemTable {
    /// Its rows at this moment.
    fn batch(&self) -> Result<RecordBatch> {
        let engine = self.view.engine.upgrade();
        let engine = engine.as_deref();
        let tables = self.view.tables.upgrade();
        let tables = tables.as_deref();
        Ok(match self.kind {
            Kind::Tiers => tiers::tiers(engine),
            Kind::Tables => rows::tables(engine, tables),
            Kind::RemoteTables => remote::tables(engine, tables),
            Kind::Indexes => indexes::indexes(engine, tables),
            Kind::Segments => rows::segments(engine, tables),
            Kind::Log => log::log(engine),
            Kind::Loading => loading::loading(engine, tables),
            Kind::Traffic => traffic::traffic(engine),
            Kind::ColumnAccess => rows::column_access(engine, tables),
        }?)
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        match self.kind {
            Kind::Tiers => tiers::schema(),
            Kind::Tables => rows::tables_schema(),
            Kind::RemoteTables => remote::schema(),
            Kind::Indexes => indexes::schema(),
            Kind::Segments => rows::segments_schema(),
            Kind::ColumnAccess => rows::column_access_schema(),
            Kind::Log => log::schema(),
            Kind::Loading => loading::schema(),
            Kind::Traffic => traffic::schema(),
        }
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = MemTable::try_new(self.schema(), vec![vec![self.batch()?]])?;
        table.scan(state, projection, filters, limit).await
    }
}
