//! Errors as clients see them, with SQLSTATEs (PostgreSQL's appendix A).

use std::error::Error;

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use nearfar_durable::error::DurabilityError;
use nearfar_sql::error::{EngineError, is_disk_full, is_of_missing_table};
use nearfar_sql::sql::SqlError;
use nearfar_sql::values::ValueError;
use nearfar_table::error::IndexError;
use nearfar_table::placement::StrategyError;
use nearfar_table::transaction::TransactionError;
use pgwire::error::ErrorInfo;
use pgwire::messages::PgWireBackendMessage;

use super::violation::Violation;
use crate::columns::UnsentType;

/// SQLSTATEs by their names in PostgreSQL.
pub mod state {
    pub const WARNING_ACTIVE_TRANSACTION: &str = "25001";
    pub const WARNING_NO_TRANSACTION: &str = "25P01";
    pub const TRANSACTION_RESOLUTION_UNKNOWN: &str = "08007";
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";
    pub const DATA_EXCEPTION: &str = "22000";
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const STRING_TOO_LONG: &str = "22001";
    pub const DATETIME_OUT_OF_RANGE: &str = "22008";
    pub const INVALID_LOGARITHM_ARGUMENT: &str = "2201E";
    pub const INVALID_POWER_ARGUMENT: &str = "2201F";
    pub const SEQUENCE_LIMIT: &str = "2200H";
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    pub const UNTRANSLATABLE_TEXT: &str = "22021";
    pub const BAD_COPY_FORMAT: &str = "22P04";
    pub const INVALID_TEXT_REPRESENTATION: &str = "22P02";
    pub const INVALID_BINARY_REPRESENTATION: &str = "22P03";
    pub const NOT_NULL_VIOLATION: &str = "23502";
    pub const FOREIGN_KEY_VIOLATION: &str = "23503";
    pub const UNIQUE_VIOLATION: &str = "23505";
    pub const CHECK_VIOLATION: &str = "23514";
    pub const INVALID_FOREIGN_KEY: &str = "42830";
    pub const DUPLICATE_OBJECT: &str = "42710";
    pub const CARDINALITY_VIOLATION: &str = "21000";
    pub const NO_TRANSACTION: &str = "25000";
    pub const READ_ONLY: &str = "25006";
    pub const FAILED_TRANSACTION: &str = "25P02";
    pub const IDLE_IN_TRANSACTION_TIMEOUT: &str = "25P03";
    pub const UNKNOWN_STATEMENT: &str = "26000";
    pub const INVALID_REGULAR_EXPRESSION: &str = "2201B";
    pub const INVALID_AUTHORIZATION: &str = "28000";
    pub const INVALID_PASSWORD: &str = "28P01";
    pub const OBJECTS_DEPEND: &str = "2BP01";
    pub const UNKNOWN_PORTAL: &str = "34000";
    pub const UNDEFINED_SCHEMA: &str = "3F000";
    pub const UNKNOWN_SAVEPOINT: &str = "3B001";
    pub const SERIALIZATION_FAILURE: &str = "40001";
    pub const DEADLOCK: &str = "40P01";
    pub const SYNTAX_OR_ACCESS: &str = "42000";
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub const SYNTAX_ERROR: &str = "42601";
    pub const DUPLICATE_COLUMN: &str = "42701";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const UNDEFINED_OBJECT: &str = "42704";
    pub const GENERATED_ALWAYS: &str = "428C9";
    pub const GROUPING_ERROR: &str = "42803";
    pub const WRONG_OBJECT_TYPE: &str = "42809";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const UNDEFINED_TABLE: &str = "42P01";
    pub const DATATYPE_MISMATCH: &str = "42804";
    pub const DUPLICATE_PORTAL: &str = "42P03";
    pub const DUPLICATE_STATEMENT: &str = "42P05";
    pub const INVALID_TABLE_DEFINITION: &str = "42P16";
    pub const INVALID_COLUMN_REFERENCE: &str = "42P10";
    pub const WINDOWING_ERROR: &str = "42P20";
    pub const INDETERMINATE_DATATYPE: &str = "42P18";
    pub const DUPLICATE_TABLE: &str = "42P07";
    pub const DISK_FULL: &str = "53100";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    pub const STATEMENT_TOO_COMPLEX: &str = "54001";
    pub const TOO_MANY_COLUMNS: &str = "54011";
    pub const WRONG_STATE: &str = "55000";
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub const CANT_CHANGE_SETTING: &str = "55P02";
    pub const QUERY_CANCELED: &str = "57014";
    pub const ADMIN_SHUTDOWN: &str = "57P01";
    pub const CANNOT_CONNECT_NOW: &str = "57P03";
    pub const IDLE_SESSION_TIMEOUT: &str = "57P05";
    pub const IO_ERROR: &str = "58030";
    pub const UNDEFINED_FILE: &str = "58P01";
    pub const INTERNAL_ERROR: &str = "XX000";
}

