//! Checkpoints as files.
//!
//! ```text
//! savepoint-0000000000000007        the manifest of checkpoint 7
//! segments/0000000000000007-00000   a segment that checkpoint 7 was the first to have
//! ```
//!
//! A manifest is written under another name, and renamed when all that it speaks of is on the disk.
//! So the newest manifest that there is is whole, unless the disk has failed; damage is an error
//! and never a reason to take an older one.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::segment_file::SegmentFile;
use crate::error::{CheckpointError, DurableError};
use crate::manifest::{
    DatabaseManifest, Decoder, ManifestError, decode_database, encode_database, open, seal,
};
use crate::private;
use nearfar_table::placement::Storage;
use nearfar_table::table::Segment;

const MAGIC: &[u8; 8] = b"NFARSAVE";
const MANIFEST: &str = "savepoint-";
const UNFINISHED: &str = "unfinished-";
const SEGMENTS: &str = "segments";

/// A checkpoint in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Counts checkpoints.
    pub number: u64,
    /// Its manifest.
    pub path: PathBuf,
    /// What the log has behind this position is not part of it.
    pub log_position: u64,
    /// Bytes of its manifest and of its segments' files.
    pub bytes: u64,
    /// Bytes of those files that it was the first to have.
    pub new_bytes: u64,
}

/// Writes a checkpoint to `folder`, which is made if it is not there. Segments that an earlier one of
/// this folder has are not written again. One at a time for a folder.
///
/// # Errors
/// [`CheckpointError`], as a [`DurableError`]; memory that is refused to segments which are neither in
/// memory nor in the folder. Earlier checkpoints are untouched then.
pub fn write(
    folder: &Path,
    database: &DatabaseManifest,
    storage: &Storage,
) -> Result<CheckpointInfo, DurableError> {
    write_in_term(folder, database, storage, 0, || Ok(()))
}

/// The same under a number of this term, which no other process gives. `check_owner` is asked when all
/// segments are read, before the checkpoint counts: another owner of the pool may use the memory that
/// they were read from.
///
/// # Errors
/// As [`write()`], and that of `check_owner`.
pub(crate) fn write_in_term(
    folder: &Path,
    database: &DatabaseManifest,
    storage: &Storage,
    term: u64,
    check_owner: impl FnOnce() -> Result<(), DurableError>,
) -> Result<CheckpointInfo, DurableError> {
    let segments = folder.join(SEGMENTS);
    let failed = |source| CheckpointError::of_io(&segments, "made", source);
    private::make_folder(&segments).map_err(failed)?;
    let segments = segments.canonicalize().map_err(failed)?;
    let number = next_number(folder, &segments, term)?;
    let mut new = New {
        number,
        folder: &segments,
        segments: Vec::new(),
        bytes: 0,
    };
    let mut is_named = false;
    let written = new.write(database).and_then(|files| {
        sync_folder(&segments)?;
        let manifest = manifest(database, &files, storage)?;
        check_owner()?;
        write_manifest(folder, number, &manifest)?;
        is_named = true;
        sync_folder(folder)?;
        let all: u64 = files.iter().map(|file| file.bytes()).sum();
        Ok(CheckpointInfo {
            number,
            path: manifest_path(folder, number),
            log_position: database.log_position,
            bytes: manifest.len() as u64 + all,
            new_bytes: manifest.len() as u64 + new.bytes,
        })
    });
    for (segment, file) in new.segments {
        match is_named {
            // Where the folder could not be written, the manifest may be on disk all the same.
            true => segment.set_copy(file),
            // It would have been the first to have it.
            false => drop(fs::remove_file(file.path())),
        }
    }
    written
}

/// The newest checkpoint of `folder`; nothing where there is none.
///
/// # Errors
/// A folder that can't be read; a manifest that is damaged.
pub fn newest(folder: &Path) -> Result<Option<CheckpointInfo>, CheckpointError> {
    newest_of(folder, |_| true)
}

/// The newest of those whose numbers count.
///
/// # Errors
/// As [`newest`].
pub(crate) fn newest_of(
    folder: &Path,
    counts: impl Fn(u64) -> bool,
) -> Result<Option<CheckpointInfo>, CheckpointError> {
    let all = numbers(folder)?.into_iter();
    let Some(number) = all.filter(|number| counts(*number)).max() else {
        return Ok(None);
    };
    let manifest = Manifest::read(folder, number)?;
    Ok(Some(manifest.info(folder, number)))
}

