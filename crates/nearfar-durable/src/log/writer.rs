//! Transactions and definitions, as records of the log.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema};
use nearfar_memory::MemorySystem;
use parking_lot::RwLockReadGuard;
use std::sync::Arc;
use std::task::Waker;

use super::open_log::{Log, RECORD_BYTES_MAX};
use super::record::{FrameHeader, IDS_MAX, LoggedSource, Operation, QualifiedName, runs_of};
use super::rows::write_rows;
use super::sequences::SequenceChange;
use crate::error::{DurabilityError, DurableError};
use crate::manifest::{Encoder, ManifestError, encode_placements};
use nearfar_table::error::TableError;
use nearfar_table::segment::{RowSet, ZONE_ROWS};
use nearfar_table::sequence::{SequenceDefinition, SequenceValue};
use nearfar_table::table::{
    ColumnSource, Part, Preload, RowId, Snapshot, Table, TableId, TableRules,
};
use nearfar_table::transaction::{CommitGate, CommitLog, CommitRecord};

/// A record that has so many bytes is appended, and another one begun.
const RECORD_BYTES: usize = 4 << 20;

/// Rows that take more are put into several operations.
const ROWS_BYTES_MAX: usize = 16 << 20;

/// A transaction that is being written to the log. Without [`Self::commit`] it means nothing.
#[derive(Debug)]
pub struct LogTransaction<'a> {
    log: &'a Log,
    /// Closed when nobody wants the transaction any more.
    gate: &'a CommitGate,
    number: u64,
    record: Encoder,
    /// There from the first of several records on.
    several: Option<RwLockReadGuard<'a, ()>>,
}

impl<'a> LogTransaction<'a> {
    /// A transaction of nothing yet.
    ///
    /// # Errors
    /// [`DurabilityError::Stopped`].
    pub fn new(log: &'a Log, gate: &'a CommitGate) -> Result<Self, DurabilityError> {
        log.check()?;
        Ok(Self {
            log,
            gate,
            number: log.next_transaction(),
            record: empty(),
            several: None,
        })
    }

    /// Whether nothing was told so far.
    pub fn is_empty(&self) -> bool {
        self.several.is_none() && self.record.len() == FrameHeader::BYTES
    }

    /// Rows of `parts` that are added to `table`, but for those that are deleted.
    pub(crate) fn insert(&mut self, table: &Table, parts: &[Part]) -> Result<(), DurableError> {
        for part in parts {
            for start in (0..part.segment.rows()).step_by(ZONE_ROWS) {
                let end = part.segment.rows().min(start + ZONE_ROWS);
                let left: Vec<u32>;
                let rows = match part.deleted_rows() {
                    0 => RowSet::Run {
                        start,
                        len: end - start,
                    },
                    _ => {
                        let rows = (start..end).filter(|row| part.has(*row));
                        left = rows.map(|row| row as u32).collect();
                        RowSet::Positions(&left)
                    }
                };
                if !rows.is_empty() {
                    let batch = read_rows_of(table, part, rows)?;
                    self.insert_batch(table, &part.ids.ids(rows), &batch)?;
                }
            }
        }
        Ok(())
    }

    fn insert_batch(
        &mut self,
        table: &Table,
        ids: &[RowId],
        batch: &RecordBatch,
    ) -> Result<(), DurableError> {
        let mut rows = Encoder::default();
        write_rows(&mut rows, batch)?;
        if rows.len() > ROWS_BYTES_MAX && ids.len() > 1 {
            drop(rows);
            let half = ids.len() / 2;
            self.insert_batch(table, &ids[..half], &batch.slice(0, half))?;
            let rest = batch.slice(half, ids.len() - half);
            return self.insert_batch(table, &ids[half..], &rest);
        }
        let operation = Operation::Insert {
            table: table.id(),
            ids: runs_of(ids.iter().copied()),
            rows: &rows.finish(),
        };
        self.push(table.name(), &operation)
    }

    /// Rows of `table` that are deleted.
    pub(crate) fn delete(&mut self, table: &Table, ids: &[RowId]) -> Result<(), DurableError> {
        for ids in ids.chunks(IDS_MAX) {
            let operation = Operation::Delete {
                table: table.id(),
                ids: runs_of(ids.iter().copied()),
            };
            self.push(table.name(), &operation)?;
        }
        Ok(())
    }

    /// All rows of `table`, deleted.
    pub(crate) fn truncate(&mut self, table: &Table) -> Result<(), DurableError> {
        let id = table.id();
        self.push(table.name(), &Operation::Truncate { table: id })
    }

