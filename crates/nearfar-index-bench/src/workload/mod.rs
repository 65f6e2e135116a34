//! What is asked of a map: its keys, which of them are asked for, and how.

mod block_trace;
mod distribution;
mod key_file;
mod keys;
mod lines;
mod requests;
mod spec;
mod zipf;

pub use block_trace::{BlockTrace, TraceError, TraceKeys, generate_block_trace};
pub use distribution::{Distribution, HotRegion};
pub use key_file::{FileKeys, KeyFileError};
pub use keys::{Bytes, Integers, KeySpace, Pick, Urls};
pub use lines::LinesError;
pub(crate) use lines::open_lines;
pub use requests::{Action, ActionKind, Request, Requests, Trace};
pub use spec::{Mix, UnknownWorkload, Workload};
