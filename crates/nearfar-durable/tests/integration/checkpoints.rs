//! What a checkpoint keeps of tables, and what becomes of one that is damaged.

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float64Array, Int64Array, ListArray, RecordBatch, StringViewArray, StructArray,
    TimestampMicrosecondArray, UInt8Array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use nearfar_durable::checkpoint::directory;
use nearfar_durable::error::{CheckpointError, DurableError};
use nearfar_durable::manifest::{
    DatabaseManifest, ManifestError, SequenceManifest, TableManifest, ViewDefinition,
    decode_segment, decode_sketches, open,
};
use nearfar_memory::{
    Budgets, MemorySystem, OverBudget, PageSize, Placement, RegionOptions, TierId, TierKind,
    TierSpec,
};
use nearfar_table::placement::{ColumnPlacements, Storage};
use nearfar_table::segment::RowSet;
use nearfar_table::sequence::{SequenceDefinition, SequenceType, SequenceValue};
use nearfar_table::table::{
    CheckRule, DistinctSketch, IdentityKind, Part, Preload, PreloadPriority, Reference,
    ReferenceAction, ReferenceCheck, RowIds, Segment, Snapshot, TableBuilder, TableRules,
    TableSummary, delta_segment, stored_schema,
};
use nearfar_table::tier_models::TierModels;
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn storage() -> Storage {
    let tier = |name: &str, kind| TierSpec::new(name, kind, vec![0], 1 << 30);
    let tiers = vec![
        tier("near", TierKind::LocalDram),
        tier("far", TierKind::Modelled),
    ];
    Storage {
        system: MemorySystem::from_specs(tiers, &Budgets::new()).expect("two tiers"),
        options: RegionOptions {
            page_size: PageSize::Base,
            over_budget: OverBudget::Refuse,
        },
        temporary: None,
        pool: None,
        shelf: Arc::default(),
        models: TierModels::default(),
        index_workers: Arc::default(),
        traffic: Arc::default(),
    }
}

fn far() -> TierId {
    TierId::from_index(1).expect("a second tier")
}

/// Columns of all encodings and of all kinds of types, with a value for each of `rows`; nulls where
/// `null` says so.
fn batch(rows: &[i64], null: impl Fn(usize, usize) -> bool) -> RecordBatch {
    let columns = [flat_columns(rows, &null), other_columns(rows, &null)].concat();
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .expect("a batch")
}

type Nulls<'a> = &'a dyn Fn(usize, usize) -> bool;

fn values<'a>(
    rows: &'a [i64],
    null: Nulls<'a>,
    column: usize,
) -> impl Iterator<Item = Option<i64>> + 'a {
    let values = rows.iter().enumerate();
    values.map(move |(row, value)| (!null(column, row)).then_some(*value))
}

fn flat_columns(rows: &[i64], null: Nulls<'_>) -> Vec<(&'static str, ArrayRef)> {
    let value = |column| values(rows, null, column);
    let texts = value(2).map(|v| v.map(|v| format!("word {}", v % 5)));
    let long = value(3).map(|v| v.map(|v| format!("a text that is long and other for {v}")));
    vec![
        ("wide", Arc::new(Int64Array::from_iter(value(0)))),
        (
            "byte",
            Arc::new(UInt8Array::from_iter(value(1).map(|v| v.map(|v| v as u8)))),
        ),
        ("word", Arc::new(StringViewArray::from_iter(texts))),
        ("text", Arc::new(StringViewArray::from_iter(long))),
        (
            "float",
            Arc::new(Float64Array::from_iter(
                value(4).map(|v| v.map(|v| v as f64)),
            )),
        ),
        (
            "flag",
            Arc::new(BooleanArray::from_iter(
                value(5).map(|v| v.map(|v| v % 2 == 0)),
            )),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter(
                value(6).map(|v| v.map(|v| v as i32)),
            )),
        ),
        (
            "decimal",
            Arc::new(
                Decimal128Array::from_iter(value(7).map(|v| v.map(|v| i128::from(v) << 70)))
                    .with_precision_and_scale(38, 3)
                    .expect("fits"),
            ),
        ),
    ]
}