    /// A new table and its rows, which are those of `snapshot`.
    pub fn create_table(
        &mut self,
        (schema, name): (&str, &str),
        (table, snapshot): (&Table, &Snapshot),
        system: &MemorySystem,
    ) -> Result<(), DurableError> {
        let operation = Operation::CreateTable {
            table: table.id(),
            name: qualified(schema, name),
            columns: Arc::clone(table.schema()),
            placements: &placements_of(table, system),
        };
        self.push(name, &operation)?;
        if table.preload() != Preload::default() {
            self.preload(table)?;
        }
        if !table.rules().is_empty() {
            self.rules(table, &table.rules())?;
        }
        if !snapshot.indexes().is_empty() {
            self.indexes(table, snapshot)?;
        }
        self.insert(table, snapshot.parts())
    }

    /// Another definition of a table, whose columns have the values of `sources`.
    pub fn redefine_table(
        &mut self,
        (schema, name): (&str, &str),
        table: &Table,
        sources: &[ColumnSource],
    ) -> Result<(), DurableError> {
        let columns = sources.iter().zip(table.schema().fields());
        let filled = columns.filter_map(|(source, field)| match source {
            ColumnSource::Filled(value) => Some((Arc::clone(field), Arc::clone(value))),
            ColumnSource::Kept(_) => None,
        });
        let (fields, values): (Vec<FieldRef>, Vec<ArrayRef>) = filled.unzip();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let filled = Arc::new(Schema::new(fields));
        let filled = RecordBatch::try_new_with_options(filled, values, &options)?;
        let mut bytes = Encoder::default();
        write_rows(&mut bytes, &filled)?;
        let sources = sources.iter().map(|source| match source {
            ColumnSource::Kept(at) => LoggedSource::Kept(*at as u32),
            ColumnSource::Filled(_) => LoggedSource::Filled,
        });
        let operation = Operation::Redefine {
            table: table.id(),
            name: qualified(schema, name),
            columns: Arc::clone(table.schema()),
            sources: sources.collect(),
            filled: &bytes.finish(),
        };
        self.push(name, &operation)?;
        self.rules(table, &table.rules())?;
        self.indexes(table, &table.snapshot())
    }

    /// A table that is no longer there.
    pub fn drop_table(&mut self, table: TableId) -> Result<(), DurableError> {
        self.push("", &Operation::DropTable { table })
    }

    /// Where the columns of a table lie now.
    pub fn place(&mut self, table: &Table, system: &MemorySystem) -> Result<(), DurableError> {
        let operation = Operation::Place {
            table: table.id(),
            placements: &placements_of(table, system),
        };
        self.push(table.name(), &operation)
    }

    /// Which columns of a table are brought to memory before a query needs them.
    pub fn preload(&mut self, table: &Table) -> Result<(), DurableError> {
        let operation = Operation::Preload {
            table: table.id(),
            preload: table.preload(),
        };
        self.push(table.name(), &operation)
    }

    /// The indexes that a table has now, which are those of `snapshot`.
    pub fn indexes(&mut self, table: &Table, snapshot: &Snapshot) -> Result<(), DurableError> {
        let indexes = snapshot.indexes().iter();
        let operation = Operation::Indexes {
            table: table.id(),
            indexes: indexes
                .map(|index| index.definition().as_ref().clone())
                .collect(),
        };
        self.push(table.name(), &operation)
    }

    /// What is declared of the rows of a table now.
    pub fn rules(&mut self, table: &Table, rules: &TableRules) -> Result<(), DurableError> {
        let operation = Operation::Rules {
            table: table.id(),
            rules: rules.clone(),
        };
        self.push(table.name(), &operation)
    }

    /// A new sequence, or one of the same name that is declared anew.
    pub fn sequence(
        &mut self,
        (schema, name): (&str, &str),
        definition: SequenceDefinition,
        value: SequenceValue,
    ) -> Result<(), DurableError> {
        let operation = Operation::Sequence {
            name: qualified(schema, name),
            change: SequenceChange::Declared { definition, value },
        };
        self.push(name, &operation)
    }

    /// Where a sequence is.
    pub fn sequence_value(
        &mut self,
        (schema, name): (&str, &str),
        value: SequenceValue,
    ) -> Result<(), DurableError> {
        let operation = Operation::Sequence {
            name: qualified(schema, name),
            change: SequenceChange::At(value),
        };
        self.push(name, &operation)
    }

    /// A sequence that is no longer there.
    pub fn drop_sequence(&mut self, schema: &str, name: &str) -> Result<(), DurableError> {
        let operation = Operation::Sequence {
            name: qualified(schema, name),
            change: SequenceChange::Dropped,
        };
        self.push("", &operation)
    }

