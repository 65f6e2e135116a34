//! Column segments: the encoded values of one column for a run of rows, in one region.
//!
//! A segment is immutable. Its bytes lie in a [`Region`](nearfar_memory::Region) whose placement
//! decides on which tiers they are; zone maps (smallest and largest code per
//! [`ZONE_ROWS`] rows) stay on the heap, near, so that ruling a zone out never touches far memory.
//!
//! Encodings are byte aligned, so that every kernel here is a plain loop the compiler vectorises, and
//! filters on codes run through `nearfar-kernels` ([`Selector`]):
//!
//! | encoding | values | stored as |
//! |---|---|---|
//! | narrow | integers, decimals, dates, times | smallest value + 1, 2, 4 or 8 byte offsets |
//! | dictionary | strings with few distinct values | sorted dictionary + 1, 2 or 4 byte codes |
//! | strings | other strings | 4 byte offsets + bytes |
//! | plain | everything else | the Arrow buffers |

mod codes;
mod column;
mod column_builder;
mod decode;
mod dictionary;
mod encode;
mod few;
mod form;
mod integers;
mod layout;
mod memory;
mod narrow;
mod plain;
mod pool;
mod ranges;
mod rows;
mod selector;
mod streamed;
mod tail;
mod value;
mod zones;

pub use codes::{Code, CodeRange, Codes, with_codes};
pub use column::{ColumnSegment, Encoding, EncodingKind};
pub use column_builder::ColumnBuilder;
pub use encode::{Target, encode_column};
pub use few::FewRows;
pub(crate) use few::heap_column;
pub use form::{ArrayForm, BufferForm, ColumnForm, DEPTH_MAX, FormError, ValuesForm};
pub use integers::integer_array;
pub use memory::{PoolBytes, SegmentMemory};
pub(crate) use narrow::{Integer, for_each_integer, with_integer_type};
pub use narrow::{integers, is_integer_like};
pub use plain::encode_together;
pub use pool::ColumnPool;
pub use ranges::Ranges;
pub use rows::RowSet;
pub use selector::Selector;
pub use streamed::StreamedBytes;
pub use tail::{NewValues, RowValues, Tail, TailRows};
pub use value::OneValue;
pub(crate) use value::array_of;
pub use zones::{Verdict, ZONE_ROWS, Zones};

#[cfg(test)]
mod tests;
