//! Files of segments.
//!
//! ```text
//! column 0 | column 1 | … | sketches (a frame) | what is known of the segment (a frame)
//! ```
//!
//! Columns begin at multiples of 4 KiB. A file is written once; what has its checksum and where it
//! lies is in the manifests of the checkpoints that share it.

use arrow::datatypes::{DataType, Schema};
use nearfar_memory::Placement;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{CheckpointError, ColumnError, DurableError};
use crate::manifest::{
    ColumnEntry, Decoder, Encoder, ManifestError, SegmentForm, checksum, decode_segment,
    decode_sketches, encode_segment, encode_sketches,
};
use crate::private;
use nearfar_table::error::TableError;
use nearfar_table::placement::{ColumnPlacements, Storage};
use nearfar_table::segment::{ColumnForm, ColumnSegment, SegmentMemory, Zones};
use nearfar_table::table::{
    ColumnSketches, ColumnSlot, Segment, SegmentSketches, StoredColumn, StoredSketches,
};

/// Columns begin at multiples of this: pages.
const COLUMN_GRAIN: u64 = 4096;

/// A file with the bytes of one segment. It is not deleted while this lives.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    path: PathBuf,
    bytes: u64,
    /// Where sketches begin, behind all columns.
    sketches_offset: u64,
    /// Where it says what is known of the segment, up to its end.
    form_offset: u64,
    form_checksum: u64,
}

/// How often each file of this process is in use.
static IN_USE: Mutex<Option<HashMap<PathBuf, usize>>> = Mutex::new(None);

impl SegmentFile {
    /// Counted as in use.
    fn counted(self) -> Arc<Self> {
        let mut in_use = IN_USE.lock();
        *in_use
            .get_or_insert_default()
            .entry(self.path.clone())
            .or_default() += 1;
        Arc::new(self)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is there, and has as many bytes as it should.
    pub(super) fn is_there(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| found.len() == self.bytes)
    }

    /// Whether a segment of this process may still be read from `path`.
    pub(super) fn is_in_use(path: &Path) -> bool {
        let in_use = IN_USE.lock();
        in_use
            .as_ref()
            .is_some_and(|files| files.contains_key(path))
    }

    /// Writes the columns of `segment`, which are all plain and share their memory if it is part of
    /// the delta, to a new file at `path`, and has them on the disk for good.
    pub(super) fn write(
        path: &Path,
        segment: &Segment,
        is_delta: bool,
    ) -> Result<Arc<Self>, DurableError> {
        let written = Self::write_new(path, segment, is_delta);
        if written.is_err() {
            // What was written of it is of no use, and may be what fills the disk.
            let _ = std::fs::remove_file(path);
        }
        written
    }

    fn write_new(
        path: &Path,
        segment: &Segment,
        is_delta: bool,
    ) -> Result<Arc<Self>, DurableError> {
        let failed = |source| CheckpointError::of_io(path, "written", source);
        let mut file = private::create_new(path).map_err(failed)?;
        let mut columns = Vec::with_capacity(segment.columns().len());
        let mut at = 0;
        for slot in segment.columns() {
            let column = slot.current()?;
            let bytes = column.form_bytes();
            let gap = u64::next_multiple_of(at, COLUMN_GRAIN) - at;
            file.write_all(&[0; COLUMN_GRAIN as usize][..gap as usize])
                .and_then(|()| file.write_all(bytes))
                .map_err(failed)?;
            columns.push(ColumnEntry {
                form: column.form(),
                zones: column.zones().clone(),
                facts: slot.facts().clone(),
                offset: at + gap,
                checksum: checksum(bytes),
            });
            at += gap + bytes.len() as u64;
        }
        let form = encode_segment(&SegmentForm {
            rows: segment.rows(),
            shares_memory: is_delta,
            columns,
        });
        let sketches = encode_sketches(segment.sketches().all()?);
        file.write_all(&sketches)
            .and_then(|()| file.write_all(&form))
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        let form_offset = at + sketches.len() as u64;
        let file = Self {
            path: path.to_path_buf(),
            bytes: form_offset + form.len() as u64,
            sketches_offset: at,
            form_offset,
            form_checksum: checksum(&form),
        };
        Ok(file.counted())
    }