/// Reads a checkpoint. Segments of the main storage are read when they are first needed, to where
/// their tables' placements say; the delta is read immediately.
///
/// # Errors
/// Files that are gone, torn or damaged; memory that is refused to the delta.
pub fn read(
    folder: &Path,
    checkpoint: &CheckpointInfo,
    storage: &Storage,
) -> Result<DatabaseManifest, DurableError> {
    let manifest = Manifest::read(folder, checkpoint.number)?;
    let damaged = |source| CheckpointError::Manifest {
        path: checkpoint.path.clone(),
        source,
    };
    let mut body = Decoder::new(&manifest.database);
    let (mut database, tables) = decode_database(&mut body, &storage.system).map_err(damaged)?;
    body.finish("the end of a checkpoint").map_err(damaged)?;
    for entry in tables {
        let mut segments = Vec::new();
        for (index, (part, _)) in entry.parts().enumerate() {
            let invalid = ManifestError::Invalid {
                what: "the segment of a table",
            };
            let file = manifest.files.get(part.segment);
            let file = file.ok_or_else(|| damaged(invalid))?;
            let placed = (entry.schema().as_ref(), entry.placements());
            let name = (entry.name(), index);
            segments.push(file.segment(name, placed.0, placed.1, storage)?);
        }
        database
            .tables
            .push(entry.into_manifest(segments).map_err(damaged)?);
    }
    Ok(database)
}

/// Deletes the checkpoints before `kept`, and files that it does not have and that nobody reads
/// any more; how many bytes of files it has deleted.
///
/// # Errors
/// [`CheckpointError`].
pub fn delete_old(folder: &Path, kept: &CheckpointInfo) -> Result<u64, CheckpointError> {
    let manifest = Manifest::read(folder, kept.number)?;
    let mut deleted = 0;
    for number in numbers(folder)?.into_iter().filter(|n| *n < kept.number) {
        deleted += remove(&manifest_path(folder, number))?;
    }
    sync_folder(folder)?;
    // What a later term has is none of this one's.
    let is_own = |number: &str| {
        u64::from_str_radix(number, 16).map_or(true, |number| number >> 32 <= kept.number >> 32)
    };
    for (name, path) in entries(folder)? {
        if name.strip_prefix(UNFINISHED).is_some_and(is_own) {
            deleted += remove(&path)?;
        }
    }
    let wanted: HashSet<&Path> = manifest.files.iter().map(|file| file.path()).collect();
    for (name, path) in entries(&manifest.folder)? {
        let (number, _) = name.split_once('-').unwrap_or((&name, ""));
        // Those of the manifest are in use by it, and of a later checkpoint there is none.
        if is_own(number) && !wanted.contains(path.as_path()) && !SegmentFile::is_in_use(&path) {
            deleted += remove(&path)?;
        }
    }
    Ok(deleted)
}

/// A checkpoint that is being written.
struct New<'a> {
    number: u64,
    folder: &'a Path,
    /// The segments that no earlier one has, and the files that it has made of them.
    segments: Vec<(Arc<Segment>, Arc<SegmentFile>)>,
    bytes: u64,
}

impl New<'_> {
    /// The files of all segments of `database`, in its order.
    fn write(
        &mut self,
        database: &DatabaseManifest,
    ) -> Result<Vec<Arc<SegmentFile>>, DurableError> {
        let mut files = Vec::new();
        for table in &database.tables {
            let main = table.snapshot.main().len();
            for (index, part) in table.snapshot.parts().iter().enumerate() {
                let known = part.segment.copy::<SegmentFile>();
                let known = known.filter(|file| file.path().parent() == Some(self.folder));
                if let Some(file) = known {
                    files.push(file);
                    continue;
                }
                let name = format!("{:016x}-{:05x}", self.number, self.segments.len());
                let path = self.folder.join(name);
                let file = SegmentFile::write(&path, &part.segment, index >= main)?;
                self.bytes += file.bytes();
                let segment = Arc::clone(&part.segment);
                self.segments.push((segment, Arc::clone(&file)));
                files.push(file);
            }
        }
        Ok(files)
    }
}

fn manifest(
    database: &DatabaseManifest,
    files: &[Arc<SegmentFile>],
    storage: &Storage,
) -> Result<Vec<u8>, CheckpointError> {
    let numbers: Vec<usize> = (0..files.len()).collect();
    let mut result = Ok(());
    let manifest = seal(MAGIC, |out| {
        out.u64(database.log_position);
        out.list(files.iter(), |out, file| file.encode(out));
        result = encode_database(out, database, &storage.system, &numbers);
    });
    let unsupported = |source| CheckpointError::Table {
        table: unsupported_table(database),
        source,
    };
    result.map_err(unsupported).map(|()| manifest)
}

