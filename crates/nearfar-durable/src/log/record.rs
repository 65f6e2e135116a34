//! What the log's records say.
//!
//! A record is a frame: [`MAGIC`], a version, what was known to be on disk when it was appended, the
//! number of its transaction, and operations one after another. A transaction is one frame, or
//! several where it is large, of which the last one is marked: without it the others mean nothing.

use arrow::datatypes::SchemaRef;

use super::sequences::SequenceChange;
use crate::manifest::{
    Decoder, Encoder, ManifestError, decode_indexes, decode_preload, decode_rules, decode_schema,
    encode_indexes, encode_preload, encode_rules, encode_schema,
};
use nearfar_table::table::{IndexDefinition, Preload, RowId, TableId, TableRules};

/// What every record begins with.
pub(super) const MAGIC: [u8; 4] = *b"NFLG";

/// The version of records that is written, and the only one that is read.
pub(super) const VERSION: u8 = 1;

/// What is known of a record without reading its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Whether it commits its transaction.
    pub is_last: bool,
    /// All of the log before this position was on disk when the record was appended.
    pub synced: u64,
    /// The transaction that it is part of.
    pub transaction: u64,
}

impl FrameHeader {
    /// Bytes of a record before its operations.
    pub const BYTES: usize = 4 + 1 + 1 + 8 + 8;

    pub fn write(self, out: &mut Encoder) {
        out.raw(&MAGIC);
        out.u8(VERSION);
        out.flag(self.is_last);
        out.u64(self.synced);
        out.u64(self.transaction);
    }

    fn read(input: &mut Decoder<'_>) -> Result<Self, ManifestError> {
        if input.raw(MAGIC.len(), "a record of Nearfar")? != MAGIC {
            return Err(ManifestError::Invalid {
                what: "a record of Nearfar",
            });
        }
        if input.u8("a record's version")? != VERSION {
            return Err(ManifestError::Invalid {
                what: "a record of version 1",
            });
        }
        Ok(Self {
            is_last: input.flag("whether a record is a transaction's last")?,
            synced: input.u64("a position of the log")?,
            transaction: input.u64("the number of a transaction")?,
        })
    }
}

/// Identities of rows, as the first of a run and how many there are.
pub(super) type IdRuns = Vec<(RowId, u32)>;

/// A table or view by its schema and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    /// The schema, such as `public`.
    pub schema: String,
    /// The name within it.
    pub name: String,
}

impl std::fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// More identities are in no operation: a few bytes name billions of them, which replay writes out.
pub(super) const IDS_MAX: usize = 1 << 18;

/// One change. Placements are those of [`crate::manifest::encode_placements`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operation<'a> {
    CreateTable {
        table: TableId,
        name: QualifiedName,
        columns: SchemaRef,
        placements: &'a [u8],
    },
    DropTable {
        table: TableId,
    },
    /// Another definition of a table, under the same number. `filled` is one row of the columns that have one value in all
    /// rows.
    Redefine {
        table: TableId,
        name: QualifiedName,
        columns: SchemaRef,
        sources: Vec<LoggedSource>,
        filled: &'a [u8],
    },
    Place {
        table: TableId,
        placements: &'a [u8],
    },
    Preload {
        table: TableId,
        preload: Preload,
    },
    /// All indexes that the table has from here on.
    Indexes {
        table: TableId,
        indexes: Vec<IndexDefinition>,
    },
    /// All that is declared of the table's rows from here on.
    Rules {
        table: TableId,
        rules: TableRules,
    },
    CreateSchema {
        name: String,
    },
    DropSchema {
        name: String,
    },
    /// `sql` is the whole statement.
    CreateView {
        name: QualifiedName,
        sql: String,
    },
    DropView {
        name: QualifiedName,
    },
    Sequence {
        name: QualifiedName,
        change: SequenceChange,
    },
    Truncate {
        table: TableId,
    },
    /// `rows` are read with the table's schema.
    Insert {
        table: TableId,
        ids: IdRuns,
        rows: &'a [u8],
    },
    Delete {
        table: TableId,
        ids: IdRuns,
    },
}

/// Where the values of a column come from: the column before that has this place, or the row of filled ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoggedSource {
    Kept(u32),
    Filled,
}

