//! What is asked of a map: its keys, which of them are asked for, and how.

mod distribution;
mod keys;
mod random;
mod requests;
mod spec;
mod zipf;

pub use distribution::{Distribution, HotRegion};
pub use keys::{Bytes, Integers, KeySpace, Pick, Urls};
pub(crate) use random::Random;
pub use requests::{Action, Request, Requests, Trace};
pub use spec::{Mix, UnknownWorkload, Workload};
