//! Tests through the public interface only.

mod concurrent;
mod indexes;
mod support;
mod tails;
