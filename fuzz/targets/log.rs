//! Records of the log, behind a frame whose checksum is right.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use libfuzzer_sys::fuzz_target;
use nearfar_durable::log::read_record;

/// A column of each way in which values are kept.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let types = [
        DataType::Boolean,
        DataType::Int64,
        DataType::Utf8View,
        DataType::Binary,
        DataType::Decimal128(38, 10),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
    ];
    let fields = types.into_iter().enumerate();
    let fields = fields.map(|(index, kind)| Field::new(format!("c{index}"), kind, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
});

fuzz_target!(|bytes: &[u8]| {
    let _ = read_record(bytes, &SCHEMA);
});
