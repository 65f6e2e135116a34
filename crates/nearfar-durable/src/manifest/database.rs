//! Tables, views and schemas.

use arrow::datatypes::SchemaRef;
use nearfar_memory::{MemorySystem, Placement, TierId};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use super::indexes::{decode_indexes, encode_indexes, unfilled_indexes};
use super::rules::{decode_rules, encode_rules};
use super::schema::{decode_schema, encode_schema};
use super::sequences::{
    SequenceManifest, decode_sequence, decode_value, encode_sequence, encode_value,
};
use nearfar_table::placement::ColumnPlacements;
use nearfar_table::segment::ZONE_ROWS;
use nearfar_table::table::{
    DELETE_VECTOR_WORDS, DeleteVector, DistinctCount, IndexDefinition, Part, Preload,
    PreloadPriority, RowId, RowIds, RowIdsBuilder, Segment, Snapshot, Table, TableRules,
};

const TABLE: &str = "a table";
const PLACEMENT: &str = "a placement";
const PRELOAD: &str = "a priority of preloading";

/// Everything that is committed at one position of the log.
#[derive(Debug, Clone, Default)]
pub struct DatabaseManifest {
    /// What the log has behind this position is not part of it.
    pub log_position: u64,
    /// The schemas that tables and views can be in, `public` included.
    pub schemas: Vec<String>,
    /// The permanent tables.
    pub tables: Vec<TableManifest>,
    /// The permanent sequences.
    pub sequences: Vec<SequenceManifest>,
    /// The permanent views, in the order in which they can be created.
    pub views: Vec<ViewDefinition>,
}

/// A view, as it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewDefinition {
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The statement that creates it.
    pub sql: String,
}

/// A table at one moment.
#[derive(Debug, Clone)]
pub struct TableManifest {
    /// Which table it is, whatever its name and the process.
    pub identity: u64,
    /// The schema that it is in.
    pub schema_name: String,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// Where new segments of each column go.
    pub placements: ColumnPlacements,
    /// Which columns are brought to memory before a query needs them.
    pub preload: Preload,
    /// What was declared of its rows.
    pub rules: TableRules,
    /// The identity that the next row gets.
    pub next_row: RowId,
    /// Its rows. After a restart, values come to memory when they are first needed.
    pub snapshot: Snapshot,
}

impl TableManifest {
    /// `table` with the rows of `snapshot`.
    pub fn of(table: &Table, snapshot: Snapshot, identity: u64, schema_name: &str) -> Self {
        Self {
            identity,
            schema_name: schema_name.to_owned(),
            name: table.name().to_owned(),
            schema: Arc::clone(table.schema()),
            placements: table.placements(),
            preload: table.preload(),
            rules: table.rules().as_ref().clone(),
            next_row: table.next_row(),
            snapshot,
        }
    }

    /// The table as it was.
    pub(crate) fn restore(&self) -> Table {
        let table = Table::with_id(
            self.identity,
            self.name.clone(),
            self.snapshot.clone(),
            self.next_row,
            self.placements.clone(),
        );
        table.set_preload(self.preload.clone());
        table.set_rules(self.rules.clone());
        table
    }
}

/// A number that a checkpoint gives one of its segments.
pub(crate) type SegmentRef = usize;

/// Rows of a table in one segment, as they are written down.
#[derive(Debug, Clone)]
pub(crate) struct PartManifest {
    /// The segment that has them.
    pub segment: SegmentRef,
    /// Their identities.
    pub ids: RowIds,
    /// Those that are deleted.
    pub delete_vector: Option<DeleteVector>,
}

/// A table as it is written down: without the contents of its segments.
#[derive(Debug, Clone)]
pub struct TableEntry {
    identity: u64,
    schema_name: String,
    name: String,
    schema: SchemaRef,
    placements: ColumnPlacements,
    preload: Preload,
    rules: TableRules,
    indexes: Vec<IndexDefinition>,
    next_row: RowId,
    parts: Vec<PartManifest>,
    main: usize,
    /// Of the main storage, column by column.
    distinct: Option<Vec<DistinctCount>>,
}

impl TableEntry {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the table of this name in schema `public`.
    pub(crate) fn is(&self, table: &str) -> bool {
        self.schema_name == "public" && self.name == table
    }

