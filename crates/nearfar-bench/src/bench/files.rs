//! The tables of a benchmark as Parquet files, from which all contenders load, and answers in such files.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use nearfar_sql::load::Batches;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::error::BenchError;
use crate::tpch::Suite;
use crate::tpch::TpchError;
use crate::tpch::answer::Answer;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes `directory/TABLE/PART.parquet`, with one part and one thread for each of `threads`, but
/// for tables of a few rows. Compressed by Snappy, else as the writer has it. Returns the bytes.
pub fn write_table(
    directory: &Path,
    suite: Suite,
    table: &str,
    scale_factor: f64,
    threads: usize,
) -> Result<u64, BenchError> {
    let folder = directory.join(table);
    fs::create_dir_all(&folder).map_err(|source| BenchError::file(&folder, source))?;
    let rows = suite
        .rows(table, scale_factor, threads)
        .map_err(|source| TpchError::Table {
            table: table.to_owned(),
            source: Box::new(source),
        })?;
    let schema = &rows.schema;
    let write = |(index, part): (usize, Batches)| {
        write_part(folder.join(format!("{index:03}.parquet")), schema, part)
    };
    let written: Vec<Result<u64, BenchError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = rows
            .parts
            .into_iter()
            .enumerate()
            .map(|part| scope.spawn(move || write(part)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    written.into_iter().sum()
}

fn write_part(path: PathBuf, schema: &SchemaRef, part: Batches) -> Result<u64, BenchError> {
    let write = || -> Result<u64, Failure> {
        let mut writer = writer(File::create(&path)?, schema)?;
        for batch in part {
            writer.write(&batch?)?;
        }
        writer.close()?;
        Ok(fs::metadata(&path)?.len())
    };
    write().map_err(|source| BenchError::file(&path, source))
}

fn writer(file: File, schema: &SchemaRef) -> parquet::errors::Result<ArrowWriter<File>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    ArrowWriter::try_new(file, SchemaRef::clone(schema), Some(properties))
}

/// Writes the rows of an answer.
pub fn write_answer(
    path: &Path,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<(), Failure> {
    let mut writer = writer(File::create(path)?, schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.close()?;
    Ok(())
}

/// Reads what a contender has written.
pub fn read_answer(path: &Path) -> Result<Answer, BenchError> {
    let read = || -> Result<Answer, Failure> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?;
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        Ok(Answer::from_batches(&batches)?)
    };
    read().map_err(|source| BenchError::file(path, source))
}
