//! File systems that are full, found among the causes of an error by their types.

use std::error::Error;
use std::io;

use datafusion::error::DataFusionError;
use nearfar_memory::pool::PoolError;

use super::EngineError;
use nearfar_durable::error::{CheckpointError, DurabilityError};

/// Whether an error is that a file system, a quota or a pool has no room left, however deep that lies
/// in it.
pub fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if is_full_itself(error) {
            return true;
        }
        cause = cause_of(error);
    }
    false
}

fn is_full_kind(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn is_full_itself(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return is_full_kind(error.kind());
    }
    if let Some(error) = error.downcast_ref::<DurabilityError>() {
        return match error {
            DurabilityError::NotLogged { kind, .. } => kind.is_some_and(is_full_kind),
            DurabilityError::Io { kind, .. } => is_full_kind(*kind),
            _ => false,
        };
    }
    if let Some(error) = error.downcast_ref::<PoolError>() {
        return match error {
            PoolError::Full { .. } => true,
            PoolError::System { source, .. } => source.is_full(),
            _ => false,
        };
    }
    match error.downcast_ref::<CheckpointError>() {
        Some(CheckpointError::Full { .. }) => true,
        Some(CheckpointError::File { source, .. }) => is_full_kind(source.kind()),
        Some(CheckpointError::Pool { source, .. }) => is_full_itself(source.as_ref()),
        _ => false,
    }
}

/// What an error was caused by, also where it speaks for another one and passes over it.
fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return match error.get_ref() {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    let boxed = error.downcast_ref::<Box<EngineError>>().map(AsRef::as_ref);
    if let Some(error) = error.downcast_ref::<EngineError>().or(boxed) {
        return match error {
            EngineError::Durability(error) => Some(error),
            EngineError::Checkpoint(error) => Some(error.as_ref()),
            EngineError::Arrow(error) => Some(error),
            EngineError::DataFusion(error) => Some(error),
            EngineError::Unreadable { source, .. } => Some(source.as_ref()),
            other => other.source(),
        };
    }
    let boxed = error.downcast_ref::<Box<DataFusionError>>();
    match boxed {
        Some(error) => Some(error.as_ref()),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::error::ArrowError;
    use std::sync::Arc;

    fn full() -> io::Error {
        io::Error::from(io::ErrorKind::StorageFull)
    }

    #[test]
    fn full_disks_are_found_in_what_wraps_them() {
        let arrow = || ArrowError::IoError("cannot write".to_owned(), full());
        let store = |error: DurabilityError| EngineError::Durability(error);
        let not_logged = store(DurabilityError::NotLogged {
            message: String::new(),
            kind: Some(io::ErrorKind::QuotaExceeded),
        });
        let datafusion = |error: DataFusionError| EngineError::DataFusion(error);
        let errors: Vec<EngineError> = vec![
            not_logged,
            EngineError::Arrow(arrow()),
            datafusion(DataFusionError::IoError(full())),
            datafusion(DataFusionError::ArrowError(Box::new(arrow()), None).context("sorting")),
            datafusion(DataFusionError::Shared(Arc::new(DataFusionError::from(
                io::Error::other(io::Error::other(full())),
            )))),
            datafusion(DataFusionError::External(Box::new(datafusion(
                DataFusionError::IoError(full()),
            )))),
        ];
        for error in errors {
            assert!(is_disk_full(&error), "{error:?}");
            let outer = DataFusionError::External(Box::new(error)).context("inserting");
            assert!(is_disk_full(&outer), "{outer:?}");
        }
    }

    #[test]
    fn pools_and_checkpoints_can_be_full_too() {
        let path = std::path::PathBuf::from("pool");
        let source = Box::new(PoolError::Full {
            bytes: 2,
            largest_free_bytes: 1,
            read_bytes: 0,
        });
        let pool = CheckpointError::Pool {
            path: path.clone(),
            source,
        };
        let file = CheckpointError::Full { path };
        for error in [pool, file] {
            assert!(is_disk_full(&EngineError::from(error.clone())), "{error:?}");
            let outer = DataFusionError::from(EngineError::from(error));
            assert!(is_disk_full(&outer), "{outer:?}");
        }
    }

    #[test]
    fn other_errors_are_none() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let error = EngineError::DataFusion(DataFusionError::IoError(missing));
        assert!(!is_disk_full(&error));
        let message = "No space left on device".to_owned();
        let kind = None;
        let error = EngineError::Durability(DurabilityError::NotLogged { message, kind });
        assert!(!is_disk_full(&error));
    }
}
