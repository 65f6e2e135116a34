//! Files that others have written, damaged: each is loaded, or refused with an error that names it. No
//! reader panics.
//!
//! What a flipped bit makes of a value no reader can know. But a file that is cut is never taken for a
//! whole one, but for CSV, and for a stream that ends behind one of its messages.
//!
//! Some places are tried in every run. With `NEARFAR_DAMAGE=all` every byte is
//! (`every_damage_of_files_ends_in_an_error`, which is ignored otherwise).

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int8Array,
    Int64Array, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, UInt16Array,
};
use arrow::datatypes::{Field, Int8Type, Int32Type, SchemaRef};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use nearfar_sql::engine::Engine;
use nearfar_sql::error::EngineError;
use nearfar_sql::load::{FileFormat, Load, Progress, file_plan};
use nearfar_table::placement::ColumnPlacements;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{error, options, run};

const ROWS: usize = 60;

/// Rows of many types, with nulls.
#[expect(clippy::too_many_lines, reason = "a column after another")]
fn batch(first: usize) -> RecordBatch {
    let rows = first..first + ROWS;
    let maybe = |row: usize| (!row.is_multiple_of(7)).then_some(row);
    let texts = || {
        rows.clone()
            .map(|row| maybe(row).map(|row| format!("row number {row}")))
    };
    let numbers: Int64Array = rows
        .clone()
        .map(|row| maybe(row).map(|row| row as i64))
        .collect();
    let words = rows.clone().map(|row| ["near", "far", "farther"][row % 3]);
    let words: DictionaryArray<Int8Type> = words.collect();
    let lists = rows
        .clone()
        .map(|row| Some((0..row % 4).map(|item| Some(item as i32))));
    let inner: ArrayRef = Arc::new(
        rows.clone()
            .map(|row| maybe(row).map(|row| row as i8 & 0x3f))
            .collect::<Int8Array>(),
    );
    let field = Arc::new(Field::new("inner", inner.data_type().clone(), true));
    let decimals = rows
        .clone()
        .map(|row| row as i128 * 1_001)
        .collect::<Decimal128Array>();
    let columns: [(&str, ArrayRef); 11] = [
        ("number", Arc::new(numbers)),
        (
            "small",
            Arc::new(
                rows.clone()
                    .map(|row| Some(row as u16))
                    .collect::<UInt16Array>(),
            ),
        ),
        ("text", Arc::new(texts().collect::<StringArray>())),
        ("view", Arc::new(texts().collect::<StringViewArray>())),
        ("word", Arc::new(words)),
        (
            "flag",
            Arc::new(
                rows.clone()
                    .map(|row| maybe(row).map(|row| row % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "ratio",
            Arc::new(
                rows.clone()
                    .map(|row| Some(row as f64 / 3.0))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "day",
            Arc::new(
                rows.clone()
                    .map(|row| Some(row as i32))
                    .collect::<Date32Array>(),
            ),
        ),
        (
            "moment",
            Arc::new(
                rows.clone()
                    .map(|row| Some(row as i64))
                    .collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "price",
            Arc::new(decimals.with_precision_and_scale(12, 2).expect("a decimal")),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ),
    ];
    let record: ArrayRef = Arc::new(StructArray::from(vec![(field, inner)]));
    let columns = columns.into_iter().chain([("record", record)]);
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("a batch")
}

/// A file that is damaged.
struct Sample {
    name: &'static str,
    whole: Vec<u8>,
    /// Whether one that is cut may be taken for a whole one.
    may_be_cut: bool,
}

fn samples() -> Vec<Sample> {
    let batches = [batch(0), batch(ROWS)];
    let schema = batches[0].schema();
    let lz4 = Some(CompressionType::LZ4_FRAME);
    let csv = "a,b,c\n1,one,1.5\n2,\"tw\no\",2.5\n3,,\n".repeat(3);
    let sample = |name, may_be_cut, whole| Sample {
        name,
        whole,
        may_be_cut,
    };
    vec![
        sample(
            "plain.parquet",
            false,
            parquet(&batches, Compression::UNCOMPRESSED),
        ),
        sample(
            "snappy.parquet",
            false,
            parquet(&batches, Compression::SNAPPY),
        ),
        sample("file.arrow", false, arrow_file(&batches, None)),
        sample("lz4.ipc", false, arrow_file(&batches, lz4)),
        sample("stream.arrow", true, arrow_stream(&schema, &batches)),
        sample("rows.csv", true, csv.into_bytes()),
    ]
}

fn parquet(batches: &[RecordBatch], compression: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .build();
    let mut bytes = Vec::new();
    let schema = batches[0].schema();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(properties)).expect("a writer");
    for batch in batches {
        writer.write(batch).expect("written");
        writer.flush().expect("a row group");
    }
    writer.close().expect("closed");
    bytes
}

fn arrow_file(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression);
    let (options, schema) = (options.expect("options"), batches[0].schema());
    let writer = FileWriter::try_new_with_options(Vec::new(), &schema, options);
    let mut writer = writer.expect("a writer");
    batches
        .iter()
        .for_each(|batch| writer.write(batch).expect("written"));
    writer.into_inner().expect("finished")
}

fn arrow_stream(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema).expect("a writer");
    batches
        .iter()
        .for_each(|batch| writer.write(batch).expect("written"));
    writer.into_inner().expect("finished")
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Cut(usize),
    Flip(usize, u8),
    Word(usize, [u8; 4]),
}

const FLIPS: [u8; 3] = [0x01, 0x80, 0xff];
const WORDS: [[u8; 4]; 4] = [
    [0xff; 4],
    [0; 4],
    [0xff, 0xff, 0xff, 0x7f],
    [0xff, 0xff, 0xff, 0],
];

impl Damage {
    /// All that is done at these places.
    fn at(places: impl Iterator<Item = usize>) -> impl Iterator<Item = Self> {
        places.flat_map(|place| {
            let flips = FLIPS.map(|bits| Self::Flip(place, bits));
            let words = WORDS.map(|word| Self::Word(place, word));
            [Self::Cut(place)].into_iter().chain(flips).chain(words)
        })
    }

    fn apply(self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        match self {
            Self::Cut(end) => bytes.truncate(end),
            Self::Flip(place, bits) => bytes[place] ^= bits,
            Self::Word(place, word) => {
                let end = (place + word.len()).min(bytes.len());
                bytes[place..end].copy_from_slice(&word[..end - place]);
            }
        }
        bytes
    }
}

/// Loads a file as the program does.
async fn load(engine: &Arc<Engine>, path: &Path) -> Result<usize, EngineError> {
    let (plan, context) = file_plan(path, FileFormat::of_path(path)?, 1).await?;
    let load = Load {
        storage: engine.storage().clone(),
        name: "t".to_owned(),
        placements: ColumnPlacements::all(
            engine.session().settings().table_placement(false).clone(),
        ),
        progress: Arc::new(Progress::default()),
    };
    let table = load.plan(plan, context.task_ctx()).await?;
    Ok(table.snapshot().rows())
}

/// Tries what is done to a file at `places`. How often it was loaded all the same.
async fn try_all(
    engine: &Arc<Engine>,
    sample: &Sample,
    places: impl Iterator<Item = usize>,
) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(sample.name);
    std::fs::write(&path, &sample.whole).expect("written");
    let rows = load(engine, &path).await.expect("loaded");
    let mut loaded = 0;
    for damage in Damage::at(places) {
        std::fs::write(&path, damage.apply(&sample.whole)).expect("written");
        match load(engine, &path).await {
            Ok(found) => {
                let is_cut = matches!(damage, Damage::Cut(end) if end > 0);
                assert!(
                    !is_cut || sample.may_be_cut,
                    "{} {damage:?}: {found} of {rows} rows",
                    sample.name
                );
                loaded += 1;
            }
            Err(EngineError::Internal { message }) => {
                panic!("{} {damage:?}: {message}", sample.name)
            }
            Err(_) => {}
        }
    }
    loaded
}

/// Places all over a file, and most where formats say what follows.
fn some_places(len: usize) -> impl Iterator<Item = usize> {
    const SPREAD: usize = 24;
    const TAIL: usize = 24;
    let (spread, tail) = (0..SPREAD, len.saturating_sub(TAIL)..len);
    let head: Range<usize> = 0..16.min(len);
    let spread = spread.map(move |index| index * len / SPREAD);
    head.chain(spread).chain(tail.step_by(2))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_damage_of_files_ends_in_an_error() {
    let engine = Engine::new(options()).expect("an engine");
    for sample in samples() {
        try_all(&engine, &sample, some_places(sample.whole.len())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "tries every byte of the files, which takes minutes: NEARFAR_DAMAGE=all"]
async fn every_damage_of_files_ends_in_an_error() {
    let engine = Engine::new(options()).expect("an engine");
    for sample in samples() {
        try_all(&engine, &sample, 0..sample.whole.len()).await;
    }
}

/// The file of a sample with these bytes, in a folder.
fn damaged(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    let mut samples = samples().into_iter();
    let mut bytes = samples
        .find(|sample| sample.name == name)
        .expect("a sample")
        .whole;
    change(&mut bytes);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    (folder, path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_over_damaged_files_name_them() {
    let engine = Engine::new(options()).expect("an engine");
    let session = engine.session();
    run(&session, "CREATE TABLE t (a BIGINT)").await;
    let (_one, footer) = damaged("plain.parquet", |bytes| {
        let end = bytes.len();
        bytes[end - 8..end - 4].copy_from_slice(&[0xff, 0xff, 0xff, 0]);
    });
    let (_two, body) = damaged("file.arrow", |bytes| {
        let half = bytes.len() / 2;
        bytes.drain(half..half + 8);
    });
    for (path, format) in [(&footer, "PARQUET"), (&body, "ARROW")] {
        let path = path.to_str().expect("UTF-8");
        for sql in [
            format!("COPY t FROM '{path}'"),
            format!("CREATE EXTERNAL TABLE e STORED AS {format} LOCATION '{path}'"),
        ] {
            let told = error(&session, &sql).await;
            assert!(told.contains(path), "{sql}: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_damaged_under_a_table_is_named() {
    let engine = Engine::new(options()).expect("an engine");
    let session = engine.session();
    for (name, format) in [("plain.parquet", "PARQUET"), ("file.arrow", "ARROW")] {
        let (_folder, path) = damaged(name, |_| {});
        let text = path.to_str().expect("UTF-8");
        let create = format!("CREATE EXTERNAL TABLE e STORED AS {format} LOCATION '{text}'");
        run(&session, &create).await;
        run(&session, "SELECT count(number), max(text) FROM e").await;
        run(&session, "CREATE VIEW v AS SELECT * FROM e").await;
        let mut bytes = std::fs::read(&path).expect("read");
        let end = bytes.len();
        bytes[end - 14..end - 4].fill(0xff);
        bytes[end / 2..end / 2 + 64].fill(0xff);
        std::fs::write(&path, bytes).expect("written");
        for sql in [
            "SELECT max(number) FROM e",
            "SELECT a.text FROM v a JOIN v b ON a.number = b.number ORDER BY 1",
            "CREATE TABLE copied AS SELECT number, text FROM v",
        ] {
            let told = error(&session, sql).await;
            assert!(told.contains(text), "{sql}: {told}");
        }
        run(&session, "DROP VIEW v; DROP TABLE e").await;
    }
}