/// The longest message that is sent.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// An error of a client's statement or connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The SQLSTATE.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
    /// The character of the client's text that it is about, from 1.
    pub position: Option<usize>,
    /// The constraint that rows fail, if it is about one.
    pub violation: Option<Box<Violation>>,
    /// Whether it ends the connection.
    pub is_fatal: bool,
}

impl Failure {
    /// An error of a statement.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: shortened(message.into()),
            hint: None,
            position: None,
            violation: None,
            is_fatal: false,
        }
    }

    /// An error that ends the connection.
    pub fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_fatal: true,
            ..Self::new(code, message)
        }
    }

    /// The same where statements were committed whose end the client may not have taken in, and which it
    /// would take for failed.
    pub fn after_commit(self) -> Self {
        let message = format!(
            "{}. What was done since the last synchronisation is kept",
            self.message
        );
        Self {
            violation: self.violation,
            is_fatal: self.is_fatal,
            ..Self::new(state::TRANSACTION_RESOLUTION_UNKNOWN, message)
        }
    }

    /// A client that does not speak the protocol.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::fatal(state::PROTOCOL_VIOLATION, message)
    }

    /// An error of the store, in a statement of `text`.
    pub fn of(error: &EngineError, text: &str) -> Self {
        let explained = error.explain();
        let place = explained.place;
        let violation = Violation::of(own(error)).map(Box::new);
        let message = match &violation {
            Some(violation) => violation.message.clone(),
            None => explained.message,
        };
        Self {
            hint: explained.hints.into_iter().next(),
            position: place.and_then(|place| position(text, place.line, place.column)),
            violation,
            ..Self::new(code(error), message)
        }
    }

    /// The message that tells the client.
    pub fn to_message(&self) -> PgWireBackendMessage {
        let severity = if self.is_fatal { "FATAL" } else { "ERROR" };
        let (code, message) = (self.code.to_owned(), self.message.clone());
        let mut info = ErrorInfo::new(severity.to_owned(), code, message);
        info.severity_nonlocalized = Some(severity.to_owned());
        info.hint = self.hint.clone();
        info.position = self.position.map(|at| at.to_string());
        if let Some(violation) = self.violation.as_deref().cloned() {
            info.detail = violation.detail.map(shortened);
            info.schema = violation.schema;
            info.table = violation.table;
            info.column = violation.column;
            info.constraint = violation.constraint;
        }
        PgWireBackendMessage::ErrorResponse(info.into())
    }
}

impl From<UnsentType> for Failure {
    fn from(error: UnsentType) -> Self {
        Self::new(state::FEATURE_NOT_SUPPORTED, error.to_string())
    }
}

/// Something that the client may want to know.
pub fn warning(code: &str, message: &str) -> PgWireBackendMessage {
    let severity = "WARNING".to_owned();
    let mut info = ErrorInfo::new(severity.clone(), code.to_owned(), message.to_owned());
    info.severity_nonlocalized = Some(severity);
    PgWireBackendMessage::NoticeResponse(info.into())
}

