//! Operators on this machine: sums and filters beside a plain read of the same bytes, and hash joins that give all
//! columns of their rows, by one thread over near memory; sums, joins and pipelines of several threads over near memory
//! and a far tier, the machine's own or an emulated one.
//!
//! Kernels are generic: they are compiled where they are called, with that crate's optimization. So what is
//! timed is called here, and `nearfar-bench` sets rivals beside it.

mod error;
mod grouped;
mod join;
mod pipelines;
mod reads;
mod room;
mod rows;
mod sums;
mod threads;
mod tiers;

pub use self::error::TierRunError;
pub use self::grouped::tier_joins;
pub use self::join::{JOIN_ROW_BYTES, JoinColumns, Joined, checksum, join};
pub use self::pipelines::tier_pipelines;
pub use self::reads::{READ_FILTER_HIGH, ReadColumn, ReadColumnError, ReadFound, ReadRound};
pub use self::room::{available_bytes, check_room};
pub use self::rows::{Grouped, grouped, passed, summary};
pub use self::sums::tier_sums;
pub use self::tiers::{OperatorTiers, OperatorTiersError};
