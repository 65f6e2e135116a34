//! The columns of a table, where they are at present.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use nearfar_kernels::copy::{
    Copiers, CopyCancel, CopyError, CopyOptions, Fetch, FetchError, staged_from,
};
use nearfar_memory::{MemorySystem, Placement, Region, RegionError, RegionOptions, TierId};
use nearfar_rdma::RemoteError;
use parking_lot::Mutex;

use super::cache::{Claim, Key, Looked, NearCache, Room};
use super::encode::{EncodedColumn, PART_ROWS, decoded};
use super::host::{ColumnBytes, ColumnHost};
use crate::error::RemoteTableError;

/// Where the bytes of a column are.
enum Place {
    Host(Box<dyn ColumnBytes>),
    Near(Arc<Region>),
}

struct Column {
    place: Place,
    parts: Vec<Range<usize>>,
}

/// The columns of a table at one place. They do not change. Those of a host that is lost are lost, and a table that is
/// rebuilt gets others.
pub(super) struct Columns {
    /// No others have it.
    number: u64,
    rows: usize,
    columns: Vec<Column>,
    /// Those that may keep parts of them.
    caches: Mutex<Vec<Weak<NearCache>>>,
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columns")
            .field("number", &self.number)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Drop for Columns {
    fn drop(&mut self) {
        for cache in self.caches.get_mut().iter().filter_map(Weak::upgrade) {
            cache.forget(self.number);
        }
    }
}

fn put(
    host: &dyn ColumnHost,
    column: &EncodedColumn,
    cancel: &CopyCancel,
) -> Result<Column, RemoteError> {
    Ok(Column {
        place: Place::Host(host.put(&column.bytes, cancel)?),
        parts: column.parts.clone(),
    })
}

/// Rows of a part, and what was moved for them.
pub(super) struct Fetched {
    pub(super) rows: RecordBatch,
    /// Bytes that came from the host.
    pub(super) host_bytes: u64,
    /// Bytes that were near.
    pub(super) near_bytes: u64,
}

impl Columns {
    fn new(rows: usize, columns: Vec<Column>) -> Arc<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            rows,
            columns,
            caches: Mutex::default(),
        })
    }

    /// Puts columns of so many rows into the memory of a host, one after another as they come.
    pub(super) fn put(
        host: &dyn ColumnHost,
        rows: usize,
        columns: impl Iterator<Item = Result<EncodedColumn, RemoteTableError>>,
    ) -> Result<Arc<Self>, RemoteTableError> {
        let columns = columns.map(|column| {
            let column = column?;
            put(host, &column, &CopyCancel::default()).map_err(RemoteTableError::from)
        });
        Ok(Self::new(rows, columns.collect::<Result<_, _>>()?))
    }

    /// The same of columns that are all there.
    pub(super) fn put_all(
        host: &dyn ColumnHost,
        (rows, columns): (usize, &[EncodedColumn]),
        cancel: &CopyCancel,
    ) -> Result<Arc<Self>, RemoteError> {
        let columns = columns.iter().map(|column| put(host, column, cancel));
        Ok(Self::new(rows, columns.collect::<Result<_, _>>()?))
    }

    /// Puts columns of so many rows into near memory.
    pub(super) fn near(
        system: &Arc<MemorySystem>,
        rows: usize,
        columns: &[EncodedColumn],
    ) -> Result<Arc<Self>, RegionError> {
        let near = Placement::Bind(TierId::NEAR);
        let put = |column: &EncodedColumn| -> Result<Column, RegionError> {
            let bytes = column.bytes.len();
            let mut region = Region::allocate(system, bytes, &near, RegionOptions::default())?;
            region.as_mut_slice().copy_from_slice(&column.bytes);
            Ok(Column {
                place: Place::Near(Arc::new(region)),
                parts: column.parts.clone(),
            })
        };
        let columns = columns.iter().map(put);
        Ok(Self::new(rows, columns.collect::<Result<_, _>>()?))
    }

    /// Whether they are near, and not on a host.
    pub(super) fn are_near(&self) -> bool {
        let near = |column: &Column| matches!(column.place, Place::Near(_));
        !self.columns.is_empty() && self.columns.iter().all(near)
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        let parts = self.columns.iter().flat_map(|column| &column.parts);
        parts.map(|part| part.len() as u64).sum()
    }

    /// Bytes of a part of these columns.
    pub(super) fn part_bytes(&self, part: usize, projection: &[usize]) -> usize {
        let columns = projection.iter();
        columns
            .map(|column| self.columns[*column].parts[part].len())
            .sum()
    }

    /// The rows of a part with these columns: from near memory, or fetched by so many copiers.
    pub(super) fn fetch(
        self: &Arc<Self>,
        (part, projection): (usize, &[usize]),
        schema: &SchemaRef,
        cache: &Arc<NearCache>,
        (copiers, cancel): (Copiers, &CopyCancel),
    ) -> Result<Fetched, RemoteTableError> {
        self.may_be_kept_by(cache);
        let mut found = Found {
            bytes: vec![None; projection.len()],
            host_bytes: 0,
            near_bytes: 0,
        };
        while found.bytes.iter().any(Option::is_none) {
            self.look(&mut found, (part, projection), cache, (copiers, cancel))?;
        }
        let arrays = found.bytes.into_iter().zip(schema.fields());
        let arrays = arrays.map(|(bytes, field)| {
            let column = decoded(bytes.unwrap_or_default())?;
            column.ok_or_else(|| RemoteTableError::Empty {
                column: field.name().clone(),
            })
        });
        let rows = PART_ROWS.min(self.rows - part * PART_ROWS);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let arrays = arrays.collect::<Result<_, _>>()?;
        let rows = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?;
        Ok(Fetched {
            rows,
            host_bytes: found.host_bytes,
            near_bytes: found.near_bytes,
        })
    }

    fn may_be_kept_by(&self, cache: &Arc<NearCache>) {
        let mut caches = self.caches.lock();
        let is_known = caches
            .iter()
            .any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(cache)));
        if !is_known {
            caches.push(Arc::downgrade(cache));
        }
    }

    /// Finds what is near, fetches what nobody else does, and waits for what others fetch: some of that may not come.
    fn look(
        &self,
        found: &mut Found,
        (part, projection): (usize, &[usize]),
        cache: &NearCache,
        (copiers, cancel): (Copiers, &CopyCancel),
    ) -> Result<(), RemoteTableError> {
        let mut mine = Vec::new();
        let mut coming = Vec::new();
        for (at, column) in projection.iter().enumerate() {
            if found.bytes[at].is_some() {
                continue;
            }
            let Column { place, parts } = &self.columns[*column];
            let range = parts[part].clone();
            let bytes = match place {
                Place::Near(region) => {
                    found.near(at, region.buffer(range));
                    continue;
                }
                Place::Host(bytes) => bytes.as_ref(),
            };
            let key = Key {
                columns: self.number,
                column: *column,
                part,
            };
            match cache.look(key) {
                Looked::Here(bytes) => found.near(at, bytes),
                Looked::Coming(flight) => coming.push((at, flight)),
                Looked::Mine(mut claim) => {
                    let room = claim.room(range.len());
                    let begin = range.start;
                    mine.push(Wanted {
                        at,
                        claim,
                        room,
                        from: Source { bytes, begin },
                    });
                }
            }
        }
        // What others may wait for comes first, so that no two wait for each other.
        for (at, bytes) in fetched(mine, copiers, cancel)? {
            found.host_bytes += bytes.len() as u64;
            found.bytes[at] = Some(bytes);
        }
        for (at, flight) in coming {
            if let Some(bytes) = flight.wait(cancel)? {
                found.near(at, bytes);
            }
        }
        Ok(())
    }
}

