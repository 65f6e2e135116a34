//! Far columns that are brought near ahead of the scan that reads them, by an engine that copies while cores work.
//!
//! A core that streams far memory has a few lines in flight, and works on one chunk of a column while the next one
//! comes. An engine brings whole stretches of rows near, of all columns that the scan reads most of
//! ([`Density`](super::cooperative::Density)): as one stretch is read, those behind it are on their way, across
//! the ends of pieces. A scan waits for a stretch that is not there yet, and reads the other columns as it would
//! without an engine.
//!
//! Threads have the engine copy ([`Copiers`]), or copy by themselves, to near memory that is written at its end while its
//! beginning is read ([`AppendArea`](nearfar_memory::AppendArea)); it is that of
//! [cooperative scans](super::cooperative). The engine of an emulated machine copies nothing: what it would bring near is
//! read where it is, and the scan is delayed until it would be there.

mod copiers;
mod reader;
mod stretch;

pub use copiers::Copiers;
pub use reader::{CopyEngine, Next, ReadAhead};
pub use stretch::{AheadColumns, Arrived};
