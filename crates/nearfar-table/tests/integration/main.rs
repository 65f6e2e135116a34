//! Tests through the public interface only.

mod concurrent;
