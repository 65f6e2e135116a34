//! What users of the crate rely on.

mod placement;
mod specification;
