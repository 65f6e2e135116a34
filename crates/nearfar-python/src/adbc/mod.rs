//! The same engine as a driver of ADBC, for whoever loads the shared object by `AdbcDriverInit`.

mod connection;
mod driver;
mod info;
mod objects;
mod statement;

pub use driver::NearfarDriver;

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::OptionValue;
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};

use crate::failure::{Failure, FailureKind};

/// A failure as ADBC tells it.
fn told(failure: Failure) -> Error {
    let status = match failure.kind() {
        FailureKind::Statement | FailureKind::Usage => Status::InvalidArguments,
        FailureKind::Missing => Status::NotFound,
        FailureKind::Exists => Status::AlreadyExists,
        FailureKind::Integrity => Status::Integrity,
        FailureKind::Transaction => Status::InvalidState,
        FailureKind::Data => Status::InvalidData,
        FailureKind::Files => Status::IO,
        FailureKind::Unsupported => Status::NotImplemented,
        FailureKind::Interrupted | FailureKind::GivenUp => Status::Cancelled,
        FailureKind::Memory | FailureKind::Internal => Status::Internal,
    };
    Error::with_message_and_status(failure.to_string(), status)
}

/// An option that there is not.
fn no_option<T>(key: &str) -> Result<T> {
    let message = format!("there is no option {key}");
    Err(Error::with_message_and_status(message, Status::NotFound))
}

/// Something that there is not.
fn unsupported<T>(what: &str) -> Result<T> {
    let message = format!("{what} is not supported");
    Err(Error::with_message_and_status(
        message,
        Status::NotImplemented,
    ))
}

/// The text of an option.
fn text_of(key: &str, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        OptionValue::Int(number) => Ok(number.to_string()),
        _ => {
            let message = format!("option {key} is a text");
            Err(Error::with_message_and_status(
                message,
                Status::InvalidArguments,
            ))
        }
    }
}

/// One batch as a reader.
fn reader_of(batch: RecordBatch) -> Box<dyn RecordBatchReader + Send + 'static> {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}
