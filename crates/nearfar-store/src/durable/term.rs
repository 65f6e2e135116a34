//! Terms: whose log and savepoints of a data directory count.
//!
//! The process that owns a pool may be stopped while it writes, lose the pool to another one, and go
//! on afterwards. So each owner writes files of its own: the log in `log/term-N/`, savepoints under
//! numbers whose upper half is N. A term begins when its file `BEGIN` is there, which says at which
//! position of the term before it does, and up to which savepoint those of earlier terms count. What
//! an owner writes after that is of no account, and is written where it does no harm.
//!
//! N is taken by making the folder, and the claim on the pool is checked behind that. So terms that
//! begin follow each other as the claims do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::{DataDirectory, sync_folder, write_whole};
use super::error::DurabilityError;
use super::store::Part;
use crate::savepoint::pooled::TablePool;

const FOLDER: &str = "term-";
const BEGIN: &str = "BEGIN";

/// What a term begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Begin {
    /// The term before.
    previous: u64,
    /// The position of the log.
    position: u64,
    /// The last savepoint of earlier terms that counts.
    savepoint: u64,
    /// The pool whose owner it is of; zero where there was none.
    pool: u128,
}

/// The time in which one process writes the data directory.
#[derive(Debug)]
pub(super) struct Term {
    /// Zero without a pool, and where there never was one.
    pub number: u64,
    log: PathBuf,
    previous: u64,
    /// None where the one before is term zero.
    begin_of_previous: Option<Begin>,
    pool: u128,
}

impl Term {
    /// A new term after the last one that has begun. The caller has the directory's lock, and the
    /// pool where there is one.
    ///
    /// # Errors
    /// [`DurabilityError::Fenced`]; the kernel's.
    pub fn new(
        directory: &DataDirectory,
        pool: Option<&TablePool>,
    ) -> Result<Self, DurabilityError> {
        let log = directory.log();
        let last = numbers(&log)?.into_iter().max();
        let number = match (pool, last) {
            (None, None) => 0,
            (_, last) => make_folder(&log, last.unwrap_or(0) + 1)?,
        };
        if let Some(pool) = pool {
            pool.check_owner()
                .map_err(|by| DurabilityError::fenced(&by))?;
        }
        let newest = newest(&log, number)?;
        Ok(Self {
            number,
            previous: newest.map_or(0, |(number, _)| number),
            begin_of_previous: newest.map(|(_, begin)| begin),
            pool: pool.map_or(0, TablePool::id),
            log,
        })
    }

    /// The folder of its log.
    pub fn folder(&self) -> PathBuf {
        folder_of(&self.log, self.number)
    }

    /// Whether a savepoint of this number was written by who owned the directory then.
    pub fn counts(&self, savepoint: u64) -> bool {
        let accepted = self.begin_of_previous.map_or(0, |begin| begin.savepoint);
        savepoint >> 32 == self.previous || savepoint <= accepted
    }

    /// The logs of earlier terms, from the one that has `position` on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn earlier(&self, position: u64) -> Result<Vec<Part>, DurabilityError> {
        let mut parts = Vec::new();
        if self.number == 0 {
            return Ok(parts);
        }
        let (mut number, mut begin) = (self.previous, self.begin_of_previous);
        let mut end: Option<u64> = None;
        loop {
            let starts = begin.map_or(0, |begin| begin.position);
            let folder = folder_of(&self.log, number);
            parts.push(Part::open(folder, starts, end)?);
            let Some(known) = begin.filter(|begin| begin.position > position) else {
                break;
            };
            // A term may begin before the one before it did, if that one's log was damaged.
            end = Some(end.map_or(starts, |end| end.min(starts)));
            number = known.previous;
            begin = read_begin(&folder_of(&self.log, number))?;
            if begin.is_none() && number != 0 {
                break;
            }
        }
        parts.reverse();
        Ok(parts)
    }

    /// Has the term begin at `position` of the log, after `savepoint`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin(&self, position: u64, savepoint: u64) -> Result<(), DurabilityError> {
        if self.number == 0 {
            return Ok(());
        }
        let begin = Begin {
            previous: self.previous,
            position,
            savepoint,
            pool: self.pool,
        };
        write_whole(&self.folder().join(BEGIN), begin.to_text().as_bytes())
    }

    /// Removes what is left of terms that are no part of the log `in_use` any more.
    pub fn remove_others(&self, in_use: &[Part]) {
        for number in numbers(&self.log).unwrap_or_default() {
            let folder = folder_of(&self.log, number);
            let is_used = in_use.iter().any(|part| part.folder() == folder);
            if number < self.number
                && !is_used
                && let Err(error) = fs::remove_dir_all(&folder)
            {
                tracing::warn!(%error, "the log of an earlier owner can't be removed");
            }
        }
    }
}

/// The pool that the directory was written with last; zero for one without, none where there is
/// no such term.
///
/// # Errors
/// The kernel's.
pub(super) fn last_pool(log: &Path) -> Result<Option<u128>, DurabilityError> {
    Ok(newest(log, u64::MAX)?.map(|(_, begin)| begin.pool))
}

fn folder_of(log: &Path, number: u64) -> PathBuf {
    match number {
        0 => log.to_owned(),
        number => log.join(format!("{FOLDER}{number:08x}")),
    }
}

/// Makes the folder of the first number from `number` on that nobody has.
fn make_folder(log: &Path, mut number: u64) -> Result<u64, DurabilityError> {
    loop {
        let folder = folder_of(log, number);
        match fs::create_dir(&folder) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(DurabilityError::io("cannot make folder", folder, &error)),
        }
    }
    sync_folder(log)?;
    Ok(number)
}

/// The numbers of all terms but zero.
fn numbers(log: &Path) -> Result<Vec<u64>, DurabilityError> {
    let failed = |error: io::Error| DurabilityError::io("cannot read", log, &error);
    let entries = match fs::read_dir(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(FOLDER));
        numbers.extend(number.and_then(|number| u64::from_str_radix(number, 16).ok()));
    }
    Ok(numbers)
}

/// The last term before `number` that has begun.
fn newest(log: &Path, number: u64) -> Result<Option<(u64, Begin)>, DurabilityError> {
    let mut terms = numbers(log)?;
    terms.sort_unstable();
    for term in terms.into_iter().rev().filter(|term| *term < number) {
        if let Some(begin) = read_begin(&folder_of(log, term))? {
            return Ok(Some((term, begin)));
        }
    }
    Ok(None)
}

fn read_begin(folder: &Path) -> Result<Option<Begin>, DurabilityError> {
    let path = folder.join(BEGIN);
    match fs::read_to_string(&path) {
        Ok(text) => Begin::of_text(&text).map(Some).ok_or_else(|| {
            let error = io::Error::other("it is not what was written");
            DurabilityError::io("cannot read", &path, &error)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DurabilityError::io("cannot read", &path, &error)),
    }
}

impl Begin {
    fn to_text(self) -> String {
        let Self {
            previous,
            position,
            savepoint,
            pool,
        } = self;
        format!(
            "previous {previous}\nposition {position}\nsavepoint {savepoint}\npool {pool:032x}\n"
        )
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Self {
            previous: value("previous")?.parse().ok()?,
            position: value("position")?.parse().ok()?,
            savepoint: value("savepoint")?.parse().ok()?,
            pool: u128::from_str_radix(value("pool")?, 16).ok()?,
        })
    }
}