/// A text that is no longer than what is sent.
fn shortened(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
        text.push('…');
    }
    text
}

/// The number of a character in `text`, from 1.
fn position(text: &str, line: usize, column: usize) -> Option<usize> {
    let before = text.split('\n').take(line.checked_sub(1)?);
    let before: usize = before.map(|line| line.chars().count() + 1).sum();
    let position = before + column;
    (position <= text.chars().count() + 1).then_some(position)
}

/// The error of the engine that has passed through DataFusion, if it is one; otherwise the error itself.
fn own(error: &EngineError) -> &EngineError {
    let EngineError::DataFusion(outer) = error else {
        return error;
    };
    let DataFusionError::External(inner) = outer.find_root() else {
        return error;
    };
    caused_by::<EngineError>(inner.as_ref()).map_or(error, own)
}

/// The first error of a kind among an error and its causes.
fn caused_by<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.find_map(|cause| cause.downcast_ref())
}

fn code(error: &EngineError) -> &'static str {
    if is_disk_full(error) {
        return state::DISK_FULL;
    }
    match error {
        EngineError::Sql(error) => of_sql(error),
        EngineError::Transaction(error) => of_transaction(error),
        EngineError::Index(error) => of_index(error),
        EngineError::Region(_) | EngineError::OutOfMemory(_) => state::OUT_OF_MEMORY,
        EngineError::Remote(error) if error.is_out_of_memory() => state::OUT_OF_MEMORY,
        EngineError::Remote(_) => state::IO_ERROR,
        EngineError::System(_) | EngineError::Model(_) => state::WRONG_STATE,
        EngineError::Tier(_) => state::UNDEFINED_OBJECT,
        EngineError::Strategy(_) | EngineError::UnknownFormat { .. } => {
            state::INVALID_PARAMETER_VALUE
        }
        EngineError::UnknownBenchmarkTable { .. } => state::UNDEFINED_TABLE,
        EngineError::Unreadable { .. } => state::UNDEFINED_FILE,
        EngineError::Cancelled { .. } => state::QUERY_CANCELED,
        EngineError::Durability(DurabilityError::Fenced { .. }) => state::ADMIN_SHUTDOWN,
        EngineError::Durability(
            DurabilityError::InDoubt { .. } | DurabilityError::NotSynced { .. },
        ) => state::TRANSACTION_RESOLUTION_UNKNOWN,
        EngineError::Durability(
            DurabilityError::Stopped { .. }
            | DurabilityError::NotLogged { .. }
            | DurabilityError::Io { .. },
        ) => state::IO_ERROR,
        EngineError::Arrow(error) => of_arrow(error),
        EngineError::DataFusion(error) => of_datafusion(error),
        _ => state::INTERNAL_ERROR,
    }
}