    /// Its rows that are not deleted.
    pub(crate) fn rows(&self) -> usize {
        let deleted =
            |part: &PartManifest| part.delete_vector.as_ref().map_or(0, DeleteVector::count);
        let rows = self
            .parts
            .iter()
            .map(|part| part.ids.rows() - deleted(part));
        rows.sum()
    }

    /// Its columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Where its columns go.
    pub(crate) fn placements(&self) -> &ColumnPlacements {
        &self.placements
    }

    /// Its parts; whether each is of the main storage.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&PartManifest, bool)> {
        let main = self.main;
        self.parts
            .iter()
            .enumerate()
            .map(move |(index, part)| (part, index < main))
    }

    /// The table with its segments, one for each of [`Self::parts`].
    ///
    /// # Errors
    /// [`ManifestError::Invalid`]: segments or indexes of other tables.
    pub(crate) fn into_manifest(
        self,
        segments: Vec<Arc<Segment>>,
    ) -> Result<TableManifest, ManifestError> {
        let columns = self.schema.fields().len();
        let parts = self.parts.into_iter().zip(segments);
        let parts = parts.map(|(part, segment)| {
            let is_whole = segment.columns().len() == columns && segment.rows() == part.ids.rows();
            let delete_vector = part.delete_vector.map(Arc::new);
            match is_whole {
                true => Ok(Part::new(segment, Arc::new(part.ids), delete_vector)),
                false => Err(ManifestError::Invalid { what: TABLE }),
            }
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::clone(&self.schema);
        let indexes = unfilled_indexes(self.indexes, &schema)?;
        let rows = Snapshot::restored(schema, parts, self.main, self.distinct.as_deref());
        Ok(TableManifest {
            snapshot: rows.with_indexes(indexes),
            identity: self.identity,
            schema_name: self.schema_name,
            name: self.name,
            schema: self.schema,
            placements: self.placements,
            preload: self.preload,
            rules: self.rules,
            next_row: self.next_row,
        })
    }
}

/// Writes `manifest`; `segments` has the number of every segment, table by table and part by part.
///
/// # Errors
/// [`ManifestError::Unsupported`].
pub(crate) fn encode_database(
    out: &mut Encoder,
    manifest: &DatabaseManifest,
    system: &MemorySystem,
    segments: &[SegmentRef],
) -> Result<(), ManifestError> {
    let mut segments = segments.iter().copied();
    out.u64(manifest.log_position);
    out.list(manifest.schemas.iter(), |out, name| out.text(name));
    out.count(manifest.tables.len());
    for table in &manifest.tables {
        out.u64(table.identity);
        out.text(&table.schema_name);
        out.text(&table.name);
        encode_schema(out, &table.schema)?;
        encode_placements(out, &table.placements, system);
        encode_preload(out, &table.preload);
        encode_rules(out, &table.rules);
        let indexes = table.snapshot.indexes().iter();
        encode_indexes(out, indexes.map(|index| index.definition().as_ref()));
        out.u64(table.next_row);
        out.count(table.snapshot.main().len());
        out.list(table.snapshot.parts().iter(), |out, part| {
            out.count(segments.next().unwrap_or_default());
            out.list(part.ids.runs(), |out, (first, rows)| {
                out.u64(first);
                out.count(rows);
            });
            out.option(part.delete_vector.as_deref(), delete_vector);
        });
        let distinct = table.snapshot.main_summary().distinct();
        out.option(distinct, |out, counts| {
            out.list(counts.into_iter(), |out, (values, is_exact)| {
                out.count(values);
                out.flag(is_exact);
            });
        });
    }
    out.list(manifest.sequences.iter(), |out, sequence| {
        out.text(&sequence.schema);
        out.text(&sequence.name);
        encode_sequence(out, &sequence.definition);
        encode_value(out, sequence.value);
    });
    out.list(manifest.views.iter(), |out, view| {
        out.text(&view.schema);
        out.text(&view.name);
        out.text(&view.sql);
    });
    Ok(())
}

/// Reads what `encode_database` has written: a manifest without tables, and these.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_database(
    bytes: &mut Decoder<'_>,
    system: &MemorySystem,
) -> Result<(DatabaseManifest, Vec<TableEntry>), ManifestError> {
    let log_position = bytes.u64("the position in the log")?;
    let schemas = bytes.list("a schema", |bytes| bytes.text("a schema"))?;
    let tables = bytes.list(TABLE, |bytes| read_table(bytes, system))?;
    let sequences = bytes.list("a sequence", |bytes| {
        Ok(SequenceManifest {
            schema: bytes.text("a sequence")?,
            name: bytes.text("a sequence")?,
            definition: decode_sequence(bytes)?,
            value: decode_value(bytes)?,
        })
    })?;
    let views = bytes.list("a view", |bytes| {
        Ok(ViewDefinition {
            schema: bytes.text("a view")?,
            name: bytes.text("a view")?,
            sql: bytes.text("a view")?,
        })
    })?;
    let manifest = DatabaseManifest {
        log_position,
        schemas,
        tables: Vec::new(),
        sequences,
        views,
    };
    Ok((manifest, tables))
}

