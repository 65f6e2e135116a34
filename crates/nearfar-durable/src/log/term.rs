//! Terms: whose log and checkpoints of a data directory count.
//!
//! The process that owns a pool may be stopped while it writes, lose the pool to another one, and go
//! on afterwards. So each owner writes files of its own: the log in `log/term-N/`, checkpoints under
//! numbers whose upper half is N. A term begins when its file `BEGIN` is there, which says at which
//! position of the term before it does, and up to which checkpoint those of earlier terms count. What
//! an owner writes after that is of no account, and is written where it does no harm.
//!
//! N is taken by making the folder, and the claim on the pool is checked behind that. So terms that
//! begin follow each other as the claims do.
//!
//! After a backup was put back, numbers of terms and positions of the log come again, with other
//! contents. So a term also has an identity, drawn at random, which is published in the pool with the
//! position of the log: a publication counts only if the log up to there was written in the same terms.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::directory::{DataDirectory, random_identity, sync_folder, write_whole};
use super::lost::{lost_terms, set_aside};
use super::reached::Reached;
use super::store::Part;
use crate::checkpoint::pooled::TablePool;
use crate::error::DurabilityError;
use crate::private;

const FOLDER: &str = "term-";
const BEGIN: &str = "BEGIN";

/// What a term begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Begin {
    /// The term before.
    previous: u64,
    /// The position of the log.
    position: u64,
    /// The last checkpoint of earlier terms that counts.
    checkpoint: u64,
    /// The pool whose owner it is of; zero where there was none.
    pool: u128,
    /// Tells the term from all others.
    identity: u64,
    /// The identity of the term before, zero where there was none, and behind it those of the terms
    /// before that which end at [`Self::position`] too, since nothing was written after them.
    previous_identities: Vec<u64>,
}

/// The most identities that a term keeps of terms in which nothing was written.
const IDENTITIES_MAX: usize = 64;

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
    /// Tells the term from all others, also from those of the same number before a backup was put
    /// back; zero for term zero.
    pub identity: u64,
}

