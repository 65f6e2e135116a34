//! Records: what is written is read, and any bytes are read or refused.

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListBuilder, RecordBatch,
    StringViewArray, StructArray, TimestampMicrosecondArray, UInt8Array, UInt8Builder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use std::sync::Arc;

use super::record::{Frame, FrameHeader, IDS_MAX, Operation, QualifiedName, runs_of};
use super::rows::{read_rows, write_rows};
use crate::manifest::Encoder;
use nearfar_table::table::{
    IndexColumn, IndexDefinition, IndexKind, IndexPlacement, IndexPolicy, IndexRole, Preload,
    PreloadPriority,
};

fn columns(rows: usize) -> Vec<(&'static str, ArrayRef)> {
    let some = |row: usize| !row.is_multiple_of(3);
    let texts = |row: usize| some(row).then(|| format!("text that is longer than a view {row}"));
    let mut lists = ListBuilder::new(UInt8Builder::new());
    for row in 0..rows {
        lists.append_option(some(row).then(|| (0..row % 5).map(|i| Some(i as u8))));
    }
    let numbers: Int64Array = (0..rows).map(|r| some(r).then_some(r as i64)).collect();
    let pairs = StructArray::from(vec![
        (
            Arc::new(Field::new("a", DataType::Int64, true)),
            Arc::new(numbers.clone()) as ArrayRef,
        ),
        (
            Arc::new(Field::new("b", DataType::UInt8, false)),
            Arc::new(UInt8Array::from_iter_values((0..rows).map(|r| r as u8))) as ArrayRef,
        ),
    ]);
    let money = Decimal128Array::from_iter((0..rows).map(|r| some(r).then_some(r as i128)));
    let times = TimestampMicrosecondArray::from_iter_values((0..rows).map(|r| r as i64));
    vec![
        ("number", Arc::new(numbers)),
        (
            "text",
            Arc::new((0..rows).map(texts).collect::<StringViewArray>()),
        ),
        (
            "flag",
            Arc::new((0..rows).map(|r| Some(some(r))).collect::<BooleanArray>()),
        ),
        (
            "real",
            Arc::new(Float64Array::from_iter_values((0..rows).map(|r| r as f64))),
        ),
        (
            "money",
            Arc::new(money.with_precision_and_scale(15, 2).expect("a decimal")),
        ),
        ("time", Arc::new(times.with_timezone("Europe/Berlin"))),
        ("list", Arc::new(lists.finish())),
        ("pair", Arc::new(pairs)),
    ]
}

fn batch(rows: usize) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns(rows)
            .into_iter()
            .map(|(name, array)| (name, array, true)),
    )
    .expect("a batch")
}

fn encoded(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Encoder::default();
    write_rows(&mut out, batch).expect("written");
    out.finish()
}

/// A record with one operation of every kind.
fn record(schema: &SchemaRef, rows: &[u8]) -> Vec<u8> {
    let mut out = Encoder::default();
    FrameHeader {
        is_last: true,
        synced: 17,
        transaction: 4,
    }
    .write(&mut out);
    operations(schema, rows)
        .iter()
        .for_each(|operation| operation.write(&mut out).expect("written"));
    out.finish()
}

fn operations<'a>(schema: &SchemaRef, rows: &'a [u8]) -> Vec<Operation<'a>> {
    let name = |name: &str| QualifiedName {
        schema: "public".to_owned(),
        name: name.to_owned(),
    };
    let placements = b"placements";
    let placed = IndexPlacement {
        policy: IndexPolicy::Fitted,
        near_percent: 7,
        tier: Some("far".to_owned()),
    };
    let mut preload = Preload::default();
    preload.set(Some("c"), PreloadPriority::new(9).expect("a priority"));
    let ids = runs_of([5, 6, 7, 100, 101, 3]);
    assert_eq!(ids, [(5, 3), (100, 2), (3, 1)]);
    vec![
        Operation::CreateSchema {
            name: "s".to_owned(),
        },
        Operation::CreateTable {
            table: 3,
            name: name("t"),
            columns: Arc::clone(schema),
            placements,
        },
        Operation::Insert {
            table: 3,
            ids: ids.clone(),
            rows,
        },
        Operation::Delete { table: 3, ids },
        Operation::Truncate { table: 3 },
        Operation::Place {
            table: 3,
            placements,
        },
        Operation::Preload { table: 3, preload },
        Operation::Indexes {
            table: 3,
            indexes: [IndexPlacement::default(), placed]
                .map(|placement| IndexDefinition {
                    name: "t_pkey".to_owned(),
                    columns: vec![IndexColumn::ascending(0)],
                    kind: IndexKind::Masstree,
                    role: IndexRole::PrimaryKey,
                    placement,
                })
                .into(),
        },
        Operation::CreateView {
            name: name("v"),
            sql: "CREATE VIEW v AS SELECT 1".to_owned(),
        },
        Operation::DropView { name: name("v") },
        Operation::DropTable { table: 3 },
        Operation::DropSchema {
            name: "s".to_owned(),
        },
    ]
}