fn of_sql(error: &SqlError) -> &'static str {
    match error {
        SqlError::Syntax { .. } => state::SYNTAX_ERROR,
        SqlError::Unsupported { .. } | SqlError::InExpression { .. } => {
            state::FEATURE_NOT_SUPPORTED
        }
        SqlError::DefaultType { .. } => state::DATATYPE_MISMATCH,
        SqlError::SequenceUsedUp { .. } => state::SEQUENCE_LIMIT,
        SqlError::SequenceOutOfBounds { .. } => state::NUMERIC_VALUE_OUT_OF_RANGE,
        SqlError::NoSequence { .. } | SqlError::IsSequence { .. } => state::WRONG_OBJECT_TYPE,
        SqlError::NoSequenceValue { .. } => state::WRONG_STATE,
        SqlError::SequenceInUse { .. } => state::OBJECTS_DEPEND,
        SqlError::GivenIdentity { .. } | SqlError::UpdatedIdentity { .. } => {
            state::GENERATED_ALWAYS
        }
        SqlError::UnknownTablespace { .. } | SqlError::UnknownSetting { .. } => {
            state::UNDEFINED_OBJECT
        }
        SqlError::FixedSetting { .. } => state::CANT_CHANGE_SETTING,
        SqlError::UnknownPrepared { .. } => state::UNKNOWN_STATEMENT,
        SqlError::PreparedExists { .. } => state::DUPLICATE_STATEMENT,
        SqlError::TooManyPrepared { .. } => state::PROGRAM_LIMIT_EXCEEDED,
        SqlError::UnusableTablespace { .. } | SqlError::NeverRead { .. } => state::WRONG_STATE,
        SqlError::UnknownTable { .. } => state::UNDEFINED_TABLE,
        SqlError::UnknownSchema { .. } => state::UNDEFINED_SCHEMA,
        SqlError::DuplicateColumn { .. } | SqlError::ColumnExists { .. } => state::DUPLICATE_COLUMN,
        SqlError::AmbiguousColumn { .. } => state::AMBIGUOUS_COLUMN,
        SqlError::Misplaced { what, .. } => match *what {
            "window functions" => state::WINDOWING_ERROR,
            "set-returning functions" => state::FEATURE_NOT_SUPPORTED,
            _ => state::GROUPING_ERROR,
        },
        SqlError::SeveralRows | SqlError::ChangedTwice | SqlError::MergedTwice => {
            state::CARDINALITY_VIOLATION
        }
        SqlError::NoSuchKey => state::INVALID_COLUMN_REFERENCE,
        SqlError::TooDeep { .. } => state::STATEMENT_TOO_COMPLEX,
        SqlError::InUse { .. } => state::OBJECTS_DEPEND,
        SqlError::NotInMemory { .. } | SqlError::NotDeferrable { .. } => state::WRONG_OBJECT_TYPE,
        SqlError::UnknownColumn { .. }
        | SqlError::ColumnPlacement(StrategyError::UnknownColumn { .. }) => state::UNDEFINED_COLUMN,
        SqlError::TableExists { .. } | SqlError::IndexExists { .. } => state::DUPLICATE_TABLE,
        SqlError::UnknownIndex { .. }
        | SqlError::UnknownConstraint { .. }
        | SqlError::NoSuchConstraint { .. } => state::UNDEFINED_OBJECT,
        SqlError::IndexOfConstraint { .. } => state::OBJECTS_DEPEND,
        SqlError::SeveralPrimaryKeys { .. } => state::INVALID_TABLE_DEFINITION,
        SqlError::TooManyColumns { .. } => state::TOO_MANY_COLUMNS,
        SqlError::TooManySteps { .. } | SqlError::TooManyOperators { .. } => {
            state::STATEMENT_TOO_COMPLEX
        }
        SqlError::UnknownCursor { .. } => state::UNKNOWN_PORTAL,
        SqlError::CursorExists { .. } => state::DUPLICATE_PORTAL,
        SqlError::CursorBackward => state::WRONG_STATE,
        SqlError::FilesRefused { .. } | SqlError::SettingRefused { .. } => {
            state::INSUFFICIENT_PRIVILEGE
        }
        SqlError::UnknownPlacement { .. }
        | SqlError::ColumnPlacement { .. }
        | SqlError::UnknownOption { .. }
        | SqlError::CopyOption { .. }
        | SqlError::SequenceOption { .. }
        | SqlError::SettingValue { .. } => state::INVALID_PARAMETER_VALUE,
        SqlError::Pattern { .. } => state::INVALID_REGULAR_EXPRESSION,
        other => of_constraint(other),
    }
}