/// The bytes of the columns of a part, as far as they are there.
struct Found {
    bytes: Vec<Option<Buffer>>,
    host_bytes: u64,
    near_bytes: u64,
}

impl Found {
    fn near(&mut self, at: usize, bytes: Buffer) {
        self.near_bytes += bytes.len() as u64;
        self.bytes[at] = Some(bytes);
    }
}

/// A part of a column that is to be fetched.
struct Wanted<'a> {
    at: usize,
    claim: Claim<'a>,
    room: Room,
    from: Source<'a>,
}

/// Where it is at the host.
#[derive(Clone, Copy)]
struct Source<'a> {
    bytes: &'a dyn ColumnBytes,
    begin: usize,
}

/// What was wanted, fetched by so many copiers.
fn fetched(
    mut wanted: Vec<Wanted<'_>>,
    copiers: Copiers,
    cancel: &CopyCancel,
) -> Result<Vec<(usize, Buffer)>, RemoteTableError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let failed = Mutex::new(None);
    let from: Vec<Source<'_>> = wanted.iter().map(|wanted| wanted.from).collect();
    let fetch = |_| PartFetch {
        from: &from,
        cancel,
        failed: &failed,
    };
    let to = wanted.iter_mut().map(|wanted| wanted.room.as_mut_slice());
    let options = CopyOptions {
        copiers,
        ..CopyOptions::default()
    };
    let copied = staged_from(to.collect(), options, cancel, fetch, |staged| {
        (0..from.len()).try_for_each(|part| staged.wait(part).map(|_| ()))
    });
    if let Err(error) = copied.and_then(|waited: Result<(), CopyError>| waited) {
        let told = failed.into_inner();
        return Err(told.map_or(RemoteTableError::Copy(error), RemoteTableError::Host));
    }
    let fetched = wanted
        .into_iter()
        .map(|wanted| (wanted.at, wanted.claim.fetched(wanted.room)));
    Ok(fetched.collect())
}

/// What copiers read parts of some columns by. The first error is kept with its type.
struct PartFetch<'a> {
    from: &'a [Source<'a>],
    cancel: &'a CopyCancel,
    failed: &'a Mutex<Option<RemoteError>>,
}

impl Fetch for PartFetch<'_> {
    fn fetch(&mut self, part: usize, offset_bytes: usize, to: &mut [u8]) -> Result<(), FetchError> {
        let Source { bytes, begin } = self.from[part];
        let is_cancelled = || self.cancel.is_cancelled();
        let read = bytes.read(begin + offset_bytes, to, &is_cancelled);
        read.map_err(|error| {
            let told = FetchError::new(error.to_string());
            self.failed.lock().get_or_insert(error);
            told
        })
    }
}
