//! The processor's own prefetchers, switched off while a run lasts.
//!
//! Intel's large cores have a register of which a bit switches each of four off (`MSR_PREFETCH_CONTROL`, 1A4h: the L2
//! streamer, the L2 adjacent line, the L1 next line and the L1 prefetcher by instruction pointer), and so have AMD's since
//! Zen 4 (`PrefetchControl`, C000_0108h: L1 stream, stride and region, L2 stream and up/down). The kernel's module `msr` lets
//! root read and write it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nearfar_memory::Keeper;
use nearfar_memory::sys::allowed_cpus;
use nearfar_topology::perf::{is_intel, is_zen_4_or_later};

const CPUS: &str = "/dev/cpu";

/// A register of every core, and its bits that each switch a prefetcher off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Register {
    number: u64,
    off: u64,
}

const INTEL: Register = Register {
    number: 0x1A4,
    off: 0b1111,
};
const AMD: Register = Register {
    number: 0xC000_0108,
    off: 0b10_1111,
};

/// Why prefetchers cannot be switched off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrefetcherError {
    /// A processor of which no such register is known.
    #[error(
        "the prefetchers of this processor cannot be switched off: that is known of Intel's and, since Zen 4, of AMD's"
    )]
    UnknownProcessor,
    /// The kernel does not tell which processors may be used.
    #[error(transparent)]
    Cpus(#[from] nearfar_memory::sys::SysError),
    /// A register that cannot be read or written.
    #[error(
        "prefetchers cannot be switched off through {}, which takes root, the kernel's module msr (modprobe msr), and a \
         kernel that is not locked down",
        file.display()
    )]
    Register {
        /// The kernel's file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A register that is not there, has other bits, or keeps nothing.
    #[error(
        "prefetchers cannot be switched off through {}: the register is not there or does not keep what is written, as \
         in virtual machines and on small cores",
        file.display()
    )]
    KeepsNothing {
        /// The kernel's file.
        file: PathBuf,
    },
    /// Somebody else's are off.
    #[error(
        "prefetchers cannot be switched off: another run has them switched off already; wait for its end"
    )]
    InUse,
    /// What puts them back cannot be started.
    #[error("no shell can be started that switches prefetchers on again")]
    Keeper(#[source] io::Error),
}

/// Prefetchers of the processors of this process, which are off until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct PrefetchersOff {
    register: Register,
    /// What was in each.
    before: Vec<(PathBuf, u64)>,
    /// Puts the registers back where this process is killed, and holds the lock.
    _keeper: Keeper,
}

