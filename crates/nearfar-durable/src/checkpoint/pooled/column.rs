//! A column in a pool, and the sketches of a segment, before they are looked at.

use std::sync::Arc;

use arrow::datatypes::DataType;
use nearfar_memory::Placement;
use nearfar_memory::pool::ExtentHandle;

use super::place::PoolPlace;
use crate::checkpoint::SegmentFile;
use crate::error::{CheckpointError, ColumnError};
use crate::manifest::{ColumnEntry, decode_sketches};
use nearfar_table::error::TableError;
use nearfar_table::placement::Storage;
use nearfar_table::segment::{ColumnForm, ColumnSegment};
use nearfar_table::table::{ColumnSketches, StoredColumn, StoredSketches};

/// A column in an extent that nobody has looked at yet.
#[derive(Debug)]
pub(super) struct PoolColumn {
    pub(super) pool: Arc<PoolPlace>,
    pub(super) extent: Arc<ExtentHandle>,
    /// The file that has it too.
    pub(super) file: Option<Arc<SegmentFile>>,
    /// Its place among the columns.
    pub(super) column: usize,
    pub(super) table: String,
    pub(super) segment: usize,
    pub(super) name: String,
    pub(super) data_type: DataType,
    pub(super) storage: Storage,
    pub(super) entry: ColumnEntry,
}

impl PoolColumn {
    pub(super) fn in_place(&self) -> Result<ColumnSegment, CheckpointError> {
        self.checked()?;
        let memory = self.pool.in_place(Arc::clone(&self.extent))?;
        let (form, zones) = (&self.entry.form, self.entry.zones.clone());
        let start = self.entry.offset as usize;
        let column = ColumnSegment::from_form(form, zones, &self.data_type, memory, start);
        column.map_err(|source| self.wrong(source.into()))
    }

    fn checked(&self) -> Result<(), CheckpointError> {
        let verified = self.extent.verify();
        verified.map_err(|source| self.wrong(ColumnError::Pool(source)))
    }

    fn load_from(
        &self,
        file: &Arc<SegmentFile>,
        damage: &CheckpointError,
        placement: &Placement,
    ) -> Result<ColumnSegment, TableError> {
        self.pool.note_damaged(&self.extent, file, damage);
        let name = (self.table.as_str(), self.segment);
        let column = (self.column, self.name.as_str(), &self.data_type);
        file.column(name, column, placement, &self.storage)
    }

    fn wrong(&self, source: ColumnError) -> CheckpointError {
        CheckpointError::Column {
            path: self.pool.path.clone(),
            table: self.table.clone(),
            segment: self.segment,
            column: self.name.clone(),
            source: Box::new(source),
        }
    }
}

impl StoredColumn for PoolColumn {
    fn form(&self) -> &ColumnForm {
        &self.entry.form
    }

    fn load(&self, placement: &Placement) -> Result<ColumnSegment, TableError> {
        let column = match (self.in_place(), &self.file) {
            (Err(damage), Some(file)) => return self.load_from(file, &damage, placement),
            (column, _) => column?,
        };
        match self.pool.holds(placement) {
            true => Ok(column),
            false => column.copy_to(self.storage.target(placement)),
        }
    }

    fn verify(&self) -> Result<(), TableError> {
        match (self.checked(), &self.file) {
            // Its first use reads the file.
            (Err(damage), Some(file)) => {
                self.pool.note_damaged(&self.extent, file, &damage);
                Ok(())
            }
            (checked, _) => Ok(checked?),
        }
    }
}

/// Sketches in an extent that nobody has looked at yet.
#[derive(Debug)]
pub(super) struct PoolSketches {
    pub(super) pool: Arc<PoolPlace>,
    pub(super) extent: Arc<ExtentHandle>,
    /// The file that has them too.
    pub(super) file: Option<Arc<SegmentFile>>,
}

impl PoolSketches {
    fn in_place(&self) -> Result<ColumnSketches, CheckpointError> {
        let bytes = self.extent.verified();
        let bytes = bytes.map_err(|source| self.pool.failed(source))?;
        decode_sketches(bytes).map_err(|source| CheckpointError::Manifest {
            path: self.pool.path.clone(),
            source,
        })
    }
}

impl StoredSketches for PoolSketches {
    fn load(&self) -> Result<ColumnSketches, TableError> {
        match (self.in_place(), &self.file) {
            (Err(damage), Some(file)) => {
                self.pool.note_damaged(&self.extent, file, &damage);
                file.load()
            }
            (sketches, _) => Ok(sketches?),
        }
    }

    fn verify(&self) -> Result<(), TableError> {
        let checked = self.extent.verify();
        let checked = checked.map_err(|source| self.pool.failed(source));
        match (checked, &self.file) {
            // Its first use reads the file.
            (Err(damage), Some(file)) => self.pool.note_damaged(&self.extent, file, &damage),
            (Err(damage), None) => {
                let damage: &dyn std::error::Error = &damage;
                tracing::warn!(damage, "sketches of distinct values are lost, and no rows");
            }
            (Ok(()), _) => {}
        }
        Ok(())
    }
}
