//! The file or device behind shared memory: its size, its pages, and who holds it.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::{BASE_PAGE_BYTES, HUGE_PAGE_BYTES, SysError};

/// A flag of `open`: what is at the path is no symbolic link, or opening it fails (open(2), `O_NOFOLLOW`).
pub const NO_FOLLOW: i32 = libc::O_NOFOLLOW;

/// `f_type` of tmpfs (linux/magic.h).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// What a shared file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedKind {
    /// A file on tmpfs (or a like file system in memory).
    Tmpfs,
    /// A DAX device.
    DaxDevice,
    /// A file on another file system.
    Regular,
}

/// An open file or DAX device.
#[derive(Debug)]
pub struct SharedFile {
    file: File,
    kind: SharedKind,
}

fn error(call: &'static str, source: &std::io::Error) -> SysError {
    SysError {
        call,
        errno: source.raw_os_error().unwrap_or(0),
    }
}

impl SharedFile {
    /// Opens what is at `path`.
    ///
    /// # Errors
    /// Those of `open`, `fstat` and `fstatfs`.
    pub fn open(path: &Path) -> Result<Self, SysError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Self::of(file.map_err(|source| error("open", &source))?)
    }

    /// The same; a file of this mode, whatever the umask, is made where there is none.
    ///
    /// # Errors
    /// As [`Self::open`], and that of `fchmod`.
    pub fn open_or_make(path: &Path, mode: u32) -> Result<Self, SysError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(mode);
        match options.open(path) {
            Ok(made) => {
                let restricted = made.set_permissions(Permissions::from_mode(mode));
                restricted.map_err(|source| error("fchmod", &source))?;
                Self::of(made)
            }
            Err(source) if source.kind() == ErrorKind::AlreadyExists => Self::open(path),
            Err(source) => Err(error("open", &source)),
        }
    }

    fn of(file: File) -> Result<Self, SysError> {
        let metadata = file.metadata().map_err(|source| error("fstat", &source))?;
        let kind = if metadata.file_type().is_char_device() {
            SharedKind::DaxDevice
        } else if is_on_tmpfs(&file)? {
            SharedKind::Tmpfs
        } else {
            SharedKind::Regular
        };
        Ok(Self { file, kind })
    }

    /// Takes from a file what others than its owner may do, but for its group to read it. Nothing for
    /// a device, or for a file of another user.
    ///
    /// # Errors
    /// Those of `fstat` and `fchmod`.
    pub fn close_to_others(&self) -> Result<(), SysError> {
        const ALLOWED: u32 = 0o640;
        let metadata = self.file.metadata();
        let mode = metadata.map_err(|source| error("fstat", &source))?.mode() & 0o777;
        if self.kind == SharedKind::DaxDevice || mode & !ALLOWED & 0o077 == 0 {
            return Ok(());
        }
        let closed = Permissions::from_mode(mode & ALLOWED);
        match self.file.set_permissions(closed) {
            Err(source) if source.kind() != ErrorKind::PermissionDenied => {
                Err(error("fchmod", &source))
            }
            _ => Ok(()),
        }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> SharedKind {
        self.kind
    }

    /// Bytes of the file or device (Documentation/ABI/testing/sysfs-bus-dax: `size`).
    ///
    /// # Errors
    /// That of `fstat`, or of reading the device's size.
    pub fn bytes(&self) -> Result<u64, SysError> {
        let metadata = self
            .file
            .metadata()
            .map_err(|source| error("fstat", &source))?;
        if self.kind != SharedKind::DaxDevice {
            return Ok(metadata.len());
        }
        self.number("size", "read of the device's size")
    }

    /// What offsets and lengths of a mapping are multiples of: a device says it; of a file that stands
    /// for one it is 2 MiB, as of a device that was not made with another.
    ///
    /// # Errors
    /// That of reading the device's alignment.
    pub fn align_bytes(&self) -> Result<usize, SysError> {
        if self.kind != SharedKind::DaxDevice {
            return Ok(HUGE_PAGE_BYTES);
        }
        let bytes = self.number("align", "read of the device's alignment")?;
        let is_possible = bytes.is_power_of_two() && bytes >= BASE_PAGE_BYTES as u64;
        let bytes = usize::try_from(bytes).ok().filter(|_| is_possible);
        bytes.ok_or(SysError {
            call: "read of the device's alignment",
            errno: libc::EINVAL,
        })
    }

    /// A number that sysfs has of the device.
    fn number(&self, attribute: &str, call: &'static str) -> Result<u64, SysError> {
        let metadata = self.file.metadata();
        let device = metadata.map_err(|source| error("fstat", &source))?.rdev();
        let (major, minor) = (libc::major(device), libc::minor(device));
        let text = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/{attribute}"));
        let text = text.map_err(|source| error(call, &source))?;
        text.trim().parse().map_err(|_| SysError {
            call,
            errno: libc::EINVAL,
        })
    }

    /// The number of its inode.
    ///
    /// # Errors
    /// That of `fstat`.
    pub fn inode(&self) -> Result<u64, SysError> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|source| error("fstat", &source))?.ino())
    }

    /// The descriptor, for calls of this module.
    pub(super) fn descriptor(&self) -> libc::c_int {
        self.file.as_raw_fd()
    }

    /// Bytes of a file that have pages; zero for a device.
    ///
    /// # Errors
    /// That of `fstat`.
    pub fn allocated_bytes(&self) -> Result<u64, SysError> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|source| error("fstat", &source))?;
        Ok(metadata.blocks() * 512)
    }

    /// Makes a file this long; its pages come with [`Self::reserve`]. Nothing for a device.
    ///
    /// # Errors
    /// That of `ftruncate`.
    pub fn set_bytes(&self, bytes: u64) -> Result<(), SysError> {
        if self.kind == SharedKind::DaxDevice {
            return Ok(());
        }
        self.file
            .set_len(bytes)
            .map_err(|source| error("ftruncate", &source))
    }

    /// Makes sure that there are pages for a range (`fallocate`): touching it later can then not
    /// end in a `SIGBUS` for want of memory. Nothing for a device.
    ///
    /// # Errors
    /// That of `fallocate`: `ENOSPC` where there is no room.
    pub fn reserve(&self, range: Range<u64>) -> Result<(), SysError> {
        self.fallocate(0, range)
    }

    /// Gives the pages of a range back; they read as zero afterwards. Nothing for a device.
    ///
    /// # Errors
    /// That of `fallocate`: `EOPNOTSUPP` where the file system cannot.
    pub fn release(&self, range: Range<u64>) -> Result<(), SysError> {
        self.fallocate(
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            range,
        )
    }

    fn fallocate(&self, mode: libc::c_int, range: Range<u64>) -> Result<(), SysError> {
        if self.kind == SharedKind::DaxDevice || range.is_empty() {
            return Ok(());
        }
        let (offset, length) = (
            range.start as libc::off_t,
            (range.end - range.start) as libc::off_t,
        );
        // SAFETY: the call takes a descriptor that is open and three numbers.
        match unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, length) } {
            0 => Ok(()),
            _ => Err(SysError::last("fallocate")),
        }
    }

    /// Takes the file's lock (`flock`), which ends with this process; false when another has it.
    ///
    /// # Errors
    /// That of `flock`.
    pub fn try_lock(&self) -> Result<bool, SysError> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => Err(error("flock", &source)),
        }
    }

    /// The process that has the lock, where the kernel tells (`/proc/locks`, proc_locks(5)).
    #[must_use]
    pub fn lock_owner(&self) -> Option<u32> {
        let metadata = self.file.metadata().ok()?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        let (major, minor) = (libc::major(device), libc::minor(device));
        let key = format!("{major:02x}:{minor:02x}:{inode}");
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        // `1: FLOCK  ADVISORY  WRITE 1234 00:05:678 0 EOF`
        let mut holders = locks.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let is_it = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&key.as_str());
            words.get(4).filter(|_| is_it)?.parse().ok()
        });
        // One of another name space of processes has no number here.
        holders.find(|pid| *pid > 0)
    }

    /// Gives the lock back.
    pub fn unlock(&self) {
        // An open file can be unlocked; the lock ends with it in any case.
        let _ = self.file.unlock();
    }
}

fn is_on_tmpfs(file: &File) -> Result<bool, SysError> {
    // SAFETY: all bit patterns of this plain structure are values, zero among them.
    let mut state: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the structure is writable.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut state) } {
        0 => Ok(state.f_type as i64 == TMPFS_MAGIC),
        _ => Err(SysError::last("fstatfs")),
    }
}

// Not under Miri, which knows none of these calls.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let first = SharedFile::open_or_make(&path, 0o600).unwrap();
        let second = SharedFile::open(&path).unwrap();
        assert!(first.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        first.unlock();
        assert!(second.try_lock().unwrap());
    }

    #[test]
    fn pages_come_and_go() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = SharedFile::open_or_make(&folder.path().join("pool"), 0o600).unwrap();
        assert_eq!(file.kind(), SharedKind::Tmpfs);
        file.set_bytes(1 << 20).unwrap();
        let allocated = || file.allocated_bytes().unwrap();
        assert_eq!((file.bytes().unwrap(), allocated()), (1 << 20, 0));
        file.reserve(0..8192).unwrap();
        assert_eq!(allocated(), 8192);
        file.release(0..4096).unwrap();
        assert_eq!(allocated(), 4096);
    }
}
