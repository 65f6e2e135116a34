//! The rows of a query, in the format that the user asked for.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::json::LineDelimitedWriter;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::file::Output;
use super::grid::{Align, Grid};
use crate::args::RowFormat;
use crate::exit::{Exit, Failed};
use crate::human::Count;

/// Rows of a text table that are laid out together.
const PAGE_ROWS: usize = 10_000;

/// Writes one result, batch by batch.
pub struct RowWriter<'a> {
    encoder: Encoder<'a>,
    rows: u64,
}

enum Encoder<'a> {
    Table(TableEncoder<'a>),
    Csv {
        out: &'a mut Output,
        is_first: bool,
        schema: SchemaRef,
    },
    Json {
        out: &'a mut Output,
    },
    Parquet(Box<ArrowWriter<&'a mut Output>>),
}

impl<'a> RowWriter<'a> {
    /// A writer of rows of `schema`. A text table ends after `max_rows` rows, if that is not 0, and
    /// says how many there would have been.
    pub fn new(
        out: &'a mut Output,
        format: RowFormat,
        schema: &SchemaRef,
        max_rows: usize,
    ) -> anyhow::Result<Self> {
        let encoder = match format {
            RowFormat::Table => Encoder::Table(TableEncoder::new(out, schema, max_rows)),
            RowFormat::Csv => {
                let schema = SchemaRef::clone(schema);
                Encoder::Csv {
                    out,
                    is_first: true,
                    schema,
                }
            }
            RowFormat::Json => Encoder::Json { out },
            RowFormat::Parquet => {
                if out.is_terminal() {
                    let message = "Parquet is not written to a terminal: give a file with -o";
                    return Err(Failed::new(Exit::Usage, message).into());
                }
                let compression = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder()
                    .set_compression(compression)
                    .build();
                let schema = SchemaRef::clone(schema);
                Encoder::Parquet(Box::new(ArrowWriter::try_new(
                    out,
                    schema,
                    Some(properties),
                )?))
            }
        };
        Ok(Self { encoder, rows: 0 })
    }

    /// Writes a batch.
    pub fn batch(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        self.rows += batch.num_rows() as u64;
        match &mut self.encoder {
            Encoder::Table(table) => table.batch(batch),
            Encoder::Csv { out, is_first, .. } => {
                write_csv(out, batch, *is_first)?;
                *is_first = false;
                Ok(())
            }
            Encoder::Json { out } => write_json(out, batch),
            Encoder::Parquet(writer) => Ok(writer.write(batch)?),
        }
    }

    /// Writes what comes after the last row; returns the number of rows.
    pub fn finish(self) -> anyhow::Result<u64> {
        match self.encoder {
            Encoder::Table(table) => table.finish(self.rows)?,
            Encoder::Csv {
                out,
                is_first: true,
                schema,
            } => {
                write_csv(out, &RecordBatch::new_empty(schema), true)?;
            }
            Encoder::Csv { .. } | Encoder::Json { .. } => {}
            Encoder::Parquet(writer) => {
                writer.close()?;
            }
        }
        Ok(self.rows)
    }
}

fn write_csv(out: &mut Output, batch: &RecordBatch, has_header: bool) -> anyhow::Result<()> {
    let builder = arrow::csv::WriterBuilder::new().with_header(has_header);
    Ok(builder.build(out).write(batch)?)
}

fn write_json(out: &mut Output, batch: &RecordBatch) -> anyhow::Result<()> {
    let builder = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
    let mut writer: LineDelimitedWriter<_> = builder.build::<_, LineDelimited>(out);
    writer.write(batch)?;
    Ok(writer.finish()?)
}

struct TableEncoder<'a> {
    out: &'a mut Output,
    grid: Grid,
    max_rows: usize,
    written_rows: usize,
}

impl<'a> TableEncoder<'a> {
    fn new(out: &'a mut Output, schema: &SchemaRef, max_rows: usize) -> Self {
        let columns = schema.fields().iter();
        let columns = columns.map(|field| (field.name().clone(), align(field.data_type())));
        let max_rows = if max_rows == 0 { usize::MAX } else { max_rows };
        Self {
            out,
            grid: Grid::new(columns),
            max_rows,
            written_rows: 0,
        }
    }

    fn batch(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch.columns().iter();
        let formatters = columns
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let rows = batch.num_rows().min(self.max_rows - self.written_rows);
        for row in 0..rows {
            let cells = formatters
                .iter()
                .map(|column| column.value(row).try_to_string());
            self.grid.row(cells.collect::<Result<Vec<_>, _>>()?);
            if self.grid.rows() == PAGE_ROWS {
                self.grid.write_page(self.out)?;
            }
        }
        self.written_rows += rows;
        Ok(())
    }

    fn finish(mut self, rows: u64) -> anyhow::Result<()> {
        self.grid.write_page(self.out)?;
        let written = self.written_rows as u64;
        match rows {
            1 => writeln!(self.out, "(1 row)")?,
            _ if rows > written => {
                let (rows, written) = (Count(rows), Count(written));
                writeln!(self.out, "({rows} rows, first {written} shown)")?;
            }
            _ => writeln!(self.out, "({} rows)", Count(rows))?,
        }
        Ok(())
    }
}

fn align(data_type: &DataType) -> Align {
    if data_type.is_numeric() {
        Align::Right
    } else {
        Align::Left
    }
}