    /// Writes which file it is.
    pub(super) fn encode(&self, out: &mut Encoder) {
        let name = self.path.file_name().unwrap_or_default();
        out.text(&name.to_string_lossy());
        out.u64(self.bytes);
        out.u64(self.sketches_offset);
        out.u64(self.form_offset);
        out.u64(self.form_checksum);
    }

    /// Reads which file of `folder` it is.
    pub(super) fn decode(
        bytes: &mut Decoder<'_>,
        folder: &Path,
    ) -> Result<Arc<Self>, ManifestError> {
        const WHAT: &str = "the name of a segment's file";
        let name = bytes.text(WHAT)?;
        let mut offset = || bytes.count(WHAT).map(|offset| offset as u64);
        let (all, sketches_offset, form_offset) = (offset()?, offset()?, offset()?);
        let form_checksum = bytes.u64(WHAT)?;
        let is_plain = Path::new(&name)
            .file_name()
            .is_some_and(|file| file == name.as_str());
        if !is_plain || sketches_offset > form_offset || form_offset > all {
            return Err(ManifestError::Invalid { what: WHAT });
        }
        let file = Self {
            path: folder.join(name),
            bytes: all,
            sketches_offset,
            form_offset,
            form_checksum,
        };
        Ok(file.counted())
    }

    /// The segment, which is part `index` of the table of this name. Columns of main storage are
    /// read when they are first needed; the delta is read immediately.
    pub(super) fn segment(
        self: &Arc<Self>,
        (table, index): (&str, usize),
        schema: &Schema,
        placements: &ColumnPlacements,
        storage: &Storage,
    ) -> Result<Arc<Segment>, DurableError> {
        let form = self.read_form()?;
        if form.columns.len() != schema.fields().len() {
            return Err(self
                .damaged(ManifestError::Invalid {
                    what: "the columns",
                })
                .into());
        }
        let shared = match form.shares_memory {
            true => Some(self.read_shared(&form, storage)?),
            false => None,
        };
        let mut columns = Vec::with_capacity(form.columns.len());
        for (entry, field) in form.columns.into_iter().zip(schema.fields()) {
            let facts = entry.facts.clone();
            let column = FileColumn {
                file: Arc::clone(self),
                table: table.to_owned(),
                segment: index,
                name: field.name().clone(),
                data_type: field.data_type().clone(),
                storage: storage.clone(),
                entry,
            };
            columns.push(match &shared {
                Some(memory) => {
                    let start = column.entry.offset as usize;
                    ColumnSlot::new(column.within(memory.clone(), start)?, facts)
                }
                None => {
                    let placement = placements.of(field.name()).clone();
                    ColumnSlot::stored(Arc::new(column), placement, facts)
                }
            });
        }
        let sketches = SegmentSketches::stored(Arc::clone(self) as Arc<dyn StoredSketches>);
        let segment = Segment::new(form.rows, columns, sketches);
        segment.set_copy(Arc::clone(self));
        Ok(Arc::new(segment))
    }

    /// One column of the segment, read to where `placement` says.
    pub(super) fn column(
        self: &Arc<Self>,
        (table, segment): (&str, usize),
        (column, name, data_type): (usize, &str, &DataType),
        placement: &Placement,
        storage: &Storage,
    ) -> Result<ColumnSegment, TableError> {
        let what = "the columns";
        let entry = self.read_form()?.columns.into_iter().nth(column);
        let entry = entry.ok_or_else(|| self.damaged(ManifestError::Invalid { what }))?;
        let column = FileColumn {
            file: Arc::clone(self),
            table: table.to_owned(),
            segment,
            name: name.to_owned(),
            data_type: data_type.clone(),
            storage: storage.clone(),
            entry,
        };
        column.load(placement)
    }

    fn read_form(&self) -> Result<SegmentForm, CheckpointError> {
        let bytes = self.read(self.form_offset..self.bytes)?;
        let (found, expected) = (checksum(&bytes), self.form_checksum);
        if found != expected {
            return Err(self.damaged(ManifestError::Checksum { found, expected }));
        }
        let form = decode_segment(&bytes).map_err(|source| self.damaged(source))?;
        let is_within = |column: &ColumnEntry| {
            let end = column.offset.checked_add(column.form.bytes() as u64);
            let is_aligned = column.offset.is_multiple_of(COLUMN_GRAIN);
            is_aligned && end.is_some_and(|end| end <= self.sketches_offset)
        };
        match form.columns.iter().all(is_within) {
            true => Ok(form),
            false => Err(self.damaged(ManifestError::Invalid {
                what: "the columns",
            })),
        }
    }

