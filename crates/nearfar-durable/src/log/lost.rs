//! Terms that have begun and lost the file that says so.
//!
//! A term whose folder has no `BEGIN` was given up before it wrote anything. Where there are records of
//! its log, a checkpoint or a note of it all the same, the file is lost, and with it where its log begins.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::directory::{DataDirectory, sync_folder};
use super::reached::Reached;
use super::term::folder_of;
use crate::checkpoint::directory as checkpoint;
use crate::error::DurabilityError;
use crate::private;

/// The terms after `begun`, the last one that is known to have begun, which must have begun too.
///
/// # Errors
/// Files that can't be read.
pub(super) fn lost_terms(
    directory: &DataDirectory,
    folders: &[u64],
    begun: u64,
) -> Result<BTreeSet<u64>, DurabilityError> {
    let mut terms = BTreeSet::new();
    for term in folders.iter().copied().filter(|term| *term > begun) {
        if has_records(&folder_of(&directory.log(), term))? {
            terms.insert(term);
        }
    }
    terms.extend(Reached::terms(directory.path())?);
    let checkpoints = checkpoint::numbers(&directory.checkpoints());
    let checkpoints = checkpoints.map_err(|error| {
        let error = io::Error::other(error);
        DurabilityError::io("cannot read", directory.checkpoints(), &error)
    })?;
    terms.extend(checkpoints.into_iter().map(|number| number >> 32));
    Ok(terms.split_off(&(begun + 1)))
}

/// Whether a file of the log in `folder` has anything but zeros.
fn has_records(folder: &Path) -> Result<bool, DurabilityError> {
    let failed = |path: &Path, error: io::Error| DurabilityError::io("cannot read", path, &error);
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        if path.extension().is_none_or(|extension| extension != "wal") {
            continue;
        }
        let mut file = fs::File::open(&path).map_err(|error| failed(&path, error))?;
        let mut window = vec![0; 1 << 16];
        loop {
            let read = file
                .read(&mut window)
                .map_err(|error| failed(&path, error))?;
            match read {
                0 => break,
                read if window[..read].iter().any(|byte| *byte != 0) => return Ok(true),
                _ => {}
            }
        }
    }
    Ok(false)
}

/// Moves all there is of a lost term out of the way, to a folder of the data directory.
///
/// # Errors
/// The kernel's.
pub(super) fn set_aside(directory: &DataDirectory, term: u64) -> Result<PathBuf, DurabilityError> {
    let kept = directory
        .path()
        .join(format!("log-damaged-term-{term:08x}"));
    let failed = |path: &Path, error: io::Error| {
        DurabilityError::io("cannot set aside what is left of", path, &error)
    };
    private::make_folder(&kept).map_err(|error| failed(&kept, error))?;
    let is_of_term = |name: &str, prefix: &str| {
        let digits = name.strip_prefix(prefix).and_then(|name| name.get(..16));
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.is_some_and(|number| number >> 32 == term)
    };
    let checkpoints = directory.checkpoints();
    let segments = checkpoints.join("segments");
    let mut moved = vec![
        folder_of(&directory.log(), term),
        Reached::of(directory.path(), term).path(),
    ];
    for (folder, prefix) in [(&checkpoints, "savepoint-"), (&segments, "")] {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| failed(folder, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed(folder, error))?;
            if is_of_term(&entry.file_name().to_string_lossy(), prefix) {
                moved.push(entry.path());
            }
        }
    }
    for path in moved.iter().filter(|path| path.exists()) {
        let name = path.file_name().unwrap_or_default();
        fs::rename(path, kept.join(name)).map_err(|error| failed(path, error))?;
    }
    sync_folder(&kept)?;
    Ok(kept)
}