mod tag {
    pub const CREATE_TABLE: u8 = 1;
    pub const DROP_TABLE: u8 = 2;
    pub const PLACE: u8 = 3;
    pub const CREATE_SCHEMA: u8 = 4;
    pub const DROP_SCHEMA: u8 = 5;
    pub const CREATE_VIEW: u8 = 6;
    pub const DROP_VIEW: u8 = 7;
    pub const TRUNCATE: u8 = 8;
    pub const INSERT: u8 = 9;
    pub const DELETE: u8 = 10;
    pub const PRELOAD: u8 = 11;
    pub const INDEXES: u8 = 12;
    pub const RULES: u8 = 13;
    pub const SEQUENCE: u8 = 14;
    pub const REDEFINE: u8 = 15;
}

impl Operation<'_> {
    pub fn write(&self, out: &mut Encoder) -> Result<(), ManifestError> {
        match self {
            Self::CreateTable { .. } | Self::Redefine { .. } => self.write_table(out)?,
            Self::DropTable { table } => write_table(out, tag::DROP_TABLE, *table),
            Self::Place { table, placements } => {
                write_table(out, tag::PLACE, *table);
                out.bytes(placements);
            }
            Self::Preload { table, preload } => {
                write_table(out, tag::PRELOAD, *table);
                encode_preload(out, preload);
            }
            Self::Indexes { table, indexes } => {
                write_table(out, tag::INDEXES, *table);
                encode_indexes(out, indexes.iter());
            }
            Self::Rules { table, rules } => {
                write_table(out, tag::RULES, *table);
                encode_rules(out, rules);
            }
            Self::CreateSchema { name } => {
                out.u8(tag::CREATE_SCHEMA);
                out.text(name);
            }
            Self::DropSchema { name } => {
                out.u8(tag::DROP_SCHEMA);
                out.text(name);
            }
            Self::CreateView { name, sql } => {
                out.u8(tag::CREATE_VIEW);
                write_name(out, name);
                out.text(sql);
            }
            Self::DropView { name } => {
                out.u8(tag::DROP_VIEW);
                write_name(out, name);
            }
            Self::Sequence { name, change } => {
                out.u8(tag::SEQUENCE);
                change.write(name, out);
            }
            Self::Truncate { table } => write_table(out, tag::TRUNCATE, *table),
            Self::Insert { table, ids, rows } => {
                write_table(out, tag::INSERT, *table);
                write_ids(out, ids);
                out.bytes(rows);
            }
            Self::Delete { table, ids } => {
                write_table(out, tag::DELETE, *table);
                write_ids(out, ids);
            }
        }
        Ok(())
    }

    /// A table with its columns.
    fn write_table(&self, out: &mut Encoder) -> Result<(), ManifestError> {
        match self {
            Self::CreateTable {
                table,
                name,
                columns,
                placements,
            } => {
                write_table(out, tag::CREATE_TABLE, *table);
                write_name(out, name);
                encode_schema(out, columns)?;
                out.bytes(placements);
            }
            Self::Redefine {
                table,
                name,
                columns,
                sources,
                filled,
            } => {
                write_table(out, tag::REDEFINE, *table);
                write_name(out, name);
                encode_schema(out, columns)?;
                write_sources(out, sources);
                out.bytes(filled);
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Operation<'a> {
    /// A table with its columns.
    fn read_table(tag: u8, table: TableId, input: &mut Decoder<'a>) -> Result<Self, ManifestError> {
        let (name, columns) = (read_name(input)?, decode_schema(input)?);
        Ok(match tag {
            tag::REDEFINE => Self::Redefine {
                table,
                name,
                columns,
                sources: read_sources(input)?,
                filled: input.bytes("a row of new columns")?,
            },
            _ => Self::CreateTable {
                table,
                name,
                columns,
                placements: input.bytes("placements")?,
            },
        })
    }

    fn read(input: &mut Decoder<'a>) -> Result<Self, ManifestError> {
        let tag = input.u8("an operation")?;
        let table = match tag {
            tag::CREATE_SCHEMA
            | tag::DROP_SCHEMA
            | tag::CREATE_VIEW
            | tag::DROP_VIEW
            | tag::SEQUENCE => 0,
            _ => input.u64("the number of a table")?,
        };
        Ok(match tag {
            tag::CREATE_TABLE | tag::REDEFINE => Self::read_table(tag, table, input)?,
            tag::DROP_TABLE => Self::DropTable { table },
            tag::PLACE => Self::Place {
                table,
                placements: input.bytes("placements")?,
            },
            tag::PRELOAD => Self::Preload {
                table,
                preload: decode_preload(input)?,
            },
            tag::INDEXES => Self::Indexes {
                table,
                indexes: decode_indexes(input)?,
            },
            tag::RULES => Self::Rules {
                table,
                rules: decode_rules(input)?,
            },
            tag::CREATE_SCHEMA => Self::CreateSchema {
                name: input.text("a schema's name")?,
            },
            tag::DROP_SCHEMA => Self::DropSchema {
                name: input.text("a schema's name")?,
            },
            tag::CREATE_VIEW => Self::CreateView {
                name: read_name(input)?,
                sql: input.text("a view's statement")?,
            },
            tag::DROP_VIEW => Self::DropView {
                name: read_name(input)?,
            },
            tag::SEQUENCE => {
                let (name, change) = SequenceChange::read(input)?;
                Self::Sequence { name, change }
            }
            tag::TRUNCATE => Self::Truncate { table },
            tag::INSERT => Self::Insert {
                table,
                ids: read_ids(input)?,
                rows: input.bytes("rows")?,
            },
            tag::DELETE => Self::Delete {
                table,
                ids: read_ids(input)?,
            },
            _ => {
                return Err(ManifestError::Invalid {
                    what: "an operation",
                });
            }
        })
    }
}

fn write_sources(out: &mut Encoder, sources: &[LoggedSource]) {
    out.count(sources.len());
    for source in sources {
        match source {
            LoggedSource::Kept(at) => {
                out.flag(true);
                out.u32(*at);
            }
            LoggedSource::Filled => out.flag(false),
        }
    }
}

fn read_sources(input: &mut Decoder<'_>) -> Result<Vec<LoggedSource>, ManifestError> {
    let count = input.count("sources of columns")?;
    let sources = (0..count).map(|_| match input.flag("whether a column stays")? {
        true => Ok(LoggedSource::Kept(input.u32("the place of a column")?)),
        false => Ok(LoggedSource::Filled),
    });
    sources.collect()
}

/// A record's operations, one after another.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub header: FrameHeader,
    operations: Decoder<'a>,
}

impl<'a> Frame<'a> {
    /// # Errors
    /// Bytes that are no record of this version.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ManifestError> {
        let mut input = Decoder::new(bytes);
        Ok(Self {
            header: FrameHeader::read(&mut input)?,
            operations: input,
        })
    }
}

