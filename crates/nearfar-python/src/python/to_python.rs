//! Arrow's values as Python's.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::temporal_conversions::{
    time64us_to_time, timestamp_ms_to_datetime, timestamp_ns_to_datetime, timestamp_s_to_datetime,
    timestamp_us_to_datetime,
};
use arrow::util::display::array_value_to_string;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::failure::Failure;
use crate::python::raised;

/// A batch as tuples.
pub fn tuples(py: Python<'_>, batch: &RecordBatch) -> PyResult<Vec<Py<PyTuple>>> {
    let rows = 0..batch.num_rows();
    let tuple = |row| {
        let values = batch.columns().iter().map(|column| value(py, column, row));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(py, values)?.unbind())
    };
    rows.map(tuple).collect()
}

/// One value.
fn value(py: Python<'_>, array: &ArrayRef, row: usize) -> PyResult<Py<PyAny>> {
    if array.is_null(row) {
        return Ok(py.None());
    }
    macro_rules! number {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row).into_py_any(py)
        };
    }
    match array.data_type() {
        DataType::Null => Ok(py.None()),
        DataType::Boolean => array.as_boolean().value(row).into_py_any(py),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => array
            .as_primitive::<Float16Type>()
            .value(row)
            .to_f64()
            .into_py_any(py),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_py_any(py),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_py_any(py),
        DataType::Utf8View => array.as_string_view().value(row).into_py_any(py),
        DataType::Binary => Ok(bytes(py, array.as_binary::<i32>().value(row))),
        DataType::LargeBinary => Ok(bytes(py, array.as_binary::<i64>().value(row))),
        DataType::BinaryView => Ok(bytes(py, array.as_binary_view().value(row))),
        DataType::FixedSizeBinary(_) => Ok(bytes(py, array.as_fixed_size_binary().value(row))),
        DataType::Decimal128(_, _) => {
            let text = array.as_primitive::<Decimal128Type>().value_as_string(row);
            of_module(py, &DECIMAL, "decimal", "Decimal")?.call1(py, (text,))
        }
        DataType::Date32 => {
            const EPOCH_ORDINAL: i64 = 719_163;
            let day = i64::from(array.as_primitive::<Date32Type>().value(row));
            let date = of_module(py, &DATE, "datetime", "date")?;
            date.call_method1(py, "fromordinal", (EPOCH_ORDINAL + day,))
        }
        DataType::Timestamp(unit, zone) => timestamp(py, array, row, *unit, zone.is_some()),
        DataType::Time64(TimeUnit::Nanosecond | TimeUnit::Microsecond) => time(py, array, row),
        DataType::List(_) => list(py, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(py, &array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(_, _) => list(py, &array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let dict = PyDict::new(py);
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                dict.set_item(field.name(), value(py, column, row)?)?;
            }
            dict.into_py_any(py)
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            value(py, dictionary.values(), key)
        }
        // As SQL shows it, where Python has no type of its own.
        _ => array_value_to_string(array, row)
            .map_err(|error| raised(Failure::Arrow(error)))?
            .into_py_any(py),
    }
}

static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DATE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DATETIME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static TIME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn of_module<'a>(
    py: Python<'_>,
    cell: &'a PyOnceLock<Py<PyAny>>,
    module: &str,
    name: &str,
) -> PyResult<&'a Py<PyAny>> {
    cell.get_or_try_init(py, || Ok(py.import(module)?.getattr(name)?.unbind()))
}

fn bytes(py: Python<'_>, bytes: &[u8]) -> Py<PyAny> {
    PyBytes::new(py, bytes).into_any().unbind()
}

fn list(py: Python<'_>, values: &ArrayRef) -> PyResult<Py<PyAny>> {
    let values = (0..values.len()).map(|row| value(py, values, row));
    let values = values.collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, values)?.into_py_any(py)
}

/// A moment, to the microsecond, with the zone UTC where it has one.
fn timestamp(
    py: Python<'_>,
    array: &ArrayRef,
    row: usize,
    unit: TimeUnit,
    has_zone: bool,
) -> PyResult<Py<PyAny>> {
    use arrow::datatypes::{
        TimestampMicrosecondType as Us, TimestampMillisecondType as Ms,
        TimestampNanosecondType as Ns, TimestampSecondType as S,
    };
    let moment = match unit {
        TimeUnit::Second => timestamp_s_to_datetime(array.as_primitive::<S>().value(row)),
        TimeUnit::Millisecond => timestamp_ms_to_datetime(array.as_primitive::<Ms>().value(row)),
        TimeUnit::Microsecond => timestamp_us_to_datetime(array.as_primitive::<Us>().value(row)),
        TimeUnit::Nanosecond => timestamp_ns_to_datetime(array.as_primitive::<Ns>().value(row)),
    };
    let text = moment.map(|moment| moment.format("%Y-%m-%dT%H:%M:%S%.6f").to_string());
    let text = text.unwrap_or_default() + if has_zone { "+00:00" } else { "" };
    let datetime = of_module(py, &DATETIME, "datetime", "datetime")?;
    datetime.call_method1(py, "fromisoformat", (text,))
}

fn time(py: Python<'_>, array: &ArrayRef, row: usize) -> PyResult<Py<PyAny>> {
    use arrow::datatypes::{Time64MicrosecondType, Time64NanosecondType};
    let microseconds = match array.data_type() {
        DataType::Time64(TimeUnit::Microsecond) => {
            array.as_primitive::<Time64MicrosecondType>().value(row)
        }
        _ => array.as_primitive::<Time64NanosecondType>().value(row) / 1000,
    };
    let text = time64us_to_time(microseconds).map(|time| time.format("%H:%M:%S%.6f").to_string());
    let time = of_module(py, &TIME, "datetime", "time")?;
    time.call_method1(py, "fromisoformat", (text.unwrap_or_default(),))
}
