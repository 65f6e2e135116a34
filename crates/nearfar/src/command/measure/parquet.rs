//! Results as Parquet: a row per figure, the header in the file's metadata.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, UInt32Type};
use arrow::record_batch::RecordBatch;
use nearfar_measure::results::{Header, Metric, Spread};
use nearfar_topology::Known;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

/// Key of the header in the metadata.
const HEADER: &str = "nearfar.header";

/// Writes all figures.
pub fn write(
    output: &mut (impl Write + Send),
    header: &Header,
    metrics: &[Metric],
) -> anyhow::Result<()> {
    let batch = rows(metrics)?;
    let header = KeyValue::new(HEADER.to_owned(), serde_json::to_string(header)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![header]))
        .build();
    let mut writer = ArrowWriter::try_new(output, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

fn rows(metrics: &[Metric]) -> anyhow::Result<RecordBatch> {
    let texts = |of: &dyn Fn(&Metric) -> String| -> ArrayRef {
        Arc::new(
            metrics
                .iter()
                .map(|metric| Some(of(metric)))
                .collect::<StringArray>(),
        )
    };
    let numbers = |of: &dyn Fn(&Metric) -> Option<f64>| -> ArrayRef {
        Arc::new(metrics.iter().map(of).collect::<Float64Array>())
    };
    let spread = |of: fn(&Spread) -> f64| move |metric: &Metric| metric.spread.as_ref().map(of);
    let reasons = metrics.iter().map(|metric| metric.value.reason());
    let runs = metrics
        .iter()
        .map(|metric| metric.spread.map(|spread| spread.runs));
    let dimensions = metrics
        .iter()
        .map(|metric| serde_json::to_string(&metric.dimensions));
    let dimensions = dimensions.collect::<Result<Vec<String>, _>>()?;
    let columns: [(&str, ArrayRef, bool); 9] = [
        ("metric", texts(&|metric| metric.metric.clone()), false),
        ("value", numbers(&|metric| metric.value.get()), true),
        (
            "unavailable",
            Arc::new(reasons.collect::<StringArray>()),
            true,
        ),
        ("unit", texts(&|metric| metric.unit.clone()), false),
        (
            "kind",
            texts(&|metric| metric.kind.name().to_owned()),
            false,
        ),
        ("min", numbers(&spread(|spread| spread.min)), true),
        ("max", numbers(&spread(|spread| spread.max)), true),
        ("runs", Arc::new(runs.collect::<UInt32Array>()), true),
        ("dimensions", Arc::new(StringArray::from(dimensions)), false),
    ];
    let field = |(name, array, nullable): &(&str, ArrayRef, bool)| {
        Field::new(*name, array.data_type().clone(), *nullable)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), arrays)?)
}

/// Reads what [`write()`] wrote.
pub fn read(file: File) -> anyhow::Result<(Header, Vec<Metric>)> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    let metadata = builder.metadata().file_metadata().key_value_metadata();
    let header = metadata
        .into_iter()
        .flatten()
        .find(|entry| entry.key == HEADER);
    let header = header
        .and_then(|entry| entry.value.as_deref())
        .context("no results of nearfar")?;
    let header = serde_json::from_str(header)?;
    let mut metrics = Vec::new();
    for batch in builder.build()? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            metrics.push(metric(&batch, row)?);
        }
    }
    Ok((header, metrics))
}

fn metric(batch: &RecordBatch, row: usize) -> anyhow::Result<Metric> {
    let column = |name: &str, data_type: DataType| {
        let column = batch
            .column_by_name(name)
            .filter(|column| *column.data_type() == data_type);
        column.with_context(|| format!("no column {name} of type {data_type}"))
    };
    let text = |name| Ok::<_, anyhow::Error>(column(name, DataType::Utf8)?.as_string::<i32>());
    let number = |name| {
        let array = column(name, DataType::Float64)?.as_primitive::<Float64Type>();
        Ok::<_, anyhow::Error>(array.is_valid(row).then(|| array.value(row)))
    };
    let runs = column("runs", DataType::UInt32)?.as_primitive::<UInt32Type>();
    let spread = match (number("min")?, number("max")?) {
        (Some(min), Some(max)) => Some(Spread {
            min,
            max,
            runs: runs.value(row),
        }),
        _ => None,
    };
    let value = match number("value")? {
        Some(value) => Known::Value(value),
        None => Known::unavailable(text("unavailable")?.value(row).to_owned()),
    };
    Ok(Metric {
        metric: text("metric")?.value(row).to_owned(),
        value,
        unit: text("unit")?.value(row).to_owned(),
        kind: serde_json::from_value(text("kind")?.value(row).into())?,
        spread,
        dimensions: serde_json::from_str(text("dimensions")?.value(row))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_measure::{Kind, Summary};

    #[test]
    fn figures_survive_the_way_through_a_file() {
        let header = Header::new("1", vec!["measure".into()], serde_json::json!({"a": 1}));
        let summary = Summary::of([1.0, 2.0, 4.0]).expect("a summary");
        let metrics = [
            Metric::of_runs("a", &summary, "ns", Kind::Measured).with("run", "x"),
            Metric::unavailable("b", "no counters", "count", Kind::Measured),
            Metric::new("c", 3.0, "B/s", Kind::Modelled).with("noise", vec!["one"]),
        ];
        let mut file = tempfile::tempfile().expect("a file");
        write(&mut file, &header, &metrics).expect("written");
        let (found, figures) = read(file).expect("read");
        assert_eq!(found, header);
        assert_eq!(figures, metrics);
    }
}
