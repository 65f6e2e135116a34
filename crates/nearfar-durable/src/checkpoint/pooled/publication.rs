//! What was published, before its tables are attached and with them.

use std::path::Path;
use std::sync::Arc;

use nearfar_memory::pool::{ExtentHandle, PoolError, Published};

use super::column::{PoolColumn, PoolSketches};
use super::place::PoolPlace;
use super::publish::{MAGIC, PooledSegment};
use crate::checkpoint::SegmentFile;
use crate::error::CheckpointError;
use crate::error::DurableError;
use crate::manifest::{
    DatabaseManifest, Decoder, ManifestError, TableEntry, TableManifest, decode_database,
    decode_segment, open,
};
use nearfar_table::placement::Storage;
use nearfar_table::table::{ColumnSlot, Segment, SegmentSketches};

const EXTENTS: &str = "the extents of a segment";

/// What a publication says, of whose tables nothing was looked at.
#[derive(Debug)]
pub(super) struct Unattached {
    /// The data directory that it belongs to; zero without one.
    pub(super) identity: u64,
    /// The term of the data directory that it was published in; zero without one.
    pub(super) term: u64,
    /// Everything but its tables.
    pub(super) manifest: DatabaseManifest,
    pub(super) tables: Vec<TableEntry>,
    segments: Vec<PublishedSegment>,
}

/// The extents of a segment, and the file of the data directory that has it too.
type PublishedSegment = (Vec<Arc<ExtentHandle>>, Option<Arc<SegmentFile>>);

impl Unattached {
    /// Reads what was published in the pool at `place`. Files of segments are looked for in `folder`.
    ///
    /// # Errors
    /// A catalog that is damaged.
    pub(super) fn read(
        place: &PoolPlace,
        published: &Published,
        folder: Option<&Path>,
    ) -> Result<Self, CheckpointError> {
        Self::decode(place, published, folder).map_err(|source| damaged(place, source))
    }

    fn decode(
        place: &PoolPlace,
        published: &Published,
        folder: Option<&Path>,
    ) -> Result<Self, ManifestError> {
        let mut body = open(MAGIC, "catalog of tables", &published.catalog)?;
        let identity = body.u64("the identity of a data directory")?;
        let term = body.u64("the term of a data directory")?;
        let log_position = body.u64("the position in the log")?;
        let lengths = body.list(EXTENTS, |body| segment_entry(body, folder))?;
        let (mut manifest, tables) = decode_database(&mut body, &place.system)?;
        manifest.log_position = log_position;
        let mut rest = &published.extents[..];
        let mut segments = Vec::with_capacity(lengths.len());
        for (columns, file) in lengths {
            // What is known of the segment, its columns, its sketches.
            let split = rest.split_at_checked(columns + 2);
            let (own, after) = split.ok_or(ManifestError::Invalid { what: EXTENTS })?;
            segments.push((own.to_vec(), file));
            rest = after;
        }
        Ok(Self {
            identity,
            term,
            manifest,
            tables,
            segments,
        })
    }

    /// A table with its segments where they lie.
    ///
    /// # Errors
    /// What was published of it can't be read; a tier without budget.
    pub(super) fn attach(
        &self,
        place: &Arc<PoolPlace>,
        entry: TableEntry,
        storage: &Storage,
    ) -> Result<TableManifest, DurableError> {
        let mut own = Vec::new();
        for (index, (part, _)) in entry.parts().enumerate() {
            let found = self.segments.get(part.segment);
            let missing = || damaged(place, ManifestError::Invalid { what: EXTENTS });
            let found = found.ok_or_else(missing)?;
            own.push(place.segment(&entry, index, found, storage)?);
        }
        let manifest = entry.into_manifest(own);
        Ok(manifest.map_err(|source| damaged(place, source))?)
    }
}

fn damaged(place: &PoolPlace, source: ManifestError) -> CheckpointError {
    CheckpointError::Manifest {
        path: place.path.clone(),
        source,
    }
}

impl PoolPlace {
    fn segment(
        self: &Arc<Self>,
        entry: &TableEntry,
        index: usize,
        (extents, file): &PublishedSegment,
        storage: &Storage,
    ) -> Result<Arc<Segment>, DurableError> {
        let pooled = self.pooled_segment(extents)?;
        let bytes = pooled.form.verified();
        let bytes = bytes.map_err(|source| self.failed(source))?;
        let wrong = |source| damaged(self, source);
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
            slots.push(match form.shares_memory || self.is_borrowed {
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
            self.charge(extent)?;
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
    folder: Option<&Path>,
) -> Result<(usize, Option<Arc<SegmentFile>>), ManifestError> {
    let columns = bytes.count("the extents of a segment")?;
    let file = bytes.option("the file of a segment", |bytes| {
        SegmentFile::decode(bytes, folder.unwrap_or(Path::new("")))
    })?;
    let is_there = |file: &Arc<SegmentFile>| folder.is_some() && file.is_there();
    Ok((columns, file.filter(is_there)))
}