fn other_columns(rows: &[i64], null: Nulls<'_>) -> Vec<(&'static str, ArrayRef)> {
    let value = |column| values(rows, null, column);
    let lists = value(8).map(|v| v.map(|v| (0..v.rem_euclid(4)).map(|i| Some(i as i32))));
    let bytes = value(9).map(|v| v.map(|v| v.to_le_bytes()[..7].to_vec()));
    let inner: ArrayRef = Arc::new(StringViewArray::from_iter(
        value(11).map(|v| v.map(|v| format!("within {v} of a structure"))),
    ));
    vec![
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ),
        ("bytes", Arc::new(BinaryViewArray::from_iter(bytes))),
        (
            "moment",
            Arc::new(
                TimestampMicrosecondArray::from_iter(value(10)).with_timezone("Europe/Berlin"),
            ),
        ),
        (
            "structure",
            Arc::new(StructArray::from(vec![(
                Arc::new(Field::new("inner", DataType::Utf8View, true)),
                inner,
            )])),
        ),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    value(12).map(|v| v.map(|v| v.to_le_bytes())),
                    8,
                )
                .expect("eight bytes each"),
            ),
        ),
    ]
}

struct Made {
    manifest: DatabaseManifest,
    rows: RecordBatch,
}

fn placements() -> ColumnPlacements {
    let one = NonZeroU32::MIN;
    let mut placements = ColumnPlacements::all(Placement::Bind(TierId::NEAR));
    let others = [
        ("text", Placement::Bind(far())),
        ("float", Placement::Interleave(vec![TierId::NEAR, far()])),
        (
            "day",
            Placement::Weighted(vec![(TierId::NEAR, one), (far(), one)]),
        ),
        (
            "list",
            Placement::Split {
                first: TierId::NEAR,
                first_share: 0.25,
                rest: far(),
            },
        ),
    ];
    for (column, placement) in others {
        placements.columns.insert(column.to_owned(), placement);
    }
    placements
}

fn preload() -> Preload {
    let mut preload = Preload::default();
    preload.set(None, PreloadPriority::new(3).expect("a priority"));
    preload.set(Some("text"), PreloadPriority::WHEN_NEEDED);
    preload
}

/// A table of one segment per list of main rows and one part per list of delta rows, of which every
/// `deleted`th is deleted.
fn database(
    main: &[Vec<i64>],
    delta: &[Vec<i64>],
    nulls: usize,
    deleted: usize,
    storage: &Storage,
) -> Made {
    let null = |column: usize, row: usize| nulls > 0 && (row + column).is_multiple_of(nulls);
    let schema = stored_schema(&batch(&[], null).schema());
    let mut parts = Vec::new();
    let mut next_row = 7;
    let mut part = |segment: Arc<Segment>| {
        let rows = segment.rows();
        let ids = RowIds::consecutive(next_row, rows);
        next_row += 2 * rows as u64;
        let part = Part::whole(segment, ids);
        let gone = (0..rows as u32).filter(|row| deleted > 0 && *row as usize % deleted == 1);
        parts.push(part.without(gone));
    };
    for rows in main {
        let mut builder = TableBuilder::new(Arc::clone(&schema), placements(), storage.clone());
        builder.push(&batch(rows, null)).expect("pushed");
        builder
            .finish()
            .expect("finished")
            .into_iter()
            .for_each(&mut part);
    }
    let main_parts = main.len();
    for rows in delta {
        let batches = [batch(rows, null)];
        part(delta_segment(&schema, &batches, storage).expect("a delta"));
    }
    let snapshot = Snapshot::restored(Arc::clone(&schema), parts, main_parts, None);
    let rows = contents(&schema, &snapshot);
    let table = TableManifest {
        identity: 42,
        schema_name: "public".to_owned(),
        name: "t".to_owned(),
        schema,
        placements: placements(),
        preload: preload(),
        rules: rules(),
        next_row: 1 << 40,
        snapshot,
    };
    let manifest = DatabaseManifest {
        log_position: 4711,
        schemas: vec!["public".to_owned()],
        tables: vec![table],
        sequences: vec![sequence()],
        views: vec![ViewDefinition {
            schema: "public".to_owned(),
            name: "v".to_owned(),
            sql: "CREATE VIEW v AS SELECT 1".to_owned(),
        }],
    };
    Made { manifest, rows }
}