/// What is wrong with rows or declarations by what was declared of rows.
fn of_constraint(error: &SqlError) -> &'static str {
    match error {
        SqlError::AssignedTwice { .. } | SqlError::SeveralDefaults { .. } => state::SYNTAX_ERROR,
        SqlError::TwiceInKey { .. } | SqlError::GivenTwice { .. } => state::DUPLICATE_COLUMN,
        SqlError::NullsNotAllowed { .. } => state::NOT_NULL_VIOLATION,
        SqlError::CheckViolated { .. } => state::CHECK_VIOLATION,
        SqlError::ViolatedByRows { constraint, .. } => match *constraint {
            "check" => state::CHECK_VIOLATION,
            _ => state::FOREIGN_KEY_VIOLATION,
        },
        SqlError::NoParent { .. }
        | SqlError::HasChildren { .. }
        | SqlError::HalfReference { .. } => state::FOREIGN_KEY_VIOLATION,
        SqlError::NoParentKey { .. } => state::INVALID_FOREIGN_KEY,
        SqlError::ReferenceType { .. } | SqlError::CheckType { .. } => state::DATATYPE_MISMATCH,
        SqlError::ConstraintExists { .. } => state::DUPLICATE_OBJECT,
        SqlError::ReferredTo { .. } => state::OBJECTS_DEPEND,
        SqlError::TruncateReferred { .. } => state::FEATURE_NOT_SUPPORTED,
        _ => state::SYNTAX_OR_ACCESS,
    }
}

fn of_index(error: &IndexError) -> &'static str {
    match error {
        IndexError::Duplicate { .. } => state::UNIQUE_VIOLATION,
        IndexError::NullKey { .. } => state::NOT_NULL_VIOLATION,
        IndexError::KeyTooLong { .. } => state::PROGRAM_LIMIT_EXCEEDED,
        IndexError::OutOfMemory { .. } | IndexError::Tree(_) => state::OUT_OF_MEMORY,
        _ => state::INTERNAL_ERROR,
    }
}

fn of_transaction(error: &TransactionError) -> &'static str {
    match error {
        TransactionError::Failed => state::FAILED_TRANSACTION,
        TransactionError::ReadOnly { .. } => state::READ_ONLY,
        TransactionError::NotInTransaction { .. } => state::WARNING_ACTIVE_TRANSACTION,
        TransactionError::Over => state::NO_TRANSACTION,
        TransactionError::NoTransaction { .. } => state::WARNING_NO_TRANSACTION,
        TransactionError::LateIsolation => state::WARNING_ACTIVE_TRANSACTION,
        TransactionError::NoSavepoint { .. } => state::UNKNOWN_SAVEPOINT,
        TransactionError::Deadlock => state::DEADLOCK,
        TransactionError::LockTimeout { .. }
        | TransactionError::LockNotAvailable { .. }
        | TransactionError::TableLockTimeout { .. }
        | TransactionError::TableNotAvailable { .. } => state::LOCK_NOT_AVAILABLE,
        // Each of the others goes away when the transaction is run again.
        _ => state::SERIALIZATION_FAILURE,
    }
}

fn of_arrow(error: &ArrowError) -> &'static str {
    match error {
        ArrowError::DivideByZero => state::DIVISION_BY_ZERO,
        ArrowError::ArithmeticOverflow(_) => state::NUMERIC_VALUE_OUT_OF_RANGE,
        ArrowError::CastError(_) | ArrowError::ParseError(_) | ArrowError::CsvError(_) => {
            state::INVALID_TEXT_REPRESENTATION
        }
        ArrowError::NotYetImplemented(_) => state::FEATURE_NOT_SUPPORTED,
        ArrowError::MemoryError(_) => state::OUT_OF_MEMORY,
        ArrowError::InvalidArgumentError(_) | ArrowError::ComputeError(_) => state::DATA_EXCEPTION,
        _ => state::INTERNAL_ERROR,
    }
}

fn of_datafusion(error: &DataFusionError) -> &'static str {
    match error.find_root() {
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        DataFusionError::SQL(..) => state::SYNTAX_ERROR,
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { .. } => state::UNDEFINED_COLUMN,
            SchemaError::AmbiguousReference { .. } => state::AMBIGUOUS_COLUMN,
            _ => state::DUPLICATE_COLUMN,
        },
        DataFusionError::Plan(message) => of_plan(message),
        DataFusionError::NotImplemented(_) => state::FEATURE_NOT_SUPPORTED,
        DataFusionError::ResourcesExhausted(_) => state::OUT_OF_MEMORY,
        DataFusionError::Configuration(_) => state::INVALID_PARAMETER_VALUE,
        DataFusionError::Execution(_) => state::DATA_EXCEPTION,
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => state::UNDEFINED_FILE,
        DataFusionError::External(inner) => {
            let of_engine = caused_by(inner.as_ref()).map(code);
            let of_value = || caused_by(inner.as_ref()).map(of_value);
            of_engine.or_else(of_value).unwrap_or(state::INTERNAL_ERROR)
        }
        _ => state::INTERNAL_ERROR,
    }
}

