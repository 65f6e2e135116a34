//! What an earlier process has published, read where it lies.

use std::sync::Arc;

use super::options::{DataLink, Verify};
use super::publication::Unattached;
use super::table_pool::TablePool;
use crate::error::CheckpointError;
use crate::error::DurableError;
use crate::manifest::DatabaseManifest;
use nearfar_table::placement::Storage;

/// What an earlier process has published.
#[derive(Debug)]
pub(crate) struct Publication {
    /// The tables.
    pub manifest: DatabaseManifest,
    /// The term of the data directory that it was published in, by its identity; zero without a data
    /// directory.
    pub term: u64,
}

impl TablePool {
    /// What was published last; nothing where nothing was. Nothing of the main storage is copied, or
    /// looked at unless all is to be verified first.
    ///
    /// # Errors
    /// What was published can't be read; with [`Verify::All`], the first column that is damaged.
    pub(crate) fn attach(
        self: &Arc<Self>,
        storage: &Storage,
    ) -> Result<Option<Publication>, DurableError> {
        let Some(published) = self.published.lock().take() else {
            return Ok(None);
        };
        let folder = self.data.get().map(DataLink::segments);
        let mut found = Unattached::read(&self.place, &published, folder.as_deref())?;
        self.check_identity(found.identity)?;
        for entry in std::mem::take(&mut found.tables) {
            let table = found.attach(&self.place, entry, storage)?;
            found.manifest.tables.push(table);
        }
        let (manifest, term) = (found.manifest, found.term);
        if self.verify == Verify::All {
            verify(&manifest)?;
        }
        Ok(Some(Publication { manifest, term }))
    }

    fn check_identity(&self, found: u64) -> Result<(), CheckpointError> {
        let expected = self.data.get().map_or(0, |data| data.identity);
        if found == expected {
            return Ok(());
        }
        let path = self.place.path.clone();
        Err(match expected {
            0 => CheckpointError::NeedsDataDirectory { path },
            _ => CheckpointError::OtherDatabase { path },
        })
    }
}

/// Checks what has not been read yet of all segments of `manifest`.
///
/// # Errors
/// The first that is damaged.
fn verify(manifest: &DatabaseManifest) -> Result<(), DurableError> {
    for table in &manifest.tables {
        for part in table.snapshot.parts() {
            for slot in part.segment.columns() {
                slot.verify()?;
            }
            part.segment.sketches().verify()?;
        }
    }
    Ok(())
}
