//! Failures as exceptions: those of DB-API 2.0, and one for each kind that callers tell apart.

use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};

use crate::failure::{Failure, FailureKind};

create_exception!(
    nearfar,
    Error,
    PyException,
    "What all of Nearfar's exceptions are."
);
create_exception!(
    nearfar,
    InterfaceError,
    Error,
    "Something that was used in a wrong way."
);
create_exception!(nearfar, DatabaseError, Error, "What the database reports.");
create_exception!(
    nearfar,
    ProgrammingError,
    DatabaseError,
    "A statement that is wrong."
);
create_exception!(
    nearfar,
    NotFoundError,
    ProgrammingError,
    "A name that there is not."
);
create_exception!(
    nearfar,
    ExistsError,
    ProgrammingError,
    "A name that is taken."
);
create_exception!(
    nearfar,
    NotSupportedError,
    DatabaseError,
    "Something that is not supported."
);
create_exception!(
    nearfar,
    IntegrityError,
    DatabaseError,
    "A key or constraint refuses a row."
);
create_exception!(
    nearfar,
    DataError,
    DatabaseError,
    "A value that does not fit."
);
create_exception!(
    nearfar,
    OperationalError,
    DatabaseError,
    "Files, disks and the machine."
);
create_exception!(
    nearfar,
    TransactionError,
    OperationalError,
    "A transaction to be run again."
);
create_exception!(
    nearfar,
    TierMemoryError,
    OperationalError,
    "A budget or limit of memory."
);
create_exception!(nearfar, InternalError, DatabaseError, "A bug.");

/// Adds the exceptions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, kind) in [
        ("Error", py.get_type::<Error>()),
        ("InterfaceError", py.get_type::<InterfaceError>()),
        ("DatabaseError", py.get_type::<DatabaseError>()),
        ("ProgrammingError", py.get_type::<ProgrammingError>()),
        ("NotFoundError", py.get_type::<NotFoundError>()),
        ("ExistsError", py.get_type::<ExistsError>()),
        ("NotSupportedError", py.get_type::<NotSupportedError>()),
        ("IntegrityError", py.get_type::<IntegrityError>()),
        ("DataError", py.get_type::<DataError>()),
        ("OperationalError", py.get_type::<OperationalError>()),
        ("TransactionError", py.get_type::<TransactionError>()),
        ("TierMemoryError", py.get_type::<TierMemoryError>()),
        ("InternalError", py.get_type::<InternalError>()),
    ] {
        module.add(name, kind)?;
    }
    Ok(())
}

/// The exception that a failure is.
pub fn raised(failure: Failure) -> PyErr {
    let text = failure.to_string();
    match failure.kind() {
        FailureKind::Statement => ProgrammingError::new_err(text),
        FailureKind::Missing => NotFoundError::new_err(text),
        FailureKind::Exists => ExistsError::new_err(text),
        FailureKind::Integrity => IntegrityError::new_err(text),
        FailureKind::Transaction => TransactionError::new_err(text),
        FailureKind::Memory => TierMemoryError::new_err(text),
        FailureKind::Data => DataError::new_err(text),
        FailureKind::Files | FailureKind::GivenUp => OperationalError::new_err(text),
        FailureKind::Unsupported => NotSupportedError::new_err(text),
        FailureKind::Usage => InterfaceError::new_err(text),
        FailureKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        FailureKind::Internal => InternalError::new_err(text),
    }
}
