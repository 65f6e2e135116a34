//! Copies between far and near memory, by threads of their own.
//!
//! * [`streamed`] sends far bytes through a ring of near chunks: any number of consumers read every chunk,
//!   each at its own pace, and every chunk is copied once. It is for pipelines over the same far data that
//!   run concurrently, with as much near memory as the ring has.
//! * [`staged`] copies whole buffers in a given order while the caller works: pipelines that run one after
//!   the other wait only for what is not there yet, and data that they share is copied once. It goes in
//!   both directions.
//! * [`streamed_out`] sends what one producer fills near chunks with to far memory, through the same ring in the
//!   other direction: copiers write behind the producer, which waits for a free chunk when they are slower.
//!
//! Sources are slices, or whatever a [`Fetch`] reads: [`streamed_from`] and [`staged_from`]. Destinations of
//! [`streamed_to`] are whatever a [`Store`] writes.
//!
//! Memory is the caller's, and so are its budgets: regions that were refused are no buffers. Five copiers
//! copy by default, as in geyer-2023, section 5; [`Copiers::Adaptive`] lets as many of them work as
//! consumers wait for, and has them rest again when copies are ahead.
//!
//! Nobody waits for ever: copiers that die, and callers that cancel ([`CopyCancel`]), end all waits within
//! 100 ms, copies of large chunks included, if what a [`Fetch`] or a [`Store`] does ends in that time.

mod active;
mod bytes;
mod error;
mod fetch;
mod idxd;
mod method;
mod options;
mod outgoing;
mod ring;
mod stage;
mod store;
mod stream;
mod sync;
mod threads;

pub use self::error::CopyError;
pub use self::fetch::{Fetch, FetchError};
pub use self::method::{CopyMethod, MethodUnavailable};
pub use self::options::{Copier, Copiers, CopyOptions, MethodCopier};
pub use self::outgoing::{Outgoing, streamed_out, streamed_to};
pub use self::stage::{StagePart, Staged, staged, staged_from};
pub use self::store::{Store, StoreError};
pub use self::stream::{Chunk, Chunks, streamed, streamed_from};
pub use crate::cancel::Cancel as CopyCancel;
