//! Savepoints in a pool: main storage that a later process uses where it lies.
//!
//! Every column of a segment of the main storage is an extent; so is what is known of a segment, and
//! each segment of the delta. What is published names the extents and has everything else. Columns
//! that are placed on the tier that the pool lies on are used in place, by this process and by later
//! ones; of the others the pool has a copy, which a later process reads when it needs it.

use arrow::datatypes::DataType;
use nearfar_memory::pool::{
    Claim, ExtentHandle, Owner, OwnerRecord, Pool, PoolError, PoolOptions, Published,
};
use nearfar_memory::{MemorySystem, Placement, TierId, UnknownTier};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::directory;
use super::error::{ColumnError, SavepointError};
use super::lease::Lease;
use super::publisher::TakeCommitted;
use super::segment_file::SegmentFile;
use crate::error::StoreError;
use crate::image::{
    ColumnEntry, DatabaseImage, Decoder, ImageError, SegmentForm, TableEntry, decode_database,
    decode_segment, encode_database, encode_segment, open, seal,
};
use crate::placement::Storage;
use crate::segment::{ColumnForm, ColumnSegment, PoolBytes, SegmentMemory};
use crate::table::{ColumnSlot, Part, Segment, StoredColumn};

const MAGIC: &[u8; 8] = b"NFARBASE";

/// Columns of a segment of the delta begin at multiples of this within their extent.
const DELTA_GRAIN: usize = 64;

/// When the bytes of a pool are checked against their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// All of them before anything is served.
    All,
    /// In the background, and each column segment before it is first read.
    #[default]
    Background,
}

/// The pool that an engine has its main storage in.
#[derive(Debug, Clone)]
pub struct TablePoolOptions {
    /// A file on tmpfs or on a DAX file system, or a DAX device.
    pub path: PathBuf,
    /// The pool, where it is attached already: [`Self::path`] is not opened, but its name only.
    pub attached: Option<Pool>,
    /// Bytes of the pool, where there is none yet: a multiple of 2 MiB.
    pub bytes: Option<u64>,
    /// The tier that its memory is part of.
    pub tier: String,
    /// When its bytes are checked.
    pub verify: Verify,
    /// How it is taken from whoever has it.
    pub claim: Claim,
}

/// The data directory whose log goes on where what is published in a pool ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataLink {
    /// Which data directory it is.
    pub identity: u64,
    /// The folder of its savepoints.
    pub savepoints: PathBuf,
}

impl DataLink {
    /// The folder of the files of segments.
    fn segments(&self) -> PathBuf {
        directory::segments(&self.savepoints)
    }
}

impl TablePoolOptions {
    /// A pool of near memory that is there, or is made when [`Self::bytes`] says how large.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            attached: None,
            bytes: None,
            tier: "near".to_owned(),
            verify: Verify::default(),
            claim: Claim::of_this_process(),
        }
    }
}

/// A pool that tables are in, which this process owns.
#[derive(Debug)]
pub struct TablePool {
    path: PathBuf,
    pool_id: u128,
    owner: Owner,
    /// What was published before, until it is attached.
    published: Mutex<Option<Arc<Published>>>,
    system: Arc<MemorySystem>,
    tier: TierId,
    verify: Verify,
    lease: Lease,
    /// Whether there is a data directory, and which one, once that is known.
    data: OnceLock<DataLink>,
    /// The position of the log that the last publication was taken at. Held by the one that is under
    /// way.
    publishing: Mutex<u64>,
    /// Where extents begin whose bytes were found damaged.
    damaged: Mutex<HashSet<u64>>,
}

/// What of a segment is in which extents of a pool.
#[derive(Debug, Clone)]
pub struct PooledSegment {
    pool_id: u128,
    form: Arc<ExtentHandle>,
    columns: Vec<Arc<ExtentHandle>>,
}