    /// A new schema.
    pub fn create_schema(&mut self, name: &str) -> Result<(), DurableError> {
        let name = name.to_owned();
        self.push("", &Operation::CreateSchema { name })
    }

    /// A schema that is no longer there, with all that was in it.
    pub fn drop_schema(&mut self, name: &str) -> Result<(), DurableError> {
        let name = name.to_owned();
        self.push("", &Operation::DropSchema { name })
    }

    /// A new view, or another of the same name.
    pub fn create_view(&mut self, schema: &str, name: &str, sql: &str) -> Result<(), DurableError> {
        let operation = Operation::CreateView {
            name: qualified(schema, name),
            sql: sql.to_owned(),
        };
        self.push(name, &operation)
    }

    /// A view that is no longer there.
    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<(), DurableError> {
        let name = qualified(schema, name);
        self.push("", &Operation::DropView { name })
    }

    fn push(&mut self, table: &str, operation: &Operation<'_>) -> Result<(), DurableError> {
        if self.record.len() >= RECORD_BYTES {
            self.gate.check()?;
            self.several
                .get_or_insert_with(|| self.log.several_records());
            let mut record = std::mem::replace(&mut self.record, empty()).finish();
            self.log.append(&mut record, self.number, false)?;
        }
        operation
            .write(&mut self.record)
            .map_err(|error| match error {
                ManifestError::Unsupported { data_type } => DurabilityError::UnsupportedType {
                    data_type: data_type.to_string(),
                },
                other => DurabilityError::NotLogged {
                    message: other.to_string(),
                    kind: None,
                },
            })?;
        let (bytes, max) = (self.record.len(), RECORD_BYTES_MAX as usize);
        if bytes > max {
            let table = table.to_owned();
            return Err(DurabilityError::RowsTooLarge { table, bytes, max }.into());
        }
        Ok(())
    }

    /// Appends what is left, which makes it count. Returns the position behind it. For who holds
    /// the database's lock for commits: the order of commits is that of the log.
    pub fn commit(self) -> Result<u64, DurabilityError> {
        self.log
            .append(&mut self.record.finish(), self.number, true)
    }
}

impl CommitLog for Log {
    fn begin<'a>(&'a self, gate: &'a CommitGate) -> Result<Box<dyn CommitRecord + 'a>, TableError> {
        Ok(Box::new(LogTransaction::new(self, gate)?))
    }

    fn waits_for_disk(&self) -> bool {
        self.sync_setting().is_on()
    }

    fn is_settled(&self, position: u64, waker: &Waker) -> bool {
        self.is_settled(position, waker)
    }

    fn sync_to(&self, position: u64) -> Result<(), TableError> {
        Ok(self.sync_to(position)?)
    }

    fn durable(&self) -> u64 {
        self.durable()
    }
}

impl CommitRecord for LogTransaction<'_> {
    fn truncate(&mut self, table: &Table) -> Result<(), TableError> {
        Ok(self.truncate(table)?)
    }

    fn insert(&mut self, table: &Table, parts: &[Part]) -> Result<(), TableError> {
        Ok(self.insert(table, parts)?)
    }

    fn delete(&mut self, table: &Table, ids: &[RowId]) -> Result<(), TableError> {
        Ok(self.delete(table, ids)?)
    }

    fn commit(self: Box<Self>) -> Result<u64, TableError> {
        Ok((*self).commit()?)
    }
}

/// A record of nothing but room for its header.
fn empty() -> Encoder {
    let mut record = Encoder::default();
    record.raw(&[0; FrameHeader::BYTES]);
    record
}

fn placements_of(table: &Table, system: &MemorySystem) -> Vec<u8> {
    let mut out = Encoder::default();
    encode_placements(&mut out, &table.placements(), system);
    out.finish()
}

fn qualified(schema: &str, name: &str) -> QualifiedName {
    QualifiedName {
        schema: schema.to_owned(),
        name: name.to_owned(),
    }
}

fn read_rows_of(table: &Table, part: &Part, rows: RowSet<'_>) -> Result<RecordBatch, DurableError> {
    let fields = table.schema().fields().iter();
    let columns: Result<Vec<ArrayRef>, TableError> = match part.segment.written() {
        // Not encoded for nothing but this.
        Some(written) => (0..fields.len())
            .map(|column| written.read(column, rows))
            .collect(),
        None => {
            let columns = part.segment.columns().iter().zip(fields);
            let columns = columns.map(|(slot, field)| {
                let column = slot.current()?;
                column.read(rows, field.data_type())
            });
            columns.collect()
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let schema = Arc::clone(table.schema());
    Ok(RecordBatch::try_new_with_options(
        schema, columns?, &options,
    )?)
}
