//! Where operators spill: the memory of a farther tier, and disk when that is full.
//!
//! Sorts, aggregations, sort-merge joins and repartitionings write what they have no memory for to
//! files of DataFusion's disk manager. [`SpillStore`] makes these files: their bytes lie in regions
//! of the session's `spill_tablespace`, which are charged to the tier's budget, and from the first
//! region that is refused on in a file on disk. On an emulated tier, writing and reading delay the
//! thread as a scan does. What a query has spilled is in its [`SpillAccount`].

mod file;
mod folder;
mod store;

pub use folder::SpillFolder;
pub use store::{SpillStore, SpillTier};