    /// Bytes of the file, which must be as long as it should.
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, CheckpointError> {
        let failed = |source| CheckpointError::of_io(&self.path, "read", source);
        let file = File::open(&self.path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?.len();
        if found != self.bytes {
            let expected = self.bytes;
            return Err(self.damaged(ManifestError::Length { found, expected }));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)
            .map_err(failed)?;
        Ok(bytes)
    }

    /// All columns of a segment of the delta, in one region.
    fn read_shared(
        &self,
        form: &SegmentForm,
        storage: &Storage,
    ) -> Result<SegmentMemory, DurableError> {
        let bytes = self.sketches_offset as usize;
        let memory = self.read_into(
            0,
            bytes,
            storage,
            &Placement::Bind(nearfar_memory::TierId::NEAR),
        )?;
        for column in &form.columns {
            let start = column.offset as usize;
            let found = checksum(&memory.as_slice()[start..start + column.form.bytes()]);
            if found != column.checksum {
                let expected = column.checksum;
                return Err(self
                    .damaged(ManifestError::Checksum { found, expected })
                    .into());
            }
        }
        Ok(memory)
    }

    fn read_into(
        &self,
        offset: u64,
        bytes: usize,
        storage: &Storage,
        placement: &Placement,
    ) -> Result<SegmentMemory, DurableError> {
        let failed = |source| CheckpointError::of_io(&self.path, "read", source);
        let file = File::open(&self.path).map_err(failed)?;
        let mut result = Ok(());
        let memory = storage.target(placement).region(bytes, |memory| {
            result = file.read_exact_at(&mut memory[..bytes], offset);
        })?;
        result.map_err(failed)?;
        Ok(memory)
    }

    fn damaged(&self, source: ManifestError) -> CheckpointError {
        CheckpointError::Manifest {
            path: self.path.clone(),
            source,
        }
    }
}

impl StoredSketches for SegmentFile {
    fn load(&self) -> Result<ColumnSketches, TableError> {
        let bytes = self.read(self.sketches_offset..self.form_offset)?;
        Ok(decode_sketches(&bytes).map_err(|source| self.damaged(source))?)
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        let mut in_use = IN_USE.lock();
        let files = in_use.get_or_insert_default();
        if let Some(uses) = files.get_mut(&self.path) {
            *uses -= 1;
            if *uses == 0 {
                files.remove(&self.path);
            }
        }
    }
}

/// A column that is in a file until it is needed.
#[derive(Debug)]
struct FileColumn {
    file: Arc<SegmentFile>,
    table: String,
    segment: usize,
    name: String,
    data_type: DataType,
    storage: Storage,
    entry: ColumnEntry,
}

impl FileColumn {
    fn within(
        &self,
        memory: SegmentMemory,
        start: usize,
    ) -> Result<ColumnSegment, CheckpointError> {
        let (form, zones): (_, Zones) = (&self.entry.form, self.entry.zones.clone());
        let column = ColumnSegment::from_form(form, zones, &self.data_type, memory, start);
        column.map_err(|source| self.wrong(source.into()))
    }

    fn wrong(&self, source: ColumnError) -> CheckpointError {
        CheckpointError::Column {
            path: self.file.path.clone(),
            table: self.table.clone(),
            segment: self.segment,
            column: self.name.clone(),
            source: Box::new(source),
        }
    }
}

impl StoredColumn for FileColumn {
    fn form(&self) -> &ColumnForm {
        &self.entry.form
    }

    fn load(&self, placement: &Placement) -> Result<ColumnSegment, TableError> {
        let bytes = self.entry.form.bytes();
        let memory = self
            .file
            .read_into(self.entry.offset, bytes, &self.storage, placement)?;
        let (found, expected) = (checksum(&memory.as_slice()[..bytes]), self.entry.checksum);
        if found != expected {
            let damaged = ManifestError::Checksum { found, expected };
            return Err(self.wrong(damaged.into()).into());
        }
        Ok(self.within(memory, 0)?)
    }
}