fn rules() -> TableRules {
    let column = || "a".to_owned();
    TableRules {
        defaults: [(column(), "nextval('s')".to_owned())].into(),
        identities: [(column(), IdentityKind::Always)].into(),
        checks: vec![CheckRule {
            name: "c".to_owned(),
            sql: "a > 0".to_owned(),
        }],
        references: vec![Reference {
            name: "f".to_owned(),
            columns: vec![column()],
            parent: 41,
            parent_columns: vec!["b".to_owned()],
            on_delete: ReferenceAction::Cascade,
            on_update: ReferenceAction::SetDefault,
            is_full: true,
            check: ReferenceCheck::Deferred,
        }],
    }
}

fn sequence() -> SequenceManifest {
    let definition = SequenceDefinition {
        data_type: SequenceType::Integer,
        start: -5,
        increment: -1,
        min: i64::MIN,
        max: -1,
        cache: 3,
        cycles: true,
        owner: Some((42, "a".to_owned())),
    };
    SequenceManifest {
        schema: "public".to_owned(),
        name: "s".to_owned(),
        definition,
        value: SequenceValue {
            last: -7,
            is_called: true,
        },
    }
}

/// All rows of a table, deleted ones too.
fn try_contents(schema: &SchemaRef, snapshot: &Snapshot) -> Result<RecordBatch, DurableError> {
    let mut batches = Vec::new();
    for part in snapshot.parts() {
        let rows = RowSet::Run {
            start: 0,
            len: part.segment.rows(),
        };
        let columns = part.segment.columns().iter().zip(schema.fields());
        let columns =
            columns.map(|(slot, field)| Ok(slot.current()?.read(rows, field.data_type())?));
        let columns = columns.collect::<Result<Vec<_>, DurableError>>()?;
        batches.push(RecordBatch::try_new(Arc::clone(schema), columns)?);
    }
    Ok(concat_batches(schema, &batches)?)
}

fn contents(schema: &SchemaRef, snapshot: &Snapshot) -> RecordBatch {
    try_contents(schema, snapshot).expect("all rows")
}

