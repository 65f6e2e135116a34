//! Tests through the public interface only.

mod concurrent;
mod index_placement;
mod indexes;
mod support;
mod tails;
mod waits;
