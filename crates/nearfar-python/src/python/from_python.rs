//! Python's values as parameters.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    NullArray, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::client::Parameters;
use crate::failure::Failure;
use crate::python::raised;

/// One row of the values.
pub fn parameters(values: &[Bound<'_, PyAny>]) -> PyResult<Parameters> {
    let arrays = values.iter().map(array).collect::<PyResult<Vec<_>>>()?;
    let fields = arrays.iter().enumerate().map(|(index, array)| {
        let name = format!("${}", index + 1);
        Field::new(name, array.data_type().clone(), true)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let rows = RecordBatch::try_new_with_options(schema, arrays, &options);
    let rows = rows.map_err(|error| raised(Failure::Arrow(error)))?;
    Ok(Parameters { rows, row: 0 })
}

/// A value as an array of one.
fn array(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if value.is_none() {
        return Ok(Arc::new(NullArray::new(1)));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Arc::new(BooleanArray::from(vec![value.extract::<bool>()?])));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Arc::new(Int64Array::from(vec![value.extract::<i64>()?])));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Arc::new(Float64Array::from(vec![value.extract::<f64>()?])));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Arc::new(StringArray::from(vec![
            value.extract::<String>()?,
        ])));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Arc::new(BinaryArray::from(vec![bytes.as_bytes()])));
    }
    match value.get_type().name()?.to_string().as_str() {
        "Decimal" => decimal(&value.str()?.to_string()),
        "date" => {
            let ordinal: i32 = value.call_method0("toordinal")?.extract()?;
            Ok(Arc::new(Date32Array::from(vec![ordinal - 719_163])))
        }
        "datetime" | "Timestamp" => moment(value),
        "time" => texts_as(
            &value.call_method0("isoformat")?.extract::<String>()?,
            &TIME,
        ),
        // NumPy's numbers, which know what they are in Python.
        _ if value.hasattr("item")? => array(&value.call_method0("item")?),
        kind => Err(PyTypeError::new_err(format!(
            "a parameter can't be a {kind}: None, bool, int, float, str, bytes, Decimal, date, time and datetime can"
        ))),
    }
}

const TIME: DataType = DataType::Time64(TimeUnit::Nanosecond);

fn texts_as(text: &str, kind: &DataType) -> PyResult<ArrayRef> {
    let text = StringArray::from(vec![text]);
    cast(&text, kind).map_err(|error| raised(Failure::Arrow(error)))
}

fn decimal(text: &str) -> PyResult<ArrayRef> {
    let plain = !text.contains(['e', 'E', 'n', 'N', 'I']);
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !plain || digits.len() > 38 {
        return Err(PyTypeError::new_err(format!(
            "the decimal {text} does not fit: 38 digits without an exponent do"
        )));
    }
    let scale = text
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    let value: i128 = digits.parse().unwrap_or_default();
    let value = if text.starts_with('-') { -value } else { value };
    let precision = digits.len().max(scale).max(1);
    let array = Decimal128Array::from(vec![value]);
    let array = array.with_precision_and_scale(precision as u8, scale as i8);
    Ok(Arc::new(
        array.map_err(|error| raised(Failure::Arrow(error)))?,
    ))
}

/// A moment with or without a zone.
fn moment(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let py = value.py();
    let has_zone = !value.getattr("tzinfo")?.is_none();
    let datetime = py.import("datetime")?;
    let utc = datetime.getattr("timezone")?.getattr("utc")?;
    let epoch = datetime.getattr("datetime")?.call1((1970, 1, 1))?;
    let epoch = match has_zone {
        true => {
            let zone = pyo3::types::PyDict::new(py);
            zone.set_item("tzinfo", utc)?;
            epoch.call_method("replace", (), Some(&zone))?
        }
        false => epoch,
    };
    let since = value.sub(epoch)?;
    let microsecond = datetime.getattr("timedelta")?.call1((0, 0, 1))?;
    let microseconds: i64 = since.floor_div(microsecond)?.extract()?;
    let array = TimestampMicrosecondArray::from(vec![microseconds]);
    Ok(match has_zone {
        true => Arc::new(array.with_timezone("UTC")),
        false => Arc::new(array),
    })
}