impl<'a> Iterator for Frame<'a> {
    type Item = Result<Operation<'a>, ManifestError>;

    /// The next operation; an error is not the last item, so readers stop at the first.
    fn next(&mut self) -> Option<Self::Item> {
        (!self.operations.rest().is_empty()).then(|| Operation::read(&mut self.operations))
    }
}

fn write_table(out: &mut Encoder, tag: u8, table: TableId) {
    out.u8(tag);
    out.u64(table);
}

pub(super) fn write_name(out: &mut Encoder, name: &QualifiedName) {
    out.text(&name.schema);
    out.text(&name.name);
}

pub(super) fn read_name(input: &mut Decoder<'_>) -> Result<QualifiedName, ManifestError> {
    Ok(QualifiedName {
        schema: input.text("a schema's name")?,
        name: input.text("a name")?,
    })
}

fn write_ids(out: &mut Encoder, ids: &IdRuns) {
    out.list(ids.iter(), |out, (first, rows)| {
        out.u64(*first);
        out.u32(*rows);
    });
}

fn read_ids(input: &mut Decoder<'_>) -> Result<IdRuns, ManifestError> {
    const WHAT: &str = "identities of rows";
    let mut left = IDS_MAX as u64;
    input.list(WHAT, |input| {
        let (first, rows) = (input.u64(WHAT)?, input.u32(WHAT)?);
        let rest = left.checked_sub(u64::from(rows));
        match rest.filter(|_| first.checked_add(u64::from(rows)).is_some()) {
            Some(rest) => left = rest,
            None => return Err(ManifestError::Invalid { what: WHAT }),
        }
        Ok((first, rows))
    })
}

/// Identities, in their order, as runs.
pub(super) fn runs_of(ids: impl IntoIterator<Item = RowId>) -> IdRuns {
    let mut runs: IdRuns = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((first, rows)) if *first + u64::from(*rows) == id && *rows < u32::MAX => {
                *rows += 1;
            }
            _ => runs.push((id, 1)),
        }
    }
    runs
}
