//! Catalogs: which extents are published, and which are still used by readers of what was published before.

use std::ops::RangeInclusive;

use super::attach::Pool;
use super::checksum;
use super::error::PoolError;
use super::extent::Extent;
use super::root::Root;

/// What a root leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Catalog {
    /// The extents that are published.
    pub(super) extents: Vec<Extent>,
    /// Those that are not any more.
    pub(super) retired: Vec<Retired>,
    /// What the publisher has to say of them.
    pub(super) content: Vec<u8>,
}

/// An extent that is published no longer. Readers of earlier publications may still use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retired {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The first publication that had it, or an earlier one where that is not known.
    pub(super) first_generation: u64,
    /// The last publication that had it.
    pub(super) last_generation: u64,
}

impl Retired {
    /// Whether who looks at these publications may look at it.
    pub(super) fn is_in(&self, generations: &RangeInclusive<u64>) -> bool {
        self.first_generation <= *generations.end() && *generations.start() <= self.last_generation
    }
}

impl Root {
    /// Where its catalog lies.
    pub(super) fn catalog_extent(self) -> Extent {
        Extent {
            offset: self.catalog_offset,
            bytes: self.catalog_bytes,
            checksum: self.catalog_checksum,
        }
    }
}

impl Catalog {
    /// Reads the catalog of a root, checked.
    ///
    /// # Safety
    /// Nobody writes to its extent: the pool is this process's, which has given no space out yet, or this process has
    /// said that it reads what the root leads to.
    ///
    /// # Errors
    /// [`PoolError::Catalog`].
    pub(super) unsafe fn read(pool: &Pool, root: Root) -> Result<Self, PoolError> {
        let broken = |reason| PoolError::Catalog { reason };
        let extent = root.catalog_extent();
        if !pool.has(extent) {
            return Err(broken("its catalog lies outside of the pool"));
        }
        let range = extent.offset..extent.offset + extent.bytes;
        pool.memory.drop_cached(range.clone());
        // SAFETY: as the caller says.
        let bytes = unsafe { pool.memory.slice(range) };
        if checksum::of_bytes(bytes) != extent.checksum {
            return Err(broken("its catalog is damaged"));
        }
        Self::decode(bytes).ok_or(broken("its catalog is not a list of extents"))
    }

    /// The extents and those that are retired, each list with its length before it. The content comes behind.
    pub(super) fn head(extents: &[Extent], retired: &[Retired]) -> Vec<u8> {
        let entries = extents.iter().map(|it| [it.offset, it.bytes, it.checksum]);
        let older = retired
            .iter()
            .map(|it| [it.offset, it.bytes, it.first_generation, it.last_generation]);
        let mut head = Vec::with_capacity(16 + extents.len() * 24 + retired.len() * 32);
        put_list(&mut head, entries);
        put_list(&mut head, older);
        head
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (extents, rest) = list(bytes)?;
        let (retired, content) = list(rest)?;
        let extents = extents.map(|[offset, bytes, checksum]| Extent {
            offset,
            bytes,
            checksum,
        });
        let retired = retired.map(
            |[offset, bytes, first_generation, last_generation]| Retired {
                offset,
                bytes,
                first_generation,
                last_generation,
            },
        );
        Some(Self {
            extents: extents.collect(),
            retired: retired.collect(),
            content: content.to_vec(),
        })
    }
}

fn put_list<const WORDS: usize>(
    head: &mut Vec<u8>,
    entries: impl ExactSizeIterator<Item = [u64; WORDS]>,
) {
    head.extend_from_slice(&(entries.len() as u64).to_ne_bytes());
    for word in entries.flatten() {
        head.extend_from_slice(&word.to_ne_bytes());
    }
}

/// The entries of a list, and what comes behind it.
fn list<const WORDS: usize>(bytes: &[u8]) -> Option<(impl Iterator<Item = [u64; WORDS]>, &[u8])> {
    let (count, rest) = bytes.split_first_chunk()?;
    let count = usize::try_from(u64::from_ne_bytes(*count)).ok()?;
    let (entries, rest) = rest.split_at_checked(count.checked_mul(WORDS * 8)?)?;
    let (words, _) = entries.as_chunks::<8>();
    let (entries, _) = words.as_chunks::<WORDS>();
    let entries = entries.iter().map(|entry| entry.map(u64::from_ne_bytes));
    Some((entries, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_is_read_as_it_was_written_and_not_beyond() {
        let extents = [1, 2].map(|n| Extent {
            offset: n << 12,
            bytes: n,
            checksum: n * 7,
        });
        let retired = [Retired {
            offset: 3 << 12,
            bytes: 5,
            first_generation: 8,
            last_generation: 9,
        }];
        let mut bytes = Catalog::head(&extents, &retired);
        bytes.extend_from_slice(b"content");
        let found = Catalog::decode(&bytes).expect("a catalog");
        assert_eq!(found.extents, extents);
        assert_eq!(found.retired, retired);
        assert_eq!(found.content, b"content");
        let head = bytes.len() - b"content".len();
        for cut in 0..head {
            assert_eq!(Catalog::decode(&bytes[..cut]), None, "{cut}");
        }
        bytes[..8].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(Catalog::decode(&bytes), None);
    }
}