/// Writes, to each file that it is given, the bytes behind it at an offset, which comes first.
const PUT_BACK: &str = r#"failed=0
offset=$1
shift
while [ $# -gt 1 ]; do
    printf "$2" | dd of="$1" bs=8 count=1 iflag=fullblock oflag=seek_bytes seek="$offset" conv=notrunc || failed=1
    shift 2
done
exit $failed"#;

impl PrefetchersOff {
    /// Switches all of them off.
    ///
    /// # Errors
    /// [`PrefetcherError`]; they are as they were.
    pub(crate) fn switch() -> Result<Self, PrefetcherError> {
        Self::through(Path::new(CPUS), register()?, &allowed_cpus()?)
    }

    /// Finds out whether they could be, as far as that is known without doing it.
    ///
    /// # Errors
    /// [`PrefetcherError`].
    pub(crate) fn check() -> Result<(), PrefetcherError> {
        let register = register()?;
        for cpu in allowed_cpus()? {
            let file = file_of(Path::new(CPUS), cpu);
            read(&file, register)?;
            open_to_write(&file)?;
        }
        Ok(())
    }

    fn through(folder: &Path, register: Register, cpus: &[u32]) -> Result<Self, PrefetcherError> {
        let lock = locked(folder)?;
        let mut before = Vec::new();
        for cpu in cpus {
            let file = file_of(folder, *cpu);
            let value = read(&file, register)?;
            before.push((file, value));
        }
        let offset = std::iter::once(register.number.to_string().into());
        let values = before
            .iter()
            .flat_map(|(file, value)| [file.clone().into_os_string(), octal(*value).into()]);
        let keeper = Keeper::start(
            "the processor's prefetchers",
            PUT_BACK,
            offset.chain(values),
            Some(lock),
        );
        let prefetchers = Self {
            register,
            before,
            _keeper: keeper.map_err(PrefetcherError::Keeper)?,
        };
        for (file, value) in &prefetchers.before {
            let off = value | register.off;
            write(file, register, off)?;
            if read(file, register)? != off {
                let file = file.clone();
                return Err(PrefetcherError::KeepsNothing { file });
            }
        }
        Ok(prefetchers)
    }
}

impl Drop for PrefetchersOff {
    /// The keeper writes them again, and warns where it cannot.
    fn drop(&mut self) {
        for (file, value) in &self.before {
            let _ = write(file, self.register, *value);
        }
    }
}

fn file_of(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(cpu.to_string()).join("msr")
}

/// A file or folder that nobody else has locked.
fn locked(path: &Path) -> Result<File, PrefetcherError> {
    let file = File::open(path).map_err(|source| failed(path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(PrefetcherError::InUse),
        Err(TryLockError::Error(source)) => Err(failed(path, source)),
    }
}

fn register() -> Result<Register, PrefetcherError> {
    if is_intel() {
        Ok(INTEL)
    } else if is_zen_4_or_later() {
        Ok(AMD)
    } else {
        Err(PrefetcherError::UnknownProcessor)
    }
}

fn read(file: &Path, register: Register) -> Result<u64, PrefetcherError> {
    let mut bytes = [0; 8];
    let read =
        File::open(file).and_then(|opened| opened.read_exact_at(&mut bytes, register.number));
    match read {
        Ok(()) => Ok(u64::from_le_bytes(bytes)),
        Err(source) => Err(failed(file, source)),
    }
}

fn open_to_write(file: &Path) -> Result<File, PrefetcherError> {
    let opened = OpenOptions::new().write(true).open(file);
    opened.map_err(|source| failed(file, source))
}

fn write(file: &Path, register: Register, value: u64) -> Result<(), PrefetcherError> {
    let written = open_to_write(file)?.write_all_at(&value.to_le_bytes(), register.number);
    written.map_err(|source| failed(file, source))
}

fn failed(file: &Path, source: io::Error) -> PrefetcherError {
    /// What the kernel says where the processor has no such register.
    const EIO: i32 = 5;
    let file = file.to_owned();
    match source.raw_os_error() {
        Some(EIO) => PrefetcherError::KeepsNothing { file },
        _ => PrefetcherError::Register { file, source },
    }
}

/// The bytes of a register as the shell's `printf` writes them.
fn octal(value: u64) -> String {
    let bytes = value.to_le_bytes();
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Files that stand for the registers of two processors.
    fn registers(values: [u64; 2]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, value) in values.into_iter().enumerate() {
            let cpu = folder.path().join(cpu.to_string());
            fs::create_dir(&cpu).unwrap();
            fs::write(cpu.join("msr"), vec![0xAB; INTEL.number as usize + 16]).unwrap();
            write(&cpu.join("msr"), INTEL, value).unwrap();
        }
        folder
    }

    fn values(folder: &Path) -> [u64; 2] {
        [0, 1].map(|cpu: u32| read(&folder.join(cpu.to_string()).join("msr"), INTEL).unwrap())
    }

    #[test]
    fn prefetchers_are_off_for_a_while_and_then_as_they_were() {
        let folder = registers([0, 0x2A]);
        let off = PrefetchersOff::through(folder.path(), INTEL, &[0, 1]).unwrap();
        assert_eq!(values(folder.path()), [0b1111, 0x2F]);
        let again = PrefetchersOff::through(folder.path(), INTEL, &[0, 1]).unwrap_err();
        assert!(matches!(again, PrefetcherError::InUse), "{again}");
        drop(off);
        assert_eq!(values(folder.path()), [0, 0x2A]);
        let bytes = fs::read(folder.path().join("1/msr")).unwrap();
        let around = bytes.iter().filter(|byte| **byte == 0xAB).count();
        assert_eq!(
            (bytes.len(), around),
            (INTEL.number as usize + 16, INTEL.number as usize + 8)
        );
    }

    #[test]
    fn what_is_kept_for_the_case_of_a_kill_puts_them_back_by_itself() {
        let folder = registers([0x10, 5]);
        let mut off = PrefetchersOff::through(folder.path(), INTEL, &[0, 1]).unwrap();
        off.before.clear();
        drop(off);
        assert_eq!(values(folder.path()), [0x10, 5]);
    }

    #[test]
    fn a_processor_without_the_register_leaves_the_others_as_they_were() {
        let folder = registers([0, 1]);
        let error = PrefetchersOff::through(folder.path(), INTEL, &[0, 2]).unwrap_err();
        assert!(error.to_string().contains("modprobe msr"), "{error}");
        assert_eq!(values(folder.path()), [0, 1]);
        fs::remove_file(folder.path().join("1/msr")).unwrap();
        // What is written to it is lost.
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("1/msr")).unwrap();
        let error = PrefetchersOff::through(folder.path(), INTEL, &[0, 1]).unwrap_err();
        assert!(
            matches!(error, PrefetcherError::KeepsNothing { .. }),
            "{error}"
        );
        let first = read(&folder.path().join("0/msr"), INTEL).unwrap();
        assert_eq!(first, 0);
    }
}