impl Term {
    /// A new term after the last one that has begun. The caller has the directory's lock, and the
    /// pool where there is one. Terms that have lost where they begin are set aside if `recovers` says
    /// so.
    ///
    /// # Errors
    /// [`DurabilityError::LostTerm`], and nothing is changed; [`DurabilityError::Fenced`]; the
    /// kernel's.
    pub fn new(
        directory: &DataDirectory,
        pool: Option<&TablePool>,
        recovers: bool,
    ) -> Result<Self, DurabilityError> {
        let log = directory.log();
        let folders = numbers(&log)?;
        let lost = lost_since_begun(directory, &folders)?;
        let last = folders.iter().chain(&lost).max().copied();
        for term in lost {
            if !recovers {
                let path = folder_of(&log, term).join(BEGIN);
                return Err(DurabilityError::LostTerm { path });
            }
            let kept = set_aside(directory, term)?;
            tracing::warn!(term, kept = %kept.display(), "the log of a term without BEGIN was set aside");
        }
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
            previous: newest.as_ref().map_or(0, |(number, _)| *number),
            begin_of_previous: newest.map(|(_, begin)| begin),
            pool: pool.map_or(0, TablePool::id),
            identity: match number {
                0 => 0,
                _ => random_identity(),
            },
            log,
        })
    }

    /// The folder of its log.
    pub fn folder(&self) -> PathBuf {
        folder_of(&self.log, self.number)
    }

    /// Whether a checkpoint of this number was written by who owned the directory then.
    pub fn counts(&self, checkpoint: u64) -> bool {
        let previous = self.begin_of_previous.as_ref();
        let accepted = previous.map_or(0, |begin| begin.checkpoint);
        checkpoint >> 32 == self.previous || checkpoint <= accepted
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
        let (mut number, mut begin) = (self.previous, self.begin_of_previous.clone());
        let mut end: Option<u64> = None;
        loop {
            let starts = begin.as_ref().map_or(0, |begin| begin.position);
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

    /// Has the term begin at `position` of the log, after `checkpoint`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin(&self, position: u64, checkpoint: u64) -> Result<(), DurabilityError> {
        if self.number == 0 {
            return Ok(());
        }
        let begin = Begin {
            previous: self.previous,
            position,
            checkpoint,
            pool: self.pool,
            identity: self.identity,
            previous_identities: self.previous_identities(position),
        };
        write_whole(&self.folder().join(BEGIN), begin.to_text().as_bytes())
    }

    /// Whether the log up to `position`, which is not before the last checkpoint, was written in the
    /// term of this identity and those before it. `end` is the end of the log.
    ///
    /// # Errors
    /// The kernel's.
    pub fn follows(
        &self,
        identity: u64,
        position: u64,
        mut end: u64,
    ) -> Result<bool, DurabilityError> {
        let mut begin = self.begin_of_previous.clone();
        let mut before = self.previous_identities(end);
        while position <= end {
            if before.contains(&identity) {
                return Ok(true);
            }
            let Some(known) = begin else { break };
            // The log of the terms before may be gone, but for which they were.
            (before, end) = (known.previous_identities, known.position.min(end));
            begin = read_begin(&folder_of(&self.log, known.previous))?;
        }
        Ok(false)
    }

    /// The terms that end at `position`, where this one begins.
    fn previous_identities(&self, position: u64) -> Vec<u64> {
        let Some(previous) = &self.begin_of_previous else {
            return vec![0];
        };
        let mut identities = vec![previous.identity];
        if previous.position == position {
            identities.extend(&previous.previous_identities);
            identities.truncate(IDENTITIES_MAX);
        }
        identities
    }

    /// How far the log was on disk at least that this term goes on from, as far as that is known.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reached_before(
        &self,
        directory: &DataDirectory,
    ) -> Result<Option<u64>, DurabilityError> {
        let before = match self.number {
            0 => 0,
            _ => self.previous,
        };
        Reached::of(directory.path(), before).read()
    }

    /// Removes what is left of terms that are no part of the log `in_use` any more; or moves it to
    /// `kept`, where something of the log was lost.
    pub fn remove_others(&self, in_use: &[Part], kept: Option<&Path>) {
        for number in numbers(&self.log).unwrap_or_default() {
            let folder = folder_of(&self.log, number);
            let is_used = in_use.iter().any(|part| part.folder() == folder);
            let remove = || match (kept, folder.file_name()) {
                (Some(kept), Some(name)) => fs::rename(&folder, kept.join(name)),
                _ => fs::remove_dir_all(&folder),
            };
            if number < self.number
                && !is_used
                && let Err(error) = remove()
            {
                tracing::warn!(%error, "the log of an earlier owner can't be removed");
            }
        }
    }
}