#[test]
fn records_are_read_as_they_were_written() {
    let batch = batch(100);
    let schema = batch.schema();
    let rows = encoded(&batch);
    let bytes = record(&schema, &rows);
    let frame = Frame::read(&bytes).expect("a record");
    assert_eq!((frame.header.synced, frame.header.transaction), (17, 4));
    let read: Vec<_> = frame
        .map(|operation| operation.expect("an operation"))
        .collect();
    assert_eq!(read, operations(&schema, &rows));
}

#[test]
fn no_operation_names_more_rows_than_are_written() {
    let read = |ids| {
        let mut out = Encoder::default();
        out.raw(&record(&Arc::new(Schema::empty()), &[])[..FrameHeader::BYTES]);
        let delete = Operation::Delete { table: 3, ids };
        delete.write(&mut out).expect("written");
        let bytes = out.finish();
        let operations = Frame::read(&bytes).expect("a record");
        operations.collect::<Result<Vec<_>, _>>().map(drop)
    };
    let most = IDS_MAX as u32;
    assert!(read(vec![(0, most - 1), (most.into(), 1)]).is_ok());
    assert!(read(vec![(0, most), (most.into(), 1)]).is_err());
    assert!(read(vec![(7, u32::MAX)]).is_err());
}

#[test]
fn slices_are_written_without_what_is_around_them() {
    let all = batch(1000);
    for (offset, len) in [(0, 1000), (1, 7), (993, 7), (500, 0), (333, 1)] {
        let slice = all.slice(offset, len);
        let bytes = encoded(&slice);
        assert_eq!(read_rows(&bytes, &all.schema()).expect("rows"), slice);
        assert!(
            bytes.len() < 300 + len * 200,
            "{len} rows in {} bytes",
            bytes.len()
        );
    }
}

/// Reads everything that can be read of `bytes`.
fn read_all(bytes: &[u8], schema: &SchemaRef) {
    let Ok(frame) = Frame::read(bytes) else {
        return;
    };
    for operation in frame {
        match operation {
            Ok(Operation::Insert { rows, .. }) => drop(read_rows(rows, schema)),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let schema = batch(0).schema();
        let _ = read_rows(&bytes, &schema);
        let mut record = record(&Arc::new(Schema::empty()), &[])[..FrameHeader::BYTES].to_vec();
        record.extend_from_slice(&bytes);
        read_all(&record, &schema);
        read_all(&bytes, &schema);
    }

    #[test]
    fn rows_with_a_byte_that_is_another_are_read_or_refused(
        rows in 0usize..3,
        byte in any::<u8>(),
    ) {
        let batch = batch(rows);
        let whole = encoded(&batch);
        for at in 0..whole.len() {
            let mut rows = whole.clone();
            rows[at] = byte;
            let _ = read_rows(&rows, &batch.schema());
        }
    }

    #[test]
    fn damaged_records_are_read_or_refused(
        rows in 0usize..40,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let batch = batch(rows);
        let schema = batch.schema();
        let mut rows = encoded(&batch);
        for (at, byte) in &flips {
            let at = at.index(rows.len());
            rows[at] = *byte;
        }
        let _ = read_rows(&rows, &schema);
        let mut bytes = record(&schema, &rows);
        for (at, byte) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        read_all(&bytes, &schema);
        bytes.truncate(cut.index(bytes.len()));
        read_all(&bytes, &schema);
    }
}
