//! Load on storage, by `fio`, on the one file or device that the user names.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearfar_memory::sys::{Ending, SysError, free_bytes};
use serde_json::Value;

use super::in_use::users;
use super::traffic::StoragePattern;
use crate::process::{Ended, Place, Process, find_program};

/// Opens a block device only if nobody else has it (open(2)); the number is the same on all machines.
const EXCLUSIVE: i32 = 0o200;
/// The error of a device that is mounted or part of another (errno(3)).
const BUSY: i32 = 16;

/// Processes that are told by name.
const USERS_TOLD_MAX: usize = 8;

/// Bytes that are written between two looks at whether the user wants to stop.
const WRITTEN_BYTES: usize = 1 << 20;

/// The file or device that `fio` runs on, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageOptions {
    /// A file or a block device. A file that does not exist is made, and removed in the end.
    pub path: PathBuf,
    /// Bytes of a file that is made.
    pub bytes: u64,
    /// How requests are made: `libaio` or `io_uring`.
    pub engine: String,
    /// Requests under way for each thread; 16 in mao-2025.
    pub depth: u32,
    /// Whether requests go past the page cache.
    pub direct: bool,
    /// Whether what a file or device holds may be overwritten.
    pub overwrite: bool,
    /// How long a test of it takes; as long as other tests if it is none. 20 s in mao-2025.
    pub time: Option<Duration>,
}