fn read_table(bytes: &mut Decoder<'_>, system: &MemorySystem) -> Result<TableEntry, ManifestError> {
    let entry = TableEntry {
        identity: bytes.u64(TABLE)?,
        schema_name: bytes.text(TABLE)?,
        name: bytes.text(TABLE)?,
        schema: decode_schema(bytes)?,
        placements: decode_placements(bytes, system)?,
        preload: decode_preload(bytes)?,
        rules: decode_rules(bytes)?,
        indexes: decode_indexes(bytes)?,
        next_row: bytes.u64(TABLE)?,
        main: bytes.count(TABLE)?,
        parts: bytes.list("a part of a table", read_part)?,
        distinct: bytes.option(TABLE, |bytes| bytes.list(TABLE, read_distinct))?,
    };
    let columns = entry.schema.fields().len();
    let is_whole = entry.main <= entry.parts.len()
        && entry
            .distinct
            .as_ref()
            .is_none_or(|counts| counts.len() == columns);
    match is_whole {
        true => Ok(entry),
        false => Err(ManifestError::Invalid { what: TABLE }),
    }
}

fn read_distinct(bytes: &mut Decoder<'_>) -> Result<DistinctCount, ManifestError> {
    const WHAT: &str = "a number of distinct values";
    Ok((bytes.count(WHAT)?, bytes.flag(WHAT)?))
}

fn read_part(bytes: &mut Decoder<'_>) -> Result<PartManifest, ManifestError> {
    const WHAT: &str = "the identities of rows";
    let segment = bytes.count("a part of a table")?;
    let mut ids = RowIdsBuilder::default();
    let mut rows = 0;
    bytes.list(WHAT, |bytes| {
        let (first, count) = (bytes.u64(WHAT)?, bytes.count(WHAT)?);
        rows += count;
        if rows > u32::MAX as usize || first.checked_add(count as u64).is_none() {
            return Err(ManifestError::Invalid { what: WHAT });
        }
        ids.push(first, count);
        Ok(())
    })?;
    let delete_vector = bytes.option("a delete vector", |bytes| read_delete_vector(bytes, rows))?;
    Ok(PartManifest {
        segment,
        ids: ids.finish(),
        delete_vector,
    })
}

fn delete_vector(out: &mut Encoder, delete_vector: &DeleteVector) {
    let bitmaps: Vec<_> = delete_vector.bitmaps().collect();
    out.list(bitmaps.into_iter(), |out, (zone, words)| {
        out.count(zone);
        words.iter().for_each(|word| out.u64(*word));
    });
}

fn read_delete_vector(bytes: &mut Decoder<'_>, rows: usize) -> Result<DeleteVector, ManifestError> {
    const WHAT: &str = "a delete vector";
    let mut deleted = Vec::new();
    bytes.list(WHAT, |bytes| {
        let zone = bytes.count(WHAT)?;
        for word in 0..DELETE_VECTOR_WORDS {
            let bits = bytes.u64(WHAT)?;
            let first = zone * ZONE_ROWS + word * 64;
            let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
            for row in set.map(|bit| first + bit) {
                if row >= rows {
                    return Err(ManifestError::Invalid { what: WHAT });
                }
                deleted.push(row as u32);
            }
        }
        Ok(())
    })?;
    Ok(DeleteVector::of(deleted))
}

/// Writes where a table's columns go. Tiers are written by name.
pub(crate) fn encode_placements(
    out: &mut Encoder,
    placements: &ColumnPlacements,
    system: &MemorySystem,
) {
    placement(out, &placements.default, system);
    let columns: BTreeMap<_, _> = placements.columns.iter().collect();
    out.list(columns.into_iter(), |out, (column, place)| {
        out.text(column);
        placement(out, place, system);
    });
}

