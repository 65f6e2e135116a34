//! Tests of the trees through their public interface.

mod art;
