//! What an earlier process has published, read where it lies.

use std::path::Path;
use std::sync::Arc;

use nearfar_memory::pool::{ExtentHandle, PoolError};

use super::column::{PoolColumn, PoolSketches};
use super::options::{DataLink, Verify};
use super::publish::{MAGIC, PooledSegment};
use super::table_pool::TablePool;
use crate::checkpoint::SegmentFile;
use crate::error::CheckpointError;
use crate::error::DurableError;
use crate::manifest::{
    DatabaseManifest, Decoder, ManifestError, TableEntry, decode_database, decode_segment, open,
};
use nearfar_table::placement::Storage;
use nearfar_table::table::{ColumnSlot, Segment, SegmentSketches};

/// What an earlier process has published.
#[derive(Debug)]
pub(crate) struct Publication {
    /// The tables.
    pub manifest: DatabaseManifest,
    /// The term of the data directory that it was published in, by its identity; zero without a data
    /// directory.
    pub term: u64,
}

impl TablePool {
    /// What was published last; nothing where nothing was. Nothing of the main storage is copied, or
    /// looked at unless all is to be verified first.
    ///
    /// # Errors
    /// What was published can't be read; with [`Verify::All`], the first column that is damaged.
    pub(crate) fn attach(
        self: &Arc<Self>,
        storage: &Storage,
    ) -> Result<Option<Publication>, DurableError> {
        let Some(published) = self.published.lock().take() else {
            return Ok(None);
        };
        let damaged = |source| CheckpointError::Manifest {
            path: self.path.clone(),
            source,
        };
        let mut body = open(MAGIC, "catalog of tables", &published.catalog).map_err(damaged)?;
        let what = "the extents of a segment";
        self.check_identity(
            body.u64("the identity of a data directory")
                .map_err(damaged)?,
        )?;
        let term = body.u64("the term of a data directory").map_err(damaged)?;
        let log_position = body.u64("the position in the log").map_err(damaged)?;
        let folder = self.data.get().map(DataLink::segments).unwrap_or_default();
        let lengths = body.list(what, |body| segment_entry(body, &folder));
        let lengths = lengths.map_err(damaged)?;
        let (mut manifest, tables) = decode_database(&mut body, &self.system).map_err(damaged)?;
        manifest.log_position = log_position;
        let mut rest = &published.extents[..];
        let mut segments = Vec::with_capacity(lengths.len());
        for (columns, file) in lengths {
            // What is known of the segment, its columns, its sketches.
            let split = rest.split_at_checked(columns + 2);
            let (own, after) = split.ok_or_else(|| damaged(ManifestError::Invalid { what }))?;
            segments.push((own, file));
            rest = after;
        }
        for entry in tables {
            let mut own = Vec::new();
            for (index, (part, _)) in entry.parts().enumerate() {
                let found = segments.get(part.segment);
                let found = found.ok_or_else(|| damaged(ManifestError::Invalid { what }))?;
                own.push(self.segment(&entry, index, found, storage)?);
            }
            manifest
                .tables
                .push(entry.into_manifest(own).map_err(damaged)?);
        }
        if self.verify == Verify::All {
            verify(&manifest)?;
        }
        Ok(Some(Publication { manifest, term }))
    }

    fn check_identity(&self, found: u64) -> Result<(), CheckpointError> {
        let expected = self.data.get().map_or(0, |data| data.identity);
        if found == expected {
            return Ok(());
        }
        let path = self.path.clone();
        Err(match expected {
            0 => CheckpointError::NeedsDataDirectory { path },
            _ => CheckpointError::OtherDatabase { path },
        })
    }

    fn segment(
        self: &Arc<Self>,
        entry: &TableEntry,
        index: usize,
        (extents, file): &(&[Arc<ExtentHandle>], Option<Arc<SegmentFile>>),
        storage: &Storage,
    ) -> Result<Arc<Segment>, DurableError> {
        let pooled = self.pooled_segment(extents)?;
        let bytes = pooled.form.verified();
        let bytes = bytes.map_err(|source| self.failed(source))?;
        let wrong = |source| CheckpointError::Manifest {
            path: self.path.clone(),
            source,
        };
        let form = decode_segment(bytes).map_err(wrong)?;
        let wanted = if form.shares_memory {
            1
        } else {
            form.columns.len()
        };
        let fields = entry.schema().fields();
        if pooled.columns.len() != wanted || form.columns.len() != fields.len() {
            return Err(wrong(ManifestError::Invalid {
                what: "the columns",
            })
            .into());
        }
        let mut slots = Vec::with_capacity(fields.len());
        for (column, (known, field)) in form.columns.into_iter().zip(fields).enumerate() {
            let extent = &pooled.columns[if form.shares_memory { 0 } else { column }];
            let facts = known.facts.clone();
            let stored = PoolColumn {
                pool: Arc::clone(self),
                extent: Arc::clone(extent),
                file: file.clone(),
                column,
                table: entry.name().to_owned(),
                segment: index,
                name: field.name().clone(),
                data_type: field.data_type().clone(),
                storage: storage.clone(),
                entry: known,
            };
            slots.push(match form.shares_memory {
                true => ColumnSlot::new(stored.in_place()?, facts),
                false => {
                    let placement = entry.placements().of(field.name()).clone();
                    ColumnSlot::stored(Arc::new(stored), placement, facts)
                }
            });
        }
        let sketches = SegmentSketches::stored(Arc::new(PoolSketches {
            pool: Arc::clone(self),
            extent: Arc::clone(&pooled.sketches),
            file: file.clone(),
        }));
        let segment = Segment::new(form.rows, slots, sketches);
        segment.set_copy(Arc::new(pooled));
        if let Some(file) = file {
            segment.set_copy(Arc::clone(file));
        }
        Ok(Arc::new(segment))
    }

    /// What of a segment is in which of its extents, all of which are charged.
    fn pooled_segment(
        &self,
        extents: &[Arc<ExtentHandle>],
    ) -> Result<PooledSegment, CheckpointError> {
        let [form, columns @ .., sketches] = extents else {
            return Err(self.failed(PoolError::Catalog {
                reason: "a segment has no extents",
            }));
        };
        for extent in extents {
            let charged = extent.charge_to(&self.system, self.tier);
            charged.map_err(|source| self.failed(source))?;
        }
        Ok(PooledSegment {
            pool_id: self.pool_id,
            form: Arc::clone(form),
            columns: columns.to_vec(),
            sketches: Arc::clone(sketches),
        })
    }
}

/// The number of extents of a segment's columns, and the file of `folder` that has them too if it is
/// still there.
fn segment_entry(
    bytes: &mut Decoder<'_>,
    folder: &Path,
) -> Result<(usize, Option<Arc<SegmentFile>>), ManifestError> {
    let columns = bytes.count("the extents of a segment")?;
    let file = bytes.option("the file of a segment", |bytes| {
        SegmentFile::decode(bytes, folder)
    })?;
    Ok((columns, file.filter(|file| file.is_there())))
}

/// Checks what has not been read yet of all segments of `manifest`.
///
/// # Errors
/// The first that is damaged.
fn verify(manifest: &DatabaseManifest) -> Result<(), DurableError> {
    for table in &manifest.tables {
        for part in table.snapshot.parts() {
            for slot in part.segment.columns() {
                slot.verify()?;
            }
            part.segment.sketches().verify()?;
        }
    }
    Ok(())
}