/// Reads where a table's columns go. A tier that this machine does not have is replaced by the near
/// one.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_placements(
    bytes: &mut Decoder<'_>,
    system: &MemorySystem,
) -> Result<ColumnPlacements, ManifestError> {
    let default = read_placement(bytes, system)?;
    let columns = bytes.list(PLACEMENT, |bytes| {
        Ok((bytes.text(PLACEMENT)?, read_placement(bytes, system)?))
    })?;
    Ok(ColumnPlacements {
        default,
        columns: columns.into_iter().collect(),
    })
}

/// Writes which columns of a table are brought to memory before a query needs them.
pub(crate) fn encode_preload(out: &mut Encoder, preload: &Preload) {
    out.u8(preload.default.get());
    let columns: BTreeMap<_, _> = preload.columns.iter().collect();
    out.list(columns.into_iter(), |out, (column, priority)| {
        out.text(column);
        out.u8(priority.get());
    });
}

/// Reads what `encode_preload` has written.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_preload(bytes: &mut Decoder<'_>) -> Result<Preload, ManifestError> {
    let default = read_priority(bytes)?;
    let columns = bytes.list(PRELOAD, |bytes| {
        Ok((bytes.text(PRELOAD)?, read_priority(bytes)?))
    })?;
    Ok(Preload {
        default,
        columns: columns.into_iter().collect(),
    })
}

fn read_priority(bytes: &mut Decoder<'_>) -> Result<PreloadPriority, ManifestError> {
    PreloadPriority::new(bytes.u8(PRELOAD)?).ok_or(ManifestError::Invalid { what: PRELOAD })
}

/// Tiers are written by name: another machine may have them in another order.
fn placement(out: &mut Encoder, placement: &Placement, system: &MemorySystem) {
    let name = |tier: TierId| system.name(tier);
    match placement {
        Placement::Bind(tier) => {
            out.u8(0);
            out.text(&name(*tier));
        }
        Placement::Interleave(tiers) => {
            out.u8(1);
            out.list(tiers.iter(), |out, tier| out.text(&name(*tier)));
        }
        Placement::Weighted(runs) => {
            out.u8(2);
            out.list(runs.iter(), |out, (tier, pages)| {
                out.text(&name(*tier));
                out.u32(pages.get());
            });
        }
        Placement::Split {
            first,
            first_share,
            rest,
        } => {
            out.u8(3);
            out.text(&name(*first));
            out.u64(first_share.to_bits());
            out.text(&name(*rest));
        }
    }
}

fn read_placement(
    bytes: &mut Decoder<'_>,
    system: &MemorySystem,
) -> Result<Placement, ManifestError> {
    let invalid = ManifestError::Invalid { what: PLACEMENT };
    let read = match bytes.u8(PLACEMENT)? {
        0 => Placement::Bind(read_tier(bytes, system)?),
        1 => Placement::Interleave(bytes.list(PLACEMENT, |bytes| read_tier(bytes, system))?),
        2 => Placement::Weighted(bytes.list(PLACEMENT, |bytes| {
            let tier = read_tier(bytes, system)?;
            let pages = NonZeroU32::new(bytes.u32(PLACEMENT)?);
            Ok((
                tier,
                pages.ok_or(ManifestError::Invalid { what: PLACEMENT })?,
            ))
        })?),
        3 => {
            let first = read_tier(bytes, system)?;
            let first_share = f64::from_bits(bytes.u64(PLACEMENT)?);
            if !(0.0..=1.0).contains(&first_share) {
                return Err(invalid);
            }
            Placement::Split {
                first,
                first_share,
                rest: read_tier(bytes, system)?,
            }
        }
        _ => return Err(invalid),
    };
    let runs = match &read {
        Placement::Interleave(tiers) => tiers.len(),
        Placement::Weighted(runs) => runs.len(),
        Placement::Bind(_) | Placement::Split { .. } => 1,
    };
    match (1..=Placement::RUNS_MAX).contains(&runs) {
        true => Ok(read),
        false => Err(invalid),
    }
}

/// A tier that this machine does not have is replaced by the near one: the data matter more.
fn read_tier(bytes: &mut Decoder<'_>, system: &MemorySystem) -> Result<TierId, ManifestError> {
    let name = bytes.text("the name of a tier")?;
    Ok(system.place(&name).unwrap_or_else(|_| {
        tracing::warn!(
            tier = name,
            "this machine has no such tier: near is used instead"
        );
        TierId::NEAR
    }))
}
