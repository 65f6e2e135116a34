//! What can go wrong with a pool.

use std::path::PathBuf;

use super::extent::Extent;
use super::ownership::OwnerRecord;
use super::reader_slots::ReaderRecord;
use crate::sys::SysError;

/// Why a pool could not be made, attached, owned, read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// A call to the kernel failed.
    #[error("the pool {} cannot be {doing}", path.display())]
    System {
        /// The file or device.
        path: PathBuf,
        /// What was to be done, as a participle.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
    /// A pool of this size cannot be.
    #[error(
        "a pool of {bytes} bytes: give a multiple of {} of at least {}",
        super::attach::GRAIN_BYTES,
        super::attach::BYTES_MIN
    )]
    Size {
        /// The bytes asked for, or those of the file.
        bytes: u64,
    },
    /// There is a pool already, which creating another would destroy.
    #[error("there is a pool at {} already: attach it, or remove it first", path.display())]
    Exists {
        /// The file or device.
        path: PathBuf,
    },
    /// A pool cannot be made where somebody else has the file's lock.
    #[error(
        "another process is making or using the pool at {} just now: attach it, or try again",
        path.display()
    )]
    InUse {
        /// The file or device.
        path: PathBuf,
    },
    /// The memory holds no pool.
    #[error("{} holds no pool: {reason}", path.display())]
    NotAPool {
        /// The file or device.
        path: PathBuf,
        /// What is there instead.
        reason: String,
    },
    /// The pool was written by a machine with the other byte order.
    #[error("the pool {} was written by a machine with the other byte order", path.display())]
    ByteOrder {
        /// The file or device.
        path: PathBuf,
    },
    /// The pool has another version of the layout.
    #[error(
        "the pool {} has version {found} of the layout, this program knows version {known}",
        path.display()
    )]
    Version {
        /// The file or device.
        path: PathBuf,
        /// The version of the pool.
        found: u64,
        /// The version of this program.
        known: u64,
    },
    /// Somebody else owns the pool.
    #[error(
        "the pool is owned by {record}: stop it, wait for its lease to end, or take over by force"
    )]
    Owned {
        /// The owner.
        record: OwnerRecord,
    },
    /// Somebody else has taken the pool over: this owner must not write any more.
    #[error("the pool was taken over (epoch {by_epoch} after {epoch}): this owner writes no more")]
    Fenced {
        /// The epoch of this owner.
        epoch: u64,
        /// The epoch of the present one.
        by_epoch: u64,
    },
    /// This owner has given the pool back, and writes no more.
    #[error("the pool was given back: nothing can be written to it any more")]
    GivenBack,
    /// No free extent is large enough.
    #[error(
        "the pool has no room for {bytes} bytes: the largest free extent has {largest_free_bytes}{}",
        kept_for_readers(*read_bytes)
    )]
    Full {
        /// The bytes asked for.
        bytes: u64,
        /// What is there.
        largest_free_bytes: u64,
        /// What is published no longer, and may be read.
        read_bytes: u64,
    },
    /// The tier that the pool lies on has no budget for what is in use of it.
    #[error(
        "{bytes} bytes of the pool exceed the budget of tier {tier}, of which {available_bytes} are \
         left: raise it"
    )]
    Budget {
        /// The bytes of an extent.
        bytes: u64,
        /// The tier.
        tier: String,
        /// What is left of its budget.
        available_bytes: u64,
    },
    /// Bytes are not those that were published.
    #[error(
        "{bytes} bytes at {offset} of the pool are damaged (checksum {found:#018x} instead of \
         {expected:#018x}): rebuild them from durable storage",
        bytes = extent.bytes, offset = extent.offset, expected = extent.checksum
    )]
    Damaged {
        /// The extent that was published.
        extent: Extent,
        /// The checksum of what is there.
        found: u64,
    },
    /// No reader can have this name.
    #[error("a reader of a pool can't be called {name:?}: give it a name of 1 to 64 bytes")]
    ReaderName {
        /// The name.
        name: String,
    },
    /// The pool has no place for another reader.
    #[error("the pool has as many readers as it can have: {}", names(readers))]
    Readers {
        /// Those that it has.
        readers: Vec<ReaderRecord>,
    },
    /// The place of this reader was given to another one of its name, or taken from it by force: what it has attached may
    /// be anything by now.
    #[error(
        "this reader of the pool was taken for gone, or another one has its name: it must not use it any more"
    )]
    Forgotten,
    /// What was published can't be forgotten while others may look at it.
    #[error(
        "what was published in the pool can't be used, and can't be replaced while it is read: end {}, or say that \
         it is gone for good",
        names(readers)
    )]
    Read {
        /// Those that may look at it.
        readers: Vec<ReaderRecord>,
    },
    /// What was published last cannot be read.
    #[error("what was published in the pool cannot be read: {reason}")]
    Catalog {
        /// What is wrong with it.
        reason: &'static str,
    },
}

fn names(readers: &[ReaderRecord]) -> String {
    let names = readers.iter().map(ReaderRecord::to_string);
    names.collect::<Vec<_>>().join(", ")
}

fn kept_for_readers(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => {
            format!(", and {bytes} bytes are kept for those that read what was published before")
        }
    }
}