/// The terms among `folders`, and others of which something is there, that have lost their `BEGIN`.
fn lost_since_begun(
    directory: &DataDirectory,
    folders: &[u64],
) -> Result<BTreeSet<u64>, DurabilityError> {
    let log = directory.log();
    let begun = || Ok(newest(&log, u64::MAX)?.map_or(0, |(number, _)| number));
    loop {
        let before = begun()?;
        let lost = lost_terms(directory, folders, before)?;
        // An earlier owner that was stopped may have begun meanwhile.
        if lost.is_empty() || begun()? == before {
            return Ok(lost);
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

pub(super) fn folder_of(log: &Path, number: u64) -> PathBuf {
    match number {
        0 => log.to_owned(),
        number => log.join(format!("{FOLDER}{number:08x}")),
    }
}

/// Makes the folder of the first number from `number` on that nobody has.
fn make_folder(log: &Path, mut number: u64) -> Result<u64, DurabilityError> {
    loop {
        let folder = folder_of(log, number);
        match private::make_new_folder(&folder) {
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
    fn to_text(&self) -> String {
        let Self {
            previous,
            position,
            checkpoint,
            pool,
            identity,
            previous_identities,
        } = self;
        let identities = previous_identities.iter().map(|one| format!(" {one:016x}"));
        let identities: String = identities.collect();
        format!(
            "previous {previous}\nposition {position}\nsavepoint {checkpoint}\npool {pool:032x}\n\
             identity {identity:016x}\nprevious-identities{identities}\n"
        )
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Self {
            previous: value("previous")?.parse().ok()?,
            position: value("position")?.parse().ok()?,
            checkpoint: value("savepoint")?.parse().ok()?,
            pool: u128::from_str_radix(value("pool")?, 16).ok()?,
            identity: u64::from_str_radix(value("identity")?, 16).ok()?,
            previous_identities: value("previous-identities")?
                .split(' ')
                .map(|digits| u64::from_str_radix(digits, 16).ok())
                .collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data directory whose log has, of term zero, 1,000 bytes; of term 1, which began at 800, the
    /// bytes up to 1,200; of term 3 the bytes from 1,100 to 1,500; and of term 2 a folder.
    fn directory(folder: &Path) -> DataDirectory {
        let directory = DataDirectory::open(folder, None).expect("a directory");
        let log = directory.log();
        for (number, end) in [(0, 1000), (1, 1200), (2, 0), (3, 1500)] {
            let own = folder_of(&log, number);
            fs::create_dir_all(&own).expect("made");
            if end > 0 {
                let bytes = vec![number as u8; end];
                fs::write(own.join(format!("{:020}.wal", 0)), bytes).expect("written");
            }
        }
        for (number, previous, position, checkpoint) in [(1, 0, 800, 5), (3, 1, 1100, 1 << 32 | 7)]
        {
            let begin = Begin {
                previous,
                position,
                checkpoint,
                pool: 9,
                identity: 100 + number,
                previous_identities: vec![if previous == 0 { 0 } else { 100 + previous }],
            };
            let path = folder_of(&log, number).join(BEGIN);
            fs::write(path, begin.to_text()).expect("written");
        }
        directory
    }

    #[test]
    fn without_a_pool_there_is_one_term_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = DataDirectory::open(folder.path(), None).expect("a directory");
        for _ in 0..2 {
            let term = Term::new(&directory, None, false).expect("a term");
            assert_eq!((term.number, term.folder()), (0, directory.log()));
            term.begin(100, 3).expect("nothing to do");
            assert!(term.earlier(0).expect("none").is_empty());
            assert!(term.counts(1) && term.counts(700));
        }
        assert_eq!(last_pool(&directory.log()).expect("read"), None);
    }

    #[test]
    fn a_term_follows_the_last_that_has_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = directory(folder.path());
        assert_eq!(last_pool(&directory.log()).expect("read"), Some(9));
        let term = Term::new(&directory, None, false).expect("a term");
        assert_eq!((term.number, term.previous), (4, 3));
        // One that was given up leaves a folder.
        let term = Term::new(&directory, None, false).expect("a term");
        assert_eq!((term.number, term.previous), (5, 3));
        term.begin(1400, 3 << 32 | 2).expect("begun");
        let next = Term::new(&directory, None, false).expect("a term");
        assert_eq!((next.number, next.previous), (6, 5));
        assert_eq!(last_pool(&directory.log()).expect("read"), Some(0));
    }

    #[test]
    fn checkpoints_count_that_were_written_in_their_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let term = Term::new(&directory(folder.path()), None, false).expect("a term");
        let counted = [5, 1 << 32 | 6, 1 << 32 | 7, 3 << 32 | 1, 3 << 32 | 900];
        // Of a fenced owner; of one that never began.
        let late = [1 << 32 | 8, 2 << 32 | 1, 4 << 32 | 1];
        assert!(counted.into_iter().all(|number| term.counts(number)));
        assert!(!late.into_iter().any(|number| term.counts(number)));
    }

    #[test]
    fn the_log_is_that_of_each_owner_up_to_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = directory(folder.path());
        let term = Term::new(&directory, None, false).expect("a term");
        let parts = |position| {
            let parts = term.earlier(position).expect("parts");
            let of = |part: &Part| (part.folder().to_owned(), part.range());
            parts.iter().map(of).collect::<Vec<_>>()
        };
        let own = |number, range| (folder_of(&directory.log(), number), range);
        let (zero, one, three) = (own(0, 0..800), own(1, 800..1100), own(3, 1100..1500));
        assert_eq!(parts(0), [zero.clone(), one.clone(), three.clone()]);
        assert_eq!(parts(799), [zero, one.clone(), three.clone()]);
        assert_eq!(parts(800), [one, three.clone()]);
        assert_eq!(parts(1100), std::slice::from_ref(&three));
        // What is no part of the log any more goes, and nothing of later terms.
        fs::create_dir(folder_of(&directory.log(), 8)).expect("made");
        term.remove_others(&term.earlier(1100).expect("parts"), None);
        let left = numbers(&directory.log()).expect("numbers");
        assert_eq!(BTreeSet::from_iter(left), BTreeSet::from([3, 4, 8]));
    }

    #[test]
    fn a_position_counts_in_the_terms_that_the_log_was_written_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = directory(folder.path());
        let term = Term::new(&directory, None, false).expect("a term");
        let follows = |identity, position| term.follows(identity, position, 1500).expect("read");
        // Term zero had up to 800, term 1 up to 1,100, term 3 up to the end.
        assert!(follows(103, 1500) && follows(103, 1100) && !follows(103, 1501));
        assert!(follows(101, 1100) && follows(101, 900) && !follows(101, 1101));
        assert!(follows(0, 800) && !follows(0, 801));
        // Term 2 never began; others are of another history of the directory.
        assert!(!follows(102, 1100) && !follows(7, 900));
        // What is left of a term is in the one behind it, also when its log is gone.
        fs::remove_dir_all(folder_of(&directory.log(), 1)).expect("removed");
        assert!(follows(101, 1100) && !follows(101, 1101) && !follows(0, 800));
    }

    #[test]
    fn terms_in_which_nothing_was_written_are_known_once_they_are_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = directory(folder.path());
        for _ in 0..5 {
            let term = Term::new(&directory, None, false).expect("a term");
            assert!(term.follows(103, 1500, 1500).expect("read"));
            assert!(!term.follows(101, 1500, 1500).expect("read"));
            fs::create_dir_all(term.folder()).expect("made");
            term.begin(1500, 3 << 32 | 1).expect("begun");
            term.remove_others(&[], None);
        }
    }

    #[test]
    fn a_number_is_taken_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = std::thread::scope(|scope| {
            let log = folder.path();
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(move || make_folder(log, 1).expect("made")))
                .collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|number| number.expect("a number")).collect()
        });
        assert_eq!(BTreeSet::from_iter(1..=8), taken);
    }

    #[test]
    fn a_beginning_that_is_not_what_was_written_is_refused_by_name() {
        let begin = Begin {
            previous: 3,
            position: u64::MAX,
            checkpoint: 3 << 32 | 1,
            pool: u128::MAX,
            identity: u64::MAX,
            previous_identities: vec![1, 0],
        };
        let text = begin.to_text();
        assert_eq!(Begin::of_text(&text), Some(begin));
        let folder = tempfile::tempdir().expect("a folder");
        let directory = directory(folder.path());
        let path = folder_of(&directory.log(), 3).join(BEGIN);
        for end in 0..text.len() - 1 {
            fs::write(&path, &text[..end]).expect("written");
            // A last number that is cut is a number, which is why the file is renamed when it is whole.
            let last = "previous-identities ";
            let is_number = end > text.find(last).expect("there") + last.len();
            match Term::new(&directory, None, false) {
                Ok(_) => assert!(is_number, "{end}"),
                Err(error) => assert!(error.to_string().contains(BEGIN), "{error}"),
            }
        }
    }
}
