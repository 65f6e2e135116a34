//! Operators on this machine's near memory, by one thread: sums and filters beside a plain read of the
//! same bytes, and hash joins that give all columns of their rows.
//!
//! Kernels are generic: they are compiled where they are called, with that crate's optimization. So what is
//! timed is called here, and `nearfar-bench` sets rivals beside it.

mod join;
mod reads;

pub use self::join::{JOIN_ROW_BYTES, JoinColumns, Joined, checksum, join};
pub use self::reads::{ReadColumn, ReadColumnError, ReadRound};
