//! Knobs: what of the machine makes an aggressor slower.

mod bandwidth;
mod cgroup;
mod frequency;
mod pin;
mod quota;

use std::path::PathBuf;

pub use self::bandwidth::Bandwidth;
pub use self::frequency::Frequency;
pub use self::pin::Pin;
pub use self::quota::Quota;
use crate::error::RegulateError;
use crate::machine::MachineFiles;

/// A file with what is to be written to it: all of it, or, of a `schemata`, the lines that become others.
pub type Change = (PathBuf, String);

/// Makes an aggressor slower.
pub trait Knob {
    /// Its word in messages.
    fn name(&self) -> &'static str;

    /// A file that is there as long as the aggressor is.
    fn file(&self, machine: &MachineFiles) -> PathBuf;

    /// What to write so that the aggressor keeps `granted` of its speed; 1 takes nothing away.
    ///
    /// # Errors
    /// [`RegulateError::Vanished`] where the group is gone, and what else keeps files from being read.
    fn changes(&self, machine: &MachineFiles, granted: f64) -> Result<Vec<Change>, RegulateError>;
}
