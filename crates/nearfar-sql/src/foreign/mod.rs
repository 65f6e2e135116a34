//! Files that others have written: Parquet, Arrow IPC and CSV.
//!
//! Libraries read them, and some trust what a file says of itself: they panic over types that there
//! are not, and allocate whatever a length says. So what can be known of a file from its metadata is
//! checked before a library gets it ([`check`], `GUARDED_FILES`), and a panic of a library while it
//! reads is an error which names the file ([`caught`]).

mod arrow_ipc;
mod caught;
mod check;
mod format;
mod guard;
mod parquet;
mod plan;
mod thrift;

pub use crate::error::{Damage, Panicked};
pub use caught::{caught, caught_now, is_caught_here};
pub use check::check;
pub use format::FileFormat;
pub(crate) use guard::GUARDED_FILES;
pub(crate) use plan::{physical_plan, reading};