/// Why storage cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The program that makes the load is not installed.
    #[error(
        "fio is not among the folders of PATH: install it, or leave out the file or device of the storage load"
    )]
    NoFio,
    /// The path cannot be used.
    #[error("{}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A file system that has no room for the file.
    #[error("{}: a file of {needed} bytes does not fit: its file system has {free} bytes left; ask for a smaller one, or name a file elsewhere", path.display())]
    Full {
        /// The path.
        path: PathBuf,
        /// Bytes that were asked for.
        needed: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// The file cannot be made.
    #[error("{}: the file cannot be made", path.display())]
    Make {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What a file system has left is not told.
    #[error("{}: the kernel does not tell how much room there is", path.display())]
    Room {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: SysError,
    },
    /// The program cannot be run.
    #[error("fio cannot be run")]
    Run(#[source] io::Error),
    /// The program failed.
    #[error("fio failed on {}: {words}", path.display())]
    Failed {
        /// The path.
        path: PathBuf,
        /// What it said.
        words: String,
    },
    /// The program moved nothing while it was measured.
    #[error("fio moved nothing on {} in the time that was measured: measure for longer (--storage-time)", path.display())]
    Nothing {
        /// The path.
        path: PathBuf,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Stopped,
}

/// Storage that was looked at, and can be used.
#[derive(Debug)]
pub(super) struct Storage {
    options: StorageOptions,
    fio: PathBuf,
    /// Whether the file is to be made, and removed in the end.
    is_ours: bool,
    is_made: bool,
    /// What a reader of figures of it should know.
    warning: Option<String>,
}

impl Storage {
    /// Looks whether the load can run, and whether writes may; changes nothing.
    pub(super) fn check(options: &StorageOptions, writes: bool) -> Result<Self, StorageError> {
        let fio = find_program("fio").ok_or(StorageError::NoFio)?;
        let wrong = |reason: &str| StorageError::Path {
            path: options.path.clone(),
            reason: reason.to_owned(),
        };
        let found = fs::metadata(&options.path);
        let warning = found
            .as_ref()
            .ok()
            .and_then(|found| open_elsewhere(&options.path, found));
        let is_ours = match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_room(options)?;
                true
            }
            Err(error) => return Err(wrong(&error.to_string())),
            Ok(found) if found.file_type().is_block_device() => {
                check_device(&options.path)?;
                false
            }
            Ok(found) if found.is_file() => false,
            Ok(_) => return Err(wrong("neither a file nor a block device: name one")),
        };
        if writes && !is_ours && !options.overwrite {
            return Err(wrong(
                "the load would overwrite what it holds: allow it (--storage-overwrite), leave out the \
                 writes, or name a file that does not exist",
            ));
        }
        Ok(Self {
            options: options.clone(),
            fio,
            is_ours,
            is_made: false,
            warning,
        })
    }

    /// What a reader of figures of it should know; none where nobody else has it open, as far as this process may see.
    pub(super) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Makes the file if there is none.
    pub(super) fn prepare(&mut self, stop: &AtomicBool) -> Result<(), StorageError> {
        if !self.is_ours || self.is_made {
            return Ok(());
        }
        let path = &self.options.path;
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let failed = |source| StorageError::Make {
            path: path.clone(),
            source,
        };
        let mut file = made.map_err(failed)?;
        self.is_made = true;
        match fill(&mut file, self.options.bytes, stop).map_err(failed)? {
            true => Ok(()),
            false => Err(StorageError::Stopped),
        }
    }

    /// Runs the load for so long, after a while in which it settles; its bytes per second, or `None` if
    /// it was stopped.
    pub(super) fn measure(
        &self,
        pattern: StoragePattern,
        load: &FioLoad,
        stop: &AtomicBool,
    ) -> Result<Option<f64>, StorageError> {
        let process = self.start(pattern, load)?;
        let ended = process.wait(stop).map_err(StorageError::Run)?;
        ended
            .map(|ended| self.bandwidth(pattern, &ended))
            .transpose()
    }

    /// Starts a load that runs until it is ended, or this process is.
    pub(super) fn start(
        &self,
        pattern: StoragePattern,
        load: &FioLoad,
    ) -> Result<Process, StorageError> {
        self.flush().map_err(StorageError::Run)?;
        let mut command = Command::new(&self.fio);
        command.args(arguments(&self.options, self.is_ours, pattern, load));
        let place = Place {
            cpus: load.cpus.clone(),
            nodes: None,
        };
        Process::start(command, place).map_err(StorageError::Run)
    }

    /// Writes what the page cache still holds of a load before, which could not be cleared otherwise.
    fn flush(&self) -> io::Result<()> {
        match self.options.direct {
            true => Ok(()),
            false => File::open(&self.options.path)?.sync_all(),
        }
    }

    /// The load, if it is running as it should.
    pub(super) fn running(&self, mut process: Process) -> Result<Process, StorageError> {
        if process.is_running().map_err(StorageError::Run)? {
            return Ok(process);
        }
        let ended = process.end(Ending::Interrupt).map_err(StorageError::Run)?;
        Err(self.failed(&ended))
    }

    /// Ends a load; its bytes per second.
    pub(super) fn finish(
        &self,
        pattern: StoragePattern,
        process: Process,
    ) -> Result<f64, StorageError> {
        let ended = process.end(Ending::Interrupt).map_err(StorageError::Run)?;
        self.bandwidth(pattern, &ended)
    }

    fn bandwidth(&self, pattern: StoragePattern, ended: &Ended) -> Result<f64, StorageError> {
        let direction = if pattern.writes() { "write" } else { "read" };
        let found = report(&ended.output).filter(|job| job["error"] == 0);
        let rate = found.and_then(|job| job[direction]["bw_bytes"].as_f64());
        match rate {
            Some(rate) if rate > 0.0 => Ok(rate),
            // Its requests began before that, or end later.
            Some(_) if ended.status.success() => Err(StorageError::Nothing {
                path: self.options.path.clone(),
            }),
            _ => Err(self.failed(ended)),
        }
    }

    fn failed(&self, ended: &Ended) -> StorageError {
        StorageError::Failed {
            path: self.options.path.clone(),
            words: ended.words(),
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.is_made {
            // There is nobody to be told of an error.
            let _ = fs::remove_file(&self.options.path);
        }
    }
}

/// How a load is run.
#[derive(Debug, Clone)]
pub(super) struct FioLoad {
    pub jobs: usize,
    /// Until measuring begins.
    pub settle: Duration,
    pub time: Duration,
    pub cpus: Vec<u32>,
}

/// The one job of a report, which is an object behind what else the program says.
pub(super) fn report(output: &str) -> Option<Value> {
    let begin = output.find('{')?;
    let mut documents = serde_json::Deserializer::from_str(&output[begin..]).into_iter::<Value>();
    let mut report = documents.next()?.ok()?;
    Some(report["jobs"].get_mut(0)?.take())
}

fn arguments(
    options: &StorageOptions,
    has_size: bool,
    pattern: StoragePattern,
    load: &FioLoad,
) -> Vec<OsString> {
    // A colon would separate two files.
    let path = options.path.to_string_lossy().replace(':', "\\:");
    let mut arguments = vec![
        "--name=nearfar".to_owned(),
        format!("--filename={path}"),
        format!("--rw={}", pattern.name()),
        "--bs=4k".to_owned(),
        format!("--iodepth={}", options.depth),
        format!("--ioengine={}", options.engine),
        format!("--direct={}", u8::from(options.direct)),
        format!("--numjobs={}", load.jobs),
        "--thread".to_owned(),
        "--group_reporting".to_owned(),
        "--time_based".to_owned(),
        format!("--ramp_time={}ms", load.settle.as_millis()),
        format!("--runtime={}ms", load.time.as_millis().max(1)),
        // The page cache holds nothing of the file when a test begins.
        "--invalidate=1".to_owned(),
        "--allow_file_create=0".to_owned(),
        "--output-format=json".to_owned(),
        "--eta=never".to_owned(),
    ];
    if has_size {
        arguments.push(format!("--size={}", options.bytes));
    }
    arguments.into_iter().map(OsString::from).collect()
}

/// Whether the file system of a file that is to be made has room for it.
fn check_room(options: &StorageOptions) -> Result<(), StorageError> {
    let path = options.path.clone();
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let free = free_bytes(&folder).map_err(|source| StorageError::Room {
        path: folder.clone(),
        source,
    })?;
    let needed = options.bytes;
    match needed <= free {
        true => Ok(()),
        false => Err(StorageError::Full { path, needed, free }),
    }
}

/// Whether nobody else uses a device.
fn check_device(path: &Path) -> Result<(), StorageError> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(EXCLUSIVE)
        .open(path);
    opened.map(drop).map_err(|error| of_device(path, &error))
}

/// Why a device could not be opened for this process alone.
fn of_device(path: &Path, error: &io::Error) -> StorageError {
    let reason = match error.raw_os_error() {
        Some(BUSY) => {
            "the device is in use, mounted or part of another one: name a free one, or a file on it"
                .to_owned()
        }
        _ => format!("the device cannot be opened: {error}"),
    };
    let path = path.to_owned();
    StorageError::Path { path, reason }
}

/// Who else has a file or a device open, for people.
fn open_elsewhere(path: &Path, found: &fs::Metadata) -> Option<String> {
    let users = users(Path::new("/proc"), found);
    let told = users.iter().take(USERS_TOLD_MAX);
    let told: Vec<String> = told
        .map(|user| format!("{} ({})", user.process, user.name))
        .collect();
    let more = match users.len().saturating_sub(USERS_TOLD_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!users.is_empty()).then(|| {
        format!(
            "{} is open in other processes, whose requests are in the figures, and whose content a load of writes \
             changes: {}{more}",
            path.display(),
            told.join(", ")
        )
    })
}

/// Writes a file full of numbers that no storage can compress; false if it was stopped.
fn fill(file: &mut File, bytes: u64, stop: &AtomicBool) -> io::Result<bool> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut block = vec![0_u8; WRITTEN_BYTES];
    let mut left = bytes;
    while left > 0 {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        for word in block.chunks_exact_mut(8) {
            // Xorshift (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_ne_bytes());
        }
        let now = left.min(WRITTEN_BYTES as u64);
        file.write_all(&block[..now as usize])?;
        left -= now;
    }
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn options(path: &Path) -> StorageOptions {
        StorageOptions {
            path: path.to_owned(),
            bytes: 3 << 20,
            engine: "libaio".to_owned(),
            depth: 16,
            direct: false,
            overwrite: false,
            time: None,
        }
    }

    fn storage(options: StorageOptions, is_ours: bool) -> Storage {
        Storage {
            options,
            fio: PathBuf::from("fio"),
            is_ours,
            is_made: false,
            warning: None,
        }
    }

    #[test]
    fn a_device_in_use_is_told_from_one_that_cannot_be_opened() {
        let of = |number| {
            let error = io::Error::from_raw_os_error(number);
            of_device(Path::new("/dev/nvme9n1"), &error).to_string()
        };
        let busy = of(BUSY);
        assert!(
            busy.starts_with("/dev/nvme9n1: the device is in use, mounted"),
            "{busy}"
        );
        // EACCES.
        assert!(of(13).contains("cannot be opened"), "{}", of(13));
    }

    /// Looks at a device that the kernel has mounted, where this process sees one.
    #[test]
    fn a_mounted_device_is_refused() {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let sources = mounts.lines().filter_map(|line| {
            let (_, source) = line.split_once(" - ")?;
            source.split(' ').nth(1).map(PathBuf::from)
        });
        let is_device = |path: &PathBuf| {
            let found = fs::metadata(path);
            found.is_ok_and(|found| found.file_type().is_block_device()) && File::open(path).is_ok()
        };
        let Some(device) = sources.into_iter().find(is_device) else {
            let skipped = "skipped: this process may open no device that is mounted\n";
            io::stderr().write_all(skipped.as_bytes()).unwrap();
            return;
        };
        let refused = check_device(&device).unwrap_err().to_string();
        assert!(refused.contains("the device is in use"), "{refused}");
    }

    #[test]
    fn a_file_that_others_have_open_is_told_with_who_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load");
        fs::write(&path, "somebody's").unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(open_elsewhere(&path, &found), None);
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(File::open(&path).unwrap())
            .spawn()
            .unwrap();
        let told = open_elsewhere(&path, &found);
        child.kill().unwrap();
        child.wait().unwrap();
        let told = told.unwrap();
        let expected = format!(
            "open in other processes, whose requests are in the figures, and whose content a load of writes changes: {} (",
            child.id()
        );
        assert!(told.contains(&expected), "{told}");
    }

    #[test]
    fn a_file_that_is_made_is_removed_and_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load");
        let mut made = storage(options(&path), true);
        made.prepare(&AtomicBool::new(false)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 3 << 20);
        drop(made);
        assert!(!path.exists());
        fs::write(&path, "somebody's").unwrap();
        let mut kept = storage(options(&path), false);
        kept.prepare(&AtomicBool::new(false)).unwrap();
        drop(kept);
        assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
        let mut late = storage(options(&path), true);
        assert!(
            late.prepare(&AtomicBool::new(false)).is_err(),
            "it has appeared meanwhile"
        );
        drop(late);
        assert!(path.exists(), "and is not ours");
    }

    #[test]
    fn an_interrupted_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load");
        let mut made = storage(options(&path), true);
        let stopped = made.prepare(&AtomicBool::new(true));
        assert!(matches!(stopped, Err(StorageError::Stopped)));
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn too_little_room_is_told_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(&folder.path().join("load"));
        options.bytes = u64::MAX;
        let error = check_room(&options).unwrap_err().to_string();
        assert!(
            error.contains(&u64::MAX.to_string()) && error.contains("left"),
            "{error}"
        );
        options.path = folder.path().join("missing").join("load");
        assert!(matches!(
            check_room(&options),
            Err(StorageError::Room { .. })
        ));
    }

    #[test]
    fn reports_are_found_behind_what_else_is_said() {
        let text = "\nfio: terminating on signal 2\n{\"jobs\": [{\"error\": 0}]}\nmore";
        assert_eq!(report(text).unwrap()["error"], 0);
        for wrong in ["", "{", "{}", "{\"jobs\": []}", "no report"] {
            assert_eq!(report(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_load_that_moves_nothing_is_told_from_one_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let storage = storage(options(&folder.path().join("load")), false);
        let of = |pattern, output: &str, code| {
            let ended = Ended {
                status: ExitStatus::from_raw(code << 8),
                elapsed: Duration::ZERO,
                output: output.to_owned(),
                errors: String::new(),
            };
            storage.bandwidth(pattern, &ended)
        };
        let text = "{\"jobs\": [{\"error\": 0, \"read\": {\"bw_bytes\": 0}, \"write\": {\"bw_bytes\": 7}}]}\nlast";
        assert_eq!(of(StoragePattern::Write, text, 0).unwrap(), 7.0);
        let nothing = of(StoragePattern::Read, text, 0).unwrap_err();
        assert!(matches!(nothing, StorageError::Nothing { .. }), "{nothing}");
        let message = nothing.to_string();
        assert!(
            message.contains("moved nothing") && !message.contains("last"),
            "{message}"
        );
        let failed = of(StoragePattern::Read, text, 1).unwrap_err();
        assert!(matches!(failed, StorageError::Failed { .. }), "{failed}");
        let failed = of(StoragePattern::Read, "no job", 0).unwrap_err();
        assert!(failed.to_string().ends_with("no job"), "{failed}");
    }

    #[test]
    fn the_load_is_that_of_the_paper() {
        let load = FioLoad {
            jobs: 2,
            settle: Duration::from_millis(300),
            time: Duration::from_secs(20),
            cpus: Vec::new(),
        };
        let options = options(Path::new("/a:b"));
        let found = arguments(&options, true, StoragePattern::RandomRead, &load);
        for expected in [
            "--filename=/a\\:b",
            "--rw=randread",
            "--bs=4k",
            "--iodepth=16",
            "--numjobs=2",
            "--ramp_time=300ms",
            "--runtime=20000ms",
            "--invalidate=1",
            "--size=3145728",
        ] {
            assert!(
                found.iter().any(|one| one == expected),
                "{expected} in {found:?}"
            );
        }
    }
}
