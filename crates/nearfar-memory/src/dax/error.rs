//! Why a DAX device gives no memory.

use std::path::PathBuf;

use crate::sys::SysError;

/// Why a DAX device gives no memory. Nothing was written to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DaxError {
    /// The tier of the device was given no budget, by which its use is allowed.
    #[error(
        "device {} is used only if its tier is given a budget, since what is on it would be overwritten: \
         write --budget TIER=BYTES", path.display()
    )]
    NoBudget {
        /// The device.
        path: PathBuf,
    },
    /// The device cannot be opened.
    #[error("device {} cannot be opened for reading and writing{}", path.display(), hint(source))]
    Open {
        /// The device.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// Another process, or another memory system or a pool of this one, has the device.
    #[error(
        "device {} is in use by {}: two processes, or a tier and a pool, cannot share a device; \
         end the one or give the other another device", path.display(), owner(*owner_pid)
    )]
    InUse {
        /// The device.
        path: PathBuf,
        /// The process that has it, where the kernel tells.
        owner_pid: Option<u32>,
    },
    /// There is a pool in the device.
    #[error(
        "device {} holds a pool, which a tier would overwrite: use it with --pool, put the tier on \
         another device, or give the pool up by overwriting the first 4096 bytes of the device",
        path.display()
    )]
    HoldsPool {
        /// The device.
        path: PathBuf,
    },
    /// The device has less than a page of its own.
    #[error(
        "device {} has {device_bytes} bytes, less than a page of its alignment of {page_bytes} bytes: \
         make it larger or align it finer with daxctl", path.display()
    )]
    TooSmall {
        /// The device.
        path: PathBuf,
        /// Its size.
        device_bytes: u64,
        /// Its alignment.
        page_bytes: usize,
    },
    /// The device has not so many bytes left.
    #[error(
        "device {} has {available_bytes} bytes left, but {requested_bytes} bytes are needed, in pages \
         of {page_bytes} bytes: place less there", path.display()
    )]
    Full {
        /// The device.
        path: PathBuf,
        /// The bytes asked for.
        requested_bytes: u64,
        /// The bytes left.
        available_bytes: u64,
        /// The alignment of the device.
        page_bytes: usize,
    },
    /// What is asked for would take more kernel mappings than one owner may have.
    #[error(
        "{mappings} mappings of device {} would be needed, and at most {mappings_max} are made: \
         place larger parts in a row, or all of it there", path.display()
    )]
    TooManyMappings {
        /// The device.
        path: PathBuf,
        /// The mappings that would be needed.
        mappings: usize,
        /// The most that are made.
        mappings_max: usize,
    },
    /// The device cannot be mapped.
    #[error(
        "{bytes} bytes at offset {offset} of device {}, whose alignment is {page_bytes}, cannot be \
         mapped{}", path.display(), map_hint(source)
    )]
    Map {
        /// The device.
        path: PathBuf,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
        /// The alignment of the device.
        page_bytes: usize,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// Memory of this process lies elsewhere than on the device.
    #[error(
        "{bytes} bytes should be mapped from offset {offset} of device {}, and are not",
        path.display()
    )]
    NotMapped {
        /// The device.
        path: PathBuf,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
    },
}

fn owner(pid: Option<u32>) -> String {
    match pid {
        Some(pid) if pid == std::process::id() => format!("this process ({pid})"),
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

fn hint(source: &SysError) -> &'static str {
    match source.errno {
        libc::EACCES | libc::EPERM => {
            ": it is the superuser's unless it is given to others; run as one who may write it"
        }
        libc::ENOENT | libc::ENXIO | libc::ENODEV => {
            ": there is no such device; `daxctl list` shows those there are, and their mode has to \
             be devdax"
        }
        _ => "",
    }
}

fn map_hint(source: &SysError) -> &'static str {
    match source.errno {
        libc::ENOMEM => ": the process may have too many mappings (vm.max_map_count)",
        _ => "",
    }
}