impl TablePool {
    /// Attaches the pool, or makes it where there is none, and becomes its owner.
    ///
    /// # Errors
    /// [`SavepointError::Pool`], which says what is wrong with the pool; a tier that there is not.
    pub fn open(
        options: &TablePoolOptions,
        has_data: bool,
        system: &Arc<MemorySystem>,
    ) -> Result<Arc<Self>, StoreError> {
        Self::open_with(options, has_data, system, Pool::claim)
    }

    /// The same, and forgets what was published in it, because it can't be used.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_empty(
        options: &TablePoolOptions,
        has_data: bool,
        system: &Arc<MemorySystem>,
    ) -> Result<Arc<Self>, StoreError> {
        Self::open_with(options, has_data, system, Pool::claim_empty)
    }

    fn open_with(
        options: &TablePoolOptions,
        has_data: bool,
        system: &Arc<MemorySystem>,
        claim: fn(&Pool, &Claim) -> Result<Owner, PoolError>,
    ) -> Result<Arc<Self>, StoreError> {
        let tier = system
            .tier(&options.tier)
            .map_err(|error: UnknownTier| error)?;
        let path = &options.path;
        let failed = |source| SavepointError::Pool {
            path: path.clone(),
            source: Box::new(source),
        };
        let pool = match &options.attached {
            Some(pool) => Ok(pool.clone()),
            None => attach_or_create(options, has_data),
        };
        let pool = pool.map_err(failed)?;
        let mut owner = claim(&pool, &options.claim).map_err(failed)?;
        let published = Mutex::new(owner.take_published());
        Ok(Arc::new(Self {
            path: path.clone(),
            pool_id: pool.id(),
            lease: Lease::start(owner.clone()),
            owner,
            published,
            system: Arc::clone(system),
            tier,
            verify: options.verify,
            data: OnceLock::new(),
            publishing: Mutex::new(0),
            damaged: Mutex::default(),
        }))
    }

    /// Says which data directory has the log that goes on from what is published. Once, before
    /// [`Self::attach`].
    pub fn belong_to(&self, data: &DataLink) {
        self.data.get_or_init(|| data.clone());
    }

    /// The file or device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number that tells the pool from others.
    pub fn id(&self) -> u128 {
        self.pool_id
    }

    /// Whether it still is this process's, at this moment.
    ///
    /// # Errors
    /// Who has taken it over.
    pub fn check_owner(&self) -> Result<(), OwnerRecord> {
        self.lease.check()
    }

    /// Gives the pool back, so that who waits for it has it at once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give_back(&self) -> Result<(), SavepointError> {
        self.owner.give_back().map_err(|source| self.failed(source))
    }

    /// The lease that this process has the pool by.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The tier that its memory is part of.
    pub fn tier(&self) -> TierId {
        self.tier
    }

    /// When its bytes are checked.
    pub fn verify(&self) -> Verify {
        self.verify
    }

    /// Bytes that it has room for.
    pub fn free_bytes(&self) -> u64 {
        self.owner.free_bytes()
    }

    /// Whether columns of this placement are used in the pool.
    pub fn holds(&self, placement: &Placement) -> bool {
        *placement == Placement::Bind(self.tier)
    }

    /// Puts bytes into the pool. They are gone with the process unless they are published.
    ///
    /// # Errors
    /// A pool or a tier without room; a pool that was taken over.
    pub fn write(&self, bytes: &[u8]) -> Result<SegmentMemory, SavepointError> {
        let extent = self.write_extent(&[bytes])?;
        self.in_place(extent)
    }

    fn write_extent(&self, parts: &[&[u8]]) -> Result<Arc<ExtentHandle>, SavepointError> {
        let extent = self
            .owner
            .write(parts)
            .map_err(|source| self.failed(source))?;
        let charged = extent.charge_to(&self.system, self.tier);
        charged.map_err(|source| self.failed(source))?;
        Ok(extent)
    }

    fn in_place(&self, extent: Arc<ExtentHandle>) -> Result<SegmentMemory, SavepointError> {
        let bytes = PoolBytes::of(extent, &self.system, self.tier);
        let bytes = bytes.map_err(|source| self.failed(source))?;
        Ok(SegmentMemory::Pool(bytes))
    }

    fn failed(&self, source: PoolError) -> SavepointError {
        SavepointError::Pool {
            path: self.path.clone(),
            source: Box::new(source),
        }
    }

    /// Publishes `image` in place of what was published before, all of it or nothing. Columns that
    /// belong into the pool and were not in it move there.
    ///
    /// # Errors
    /// A pool without room, or that was taken over; a column that can't be read. What was published
    /// before then still is.
    pub fn publish(&self, image: &DatabaseImage) -> Result<(), StoreError> {
        let mut last_position = self.publishing.lock();
        self.publish_after(&mut last_position, image)
    }

    /// The same of what `take` says once it is this publication's turn, so that none takes the place
    /// of a newer one.
    ///
    /// # Errors
    /// As [`Self::publish`], and those of `take`.
    pub(super) fn publish_with(&self, take: &TakeCommitted) -> Result<(), StoreError> {
        let mut last_position = self.publishing.lock();
        self.publish_after(&mut last_position, &take()?)
    }

    /// Publishes `image`, unless it is older than what was published at `last_position`.
    fn publish_after(
        &self,
        last_position: &mut u64,
        image: &DatabaseImage,
    ) -> Result<(), StoreError> {
        if image.log_position < *last_position {
            return Ok(());
        }
        let generation = self.publish_image(image)?;
        *last_position = image.log_position;
        tracing::debug!(
            generation,
            position = *last_position,
            "tables are published"
        );
        Ok(())
    }

    fn publish_image(&self, image: &DatabaseImage) -> Result<u64, StoreError> {
        let mut extents = Vec::new();
        let mut segments = Vec::new();
        for table in &image.tables {
            let main = table.snapshot.main().len();
            for (index, part) in table.snapshot.parts().iter().enumerate() {
                let pooled = self.pooled(part, index >= main)?;
                segments.push((pooled.columns.len(), self.file_of(&part.segment)));
                extents.push(pooled.form);
                extents.extend(pooled.columns);
            }
        }
        let numbers: Vec<usize> = (0..segments.len()).collect();
        let identity = self.data.get().map_or(0, |data| data.identity);
        let mut result = Ok(());
        let catalog = seal(MAGIC, |out| {
            out.u64(identity);
            out.u64(image.log_position);
            out.list(segments.iter(), |out, (columns, file)| {
                out.count(*columns);
                out.option(file.as_deref(), |out, file| file.encode(out));
            });
            result = encode_database(out, image, &self.system, &numbers);
        });
        result.map_err(|source| SavepointError::Image {
            path: self.path.clone(),
            source,
        })?;
        let generation = self.owner.publish(&extents, &catalog);
        Ok(generation.map_err(|source| self.failed(source))?)
    }

    /// The file of the data directory that has the bytes of a segment too.
    fn file_of(&self, segment: &Segment) -> Option<Arc<SegmentFile>> {
        let folder = self.data.get()?.segments();
        let file = segment.file()?;
        (file.path().parent() == Some(&folder)).then_some(file)
    }

    /// Whether an extent of a segment was found damaged.
    fn is_damaged(&self, pooled: &PooledSegment) -> bool {
        let damaged = self.damaged.lock();
        let mut extents = pooled.columns.iter();
        extents.any(|extent| damaged.contains(&extent.extent().offset))
    }

    /// The extents of a segment, which are written where they are not there yet.
    fn pooled(&self, part: &Part, is_delta: bool) -> Result<PooledSegment, StoreError> {
        let segment = &part.segment;
        let known = segment.pooled();
        let is_whole =
            |pooled: &PooledSegment| pooled.pool_id == self.pool_id && !self.is_damaged(pooled);
        if let Some(pooled) = known.filter(is_whole) {
            return Ok(pooled);
        }
        let Written(columns, entries) = match is_delta {
            true => self.write_delta(segment)?,
            false => self.write_main(segment)?,
        };
        let form = encode_segment(&SegmentForm {
            rows: segment.rows(),
            shares_memory: is_delta,
            columns: entries,
        });
        let pooled = PooledSegment {
            pool_id: self.pool_id,
            form: self.write_extent(&[&form])?,
            columns,
        };
        segment.set_pooled(pooled.clone());
        Ok(pooled)
    }

    /// Each column in an extent of its own: the one that it is in, or a new one.
    fn write_main(&self, segment: &Segment) -> Result<Written, StoreError> {
        let mut written = Written::default();
        for slot in segment.columns() {
            let column = slot.current()?;
            let own = column.memory().extent().filter(|_| column.is_alone());
            let extent = match own {
                Some(extent) => Arc::clone(extent),
                None => self.write_extent(&[column.form_bytes()])?,
            };
            if own.is_none() && self.holds(&column.placement()) {
                let memory = self.in_place(Arc::clone(&extent))?;
                slot.settle(&column, column.in_memory(memory)?);
            }
            written.0.push(extent);
            written.1.push(entry(slot, &column, 0));
        }
        Ok(written)
    }

    /// All columns in one extent.
    fn write_delta(&self, segment: &Segment) -> Result<Written, StoreError> {
        let columns = segment.columns().iter().map(ColumnSlot::current);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let (mut parts, mut entries): (Vec<&[u8]>, _) = (Vec::new(), Vec::new());
        let mut at = 0;
        for (slot, column) in segment.columns().iter().zip(&columns) {
            let gap = usize::next_multiple_of(at, DELTA_GRAIN) - at;
            parts.push(&[0; DELTA_GRAIN][..gap]);
            parts.push(column.form_bytes());
            entries.push(entry(slot, column, at + gap));
            at += gap + column.form_bytes().len();
        }
        Ok(Written(vec![self.write_extent(&parts)?], entries))
    }

    /// What was published last; nothing where nothing was. Nothing of the main storage is copied, or
    /// looked at unless all is to be verified first.
    ///
    /// # Errors
    /// What was published can't be read; with [`Verify::All`], the first column that is damaged.
    pub fn attach(
        self: &Arc<Self>,
        storage: &Storage,
    ) -> Result<Option<DatabaseImage>, StoreError> {
        let Some(published) = self.published.lock().take() else {
            return Ok(None);
        };
        let damaged = |source| SavepointError::Image {
            path: self.path.clone(),
            source,
        };
        let mut body = open(MAGIC, "catalog of tables", &published.catalog).map_err(damaged)?;
        let what = "the extents of a segment";
        self.check_identity(
            body.u64("the identity of a data directory")
                .map_err(damaged)?,
        )?;
        let log_position = body.u64("the position in the log").map_err(damaged)?;
        let lengths = body.list(what, |body| self.segment_entry(body));
        let lengths = lengths.map_err(damaged)?;
        let (mut image, tables) = decode_database(&mut body, &self.system).map_err(damaged)?;
        image.log_position = log_position;
        *self.publishing.lock() = log_position;
        let mut rest = &published.extents[..];
        let mut segments = Vec::with_capacity(lengths.len());
        for (columns, file) in lengths {
            let split = rest.split_at_checked(columns + 1);
            let (own, after) = split.ok_or_else(|| damaged(ImageError::Invalid { what }))?;
            segments.push((own, file));
            rest = after;
        }
        for entry in tables {
            let mut own = Vec::new();
            for (index, (part, _)) in entry.parts().enumerate() {
                let found = segments.get(part.segment);
                let found = found.ok_or_else(|| damaged(ImageError::Invalid { what }))?;
                own.push(self.segment(&entry, index, found, storage)?);
            }
            image.tables.push(entry.into_image(own).map_err(damaged)?);
        }
        if self.verify == Verify::All {
            verify(&image)?;
        }
        Ok(Some(image))
    }

    /// The extents of a segment's columns, and the file that has them too if it is still there.
    fn segment_entry(
        &self,
        bytes: &mut Decoder<'_>,
    ) -> Result<(usize, Option<Arc<SegmentFile>>), ImageError> {
        let columns = bytes.count("the extents of a segment")?;
        let folder = self.data.get().map(DataLink::segments);
        let file = bytes.option("the file of a segment", |bytes| {
            SegmentFile::decode(bytes, folder.as_deref().unwrap_or(Path::new("")))
        })?;
        Ok((columns, file.filter(|file| file.is_there())))
    }

    fn check_identity(&self, found: u64) -> Result<(), SavepointError> {
        let expected = self.data.get().map_or(0, |data| data.identity);
        if found == expected {
            return Ok(());
        }
        let path = self.path.clone();
        Err(match expected {
            0 => SavepointError::NeedsDataDirectory { path },
            _ => SavepointError::OtherDatabase { path },
        })
    }

    fn segment(
        self: &Arc<Self>,
        entry: &TableEntry,
        index: usize,
        (extents, file): &(&[Arc<ExtentHandle>], Option<Arc<SegmentFile>>),
        storage: &Storage,
    ) -> Result<Arc<Segment>, StoreError> {
        let [form_extent, columns @ ..] = *extents else {
            return Err(self
                .failed(PoolError::Catalog {
                    reason: "a segment has no extents",
                })
                .into());
        };
        for extent in *extents {
            let charged = extent.charge_to(&self.system, self.tier);
            charged.map_err(|source| self.failed(source))?;
        }
        let bytes = form_extent
            .verified()
            .map_err(|source| self.failed(source))?;
        let wrong = |source| SavepointError::Image {
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
        if columns.len() != wanted || form.columns.len() != fields.len() {
            return Err(wrong(ImageError::Invalid {
                what: "the columns",
            })
            .into());
        }
        let mut slots = Vec::with_capacity(fields.len());
        for (column, (known, field)) in form.columns.into_iter().zip(fields).enumerate() {
            let extent = &columns[if form.shares_memory { 0 } else { column }];
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
        let segment = Segment::new(form.rows, slots);
        segment.set_pooled(PooledSegment {
            pool_id: self.pool_id,
            form: Arc::clone(form_extent),
            columns: columns.to_vec(),
        });
        if let Some(file) = file {
            segment.set_file(Arc::clone(file));
        }
        Ok(Arc::new(segment))
    }
}

/// The pool at the path of `options`, or a new one where there is none.
fn attach_or_create(options: &TablePoolOptions, has_data: bool) -> Result<Pool, PoolError> {
    let path = &options.path;
    let is_there = std::fs::metadata(path).is_ok_and(|metadata| {
        use std::os::unix::fs::FileTypeExt;
        metadata.len() > 0 || metadata.file_type().is_char_device()
    });
    let attached = match is_there {
        true => Pool::attach(path, PoolOptions::default()),
        false => Err(PoolError::NotAPool {
            path: path.clone(),
            reason: "there is no such file; say how large the pool is to be".to_owned(),
        }),
    };
    match (attached, options.bytes) {
        (Err(PoolError::NotAPool { .. }), Some(bytes)) => {
            Pool::create(path, bytes, PoolOptions::default())
        }
        // What was in it is in the data directory.
        (Err(error @ (PoolError::Version { .. } | PoolError::ByteOrder { .. })), bytes)
            if has_data =>
        {
            replace(path, bytes, error)
        }
        (attached, _) => attached,
    }
}

/// A new pool in place of one that this program can't read, of as many bytes if none are given.
fn replace(path: &Path, bytes: Option<u64>, error: PoolError) -> Result<Pool, PoolError> {
    tracing::warn!(%error, "the pool is made anew, and filled from the data directory");
    let is_file = |found: &std::fs::Metadata| found.is_file();
    let Some(found) = std::fs::metadata(path).ok().filter(is_file) else {
        return Err(error);
    };
    if std::fs::remove_file(path).is_err() {
        return Err(error);
    }
    Pool::create(path, bytes.unwrap_or(found.len()), PoolOptions::default())
}

/// Extents of a segment's columns, and what is known of these.
#[derive(Default)]
struct Written(Vec<Arc<ExtentHandle>>, Vec<ColumnEntry>);

fn entry(slot: &ColumnSlot, column: &ColumnSegment, offset: usize) -> ColumnEntry {
    ColumnEntry {
        form: column.form(),
        zones: column.zones().clone(),
        facts: slot.facts().clone(),
        offset: offset as u64,
        checksum: 0,
    }
}

/// Checks every column segment of `image` that has not been read yet.
///
/// # Errors
/// The first that is damaged.
pub fn verify(image: &DatabaseImage) -> Result<(), StoreError> {
    for table in &image.tables {
        for part in table.snapshot.parts() {
            for slot in part.segment.columns() {
                slot.verify()?;
            }
        }
    }
    Ok(())
}

/// A column in an extent that nobody has looked at yet.
#[derive(Debug)]
struct PoolColumn {
    pool: Arc<TablePool>,
    extent: Arc<ExtentHandle>,
    /// The file that has it too.
    file: Option<Arc<SegmentFile>>,
    /// Its place among the columns.
    column: usize,
    table: String,
    segment: usize,
    name: String,
    data_type: DataType,
    storage: Storage,
    entry: ColumnEntry,
}

impl PoolColumn {
    fn in_place(&self) -> Result<ColumnSegment, SavepointError> {
        self.checked()?;
        let memory = self.pool.in_place(Arc::clone(&self.extent))?;
        let (form, zones) = (&self.entry.form, self.entry.zones.clone());
        let start = self.entry.offset as usize;
        let column = ColumnSegment::from_form(form, zones, &self.data_type, memory, start);
        column.map_err(|source| self.wrong(source.into()))
    }

    fn checked(&self) -> Result<(), SavepointError> {
        let verified = self.extent.verify();
        verified.map_err(|source| self.wrong(ColumnError::Pool(source)))
    }

    /// Says that the data directory is used instead, and has the next publication write the segment
    /// anew.
    fn note(&self, file: &SegmentFile, damage: &SavepointError) {
        if self.pool.damaged.lock().insert(self.extent.extent().offset) {
            let file = file.path().display();
            tracing::warn!(%damage, %file, "damaged in the pool, and read from the data directory");
        }
    }

    fn load_from(
        &self,
        file: &Arc<SegmentFile>,
        damage: &SavepointError,
        placement: &Placement,
    ) -> Result<ColumnSegment, StoreError> {
        self.note(file, damage);
        let name = (self.table.as_str(), self.segment);
        let column = (self.column, self.name.as_str(), &self.data_type);
        file.column(name, column, placement, &self.storage)
    }

    fn wrong(&self, source: ColumnError) -> SavepointError {
        SavepointError::Column {
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

    fn load(&self, placement: &Placement) -> Result<ColumnSegment, StoreError> {
        let column = match (self.in_place(), &self.file) {
            (Err(damage), Some(file)) => return self.load_from(file, &damage, placement),
            (column, _) => column?,
        };
        match self.pool.holds(placement) {
            true => Ok(column),
            false => column.copy_to(self.storage.target(placement)),
        }
    }

    fn verify(&self) -> Result<(), StoreError> {
        match (self.checked(), &self.file) {
            // Its first use reads the file.
            (Err(damage), Some(file)) => {
                self.note(file, &damage);
                Ok(())
            }
            (checked, _) => Ok(checked?),
        }
    }
}