/// Everything but where the bytes are.
fn assert_same(read: &DatabaseManifest, made: &Made) {
    let wanted = &made.manifest;
    assert_eq!(read.log_position, wanted.log_position);
    assert_eq!(read.sequences, wanted.sequences);
    assert_eq!(read.tables[0].rules, wanted.tables[0].rules);
    assert_eq!(read.schemas, wanted.schemas);
    assert_eq!(read.views, wanted.views);
    assert_eq!(read.tables.len(), 1);
    let (read, wanted) = (&read.tables[0], &wanted.tables[0]);
    assert_eq!(read.identity, wanted.identity);
    assert_eq!(
        (&read.schema_name, &read.name),
        (&wanted.schema_name, &wanted.name)
    );
    assert_eq!(read.schema, wanted.schema);
    assert_eq!(read.placements, wanted.placements);
    assert_eq!(read.preload, wanted.preload);
    assert_eq!(read.next_row, wanted.next_row);
    let (now, before) = (&read.snapshot, &wanted.snapshot);
    assert_eq!(now.main().len(), before.main().len());
    assert_eq!(
        (now.rows(), now.deleted_rows()),
        (before.rows(), before.deleted_rows())
    );
    for (now, before) in now.parts().iter().zip(before.parts()) {
        assert_eq!(now.ids, before.ids);
        let deleted = |part: &Part| {
            part.delete_vector
                .iter()
                .flat_map(|m| m.rows().collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(deleted(now), deleted(before));
        for (now, before) in now.segment.columns().iter().zip(before.segment.columns()) {
            assert_eq!(now.encoding_kind(), before.encoding_kind());
            assert_eq!(
                format!("{:?}", now.facts().bounds),
                format!("{:?}", before.facts().bounds)
            );
            assert_eq!(now.facts().string_bounds, before.facts().string_bounds);
            assert_eq!(now.facts().order, before.facts().order);
        }
        let distinct = |of: &Part| -> Vec<_> {
            let sketches = of.segment.sketches().all().expect("sketches");
            sketches
                .iter()
                .map(|known| known.as_ref().map(DistinctSketch::count))
                .collect()
        };
        assert_eq!(distinct(now), distinct(before));
    }
    let known = |summary: &TableSummary| -> Vec<_> {
        let columns = summary.columns.iter().cloned();
        let known = columns.map(|c| {
            let distinct = (c.distinct, c.distinct_exact);
            (c.bounds, c.string_bounds, c.null_count, distinct, c.order)
        });
        known.collect()
    };
    let found_out = TableSummary::of(&read.schema, now.main());
    assert_eq!(known(now.main_summary()), known(&found_out));
    assert_eq!(contents(&read.schema, now), made.rows);
    for (now, before) in now.main().iter().zip(before.main()) {
        for (now, before) in now.segment.columns().iter().zip(before.segment.columns()) {
            assert_eq!(now.placement(), before.placement());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_table_comes_back_as_it_was(
        main in prop::collection::vec(prop::collection::vec(any::<i64>(), 1..300), 0..3),
        delta in prop::collection::vec(prop::collection::vec(any::<i64>(), 1..60), 0..4),
        nulls in 0_usize..5,
        deleted in 0_usize..7,
    ) {
        let (storage, folder) = (storage(), tempfile::tempdir()?);
        let made = database(&main, &delta, nulls, deleted, &storage);
        directory::write(folder.path(), &made.manifest, &storage).expect("written");
        let newest = directory::newest(folder.path()).expect("read").expect("there is one");
        prop_assert_eq!(newest.log_position, 4711);
        let read = directory::read(folder.path(), &newest, &storage).expect("read");
        assert_same(&read, &made);
    }
}

fn small(storage: &Storage) -> Made {
    let rows = |count: i64| (0..count).map(|row| row * 37 % 101).collect::<Vec<_>>();
    database(&[rows(500), rows(9000)], &[rows(20)], 4, 3, storage)
}

fn region_bytes(storage: &Storage) -> u64 {
    storage.shelf.release();
    let tiers = storage.system.tiers();
    tiers
        .map(|(tier, _)| storage.system.usage(tier).region_bytes)
        .sum()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let read = |folder: PathBuf| std::fs::read_dir(folder).expect("a folder");
    let all = read(folder.to_path_buf()).chain(read(folder.join("segments")));
    let mut files: Vec<PathBuf> = all
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

#[test]
fn main_storage_is_read_when_it_is_needed() {
    let (storage, folder) = (storage(), tempfile::tempdir().expect("a folder"));
    let made = small(&storage);
    let newest = directory::write(folder.path(), &made.manifest, &storage).expect("written");
    drop(made);
    assert_eq!(region_bytes(&storage), 0);
    let read = directory::read(folder.path(), &newest, &storage).expect("read");
    let delta_bytes = region_bytes(&storage);
    let first = &read.tables[0].snapshot.main()[0].segment.columns()[0];
    assert!(first.in_memory().is_none() && first.bytes() > 0);
    assert_eq!(first.tier_bytes().total(), 0);
    first.current().expect("loaded");
    let bytes = first.bytes() as u64;
    assert_eq!(
        region_bytes(&storage),
        delta_bytes + bytes.next_multiple_of(4096)
    );
    drop(read);
    assert_eq!(region_bytes(&storage), 0);
}

#[test]
fn a_later_checkpoint_shares_the_segments_and_the_old_ones_can_go() {
    let (storage, folder) = (storage(), tempfile::tempdir().expect("a folder"));
    let mut made = small(&storage);
    let first = directory::write(folder.path(), &made.manifest, &storage).expect("written");
    made.manifest.log_position += 1;
    let second = directory::write(folder.path(), &made.manifest, &storage).expect("written");
    assert_eq!(second.number, first.number + 1);
    assert!(
        second.new_bytes < first.new_bytes / 2,
        "{second:?} after {first:?}"
    );
    assert_eq!(files(folder.path()).len(), 2 + 3);

    // Another process has the table as it was, and one part is merged away meanwhile.
    let read = directory::read(folder.path(), &second, &storage).expect("read");
    let mut merged = read.clone();
    let table = &mut merged.tables[0];
    let parts = table.snapshot.parts()[1..].to_vec();
    table.snapshot = Snapshot::restored(Arc::clone(&table.schema), parts, 1, None);
    let third = directory::write(folder.path(), &merged, &storage).expect("written");
    assert!(region_bytes(&storage) > 0);
    directory::delete_old(folder.path(), &third).expect("deleted");
    assert_eq!(files(folder.path()).len(), 1 + 3, "a reader still has it");
    assert_same(&read, &small(&storage).with_position(second.log_position));
    drop((read, made));
    directory::delete_old(folder.path(), &third).expect("deleted");
    assert_eq!(files(folder.path()).len(), 1 + 2);
    let newest = directory::newest(folder.path())
        .expect("read")
        .expect("one");
    assert_eq!(newest.number, third.number);
}

impl Made {
    fn with_position(mut self, log_position: u64) -> Self {
        self.manifest.log_position = log_position;
        self
    }
}

#[test]
fn a_folder_without_checkpoints_has_none() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(directory::newest(folder.path()).expect("read"), None);
    assert_eq!(
        directory::newest(&folder.path().join("nowhere")).expect("read"),
        None
    );
    // What was being written when the process died is no checkpoint, and nothing that is in the way.
    std::fs::create_dir(folder.path().join("segments")).expect("a folder");
    let torn = folder.path().join("segments/0000000000000001-00000");
    std::fs::write(&torn, "torn").expect("a file");
    std::fs::write(folder.path().join("unfinished-0000000000000001"), "torn").expect("a file");
    assert_eq!(directory::newest(folder.path()).expect("read"), None);
    let storage = storage();
    let made = small(&storage);
    let info = directory::write(folder.path(), &made.manifest, &storage).expect("written");
    directory::delete_old(folder.path(), &info).expect("deleted");
    assert_eq!(files(folder.path()).len(), 1 + 3);
    assert!(!torn.exists());
}

/// Flips a byte of, or cuts, every file in turn: what is read afterwards is right or an error that
/// names the file.
#[test]
fn damage_is_found_and_named() {
    let (storage, folder) = (storage(), tempfile::tempdir().expect("a folder"));
    let rows = |count: i64| (0..count).map(|row| row * 37 % 101).collect::<Vec<_>>();
    let made = database(&[rows(300)], &[rows(20)], 4, 3, &storage);
    directory::write(folder.path(), &made.manifest, &storage).expect("written");
    for path in files(folder.path()) {
        let whole = std::fs::read(&path).expect("read");
        let count = whole.len();
        let places = (0..count).step_by(1 + count / 150).chain([count - 1]);
        for place in places {
            let mut flipped = whole.clone();
            flipped[place] ^= 1 << (place % 8);
            for bytes in [&flipped[..], &whole[..place]] {
                std::fs::write(&path, bytes).expect("written");
                check_damaged(folder.path(), &path, &made, &storage);
            }
        }
        std::fs::write(&path, &whole).expect("written");
    }
}

fn check_damaged(folder: &Path, path: &Path, made: &Made, storage: &Storage) {
    let read = directory::newest(folder)
        .map_err(DurableError::from)
        .and_then(|newest| directory::read(folder, &newest.expect("one"), storage))
        .and_then(|read| {
            let table = &read.tables[0];
            try_contents(&table.schema, &table.snapshot)
        });
    match read {
        // Between two columns there is nothing.
        Ok(rows) => assert_eq!(rows, made.rows),
        Err(DurableError::Checkpoint(error)) => {
            let name = path.file_name().expect("a name").to_string_lossy();
            assert!(error.to_string().contains(name.as_ref()), "{error}");
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_column_is_named() {
    let (storage, folder) = (storage(), tempfile::tempdir().expect("a folder"));
    let made = small(&storage);
    let info = directory::write(folder.path(), &made.manifest, &storage).expect("written");
    let path = folder.path().join("segments/0000000000000001-00001");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[5] ^= 1;
    std::fs::write(&path, &bytes).expect("written");
    let read = directory::read(folder.path(), &info, &storage).expect("metadata is whole");
    let table = &read.tables[0];
    let error = try_contents(&table.schema, &table.snapshot).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("column `wide` of segment 1 of table `t` in `"),
        "{text}"
    );
    assert!(text.contains("damaged"), "{text}");
    table.snapshot.main()[1].segment.columns()[1]
        .current()
        .expect("another column is whole");
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
    let (storage, folder) = (storage(), tempfile::tempdir().expect("a folder"));
    let made = small(&storage);
    directory::write(folder.path(), &made.manifest, &storage).expect("written");
    let before = files(folder.path());
    let again = small(&storage);
    // A folder where the manifest is to be written: the last step fails, whoever the user is.
    let unfinished = folder.path().join("unfinished-0000000000000002");
    std::fs::create_dir(&unfinished).expect("a folder");
    let error = directory::write(folder.path(), &again.manifest, &storage).unwrap_err();
    assert!(
        matches!(&error, DurableError::Checkpoint(error)
            if matches!(error.as_ref(), CheckpointError::File { path, .. } if *path == unfinished)),
        "{error:?}"
    );
    assert_eq!(files(folder.path()), before);
    std::fs::remove_dir(&unfinished).expect("removed");
    let second = directory::write(folder.path(), &again.manifest, &storage).expect("written now");
    assert_eq!(second.number, 2);
    let read = directory::read(folder.path(), &second, &storage).expect("read");
    assert_same(&read, &again);
}

#[test]
fn types_that_cannot_be_kept_are_refused_by_table() {
    let (storage, folder) = (storage(), tempfile::tempdir().expect("a folder"));
    let mut made = small(&storage);
    let odd = DataType::Time32(arrow::datatypes::TimeUnit::Nanosecond);
    made.manifest.tables[0].schema = Arc::new(Schema::new(vec![Field::new("odd", odd, true)]));
    let error = directory::write(folder.path(), &made.manifest, &storage).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("table `t` can't be kept: columns of type"),
        "{error}"
    );
}

// Behind a checksum that fits, anything may be: never a panic, never more memory than bytes.
proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn bytes_that_mean_nothing_are_refused(
        body in prop::collection::vec(any::<u8>(), 0..400),
        version in any::<u32>(),
    ) {
        let magic = b"NFARSEGM";
        let sealed = nearfar_durable::manifest::seal(magic, |out| out.raw(&body));
        let _ = decode_segment(&sealed);
        let _ = decode_sketches(&nearfar_durable::manifest::seal(b"NFARSKET", |out| out.raw(&body)));
        let mut other = sealed.clone();
        other[8..12].copy_from_slice(&version.to_le_bytes());
        let found = open(magic, "segment", &other).err();
        prop_assert_eq!(found, (version != 8).then_some(ManifestError::Version { found: version, known: 8 }));
        let mut swapped = sealed.clone();
        swapped[12..16].reverse();
        prop_assert_eq!(open(magic, "segment", &swapped).err(), Some(ManifestError::ByteOrder));
    }

    #[test]
    fn metadata_with_wrong_bytes_is_refused_or_harmless(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let storage = storage();
        let folder = tempfile::tempdir()?;
        let rows: Vec<i64> = (0..200).collect();
        let made = database(std::slice::from_ref(&rows), &[rows[..5].to_vec()], 3, 5, &storage);
        let info = directory::write(folder.path(), &made.manifest, &storage).expect("written");
        let bytes = std::fs::read(&info.path)?;
        let mut body = bytes[24..bytes.len() - 8].to_vec();
        for (place, value) in flips {
            let place = place.index(body.len());
            body[place] = value;
        }
        std::fs::write(&info.path, nearfar_durable::manifest::seal(b"NFARSAVE", |out| out.raw(&body)))?;
        let read = directory::newest(folder.path())
            .map_err(DurableError::from)
            .and_then(|info| directory::read(folder.path(), &info.expect("one"), &storage));
        if let Ok(read) = read {
            for table in &read.tables {
                let _ = try_contents(&table.schema, &table.snapshot);
            }
        }
    }
}