fn of_value(error: &ValueError) -> &'static str {
    match error {
        ValueError::OutOfRange { .. } => state::NUMERIC_VALUE_OUT_OF_RANGE,
        ValueError::DivisionByZero => state::DIVISION_BY_ZERO,
        ValueError::Logarithm { .. } => state::INVALID_LOGARITHM_ARGUMENT,
        ValueError::Power { .. } => state::INVALID_POWER_ARGUMENT,
        ValueError::Text { .. } => state::INVALID_TEXT_REPRESENTATION,
        ValueError::TooLong { .. } => state::STRING_TOO_LONG,
        ValueError::Argument { .. } => state::INVALID_PARAMETER_VALUE,
        ValueError::Datetime => state::DATETIME_OUT_OF_RANGE,
        _ => state::DATA_EXCEPTION,
    }
}

/// The planner tells these kinds apart by nothing but its words.
fn of_plan(message: &str) -> &'static str {
    const NOT_FOUND: &str = "not found";
    if is_of_missing_table(message) {
        state::UNDEFINED_TABLE
    } else if message.starts_with("Invalid function")
        || message.contains("No function matches")
        || (message.starts_with("table function") && message.contains(NOT_FOUND))
    {
        state::UNDEFINED_FUNCTION
    } else {
        state::SYNTAX_OR_ACCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_codes_that_drivers_look_for() {
        let conflict = TransactionError::Conflict {
            table: "t".to_owned(),
        };
        let nested = DataFusionError::from(EngineError::Transaction(conflict)).context("inserting");
        let failure = Failure::of(&EngineError::DataFusion(nested), "");
        assert_eq!(failure.code, "40001");
        let missing = DataFusionError::Plan("table 'a.b.c' not found".to_owned());
        assert_eq!(Failure::of(&missing.into(), "").code, "42P01");
        let zero = ArrowError::DivideByZero;
        assert_eq!(Failure::of(&EngineError::Arrow(zero), "").code, "22012");
    }

    #[test]
    fn full_disks_have_one_code_and_doubt_another() {
        use std::io::{Error, ErrorKind};
        let full = || Error::from(ErrorKind::StorageFull);
        let not_logged = DurabilityError::NotLogged {
            message: String::new(),
            kind: Some(ErrorKind::StorageFull),
        };
        let arrow = ArrowError::IoError("cannot write".to_owned(), full());
        let spilled = DataFusionError::from(arrow).context("sorting");
        for error in [
            EngineError::Durability(not_logged),
            EngineError::DataFusion(spilled),
            DataFusionError::External(Box::new(full())).into(),
        ] {
            assert_eq!(Failure::of(&error, "").code, "53100", "{error:?}");
        }
        let message = "No space left on device".to_owned();
        let in_doubt = EngineError::Durability(DurabilityError::NotSynced { message });
        assert_eq!(Failure::of(&in_doubt, "").code, "08007");
    }

    #[test]
    fn places_are_counted_in_characters() {
        assert_eq!(position("select\n\té fro t", 2, 4), Some(11));
        assert_eq!(position("select", 1, 7), Some(7));
        assert_eq!(position("select", 9, 9), None);
    }

    #[test]
    fn long_messages_are_cut() {
        let failure = Failure::new(state::INTERNAL_ERROR, "é".repeat(10_000));
        assert!(failure.message.len() <= MESSAGE_BYTES_MAX + '…'.len_utf8());
    }
}