/// The table with a column that can't be kept.
fn unsupported_table(database: &DatabaseManifest) -> String {
    let mut tables = database.tables.iter();
    let found = tables.find(|table| {
        crate::manifest::encode_schema(&mut crate::manifest::Encoder::default(), &table.schema)
            .is_err()
    });
    found.map_or_else(String::new, |table| table.name.clone())
}

/// The folder of the files of segments, as it is after links.
pub(super) fn segments(folder: &Path) -> PathBuf {
    let segments = folder.join(SEGMENTS);
    segments.canonicalize().unwrap_or(segments)
}

/// What a manifest says.
struct Manifest {
    folder: PathBuf,
    log_position: u64,
    files: Vec<Arc<SegmentFile>>,
    database: Vec<u8>,
    bytes: u64,
}

impl Manifest {
    fn read(folder: &Path, number: u64) -> Result<Self, CheckpointError> {
        let path = manifest_path(folder, number);
        let bytes = fs::read(&path);
        let bytes = bytes.map_err(|source| CheckpointError::of_io(&path, "read", source))?;
        let segments = folder.join(SEGMENTS);
        let segments = segments
            .canonicalize()
            .map_err(|source| CheckpointError::of_io(&segments, "read", source))?;
        let decoded = Self::decode(&bytes, segments);
        decoded.map_err(|source| CheckpointError::Manifest { path, source })
    }

    fn decode(bytes: &[u8], folder: PathBuf) -> Result<Self, ManifestError> {
        const WHAT: &str = "the files of a checkpoint";
        let mut body = open(MAGIC, "checkpoint", bytes)?;
        let log_position = body.u64("the position in the log")?;
        let files = body.list(WHAT, |body| SegmentFile::decode(body, &folder))?;
        Ok(Self {
            folder,
            log_position,
            files,
            database: body.rest().to_vec(),
            bytes: bytes.len() as u64,
        })
    }

    fn info(&self, folder: &Path, number: u64) -> CheckpointInfo {
        let all: u64 = self.files.iter().map(|file| file.bytes()).sum();
        CheckpointInfo {
            number,
            path: manifest_path(folder, number),
            log_position: self.log_position,
            bytes: self.bytes + all,
            new_bytes: 0,
        }
    }
}

fn write_manifest(folder: &Path, number: u64, bytes: &[u8]) -> Result<(), CheckpointError> {
    let unfinished = folder.join(format!("{UNFINISHED}{number:016x}"));
    let failed = |source| CheckpointError::of_io(&unfinished, "written", source);
    let mut file = private::create_anew(&unfinished).map_err(failed)?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed)
        .inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })?;
    let path = manifest_path(folder, number);
    let named = fs::rename(&unfinished, &path);
    named.map_err(|source| CheckpointError::of_io(&path, "written", source))
}

fn sync_folder(folder: &Path) -> Result<(), CheckpointError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| CheckpointError::of_io(folder, "written", source))
}

fn manifest_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{MANIFEST}{number:016x}"))
}

/// Names and paths of what is in a folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, CheckpointError> {
    let failed = |source| CheckpointError::of_io(folder, "read", source);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        found.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        ));
    }
    Ok(found)
}

/// The numbers of all checkpoints of `folder`.
///
/// # Errors
/// A folder that can't be read.
pub(crate) fn numbers(folder: &Path) -> Result<Vec<u64>, CheckpointError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let found = entries(folder)?.into_iter().filter_map(|(name, _)| {
        let number = name.strip_prefix(MANIFEST)?;
        u64::from_str_radix(number, 16).ok()
    });
    Ok(found.collect())
}

/// A number of this term that no checkpoint and no file of one has, not even one that was never
/// finished.
fn next_number(folder: &Path, segments: &Path, term: u64) -> Result<u64, CheckpointError> {
    let of_file = |(name, _): (String, PathBuf)| {
        let (number, _) = name.split_once('-')?;
        u64::from_str_radix(number, 16).ok()
    };
    let of_files = entries(segments)?.into_iter().filter_map(of_file);
    let all = numbers(folder)?.into_iter().chain(of_files);
    let last = all.filter(|number| number >> 32 == term).max();
    Ok(last.unwrap_or(term << 32) + 1)
}

fn remove(path: &Path) -> Result<u64, CheckpointError> {
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CheckpointError::of_io(path, "deleted", error))
        }
        _ => Ok(bytes),
    }
}
